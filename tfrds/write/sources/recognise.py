"""What a path or text is: which source reads it, told by looking.

Gets what a user passes as a source, gives `Recognised`, which opens the source; `as_source` and the
command line ask here. Content counts more than names. What may be two things is an error that names
both.
"""

import dataclasses
import difflib
import glob
import logging
import os
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from tfrds.checks import check_choice
from tfrds.errors import ConfigError, SourceError
from tfrds.write.sniffing import SNIFF_BYTES, describe
from tfrds.write.source_formats import DESCRIPTIONS, FORMATS
from tfrds.write.sources.archive import Archive
from tfrds.write.sources.base import Source
from tfrds.write.sources.by_split import BySplit
from tfrds.write.sources.cifar import Cifar
from tfrds.write.sources.cifar_files import is_cifar
from tfrds.write.sources.class_tree import is_split_word
from tfrds.write.sources.coco import Coco
from tfrds.write.sources.file_looks import (
    FileKind,
    file_kind,
    files_of_kind,
    has_json_lines,
    list_folder,
    look_below,
)
from tfrds.write.sources.files_by_split import by_split
from tfrds.write.sources.folder import ImageFolder
from tfrds.write.sources.idx import Idx
from tfrds.write.sources.manifest import Manifest
from tfrds.write.sources.npz import Npz
from tfrds.write.sources.tfrecords import TFRecords

_FORMAT_OF: dict[FileKind, str] = {
    "archive": "archive",
    "idx": "idx",
    "json": "coco",
    "npz": "npz",
    "parquet": "manifest",
    "table": "manifest",
    "tfrecords": "tfrecords",
}

# What such files in a folder make it. Files of text lie in many: as tables they are read where they
# are called metadata.
_FORMAT_OF_FOLDER: dict[FileKind, str] = {
    "idx": "idx",
    "image": "folder",
    "parquet": "manifest",
    "tfrecords": "tfrecords",
}

_TFDS_PREFIX = "tfds:"
_METADATA = frozenset(("metadata.csv", "metadata.jsonl", "metadata.parquet"))
_TFDS_FILES = ("dataset_info.json", "features.json")

# Formats of which a pattern or a folder may hold many files.
_OF_MANY = ("archive", "manifest", "tfrecords")
_BRACES = re.compile(r"\{[^{}]*\}")
_LOOKED_AT = 20

_log = logging.getLogger("tfrds")

# Formats whose sources lie outside of `tfrds.write`, since they import what it must not.
_openers: dict[str, Callable[..., Source]] = {}


def add_opener(format: str, opener: Callable[..., Source]) -> None:
    """Says what opens the sources of a format that this package knows the name of only."""
    _openers[format] = opener


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recognised:
    """What something was taken for.

    Attributes:
      name: of it, as the user gave it.
      format: one of `FORMATS`.
      make: makes the source; takes keyword arguments of its class.
      is_guess: whether it was told by looking.
    """

    name: str
    format: str
    make: Callable[..., Source]
    is_guess: bool

    @property
    def description(self) -> str:
        """What a source of this format is called."""
        return DESCRIPTIONS[self.format]

    def open(self, **arguments: Any) -> Source:
        """Returns the source, and says what it was taken for; a folder of images says it itself."""
        if self.is_guess and self.format != "folder":
            _log.info("%s: taken for %s (%s).", self.name, self.description, self.format)
        return self.make(**arguments)


def recognise(source: os.PathLike[str] | str, format: str | None = None) -> Recognised:
    """Returns what a source is.

    Args:
      source: path of a file or folder, a pattern of files, or "tfds:NAME".
      format: one of `FORMATS`; None: by looking.

    Raises:
      ConfigError: no such format, or what may be several.
      SourceError: nothing is there, or nothing that can be read.
    """
    if format is not None:
        check_choice("format", format, FORMATS)
    name = os.fsdecode(source)
    is_tfds = isinstance(source, str) and name.startswith(_TFDS_PREFIX)
    path = pathlib.Path(name).expanduser()
    if format is None and not is_tfds:
        format, is_guess = _look(name, path), True
    else:
        format, is_guess = format or "tfds", False
    make = _maker(name, path, format)
    return Recognised(name=name, format=format, make=make, is_guess=is_guess)


def _look(name: str, path: pathlib.Path) -> str:
    """Returns the format of a path or pattern."""
    if path.is_dir():
        return _folder_format(name, path)
    if path.exists():
        return _file_format(path)
    matches = _matches(path)
    if not matches:
        raise SourceError(
            f"{name}: expected a folder, a file, a pattern of files or tfds:NAME, found nothing."
            f"{_near(path)}"
        )
    formats = sorted({_file_format(pathlib.Path(match)) for match in matches[:_LOOKED_AT]})
    if len(formats) > 1:
        raise _ambiguous(name, formats)
    if formats[0] not in _OF_MANY:
        raise ConfigError(
            f"source: a pattern is for archives, tables and TFRecord files, but {name} stands for "
            f"{DESCRIPTIONS[formats[0]]}. Pass one of them, or a dict of them by split."
        )
    return formats[0]


