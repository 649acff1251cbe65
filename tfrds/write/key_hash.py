"""Hashes of keys: what fixes the order of the records, and which split an example gets.

Gets keys, or names of groups, gives numbers that are the same on every machine; `plan.py`,
`splits.py` and `groups.py` decide by them.
"""

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

# Hashes by what they decide. Their names stand in tfrds.json: another way to hash gets another
# name.
ORDER_HASH = "blake2b-128 tfrds-order-1"
SPLIT_HASH = "blake2b-128 tfrds-split-1"


def hash_keys(keys: Iterable[bytes], hash_name: str) -> NDArray[np.uint64]:
    """Returns uint64 [n, 2], the upper and lower half of each key's 128-bit hash, big-endian."""
    salt = hash_name.split()[1].encode()
    digests = bytearray()  # joining would first hold each digest as an object of its own
    for key in keys:
        digests += hashlib.blake2b(key, digest_size=16, salt=salt).digest()
    return np.frombuffer(digests, ">u8").reshape(-1, 2).astype(np.uint64)


def sort_by_hash(hashes: NDArray[np.uint64], *first: NDArray[np.generic]) -> NDArray[np.int64]:
    """Returns the rows sorted by the columns `first`, the last of them first, then by hash."""
    return np.lexsort((hashes[:, 1], hashes[:, 0], *first))
