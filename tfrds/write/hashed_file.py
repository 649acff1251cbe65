"""A file that is written in blocks and hashed on the way."""

import hashlib
import pathlib

# Small records would cost a system call and a hash update each.
_BLOCK_BYTES = 1 << 20


class HashedFile:
    """Writes a new file; a context manager.

    Attributes:
      num_bytes: written so far.
      sha256: of the whole file, in hexadecimal digits, once it is closed.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._hash = hashlib.sha256()
        self._parts: list[bytes] = []
        self._waiting_bytes = 0
        self.num_bytes = 0
        self.sha256 = ""

    def __enter__(self) -> "HashedFile":
        return self

    def __exit__(self, error_type: object, *_: object) -> None:
        with self._file:
            if error_type is None:
                self._flush()
        self.sha256 = self._hash.hexdigest()

    def write(self, *parts: bytes) -> None:
        """Writes parts behind one another."""
        size = sum(map(len, parts))
        self._parts += parts
        self.num_bytes += size
        self._waiting_bytes += size
        if self._waiting_bytes >= _BLOCK_BYTES:
            self._flush()

    def _flush(self) -> None:
        block = memoryview(b"".join(self._parts))
        self._hash.update(block)
        while block:  # an unbuffered write may take a part
            block = block[self._file.write(block) :]
        self._parts, self._waiting_bytes = [], 0
