"""The members of a plain tar, from one walk over its headers.

Gets an open file, gives the name and place of each member; `archive_members.py` reads them.
"""

import tarfile
from collections.abc import Iterator
from typing import BinaryIO, Self

from tfrds.errors import SourceError
from tfrds.write.sources.archive_members import STORED, Member, Place, clean_name, refuse

BLOCK_BYTES = tarfile.BLOCKSIZE

# Long names and other attributes of one member lie in blocks before its own.
_MAX_HEADER_BYTES = 2**20

_CHUNK = 2**20

_LINKS = "Pack the files themselves: tar --dereference --hard-dereference."


def tar_members(file: BinaryIO, where: str) -> Iterator[Member]:
    """Yields the members in the archive's order.

    Args:
      file: of the archive.
      where: its name, for messages.

    Raises:
      SourceError: the archive is damaged or cut off, or holds what must not be in it.
    """
    size = file.seek(0, 2)
    file.seek(0)
    for info in _infos(file, where):
        raw = info.name.encode("utf-8", "surrogateescape")
        end = info.offset_data + info.size
        name = clean_name(raw, where)
        if info.isdir():
            yield Member(name, None)
            continue
        _check_kind(info, raw, where)
        if end > size:
            refuse(
                where,
                raw,
                f"its {info.size:,} bytes would end at {end:,}, the archive ends at {size:,}",
                "The archive is cut off: copy it again.",
            )
        if not name:
            refuse(where, raw, "it has no name")
        yield Member(name, Place(STORED, info.offset_data, info.size, info.size, None))


def _infos(file: BinaryIO, where: str) -> Iterator[tarfile.TarInfo]:
    headers = _Headers(file)
    try:
        tar = tarfile.TarFile(
            fileobj=headers,  # type: ignore[arg-type]
            mode="r",
            tarinfo=_Info,
            # Names stay the bytes that they are.
            encoding="utf-8",
            errors="surrogateescape",
        )
        while (info := tar.next()) is not None:
            # It keeps them all: a gigabyte for a million.
            tar.members.clear()  # type: ignore[attr-defined]
            headers.left = _MAX_HEADER_BYTES
            if info.size < 0 or tar.offset < info.offset_data:
                raise tarfile.ReadError(f"the member at {info.offset:,} has a negative size")
            yield info
    except Exception as error:  # of a damaged header tarfile raises almost anything
        raise SourceError(
            f"{where}: damaged near byte {file.tell():,}: {error}. Copy it again, or pack it again."
        ) from error
    _check_end(file, tar.offset, where)


class _Info(tarfile.TarInfo):
    """Reads the headers of ordinary files in half the time: of what is in them, two fields."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Returns a header of 512 bytes without owner, mode and times where it is a file's."""
        if buf[156:157] != tarfile.REGTYPE or len(buf) != BLOCK_BYTES:
            return super().frombuf(buf, encoding, errors)
        try:
            checksum = int(buf[148:156].strip(b"\0 "), 8)
            size = int(buf[124:136].strip(b"\0 "), 8)
        except ValueError:  # beyond 8 GiB, for one
            return super().frombuf(buf, encoding, errors)
        if checksum != 256 + sum(buf) - sum(buf[148:156]):
            return super().frombuf(buf, encoding, errors)
        name = buf[:100].partition(b"\0")[0].decode(encoding, errors)
        prefix = buf[345:500].partition(b"\0")[0].decode(encoding, errors)
        info = cls(f"{prefix}/{name}" if prefix else name)
        info.size = size
        return info


class _Headers:
    """What tarfile reads of the archive: headers, which are small whatever they say they are."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell
        self.left = _MAX_HEADER_BYTES

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise tarfile.ReadError(f"a header of {size:,} bytes or more")
        self.left -= size
        return self._file.read(size)


def _check_kind(info: tarfile.TarInfo, raw: bytes, where: str) -> None:
    """Refuses what is no ordinary file."""
    if info.type == tarfile.REGTYPE and info.sparse is None:
        return
    if info.issym():
        refuse(where, raw, f"it is a symbolic link to {info.linkname!r}", _LINKS)
    if info.islnk():
        refuse(where, raw, f"it is a hard link to {info.linkname!r}", _LINKS)
    if info.ischr() or info.isblk():
        refuse(where, raw, "it is a device")
    if info.isfifo():
        refuse(where, raw, "it is a pipe")
    if info.issparse():
        refuse(where, raw, "it is a sparse file", "Pack it without --sparse.")
    if not info.isreg():
        refuse(where, raw, f"it is of the unknown kind {info.type!r}")


def _check_end(file: BinaryIO, offset: int, where: str) -> None:
    """Raises SourceError unless the archive ends where its members do.

    tarfile takes any header that it cannot read for the end.
    """
    file.seek(offset)
    block = file.read(BLOCK_BYTES)
    if len(block) < BLOCK_BYTES:
        raise SourceError(
            f"{where}: cut off at byte {offset + len(block):,}: the mark of a tar's end is "
            "missing. Copy it again, or pack it again."
        )
    if any(block):
        raise SourceError(
            f"{where}: damaged at byte {offset:,}: expected the header of a member. Copy it again, "
            "or pack it again."
        )
    while chunk := file.read(_CHUNK):
        if chunk.count(0) != len(chunk):
            raise SourceError(
                f"{where}: more follows behind the end at byte {offset:,}, as where several tars "
                "were joined to one file. Pass them one by one, or pack it again."
            )
