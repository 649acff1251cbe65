"""Reads ahead for an epoch by blocks: the examples of a window before their turn; no TensorFlow.

Gets each fetch's epoch and step from `host.py`, has the reader's storage bring the current window
and the next one into the kernel's page cache, in the order of the files. There is no cache of our
own: what is here too early is the kernel's to drop, and what is missing is read by the fetch.
"""

import functools
import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable

from tfrds.read.fetch import SplitReader
from tfrds.read.mixed import MixedReader
from tfrds.read.order import Order
from tfrds.read.steps import Steps

# In the whole process. With stretches of 4 MiB, 16 MiB are asked for at a time: at 5 ms that allows
# 3 GB/s, and a fetch that needs something else waits for no more than that.
_NUM_THREADS = 4

# Fetches of an iterator that do not wait for their window, so that its first batches come at once:
# as many as are made at the same time, see `host.py`.
_NUM_FREE = 4

# A window takes this long at 8 MB/s; then fetches go on by reads of their own.
_PATIENCE_SECONDS = 30.0


class ReadAhead:
    """Has windows read before they are fetched, each once an iterator.

    A fetch waits until its window is read, because its own reads, an example each, would take the
    time of many that are read together.

    Args:
      reader: of the records.
      order: of the examples; only one by blocks is read ahead.
      steps: of this worker; others' examples are not read.
    """

    def __init__(self, reader: SplitReader | MixedReader, order: Order, steps: Steps) -> None:
        self._reader, self._order, self._steps = reader, order, steps
        self._lock = threading.Lock()
        self._windows: dict[tuple[int, int], _Window] = {}
        self._waiting: deque[tuple[Callable[[], None], _Window]] = deque()
        self._num_free = _NUM_FREE
        self._first_step = 0

    def restart(self, first_step: int) -> None:
        """Forgets what is not yet read: a new iterator begins at this step.

        Of a window that it enters in the middle, what lies before is left out.
        """
        with self._lock:
            self._first_step = first_step
            for window in self._windows.values():
                window.is_read.set()
            self._windows.clear()
            self._waiting.clear()
            self._num_free = _NUM_FREE

    def prepare(self, epoch: int, step: int) -> None:
        """Has the window of a step and the next one read, where they were not.

        Waits for the step's own, but for the first steps after `restart`.
        """
        if not self._order.is_by_blocks:
            return
        positions = self._steps.positions(step)
        stop, last = int(positions[0]), int(positions.max())
        own = []
        with self._lock:
            while stop <= last:
                own.append(self._window(epoch, stop))
                stop = own[-1].stop
            if stop < self._order.num_examples:
                self._window(epoch, stop)
            is_free = self._num_free > 0
            self._num_free -= is_free
        if not is_free:
            for window in own:
                window.is_read.wait(_PATIENCE_SECONDS)

    def read_next(self) -> None:
        """Reads one stretch, if any is left."""
        try:
            read, window = self._waiting.popleft()
        except IndexError:
            return
        read()
        with self._lock:
            window.count_down()

    def _window(self, epoch: int, position: int) -> "_Window":
        """Returns the window of a position; if it is new, its reads wait in line."""
        start, stop = self._order.window(epoch, position)
        if (epoch, start) not in self._windows:
            reads: list[Callable[[], None]] = []
            if self._reader.is_waiting:  # else all is in memory
                positions = self._steps.positions_within(start, stop, self._first_step)
                reads = self._reader.reads_ahead(self._order.rows(epoch, positions))
            window = self._windows[epoch, start] = _Window(stop, len(reads))
            self._waiting.extend((read, window) for read in reads)
            for _ in reads:
                # Weakly: what waits when the dataset goes is never read.
                _requests().put(weakref.ref(self))
        return self._windows[epoch, start]


class _Window:
    """How far a window is read; `stop` is the position behind it."""

    def __init__(self, stop: int, num_reads: int) -> None:
        self.stop = stop
        self.is_read = threading.Event()
        self._left = num_reads + 1
        self.count_down()  # for a window without any

    def count_down(self) -> None:
        self._left -= 1
        if not self._left:
            self.is_read.set()


@functools.cache
def _requests() -> "queue.SimpleQueue[weakref.ref[ReadAhead]]":
    requests: queue.SimpleQueue[weakref.ref[ReadAhead]] = queue.SimpleQueue()
    for number in range(_NUM_THREADS):
        # Not the threads of a pool: at exit it would wait until all of its queue is read.
        name = f"tfrds-ahead-{number}"
        threading.Thread(target=_serve, args=(requests,), name=name, daemon=True).start()
    return requests


# A forked process has the queue without the threads.
os.register_at_fork(after_in_child=_requests.cache_clear)


def _serve(requests: "queue.SimpleQueue[weakref.ref[ReadAhead]]") -> None:
    while True:
        ahead = requests.get()()
        if ahead is not None:
            ahead.read_next()
        del ahead  # while this thread waits for the next one
