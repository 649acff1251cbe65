"""Looks through a TFRecord file that others wrote, to use it where it lies, without rewriting it.

Gets a plain file and what its features mean, gives the columns of the record index and the labels.
Only what stands around the images is read: the checksum of each record's length is checked, that of
its data is not. What the reader's graph cannot decode as it lies there is not adoptable: the error
says to build from the `TFRecords` source, which converts it.
"""

import array
import dataclasses
import os
import pathlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.foreign_example import bytes_spans, int64_values
from tfrds.disk.foreign_records import find_compression
from tfrds.disk.index import RAW, ROW, Rows
from tfrds.disk.keys import Keys
from tfrds.disk.records import HEADER_BYTES
from tfrds.disk.window import Window, open_window
from tfrds.errors import SourceError
from tfrds.write.image_header import ImageHeader, read_header
from tfrds.write.sources.feature_guess import FeatureFound
from tfrds.write.sources.pixel_layout import look_like_floats
from tfrds.write.sources.record_arguments import RecordArguments
from tfrds.write.sources.record_files import find_files
from tfrds.write.sources.record_guess import RecordsFound, look_at
from tfrds.write.sources.record_image import (
    OBVIOUS_RANGES,
    Pixels,
    get_feature,
    name_kind,
    one_value,
)
from tfrds.write.sources.record_layout import RecordLayout, choose_layout, find_image
from tfrds.write.sources.record_walk import Record, explain, walk_examples

_MAX_LABEL_BYTES = 4096

_COLUMNS = (
    *("offset", "length", "image_offset", "image_length"),
    *("height", "width", "encoding", "channels"),
)


