"""Verifies one shard: its hash, its frames, each record in it, and the index's rows of them.

Gets a `ShardTask`, gives a `ShardReport`; a pure function that any process may run. `verify.py`
makes the tasks and adds the reports up. What is expected comes from the bytes of the shard, read
from their first on; the index is only compared with them. No TensorFlow.
"""

import dataclasses
import hashlib
import os
import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import xxhash

from tfrds.disk.adopted import parse_stored
from tfrds.disk.columns import ColumnSpec
from tfrds.disk.layout import SplitFiles
from tfrds.disk.records import HEADER_BYTES, MAX_RECORD_BYTES, frame_footer, frame_header
from tfrds.spec import CLASS_KINDS
from tfrds.tools.faults import MAX_FAULTS, Fault
from tfrds.tools.verify_columns import ColumnRows
from tfrds.tools.verify_image import ImageRule, found_image
from tfrds.tools.verify_rows import IndexRows

_FOOTER_BYTES = 4
_BLOCK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardTask:
    """What a shard should hold.

    Attributes:
      path: of the shard.
      split: it belongs to.
      num_bytes, num_records, sha256: of it, by the build record; the hash None where it was not
        computed.
      index: of its split; None: not to be compared.
      first_row: of the shard's records in the index.
      num_examples: of the split.
      files: of the split.
      columns: those of the split that are compared.
      image_key, label_key: the features' names.
      label_kind: one of `tfrds.spec.LABEL_KINDS`.
      features: all that stand beside an image.
      num_classes: labels are below it, where they are classes.
      adopted: how records that others wrote are read; None: a build wrote them.
      class_names: of text labels in such records.
      rule: what each image must be.
      is_fast: only size and hash.
    """

    path: pathlib.Path
    split: str
    num_bytes: int
    num_records: int
    sha256: str | None
    index: pathlib.Path | None
    first_row: int
    num_examples: int
    files: SplitFiles
    columns: tuple[ColumnSpec, ...]
    image_key: str
    label_key: str
    label_kind: str
    features: tuple[ColumnSpec, ...]
    num_classes: int
    adopted: Mapping[str, Any] | None
    class_names: tuple[str, ...]
    rule: ImageRule
    is_fast: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardReport:
    """What was found.

    Attributes:
      faults: those of the file, then those of the first records, `MAX_FAULTS` of them.
      num_faults: all of them.
      data_bytes: of the records that could be read, without their frames.
      label_counts: of these, by label.
      is_read: whether these are all, from the shard's first byte to its last.
    """

    faults: tuple[Fault, ...]
    num_faults: int
    data_bytes: int = 0
    label_counts: dict[int, int] = dataclasses.field(default_factory=dict)
    is_read: bool = False


def verify_shard(task: ShardTask) -> ShardReport:
    """Returns all faults of a shard, in constant memory beyond its largest record."""
    walk = _Walk(task)
    try:
        with task.path.open("rb", buffering=_BLOCK_BYTES) as file:
            walk.run(file)
    except FileNotFoundError:
        walk.stop("missing")
    except OSError as error:
        walk.stop(f"cannot be read: {error.strerror or error}")
    return walk.report()


