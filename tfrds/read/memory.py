"""Shard files held in memory as a whole; no TensorFlow.

For storage that is slow each time: the files are read once, from front to end, and then every
example is a copy away, as with mapped files.
"""

import pathlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import DatasetError


class FilesInMemory:
    """The bytes of several files as one array.

    Attributes:
      paths: of the files.
      sizes: int64 [num files], bytes of each.
      data: uint8 [bytes], all files behind one another.

    Args:
      files: (path, bytes that it must have) of each.

    Raises:
      DatasetError: a file is missing, unreadable, or of another size.
    """

    is_read_for_each = False

    def __init__(self, files: Sequence[tuple[pathlib.Path, int]]) -> None:
        self.paths = [path for path, _ in files]
        self.sizes = np.array([size for _, size in files], np.int64)
        self._starts = np.cumsum(self.sizes) - self.sizes
        self.data = np.empty(max(int(self.sizes.sum()), 1), np.uint8)
        for (path, size), start in zip(files, self._starts.tolist(), strict=True):
            try:
                with path.open("rb", buffering=0) as file:
                    found = file.seek(0, 2)
                    if found == size:
                        file.seek(0)
                        _read_whole(file, self.data[start : start + size])
            except OSError as error:
                raise DatasetError(
                    f"{path}: cannot be read: {error.strerror}. Copy or build the dataset again."
                ) from error
            if found != size:
                raise DatasetError(
                    f"{path}: expected {size:,} bytes, found {found:,}. Copy or build the dataset "
                    "again."
                )

    def check(self, numbers: Iterable[int]) -> None:
        """Does nothing: what happens to the files does not matter any more."""

    def gather(
        self, numbers: NDArray[np.int64], offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Returns all bytes, and where each range starts in them; see `PreadFiles.gather`."""
        return self.data, offsets + self._starts[numbers]

    def read_ahead(self, number: int, offset: int, length: int) -> None:
        """Does nothing: everything is here."""


def _read_whole(file: "object", target: NDArray[np.uint8]) -> None:
    done = 0
    while done < len(target):
        count = file.readinto(target[done:].data)  # type: ignore[attr-defined]
        if not count:
            raise OSError(5, "it ends early")
        done += count
