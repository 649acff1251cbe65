"""Labelled images in TFRecord files that others wrote, GZIP or plain, whatever their keys.

Gets files, gives references to their records: a scan reads the labels and steps over the images.
`record_layout.py` says which feature is what; worker processes read the records whole, verify both
checksums and make uint8 of any raw pixels. Files that shall stay as they are, without a copy of
their images, are adopted instead: `../adopt_scan.py`.
"""

import array
import copy
import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_choice
from tfrds.disk.foreign_records import find_compression
from tfrds.disk.keys import Keys
from tfrds.disk.window import Window, open_window
from tfrds.write.sources.base import References
from tfrds.write.sources.record_arguments import RecordArguments
from tfrds.write.sources.record_files import RecordFile, find_files
from tfrds.write.sources.record_guess import check_compression, check_has_records, look_at
from tfrds.write.sources.record_inputs import InputFile, RecordInputs
from tfrds.write.sources.record_keys import RecordKeys
from tfrds.write.sources.record_labels import LabelsFound, RecordLabels
from tfrds.write.sources.record_layout import RecordLayout, choose_layout
from tfrds.write.sources.record_walk import Record, explain, walk_examples
from tfrds.write.sources.scratch_folder import parse_scratch_dir
from tfrds.write.sources.stamps import mix_stamps, stamp_of
from tfrds.write.sources.unpacked_records import UnpackedRecords

_COMPRESSIONS = ("none", "GZIP")


class TFRecords:
    """Labelled images in TFRecord files of `tf.train.Example`.

    What is not given is found by looking at the first records, and said. Where that cannot be
    decided, the error lists every key with its type, its sizes and a guess.

    Args:
      files: a path, a pattern such as "data/train*.tfrecord" or "train-{00..15}.tfrecord", a list
        of these, or a dict of them by split.
      image_key: of the image: the bytes of an image file, or raw pixels in row order as bytes or a
        list of floats.
      label_key: of the label: a class number (from 0) as int64 or as a float, the name of a class
        as text, or several of these.
      image_size: (height, width) of raw pixels. None: by features such as "height" and "width" of
        each record, or a square if there are as many pixels.
      channels: of raw pixels.
      pixel_dtype: "uint8", "int8", "float32" or "float64" (little endian). None: uint8 for bytes,
        float32 for a list of floats; bytes that look like floats are refused.
      pixel_range: (low, high), the values that become 0 and 255, for raw pixels that are not uint8;
        values between them are rounded to the nearest, those outside are an error.
      label_offset: is added to class numbers. Give -1 for numbers that count from 1, which are
        refused otherwise, or 0 to keep them.
      class_names: in the order of the class numbers. None: the numbers, or the names in the
        records.
      key_key: of a text that names each example, such as "image/filename". None: examples are named
        after their file and their number in it.
      label_kind: "single", "binary", "multi" (lists of classes), "value" (floats as they are) or
        "none". None: by looking.
      compression: "none" or "GZIP". None: by what each file begins with.
      scratch_dir: folder for GZIP files while they are unpacked, since images cannot be reached in
        them: with room for all their records. None: the system's for temporary files.

    Raises:
      ConfigError: a value that its argument cannot have.
    """

    kind = "tfrecords"
    is_in_memory = False

    def __init__(
        self,
        files: Any,
        *,
        image_key: str | None = None,
        label_key: str | None = None,
        image_size: tuple[int, int] | int | None = None,
        channels: int | None = None,
        pixel_dtype: str | None = None,
        pixel_range: tuple[float, float] | None = None,
        label_offset: int | None = None,
        class_names: Sequence[str] | None = None,
        key_key: str | None = None,
        label_kind: str | None = None,
        compression: str | None = None,
        scratch_dir: os.PathLike[str] | str | None = None,
    ) -> None:
        # What can be gone through once only would be empty in a second scan.
        self._files = list(files) if isinstance(files, Iterator) else files
        self._given = RecordArguments(
            image_key=image_key,
            label_key=label_key,
            image_size=image_size,
            channels=channels,
            pixel_dtype=pixel_dtype,
            pixel_range=pixel_range,
            label_offset=label_offset,
            class_names=class_names,
            key_key=key_key,
            label_kind=label_kind,
        )
        if compression is not None:
            check_choice("compression", compression, _COMPRESSIONS)
        self._compression = compression
        self._scratch_dir = parse_scratch_dir(scratch_dir)
        self._scan: _Scan | None = None

    def with_label_kind(self, kind: str | None) -> "TFRecords":
        """Returns the same source with labels of this kind."""
        other = copy.copy(self)
        other._given = dataclasses.replace(self._given, label_kind=kind)
        other._scan = None
        return other

    def scan(self) -> References:
        """Returns references in order of the files' names and of the records in them.

        Raises:
          ConfigError: which feature is what cannot be decided, or does not fit what is given.
          SourceError: a file is missing, damaged or empty, or no TFRecord file, or a record is not
            what it should be; the text names both.
        """
        self._scan = None  # what it has unpacked makes room
        files, split_names = find_files(self._files)
        layout = choose_layout(look_at(files, self._compression), self._given)
        scan = _Scan(files, layout, self._given, self._compression, self._scratch_dir)
        for number in range(len(files)):
            scan.add_file(number)
        self._scan = scan
        return scan.references(split_names)

    def inputs(self, rows: NDArray[np.int64]) -> "RecordInputs":
        """Returns the records at `rows` of the last scan."""
        if self._scan is None:
            self.scan()
            return self.inputs(rows)
        return self._scan.inputs(rows)


