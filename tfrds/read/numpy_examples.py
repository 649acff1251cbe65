"""Examples at any positions of a split expression, in numpy: fetch -> decode -> resize -> values.

Gets the record of the build and positions, gives dicts; `data_source.py` opens it once a process.
No TensorFlow.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.build_record import BuildRecord
from tfrds.disk.columns import ColumnSpec
from tfrds.errors import DatasetError
from tfrds.read.buffers import BufferPool
from tfrds.read.fetch import Batch, SplitReader
from tfrds.read.numpy_stages.decode import decode_encoded
from tfrds.read.numpy_stages.resize import resize_image
from tfrds.read.numpy_stages.values import NumpyValues
from tfrds.read.order import Order
from tfrds.read.resolve import ResizeSpec, Shape, ValuesSpec

# Pixels that are turned into values at once: enough of small images to hide what a call costs, few
# enough to stay in the processor's cache from one operation to the next.
_CHUNK_BYTES = 2**18


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleSpec:
    """What an example is.

    Attributes:
      image_shape: (height, width, channels) as stored, height and width None where they vary.
      resize: to one size; None: images are taken as they are.
      values: of pixels and labels.
      image_key, label_key: names of the features.
      columns: of the dataset, added as features of their names.
      with_key: add the feature "key".
      verify_records, engine, in_memory: as `SplitReader` takes them.
    """

    image_shape: Shape
    resize: ResizeSpec | None
    values: ValuesSpec
    image_key: str
    label_key: str
    columns: tuple[ColumnSpec, ...] = ()
    with_key: bool = False
    verify_records: bool = False
    engine: str | None = None
    in_memory: bool = False

    @property
    def output_shape(self) -> Shape:
        """(height, width, channels) of the images, height and width None where they vary."""
        size = self.resize.image_size if self.resize else self.image_shape[:2]
        return (*size, self.image_shape[2])


class Examples:
    """The opened files of one split expression, in one process and those forked from it.

    Args:
      record: of the build.
      stretches: (split, first row, count) in the order of the split expression.
      spec: of each example.

    Raises:
      ConfigError: the dtype needs a package that is missing.
      DatasetError: a file is missing or damaged.
    """

    def __init__(
        self, record: BuildRecord, stretches: Sequence[tuple[str, int, int]], spec: ExampleSpec
    ) -> None:
        self._directory = record.directory
        self._spec = spec
        splits = list(dict.fromkeys(split for split, _, _ in stretches))
        self._reader = SplitReader(
            record,
            splits,
            verify_records=spec.verify_records,
            engine=spec.engine,
            in_memory=spec.in_memory,
        )
        if spec.with_key:
            self._reader.open_keys()
        reader = self._reader
        ranges = [(reader.first_row(split) + first, count) for split, first, count in stretches]
        self._order = Order(ranges, seed=None)
        self._values = NumpyValues(spec.values)
        self._buffers = BufferPool()
        # Large images are cast as they are copied.
        is_cast = self._reader.has_large_images and not spec.resize
        is_float32 = self._values.dtype == np.float32
        self._fetched = np.dtype(np.float32 if is_cast and is_float32 else np.uint8)

    def at(self, positions: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Returns the examples at these positions, fetched at once and in memory of their own."""
        spec = self._spec
        rows = self._order.rows(0, positions)
        batch = self._reader.fetch(rows, dtype=self._fetched)
        examples: list[dict[str, Any]] = [
            {spec.image_key: image} for image in self._images(batch, rows)
        ]
        if (labels := self._values.labels(batch.labels)) is not None:
            for example, label in zip(examples, labels, strict=True):
                example[spec.label_key] = label
        for column in spec.columns:
            values = self._reader.column(column.name, rows)
            for example, value in zip(examples, values, strict=True):
                is_text = column.dtype == "string"
                example[column.name] = self._text(value, column.name) if is_text else value
        if spec.with_key:
            for example, key in zip(examples, self._reader.keys(rows), strict=True):
                example["key"] = self._text(key, "keys")
        return examples

    def _text(self, text: bytes, what: str) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise DatasetError(
                f"{self._directory}: expected {what} in UTF-8, found {text!r}. Copy or build the "
                "dataset again."
            ) from error

    def _images(self, batch: Batch, rows: NDArray[np.int64]) -> Iterable[NDArray[Any]]:
        """Returns the model's images: one array where all have one shape."""
        values, shape, pixels = self._values, self._spec.output_shape, batch.images
        if not isinstance(pixels, list) and self._spec.resize is None:
            is_cast = pixels.dtype == values.dtype
            images = pixels if is_cast else self._room((len(rows), *pixels.shape[1:]))
            step = max(_CHUNK_BYTES // max(images[:1].nbytes, 1), 1)
            for start in range(0, len(rows), step):
                chunk = images[start : start + step]
                if is_cast:
                    values.change(chunk)
                else:
                    values.write_pixels(pixels[start : start + step], chunk)
            return images
        resized = self._resized(batch, rows)
        if None in shape:
            return [self._own(image) for image in resized]
        images = self._room((len(rows), *shape))
        for number, image in enumerate(resized):
            values.write_pixels(image, images[number])
        return images

    def _room(self, shape: tuple[Any, ...]) -> NDArray[Any]:
        """Returns an array for a batch, in memory that was used before if it can be."""
        dtype = self._values.dtype
        if shape[0] == 1:  # must not keep the memory of a whole batch
            return np.empty(shape, dtype)
        num_bytes = int(np.prod(shape)) * dtype.itemsize
        return self._buffers.take(num_bytes).view(dtype).reshape(shape)

    def _own(self, image: NDArray[Any]) -> NDArray[Any]:
        values: NDArray[Any] = np.empty(image.shape, self._values.dtype)
        self._values.write_pixels(image, values)
        return values

    def _resized(self, batch: Batch, rows: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
        """Yields the images of a batch, decoded and resized."""
        resize, count = self._spec.resize, len(rows)
        ratios = np.ones(count, np.int64)
        if resize:
            ratios = resize.decode_ratios(batch.heights, batch.widths, batch.is_jpeg)
        for number in range(count):
            image = batch.images[number]
            if isinstance(image, bytes):
                image = self._decoded(batch, rows, number, int(ratios[number]))
            yield resize_image(image, resize) if resize else image

    def _decoded(
        self, batch: Batch, rows: NDArray[np.int64], number: int, ratio: int
    ) -> NDArray[np.uint8]:
        channels = self._spec.image_shape[2]
        sides = int(batch.heights[number]), int(batch.widths[number])
        of_index = (*(-(-side // ratio) for side in sides), channels)
        # By the record of the build, where all have one size.
        size = None if self._spec.resize else self._spec.output_shape
        data, is_jpeg = bytes(batch.images[number]), bool(batch.is_jpeg[number])
        try:
            image = decode_encoded(data, channels, is_jpeg, ratio)
            for expected in (of_index, of_index if size is None or None in size else size):
                if image.shape != expected:
                    raise ValueError(
                        f"expected pixels of {list(expected)}, found {list(image.shape)}"
                    )
        except ValueError as error:
            (record,) = self._reader.tfds_ids(rows[number : number + 1])
            raise DatasetError(
                f"{self._directory}: record {record.decode()} cannot be decoded: {error}. Copy or "
                "build the dataset again."
            ) from error
        return image
