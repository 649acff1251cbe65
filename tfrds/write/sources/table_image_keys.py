"""Keys of images that lie in a table as bytes: the paths beside them, or the numbers of the rows.

Gets the table and its column of images, gives keys; `manifest.py` calls it.
"""

import posixpath
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tfrds.disk.keys import Keys
from tfrds.write.sources.equal_keys import find_equal
from tfrds.write.sources.tables import Table, cells

if TYPE_CHECKING:
    import pyarrow as pa


def key_images(table: Table, paths: "pa.ChunkedArray | None") -> tuple[Keys, tuple[str, ...]]:
    """Returns (keys, notes).

    A split that a file's name says stands before them: so they stay the same when the files of
    another split are added.

    Args:
      table: whose rows are the images.
      paths: beside the images; None: there are none.
    """
    prefixes = [f"{split}/" if split else "" for split in _file_splits(table)]
    if paths is not None:
        keys = _by_path(table, paths, prefixes)
        if keys is not None and not len(find_equal(keys)[0]):
            return keys, ()
        note = (
            f"{table.name}: the keys are the numbers of the rows, since not every image has a path "
            "of its own beside it.",
        )
        return _by_number(table, prefixes), note
    return _by_number(table, prefixes), ()


def _file_splits(table: Table) -> list[str | None]:
    if table.files is None or any(file.split is None for file in table.files.files):
        return [None] * len(table.parts)
    return [file.split for file in table.files.files]


def _by_number(table: Table, prefixes: list[str]) -> Keys:
    """Returns zero-padded numbers, counted anew for each prefix."""
    sizes = np.diff(table.starts).tolist()
    totals: dict[str, int] = {}
    for prefix, size in zip(prefixes, sizes, strict=True):
        totals[prefix] = totals.get(prefix, 0) + size
    next_number = dict.fromkeys(totals, 0)

    def numbered() -> Iterator[bytes]:
        for prefix, size in zip(prefixes, sizes, strict=True):
            digits = len(str(max(totals[prefix] - 1, 0)))
            first = next_number[prefix]
            next_number[prefix] += size
            for number in range(first, first + size):
                yield b"%s%0*d" % (prefix.encode(), digits, number)

    return Keys.from_iterable(numbered())


def _by_path(table: Table, paths: "pa.ChunkedArray", prefixes: list[str]) -> Keys | None:
    """Returns the paths as keys; None: one of them is none."""
    starts = table.starts.tolist()
    part = -1
    found = []
    for row, text in enumerate(cells(paths)):
        while row >= starts[part + 1]:
            part += 1
        path = posixpath.normpath(text) if text else "."
        if path.startswith(("/", "../")) or path in (".", "..") or "\0" in path:
            return None
        found.append(unicodedata.normalize("NFC", prefixes[part] + path).encode())
    return Keys.from_iterable(found)
