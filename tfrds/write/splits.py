"""Which example belongs to which split, when fractions are asked for.

Gets the keys' hashes, labels and fractions, gives a split for each example; the plan is next. An
example's place is decided by the hash of its key, so neither the listing's order nor a worker has a
say.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import SourceError


def assign_splits(
    order: NDArray[np.int64],
    labels: NDArray[np.int32],
    num_classes: int,
    fractions: Mapping[str, float],
) -> NDArray[np.int32]:
    """Returns the split of each example: stratified, exact for each class by largest remainder.

    Args:
      order: int64 [n], the examples sorted by the hash of their keys with the splits' salt.
      labels: int32 [n], in the examples' own order.
      num_classes: labels are below it.
      fractions: by split name, with the sum 1.

    Returns:
      int32 [n], positions in `fractions`, in the examples' own order.

    Raises:
      SourceError: a split would be empty.
    """
    counts = np.bincount(labels, minlength=num_classes)
    shares = largest_remainder(counts, np.array(list(fractions.values())))
    empty = [name for name, total in zip(fractions, shares.sum(axis=0), strict=True) if not total]
    if empty:
        raise SourceError(
            f"splits: {empty[0]!r} would be empty: {fractions[empty[0]]:g} of {len(labels):,} "
            "examples in "
            f"{int((counts > 0).sum()):,} classes. Add images, or give it a larger fraction."
        )
    # Sorted by class and, inside a class, by hash: the position inside the class decides.
    by_class = order[np.argsort(labels[order], kind="stable")]
    starts = np.cumsum(counts) - counts
    ranks = np.arange(len(labels)) - np.repeat(starts, counts)
    edges = np.repeat(np.cumsum(shares, axis=1), counts, axis=0)
    splits = np.empty(len(labels), np.int32)
    splits[by_class] = (ranks[:, None] >= edges).sum(axis=1)
    return splits


def largest_remainder(
    counts: NDArray[np.int64], fractions: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Returns int64 [num_classes, num_splits].

    Whole numbers nearest to the fractions that sum to each count.

    Source: the largest remainder method (Hamilton); on equal remainders the earlier split gets the
    example.
    """
    quotas = counts[:, None] * fractions[None, :]
    # Fractions such as 0.29 have no exact binary form: a quota of 28.999999999999996 means 29.
    shares = np.floor(quotas + 1e-9).astype(np.int64)
    missing = counts - shares.sum(axis=1)
    by_remainder = np.argsort(-(quotas - shares).round(9), axis=1, kind="stable")
    ranks = np.empty_like(by_remainder)
    np.put_along_axis(ranks, by_remainder, np.arange(len(fractions))[None, :], axis=1)
    shares += ranks < missing[:, None]
    return shares
