"""One file in an archive: the name it may have, where its bytes lie, and how they are read.

`zip_members.py` and `tar_members.py` find members, `archive.py` and `webdataset.py` choose among
them, and workers read the chosen ones here: from the place alone, without any table of the archive.
"""

import array
import bz2
import lzma
import os
import re
import zlib
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import SourceError
from tfrds.write.sources.class_tree import text_of

# As zip numbers them.
STORED, DEFLATE, BZIP2, LZMA = 0, 8, 12, 14

# The most that one read of Linux gives, and that a record holds.
MAX_MEMBER_BYTES = 2**31 - 4096

# Some packers begin a block with tables of several hundred bytes.
_FIRST_BYTES, _MORE_BYTES = 1024, 65_536

_DRIVE = re.compile(rb"[A-Za-z]:")

# The places of a million members take 40 MB.
PLACE = np.dtype(
    [
        ("archive", "<i4"),
        ("method", "<i4"),
        ("crc", "<i8"),  # -1: not known
        ("offset", "<i8"),
        ("packed", "<i8"),
        ("size", "<i8"),
    ]
)


class Place(NamedTuple):
    """Where a member's bytes lie in the file.

    Attributes:
      method: by which they are packed, one of those above.
      offset: of the first packed byte.
      packed: bytes as they lie there.
      size: bytes that they unpack to.
      crc: CRC-32 of the unpacked bytes; None: not known.
    """

    method: int
    offset: int
    packed: int
    size: int
    crc: int | None


class Member(NamedTuple):
    """A file or folder in an archive.

    Attributes:
      name: its path below the archive's root, by `clean_name`.
      place: of its bytes; None: it is a folder.
    """

    name: bytes
    place: Place | None


class Places:
    """Where the chosen members of many archives lie, as columns that grow."""

    def __init__(self) -> None:
        self._archives, self._methods = array.array("i"), array.array("h")
        self._crcs = array.array("q")  # -1: not known
        self._offsets, self._packed, self._sizes = (array.array("q") for _ in range(3))

    def add(self, archive: int, place: Place) -> None:
        """Adds a member of an archive, given by its position in the list of them."""
        self._archives.append(archive)
        self._methods.append(place.method)
        self._crcs.append(-1 if place.crc is None else place.crc)
        self._offsets.append(place.offset)
        self._packed.append(place.packed)
        self._sizes.append(place.size)

    def to_array(self) -> NDArray[np.void]:
        """Returns them as one array of `PLACE`."""
        places = np.zeros(len(self._archives), PLACE)
        for name, values in (
            ("archive", self._archives),
            ("method", self._methods),
            ("crc", self._crcs),
            ("offset", self._offsets),
            ("packed", self._packed),
            ("size", self._sizes),
        ):
            places[name] = values
        return places


def place_of(row: np.void) -> Place:
    """Returns one place of an array of them."""
    crc = int(row["crc"])
    return Place(
        method=int(row["method"]),
        offset=int(row["offset"]),
        packed=int(row["packed"]),
        size=int(row["size"]),
        crc=None if crc < 0 else crc,
    )


def check_image_size(where: str, name: bytes, place: Place) -> None:
    """Raises SourceError where an image is too large for a record, or to be read."""
    for number, what in ((place.size, "it says it has"), (place.packed, "it is packed to")):
        if number > MAX_MEMBER_BYTES:
            refuse(
                where,
                name,
                f"expected at most {MAX_MEMBER_BYTES:,} bytes an image, {what} {number:,}",
            )