class _Walk:
    """One way through a shard, from its first byte to its last."""

    def __init__(self, task: ShardTask) -> None:
        self._task = task
        self._faults: list[Fault] = []
        self._num_faults = 0
        self._labels: Counter[int] = Counter()
        self._data_bytes = 0
        self._is_read = False
        self._index = IndexRows(task.index, task.first_row, task.num_records)
        self._columns = ColumnRows(
            task.files, task.columns, task.num_examples, task.label_key, task.first_row
        )

    def add(self, what: str, record: int | None = None) -> None:
        """Notes a fault."""
        self._num_faults += 1
        if record is None or len(self._faults) < MAX_FAULTS:
            self._faults.append(Fault(file=self._task.path.name, record=record, what=what))

    def stop(self, what: str) -> None:
        """Notes a fault after which nothing more can be read."""
        self._is_read = False
        self.add(what)

    def report(self) -> ShardReport:
        """Returns what was found."""
        return ShardReport(
            # Rows of the index are compared some time after their records are read.
            faults=tuple(sorted(self._faults, key=_record_number)),
            num_faults=self._num_faults,
            data_bytes=self._data_bytes,
            label_counts=dict(self._labels),
            is_read=self._is_read,
        )

    def run(self, file: BinaryIO) -> None:
        """Reads the shard."""
        hashed = _HashedFile(file)
        if hashed.size != self._task.num_bytes:
            self.add(f"expected {self._task.num_bytes:,} bytes, found {hashed.size:,}")
        if not self._task.is_fast:
            self._read_records(hashed)
        found = hashed.sha256()
        # Of another size it has another hash, too.
        if self._task.sha256 not in (None, found) and hashed.size == self._task.num_bytes:
            self.add(f"expected the sha256 {self._task.sha256}, found {found}")

    def _read_records(self, file: "_HashedFile") -> None:
        self._is_read = True
        is_divided = bool(self._task.adopted and self._task.adopted["is_split_by_index"])
        found = 0
        for data, offset, number in self._own(file) if is_divided else self._all(file):
            found += 1
            if data is None:
                self._is_read = False
                continue
            self._data_bytes += len(data)
            if row := self._checked(data, offset, number):
                self._add_differences(self._index.compare(number, row))
        self._add_differences(self._index.compare_rest())
        if found != self._task.num_records:
            self._is_read &= not is_divided
            self.add(f"expected {self._task.num_records:,} records, found {found:,}")

    def _all(self, file: "_HashedFile") -> Iterator[tuple[bytes | None, int, int]]:
        """Yields (data, offset of the frame, number) of each record; None for a damaged one."""
        number = 0
        while file.position < file.size:
            offset = file.position
            header = file.read(min(HEADER_BYTES, file.left))
            if number >= self._task.num_records and not _is_header(header):
                self.add(f"{file.left + len(header):,} bytes after its last record are none")
                return
            data, is_end_known = self._frame(file, header, offset, number)
            yield data, offset, number
            if not is_end_known:
                # Behind a whole header that is right the file is cut off.
                is_cut = len(header) < HEADER_BYTES or _is_header(header)
                if is_cut or not self._skip_to_next(file, number):
                    return
            number += 1

    def _own(self, file: "_HashedFile") -> Iterator[tuple[bytes | None, int, int]]:
        """Yields the same of those that the index says are of this split, among others."""
        for offset, number in sorted(self._index.numbers().items()):
            if file.position <= offset < file.size:
                file.skip(offset - file.position)
                header = file.read(min(HEADER_BYTES, file.left))
                yield self._frame(file, header, offset, number)[0], offset, number

    def _frame(
        self, file: "_HashedFile", header: bytes, offset: int, number: int
    ) -> tuple[bytes | None, bool]:
        """Returns the data behind a header, None for a damaged record; whether its end is known."""
        length = int.from_bytes(header[:8], "little")
        if len(header) < HEADER_BYTES:
            self.add(f"cut off: {len(header)} of {HEADER_BYTES} bytes of its header", number)
            return None, False
        if not _is_header(header):
            self.add(
                f"the header at byte {offset:,} says {length:,} bytes and has a wrong checksum",
                number,
            )
            return None, False
        # Before memory is taken for it: a length may say anything.
        if length > MAX_RECORD_BYTES:
            self.add(f"expected at most {MAX_RECORD_BYTES:,} bytes, found {length:,}", number)
            return None, False
        if length + _FOOTER_BYTES > file.left:
            self.add(f"cut off: {file.left:,} of {length + _FOOTER_BYTES:,} bytes", number)
            return None, False
        data, footer = file.read(length), file.read(_FOOTER_BYTES)
        if footer != frame_footer(data):
            self.add("its checksum is wrong: bytes were changed", number)
            return None, True
        return data, True

    def _skip_to_next(self, file: "_HashedFile", number: int) -> bool:
        """Goes on behind a damaged header, where the index has the next record."""
        if number + 1 == self._task.num_records:
            return False
        offset = self._index.offset(number + 1)
        if offset is not None and file.position <= offset < file.size:
            file.skip(offset - file.position)
            return True
        self.add(f"the records after record {number:,} were not found: no index tells where")
        return False

    def _add_differences(self, differences: list[tuple[int, str]]) -> None:
        for number, what in differences:
            self.add(f"the index differs: {what}", number)

    def _checked(self, data: bytes, offset: int, number: int) -> tuple[Any, ...] | None:
        """Returns the row that the index should have; None where the record has a fault."""
        task = self._task
        try:
            example = parse_stored(
                data, task.image_key, task.features, task.adopted, task.class_names
            )
        except ValueError as error:
            self.add(f"its Example cannot be parsed: {error}", number)
            self._is_read = False
            return None
        classes: Any = example.values[task.label_key] if task.num_classes else []
        self._labels.update(classes)
        wrong = [label for label in classes if not 0 <= label < task.num_classes]
        if wrong:
            self.add(f"label: expected 0 to {task.num_classes - 1:,}, found {wrong[0]:,}", number)
        if task.label_kind == "multi" and classes != sorted(set(classes)):
            self.add(f"label: expected classes that rise, found {classes}", number)
        for difference in self._columns.differences(number, example.values):
            self.add(difference, number)
        end = example.image_offset + example.image_length
        stored = data[example.image_offset : end]
        try:
            image = found_image(stored, task.rule)
        except ValueError as error:
            self.add(f"its image {error}", number)
            return None
        if wrong:
            return None
        return (
            offset,
            len(data),
            example.image_offset,
            example.image_length,
            image.height,
            image.width,
            classes[0] if task.label_kind in CLASS_KINDS else -1,
            image.encoding,
            image.channels,
            0,
            xxhash.xxh3_128_digest(stored),
            b"",
        )


def _record_number(fault: Fault) -> int:
    return -1 if fault.record is None else fault.record


def _is_header(header: bytes) -> bool:
    length = int.from_bytes(header[:8], "little")
    return header == frame_header(length)


class _HashedFile:
    """A file read from its start to its end, hashed on the way.

    Attributes:
      size: of the file in bytes, when it was opened.
      position: of the next byte.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = os.fstat(file.fileno()).st_size
        self.position = 0

    @property
    def left(self) -> int:
        return self.size - self.position

    def read(self, count: int) -> bytes:
        """Returns the next `count` bytes.

        Raises:
          OSError: the file has become shorter.
        """
        data = self._file.read(count)
        if len(data) != count:
            raise OSError(f"it was cut to {self.position + len(data):,} bytes while it was read")
        self._hash.update(data)
        self.position += count
        return data

    def skip(self, count: int) -> None:
        """Reads over `count` bytes."""
        while count:
            count -= len(self.read(min(count, _BLOCK_BYTES)))

    def sha256(self) -> str:
        """Returns the hash of all bytes, reading what was not read yet."""
        self.skip(self.left)
        return self._hash.hexdigest()
