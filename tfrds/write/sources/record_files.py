"""Which TFRecord files are meant: paths and patterns, by split, and the names that keys begin with.

Gets what a user passes, gives the files in order of their names; `tfrecords.py` reads them.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from tfrds.checks import check_split_name
from tfrds.errors import ConfigError
from tfrds.write.sources.class_tree import key_of
from tfrds.write.sources.given_files import find_given, parse_given


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """One file.

    Attributes:
      path: absolute.
      name: relative to the folder that holds all of them, "/" between folders, NFC.
      split: position among the splits; 0 where there are none.
    """

    path: str
    name: str
    split: int


def find_files(files: Any) -> tuple[list[RecordFile], tuple[str, ...]]:
    """Returns (the files by name, the splits' names).

    Args:
      files: a path, a pattern such as "data/*.tfrecord", a list of these, or a dict of them by
        split, as `given_files.py` reads them.

    Raises:
      ConfigError: anything else, or a file that is meant twice.
      SourceError: no such file.
    """
    splits = files if isinstance(files, Mapping) else {"": files}
    if not splits:
        raise ConfigError("files: expected at least one split, got an empty dict.")
    split_of: dict[str, int] = {}
    for number, (split, given) in enumerate(splits.items()):
        for path in _paths(given):
            if path in split_of:
                first = list(splits)[split_of[path]]
                raise ConfigError(
                    f"files: {path} is in two splits, {first!r} and {split!r}. Leave it in one."
                )
            split_of[path] = number
    folder = os.path.commonpath([os.path.dirname(path) for path in split_of])
    found = [
        RecordFile(path, key_of(os.fsencode(os.path.relpath(path, folder))).decode(), split)
        for path, split in split_of.items()
    ]
    names = tuple(check_split_name(name, "files") for name in files) if files is splits else ()
    return sorted(found, key=lambda file: (file.name, file.path)), names


def _paths(given: Any) -> list[str]:
    """Returns the absolute paths that are meant."""
    names = parse_given("files", given)
    for name in names:
        if os.path.isdir(name):
            raise ConfigError(
                f"files: {name} is a folder. Pass a pattern, such as {os.path.join(name, '*')!r}."
            )
    return [os.path.abspath(path) for path in find_given("files", names)]
