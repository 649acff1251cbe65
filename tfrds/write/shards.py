"""One shard from its slice of the plan.

A pure function that any process on any machine may run, in any order, again: what is finished and
whole is not done twice.

Gets a `ShardTask`, leaves the shard and its entry in the build's journal, gives a small
`ShardReport`; `dataset.py` puts the entries together.
"""

import contextlib
import dataclasses
import os
import pathlib
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import xxhash
from numpy.typing import NDArray

from tfrds.disk.columns import Column
from tfrds.disk.index import ROW
from tfrds.disk.journal import Journal, ShardEntry
from tfrds.disk.records import MAX_RECORD_BYTES, frame_footer, frame_header
from tfrds.errors import DatasetError, EncodeError, SourceError
from tfrds.spec import ImageSpec
from tfrds.write.beside import Beside
from tfrds.write.encode import EncodedImage, encode_image, encoder_versions
from tfrds.write.faults import Fault, quarantine
from tfrds.write.hashed_file import HashedFile
from tfrds.write.sources.base import Image, Inputs


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardTask:
    """What a shard is made of.

    Attributes:
      path: of the shard.
      journal: of the build.
      digest: of all that decides the shard's bytes, inputs included.
      inputs: its images, in record order.
      labels: int32 [n], their class numbers, -1 where they have no single class.
      features: what records hold beside them, by position.
      spec: how each is stored.
      image_key: name of the image's feature.
      skips: leave images out that cannot be stored; else the shard stays unfinished, and all of
        them are found.
      max_faults: after more of them the rest is not looked at.
      quarantine: folder to which they are copied; None: nowhere.
      is_marked: whether the journal says all the time which input is worked on, so that the death
        of a worker can be laid at its door.
    """

    path: pathlib.Path
    journal: Journal
    digest: str
    inputs: Inputs
    labels: NDArray[np.int32]
    features: tuple[Column, ...]
    spec: ImageSpec
    image_key: str
    skips: bool = False
    max_faults: int = 0
    quarantine: pathlib.Path | None = None
    is_marked: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardReport:
    """What became of it.

    Attributes:
      num_inputs: that were looked at.
      faults: of the inputs that cannot be stored.
      encoders: versions of the libraries that decide its bytes, by name, where it was written.
      host: where it was written, or found.
      was_there: whether it was finished by an earlier build.
    """

    num_inputs: int
    faults: tuple[Fault, ...]
    encoders: Mapping[str, str] = dataclasses.field(default_factory=encoder_versions)
    host: str = dataclasses.field(default_factory=socket.gethostname)
    was_there: bool = False


def write_shard(task: ShardTask) -> ShardReport:
    """Encodes the images and writes the shard under a name of its own, renamed when it is complete.

    Raises:
      DatasetError: the worker that this runs on cannot do it.
      OSError: the shard cannot be written.
    """
    if not task.journal.folder.is_dir():
        raise DatasetError(
            f"{task.journal.folder}: expected this folder of the build on {socket.gethostname()}, "
            "found none. Every worker must see the data directory under the same path."
        )
    entry = task.journal.is_finished(task.path, task.digest)
    # With another Pillow the same images may become other bytes.
    if entry and entry.encoders == encoder_versions():
        return _report_again(task, entry)
    writer = _ShardWriter(task)
    # Not beside the shard: what a killed worker leaves must not become part of the dataset.
    temporary = task.journal.folder / f"{task.path.name}.{secrets.token_hex(8)}.tmp"
    try:
        with HashedFile(temporary) as file, _marking(task) as mark:
            for position, label in enumerate(task.labels.tolist()):
                mark(position)
                writer.add(file, position, label)
                if len(writer.faults) > task.max_faults:
                    break
        is_complete = len(writer.faults) <= task.max_faults if task.skips else not writer.faults
        if is_complete:
            temporary.rename(task.path)
            task.journal.add(task.path.name, writer.entry(file))
    finally:
        temporary.unlink(missing_ok=True)
    return ShardReport(num_inputs=position + 1, faults=tuple(writer.faults))


def _report_again(task: ShardTask, entry: ShardEntry) -> ShardReport:
    """Reports a shard that an earlier build has finished, perhaps without a quarantine."""
    faults = [
        Fault(task.inputs.name(position), reason, message)
        for position, reason, message in entry.skipped
    ]
    if task.quarantine:
        for (position, *_), fault in zip(entry.skipped, faults, strict=True):
            with contextlib.suppress(SourceError):
                quarantine(task.quarantine, fault.name, _read(task, position))
    return ShardReport(num_inputs=len(task.labels), faults=tuple(faults), was_there=True)


