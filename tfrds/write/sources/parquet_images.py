"""Images that lie as encoded bytes in Parquet files, read by the workers.

Gets the files and rows of a shard, gives the bytes of each image. Parquet can only be read from the
start of a row group, and a shard's rows lie anywhere: so the images of many positions are taken in
one pass over the row groups that hold them, within a bound of memory. With a folder to unpack into
each row group is read once in all (`unpacked_groups.py`).
"""

import dataclasses
import heapq
import os
import pathlib
import socket
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import DatasetError, SourceError
from tfrds.write.sources.scratch_folder import ScratchFolder
from tfrds.write.sources.stamps import stamp_of
from tfrds.write.sources.table_files import TableFile
from tfrds.write.sources.table_parquet import ParquetPart, open_parquet
from tfrds.write.sources.tables import BadRows, Table
from tfrds.write.sources.unpacked_groups import read_unpacked, unpack_group

# Images that are held at once: a shard of the usual size (256 MiB) with some room, so that it takes
# one pass.
HELD_BYTES = 272 * 2**20

# What a shard has by default, and how much reading is worth telling of.
_SHARD_BYTES = 256 * 2**20
_MUCH_BYTES = 2**37

# Of a row group so much becomes a batch at once.
_BATCH_BYTES = 4 * 2**20
_MAX_BATCH = 1_024

# Of a cell: an image, or why there is none.
_Found: TypeAlias = "bytes | SourceError"


@dataclasses.dataclass(frozen=True, eq=False)
class ImageFile:
    """A Parquet file with images.

    Attributes:
      number: of it among the table's.
      file: as its table knows it, with an absolute path.
      leaf: Parquet's name of the column of bytes.
      size: in bytes.
      group_starts: int64 [num row groups + 1], the first row of each, and the number of rows.
      image_bytes: int64 [num row groups], about the bytes of an image.
    """

    number: int
    file: TableFile
    leaf: str
    size: int
    group_starts: NDArray[np.int64]
    image_bytes: NDArray[np.int64]


