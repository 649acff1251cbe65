"""Bytes by their place in something long: a record in memory, or a file of which a block is held.

Whoever parses files that others wrote reads through it, so that a wrong length asks for no memory.
"""

import contextlib
import os
import stat
from collections.abc import Iterator

from tfrds.errors import SourceError

# What is read at once. Of large records only what stands around the image is read, and less than a
# page cannot be read anyway; small ones are read one after the other, in blocks that grow.
_PAGE_BYTES, _BLOCK_BYTES = 1 << 12, 1 << 18
# Below this it is cheaper to read what lies between than to ask again.
_NEAR_BYTES = 1 << 13


class Window:
    """Bytes by their place in something long, of which one block is held.

    Attributes:
      data: the block that is held.
      start: the place of its first byte.
      size: of all, in bytes.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.start = 0
        self.size = len(data)

    def hold(self, start: int, count: int) -> int:
        """Holds `count` bytes from `start` on, and perhaps more; returns where in `data` they are.

        Raises:
          ValueError: there are not so many bytes.
        """
        at = start - self.start
        if at < 0 or at + count > len(self.data):
            self._load(start, count)
            at = start - self.start
        return at

    def take(self, start: int, count: int) -> bytes:
        """Returns `count` bytes from `start` on.

        Raises:
          ValueError: there are not so many bytes.
        """
        at = self.hold(start, count)
        return self.data[at : at + count]

    def _load(self, start: int, count: int) -> None:
        raise ValueError(
            f"expected {count:,} bytes at byte {start:,}, found {max(self.size - start, 0):,}"
        )


class FileWindow(Window):
    """A window of an open file.

    By pread and not mapped: a file that becomes shorter is an error then, and no signal that kills.
    The block held before is kept: who parses a record goes to and fro across its image.

    Attributes:
      descriptor: of the file.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        super().__init__(b"")
        self.size = size
        self.descriptor = descriptor
        self._before = (0, b"")

    def _load(self, start: int, count: int) -> None:
        held = (self.start, self.data)
        self.start, self.data = self._before
        self._before = held
        if self.start <= start and start + count <= self.start + len(self.data):
            return
        behind = start - held[0]
        is_next = bool(held[1]) and 0 <= behind <= len(held[1]) + _NEAR_BYTES
        ahead = min(2 * len(held[1]), _BLOCK_BYTES) if is_next else _PAGE_BYTES
        self.data = os.pread(self.descriptor, max(count, ahead), start)
        self.start = start
        if len(self.data) < count:
            super()._load(start, count)


@contextlib.contextmanager
def open_window(path: str) -> Iterator[FileWindow]:
    """Opens a file that is read by place.

    Raises:
      SourceError: cannot be opened, or no file.
    """
    with contextlib.ExitStack() as stack:
        try:
            descriptor = stack.enter_context(open_file(path))
        except (OSError, ValueError) as error:
            if isinstance(error, SourceError):
                raise
            raise SourceError(
                f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}. Correct the "
                "path, or mend its access."
            ) from error
        yield FileWindow(descriptor, os.fstat(descriptor).st_size)


@contextlib.contextmanager
def open_file(path: str) -> Iterator[int]:
    """Opens a file for reading and gives its descriptor.

    Raises:
      OSError: cannot be opened.
      SourceError: no file.
    """
    # A pipe would wait for a writer for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SourceError(f"{path}: expected a TFRecord file, found no regular file.")
        yield descriptor
    finally:
        os.close(descriptor)
