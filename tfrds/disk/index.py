"""The record index of a split: a 64-byte row for each example, as a memory-mapped `.npy` file.

Written by `write/dataset.py`, read by `read/fetch.py` and the tools. It says where each record and
the image inside it lie, so that any example is one copy away; it can be rebuilt from the shards.
"""

import pathlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import DatasetError

RAW, JPEG, PNG = 1, 2, 3

# Fields are found by name, so that a later version can use the reserved bytes. docs/FORMAT.md
# explains each.
ROW = np.dtype(
    [
        ("offset", "<u8"),
        ("length", "<u4"),
        ("image_offset", "<u4"),
        ("image_length", "<u4"),
        ("height", "<u4"),
        ("width", "<u4"),
        ("label", "<i4"),
        ("encoding", "u1"),
        ("channels", "u1"),
        ("flags", "<u2"),
        ("content", "V16"),
        ("reserved", "V12"),
    ]
)

Rows: TypeAlias = NDArray[Any]


def write_array(path: pathlib.Path, array: NDArray[Any]) -> None:
    """Writes `array` as `.npy`, format version 1.0: the same bytes for the same values."""
    with path.open("wb") as file:
        np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)


def write_parts(path: pathlib.Path, parts: Sequence[NDArray[Any]]) -> None:
    """Writes arrays behind one another as one `.npy`: the bytes that `write_array` would write.

    Args:
      path: of the file.
      parts: one or more, [n, *shape] of one shape and of one dtype without objects.
    """
    header = np.lib.format.header_data_from_array_1_0(parts[0])
    header["shape"] = (sum(map(len, parts)), *parts[0].shape[1:])
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(np.ascontiguousarray(part).data)


def map_array(
    path: pathlib.Path, dtype: np.dtype[Any], length: int | None, shape: tuple[int, ...] = ()
) -> NDArray[Any]:
    """Maps a `.npy` file of `dtype` [length, *shape], read-only; touches only its header.

    Raises:
      DatasetError: missing, cut off, not such a file, or not `length` elements (None: any length).
    """
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # of a damaged header numpy raises almost anything
        raise DatasetError(
            f"{path}: cannot be opened as an array of {dtype}: {error}. Build the dataset again, "
            "or copy it again."
        ) from error
    is_of_shape = array.ndim == 1 + len(shape) and array.shape[1:] == shape
    if array.dtype != dtype or not is_of_shape or length not in (None, len(array)):
        expected = "any number of" if length is None else f"{length:,}"
        raise DatasetError(
            f"{path}: expected {expected} elements of {dtype}{list(shape) or ''}, found "
            f"{array.shape} of "
            f"{array.dtype}. "
            "Build the dataset again, or copy it again."
        )
    return array


def open_index(path: pathlib.Path, shard_lengths: Sequence[int]) -> Rows:
    """Maps the index of a split whose shards hold `shard_lengths` records.

    Raises:
      DatasetError: missing, damaged, or of another number of records.
    """
    return map_array(path, ROW, sum(shard_lengths))


def open_labelled_index(path: pathlib.Path, shard_lengths: Sequence[int], labels: range) -> Rows:
    """Does what `open_index` does, and looks at each row's label.

    Args:
      path: of the index.
      shard_lengths: records of each shard.
      labels: what they may be.

    Raises:
      DatasetError: as `open_index`, or a label is none of these.
    """
    rows = open_index(path, shard_lengths)
    low, high = int(rows["label"].min()), int(rows["label"].max())
    if low not in labels or high not in labels:
        raise DatasetError(
            f"{path}: expected class numbers from {labels[0]} to {labels[-1]:,}, found {low:,} to "
            f"{high:,}. Copy or build the dataset again."
        )
    return rows
