"""Shard files mapped into memory, shared by all pipelines, without a file descriptor each.

`fetch.py` copies rows out of them. A mapped file that shrinks kills the process at the next access
(SIGBUS), so its size is looked at again before each batch.
"""

import ctypes
import mmap
import os
import pathlib
import weakref

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import DatasetError

# Python's own mmap keeps a descriptor a file (until 3.13): a thousand shards would take all that a
# process may open.
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
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_MAP_FAILED = ctypes.c_void_p(-1).value


class MappedFile:
    """One file's bytes, read-only.

    Attributes:
      path: of the file.
      data: uint8 [bytes]; the file stays mapped as long as any view of it lives.
    """

    def __init__(self, path: pathlib.Path, num_bytes: int) -> None:
        self.path = path
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise DatasetError(
                f"{path}: cannot be opened: {error.strerror}. Copy or build the dataset again."
            ) from error
        try:
            status = os.fstat(descriptor)
            if status.st_size != num_bytes:
                raise DatasetError(
                    f"{path}: expected {num_bytes:,} bytes, found {status.st_size:,}. Copy or "
                    "build the dataset again."
                )
            self._identity = (status.st_dev, status.st_ino)
            self.data = _map(path, descriptor, num_bytes)
        finally:
            os.close(descriptor)

    def check(self) -> None:
        """Raises DatasetError if the file was cut since it was mapped; costs one system call.

        A file that was removed or replaced under its name is none of our business: its bytes stay
        mapped.
        """
        try:
            status = os.stat(self.path)
        except OSError:
            return
        if (status.st_dev, status.st_ino) == self._identity and status.st_size != len(self.data):
            raise DatasetError(
                f"{self.path}: expected {len(self.data):,} bytes, found {status.st_size:,}: the "
                "file was changed "
                "while it is read. Copy or build the dataset again."
            )


_open_files: "weakref.WeakValueDictionary[tuple[str, int, int, int], MappedFile]" = (
    weakref.WeakValueDictionary()
)


def map_file(path: pathlib.Path, num_bytes: int) -> MappedFile:
    """Returns the file's bytes, mapped once for all who ask while anybody uses it.

    Raises:
      DatasetError: missing, unreadable, or not of `num_bytes`.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be opened: {error.strerror}. Copy or build the dataset again."
        ) from error
    key = (os.path.abspath(path), status.st_ino, status.st_size, status.st_mtime_ns)
    file = _open_files.get(key)
    if file is None or len(file.data) != num_bytes:
        file = _open_files[key] = MappedFile(path, num_bytes)
    return file


def _map(path: pathlib.Path, descriptor: int, num_bytes: int) -> NDArray[np.uint8]:
    address = _libc.mmap(None, num_bytes, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _MAP_FAILED:
        raise DatasetError(f"{path}: cannot be mapped: {os.strerror(ctypes.get_errno())}.")
    memory = (ctypes.c_ubyte * num_bytes).from_address(address)
    # Every numpy view keeps `memory` alive, so the bytes are unmapped after the last of them.
    weakref.finalize(memory, _libc.munmap, address, num_bytes).atexit = False
    data: NDArray[np.uint8] = np.ctypeslib.as_array(memory)
    data.flags.writeable = False
    return data
