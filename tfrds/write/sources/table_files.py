"""Which files a path, a list or a folder stands for, and the split that a file's name says.

Gets what a user passes, gives the files of one table in the order of their names; `tables.py` opens
them.

Source: the layouts of Hugging Face's `datasets`: a file `metadata.csv` beside the images, perhaps
one in each split's folder, and Parquet files with names such as `train-00000-of-00002.parquet`.
"""

import dataclasses
import os
import pathlib
import re
from typing import Any, Literal, TypeAlias

from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources.class_tree import is_split_word
from tfrds.write.sources.given_files import find_given, parse_given

Kind: TypeAlias = Literal["delimited", "json_lines", "parquet"]

ENDINGS: dict[str, Kind] = {
    ".csv": "delimited",
    ".tsv": "delimited",
    ".txt": "delimited",
    ".jsonl": "json_lines",
    ".ndjson": "json_lines",
    ".parquet": "parquet",
}

_METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")

# "train-00000-of-00002", in older files with a hash behind it.
_SHARD = re.compile(r"(?P<split>[A-Za-z][A-Za-z0-9_]*)-\d+-of-\d+(?:-[0-9a-f]+)?")
_NUMBERED = re.compile(r"(?P<word>[A-Za-z]+)[-_.]?\d*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableFile:
    """One file of a table.

    Attributes:
      path: of it.
      name: for errors: below the folder that was passed.
      prefix: of the paths in it: its own folder below the root, with "/" behind it, or "".
      split: that its name or its folder says; None: none.
    """

    path: pathlib.Path
    name: str
    prefix: str = ""
    split: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableFiles:
    """The files of one table.

    Attributes:
      name: of the whole, for errors.
      kind: of all of them.
      root: folder that the paths in them start from, after each file's prefix.
      files: by name.
      has_metadata: whether it is a folder of images with metadata files.
    """

    name: str
    kind: Kind
    root: pathlib.Path
    files: tuple[TableFile, ...]
    has_metadata: bool = False


def find_files(table: Any) -> TableFiles:
    """Returns the files that a path, a pattern, a list of these or a folder stands for.

    Raises:
      ConfigError: no path, or an ending that is none of a table's.
      SourceError: nothing is there.
    """
    names = parse_given("table", table, "a folder, or a table of pandas or pyarrow")
    is_one = isinstance(table, str | os.PathLike)
    if is_one and os.path.isdir(names[0]):
        return _in_folder(pathlib.Path(names[0]))
    paths = [pathlib.Path(path) for path in find_given("table", names)]
    for path in paths:
        if not path.is_file():
            raise SourceError(f"{path}: expected the file of a table, found none that can be read.")
    if is_one and paths == [pathlib.Path(names[0])]:
        file = TableFile(path=paths[0], name=paths[0].name)
        kind = _kind(paths[0])
        return TableFiles(name=file.name, kind=kind, root=paths[0].parent, files=(file,))
    return _listed(paths)


def _kind(path: pathlib.Path) -> Kind:
    kind = ENDINGS.get(path.suffix.lower())
    if kind is None:
        advice = " An object a line, without a list around them, is .jsonl."
        raise ConfigError(
            f"table: expected a file that ends in one of {list(ENDINGS)}, got {path.name!r}. "
            "Save the table as one of these, or read it with pandas and pass that."
            f"{advice if path.suffix.lower() == '.json' else ''}"
        )
    return kind


def _listed(paths: list[pathlib.Path]) -> TableFiles:
    if len({_kind(path) for path in paths}) > 1:
        raise ConfigError(
            f"table: expected files of one kind, got {sorted({path.suffix for path in paths})}."
        )
    absolute = [pathlib.Path(os.path.abspath(path)) for path in paths]
    root = pathlib.Path(os.path.commonpath([path.parent for path in absolute]))
    return _joined(root, absolute)


def _in_folder(folder: pathlib.Path) -> TableFiles:
    """Returns the metadata files of a folder of images, or else all Parquet files below it."""
    below = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    metadata = [
        place / name for place in (folder, *below) for name in _METADATA if (place / name).is_file()
    ]
    if metadata:
        return _metadata(folder, metadata)
    paths = [
        path
        for path in folder.rglob("*.parquet")
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not paths:
        raise SourceError(
            f"{folder}: expected Parquet files below it, or one of {list(_METADATA)} in it or in "
            "the folders of its splits, found none. Pass the path of the table itself."
        )
    return _joined(folder, paths)


def _metadata(folder: pathlib.Path, paths: list[pathlib.Path]) -> TableFiles:
    folders = [path.parent for path in paths]
    names = [str(path.relative_to(folder)) for path in paths]
    is_clear = len(set(folders)) == len(folders) and (folder not in folders or len(paths) == 1)
    if not is_clear or len({path.name for path in paths}) > 1:
        raise SourceError(
            f"{folder}: expected one metadata file, or one of the same name in each split's "
            f"folder, found {names}. Remove all others, or pass the one."
        )
    are_splits = all(is_split_word(path.parent.name.encode()) for path in paths)
    in_folders = folder not in folders
    return TableFiles(
        name=names[0] if len(paths) == 1 else folder.name,
        kind=_kind(paths[0]),
        root=folder,
        files=tuple(
            TableFile(
                path=path,
                name=name,
                prefix=f"{path.parent.name}/" if in_folders else "",
                split=path.parent.name if in_folders and are_splits else None,
            )
            for path, name in zip(paths, names, strict=True)
        ),
        has_metadata=True,
    )


def _joined(root: pathlib.Path, paths: list[pathlib.Path]) -> TableFiles:
    relative = sorted(path.relative_to(root).as_posix() for path in paths)
    return TableFiles(
        name=relative[0] if len(relative) == 1 else root.name,
        kind=_kind(paths[0]),
        root=root,
        files=tuple(
            TableFile(
                path=root / name,
                name=name,
                prefix=f"{name.rpartition('/')[0]}/" if "/" in name else "",
                split=_split_of(name),
            )
            for name in relative
        ),
    )


def _split_of(name: str) -> str | None:
    """Returns the split that a file's name says, or the name of a folder above it."""
    *folders, last = name.split("/")
    stem = last.rpartition(".")[0]
    if match := _SHARD.fullmatch(stem):
        return match["split"]
    match = _NUMBERED.fullmatch(stem)
    if match and is_split_word(match["word"].encode()):
        return match["word"]
    return next((name for name in reversed(folders) if is_split_word(name.encode())), None)
