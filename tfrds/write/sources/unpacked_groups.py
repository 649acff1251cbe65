"""Images of Parquet files in plain files, a row group each, in which every image can be reached.

Gets a folder that the workers of a machine share, gives images by their places;
`parquet_images.py` reads through it where the user gives a folder for it. Whichever worker needs a
row group first unpacks it, the others wait for that one.

A file is little-endian: uint64 [num rows + 1], where each image starts and the last ends, and the
images.
"""

import fcntl
import os
import pathlib
from collections.abc import Iterable

import numpy as np

_OFFSET = np.dtype("<u8")


def read_unpacked(path: pathlib.Path, row: int) -> bytes:
    """Returns an image of an unpacked row group.

    Raises:
      FileNotFoundError: it is not unpacked.
    """
    with open(path, "rb", buffering=0) as file:
        place = os.pread(file.fileno(), 2 * _OFFSET.itemsize, row * _OFFSET.itemsize)
        start, end = np.frombuffer(place, _OFFSET).tolist()
        return os.pread(file.fileno(), end - start, start)


def unpack_group(path: pathlib.Path, images: Iterable[object], num_rows: int) -> bool:
    """Writes a row group's images, unless somebody else does it at this moment.

    Args:
      path: of the file.
      images: of all its rows, in order; taken only when nobody else has written them.
      num_rows: of them.

    Returns:
      Whether the file is there. It is not where one of them is no image, the folder is none of this
      machine, or the disk is full.
    """
    temporary = path.with_suffix(".tmp")
    try:
        with open(path.with_suffix(".lock"), "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():
                return True
            if not _write(temporary, images, num_rows):
                return False
            temporary.rename(path)
            return True
    except OSError:
        return False
    finally:
        temporary.unlink(missing_ok=True)


def _write(path: pathlib.Path, images: Iterable[object], num_rows: int) -> bool:
    offsets = np.zeros(num_rows + 1, _OFFSET)
    offsets[0] = offsets.nbytes
    with open(path, "wb") as file:
        file.seek(offsets.nbytes)
        for row, image in enumerate(images):
            if not isinstance(image, bytes):
                return False
            file.write(image)
            offsets[row + 1] = int(offsets[row]) + len(image)
        file.seek(0)
        file.write(offsets.tobytes())
    return True
