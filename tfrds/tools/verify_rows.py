"""Compares the index with what the records of a shard turned out to be.

Gets the row that each record should have, one by one, and gives the differences; `verify_shard.py`
makes the rows from the records' bytes. Blocks of them are compared at once: one by one numpy would
take longer than the checksums.
"""

import pathlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.index import ROW, Rows, map_array
from tfrds.errors import DatasetError

_BLOCK_ROWS = 1024

# The content hash is compared by itself, as an index may leave it out.
_FIELDS = (
    *("offset", "length", "image_offset", "image_length"),
    *("height", "width", "label", "encoding", "channels"),
)


class IndexRows:
    """The rows of one shard in the index of its split.

    Args:
      path: of the index; None: there is none that could be compared.
      first: of the shard's rows.
      count: of them.
    """

    def __init__(self, path: pathlib.Path | None, first: int, count: int) -> None:
        self._stored = _open_rows(path)[first : first + count]
        self._numbers: list[int] = []
        self._rows: list[tuple[Any, ...]] = []

    def offset(self, number: int) -> int | None:
        """Returns where the index has a record, None where it does not tell."""
        return int(self._stored[number]["offset"]) if number < len(self._stored) else None

    def numbers(self) -> dict[int, int]:
        """Returns the number of each record by its offset, where others lie between them."""
        return {int(offset): number for number, offset in enumerate(self._stored["offset"])}

    def compare(self, number: int, row: tuple[Any, ...]) -> list[tuple[int, str]]:
        """Returns (record, difference) of earlier records too, whenever a block is full.

        Args:
          number: of the record in its shard.
          row: as the index should have it.
        """
        if number >= len(self._stored):
            return []
        self._numbers.append(number)
        self._rows.append(row)
        return self.compare_rest() if len(self._rows) == _BLOCK_ROWS else []

    def compare_rest(self) -> list[tuple[int, str]]:
        """Returns (record, difference) of the records since the last block."""
        numbers, found = np.array(self._numbers, np.int64), np.array(self._rows, ROW)
        self._numbers, self._rows = [], []
        stored = self._stored[numbers]
        is_equal = _is_same_content(stored, found)
        for field in _FIELDS:
            is_equal &= stored[field] == found[field]
        return [
            (int(numbers[place]), _difference(stored[place], found[place]))
            for place in np.flatnonzero(~is_equal).tolist()
        ]


def _open_rows(path: pathlib.Path | None) -> Rows:
    if path is not None:
        try:
            return map_array(path, ROW, None)
        except DatasetError:
            pass  # changed since verify.py opened it a moment ago
    return np.zeros(0, ROW)


def _is_same_content(stored: Rows, found: Rows) -> NDArray[np.bool_]:
    """Whether each content hash is that of the image, or was not computed."""
    said, image = (
        np.ascontiguousarray(rows["content"]).view("<u8").reshape(-1, 2) for rows in (stored, found)
    )
    is_same: NDArray[np.bool_] = (said == image).all(axis=1) | ~said.any(axis=1)
    return is_same


def _difference(stored: Any, found: Any) -> str:
    """Returns each field that differs, as the index has it and as the record has it."""
    parts = [
        f"{field} {int(stored[field]):,} instead of {int(found[field]):,}"
        for field in _FIELDS
        if stored[field] != found[field]
    ]
    said, image = stored["content"].tobytes(), found["content"].tobytes()
    if any(said) and said != image:
        parts.append(f"content {said.hex()} instead of {image.hex()}")
    return ", ".join(parts)
