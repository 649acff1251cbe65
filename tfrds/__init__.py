"""Labelled images for Keras: TFRecord shards, built once and read by name at the machine's limit.

Importing this does no work. Each public name is imported when it is first used; besides there is
only a note to the import system, so that `tfds.load` finds datasets of tfrds and
`tfds.show_examples` shows them, whichever of the two packages is imported first.
"""

import importlib
from typing import TYPE_CHECKING, Any

import wrapt

__version__ = "0.1.0"

# Where each public name lives.
_MODULES = {
    "BuildOptions": "tfrds.spec",
    "ConfigError": "tfrds.errors",
    "DatasetError": "tfrds.errors",
    "EncodeError": "tfrds.errors",
    "ImageDatasetBuilder": "tfrds.image_builder",
    "ReadOptions": "tfrds.read_options",
    "SourceError": "tfrds.errors",
    "TfrdsError": "tfrds.errors",
    "TfrdsWarning": "tfrds.errors",
    "VerifyResult": "tfrds.tools.verify",
    "append": "tfrds.revise",
    "build": "tfrds.no_code",
    "builder": "tfrds.by_name",
    "class_weight": "tfrds.class_weights",
    "data_source": "tfrds.by_name",
    "edit": "tfrds.revise",
    "from_tfrecords": "tfrds.adopt",
    "load": "tfrds.by_name",
    "mix": "tfrds.mixture",
    "preprocess": "tfrds.preprocessing",
    "verify": "tfrds.tools.verify",
}
_SUBMODULES = ("augment", "features", "keras", "sources")

__all__ = [
    "BuildOptions",
    "ConfigError",
    "DatasetError",
    "EncodeError",
    "ImageDatasetBuilder",
    "ReadOptions",
    "SourceError",
    "TfrdsError",
    "TfrdsWarning",
    "VerifyResult",
    "append",
    "augment",
    "build",
    "builder",
    "class_weight",
    "data_source",
    "edit",
    "features",
    "from_tfrecords",
    "keras",
    "load",
    "mix",
    "preprocess",
    "sources",
    "verify",
]

if TYPE_CHECKING:
    from tfrds import augment, features, keras, sources
    from tfrds.adopt import from_tfrecords
    from tfrds.by_name import builder, data_source, load
    from tfrds.class_weights import class_weight
    from tfrds.errors import (
        ConfigError,
        DatasetError,
        EncodeError,
        SourceError,
        TfrdsError,
        TfrdsWarning,
    )
    from tfrds.image_builder import ImageDatasetBuilder
    from tfrds.mixture import mix
    from tfrds.no_code import build
    from tfrds.preprocessing import preprocess
    from tfrds.read_options import ReadOptions
    from tfrds.revise import append, edit
    from tfrds.spec import BuildOptions
    from tfrds.tools.verify import VerifyResult, verify


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"tfrds.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'tfrds' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _on_tfds_import(tfds: Any) -> None:
    importlib.import_module("tfrds.provider").install(tfds)
    importlib.import_module("tfrds.visualizer").install()


wrapt.register_post_import_hook(_on_tfds_import, "tensorflow_datasets")
