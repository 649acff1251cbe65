"""The keys of examples as two arrays, one blob and its offsets, so that millions cost little.

Sources make them, the plan orders them, `write/dataset.py` stores them, `read/` maps them when keys
are asked for.
"""

import itertools
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.index import map_array, write_array, write_parts
from tfrds.errors import DatasetError

# Gathering needs eight bytes of positions a byte of key: in blocks of so many bytes of keys, it
# stays within a few megabytes. A longer key is copied by itself.
_BLOCK_BYTES = 2**18


class Keys:
    """An immutable sequence of byte strings: UTF-8 keys, or native paths of files.

    Attributes:
      blob: uint8 [total bytes], all keys one after the other.
      offsets: uint64 [num keys + 1], where each key starts; the last is the end.
    """

    def __init__(self, blob: NDArray[np.uint8], offsets: NDArray[np.uint64]) -> None:
        self.blob = blob
        self.offsets = offsets

    @classmethod
    def from_iterable(cls, keys: Iterable[bytes]) -> "Keys":
        """Collects `keys`, in constant memory beyond their bytes and one offset each."""
        blob = bytearray()
        ends = [0]
        for key in keys:
            blob += key
            ends.append(len(blob))
        return cls(np.frombuffer(bytes(blob), np.uint8), np.array(ends, "<u8"))

    @property
    def is_ascii(self) -> bool:
        """Whether all of them are."""
        return not len(self.blob) or int(self.blob.max()) < 128

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, position: int) -> bytes:
        start, end = int(self.offsets[position]), int(self.offsets[position + 1])
        if not start <= end <= len(self.blob):
            raise DatasetError(
                f"key {position}: the offsets {start} to {end} are outside of the "
                f"{len(self.blob):,} bytes of keys. "
                "Build the dataset again, or copy it again."
            )
        return self.blob[start:end].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        blob = self.blob.tobytes()
        ends = self.offsets.tolist()
        for start, end in itertools.pairwise(ends):
            yield blob[start:end]

    def take(self, rows: NDArray[np.int64]) -> "Keys":
        """Returns the keys at `rows`, in that order."""
        starts = self.offsets[rows].astype(np.int64)
        lengths = self.offsets[rows + 1].astype(np.int64) - starts
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        blob = np.empty(int(offsets[-1]), np.uint8)
        # The position of each byte: its key's start, plus how far into the key it is.
        shifts = starts - offsets[:-1]
        first = 0
        while first < len(rows):
            start = int(offsets[first])
            last = int(np.searchsorted(offsets, start + _BLOCK_BYTES, side="right")) - 1
            if last <= first:
                last = first + 1
                blob[start : offsets[last]] = self.blob[
                    starts[first] : starts[first] + lengths[first]
                ]
            else:
                block = slice(first, last)
                source = np.arange(start, offsets[last]) + np.repeat(shifts[block], lengths[block])
                blob[start : offsets[last]] = self.blob[source]
            first = last
        return Keys(blob, offsets.astype("<u8"))


def join_keys(parts: Sequence[Keys]) -> Keys:
    """Returns the keys of all parts behind one another."""
    return Keys(np.concatenate([part.blob for part in parts]), _joined_offsets(parts))


def _joined_offsets(parts: Sequence[Keys]) -> NDArray[np.uint64]:
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.zeros(len(lengths) + 1, "<u8")
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def write_keys(parts: Sequence[Keys], blob_path: pathlib.Path, offsets_path: pathlib.Path) -> None:
    """Stores the keys of all parts behind one another as two `.npy` files."""
    write_parts(blob_path, [part.blob for part in parts])
    write_array(offsets_path, _joined_offsets(parts))


def open_keys(blob_path: pathlib.Path, offsets_path: pathlib.Path, num_examples: int) -> Keys:
    """Maps the keys of a split; reads only the headers and the last offset.

    Raises:
      DatasetError: a file is missing or damaged, or the two do not fit each other or the split.
    """
    offsets = map_array(offsets_path, np.dtype("<u8"), num_examples + 1)
    blob = map_array(blob_path, np.dtype("u1"), None)
    if int(offsets[-1]) != len(blob):
        raise DatasetError(
            f"{blob_path}: expected {int(offsets[-1]):,} bytes of keys by {offsets_path.name}, "
            f"found {len(blob):,}. "
            "Build the dataset again, or copy it again."
        )
    return Keys(blob, offsets)


def read_keys(blob_path: pathlib.Path, offsets_path: pathlib.Path, num_examples: int) -> Keys:
    """Reads all keys of a split into memory, and looks at each.

    Raises:
      DatasetError: as `open_keys`, or the offsets go back, or a key is not UTF-8.
    """
    mapped = open_keys(blob_path, offsets_path, num_examples)
    keys = Keys(np.array(mapped.blob), np.array(mapped.offsets))
    if keys.offsets[0] != 0 or (keys.offsets[1:] < keys.offsets[:-1]).any():
        raise DatasetError(
            f"{offsets_path}: expected numbers that rise from 0. Build the dataset again, or copy "
            "it again."
        )
    try:
        for key in keys:
            key.decode()
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{blob_path}: expected keys in UTF-8: {error}. Build the dataset again, or copy it "
            "again."
        ) from error
    return keys
