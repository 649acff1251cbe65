"""Images in archives as a worker reads them: from their places, without a look at other members.

Gets what `archive.py` found of one shard's images, gives their bytes.
"""

import os
import socket

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.keys import Keys
from tfrds.errors import DatasetError, SourceError
from tfrds.write.sources.archive_files import ArchiveFile
from tfrds.write.sources.archive_members import place_of, read_member
from tfrds.write.sources.class_tree import text_of
from tfrds.write.sources.unpacked_tars import UnpackedTars


class ArchiveInputs:
    """The images of one shard, each by its place in an archive.

    Args:
      archives: that these images lie in.
      names: of the members.
      places: `PLACE` [n], of them.
      unpacked: what must not go before this does; not for workers.
    """

    def __init__(
        self,
        archives: list[ArchiveFile],
        names: Keys,
        places: NDArray[np.void],
        unpacked: UnpackedTars | None,
    ) -> None:
        self._archives = archives
        self._names = names
        self._places = places
        self._unpacked = unpacked

    def __len__(self) -> int:
        """Returns the number of images."""
        return len(self._places)

    def __reduce__(self) -> tuple[object, ...]:
        return ArchiveInputs, (self._archives, self._names, self._places, None)

    def name(self, position: int) -> str:
        """Returns the name of the archive and the path in it."""
        archive = self._archives[self._places[position]["archive"]]
        return f"{archive.path.name}/{text_of(self._names[position])}"

    def read(self, position: int) -> bytes:
        """Returns the bytes of an image.

        Opens the archive each time, as a folder's files are: a shard may lie in thousands of them.

        Raises:
          SourceError, OSError: this image cannot be read.
          DatasetError: its archive is not there, or another one by now.
        """
        row = self._places[position]
        archive = self._archives[row["archive"]]
        try:
            descriptor = os.open(archive.data_path, os.O_RDONLY)
        except FileNotFoundError:
            raise _missing(archive) from None
        try:
            status = os.fstat(descriptor)
            if (status.st_size, status.st_mtime_ns) != (archive.size, archive.mtime_ns):
                raise DatasetError(
                    f"{archive.data_path}: changed since it was scanned, from {archive.size:,} "
                    f"bytes to {status.st_size:,}, or in its time of change, on "
                    f"{socket.gethostname()}. Build again when nobody writes it."
                )
            return read_member(descriptor, place_of(row))
        except ValueError as error:
            raise SourceError(f"{self.name(position)}: {error}. Copy the archive again.") from error
        finally:
            os.close(descriptor)


def _missing(archive: ArchiveFile) -> DatasetError:
    # No fault of this image: on a worker that does not see the file, all would be skipped.
    what, advice = str(archive.data_path), ""
    if archive.is_unpacked:
        what = f"{archive.path} as unpacked to {what}"
        advice = " Pass a folder that all see as scratch_dir."
    return DatasetError(
        f"{what}: expected this file on {socket.gethostname()}, found none. Every worker must see "
        f"it under the same path.{advice}"
    )
