"""How shards are read: mapped, by ranges, or from memory; chosen by where they lie.

Gets the files and what the user asked for, gives an object with `gather`; `fetch.py` reads through
it. No TensorFlow.
"""

import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tfrds.read.mapped import map_files
from tfrds.read.memory import FilesInMemory
from tfrds.read.pread import PreadFiles

# Where each read asks a server. "fuse" is the beginning of many names.
_NETWORK_FILE_SYSTEMS = (
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "fuse",
    "gpfs",
    "lustre",
    "nfs",
    "smb",
    "virtiofs",
)
_MOUNTS = pathlib.Path("/proc/self/mountinfo")


class Storage(Protocol):
    """The bytes of several files.

    Attributes:
      paths: of the files.
      sizes: int64 [num files], bytes of each.
      is_read_for_each: whether `gather` gives the ranges behind one another, in memory that is the
        caller's; else the same bytes each time.
    """

    paths: list[pathlib.Path]
    sizes: NDArray[np.int64]
    is_read_for_each: bool

    def check(self, numbers: Iterable[int]) -> None:
        """Raises DatasetError if one of these files is known to be cut."""
        ...

    def gather(
        self, numbers: NDArray[np.int64], offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Returns bytes that hold the ranges, and where each of them starts."""
        ...

    def read_ahead(self, number: int, offset: int, length: int) -> None:
        """Has the kernel read a range of a file; leaves errors to the `gather` that needs it."""
        ...


def open_storage(
    files: Sequence[tuple[pathlib.Path, int]], engine: str, *, in_memory: bool = False
) -> Storage:
    """Opens shards.

    Args:
      files: (path, bytes that it must have) of each.
      engine: "mmap" or "pread".
      in_memory: read all of them now, and keep them.

    Raises:
      DatasetError: a file is missing, unreadable, or of another size.
    """
    if in_memory:
        return FilesInMemory(files)
    return PreadFiles(files) if engine == "pread" else map_files(files)


def choose_engine(directory: pathlib.Path) -> str:
    """Returns "pread" for a directory on a network file system, else "mmap"."""
    kind = file_system_of(directory)
    return "pread" if kind.startswith(_NETWORK_FILE_SYSTEMS) else "mmap"


def file_system_of(directory: pathlib.Path) -> str:
    """Returns the type of the file system that a directory lies on; empty where it is unknown.

    Source: proc(5), /proc/pid/mountinfo: the mount point is the fifth field of a line, the type the
    first after a lone dash.
    """
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""  # no Linux
    real, found = os.path.realpath(directory), ("", "")
    for line in lines:
        fields = line.split(" ")
        point = fields[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
        is_above = point == "/" or real == point or real.startswith(point + "/")
        # Of mounts on one place the last is seen.
        if is_above and len(point) >= len(found[0]):
            found = (point, fields[fields.index("-") + 1])
    return found[1]
