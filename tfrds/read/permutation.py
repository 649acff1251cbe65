"""Permutations of an epoch's positions, any stretch of which can be asked for; no TensorFlow.

Gets a count, a seed and an epoch, gives which example comes at each position; `order.py` turns
examples into rows. Nothing here may ever change: the order of released versions depends on it.

`FullPermutation` mixes all examples. `BlockPermutation` is for data larger than memory on slow
disks, where examples read one by one would wait for a seek each: it puts blocks of neighbours in
random order and mixes the examples of `window` blocks. Measured, and asserted by the tests, for
1,000,000 examples of 100 kB (blocks of 41 examples, windows of 64 blocks):

                                                                      full        blocks
    mean distance of an example from its place in the input / count   1/3         1/3
    neighbours in the output that were neighbours in the input        1 / 500,000 1 / 1,350
    correlation of neighbours in the output                           0           0.016
    pairs of a batch of 128 that lay less than 41 apart in the input  1 / 12,500  1 / 66
    classes in a batch of 128, input sorted by 1,000 classes          120         56
    deviation of a class's share of a batch, by 10 classes            2.7 %       4.5 %

In both, each example comes at each position with the same probability. For an input sorted by
class, a batch of 128 from blocks mixes the classes as well as one of 43 fully shuffled examples
does: 1 / (1/128 + 1/64). For one in random order, which datasets built by tfrds have, what is left
is that examples of one block meet in one window, epoch after epoch.
"""

import math
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

# Up to this count a permutation is made as a whole: 40 MB and 0.3 s of an epoch's time.
TABLE_LIMIT = 10_000_000

# Each half of a position is changed three times. Four rounds are the least that theory allows
# (Luby and Rackoff 1988); one costs 6 microseconds a batch.
_ROUNDS = 6

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd: SplitMix64's step

# A hard disk reads 4 MiB in the time of two or three seeks, a network disk in that of some ten
# round trips.
_BLOCK_BYTES = 4 * 2**20

# A window of 256 MiB: it and the next one, which is read meanwhile, take half a GiB of page cache.
# More blocks would mix better, smaller ones would be read more slowly.
_WINDOW_BLOCKS = 64

# Of tiny examples, so that a window is made in 15 ms and takes 8 MB: a million positions.
_MAX_BLOCK = 2**14

# Batches that are fetched at the same time may stand on both sides of a window's end, and the next
# window is read ahead.
_KEPT_WINDOWS = 3


class Permutation(ABC):
    """A permutation of 0..count-1."""

    count: int

    @abstractmethod
    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns int64 [n], the examples at these positions, each from 0 to count - 1."""

    def positions(self, start: int, stop: int) -> NDArray[np.int64]:
        """Returns int64 [stop - start], the examples at the positions `start`..`stop` - 1.

        As in a slice, there are none beyond the count.
        """
        return self.at(np.arange(start, min(stop, self.count)))


class FullPermutation(Permutation):
    """As random as a shuffle of all examples: a table up to `TABLE_LIMIT`, a cipher beyond.

    Args:
      count: of examples, 0..2^62.
      seed: 0..2^63 - 1.
      epoch: 0..2^32 - 1.

    Source: numpy's RandomState, whose stream is frozen by numpy's compatibility policy (NEP 19).
    TensorFlow's `index_shuffle` leaves neighbours correlated, and numpy's newer Generator may
    change.
    """

    def __init__(self, count: int, seed: int, epoch: int) -> None:
        self.count = count
        self._cipher = FeistelPermutation(count, seed, epoch) if count > TABLE_LIMIT else None
        # The same values as RandomState.permutation(count) in half of its memory.
        self._table = np.arange(0 if self._cipher else count, dtype=np.int32)
        _random(seed, epoch).shuffle(self._table)

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns int64 [n], the examples at these positions."""
        if self._cipher:
            return self._cipher.at(positions)
        return self._table[positions].astype(np.int64)


