"""TFRecord files that others wrote: where each record lies, or its bytes with both checksums right.

Gets a file, plain or GZIP; `foreign_example.py` says what is in a record. Nothing of a file is
trusted: lengths are checked against their checksum and the file before anything is read by them,
and no more than a block is held.

Source: tensorflow/core/lib/io/record_writer.h (frames), RFC 1952 (GZIP).
"""

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Literal, Protocol, TypeAlias

from tfrds.disk.records import HEADER_BYTES, MAX_RECORD_BYTES, frame_footer, frame_header
from tfrds.disk.window import Window, open_file
from tfrds.errors import SourceError

FOOTER_BYTES = 4

Compression: TypeAlias = Literal["none", "GZIP"]

# What is copied at once.
_BLOCK_BYTES = 1 << 18

_GZIP = b"\x1f\x8b\x08"
_DAMAGED = "Copy it again from where it came, or leave it out."


class Target(Protocol):
    """What can be written to."""

    def write(self, data: bytes, /) -> Any:
        """Adds bytes."""


def find_compression(window: Window, name: str) -> Compression:
    """Returns how a TFRecord file is compressed, by what it begins with.

    Raises:
      SourceError: cannot be read, or empty, or no TFRecord file.
    """
    if not window.size:
        raise SourceError(f"{name}: empty file, expected at least one record. Leave it out.")
    head = _taken(window, 0, min(HEADER_BYTES, window.size), name, 0)
    if _is_header(head):
        return "none"
    if head.startswith(_GZIP):
        return "GZIP"
    # RFC 1950: method 8, and the first two bytes are a multiple of 31.
    if head[0] & 15 == 8 and int.from_bytes(head[:2], "big") % 31 == 0:
        raise SourceError(
            f"{name}: no plain or GZIP TFRecord file, it may be compressed as ZLIB. Unpack it, or "
            "write it again as GZIP."
        )
    raise SourceError(
        f"{name}: no TFRecord file, or damaged: its first {HEADER_BYTES} bytes are no length with "
        f"its checksum, found {head!r}. Leave it out, or copy it again."
    )


def walk_frames(window: Window, name: str) -> Iterator[tuple[int, int]]:
    """Yields (offset of the frame, length of the data) of each record of a plain file.

    The checksum of each length is checked, that of the data is not: it is not read.

    Args:
      window: of the file.
      name: of the file, for messages.

    Raises:
      SourceError: cut off, or a length is wrong.
    """
    place = number = 0
    while place < window.size:
        rest = window.size - place
        if rest < HEADER_BYTES:
            raise _cut_off(name, number, HEADER_BYTES, rest)
        length = _length(_taken(window, place, HEADER_BYTES, name, number), name, number)
        if length > rest - HEADER_BYTES - FOOTER_BYTES:
            raise _cut_off(name, number, HEADER_BYTES + length + FOOTER_BYTES, rest)
        yield place, length
        place += HEADER_BYTES + length + FOOTER_BYTES
        number += 1


def read_record(descriptor: int, offset: int, length: int) -> bytes:
    """Returns the data of a record of a plain file, with both checksums verified.

    Args:
      descriptor: of the file.
      offset: of its frame.
      length: of its data.

    Raises:
      ValueError: other bytes are there; the text says which.
    """
    frame = _read(descriptor, HEADER_BYTES + length + FOOTER_BYTES, offset)
    if frame[:HEADER_BYTES] != frame_header(length):
        raise ValueError(
            f"expected a record of {length:,} bytes at byte {offset:,}, found another one or none: "
            "the file has changed since it was scanned"
        )
    data = frame[HEADER_BYTES : HEADER_BYTES + length]
    if len(frame) < HEADER_BYTES + length + FOOTER_BYTES:
        raise ValueError(f"cut off: expected {length:,} bytes, found {len(data):,}")
    footer = frame[HEADER_BYTES + length :]
    if footer != frame_footer(data):
        raise ValueError(
            f"damaged: expected the checksum {frame_footer(data)[::-1].hex()} of its "
            f"{length:,} bytes, found {footer[::-1].hex()}"
        )
    return data


def unpack(path: str, target: Target, most: int | None = None) -> int:
    """Writes the records of a GZIP file to `target`, as a plain TFRecord file.

    The checksum of each length is checked, so that what is no TFRecord file is not unpacked; those
    of the data are copied with it.

    Args:
      path: of the file.
      target: open for writing.
      most: records at most; None: all.

    Returns:
      The number of records.

    Raises:
      SourceError: cannot be read, damaged or cut off.
      OSError: cannot be opened, or `target` cannot be written.
    """
    number = 0
    with open_file(path) as descriptor, open(descriptor, "rb", closefd=False) as packed:
        # Given a file, GzipFile reads any number of members behind one another.
        with gzip.GzipFile(fileobj=packed, mode="rb") as file:
            while most is None or number < most:
                head = _unpacked(file, HEADER_BYTES, path, number)
                if not head:
                    break
                if len(head) < HEADER_BYTES:
                    raise _cut_off(path, number, HEADER_BYTES, len(head))
                length = _length(head, path, number)
                target.write(head)
                _copy(file, target, length + FOOTER_BYTES, path, number)
                number += 1
    return number


def _read(descriptor: int, count: int, offset: int) -> bytes:
    data = os.pread(descriptor, count, offset)
    while 0 < len(data) < count:  # Linux gives a little less than 2 GiB at once
        more = os.pread(descriptor, count - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def _copy(file: gzip.GzipFile, target: Target, count: int, name: str, number: int) -> None:
    left = count
    while left:
        block = _unpacked(file, min(left, _BLOCK_BYTES), name, number)
        if not block:
            raise _cut_off(name, number, HEADER_BYTES + count, HEADER_BYTES + count - left)
        target.write(block)
        left -= len(block)


def _unpacked(file: gzip.GzipFile, count: int, name: str, number: int) -> bytes:
    try:
        return file.read(count)
    except (EOFError, zlib.error, OSError) as error:
        raise SourceError(
            f"{name} record {number}: the GZIP file is cut off or damaged here: "
            f"{str(error).rstrip('.')}. {_DAMAGED}"
        ) from error


def _taken(window: Window, start: int, count: int, name: str, number: int) -> bytes:
    try:
        return window.take(start, count)
    except (ValueError, OSError) as error:
        raise SourceError(f"{name} record {number}: cannot be read: {error}. {_DAMAGED}") from error


def _is_header(head: bytes) -> bool:
    return len(head) == HEADER_BYTES and head == _header_of(head)


def _length(head: bytes, name: str, number: int) -> int:
    """Returns the length that a frame's header gives."""
    (length,) = struct.unpack_from("<Q", head)
    expected = _header_of(head)
    if head != expected:
        raise SourceError(
            f"{name} record {number}: damaged: expected the checksum "
            f"{expected[:7:-1].hex()} of its length {length:,}, found {head[:7:-1].hex()}. "
            f"{_DAMAGED}"
        )
    if length > MAX_RECORD_BYTES:
        raise SourceError(
            f"{name} record {number}: expected at most {MAX_RECORD_BYTES:,} bytes, got {length:,}."
        )
    return int(length)


def _header_of(head: bytes) -> bytes:
    return frame_header(int.from_bytes(head[:8], "little"))


def _cut_off(name: str, number: int, expected: int, found: int) -> SourceError:
    return SourceError(
        f"{name} record {number}: cut off: expected {expected:,} bytes, found {found:,}. {_DAMAGED}"
    )
