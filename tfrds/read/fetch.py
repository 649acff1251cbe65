"""The stored bytes, labels and keys of any rows, copied from mapped shards; no TensorFlow.

Gets rows of the index, gives one array for raw pixels or a list of encoded images; `pipeline.py`
calls it from the graph, a batch at a time.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.adopted import check_adopted, check_adopted_index
from tfrds.disk.build_record import BuildRecord
from tfrds.disk.class_names import read_class_names
from tfrds.disk.index import JPEG, Rows, open_index
from tfrds.disk.keys import Keys, open_keys
from tfrds.disk.records import HEADER_BYTES
from tfrds.errors import DatasetError
from tfrds.read.advice import count_waits
from tfrds.read.beside import Beside
from tfrds.read.buffers import BufferPool
from tfrds.read.cut import Cut, cut_boxes
from tfrds.read.record_check import FRAME_BYTES, record_fault
from tfrds.read.storage import choose_engine, open_storage
from tfrds.read.stretches import runs, stretches
from tfrds.spec import CLASS_KINDS

# Below this many bytes an image, one gather of numpy is faster than a copy for each image, although
# TensorFlow copies its result once more to align it.
_GATHER_BYTES = 16_384

UINT8 = np.dtype(np.uint8)

# Files whose size is looked at before each batch; more of them take their turns. One costs 2 us.
_CHECKED = 8

# After a fetch that waited for the disk, page by page of mapped files, so many have their ranges
# read all at once, before they are copied. They wait no more, which looks as if all were in memory:
# then the next one shows whether it is.
_ADVISED = 100


@dataclasses.dataclass(frozen=True)
class Batch:
    """What was fetched.

    Attributes:
      images: uint8, or float32 where asked for, [n, height, width, channels] for raw pixels, else a
        list of n JPEG or PNG files, or of the pixels of n boxes.
      labels: int32 [n], class numbers; float32 [n, num_classes], multi-hot, or numbers [n] or
        [n, k] where labels are of these kinds; None where there are none.
      heights, widths: uint32 [n], pixels as stored.
      is_jpeg: bool [n].
    """

    images: "NDArray[Any] | list[bytes]"
    labels: "NDArray[Any] | None"
    heights: NDArray[np.uint32]
    widths: NDArray[np.uint32]
    is_jpeg: NDArray[np.bool_]


class SplitReader:
    """Random access to the records of one split, or of several behind one another.

    Rows count through the splits in the order given.

    Args:
      record: of the dataset.
      splits: names.
      verify_records: whether each record's checksums and image are checked when it is fetched.
      engine: "mmap" or "pread"; None: by where the dataset lies.
      in_memory: whether all shards are read now, and kept.

    Raises:
      DatasetError: a file is missing, damaged or of another size than the record says.
    """

    def __init__(
        self,
        record: BuildRecord,
        splits: Sequence[str],
        *,
        verify_records: bool = False,
        engine: str | None = None,
        in_memory: bool = False,
    ) -> None:
        self._record = record
        self.digests = [record.digest]
        self._verify_records = verify_records
        self._splits = tuple(splits)
        self._indexes: list[Rows] = []
        files = []
        self._keys: list[Keys] = []
        starts = [0]  # of each shard, in rows
        split_starts = [0]
        for split in splits:
            check_adopted(record, split)
            shards = record.shards(split)
            self._indexes.append(
                open_index(record.split_files(split).index, [records for _, _, records in shards])
            )
            if verify_records:
                check_adopted_index(record, split)
            for path, num_bytes, records in shards:
                files.append((path, num_bytes))
                starts.append(starts[-1] + records)
            split_starts.append(starts[-1])
        self._shard_starts = np.array(starts, np.int64)
        self._split_starts = np.array(split_starts, np.int64)
        self.engine = engine or choose_engine(record.directory)
        self._files = open_storage(files, self.engine, in_memory=in_memory)
        self.is_slow = self._files.is_read_for_each  # each batch waits for its own reads
        self._buffers = BufferPool()
        self._turn = 0
        self._advised = 0  # fetches that are
        self.is_raw = record.content["image"]["encoding"] == "raw"
        self._shape = tuple(side or 0 for side in record.image_shape)
        self._has_classes = record.label_kind in CLASS_KINDS
        self._beside = Beside(record, splits) if record.columns else None
        has_names = verify_records and record.adopted and record.adopted["has_text_labels"]
        self._class_names = read_class_names(record) if has_names else ()

    @property
    def num_rows(self) -> int:
        """Records of all splits."""
        return int(self._split_starts[-1])

    def first_row(self, split: str) -> int:
        """Returns the row of a split's first record."""
        return int(self._split_starts[self._splits.index(split)])

    def open_keys(self) -> None:
        """Maps the keys as well; they are needed only by who asks for them."""
        self._keys = [
            open_keys(files.keys, files.key_offsets, len(index))
            for files, index in zip(
                map(self._record.split_files, self._splits), self._indexes, strict=True
            )
        ]

    @property
    def has_large_images(self) -> bool:
        """Whether images are raw and are copied one by one, into memory that is used again."""
        return self.is_raw and int(np.prod(self._shape)) >= _GATHER_BYTES

    def fetch(
        self,
        rows: NDArray[np.int64],
        cut: Cut | None = None,
        dtype: "np.dtype[Any]" = UINT8,
    ) -> Batch:
        """Returns images and labels of `rows`, in that order.

        Args:
          rows: int64 [n].
          cut: what to copy of raw images; None: all. JPEG and PNG are cut when they are decoded.
          dtype: uint8, or float32 of large raw images.

        Raises:
          DatasetError: a shard was cut, the index does not fit it, or a record is found damaged.
        """
        entries = self._entries(rows)
        shards = np.searchsorted(self._shard_starts, rows, side="right") - 1
        starts = (entries["offset"] + entries["image_offset"]).astype(np.int64) + HEADER_BYTES
        lengths = entries["image_length"].astype(np.int64)
        # A damaged offset near 2**64 would wrap around to one that looks right.
        starts[entries["offset"] > np.iinfo(np.int64).max // 2] = -1
        self._check(rows, shards, starts, lengths)
        waits = count_waits()
        if self._advised:
            self._advised -= 1
            for number, start, length in zip(
                shards.tolist(), starts.tolist(), lengths.tolist(), strict=True
            ):
                self._files.read_ahead(number, start, length)
        if self._verify_records:
            self._verify(rows, shards, entries)
        if self.is_raw:
            self._check_raw(lengths)
        data, starts = self._files.gather(shards, starts, lengths)
        images: NDArray[Any] | list[bytes]
        if self.is_raw:
            if cut:
                memory = functools.partial(self._memory, dtype=dtype)
                images = cut_boxes(data, starts, self._shape, cut, memory)
            else:
                images = self._pixels(data, starts, dtype)
        else:
            images = [
                data[start : start + length].tobytes()
                for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
            ]
        if not self.is_slow and count_waits() > waits:
            self._advised = _ADVISED
        return Batch(
            images=images,
            labels=self._labels(rows, entries),
            heights=entries["height"],
            widths=entries["width"],
            is_jpeg=entries["encoding"] == JPEG,
        )

    @property
    def is_waiting(self) -> bool:
        """Whether reads wait for the storage, as far as the last fetches show."""
        return self.is_slow or self._advised > 0

    def reads_ahead(self, rows: NDArray[np.int64]) -> list[Callable[[], None]]:
        """Returns calls that bring these records into memory, in the order of the files.

        They may be made in any thread, take up to 4 MiB each, and leave errors to `fetch`.
        """
        if not len(rows):
            return []
        rows = np.unique(rows)
        shards = np.searchsorted(self._shard_starts, rows, side="right") - 1
        # Of neighbours in one file, the first and the last say where all of them lie.
        firsts, lasts = runs((np.diff(rows) > 1) | (np.diff(shards) > 0))
        shards = shards[firsts]
        first, last = self._entries(rows[firsts]), self._entries(rows[lasts])
        starts = first["offset"].astype(np.int64)
        stops = last["offset"].astype(np.int64) + last["length"].astype(np.int64) + FRAME_BYTES
        # A damaged index must not ask for what no file has.
        sizes = self._files.sizes[shards]
        pieces = stretches(shards, np.clip(starts, 0, sizes), np.clip(stops, 0, sizes))
        return [functools.partial(self._files.read_ahead, *piece) for piece in pieces]

    def class_numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Returns int32 [n], the classes of `rows`, from the index alone; -1: no single ones."""
        entries = self._entries(rows)
        return self._classes(entries) if self._has_classes else np.array(entries["label"])

    def labels(self, rows: NDArray[np.int64]) -> NDArray[Any] | None:
        """Returns the labels of `rows`, see `Batch`."""
        return self._labels(rows, self._entries(rows))

    def column(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Returns the values of a column of the dataset, see `Beside.values`."""
        if self._beside is None:
            raise KeyError(name)
        return self._beside.values(name, rows)

    def _labels(self, rows: NDArray[np.int64], entries: Rows) -> NDArray[Any] | None:
        if self._has_classes:
            return self._classes(entries)
        return self._beside.labels(rows) if self._beside else None

    def _classes(self, entries: Rows) -> NDArray[np.int32]:
        labels = np.ascontiguousarray(entries["label"])
        # As numbers without a sign: one look finds negative ones, too.
        if len(labels) and int(labels.view(np.uint32).max()) >= self._record.num_classes:
            raise DatasetError(
                f"{self._record.directory}: expected labels from 0 to "
                f"{self._record.num_classes - 1:,}, the index says {labels.min():,} to "
                f"{labels.max():,}. Copy or build the dataset again."
            )
        return labels

    def keys(self, rows: NDArray[np.int64]) -> list[bytes]:
        """Returns the UTF-8 keys of `rows`; call `open_keys` before."""
        splits = np.searchsorted(self._split_starts, rows, side="right") - 1
        within = rows - self._split_starts[splits]
        return [
            self._keys[split][row]
            for split, row in zip(splits.tolist(), within.tolist(), strict=True)
        ]

    def tfds_ids(self, rows: NDArray[np.int64]) -> list[bytes]:
        """Returns what TFDS calls each of `rows`.

        The shard's name and the number of the record in it.
        """
        shards = np.searchsorted(self._shard_starts, rows, side="right") - 1
        within = rows - self._shard_starts[shards]
        return [
            f"{self._files.paths[shard].name}__{row}".encode()
            for shard, row in zip(shards.tolist(), within.tolist(), strict=True)
        ]

    def describe(self, rows: NDArray[np.int64]) -> Batch:
        """Returns what the index says of `rows`, in that order, and no images."""
        entries = self._entries(rows)
        return Batch(
            images=[],
            labels=self._labels(rows, entries),
            heights=entries["height"],
            widths=entries["width"],
            is_jpeg=entries["encoding"] == JPEG,
        )

    def _verify(self, rows: NDArray[np.int64], shards: NDArray[np.int64], entries: Rows) -> None:
        offsets = entries["offset"].astype(np.int64)
        # A damaged length must not make a read of gigabytes: what the file has is enough.
        room = np.maximum(self._files.sizes[shards] - offsets, 0)
        lengths = np.minimum(entries["length"].astype(np.int64) + FRAME_BYTES, room)
        data, starts = self._files.gather(shards, offsets, lengths)
        for number, (start, length) in enumerate(
            zip(starts.tolist(), lengths.tolist(), strict=True)
        ):
            frame = data[start : start + length]
            beside = self._beside.at(int(rows[number])) if self._beside else ()
            fault = record_fault(frame, entries[number], self._record, self._class_names, beside)
            if fault:
                shard = int(shards[number])
                raise DatasetError(
                    f"{self._files.paths[shard]}: record "
                    f"{int(rows[number] - self._shard_starts[shard])}, key "
                    f"{self._key_of(rows[number : number + 1])}: {fault}. Copy or build the "
                    "dataset again."
                )

    def _key_of(self, row: NDArray[np.int64]) -> str:
        try:
            if not self._keys:
                self.open_keys()
            (key,) = self.keys(row)
            return key.decode(errors="replace")
        except DatasetError as error:
            return f"unknown ({error})"

    def _check_raw(self, lengths: NDArray[np.int64]) -> None:
        size = int(np.prod(self._shape))
        if len(lengths) and (int(lengths.min()) != size or int(lengths.max()) != size):
            raise DatasetError(
                f"{self._record.directory}: expected {size:,} bytes for an image of "
                f"{list(self._shape)}, the index says "
                f"{int(lengths.min()):,} to {int(lengths.max()):,}. Copy or build the dataset "
                "again."
            )

    def _pixels(
        self, data: NDArray[np.uint8], starts: NDArray[np.int64], dtype: "np.dtype[Any]"
    ) -> NDArray[Any]:
        """Returns raw images as one array; all have the size of the dataset's shape."""
        size = int(np.prod(self._shape))
        if self._files.is_read_for_each and dtype == UINT8:
            return data.reshape(-1, *self._shape)
        if not self.has_large_images:
            return _windows(data, size)[starts].view(np.uint8).reshape(-1, *self._shape)
        pixels = self._memory((len(starts), size), dtype)
        for row, start in zip(pixels, starts.tolist(), strict=True):
            row[:] = data[start : start + size]
        return pixels.reshape(-1, *self._shape)

    def _memory(self, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> NDArray[Any]:
        """Returns an array, not initialised, whose memory was used before if it can be."""
        num_bytes = int(np.prod(shape)) * dtype.itemsize
        return self._buffers.take(num_bytes).view(dtype).reshape(shape)

    def _to_check(self, shards: NDArray[np.int64]) -> list[int]:
        """Returns which of a batch's shards are looked at: all where they are few."""
        if len(shards) <= _CHECKED:
            return list(shards.tolist())
        self._turn += _CHECKED
        return [int(shards[(self._turn + i) % len(shards)]) for i in range(_CHECKED)]

    def _entries(self, rows: NDArray[np.int64]) -> Rows:
        if len(self._indexes) == 1:
            return self._indexes[0][rows]
        splits = np.searchsorted(self._split_starts, rows, side="right") - 1
        entries = np.empty(len(rows), self._indexes[0].dtype)
        for split in np.unique(splits):
            chosen = splits == split
            entries[chosen] = self._indexes[split][rows[chosen] - self._split_starts[split]]
        return entries

    def _check(
        self,
        rows: NDArray[np.int64],
        shards: NDArray[np.int64],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
    ) -> None:
        """A stale or damaged index must not read beyond a file, nor a cut file be touched."""
        self._files.check(self._to_check(np.unique(shards)))
        sizes = self._files.sizes[shards]
        wrong = np.flatnonzero((starts < 0) | (starts + lengths > sizes))
        if len(wrong):
            position = int(wrong[0])
            path = self._files.paths[int(shards[position])]
            raise DatasetError(
                f"{path}: record {int(rows[position] - self._shard_starts[shards[position]])}: the "
                "index says bytes "
                f"{int(starts[position]):,} to {int(starts[position] + lengths[position]):,} of a "
                "file of "
                f"{int(sizes[position]):,}. Copy or build the dataset again."
            )


def _windows(data: NDArray[np.uint8], size: int) -> NDArray[np.void]:
    """Returns void [positions], the `size` bytes at every position; images lie at any of them.

    As items, not as rows of bytes: numpy gathers them in less than half the time.
    """
    size = min(size, len(data))  # a shard that holds no whole image is found out when it is read
    return np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
