"""The members of a zip, from its central directory.

Gets an open file, gives the name and place of each member; `archive_members.py` reads them.

`zipfile` would make an object of half a kilobyte for each member and keep them all, here and in
every worker; here each is looked at once, and workers need no directory.
Source: APPNOTE.TXT 6.3.10 of PKWARE.
"""

import array
import os
import stat
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, NoReturn

import numpy as np

from tfrds.errors import SourceError
from tfrds.write.sources.archive_members import (
    BZIP2,
    DEFLATE,
    LZMA,
    STORED,
    Member,
    Place,
    clean_name,
    refuse,
)

_LOCAL = struct.Struct("<4s22xHH")
_ENTRY = struct.Struct("<4sxB2xHH4xIIIHHHH2xII")
_END = struct.Struct("<4sHHHHIIH")
_END64_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQHHIIQQQQ")

_MAX_COMMENT_BYTES = 2**16 - 1

# The extra fields in front of a file's bytes are a few dozen bytes as a rule.
_EXTRA_BYTES = 64

# Encrypted, or patched, or strongly encrypted, or with a masked directory.
_ENCRYPTED, _UNUSABLE = 0x0001, 0x0001 | 0x0020 | 0x0040 | 0x2000

_MADE_ON_DOS = 0
_MADE_ON_UNIX = (3, 19)  # 19: macOS


class _Directory(NamedTuple):
    offset: int
    size: int
    num_entries: int


class _Entry(NamedTuple):
    """A member as the directory has it."""

    name: bytes
    system: int
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    attributes: int
    offset: int


def zip_members(file: BinaryIO, where: str) -> Iterator[Member]:
    """Yields the members in the directory's order.

    Args:
      file: of the archive.
      where: its name, for messages.

    Raises:
      SourceError: the archive is damaged or cut off, or holds what must not be in it.
    """
    directory = _find_directory(file, where)
    starts, ends = array.array("q"), array.array("q")
    for entry in _entries(file, directory, where):
        # Such packers of DOS and Windows write "\" between folders.
        is_dos = entry.system == _MADE_ON_DOS and b"/" not in entry.name
        raw = entry.name.replace(b"\\", b"/") if is_dos else entry.name
        name = clean_name(raw, where)
        mode = entry.attributes >> 16 if entry.system in _MADE_ON_UNIX else 0
        if raw.endswith(b"/") or stat.S_ISDIR(mode):
            yield Member(name, None)
            continue
        _check_entry(entry, mode, where)
        if not name:
            refuse(where, raw, "it has no name")
        start = _find_bytes(file.fileno(), entry, where)
        if start + entry.packed > directory.offset:
            refuse(
                where,
                entry.name,
                f"its {entry.packed:,} packed bytes from {start:,} on reach into the directory at "
                f"{directory.offset:,}",
            )
        starts.append(entry.offset)
        ends.append(start + entry.packed)
        yield Member(name, Place(entry.method, start, entry.packed, entry.size, entry.crc))
    _check_apart(starts, ends, where)


def _find_directory(file: BinaryIO, where: str) -> _Directory:
    size = file.seek(0, os.SEEK_END)
    tail_start = max(size - _END.size - _MAX_COMMENT_BYTES, 0)
    tail = os.pread(file.fileno(), size - tail_start, tail_start)
    position = tail.rfind(b"PK\5\6", 0, max(len(tail) - _END.size + 4, 0))
    if position < 0:
        _damaged(where, "the directory at its end is missing, as where it is cut off")
    _, disk, first_disk, _, num_entries, length, offset, _ = _END.unpack_from(tail, position)
    end = tail_start + position
    locator_start = end - _END64_LOCATOR.size
    locator = os.pread(file.fileno(), _END64_LOCATOR.size, max(locator_start, 0))
    if locator_start >= 0 and locator.startswith(b"PK\6\7"):
        _, disk, end, _ = _END64_LOCATOR.unpack(locator)
        # A file has no byte there, whatever the number is.
        record = os.pread(file.fileno(), _END64.size, end) if end < size else b""
        if len(record) < _END64.size or not record.startswith(b"PK\6\6"):
            _damaged(where, f"its large directory is not where it should be, at byte {end:,}")
        *_, disk, first_disk, _, num_entries, length, offset = _END64.unpack(record)
    if disk or first_disk:
        raise SourceError(
            f"{where}: is one part of a zip in several, expected a whole one. Join the parts: "
            "zip -s 0 parts.zip --out whole.zip."
        )
    if offset + length > end:
        _damaged(
            where,
            f"expected its directory of {length:,} bytes at byte {offset:,}, in front of {end:,}",
        )
    return _Directory(offset, length, num_entries)


