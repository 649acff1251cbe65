"""GZIP TFRecord files as plain ones: in them records can be reached, in GZIP files they cannot.

Gets the path of a file, gives that of a plain one in a temporary folder. A dataset's order is
random over all files, so every shard would unpack all of them from their first byte on. The scan
must unpack each once anyway, and keeps what it gets: workers of this machine read there by place.
A worker elsewhere, which does not see that folder, unpacks what it needs once for itself.
"""

import os
import pathlib

from tfrds.disk.foreign_records import unpack
from tfrds.write.sources.scratch_folder import ScratchFolder


class UnpackedRecords:
    """Unpacked files, which go with this object, or at exit.

    Args:
      parent: folder to put them in; None: the system's for temporary files.
    """

    def __init__(self, parent: pathlib.Path | None = None) -> None:
        self._parent = parent
        self._folder: ScratchFolder | None = None

    @property
    def folder(self) -> str | None:
        """In which they lie; None where there are none yet."""
        return str(self._folder.path) if self._folder else None

    def unpack(self, path: str, number: int) -> str:
        """Returns the path of a GZIP file's records in a plain file.

        Args:
          path: of the GZIP file.
          number: of it among all.

        Raises:
          SourceError: damaged, or it does not fit the disk.
          OSError: cannot be read.
        """
        if self._folder is None:
            self._folder = ScratchFolder(self._parent, path)
        with self._folder.new_file(_name(number), path) as file:
            unpack(path, file)
        return os.path.join(self._folder.path, _name(number))


# What this process has unpacked for the last scan that it works for, by that scan's folder.
_own: dict[str, tuple[UnpackedRecords, dict[int, str]]] = {}


def find_unpacked(folder: str, number: int, path: str) -> str:
    """Returns where a worker finds a GZIP file's records in a plain file.

    Args:
      folder: of the scan's unpacked files.
      number: of the file in it.
      path: of the GZIP file.

    Raises:
      SourceError, OSError: it must be unpacked here, and cannot be.
    """
    there = os.path.join(folder, _name(number))
    if os.path.exists(there):
        return there
    if folder not in _own:
        _own.clear()
        _own[folder] = (UnpackedRecords(), {})
    unpacked, paths = _own[folder]
    if number not in paths:
        paths[number] = unpacked.unpack(path, number)
    return paths[number]


def _name(number: int) -> str:
    return f"{number}.tfrecord"
