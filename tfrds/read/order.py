"""Which example comes when: the permutation of each epoch, as a function of seed and epoch alone.

Gets the ranges of rows that a split expression selects, gives the rows at any positions of any
epoch; `fetch.py` reads them. There is no shuffle buffer and no state to save.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.read.balance import BalancedPermutation
from tfrds.read.permutation import BlockPermutation, FullPermutation, Permutation

# Two iterators may stand on both sides of an epoch's end; more permutations would only take memory.
_KEPT_EPOCHS = 2


class Order:
    """The order in which examples are read, epoch by epoch.

    Args:
      ranges: (first row, count) of each stretch that the split expression selects, in its order;
        rows may repeat.
      seed: 0..2^63 - 1, or None to read in the order of the ranges.
      reshuffle: whether each epoch has another permutation.
      blocks: (block, window) of a `BlockPermutation`; None: all examples are mixed.
      subset: int64 [m], the examples that are read, by their places in the ranges; None: all.
      groups: (examples, quota) of each group, places in `subset` or the ranges: an epoch takes that
        many of each, see `BalancedPermutation`; needs a seed. None: each example once.
    """

    def __init__(
        self,
        ranges: Sequence[tuple[int, int]],
        *,
        seed: int | None,
        reshuffle: bool = True,
        blocks: tuple[int, int] | None = None,
        subset: NDArray[np.int64] | None = None,
        groups: Sequence[tuple[NDArray[np.int64], int]] | None = None,
    ) -> None:
        counts = np.array([count for _, count in ranges], np.int64)
        self._firsts = np.array([first for first, _ in ranges], np.int64)
        self._starts = np.cumsum(counts) - counts
        self._seed = seed
        self._reshuffle = reshuffle
        self._blocks = blocks
        self._subset = subset
        self._groups = groups
        self.is_by_blocks = blocks is not None
        self._permutations: OrderedDict[int, Permutation] = OrderedDict()
        self._lock = threading.Lock()
        self.num_examples = int(counts.sum()) if subset is None else len(subset)
        if groups is not None:
            self.num_examples = sum(quota for _, quota in groups)

    def examples(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns int64 [n], the examples at these positions of the epoch, by places in ranges."""
        if self._seed is not None:
            shuffled = self._permutation(self._seed, epoch if self._reshuffle else 0)
            positions = shuffled.at(positions)
        return positions if self._subset is None else self._subset[positions]

    def window(self, epoch: int, position: int) -> tuple[int, int]:
        """Returns (start, stop) of the positions that are mixed with this one: all, or a window."""
        if self._seed is not None and self.is_by_blocks:
            shuffled = self._permutation(self._seed, epoch if self._reshuffle else 0)
            if isinstance(shuffled, BlockPermutation):
                return shuffled.window(position)
        return 0, self.num_examples

    def rows(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns int64 [n], the rows at these positions of the epoch."""
        return self.rows_of(self.examples(epoch, positions))

    def rows_of(self, examples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns int64 [n], the rows of these examples."""
        # Where each stretch lies in the index, less where it lies in the epoch.
        shifts = self._firsts - self._starts
        if len(shifts) == 1:
            shifted: NDArray[np.int64] = examples + shifts
            return shifted
        stretch = np.searchsorted(self._starts, examples, side="right") - 1
        return np.add(examples, shifts[stretch])

    def _permutation(self, seed: int, epoch: int) -> Permutation:
        # Fetches of one epoch run in several threads: the first makes the permutation, the others
        # wait for it.
        with self._lock:
            if epoch not in self._permutations:
                self._permutations[epoch] = self._make(seed, epoch)
                while len(self._permutations) > _KEPT_EPOCHS:
                    self._permutations.popitem(last=False)
            return self._permutations[epoch]

    def _make(self, seed: int, epoch: int) -> Permutation:
        if self._groups is not None:
            examples, quotas = zip(*self._groups, strict=True)
            return BalancedPermutation(examples, quotas, seed, epoch)
        if self._blocks is None:
            return FullPermutation(self.num_examples, seed, epoch)
        block, window = self._blocks
        return BlockPermutation(self.num_examples, seed, epoch, block=block, window=window)


class EpochState:
    """The epoch and step at which the next iterator starts; lives outside of the graph.

    Keras makes iterators as it likes, so an iterator is no epoch: the callback sets the epoch, and
    without it each iterator that yields its first batch counts as one.

    Args:
      epoch: of the first iterator.
      step: likewise.
    """

    def __init__(self, epoch: int = 0, step: int = 0) -> None:
        self._next = (epoch, step)
        self._lock = threading.Lock()

    def set(self, epoch: int, step: int = 0) -> None:
        """Lets the next iterator start at `step` of `epoch`, both counted from 0."""
        with self._lock:
            self._next = (epoch, step)

    def take(self) -> tuple[int, int]:
        """Returns (epoch, first step) for an iterator that starts now."""
        with self._lock:
            epoch, step = self._next
            self._next = (epoch + 1, 0)
            return epoch, step