def _entries(file: BinaryIO, directory: _Directory, where: str) -> Iterator[_Entry]:
    file.seek(directory.offset)
    end = directory.offset + directory.size
    position = directory.offset
    for number in range(directory.num_entries):
        fixed = file.read(_ENTRY.size)
        if len(fixed) < _ENTRY.size or not fixed.startswith(b"PK\1\2"):
            _damaged(where, f"member {number + 1:,} is not in its directory at byte {position:,}")
        (_, system, flags, method, crc, packed, size, name_length, extra_length, comment_length,
         _, attributes, offset) = _ENTRY.unpack(fixed)  # fmt: skip
        variable = file.read(name_length + extra_length + comment_length)
        position += len(fixed) + len(variable)
        if position > end:
            _damaged(where, f"its directory reaches beyond byte {end:,}")
        name = variable[:name_length]
        if 0xFFFFFFFF in (size, packed, offset):
            extra = variable[name_length : name_length + extra_length]
            size, packed, offset = _large_numbers(where, name, extra, [size, packed, offset])
        yield _Entry(name, system, flags, method, crc, packed, size, attributes, offset)
    if position != end:
        _damaged(where, f"its directory should end at byte {end:,}, ends at {position:,}")


def _large_numbers(where: str, name: bytes, extra: bytes, numbers: list[int]) -> list[int]:
    """Returns numbers with those replaced that did not fit 32 bits."""
    start = 0
    while start + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, start)
        field = extra[start + 4 : start + 4 + length]
        if kind == 0x0001:
            large = iter(struct.unpack_from(f"<{len(field) // 8}Q", field))
            try:
                return [next(large) if n == 0xFFFFFFFF else n for n in numbers]
            except StopIteration:
                break
        start += 4 + length
    refuse(where, name, "its sizes are missing", "Copy the archive again, or pack it again.")


def _check_entry(entry: _Entry, mode: int, where: str) -> None:
    """Refuses what is no ordinary file that can be read."""
    if stat.S_ISLNK(mode):
        refuse(where, entry.name, "it is a symbolic link", "Pack the files themselves.")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        refuse(where, entry.name, "it is a device or a pipe")
    if entry.flags & _UNUSABLE:
        what = "encrypted" if entry.flags & _ENCRYPTED else "patched or masked"
        refuse(where, entry.name, f"it is {what}", "Pack the archive again without a password.")
    if entry.method not in (STORED, DEFLATE, BZIP2, LZMA):
        refuse(
            where,
            entry.name,
            f"it is packed by method {entry.method}, expected stored, deflate, bzip2 or lzma",
            "Pack the archive again.",
        )
    if entry.method == STORED and entry.packed != entry.size:
        refuse(
            where,
            entry.name,
            f"it is stored as it is, in {entry.packed:,} bytes, and says it has {entry.size:,}",
        )


def _find_bytes(descriptor: int, entry: _Entry, where: str) -> int:
    """Returns where a member's packed bytes begin.

    Raises:
      SourceError: in front of them stands the name of another member.
    """
    wanted = _LOCAL.size + len(entry.name) + _EXTRA_BYTES
    # A file has no byte there, whatever the number is.
    local = os.pread(descriptor, wanted, entry.offset) if entry.offset < 2**63 - 1 else b""
    if len(local) < _LOCAL.size or not local.startswith(b"PK\3\4"):
        refuse(
            where,
            entry.name,
            f"it is not at byte {entry.offset:,}, where the directory has it",
            "Copy the archive again, or pack it again.",
        )
    name_length: int
    extra_length: int
    _, name_length, extra_length = _LOCAL.unpack_from(local)
    name = local[_LOCAL.size : _LOCAL.size + name_length]
    if name != entry.name:
        refuse(where, entry.name, f"it is called {name!r} beside its bytes")
    return entry.offset + _LOCAL.size + name_length + extra_length


def _check_apart(starts: "array.array[int]", ends: "array.array[int]", where: str) -> None:
    """Raises SourceError where members share bytes, by which a small file becomes a huge tree."""
    first, last = np.array(starts, np.int64), np.array(ends, np.int64)
    order = np.argsort(first, kind="stable")
    first, last = first[order], last[order]
    shared = np.flatnonzero(last[:-1] > first[1:])
    if len(shared):
        raise SourceError(
            f"{where}: {len(shared):,} members lie in the bytes of others, from byte "
            f"{int(first[shared[0] + 1]):,} on, as in a zip bomb. Pack the archive again."
        )


def _damaged(where: str, reason: str) -> NoReturn:
    raise SourceError(f"{where}: damaged: {reason}. Copy it again, or pack it again.")
