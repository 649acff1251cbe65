"""What the kernel is told of reads to come, and whether it had to wait for a disk; no TensorFlow.

`pread.py` and `mapped.py` advise ranges, so that the requests of a whole range wait side by side
and not one after another; `fetch.py` asks whether that is needed.
"""

import contextlib
import mmap
import os
import resource
from collections.abc import Iterator

# The kernel takes no more of a range at once than it would read ahead by itself, on most disks and
# network file systems 128 kB; what exceeds it is dropped silently.
ADVISED_BYTES = 128 * 1024


def advise(descriptor: int, offset: int, length: int) -> None:
    """Has the kernel read a range of a file, without waiting for it; does nothing on macOS."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # a refusal means that it reads when it must
            for first, size in pieces(offset, length):
                os.posix_fadvise(descriptor, first, size, os.POSIX_FADV_WILLNEED)


def pieces(start: int, length: int) -> Iterator[tuple[int, int]]:
    """Yields (start, length) of pieces of a range that are small enough, each from a page on."""
    stop = start + length
    for first in range(start - start % mmap.PAGESIZE, stop, ADVISED_BYTES):
        yield first, min(ADVISED_BYTES, stop - first)


def count_waits() -> int:
    """Returns how often this thread waited for a page of a mapped file; always 0 on macOS."""
    if not hasattr(resource, "RUSAGE_THREAD"):
        return 0
    return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt
