"""Numbers that are others where an image may have changed since, for `References.stamps`."""

import os

import numpy as np
import xxhash
from numpy.typing import NDArray

# 2^64 / golden ratio: odd, so that no two numbers become one.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def mix_stamps(
    first: "NDArray[np.uint64] | NDArray[np.int64]", *others: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Returns a number for each row that is another one where any of its numbers is.

    Args:
      first: uint64 or int64 [n].
      others: int64 [n] each.
    """
    stamps = np.ascontiguousarray(first).view(np.uint64)
    for values in others:
        stamps = stamps * _FACTOR ^ np.ascontiguousarray(values).view(np.uint64)
    return stamps


def stamp_of(status: os.stat_result, more: object = "") -> int:
    """Returns the stamp of a file that many images lie in, by its size and time of change.

    Args:
      status: of the file.
      more: text that decides what is made of it.
    """
    text = f"{status.st_size} {status.st_mtime_ns} {more}"
    return xxhash.xxh3_64_intdigest(text.encode())
