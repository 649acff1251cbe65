"""Shard files read by ranges, many at a time, for storage that answers slowly; no TensorFlow.

`fetch.py` asks for a batch's ranges at once. Where each read waits for a network, mapped files
would be read a page fault after another; here many threads wait at the same time, so that a batch
costs a few round trips, whatever its size. Neighbours are read together.
"""

import collections
import concurrent.futures
import contextlib
import functools
import os
import pathlib
import threading
import weakref
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import DatasetError
from tfrds.read.advice import ADVISED_BYTES, advise
from tfrds.read.buffers import BufferPool
from tfrds.read.file_status import file_status

# Threads that wait for the storage, in the whole process: four batches in flight of 128 examples
# each find 16 at work, which at 5 ms a read are 12,000 reads/s. A thread that waits costs nothing.
_NUM_THREADS = 64

# Ranges whose gap is smaller are read as one: 128 kB more are read in less than a round trip.
_MAX_GAP = 128 * 1024

# One read is not larger than this, so that the ranges of a batch in order are shared out too.
_MAX_READ = 4 * 2**20

# Files that are open at once, of each reader; far below what a process may open.
_MAX_OPEN = 128


class PreadFiles:
    """The bytes of several files, by ranges.

    Attributes:
      paths: of the files.
      sizes: int64 [num files], bytes of each.

    Args:
      files: (path, bytes that it must have) of each.

    Raises:
      DatasetError: a file is missing, unreadable, or of another size.
    """

    is_read_for_each = True

    def __init__(self, files: Sequence[tuple[pathlib.Path, int]]) -> None:
        self.paths = [path for path, _ in files]
        self.sizes = np.array([size for _, size in files], np.int64)
        self._buffers = BufferPool()
        self._open = _OpenFiles(self.paths)
        for number in range(len(files)):
            self._check(number, is_open=False)

    def check(self, numbers: Iterable[int]) -> None:
        """Does nothing: a read that finds a file cut is an error by itself."""

    def gather(
        self, numbers: NDArray[np.int64], offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Returns the bytes of ranges behind one another, and where each of them starts.

        Args:
          numbers: int64 [n], of the files.
          offsets: int64 [n], in them.
          lengths: int64 [n].

        Raises:
          DatasetError: a file is missing or was cut.
        """
        starts = np.cumsum(lengths) - lengths
        data = self._buffers.take(int(lengths.sum()))
        reads = _plan(numbers, offsets, lengths, starts)
        # The first error is raised; the others have ended by then, as they write into `data`.
        tasks = [_threads().submit(self._read, data, number, pieces) for number, pieces in reads]
        concurrent.futures.wait(tasks)
        for task in tasks:
            task.result()
        return data, starts

    def read_ahead(self, number: int, offset: int, length: int) -> None:
        """Has the kernel read a range of a file, and waits for its end.

        So whoever asks for stretches one after another has no more than these on their way, and
        real reads need not wait behind a whole window.
        """
        with contextlib.suppress(OSError), self._open.file(number) as descriptor:
            advise(descriptor, offset, length)
            os.pread(descriptor, 1, offset + length - 1)

    def _read(
        self, data: NDArray[np.uint8], number: int, pieces: list[tuple[int, int, int]]
    ) -> None:
        """Reads neighbours: (offset in the file, length, start in `data`) of each, by offset."""
        first = pieces[0][0]
        last = max(offset + length for offset, length, _ in pieces)
        if len(pieces) == 1:
            _, length, start = pieces[0]
            self._fill(number, data[start : start + length], first)
            return
        together = np.empty(last - first, np.uint8)
        self._fill(number, together, first)
        for offset, length, start in pieces:
            data[start : start + length] = together[offset - first : offset - first + length]

    def _fill(self, number: int, target: NDArray[np.uint8], offset: int) -> None:
        done = 0
        try:
            with self._open.file(number) as descriptor:
                if len(target) > ADVISED_BYTES:
                    # The kernel would ask for its parts one after another.
                    advise(descriptor, offset, len(target))
                while done < len(target):
                    count = os.preadv(descriptor, [target[done:].data], offset + done)
                    if not count:
                        break
                    done += count
        except OSError as error:
            raise DatasetError(
                f"{self.paths[number]}: cannot be read: {error.strerror}. Copy or build the "
                "dataset again."
            ) from error
        if done < len(target):
            self._check(number, is_open=True)

    def _check(self, number: int, *, is_open: bool) -> None:
        path, expected = self.paths[number], int(self.sizes[number])
        status = file_status(path)
        if status is None:
            raise DatasetError(
                f"{path}: cannot be opened: No such file or directory. Copy or build the dataset "
                "again."
            )
        if status.size != expected or is_open:
            change = ": the file was changed while it is read" if is_open else ""
            raise DatasetError(
                f"{path}: expected {expected:,} bytes, found {status.size:,}{change}. Copy or "
                "build the dataset again."
            )


class _OpenFiles:
    """Descriptors of files, opened when they are first needed; the least used one is closed."""

    def __init__(self, paths: Sequence[pathlib.Path]) -> None:
        self._paths = paths
        self._files: collections.OrderedDict[int, _OpenFile] = collections.OrderedDict()
        self._lock = threading.Lock()

    def file(self, number: int) -> "_OpenFile":
        """Returns a context manager that gives the descriptor, which stays open inside of it."""
        with self._lock:
            file = self._files.get(number)
            if file is None:
                file = self._files[number] = _OpenFile(self._paths[number])
                if len(self._files) > _MAX_OPEN:
                    self._files.popitem(last=False)
            self._files.move_to_end(number)
            return file


class _OpenFile:
    """One descriptor, closed when nobody uses it any more."""

    def __init__(self, path: pathlib.Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor).atexit = False

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        pass


@functools.cache
def _threads() -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="tfrds-read")


# A process that is forked while the threads are there gets their pool without them: it would wait
# for ever.
os.register_at_fork(after_in_child=_threads.cache_clear)


def _plan(
    numbers: NDArray[np.int64],
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> list[tuple[int, list[tuple[int, int, int]]]]:
    """Returns reads: (file, [(offset, length, start in the result)]), neighbours in one read."""
    reads: list[tuple[int, list[tuple[int, int, int]]]] = []
    end = 0
    for place in np.lexsort((offsets, numbers)).tolist():
        number, offset, length = int(numbers[place]), int(offsets[place]), int(lengths[place])
        piece = (offset, length, int(starts[place]))
        if reads and reads[-1][0] == number:
            pieces = reads[-1][1]
            is_near = offset <= end + _MAX_GAP and offset + length - pieces[0][0] <= _MAX_READ
            if is_near:
                pieces.append(piece)
                end = max(end, offset + length)
                continue
        reads.append((number, [piece]))
        end = offset + length
    return reads
