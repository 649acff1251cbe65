"""One shard from its slice of the plan.

A pure function that any process may run, in any order, again.

Gets a `ShardTask`, gives a `ShardResult` with the shard's index rows; `dataset.py` puts the results
together.
"""

import dataclasses
import hashlib
import os
import pathlib

import numpy as np
import xxhash
from numpy.typing import NDArray

from tfrds.disk.index import ROW, Rows
from tfrds.disk.records import MAX_RECORD_BYTES, example_parts, frame_footer, frame_header
from tfrds.errors import EncodeError, SourceError
from tfrds.spec import ImageSpec
from tfrds.write.encode import EncodedImage, encode_image
from tfrds.write.sources.base import Inputs

# Records are gathered to blocks of this size: small ones would cost a system call and a hash update
# each.
_BLOCK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardTask:
    """What a shard is made of.

    Attributes:
      path: of the shard.
      inputs: its images, in record order.
      labels: int32 [n], their class numbers.
      spec: how each is stored.
      image_key, label_key: the features' names.
    """

    path: pathlib.Path
    inputs: Inputs
    labels: NDArray[np.int32]
    spec: ImageSpec
    image_key: str
    label_key: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardResult:
    """What became of it.

    Attributes:
      num_bytes: of the file.
      sha256: of the file, in hexadecimal digits.
      rows: the index rows of its records.
      repaired: (name, reason) of each image that was damaged, and re-encoded from what could be
        decoded.
      has_reencoded: whether any image's bytes come from our encoders.
    """

    num_bytes: int
    sha256: str
    rows: Rows
    repaired: tuple[tuple[str, str], ...]
    has_reencoded: bool


def write_shard(task: ShardTask) -> ShardResult:
    """Encodes the images and writes the shard under a name of its own, renamed when it is complete.

    Raises:
      EncodeError: an image cannot be stored as asked; the message names it.
      SourceError: an image cannot be read.
      OSError: the shard cannot be written.
    """
    rows = np.zeros(len(task.inputs), ROW)
    repaired = []
    has_reencoded = False
    temporary = task.path.with_name(f"{task.path.name}.{os.getpid()}.tmp")
    with _HashedFile(temporary) as file:
        for position, label in enumerate(task.labels.tolist()):
            image = _encode(task, position)
            head, tail = example_parts(len(image.data), label, task.image_key, task.label_key)
            data = b"".join((head, image.data, tail))
            if len(data) > MAX_RECORD_BYTES:
                raise EncodeError(
                    f"{task.inputs.name(position)}: expected at most {MAX_RECORD_BYTES:,} bytes a "
                    "record, got "
                    f"{len(data):,}."
                )
            rows[position] = (
                file.num_bytes,
                len(data),
                len(head),
                len(image.data),
                image.height,
                image.width,
                label,
                image.encoding,
                image.channels,
                0,
                xxhash.xxh3_128_digest(image.data),
                b"",
            )
            file.write(frame_header(len(data)), data, frame_footer(data))
            if image.repaired:
                repaired.append((task.inputs.name(position), image.repaired))
            has_reencoded |= image.reencoded
    temporary.rename(task.path)
    return ShardResult(
        num_bytes=file.num_bytes,
        sha256=file.sha256,
        rows=rows,
        repaired=tuple(repaired),
        has_reencoded=has_reencoded,
    )


def _encode(task: ShardTask, position: int) -> EncodedImage:
    """Reads and encodes one image; this layer knows its name."""
    try:
        image = task.inputs.read(position)
    except OSError as error:
        raise SourceError(
            f"{task.inputs.name(position)}: cannot be read: {error.strerror}."
        ) from error
    try:
        return encode_image(image, task.spec)
    except EncodeError as error:
        raise EncodeError(f"{task.inputs.name(position)}: {error}") from error


class _HashedFile:
    """A file written in blocks, hashed on the way."""

    def __init__(self, path: pathlib.Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._hash = hashlib.sha256()
        self._parts: list[bytes] = []
        self._waiting_bytes = 0
        self.num_bytes = 0
        self.sha256 = ""

    def __enter__(self) -> "_HashedFile":
        return self

    def __exit__(self, error_type: object, *_: object) -> None:
        with self._file:
            if error_type is None:
                self._flush()
        self.sha256 = self._hash.hexdigest()

    def write(self, *parts: bytes) -> None:
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
