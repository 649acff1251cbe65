"""The split and the group of each row: from columns, or from the names of files and folders.

Gets the table and its columns, gives numbers and names as `References` hold them; `manifest.py`
calls it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_split_name
from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources.class_tree import is_split_word
from tfrds.write.sources.tables import BadRows, Table

if TYPE_CHECKING:
    import pyarrow as pa

# (int32 [n] positions in the names or None, names of the splits, notes)
Splits: TypeAlias = "tuple[NDArray[np.int32] | None, tuple[str, ...], tuple[str, ...]]"

NO_SPLITS: Splits = (None, (), ())


def read_split_column(table: Table, data: "pa.Table", name: str) -> Splits:
    """Returns the splits that a column names.

    Raises:
      SourceError: an empty cell, or a name that no split can have.
    """
    numbers, names = _read_names(table, data.column(name), name, "the name of a split")
    for number, text in enumerate(names):
        try:
            check_split_name(text)
        except ConfigError as error:
            row = int(np.flatnonzero(numbers == number)[0])
            raise SourceError(f"{table.where(row, name)}: {error}") from error
    return numbers, tuple(names), ()


def splits_by_place(table: Table, keys: Keys) -> Splits:
    """Returns the splits that the names of the files or the folders of the images say, if any.

    Of "train" alone there are none: then the images can still be divided.

    Raises:
      SourceError: some files say their split and others do not.
    """
    if table.files is None:
        return NO_SPLITS
    named = [file.split for file in table.files.files]
    if any(named):
        return _by_file(table, named)
    return _by_folder(table, keys) if table.files.has_metadata else NO_SPLITS


def read_groups(table: Table, data: "pa.Table", name: str) -> tuple[NDArray[np.int32], Keys]:
    """Returns (int32 [n] positions in the names, names of the groups).

    Raises:
      SourceError: an empty cell.
    """
    numbers, names = _read_names(table, data.column(name), name, "the name of a group")
    return numbers, Keys.from_iterable(text.encode() for text in names)


def _by_file(table: Table, named: Sequence[str | None]) -> Splits:
    unnamed = [part.name for part, name in zip(table.parts, named, strict=True) if not name]
    if unnamed:
        raise SourceError(
            f"{table.name}: expected every file to say its split as 'train-00000-of-00002' does, "
            f"as some do, got {unnamed[0]!r}. Rename it, or pass split=False for no splits."
        )
    names = tuple(dict.fromkeys(check_split_name(name, table.name) for name in named))
    if names == ("train",):
        return NO_SPLITS
    numbers = np.array([names.index(str(name)) for name in named], np.int32)
    note = f"{table.name}: splits by the names of files and folders: {', '.join(names)}."
    return np.repeat(numbers, np.diff(table.starts)), names, (note,)


def _by_folder(table: Table, keys: Keys) -> Splits:
    """Returns the folders at the top as splits, where all are named so."""
    names: dict[bytes, int] = {}
    splits = np.zeros(len(keys), np.int32)
    for row, key in enumerate(keys):
        folder, slash, _ = key.partition(b"/")
        if not slash or not is_split_word(folder):
            return NO_SPLITS
        splits[row] = names.setdefault(folder, len(names))
    found = tuple(name.decode() for name in names)
    if found == ("train",):
        return NO_SPLITS
    note = f"{table.name}: splits by the folders of the images: {', '.join(found)}."
    return splits, found, (note,)


def _read_names(
    table: Table, column: "pa.ChunkedArray", name: str, what: str
) -> tuple[NDArray[np.int32], list[str]]:
    """Returns (int32 [n] positions, distinct values as text in the order of their first rows)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        texts = column.cast(pa.large_string())
    except pa.ArrowException as error:
        raise SourceError(
            f"{table.name}, column {name!r}: expected {what}, got {column.type}. Convert it to "
            "text."
        ) from error
    bad = BadRows(table, name, f"expected {what}", "Fill it, or remove the row.")
    bad.add_all(np.flatnonzero(pc.fill_null(pc.equal(texts, ""), True).to_numpy()).tolist(), texts)
    bad.check()
    distinct = texts.unique()
    numbers = pc.index_in(texts, value_set=distinct).to_numpy()
    return np.asarray(numbers, np.int32), distinct.to_pylist()