class _Scan:
    """What is known of all records, as columns."""

    def __init__(
        self,
        files: list[RecordFile],
        layout: RecordLayout,
        given: RecordArguments,
        compression: str | None,
        scratch_dir: pathlib.Path | None,
    ) -> None:
        self._files = files
        self._layout = layout
        self._compression = compression
        self._labels = RecordLabels(layout, given) if layout.label_key else None
        self._is_binary = given.label_kind == "binary"
        self._unpacked = UnpackedRecords(scratch_dir)
        self._is_packed = np.zeros(len(files), bool)
        self._counts = np.zeros(len(files), np.int64)
        self._file_stamps = np.zeros(len(files), np.uint64)
        self._offsets = array.array("q")
        self._lengths = array.array("q")
        self._sizes = array.array("q")
        self._shapes: set[tuple[int, int, int] | None] = set()
        self._keys = RecordKeys(layout.key_key) if layout.key_key else None
        self._starts = np.zeros(1, np.int64)

    def add_file(self, number: int) -> None:
        """Adds all records of a file."""
        file = self._files[number]
        with open_window(file.path) as window:
            compression = find_compression(window, file.path)
            check_compression(compression, self._compression, file.path)
            # Other pixels are another image, too.
            status = os.fstat(window.descriptor)
            self._file_stamps[number] = stamp_of(status, self._layout.image)
            if compression == "none":
                self._add_records(window, number)
        if compression == "GZIP":
            self._is_packed[number] = True
            with open_window(self._unpacked.unpack(file.path, number)) as window:
                self._add_records(window, number)
        check_has_records(int(self._counts[number]), file.path)

    def references(self, split_names: tuple[str, ...]) -> References:
        """Returns what was found."""
        self._starts = np.concatenate([[0], np.cumsum(self._counts)])
        labels = self._labels.finish(self._name_row) if self._labels else LabelsFound(labels=None)
        splits = np.array([file.split for file in self._files], np.int32)
        layout = self._layout
        more = f" and {len(self._files) - 1:,} more" if len(self._files) > 1 else ""
        where = f"{self._files[0].path}{more}"
        return References(
            keys=self._keys.finish(self._name_row) if self._keys else self._names(),
            label_kind="binary" if self._is_binary else layout.label_kind,  # type: ignore[arg-type]
            labels=labels.labels,
            class_names=labels.class_names,
            has_numbered_classes=labels.has_numbered_classes,
            splits=np.repeat(splits, self._counts) if split_names else None,
            split_names=split_names,
            sizes=np.array(self._sizes, np.int64),
            stamps=self._stamps(),
            shape=_common_shape(self._shapes),
            notes=tuple(f"{where}: {note}" for note in layout.notes),
        )

    def inputs(self, rows: NDArray[np.int64]) -> "RecordInputs":
        """Returns the records at `rows`."""
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        used, which = np.unique(numbers, return_inverse=True)
        folder = self._unpacked.folder
        return RecordInputs(
            files=[
                InputFile(
                    self._files[number].path,
                    self._files[number].name,
                    (folder, number) if folder and self._is_packed[number] else None,
                )
                for number in used.tolist()
            ],
            which=which.astype(np.int32),
            numbers=rows - self._starts[numbers],
            offsets=np.array(self._offsets, np.int64)[rows],
            lengths=np.array(self._lengths, np.int64)[rows],
            rule=self._layout.image,
        )

    def _add_records(self, window: Window, number: int) -> None:
        name = self._files[number].path
        before = len(self._offsets)
        for record in walk_examples(window, name, self._layout.keys):
            try:
                self._add(window, record)
            except (ValueError, OSError) as error:
                raise explain(error, window, name, record) from error
        self._counts[number] = len(self._offsets) - before

    def _add(self, window: Window, record: Record) -> None:
        _, size, shape = self._layout.image.locate(window, record.features)
        if self._labels is not None:
            self._labels.add(window, record.features)
        if self._keys is not None:
            self._keys.add(window, record.features)
        self._offsets.append(record.offset)
        self._lengths.append(record.length)
        self._sizes.append(size)
        self._shapes.add(shape)

    def _stamps(self) -> NDArray[np.uint64]:
        of_files = np.repeat(self._file_stamps, self._counts)
        places = (np.array(values, np.int64) for values in (self._offsets, self._lengths))
        return mix_stamps(of_files, *places)

    def _name_row(self, row: int) -> str:
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return f"{self._files[number].path} record {row - int(self._starts[number])}"

    def _names(self) -> Keys:
        return Keys.from_iterable(self._each_name())

    def _each_name(self) -> Iterator[bytes]:
        for file, count in zip(self._files, self._counts.tolist(), strict=True):
            name = file.name.encode()
            digits = len(str(count - 1))
            for number in range(count):
                yield b"%b/%0*d" % (name, digits, number)


def _common_shape(
    shapes: set[tuple[int, int, int] | None],
) -> tuple[int | None, int | None, int] | None:
    known = [shape for shape in shapes if shape is not None]
    channels = {shape[2] for shape in known}
    if len(channels) != 1:
        return None
    return known[0] if len(known) == 1 else (None, None, channels.pop())