class ParquetImages:
    """The images of a column of Parquet files.

    Args:
      table: of Parquet files.
      name: of the column.
      scratch_dir: folder to unpack row groups into; None: they are not unpacked.

    Attributes:
      sizes: int64 [n], about the bytes of the images: the average of their row groups, since the
        files do not say more without being read whole.
      stamps: uint64 [n], others where the size or the time of change of the file is.
      notes: what takes long.

    Raises:
      SourceError: a row without an image.
    """

    def __init__(self, table: Table, name: str, scratch_dir: pathlib.Path | None = None) -> None:
        self._starts = table.starts
        self._name = table.name
        self._scratch_dir = scratch_dir
        self._scratch: ScratchFolder | None = None
        self._files: list[ImageFile] = []
        sizes, stamps = [], []
        for position, part in enumerate(table.parts):
            opened, stamp = _image_file(part, name, position)
            self._files.append(opened)
            _check_no_empty(table, name, part, int(self._starts[position]), opened)
            counts = np.diff(opened.group_starts)
            sizes.append(np.repeat(opened.image_bytes, counts))
            stamps.append(np.full(int(counts.sum()), stamp, np.uint64))
        self.sizes = np.concatenate(sizes)
        self.stamps = np.concatenate(stamps)
        self.notes = () if scratch_dir else self._repeats_note(table.name)

    def inputs(self, rows: NDArray[np.int64]) -> "ParquetInputs":
        """Returns the images at `rows`.

        Raises:
          SourceError: the folder to unpack into cannot be made.
        """
        files = np.searchsorted(self._starts, rows, side="right") - 1
        used, numbers = np.unique(files, return_inverse=True)
        if self._scratch_dir is not None and self._scratch is None:
            self._scratch = ScratchFolder(self._scratch_dir, self._name)
        return ParquetInputs(
            [self._files[number] for number in used.tolist()],
            numbers.astype(np.int32),
            rows - self._starts[files],
            self._scratch.path if self._scratch else None,
        )

    def _repeats_note(self, name: str) -> tuple[str, ...]:
        """Says so where every row group will be read for many shards."""
        total = int(self.sizes.sum())
        num_shards = max(-(-total // _SHARD_BYTES), 1)
        num_groups = sum(len(file.image_bytes) for file in self._files)
        times = min(num_shards, -(-len(self.sizes) // num_groups))
        if times * total < _MUCH_BYTES:
            return ()
        return (
            f"{name}: {total / 2**30:,.0f} GiB of images in row groups of which each shard needs "
            f"some images: each is read about {times:,} times. Pass scratch_dir= with a folder of "
            "that much room to read each once.",
        )


class ParquetInputs:
    """The images of one shard.

    Args:
      files: that they lie in.
      numbers: int32 [n], the file of each, a position in `files`.
      rows: int64 [n], the row of each in its file.
      scratch: folder of unpacked row groups; None: they are not unpacked.
    """

    def __init__(
        self,
        files: Sequence[ImageFile],
        numbers: NDArray[np.int32],
        rows: NDArray[np.int64],
        scratch: pathlib.Path | None,
    ) -> None:
        self._files = files
        self._numbers = numbers
        self._rows = rows
        self._scratch = scratch
        self._held: dict[int, _Found] = {}  # by position, until they are read

    def __len__(self) -> int:
        return len(self._rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return ParquetInputs, (self._files, self._numbers, self._rows, self._scratch)

    def name(self, position: int) -> str:
        """Returns the table and the row."""
        file = self._files[self._numbers[position]].file
        return f"{file.name} row {self._rows[position] + 1:,}"

    def read(self, position: int) -> bytes:
        """Returns the bytes of the image.

        Raises:
          SourceError: the cell is empty, or its row group cannot be read.
          DatasetError: the file is not the one that was planned with.
        """
        if position not in self._held:
            if image := self._unpacked(position):
                return image
            self._take_from(position)
        found = self._held.pop(position)
        if isinstance(found, SourceError):
            raise SourceError(f"{self.name(position)}: {found}")
        return found

    def _unpacked(self, position: int) -> bytes | None:
        """Returns the image from its unpacked row group; None: it must be taken from the file.

        So it is on other machines and where the disk is full, and for what is damaged.
        """
        if self._scratch is None:
            return None
        file, row = self._files[self._numbers[position]], int(self._rows[position])
        group = int(_groups(file, self._rows[position : position + 1])[0])
        start, end = file.group_starts[group : group + 2].tolist()
        path = self._scratch / f"{file.number}-{group}.images"
        try:
            return read_unpacked(path, row - start)
        except OSError:
            images = _read_rows(file, np.arange(start, end))
            is_there = unpack_group(path, images, end - start)
            return read_unpacked(path, row - start) if is_there else None

    def _take_from(self, first: int) -> None:
        """Holds the images of as many positions from `first` on as the bound allows."""
        import pyarrow as pa

        self._held.clear()
        positions = np.arange(first, self._end_of_pass(first))
        order = np.lexsort((self._rows[positions], self._numbers[positions]))
        held_bytes, end = 0, len(self)
        last_first: list[int] = []  # a heap of what is held
        for position, found in self._images(positions[order]):
            if position >= end:
                continue
            self._held[position] = found
            heapq.heappush(last_first, -position)
            held_bytes += _size(found)
            # Sizes are estimates: what is needed last is read again in the next pass.
            while held_bytes > HELD_BYTES and len(self._held) > 1:
                end = -heapq.heappop(last_first)
                held_bytes -= _size(self._held.pop(end))
        # The pages of the file, which may be as large as what is held.
        pa.default_memory_pool().release_unused()

    def _end_of_pass(self, first: int) -> int:
        """Returns the position at which the images from `first` on are too many to hold."""
        sizes = np.zeros(len(self) - first, np.int64)
        for number, file in enumerate(self._files):
            own = self._numbers[first:] == number
            sizes[own] = file.image_bytes[_groups(file, self._rows[first:][own])]
        count = int(np.searchsorted(np.cumsum(sizes), HELD_BYTES, side="right"))
        return first + max(count, 1)

    def _images(self, positions: NDArray[np.int64]) -> Iterator[tuple[int, _Found]]:
        """Yields (position, image) in the order of the files and their rows."""
        numbers = self._numbers[positions]
        for number in np.unique(numbers).tolist():
            own = positions[numbers == number]
            images = _read_rows(self._files[number], self._rows[own])
            yield from zip(own.tolist(), images, strict=True)


def _size(found: _Found) -> int:
    return len(found) if isinstance(found, bytes) else 0


def _groups(file: ImageFile, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.searchsorted(file.group_starts, rows, side="right") - 1


def _read_rows(file: ImageFile, rows: NDArray[np.int64]) -> Iterator[_Found]:
    """Yields the images of rising rows of a file.

    Raises:
      DatasetError: the file is not the one that was planned with.
    """
    path = file.file.path
    found = path.stat().st_size if path.is_file() else None
    if found != file.size:
        what = "none" if found is None else f"one of {found:,} bytes"
        raise DatasetError(
            f"{path}: expected this file of {file.size:,} bytes on {socket.gethostname()}, found "
            f"{what}. Every worker must see the same files under the same paths."
        )
    groups = _groups(file, rows)
    with open_parquet(file.file) as opened:
        for group in np.unique(groups).tolist():
            wanted = (rows[groups == group] - file.group_starts[group]).tolist()
            yield from _read_group(opened, file, group, wanted)


def _read_group(opened: Any, file: ImageFile, group: int, wanted: list[int]) -> Iterator[_Found]:
    """Yields the images of rising rows of a row group; reads no further than the last of them."""
    import pyarrow as pa

    done, start = 0, 0
    try:
        for column in _batches(opened, file, group):
            while done < len(wanted) and wanted[done] < start + len(column):
                image = column[wanted[done] - start].as_py()
                done += 1
                yield (
                    SourceError("expected the bytes of an image, found an empty cell.")
                    if (image is None)
                    else image
                )
            if done == len(wanted):
                return
            start += len(column)
    except (pa.ArrowException, OSError) as error:
        # The images of other row groups can still be read.
        fault = f"its row group {group:,} cannot be read: {error}. Write the file again."
        for _ in wanted[done:]:
            yield SourceError(fault)


def _batches(opened: Any, file: ImageFile, group: int) -> Iterator[Any]:
    """Yields the column of bytes of a row group piece by piece."""
    batch_size = min(max(_BATCH_BYTES // max(int(file.image_bytes[group]), 1), 1), _MAX_BATCH)
    for batch in opened.iter_batches(
        batch_size=batch_size, row_groups=[group], columns=[file.leaf], use_threads=False
    ):
        column = batch.column(0)
        # Of a struct its one field that was read, empty where the struct is.
        yield column.flatten()[0] if column.type.num_fields else column


def _image_file(part: Any, name: str, number: int) -> tuple[ImageFile, int]:
    """Returns (the file, its stamp)."""
    own: ParquetPart = part
    if own.leaf(name) is None:
        raise SourceError(
            f"{own.name}, column {name!r}: expected the bytes of images as in other files of the "
            "table, found paths. Write all files alike."
        )
    groups = own.row_groups(name)
    path = own.file.path.absolute()
    status = os.stat(path)
    opened = ImageFile(
        number=number,
        file=dataclasses.replace(own.file, path=path),
        leaf=str(own.leaf(name)),
        size=status.st_size,
        group_starts=np.cumsum([0, *(group.num_rows for group in groups)]),
        image_bytes=np.array([group.num_bytes // group.num_rows for group in groups], np.int64),
    )
    return opened, stamp_of(status)


def _check_no_empty(table: Table, name: str, part: Any, first_row: int, opened: ImageFile) -> None:
    """Raises SourceError with the rows that hold no image, if the footer says that there are any.

    Where it does not say, the worker that reads them does.
    """
    own: ParquetPart = part
    bad = BadRows(table, name, "expected the bytes of an image", "Fill it, or remove the row.")
    for position, group in enumerate(own.row_groups(name)):
        if not group.num_empty:
            continue
        row = first_row + int(opened.group_starts[position])
        with open_parquet(own.file) as file:
            for column in _batches(file, opened, position):
                for empty in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)):
                    bad.add(row + int(empty), "an empty cell")
                row += len(column)
    bad.check()
