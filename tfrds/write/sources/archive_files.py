"""The archives that a user's paths and patterns mean, and of what kind each is.

Gets what `Archive(files)` got, gives files; `unpacked_tars.py` is next for compressed tars, then
the members of each are walked.
"""

import dataclasses
import os
import pathlib
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any

from tfrds.errors import SourceError
from tfrds.write.sniffing import SNIFF_BYTES, describe, sniff
from tfrds.write.sources.archive_members import Member
from tfrds.write.sources.given_files import find_given
from tfrds.write.sources.stamps import stamp_of
from tfrds.write.sources.tar_members import BLOCK_BYTES, tar_members
from tfrds.write.sources.zip_members import zip_members

# By what compressed tars begin with.
_COMPRESSIONS = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)

_PLAIN = ("zip", "tar")

# Archives that cannot be read.
_OTHERS = ((b"Rar!\x1a\x07", "RAR"), (b"7z\xbc\xaf\x27\x1c", "7-Zip"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArchiveFile:
    """An archive as it is when its members are walked.

    Attributes:
      path: as the user knows it, for messages.
      data_path: of the file in which the members lie: an absolute path, of the archive itself or
        of the tar that it was unpacked to.
      kind: "zip" or "tar"; or how a tar is compressed.
      size: of the data file in bytes.
      mtime_ns: its time of change.
      stamp: another number where the archive may have changed.
      is_unpacked: whether the data file is a temporary one.
    """

    path: pathlib.Path
    data_path: pathlib.Path
    kind: str
    size: int
    mtime_ns: int
    stamp: int
    is_unpacked: bool = False

    @property
    def is_compressed_tar(self) -> bool:
        """Whether members can be reached from the start on only."""
        return self.kind not in _PLAIN

    def members(self, file: Any) -> Iterator[Member]:
        """Yields the members; `file` is the open data file."""
        walk = zip_members if self.kind == "zip" else tar_members
        return walk(file, str(self.path))


def find_archives(files: Iterable[str]) -> list[ArchiveFile]:
    """Returns the archives that paths and patterns mean, in that order.

    Args:
      files: by `parse_given`.

    Raises:
      SourceError: a file is missing, or is neither a zip nor a tar; or a pattern fits none.
      ConfigError: a file is meant twice.
    """
    return [_look_at(pathlib.Path(path)) for path in find_given("files", files)]


def _look_at(path: pathlib.Path) -> ArchiveFile:
    if path.is_dir():
        raise SourceError(
            f"{path}: is a folder, expected an archive. Pass its archives as "
            f"{str(path / '*.tar')!r}, or the folder to ImageFolder."
        )
    if not path.is_file():
        raise SourceError(f"{path}: expected an archive, found no ordinary file.")
    try:
        with path.open("rb") as file:
            head = file.read(BLOCK_BYTES)
            status = os.fstat(file.fileno())
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}.") from error
    kind = next((kind for magic, kind in _COMPRESSIONS if head.startswith(magic)), None)
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        kind = "zip"
    elif kind is None and is_tar(head):
        kind = "tar"
    if kind is None:
        raise SourceError(
            f"{path}: expected a zip or a tar, plain or packed by gzip, bzip2, xz or zstd; "
            f"{_describe(head)}"
        )
    return ArchiveFile(
        path=path,
        data_path=path.absolute(),
        kind=kind,
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        stamp=stamp_of(status),
    )


def _describe(head: bytes) -> str:
    """Returns what a file is that is no archive, and what to do."""
    if not head:
        return "the file is empty. Copy it again."
    other = next((name for magic, name in _OTHERS if head.startswith(magic)), None)
    if other:
        return f"it is a {other} archive. Unpack it and pass the folder, or pack that as a zip."
    if found := sniff(head):
        return f"it is a single image ({found}). Pass the folder or the archive that it is from."
    return f"{describe(head[:SNIFF_BYTES])}. Copy it again, or pass a source that reads it."


def is_tar(head: bytes) -> bool:
    """Whether the first `BLOCK_BYTES` bytes are those of a tar, of one without members too."""
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return len(head) == BLOCK_BYTES and not any(head)
    return True
