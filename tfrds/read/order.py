"""Which example comes when: the permutation of each epoch, as a function of seed and epoch alone.

Gets the ranges of rows that a split expression selects, gives the rows of any stretch of any epoch;
`fetch.py` reads them. There is no shuffle buffer and no state to save.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Two iterators may stand on both sides of an epoch's end; more permutations would only take memory.
_KEPT_EPOCHS = 2


def permutation(count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Returns int64 [count], a permutation of 0..count-1, the same on every machine and version.

    Source: numpy's RandomState, whose stream is frozen by numpy's compatibility policy (NEP 19).
    TensorFlow's `index_shuffle` leaves neighbours correlated, and numpy's newer Generator may
    change.
    """
    state = np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32, epoch])
    return state.permutation(count).astype(np.int64, copy=False)


class Order:
    """The order in which examples are read, epoch by epoch.

    Args:
      ranges: (first row, count) of each stretch that the split expression selects, in its order;
        rows may repeat.
      seed: 0..2^63 - 1, or None to read in the order of the ranges.
      reshuffle: whether each epoch has another permutation.
    """

    def __init__(
        self, ranges: Sequence[tuple[int, int]], *, seed: int | None, reshuffle: bool = True
    ) -> None:
        counts = np.array([count for _, count in ranges], np.int64)
        self._firsts = np.array([first for first, _ in ranges], np.int64)
        self._starts = np.cumsum(counts) - counts
        self._seed = seed
        self._reshuffle = reshuffle
        self._permutations: OrderedDict[int, NDArray[np.int64]] = OrderedDict()
        self._lock = threading.Lock()
        self.num_examples = int(counts.sum())

    def rows(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        """Returns int64 [stop - start], the rows at these positions of the epoch."""
        if self._seed is None:
            positions: NDArray[np.int64] = np.arange(start, stop)
        else:
            positions = self._permutation(self._seed, epoch if self._reshuffle else 0)[start:stop]
        # Where each stretch lies in the index, less where it lies in the epoch.
        shifts = self._firsts - self._starts
        if len(shifts) == 1:
            shifted: NDArray[np.int64] = positions + shifts
            return shifted
        stretch = np.searchsorted(self._starts, positions, side="right") - 1
        return np.add(positions, shifts[stretch])

    def _permutation(self, seed: int, epoch: int) -> NDArray[np.int64]:
        # Fetches of one epoch run in several threads: the first makes the permutation, the others
        # wait for it.
        with self._lock:
            if epoch not in self._permutations:
                self._permutations[epoch] = permutation(self.num_examples, seed, epoch)
                while len(self._permutations) > _KEPT_EPOCHS:
                    self._permutations.popitem(last=False)
            return self._permutations[epoch]


class EpochState:
    """The epoch and step at which the next iterator starts; lives outside of the graph.

    Keras makes iterators as it likes, so an iterator is no epoch: the callback sets the epoch, and
    without it each iterator that yields its first batch counts as one.
    """

    def __init__(self) -> None:
        self._next = (0, 0)
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
