"""Compressed tars as plain ones: in them members can be reached, in compressed ones they cannot.

Gets an archive file, gives one whose members lie in an unpacked tar in a temporary folder;
`tar_members.py` is next.
"""

import contextlib
import dataclasses
import logging
import lzma
import pathlib
import zlib
from collections.abc import Generator, Iterator
from typing import BinaryIO

from tfrds.errors import SourceError
from tfrds.write.sources.archive_files import ArchiveFile, is_tar
from tfrds.write.sources.scratch_folder import ScratchFile, ScratchFolder
from tfrds.write.sources.tar_members import BLOCK_BYTES

_CHUNK = 2**20

# xz -9 needs 64 MiB; a header may ask for four gigabytes.
_MAX_XZ_MEMORY_BYTES = 256 * 2**20

_log = logging.getLogger("tfrds")


class UnpackedTars:
    """Unpacked tars, which go with this object, or at exit.

    Args:
      parent: folder to put them in; None: the system's for temporary files.
    """

    def __init__(self, parent: pathlib.Path | None) -> None:
        self._parent = parent
        self._folder: ScratchFolder | None = None
        self._unpacked: dict[tuple[pathlib.Path, int], ArchiveFile] = {}

    def unpack(self, archive: ArchiveFile, max_bytes: int) -> ArchiveFile:
        """Returns the archive as one whose members lie in a plain tar.

        Args:
          archive: a compressed tar.
          max_bytes: that it may unpack to.

        Raises:
          SourceError: it unpacks to more, or does not fit the disk, or is damaged or no tar.
        """
        known = (archive.data_path, archive.stamp)
        if known not in self._unpacked:
            _log.info("Unpacking %s, whose images cannot be reached as it is.", archive.path)
            if self._folder is None:
                self._folder = ScratchFolder(self._parent, str(archive.path))
            name = f"{len(self._unpacked)}.tar"
            with self._folder.new_file(name, str(archive.path)) as file:
                _write_tar(archive, file, max_bytes)
            path = self._folder.path / name
            status = path.stat()
            self._unpacked[known] = dataclasses.replace(
                archive,
                data_path=path,
                kind="tar",
                size=status.st_size,
                mtime_ns=status.st_mtime_ns,
                is_unpacked=True,
            )
        return self._unpacked[known]

    def remove(self) -> None:
        """Removes them."""
        self._folder, self._unpacked = None, {}  # the folder goes with its object


def _write_tar(archive: ArchiveFile, file: ScratchFile, max_bytes: int) -> None:
    written = 0
    with contextlib.closing(_unpacked(archive)) as chunks:
        for chunk in _tar_only(archive, chunks):
            written += len(chunk)
            if written > max_bytes:
                raise SourceError(
                    f"{archive.path}: its {archive.size:,} bytes unpack to more than the "
                    f"{max_bytes:,} that are left of max_unpacked_bytes. Pass a larger "
                    "max_unpacked_bytes if you trust the archive."
                )
            file.write(chunk)


def _tar_only(archive: ArchiveFile, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the chunks, unless they are those of something else, which may be large."""
    head = b""
    while len(head) < BLOCK_BYTES and (chunk := next(chunks, b"")):
        head += chunk
    if not is_tar(head[:BLOCK_BYTES]):
        raise SourceError(
            f"{archive.path}: expected a tar packed by {archive.kind}, found something else in it. "
            "Pack the images as a tar."
        )
    yield head
    yield from chunks


def _unpacked(archive: ArchiveFile) -> Generator[bytes]:
    """Yields the unpacked bytes, in pieces of about a megabyte.

    Raises:
      SourceError: the archive is damaged or cut off.
    """
    try:
        if archive.kind == "xz":
            with archive.data_path.open("rb") as file:
                yield from _unpacked_xz(file)
            return
        with _open(archive) as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise SourceError(
            f"{archive.path}: cannot be unpacked by {archive.kind}, damaged or cut off: {error}. "
            "Copy it again."
        ) from error


def _open(archive: ArchiveFile) -> BinaryIO:
    if archive.kind == "gzip":
        import gzip

        return gzip.open(archive.data_path)  # type: ignore[return-value]
    if archive.kind == "bzip2":
        import bz2

        return bz2.open(archive.data_path)  # type: ignore[return-value]
    # Comes with TFDS; Python has zstd of its own from 3.14 on.
    import pyarrow

    return pyarrow.input_stream(str(archive.data_path), compression="zstd")  # type: ignore[no-any-return]


def _unpacked_xz(file: BinaryIO) -> Iterator[bytes]:
    """Yields what the streams of an xz file unpack to, within a limit of memory.

    lzma.open has no such limit, and overlooks streams behind a padding.
    """
    data = file.read(_CHUNK)
    while True:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, _MAX_XZ_MEMORY_BYTES)
        while not unpacker.eof:
            if unpacker.needs_input and not data:
                data = file.read(_CHUNK)
                if not data:
                    raise EOFError("the end is missing")
            if chunk := unpacker.decompress(data, _CHUNK):
                yield chunk
            data = b""
        data = unpacker.unused_data.lstrip(b"\0")
        while not data:
            if not (data := file.read(_CHUNK)):
                return
            data = data.lstrip(b"\0")
