"""Groups of examples in fixed proportions: an epoch's order that takes as many from each.

Gets the examples of each group and how many of them an epoch has, gives a permutation of such an
epoch; `order.py` uses it in the place of a plain one. No TensorFlow.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.read.permutation import FullPermutation, Permutation


class BalancedPermutation(Permutation):
    """An epoch that takes `quotas[g]` examples of group g, all of them mixed.

    Each group is gone through in permutations of its own, which go on where the last epoch
    stopped: so all its examples are seen equally often, to within one, over any number of epochs.

    Args:
      groups: int64 arrays, the examples of each group; none is empty.
      quotas: of each group, in an epoch.
      seed: 0..2^63 - 1.
      epoch: counted from 0.
    """

    def __init__(
        self, groups: Sequence[NDArray[np.int64]], quotas: Sequence[int], seed: int, epoch: int
    ) -> None:
        taken = [
            _take(group, quota, seed, epoch, number, len(groups))
            for number, (group, quota) in enumerate(zip(groups, quotas, strict=True))
        ]
        self.count = sum(quotas)
        self._examples = np.concatenate(taken)
        self._mixed = FullPermutation(self.count, seed, epoch)

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns int64 [n], the examples at these positions."""
        return self._examples[self._mixed.at(positions)]


def _take(
    group: NDArray[np.int64], quota: int, seed: int, epoch: int, number: int, num_groups: int
) -> NDArray[np.int64]:
    """Returns int64 [quota], the next examples of a group's permutations behind one another."""
    first = epoch * quota
    pieces = [np.empty(0, np.int64)]
    for turn in range(first // len(group), -(-(first + quota) // len(group))):
        start = turn * len(group)
        # Groups of one size must not have the same order, so each has numbers of its own.
        order = FullPermutation(len(group), seed, turn * num_groups + number)
        pieces.append(order.positions(max(first - start, 0), first + quota - start))
    return group[np.concatenate(pieces)]