class FeistelPermutation(Permutation):
    """A permutation without a table: a cipher of the positions, for any count up to 2^62.

    A position is a pair (left, right) of digits with mixed bases, about the square root of the
    count each. A round adds a hash of one to the other, which can be undone, so that the whole is
    a permutation of all pairs. The few pairs beyond the count, less than one in its square root,
    are ciphered on until they come below it.

    For a handful of examples some orders are likelier than others; those have a table.

    Args:
      count: of examples, 1..2^62.
      seed: 0..2^63 - 1.
      epoch: 0..2^32 - 1.

    Source: Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002: generalised Feistel
      network and cycle walking.
    """

    def __init__(self, count: int, seed: int, epoch: int) -> None:
        left = math.isqrt(count - 1) + 1
        self.count = count
        self._left = np.uint64(left)
        self._right = np.uint64(-(-count // left))
        self._keys = [np.uint64(_hash(seed, epoch, number)) for number in range(_ROUNDS)]

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns int64 [n], the examples at these positions."""
        values = self._cipher(positions.astype(np.uint64))
        while len(beyond := np.flatnonzero(values >= np.uint64(self.count))):
            values[beyond] = self._cipher(values[beyond])
        return values.view(np.int64)

    def _cipher(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = np.divmod(values, self._right)
        for number in range(0, _ROUNDS, 2):
            left += _mix(right + self._keys[number]) >> np.uint64(1)  # so that the sum has room
            left %= self._left
            right += _mix(left + self._keys[number + 1]) >> np.uint64(1)
            right %= self._right
        left *= self._right
        left += right
        return left


class BlockPermutation(Permutation):
    """Blocks of neighbours in random order; the examples of each `window` of them are mixed.

    The examples are seen as a ring that is cut at a random place, anew each epoch: so the blocks
    have other borders each time, and the short one that is left over, always the last, is another
    one. Each example comes at each position with the same probability. Windows differ by one block
    at most, and the rest, so that none is small.

    Args:
      count: of examples, 0..2^62.
      seed: 0..2^63 - 1.
      epoch: 0..2^32 - 1.
      block: examples that are neighbours; 1 makes it a full permutation.
      window: blocks that are mixed, at most.
    """

    def __init__(self, count: int, seed: int, epoch: int, *, block: int, window: int) -> None:
        self.count, self._seed, self._epoch, self._block = count, seed, epoch, block
        self._num_blocks = count // block
        self._num_windows = max(-(-self._num_blocks // window), 1)
        self._blocks = FullPermutation(self._num_blocks, seed, epoch)
        self._cut = int(_random(seed, epoch, 0).randint(max(count, 1), dtype=np.int64))
        self._mixed: OrderedDict[int, NDArray[np.int64]] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns int64 [n], the examples at these positions."""
        numbers = self._numbers(positions)
        examples = np.empty(len(positions), np.int64)
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            first, _ = self._bounds(number)
            examples[chosen] = self._window(number)[positions[chosen] - first]
        return examples

    def window(self, position: int) -> tuple[int, int]:
        """Returns (start, stop) of the positions whose examples are mixed with this one's."""
        (number,) = self._numbers(np.array([position])).tolist()
        return self._bounds(number)

    def _numbers(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the window of each position; window i starts with block i * blocks // windows."""
        if self._num_windows == 1:
            return np.zeros(len(positions), np.int64)
        places = np.minimum(positions // self._block, self._num_blocks - 1)
        if self._num_blocks * self._num_windows > 2**62:
            places = places.astype(object)  # Python's own integers, which have no end
        numbers = ((places + 1) * self._num_windows - 1) // self._num_blocks
        return numbers.astype(np.int64)

    def _start(self, number: int) -> int:
        """Returns where a window starts, in blocks."""
        return number * self._num_blocks // self._num_windows

    def _bounds(self, number: int) -> tuple[int, int]:
        """Returns where a window starts and stops, in positions; the last one has the rest."""
        is_last = number == self._num_windows - 1
        stop = self.count if is_last else self._start(number + 1) * self._block
        return self._start(number) * self._block, stop

    def _window(self, number: int) -> NDArray[np.int64]:
        # Fetches run in several threads: the first makes the window, the others wait for it.
        with self._lock:
            if number not in self._mixed:
                self._mixed[number] = self._mix_window(number)
                while len(self._mixed) > _KEPT_WINDOWS:
                    self._mixed.popitem(last=False)
            return self._mixed[number]

    def _mix_window(self, number: int) -> NDArray[np.int64]:
        blocks = self._blocks.positions(self._start(number), self._start(number + 1))
        examples = (blocks[:, np.newaxis] * self._block + np.arange(self._block)).ravel()
        if number == self._num_windows - 1:
            rest = np.arange(self._num_blocks * self._block, self.count)
            examples = np.concatenate([examples, rest])
        examples += self._cut
        examples[examples >= self.count] -= self.count
        _random(self._seed, self._epoch, number & 0xFFFFFFFF, number >> 32).shuffle(examples)
        return examples


def block_sizes(bytes_per_example: float) -> tuple[int, int]:
    """Returns (block, window) for `BlockPermutation`: examples of 4 MiB, and 64 blocks.

    The order depends on them, so take the mean over the whole dataset, whatever is read of it.

    Args:
      bytes_per_example: as stored, above 0.
    """
    return min(max(int(_BLOCK_BYTES / bytes_per_example), 1), _MAX_BLOCK), _WINDOW_BLOCKS


def _random(seed: int, epoch: int, *number: int) -> np.random.RandomState:
    return np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32, epoch, *number])


def _hash(*parts: int) -> int:
    key = 0
    for part in parts:
        key = int(_mix(np.array([(key + part + _GOLDEN) & _MASK], np.uint64))[0])
    return key


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns a hash of each value, in its place. Source: SplitMix64 (Steele, Lea, Flood 2014)."""
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values
