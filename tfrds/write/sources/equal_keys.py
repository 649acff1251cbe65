"""Keys that stand in more than one row of a source, found before the plan would name but one."""

import numpy as np
import xxhash
from numpy.typing import NDArray

from tfrds.disk.keys import Keys


def find_equal(keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns (first rows, later rows) of all keys that stand in more than one row."""
    hashes = np.fromiter((xxhash.xxh3_64_intdigest(key) for key in keys), np.uint64, len(keys))
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    is_again = np.zeros(len(order), bool)
    is_again[1:] = ordered[1:] == ordered[:-1]
    starts = np.maximum.accumulate(np.where(is_again, 0, np.arange(len(order))))
    later, first = order[is_again], order[starts[is_again]]
    # Two keys may have one hash by chance.
    pairs = zip(first.tolist(), later.tolist(), strict=True)
    same = np.array([keys[one] == keys[other] for one, other in pairs], bool)
    by_row = np.argsort(later[same], kind="stable")
    return first[same][by_row], later[same][by_row]
