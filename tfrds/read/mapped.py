"""Shard files mapped side by side into one stretch of memory, shared by all pipelines.

`fetch.py` copies rows out of it: with all shards in one array a whole batch is one gather, in
whichever shards its rows lie. A mapped file that shrinks kills the process at the next access
(SIGBUS), so sizes are looked at again before each batch.
"""

import ctypes
import mmap
import os
import pathlib
import weakref
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import DatasetError
from tfrds.read.advice import pieces
from tfrds.read.file_status import file_status

# Not through Python's mmap: until 3.13 it keeps a descriptor a file, so a thousand shards would
# take all that a process may open; and it cannot place one file behind another.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_longlong,
)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_MAP_FAILED = ctypes.c_void_p(-1).value
_PROT_NONE = 0
_MAP_FIXED = 0x10  # the same on Linux and macOS; Python does not name it
_PAGE = mmap.ALLOCATIONGRANULARITY


class MappedFiles:
    """The bytes of several files, read-only, as one array.

    Attributes:
      paths: of the files.
      sizes: int64 [num files], bytes of each.
      starts: int64 [num files], where each begins in `data`; between them lie unreadable gaps.
      data: uint8 [bytes]; the files stay mapped as long as any view of it lives.
    """

    is_read_for_each = False

    def __init__(self, files: Sequence[tuple[pathlib.Path, int]]) -> None:
        self.paths = [path for path, _ in files]
        self.sizes = np.array([size for _, size in files], np.int64)
        taken = -(-self.sizes // _PAGE) * _PAGE
        self.starts = np.cumsum(taken) - taken
        self.data = _reserve(max(int(taken.sum()), _PAGE))
        self._identities = [
            _map(path, size, self.data.ctypes.data + start)
            for (path, size), start in zip(files, self.starts.tolist(), strict=True)
        ]

    def gather(
        self, numbers: NDArray[np.int64], offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Returns all bytes, and where each range starts in them; nothing is copied.

        Args:
          numbers: int64 [n], of the files.
          offsets: int64 [n], in them.
          lengths: int64 [n].
        """
        return self.data, offsets + self.starts[numbers]

    def read_ahead(self, number: int, offset: int, length: int) -> None:
        """Has the kernel read a range of a file now, and goes on."""
        start = self.data.ctypes.data + int(self.starts[number]) + offset
        for first, size in pieces(start, length):
            _libc.madvise(first, size, mmap.MADV_WILLNEED)  # an error means not now

    def check(self, numbers: Iterable[int]) -> None:
        """Raises DatasetError if one of these files was cut since it was mapped.

        A file that was removed or replaced under its name keeps its bytes, and is fine.
        """
        for number in numbers:
            status = file_status(self.paths[number])
            if status and status.identity == self._identities[number]:
                expected = int(self.sizes[number])
                if status.size != expected:
                    raise DatasetError(
                        f"{self.paths[number]}: expected {expected:,} bytes, found "
                        f"{status.size:,}: the file was changed while it is read. Copy or build "
                        "the dataset again."
                    )


_Key = tuple[tuple[str, int, int, int], ...]
_open_files: "weakref.WeakValueDictionary[_Key, MappedFiles]" = weakref.WeakValueDictionary()


def map_files(files: Sequence[tuple[pathlib.Path, int]]) -> MappedFiles:
    """Returns the files' bytes, mapped once for all who ask for the same ones while they are used.

    Args:
      files: (path, bytes that it must have) of each.

    Raises:
      DatasetError: a file is missing, unreadable, or of another size.
    """
    key = tuple(_fingerprint(path) for path, _ in files)
    mapped = _open_files.get(key)
    if mapped is None or mapped.sizes.tolist() != [size for _, size in files]:
        mapped = _open_files[key] = MappedFiles(files)
    return mapped


def _fingerprint(path: pathlib.Path) -> tuple[str, int, int, int]:
    try:
        status = os.stat(path)
    except OSError as error:
        raise _unusable(path, error) from error
    return os.path.abspath(path), status.st_ino, status.st_size, status.st_mtime_ns


def _reserve(num_bytes: int) -> NDArray[np.uint8]:
    """Returns an array over addresses that hold nothing yet; they are freed with its last view."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    address = _libc.mmap(None, num_bytes, _PROT_NONE, flags, -1, 0)
    if address == _MAP_FAILED:
        raise DatasetError(
            f"{num_bytes:,} bytes of shards cannot be mapped: {os.strerror(ctypes.get_errno())}. "
            "Raise the limit of address space (ulimit -v)."
        )
    memory = (ctypes.c_ubyte * num_bytes).from_address(address)
    weakref.finalize(memory, _libc.munmap, address, num_bytes).atexit = False
    data: NDArray[np.uint8] = np.ctypeslib.as_array(memory)
    data.flags.writeable = False
    return data


def _map(path: pathlib.Path, num_bytes: int, address: int) -> tuple[int, ...]:
    """Maps a file at an address inside reserved ones; returns the file's identity."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        size = os.fstat(descriptor).st_size
        if size != num_bytes:
            raise DatasetError(
                f"{path}: expected {num_bytes:,} bytes, found {size:,}. Copy or build the dataset "
                "again."
            )
        flags = mmap.MAP_SHARED | _MAP_FIXED
        if num_bytes and (
            _libc.mmap(address, num_bytes, mmap.PROT_READ, flags, descriptor, 0) == _MAP_FAILED
        ):
            raise DatasetError(
                f"{path}: cannot be mapped: {os.strerror(ctypes.get_errno())}. Copy the dataset to "
                "a local disk."
            )
    finally:
        os.close(descriptor)
    status = file_status(path)
    return status.identity if status else ()


def _unusable(path: pathlib.Path, error: OSError) -> DatasetError:
    return DatasetError(
        f"{path}: cannot be opened: {error.strerror}. Copy or build the dataset again."
    )