class _Unpacker(Protocol):
    """What zlib, bz2 and lzma have in common."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def clean_name(raw: bytes, where: str) -> bytes:
    """Returns a member's path without "." and empty parts.

    Args:
      raw: the name in the archive.
      where: the archive, for messages.

    Raises:
      SourceError: it leads, or would lead on some system, to a place outside of the archive.
    """
    if b"\0" in raw:
        refuse(where, raw, "its name has a NUL byte")
    if raw.startswith((b"/", b"\\")):
        refuse(where, raw, "its name is an absolute path")
    if _DRIVE.match(raw):
        refuse(where, raw, "its name begins with a drive letter")
    if b".." in raw and b".." in re.split(rb"[/\\]", raw):
        refuse(where, raw, 'its name climbs out of folders with ".."')
    return b"/".join(part for part in raw.split(b"/") if part not in (b"", b"."))


def refuse(where: str, name: bytes, reason: str, advice: str = "") -> NoReturn:
    """Raises SourceError for a member that must not be in an archive.

    Args:
      where: the archive.
      name: of the member.
      reason: what is wrong with it.
      advice: what to do; "": to pack the archive again.
    """
    raise SourceError(
        f"{where}: member {text_of(name)!r} is refused: {reason}. "
        f"{advice or 'Pack the archive again without it.'}"
    )


def read_head(descriptor: int, place: Place, length: int) -> bytes:
    """Returns the first bytes of a member, unpacking little more.

    Args:
      descriptor: of the open archive.
      place: of the member.
      length: how many; fewer come where the member is shorter.

    Raises:
      ValueError: the packed bytes are damaged.
    """
    length = min(length, place.size)
    if place.method == STORED:
        return os.pread(descriptor, length, place.offset)
    start, end = place.offset, place.offset + place.packed
    head = b""
    unpacker: _Unpacker | None = None
    try:
        while len(head) < length:
            wanted = min(_FIRST_BYTES if unpacker is None else _MORE_BYTES, end - start)
            packed = os.pread(descriptor, wanted, start)
            if not packed:
                break
            start += len(packed)
            if unpacker is None:
                unpacker, packed = _unpacker(place, packed)
            head += unpacker.decompress(packed, length - len(head))
    except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
        raise ValueError(f"its packed bytes are damaged: {error}") from error
    return head


def read_member(descriptor: int, place: Place) -> bytes:
    """Returns a whole member.

    Takes no more memory than the packed bytes and the size that the member says it has.

    Args:
      descriptor: of the open archive.
      place: of the member.

    Raises:
      ValueError: it cannot be unpacked to what the archive says of it.
    """
    packed = _pread_all(descriptor, place.offset, place.packed)
    if len(packed) != place.packed:
        raise ValueError(f"the archive ends after {len(packed):,} of {place.packed:,} bytes of it")
    data = packed if place.method == STORED else _unpack(place, packed)
    if len(data) > place.size:
        raise ValueError(f"it unpacks to more than the {place.size:,} bytes it says it has")
    if len(data) < place.size:
        raise ValueError(f"it unpacks to {len(data):,} of the {place.size:,} bytes it says it has")
    if place.crc is not None and zlib.crc32(data) != place.crc:
        raise ValueError(
            f"expected the checksum {place.crc:08x}, its bytes have {zlib.crc32(data):08x}"
        )
    return data


def _unpack(place: Place, packed: bytes) -> bytes:
    try:
        unpacker, packed = _unpacker(place, packed)
        # One byte more than it should be tells a bomb, whatever the packed bytes would become.
        return unpacker.decompress(packed, place.size + 1)
    except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
        raise ValueError(f"its packed bytes are damaged: {error}") from error


def _unpacker(place: Place, packed: bytes) -> tuple[_Unpacker, bytes]:
    """Returns what unpacks a member, and the packed bytes behind any header of the method."""
    if place.method == DEFLATE:
        return zlib.decompressobj(-zlib.MAX_WBITS), packed
    if place.method == BZIP2:
        return bz2.BZ2Decompressor(), packed
    return _lzma_unpacker(packed, place.size)


def _lzma_unpacker(packed: bytes, size: int) -> tuple[_Unpacker, bytes]:
    # Source: APPNOTE.TXT 5.8.8 of zip: version, length of the properties, properties.
    length = int.from_bytes(packed[2:4], "little")
    properties = packed[4 : 4 + length]
    if length != 5 or len(properties) != 5:
        raise lzma.LZMAError("its header is not that of LZMA")
    rest, lc = divmod(properties[0], 9)
    pb, lp = divmod(rest, 5)
    lzma1: dict[str, Any] = {
        "id": lzma.FILTER_LZMA1,
        # Looks back no further than to the member's start, whatever memory the header asks for.
        "dict_size": min(int.from_bytes(properties[1:], "little"), max(size, 4096)),
        "lc": lc,
        "lp": lp,
        "pb": pb,
    }
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[lzma1]), packed[9:]


def _pread_all(descriptor: int, offset: int, length: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    if len(data) == length:
        return data
    parts = [data]  # a signal or a network file system may end a read early
    while data and length > len(data):
        offset, length = offset + len(data), length - len(data)
        data = os.pread(descriptor, length, offset)
        parts.append(data)
    return b"".join(parts)