class _NotAdoptableError(ValueError):
    """What is right as it is, but not for reading in place."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ScannedFile:
    """A file as it is, for the record index.

    Attributes:
      path: absolute.
      num_bytes: of the file.
      mtime_ns: its time of change.
      rows: of the index, in record order: offset, length, image_offset, image_length, height,
        width, encoding and channels; label is -1, content is zeros, "not computed".
      labels: int64 [n] as they stand in the file, or the bytes of texts; None: there are none.
      num_turned: images whose EXIF says that they are not upright as they lie there; a build would
        turn them.
    """

    path: pathlib.Path
    num_bytes: int
    mtime_ns: int
    rows: Rows
    labels: NDArray[np.int64] | Keys | None
    num_turned: int


def choose_adoption(files: Any, given: RecordArguments) -> RecordLayout:
    """Returns what the features of files mean that can be used where they lie.

    Args:
      files: a path, a pattern, a list of these, or a dict of them by split.
      given: what is known of the records.

    Raises:
      ConfigError: it cannot be decided; the text lists the keys that were found.
      SourceError: no such files, or a dataset must be built from them.
    """
    found_files, _ = find_files(files)
    for file in found_files:
        with open_window(file.path) as window:
            _check_plain(window, file.path)
    found = look_at(found_files)
    try:
        image = find_image(found, given)
        if image is not None:
            _check_pixels(image, found, given)
        return _check_layout(choose_layout(found, given), found)
    except _NotAdoptableError as error:
        raise _refusal(found_files[0].path, error) from error


def scan_file(path: os.PathLike[str] | str, layout: RecordLayout) -> ScannedFile:
    """Returns the columns of one file.

    Args:
      path: of a plain TFRecord file.
      layout: of all files, by `choose_adoption`.

    Raises:
      SourceError: damaged, or a record is not what it should be, or must be built from; the text
        names the record.
    """
    name = os.fspath(path)
    with open_window(name) as window:
        _check_plain(window, name)
        status = os.fstat(window.descriptor)
        columns = _Columns(layout)
        for record in walk_examples(window, name, layout.keys):
            try:
                columns.add(window, record)
            except _NotAdoptableError as error:
                raise _refusal(name, error, record.number) from error
            except (ValueError, OSError) as error:
                raise explain(error, window, name, record) from error
    return ScannedFile(
        path=pathlib.Path(path).absolute(),
        num_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        rows=columns.rows(),
        labels=columns.labels(),
        num_turned=columns.num_turned,
    )


class _Columns:
    """The columns of one file, as far as it is read.

    Attributes:
      num_turned: as `ScannedFile` has it.
    """

    def __init__(self, layout: RecordLayout) -> None:
        self.num_turned = 0
        self._layout = layout
        self._columns = array.array("Q")  # all columns of a record, then those of the next
        self._numbers = array.array("q")
        self._texts: list[bytes] = []

    def add(self, window: Window, record: Record) -> None:
        """Adds a record.

        Raises:
          ValueError: it is not what it should be.
        """
        image = self._layout.image
        span, _, shape = image.locate(window, record.features)
        if span is None:  # a layout that is not by `choose_adoption`
            raise _NotAdoptableError("raw pixels must be uint8 as bytes, got a list of floats")
        start, end = span
        if image.pixels is None:
            header = _header(image.key, window, start, end)
            about = (header.height, header.width, header.encoding, header.channels)
            self.num_turned += header.orientation != 1
        else:
            height, width, channels = _same_shape(shape, image.pixels)
            about = (height, width, RAW, channels)
        if self._layout.label_key is not None:
            self._add_label(self._layout.label_key, window, record)
        place = start - record.offset - HEADER_BYTES
        self._columns.extend((record.offset, record.length, place, end - start, *about))

    def rows(self) -> Rows:
        """Returns the rows of the index."""
        columns = np.array(self._columns, np.uint64).reshape(-1, len(_COLUMNS))
        rows = np.zeros(len(columns), ROW)
        for position, name in enumerate(_COLUMNS):
            rows[name] = columns[:, position]
        rows["label"] = -1
        return rows

    def labels(self) -> NDArray[np.int64] | Keys | None:
        """Returns the labels."""
        if self._layout.label_key is None:
            return None
        if self._layout.label_feature == "bytes":
            return Keys.from_iterable(self._texts)
        return np.array(self._numbers, np.int64)

    def _add_label(self, key: str, window: Window, record: Record) -> None:
        feature = get_feature(record.features, key)
        if feature.kind != self._layout.label_feature:
            raise ValueError(
                f"feature {key!r}: expected {self._layout.label_feature} as in other records, got "
                f"{name_kind(feature)}"
            )
        if feature.kind == "int64":
            self._numbers.append(one_value(int64_values, window, feature, key))
            return
        start, end = one_value(bytes_spans, window, feature, key)
        if end - start > _MAX_LABEL_BYTES:
            raise ValueError(
                f"feature {key!r}: expected the name of a class of at most {_MAX_LABEL_BYTES:,} "
                f"bytes, got {end - start:,}"
            )
        self._texts.append(window.take(start, end - start))


def _header(key: str, window: Window, start: int, end: int) -> ImageHeader:
    try:
        return read_header(window, start, end)
    except ValueError as error:
        raise _NotAdoptableError(f"feature {key!r}: {error}") from error


def _same_shape(shape: tuple[int, int, int] | None, pixels: Pixels) -> tuple[int, int, int]:
    if shape is None or shape != (pixels.height, pixels.width, pixels.channels):
        raise _NotAdoptableError(
            f"raw pixels must have one shape, {pixels.height}x{pixels.width}x{pixels.channels} as "
            f"in the first record, got {'x'.join(map(str, shape or ()))}"
        )
    return shape


def _check_plain(window: Window, name: str) -> None:
    if find_compression(window, name) == "GZIP":
        raise _refusal(name, _NotAdoptableError("images in a GZIP file cannot be reached by place"))


def _check_pixels(image: FeatureFound, found: RecordsFound, given: RecordArguments) -> None:
    """Raises _NotAdoptableError where an image is stored as what the reader cannot decode."""
    what = None
    if image.kind == "float":
        what = "a list of floats"
    elif given.pixel_dtype not in (None, "uint8"):
        what = f"{given.pixel_dtype} pixels"
    elif look_like_floats(image, found, given):
        what = f"what looks like {image.pixel_dtype} pixels"
    elif given.pixel_range not in (None, OBVIOUS_RANGES["uint8"]):
        what = f"pixels of pixel_range={given.pixel_range}"
    if what:
        raise _NotAdoptableError(
            f"raw pixels must be uint8 from 0 to 255, {image.key!r} holds {what}"
        )


def _check_layout(layout: RecordLayout, found: RecordsFound) -> RecordLayout:
    """Returns the layout with the shape of raw pixels, which must be the same in all records."""
    if layout.label_kind not in ("single", "none") or layout.label_feature == "float":
        raise _NotAdoptableError(
            "a label must be one class as int64 or text, "
            f"{layout.label_key!r} holds {layout.label_feature} ({layout.label_kind!r})"
        )
    pixels = layout.image.pixels
    if pixels is None:
        return layout
    if pixels.size_keys:
        size = found.sizes[0]
        height, width = (size[key] for key in pixels.size_keys[:2])
        channels = pixels.channels or size[layout.image.key] // (height * width)
        pixels = dataclasses.replace(pixels, height=height, width=width, channels=channels)
    if pixels.channels is None:
        raise _NotAdoptableError("raw pixels must have one shape, their number differs")
    return dataclasses.replace(layout, image=dataclasses.replace(layout.image, pixels=pixels))


def _refusal(name: str, error: _NotAdoptableError, record: int | None = None) -> SourceError:
    where = name if record is None else f"{name} record {record}"
    return SourceError(
        f"{where}: cannot be used where it lies: {error}. Build a dataset from it instead: "
        f"tfrds.build(name, tfrds.sources.TFRecords({name!r})) converts it."
    )
