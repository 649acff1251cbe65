"""What a file is by its content, and which kinds of files lie in a folder.

Gets a path, gives the kind; `recognise.py` chooses the source by it. A name only decides where the
content cannot: what begins as text may be a table or anything else.
"""

import bz2
import itertools
import json
import lzma
import os
import pathlib
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Literal, TypeAlias

from tfrds.disk.records import HEADER_BYTES, frame_header
from tfrds.errors import SourceError
from tfrds.write.sniffing import sniff
from tfrds.write.sources.archive_files import is_tar
from tfrds.write.sources.class_tree import left_out_as
from tfrds.write.sources.idx_file import is_idx
from tfrds.write.sources.table_files import ENDINGS
from tfrds.write.sources.tar_members import BLOCK_BYTES
from tfrds.write.sources.zip_members import zip_members

FileKind: TypeAlias = Literal[
    "archive",
    "idx",
    "image",
    "json",
    "npy",
    "npz",
    "other",
    "parquet",
    "pickle",
    "table",
    "tfrecords",
]

# What is read of a file, and what is unpacked of it.
_HEAD_BYTES = 1 << 16

_ZIP = (b"PK\3\4", b"PK\5\6")
_GZIP, _BZIP2, _XZ = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"
_MAGIC: tuple[tuple[bytes, FileKind], ...] = (
    (b"PAR1", "parquet"),
    (b"\x93NUMPY", "npy"),
    (b"\x28\xb5\x2f\xfd", "archive"),  # zstd: of what is packed so, only tars are read
    # Protocols 2 to 5; older pickles begin as text does.
    *((bytes((0x80, protocol)), "pickle") for protocol in range(2, 6)),
)

_RECORD_NAMES = (".tfrecord", ".tfrec")

# How many members of a zip, files of each folder and files in all are looked at.
_MEMBERS, _FILES_A_FOLDER, _FILES = 20, 20, 1_000


def file_kind(path: pathlib.Path) -> FileKind:
    """Returns what a file is.

    Raises:
      SourceError: it cannot be read.
    """
    try:
        # A pipe would wait for a writer for ever.
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            head = file.read(_HEAD_BYTES)
            if head.startswith(_ZIP):
                return _zip_kind(file, str(path))
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read: {error.strerror}. Correct the path, or mend its access."
        ) from error
    return _kind(path.name.lower(), head)


def _kind(name: str, head: bytes) -> FileKind:
    plain = _unpacked(head)
    if _is_record(plain) or any(part in name for part in _RECORD_NAMES):
        return "tfrecords"
    if is_idx(plain):
        return "idx"
    if len(plain) >= BLOCK_BYTES and is_tar(plain[:BLOCK_BYTES]):
        return "archive"
    if plain is not head:
        return "other"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if sniff(head):
        return "image"
    if os.path.splitext(name)[1] in ENDINGS:
        return "table"
    return "json" if _is_json_object(head) else "other"


def look_below(folder: pathlib.Path) -> dict[FileKind, pathlib.Path]:
    """Returns the kinds of files in a folder and below it, with the first of each.

    The first files by name of each folder are looked at, and no more than a thousand in all.

    Raises:
      SourceError: a file or folder cannot be read.
    """
    found: dict[FileKind, pathlib.Path] = {}
    for path in itertools.islice(_files(folder), _FILES):
        found.setdefault(file_kind(path), path)
    return found


def files_of_kind(folder: pathlib.Path, kind: FileKind) -> list[str]:
    """Returns the paths of all files of a kind in a folder and below it, by name."""
    return [str(path) for path in _files(folder, None) if file_kind(path) == kind]


def list_folder(folder: pathlib.Path) -> tuple[list[str], list[str]]:
    """Returns (names of the files, names of the folders) in a folder, without hidden ones.

    Raises:
      SourceError: it cannot be read.
    """
    files, folders = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if left_out_as(os.fsencode(entry.name)):
                    continue
                # What links lead to is not looked at: they may lead back.
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file():
                    files.append(entry.name)
    except OSError as error:
        raise SourceError(
            f"{folder}: cannot be read: {error.strerror}. Remove it, or mend its access."
        ) from error
    return sorted(files), sorted(folders)


def _files(folder: pathlib.Path, most: int | None = _FILES_A_FOLDER) -> Iterator[pathlib.Path]:
    """Yields the files of a folder, then those of the folders in it, at most so many of each."""
    files, folders = list_folder(folder)
    yield from (folder / name for name in files[:most])
    for name in folders:
        yield from _files(folder / name, most)


def _zip_kind(file: BinaryIO, where: str) -> FileKind:
    try:
        names = [member.name for member in itertools.islice(zip_members(file, where), _MEMBERS)]
    except SourceError:
        names = []  # damaged: who reads it says so
    return "npz" if names and all(name.endswith(b".npy") for name in names) else "archive"


def _unpacked(head: bytes) -> bytes:
    """Returns what the first bytes unpack to; the same object where they are not packed."""
    try:
        if head.startswith(_GZIP):
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, _HEAD_BYTES)
        if head.startswith(_BZIP2):
            return bz2.BZ2Decompressor().decompress(head, _HEAD_BYTES)
        if head.startswith(_XZ):
            return lzma.LZMADecompressor(memlimit=1 << 28).decompress(head, _HEAD_BYTES)
    except (zlib.error, lzma.LZMAError, OSError, EOFError):
        return b""
    return head


def _is_record(head: bytes) -> bool:
    """Whether bytes begin with a length and the checksum of it, as TFRecord files do."""
    start = head[:HEADER_BYTES]
    is_long = len(start) == HEADER_BYTES
    return is_long and start == frame_header(int.from_bytes(start[:8], "little"))


def _is_json_object(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def has_json_lines(path: pathlib.Path) -> bool:
    """Whether a file that begins as a JSON object has another one on its second line."""
    with path.open("rb") as file:
        lines = file.read(_HEAD_BYTES).split(b"\n")
    try:
        return len(lines) > 1 and lines[1][:1] == b"{" and isinstance(json.loads(lines[0]), dict)
    except (ValueError, RecursionError):
        return False


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