class _ShardWriter:
    """The records of one shard, as far as they are written."""

    def __init__(self, task: ShardTask) -> None:
        self._task = task
        self._beside = Beside(task.features, task.image_key)
        self._rows = np.zeros(len(task.inputs), ROW)
        self._repaired: list[tuple[str, str]] = []
        self._skipped: list[tuple[int, str, str]] = []
        self._has_reencoded = False
        self.faults: list[Fault] = []

    def add(self, file: "HashedFile", position: int, label: int) -> None:
        """Writes one image, or notes why it cannot be stored."""
        task = self._task
        image: Image | None = None
        try:
            image = _read(task, position)
            encoded = _encode(task, position, image)
            head, tail = self._beside.around(position, len(encoded.data))
            _check_room(task, position, len(head) + len(encoded.data) + len(tail))
        except (EncodeError, SourceError) as error:
            fault = Fault.of(task.inputs.name(position), error)
            self.faults.append(fault)
            self._skipped.append((position, fault.reason, fault.message))
            if task.quarantine and image is not None:
                quarantine(task.quarantine, fault.name, image)
            return
        if self.faults and not task.skips:
            return  # the shard will not be finished, but all faults shall be found
        data = b"".join((head, encoded.data, tail))
        self._rows[position] = (
            file.num_bytes,
            len(data),
            len(head),
            len(encoded.data),
            encoded.height,
            encoded.width,
            label,
            encoded.encoding,
            encoded.channels,
            0,
            xxhash.xxh3_128_digest(encoded.data),
            b"",
        )
        file.write(frame_header(len(data)), data, frame_footer(data))
        if encoded.repaired:
            self._repaired.append((task.inputs.name(position), encoded.repaired))
        self._has_reencoded |= encoded.reencoded

    def entry(self, file: "HashedFile") -> ShardEntry:
        """Returns the finished shard's entry for the journal."""
        kept = np.setdiff1d(
            np.arange(len(self._rows)), [position for position, *_ in self._skipped]
        )
        return ShardEntry(
            task=self._task.digest,
            num_bytes=file.num_bytes,
            sha256=file.sha256,
            kept=kept,
            rows=self._rows[kept],
            repaired=tuple(self._repaired),
            skipped=tuple(self._skipped),
            encoders=encoder_versions(),
            has_reencoded=self._has_reencoded,
        )


@contextlib.contextmanager
def _marking(task: ShardTask) -> Iterator[Callable[[int], None]]:
    """Gives a function that notes the input's position where a dead worker's parent finds it."""
    if not task.is_marked:
        yield lambda _: None
        return
    path = task.journal.mark(task.path.name)
    mark = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        yield lambda position: _write_at_start(mark, position)
    finally:
        os.close(mark)
    path.unlink(missing_ok=True)


def _write_at_start(descriptor: int, position: int) -> None:
    os.pwrite(descriptor, b"%-20d" % position, 0)


def encode(task: ShardTask, position: int) -> EncodedImage:
    """Returns what is stored of one image.

    Raises:
      EncodeError: it cannot be stored as asked; the message names it.
      SourceError: it cannot be read.
    """
    return _encode(task, position, _read(task, position))


def _read(task: ShardTask, position: int) -> Image:
    """Reads one image; this layer knows its name."""
    try:
        return task.inputs.read(position)
    except OSError as error:
        raise SourceError(
            f"{task.inputs.name(position)}: cannot be read: {error.strerror or error}."
        ) from error


def _encode(task: ShardTask, position: int, image: Image) -> EncodedImage:
    try:
        encoded = encode_image(image, task.spec)
    except EncodeError as error:
        raise EncodeError(f"{task.inputs.name(position)}: {error}", error.reason) from error
    return encoded


def _check_room(task: ShardTask, position: int, num_bytes: int) -> None:
    if num_bytes > MAX_RECORD_BYTES:
        raise EncodeError(
            f"{task.inputs.name(position)}: expected at most {MAX_RECORD_BYTES:,} bytes a record, "
            f"got {num_bytes:,}.",
            "too large",
        )
