"""Which positions of an epoch each step covers, for one worker or each of several.

Gets the number of examples, the batch size and the worker, gives the positions of any step;
`order.py` says which examples these are. The order of the epoch does not depend on the workers: a
step of all of them together is a stretch of it.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

# Without a batch size, examples are still fetched together: a call from the graph costs as much as
# 50 small images.
FETCHED_TOGETHER = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class Steps:
    """The steps of one worker's epoch. All workers have the same number of them.

    A step of all workers is `count * batch_size` examples, of which each takes its stretch. The
    last step, where it is smaller, is shared evenly; where it has fewer examples than there are
    workers, examples from the epoch's front fill it up.

    Attributes:
      num_examples: of the epoch, of all workers.
      batch_size: examples a step; None: single examples.
      drop_remainder: leave out the last step where it is smaller.
      worker: (index, count).
    """

    num_examples: int
    batch_size: int | None
    drop_remainder: bool = False
    worker: tuple[int, int] = (0, 1)

    @property
    def num_steps(self) -> int:
        """Batches of this worker's epoch; single examples without a batch size."""
        together = (self.batch_size or 1) * self.worker[1]
        if self.drop_remainder and self.batch_size:
            return self.num_examples // together
        return -(-self.num_examples // together)

    @property
    def fetch_size(self) -> int:
        """Examples that are fetched together, at most."""
        return self.batch_size or FETCHED_TOGETHER

    @property
    def has_full_batches(self) -> bool:
        """Whether no step is smaller than the others."""
        if self.batch_size is None:
            return True
        together = self.batch_size * self.worker[1]
        return self.num_steps * together <= self.num_examples

    def fetches(self, first_step: int) -> NDArray[np.int64]:
        """Returns the steps that begin a fetch, from `first_step` to the epoch's end."""
        if self.batch_size:
            return np.arange(first_step, self.num_steps)
        regular = np.arange(0, self.num_steps, FETCHED_TOGETHER)
        return np.concatenate([[first_step], regular[regular > first_step]])[: self.num_steps]

    def positions_within(self, start: int, stop: int, first_step: int) -> NDArray[np.int64]:
        """Returns int64 [n], the positions `start`..`stop` - 1 that are fetched from `first_step`.

        Without what fills up the epoch's last step.
        """
        together = (self.batch_size or 1) * self.worker[1]
        steps = self.fetches(max(first_step, start // together))
        steps = steps[steps * together < stop]
        if not len(steps):
            return np.zeros(0, np.int64)
        found = np.concatenate([self.positions(step) for step in steps.tolist()])
        return found[(found >= start) & (found < stop)]

    def positions(self, step: int) -> NDArray[np.int64]:
        """Returns the positions that are fetched with `step`: int64 [n], n up to `fetch_size`."""
        index, count = self.worker
        if self.batch_size is None:
            end = min((step // FETCHED_TOGETHER + 1) * FETCHED_TOGETHER, self.num_steps)
            return (np.arange(step, end) * count + index) % self.num_examples
        together = self.batch_size * count
        first = step * together
        if first + together <= self.num_examples:
            start = first + index * self.batch_size
            return np.arange(start, start + self.batch_size)
        left = max(self.num_examples - first, count)
        start, stop = (first + share * left // count for share in (index, index + 1))
        return np.arange(start, stop) % self.num_examples
