import pytest
from datasets import run_script

import tfrds

IMPORT_SCRIPT = """
import sys
import tfrds
dir(tfrds)
for name in ("tensorflow", "tensorflow_datasets", "keras", "numpy", "PIL", "jax", "torch"):
    if name in sys.modules:
        sys.exit(f"import tfrds imports {name}")
"""

LIGHT_SCRIPT = """
import sys
import tfrds
tfrds.BuildOptions, tfrds.ReadOptions, tfrds.ConfigError
for name in tfrds.sources.__all__:
    getattr(tfrds.sources, name)
for name in ("tensorflow", "tensorflow_datasets", "keras", "pandas", "pyarrow"):
    if name in sys.modules:
        sys.exit(f"options, errors and sources import {name}")
"""


def test_all_is_what_design_promises_and_sorted():
    assert tfrds.__all__ == [
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


def test_all_sources_are_public_and_sorted():
    assert tfrds.sources.__all__ == [
        "Archive",
        "Arrays",
        "Cifar",
        "Coco",
        "Idx",
        "ImageFolder",
        "Manifest",
        "Npz",
        "TFRecords",
        "TfdsDataset",
    ]
    for name in tfrds.sources.__all__:
        source = getattr(tfrds.sources, name)
        assert source.__doc__
        assert isinstance(source.kind, str)
        assert isinstance(source.is_in_memory, bool)
        assert callable(source.with_label_kind)


@pytest.mark.parametrize("name", tfrds.__all__)
def test_every_public_name_is_there_and_has_a_docstring(name):
    value = getattr(tfrds, name)
    assert value is getattr(tfrds, name)
    assert value.__doc__


def test_dir_lists_all_public_names():
    assert set(tfrds.__all__) <= set(dir(tfrds))
    assert tfrds.__version__ in dir(tfrds) or "__version__" in dir(tfrds)


def test_star_import_gives_all_public_names():
    namespace = {}
    exec("from tfrds import *", namespace)
    assert set(tfrds.__all__) <= set(namespace)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'tfrds' has no attribute 'laod'"):
        tfrds.laod  # noqa: B018


@pytest.mark.parametrize("script", [IMPORT_SCRIPT, LIGHT_SCRIPT])
def test_importing_does_no_work_and_prints_nothing(script):
    process = run_script(script)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


def test_the_names_that_stand_in_datasets_are_frozen():
    # features.json of every dataset names them: a move would need TFDS's ALIASES.
    assert (
        f"{tfrds.features.Image.__module__}.{tfrds.features.Image.__qualname__}"
        == "tfrds.features.Image"
    )
    assert (
        f"{tfrds.features.Label.__module__}.{tfrds.features.Label.__qualname__}"
        == "tfrds.features.Label"
    )


def test_errors_are_what_python_code_catches():
    assert issubclass(tfrds.ConfigError, ValueError)
    assert issubclass(tfrds.SourceError, ValueError)
    assert issubclass(tfrds.EncodeError, ValueError)
    assert issubclass(tfrds.DatasetError, RuntimeError)
    for error in (tfrds.ConfigError, tfrds.SourceError, tfrds.EncodeError, tfrds.DatasetError):
        assert issubclass(error, tfrds.TfrdsError)
