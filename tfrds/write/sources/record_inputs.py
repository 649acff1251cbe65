"""The records of one shard, read by worker processes: checked whole, their images taken out.

Gets what the scan of `tfrecords.py` knows of each record, gives image after image.
"""

import dataclasses
import os
import socket

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.foreign_example import find_features
from tfrds.disk.foreign_records import read_record
from tfrds.disk.window import Window, open_file
from tfrds.errors import DatasetError, SourceError
from tfrds.write.sources.base import Image
from tfrds.write.sources.record_image import ImageRule
from tfrds.write.sources.record_walk import describe
from tfrds.write.sources.unpacked_records import find_unpacked


@dataclasses.dataclass(frozen=True)
class InputFile:
    """A file of one shard.

    Attributes:
      path: absolute.
      name: as keys have it.
      unpacked: of a GZIP file the folder of its unpacked records, and its number there.
    """

    path: str
    name: str
    unpacked: tuple[str, int] | None


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class RecordInputs:
    """The records of one shard.

    Attributes:
      files: that they lie in.
      which: int32 [n], position of each record's file.
      numbers: int64 [n], of each record in its file.
      offsets: int64 [n], of its frame in the plain file.
      lengths: int64 [n], of its data.
      rule: how the image is stored.
    """

    files: list[InputFile]
    which: NDArray[np.int32]
    numbers: NDArray[np.int64]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    rule: ImageRule

    def __len__(self) -> int:
        return len(self.which)

    def name(self, position: int) -> str:
        """Returns the file and number of a record."""
        return f"{self.files[self.which[position]].name} record {self.numbers[position]}"

    def read(self, position: int) -> Image:
        """Returns the image of a record.

        Raises:
          SourceError: the record is damaged, or not what it should be.
          OSError: its file cannot be read.
          DatasetError: none of the files are on this machine.
        """
        name = self.name(position)
        try:
            data = self._data(position)
        except ValueError as error:
            raise self._fault(error, str(error), name) from error
        window = Window(data)
        try:
            wanted = {key.encode() for key in self.rule.keys}
            return self.rule.read(window, find_features(window, 0, len(data), wanted))
        except ValueError as error:
            raise self._fault(error, describe(error, window, 0, len(data)), name) from error

    def _data(self, position: int) -> bytes:
        file = self.files[self.which[position]]
        offset, length = int(self.offsets[position]), int(self.lengths[position])
        try:
            path = file.path
            if file.unpacked is not None:
                folder, number = file.unpacked
                path = find_unpacked(folder, number, file.path)
            with open_file(path) as descriptor:
                return read_record(descriptor, offset, length)
        except FileNotFoundError:
            if any(os.path.exists(other.path) for other in self.files):
                raise
            # No fault of this image: on a worker that sees none of them, all would be skipped.
            raise DatasetError(
                f"{file.path}: expected the source's files on {socket.gethostname()}, found none "
                "of them. Every worker must see them under the same paths."
            ) from None

    def _fault(self, error: ValueError, text: str, name: str) -> SourceError:
        if isinstance(error, SourceError):
            return error
        return SourceError(f"{name}: {text}. Correct the file, or leave it out.")