def _folder_format(name: str, folder: pathlib.Path) -> str:
    if all((folder / file).is_file() for file in _TFDS_FILES):
        return "tfds"
    files, folders = list_folder(folder)
    if is_cifar(set(files)):
        return "cifar"
    splits = [child for child in folders if is_split_word(os.fsencode(child))]
    if _METADATA & set(files) or _has_metadata(folder, splits):
        return "manifest"
    kinds = look_below(folder)
    found = {_FORMAT_OF_FOLDER[kind] for kind in kinds if kind in _FORMAT_OF_FOLDER}
    if _has_metadata(folder, folders):
        found.add("manifest")  # or these are notes in the folder of a class
    if len(found) > 1:
        raise _ambiguous(name, sorted(found))
    if not found and "archive" in kinds:
        # Beside other files it is what these were unpacked from.
        return "archive"
    return found.pop() if found else "folder"


def _has_metadata(folder: pathlib.Path, children: Sequence[str]) -> bool:
    return any((folder / child / file).is_file() for child in children for file in _METADATA)


def _file_format(path: pathlib.Path) -> str:
    if not path.is_file():
        raise SourceError(f"{path}: expected a file or a folder, found neither.")
    kind = file_kind(path)
    if kind == "json" and has_json_lines(path):
        raise SourceError(
            f"{path}: expected COCO-style JSON, one object, found an object on each line. Name "
            f"it {path.with_suffix('.jsonl').name} to read it as a table."
        )
    if kind in _FORMAT_OF:
        return _FORMAT_OF[kind]
    with path.open("rb") as file:
        head = file.read(SNIFF_BYTES)
    what, advice = {
        "image": ("is a single image", "Pass the folder that holds the folders of the classes"),
        "npy": ("is a single array", "Pass tfrds.sources.Arrays(images, labels)"),
        "pickle": ("is pickled, and unpickling runs code", "Save it in another format"),
    }.get(
        kind,
        (
            f"cannot be told what it is, {describe(head)}" if head else "is empty",
            f"Pass --format with one of {list(FORMATS)}, or a source of tfrds.sources",
        ),
    )
    raise SourceError(f"{path}: {what}. {advice}.")


def _maker(name: str, path: pathlib.Path, format: str) -> Callable[..., Source]:
    """Returns what makes the source of a format that is known."""
    if format == "tfds":
        if format not in _openers:
            raise ConfigError(
                f"source: {name!r} is opened by tfrds.sources.TfdsDataset. Pass "
                f"TfdsDataset({name.removeprefix(_TFDS_PREFIX)!r})."
            )
        opener, where = _openers[format], path if path.is_dir() else None
        return _bound(opener, where or name.removeprefix(_TFDS_PREFIX))
    if format in ("archive", "tfrecords"):
        return _maker_of_many(path, format)
    one: dict[str, Callable[..., Source]] = {
        "folder": ImageFolder,
        "manifest": Manifest,
        "npz": Npz,
        "idx": Idx,
        "cifar": Cifar,
        "coco": Coco,
    }
    if format == "manifest" and not path.exists():
        return _bound(Manifest, _matches(path) or path)
    return _bound(one[format], path)


def _maker_of_many(path: pathlib.Path, format: str) -> Callable[..., Source]:
    """Returns what makes the source of one or many files, of the splits that their names say."""
    kind: FileKind = "archive" if format == "archive" else "tfrecords"
    if path.is_dir():
        paths = files_of_kind(path, kind)
        if not paths:
            raise SourceError(f"{path}: expected {DESCRIPTIONS[format]} below it, found none.")
    else:
        paths = [] if path.exists() or _BRACES.search(path.name) else _matches(path)
    splits = by_split(paths) if paths else None
    if format == "tfrecords":
        return _bound(TFRecords, splits or paths or path)
    if splits is None:
        return _bound(Archive, paths or path)
    return lambda **arguments: BySplit(
        {split: Archive(files, **arguments) for split, files in splits.items()}
    )


def _bound(make: Callable[..., Source], what: Any) -> Callable[..., Source]:
    return lambda **arguments: make(what, **arguments)


def _matches(path: pathlib.Path) -> list[str]:
    """Returns the files that a pattern stands for; what braces say more exactly is left open."""
    return sorted(
        match for match in glob.glob(_BRACES.sub("*", str(path))) if not os.path.isdir(match)
    )


def _ambiguous(name: str, formats: Sequence[str]) -> ConfigError:
    listed = " or ".join(f"{DESCRIPTIONS[format]} ({format})" for format in formats)
    return ConfigError(
        f"source: {name} may be {listed}. Pass --format, or the source itself from tfrds.sources."
    )


def _near(path: pathlib.Path) -> str:
    """Returns a sentence with what lies beside it under a similar name, or nothing."""
    try:
        names = sorted(os.listdir(path.parent))
    except OSError:
        return f" There is no folder {str(path.parent)!r}."
    near = difflib.get_close_matches(path.name, names, n=1)
    return f" Did you mean {str(path.parent / near[0])!r}?" if near else ""
