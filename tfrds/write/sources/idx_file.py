"""One idx file as an array: mapped where it is plain, unpacked where it is gzipped.

Gets a path, gives the array; `idx.py` asks for images and labels. Sizes are compared with the file
before memory is taken by them.

Source: the idx format as the MNIST page describes it: two zero bytes, the type of the values, the
number of dimensions, each of them as a big-endian uint32, then the values.
"""

import gzip
import math
import os
import pathlib
import struct
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import SourceError

DTYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MAX_DIMENSIONS = 4

_GZIP = b"\x1f\x8b"
# What deflate can make of a byte. Source: "Maximum Compression Factor" in zlib's technical notes.
_MAX_RATIO = 1032
_BLOCK_BYTES = 1 << 20


def open_idx(path: pathlib.Path) -> NDArray[Any]:
    """Returns the array of an idx file: mapped where it is plain, else unpacked.

    Raises:
      SourceError: missing, no idx file, or of another size than its header says.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            is_packed = file.read(2) == _GZIP
            file.seek(0)
            if not is_packed:
                return _mapped(path, file, size)
            with gzip.GzipFile(fileobj=file) as packed:
                return _unpacked(path, packed, size)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise SourceError(
            f"{path}: the gzip file is cut off or damaged: {str(error).rstrip('.')}. Copy it again."
        ) from error
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read: {error.strerror}. Correct the path, or mend its access."
        ) from error


def _mapped(path: pathlib.Path, file: BinaryIO, size: int) -> NDArray[Any]:
    dtype, shape, start = _header(path, file.read)
    expected = start + _num_bytes(dtype, shape)
    if size != expected:
        raise _wrong_size(path, dtype, shape, expected, size)
    if size == start:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape)


def _unpacked(path: pathlib.Path, packed: gzip.GzipFile, size: int) -> NDArray[Any]:
    dtype, shape, start = _header(path, packed.read)
    expected = _num_bytes(dtype, shape)
    if expected > _MAX_RATIO * size:  # before memory is taken for it
        raise SourceError(
            f"{path}: expected {expected:,} bytes for {_described(dtype, shape)}, but a gzip file "
            f"of {size:,} bytes can hold {_MAX_RATIO * size:,} at most. Copy it again."
        )
    data = bytearray(expected)
    view = memoryview(data)
    found = 0
    while found < expected:
        count = packed.readinto(view[found : found + _BLOCK_BYTES])
        if not count:
            raise _wrong_size(path, dtype, shape, start + expected, start + found)
        found += count
    if packed.read(1):
        raise SourceError(
            f"{path}: expected {start + expected:,} bytes for {_described(dtype, shape)}, found "
            "more. Copy it again."
        )
    return np.frombuffer(data, dtype).reshape(shape)


def _header(path: pathlib.Path, read: Callable[[int], bytes]) -> tuple[str, tuple[int, ...], int]:
    """Returns (dtype, shape, where the values begin)."""
    head = read(4)
    if len(head) < 4 or not is_idx(head):
        what = f"begins with the bytes {head.hex(' ')}" if head else "is empty"
        raise SourceError(
            f"{path}: no idx file: it {what}, expected 00 00, a type from 08 to 0e and 1 to "
            f"{_MAX_DIMENSIONS} dimensions. Leave it out, or copy it again."
        )
    sizes = read(4 * head[3])
    if len(sizes) < 4 * head[3]:
        raise SourceError(
            f"{path}: cut off: expected a header of {4 + 4 * head[3]} bytes, found "
            f"{4 + len(sizes)}. Copy it again."
        )
    return DTYPES[head[2]], struct.unpack(f">{head[3]}I", sizes), 4 + len(sizes)


def is_idx(head: bytes) -> bool:
    """Whether bytes begin as an idx file does."""
    is_long = len(head) >= 4
    return is_long and head[:2] == b"\0\0" and head[2] in DTYPES and 1 <= head[3] <= _MAX_DIMENSIONS


def _num_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def _described(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{np.dtype(dtype).name} {' x '.join(f'{side:,}' for side in shape)}"


def _wrong_size(
    path: pathlib.Path, dtype: str, shape: tuple[int, ...], expected: int, found: int
) -> SourceError:
    return SourceError(
        f"{path}: expected {expected:,} bytes for {_described(dtype, shape)}, found {found:,}. "
        "Copy it again."
    )
