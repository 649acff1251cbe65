"""The arguments of the command line that say what the images come from, and how they are read.

Gets the parsed arguments, gives the source; `build` and `append` have the same ones.
"""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfrds.data_dirs import remember_data_dir
from tfrds.errors import ConfigError
from tfrds.write.source_formats import DESCRIPTIONS, FORMATS

if TYPE_CHECKING:
    from tfrds.write.sources.base import Source
    from tfrds.write.sources.recognise import Recognised

SOURCE_HELP = (
    "folder of class/.../file or split/class/.../file, table of images (CSV, JSON Lines, "
    "Parquet), zip or tar, TFRecord files, .npz, idx files, CIFAR, COCO's JSON, or tfds:NAME"
)

# Of each argument the formats that have it, and what their sources call it.
_FIELDS: dict[str, dict[str, str]] = {
    "layout": {"folder": "layout", "archive": "layout"},
    "class_level": {"folder": "class_level", "archive": "class_level"},
    "image": {
        "manifest": "image",
        "npz": "images",
        "tfds": "image_key",
        "tfrecords": "image_key",
    },
    "label": {
        "archive": "label",
        "cifar": "label",
        "manifest": "label",
        "npz": "labels",
        "tfds": "label_key",
        "tfrecords": "label_key",
    },
    "separator": {"manifest": "separator"},
    "label_offset": {"tfrecords": "label_offset"},
    "root": {"coco": "root", "manifest": "root"},
}

# Formats of which several columns may make one label.
_WITH_SEVERAL_LABELS = ("manifest",)


def add_source_arguments(add: Callable[..., Any]) -> None:
    """Adds them to a command, by what adds arguments to it."""
    add(
        "--format",
        choices=FORMATS,
        help="what SOURCE is: folder (of images), manifest (a table), archive, ...; else found out",
    )
    add(
        "--layout",
        choices=("class", "split", "webdataset"),
        help="what the folders at the top are named after, of folders and archives; else found out",
    )
    add(
        "--class-level",
        choices=("first", "all"),
        help="of nested folders: the first one is the class (default), or all are one, a/b",
    )
    add("--image", metavar="NAME", help="column, key or array of the images; else by its name")
    add(
        "--label",
        action="append",
        metavar="NAME",
        help="column, key, field or array of the labels, fine or coarse of CIFAR-100; several "
        "times for columns that make one label; else by its name",
    )
    add("--separator", metavar="TEXT", help="between the classes in one cell of a table")
    add("--label-offset", type=int, metavar="N", help="added to class numbers of TFRecord files")
    add("--root", metavar="DIR", help="folder that paths in a table or in COCO's JSON start from")


def open_source(options: argparse.Namespace) -> "Source":
    """Returns the source that the arguments mean.

    Raises:
      ConfigError: an argument that the source's format does not have, or may be several formats.
      SourceError: there is no such source.
    """
    import tfrds.sources  # noqa: F401 - says what opens "tfds:mnist"
    from tfrds.write.sources.recognise import recognise

    if options.data_dir:
        remember_data_dir(options.data_dir)  # what TFDS has prepared may lie there too
    found = recognise(options.source, options.format)
    arguments: dict[str, Any] = {}
    for name, fields in _FIELDS.items():
        value = getattr(options, name)
        if value is not None:
            _check_has(found, name, fields)
            arguments[fields[found.format]] = _one(found, value) if name == "label" else value
    return found.open(**arguments)


def _check_has(found: "Recognised", name: str, fields: dict[str, str]) -> None:
    if found.format not in fields:
        listed = ", ".join(f"{DESCRIPTIONS[format]} ({format})" for format in sorted(fields))
        raise ConfigError(
            f"--{name.replace('_', '-')}: is for {listed}, but {found.name} is {found.description} "
            f"({found.format}). Leave it out, or pass another --format."
        )


def _one(found: "Recognised", names: list[str]) -> str | list[str]:
    if len(names) == 1:
        return names[0]
    if found.format not in _WITH_SEVERAL_LABELS:
        raise ConfigError(
            f"--label: expected one name for {found.description} ({found.format}), got {names}."
        )
    return names
