"""The Python side of a pipeline: what its graph calls for each epoch and each batch.

Gets a reader of records, an order and what the user wants, gives the fetches of an epoch and the
parts of each fetch as numpy arrays; `pipeline.py` and `stream.py` build graphs around it.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfrds.disk.columns import ColumnSpec
from tfrds.read.ahead import ReadAhead
from tfrds.read.augmentation import Augmentation
from tfrds.read.cut import Cut
from tfrds.read.example import INSTRUCTIONS, ExampleStage
from tfrds.read.fetch import Batch, SplitReader
from tfrds.read.mixed import MixedReader
from tfrds.read.order import EpochState, Order
from tfrds.read.selection import SampleWeights
from tfrds.read.stages.resize import Resize
from tfrds.read.stages.values import Values
from tfrds.read.steps import Steps

# Two fetches hide each other's waits; more only compete for memory bandwidth, and hold a batch
# each.
_FETCH_CALLS = 2

# Where fetches wait for a network, these many wait at the same time.
_SLOW_FETCH_CALLS = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelineSpec:
    """What a pipeline yields.

    Attributes:
      steps: which positions of an epoch each batch covers.
      start: (epoch, step) of the first iterator.
      example: what is done for each image before it is in a batch.
      batch_resize: of whole batches of raw images, where nothing is done for each; else None.
      augmentation: random stages.
      values: of pixels and labels.
      image_key, label_key: names of the features.
      label_offset: is added to class numbers that records hold, where they are streamed.
      weights: of examples, added as "sample_weight"; None: those of the dataset, if any.
      columns: of the dataset that are yielded.
      with_key: add the feature "key".
      with_tfds_id: add the feature "tfds_id".
      supervised: yield (image, label), or (image, label, weight), instead of a dict.
      prefetch: finish the next batch while the current one is used.
      decode_calls: parallel decodes; None: by the processors this process may use.
      is_cached: keep the stored bytes in memory, where they are streamed.
      assert_cardinality: say how many elements a stream has; not where several processes share it.
      device: where batches end up; None: in host memory.
      options: the user's own, applied last.
    """

    steps: Steps
    start: tuple[int, int] = (0, 0)
    example: ExampleStage
    batch_resize: Resize | None
    augmentation: Augmentation
    values: Values
    image_key: str
    label_key: str
    label_offset: int = 0
    weights: SampleWeights | None = None
    columns: tuple[ColumnSpec, ...] = ()
    with_key: bool = False
    with_tfds_id: bool = False
    supervised: bool = False
    prefetch: bool = True
    decode_calls: int | None = None
    is_cached: bool = False
    assert_cardinality: bool = True
    device: str | None = None
    options: Any = None

    @property
    def needs_details(self) -> bool:
        """Whether stages need what only the index or the random numbers of a position say."""
        decodes_smaller = bool(self.example.resize and self.example.resize.may_decode_smaller)
        is_random = self.augmentation.crop is not None or self.augmentation.num_parameters > 0
        return is_random or (decodes_smaller and not self.example.is_raw)

    @property
    def output_shape(self) -> tuple[int | None, int | None, int]:
        """(height, width, channels) of each image in a batch, None where they vary."""
        height, width, channels = self.example.output_shape
        if self.batch_resize:
            height, width = self.batch_resize.image_size
        return height, width, channels


class Pipeline:
    """The Python part of one dataset: what its graph calls, found again by its handle.

    Attributes:
      epochs: sets and takes the epoch of the next iterator.
      order: of the examples.
      steps: of an epoch.
      seed: of the permutation and of augmentation.
      digests: of the datasets that are read.
    """

    def __init__(self, reader: SplitReader | MixedReader, order: Order, spec: PipelineSpec) -> None:
        self.epochs = EpochState(*spec.start)
        self.order = order
        self.steps = spec.steps
        self.seed = spec.augmentation.seed
        self.digests = reader.digests
        self._reader = reader
        self._spec = spec
        # Large images that are merely cast are cast as they are copied: TensorFlow would write the
        # floats to fresh memory, and clearing that takes as long. 1.1 to 1.2 times the speed.
        is_mere_cast = spec.values.dtype == "float32" and spec.values.is_mere_cast
        has_stages = bool(spec.batch_resize or spec.augmentation.stages)
        is_cast_here = reader.has_large_images and is_mere_cast and not has_stages
        self._ahead = ReadAhead(reader, order, spec.steps)
        self.fetch_calls = _SLOW_FETCH_CALLS if reader.is_slow else _FETCH_CALLS
        self._dtype = np.dtype(np.float32 if is_cast_here else np.uint8)
        if spec.with_key:
            reader.open_keys()

    @property
    def parts(self) -> dict[str, tf.TensorSpec]:
        """What `fetch` returns, by name, as each example has it."""
        spec = self._spec
        names: dict[str, tf.TensorSpec] = {}
        if spec.example.is_fetched_whole:
            names["images"] = tf.TensorSpec(spec.example.output_shape, self._dtype)
        else:
            names["images"] = tf.TensorSpec((), tf.string)
            names["instructions"] = tf.TensorSpec((len(INSTRUCTIONS),), tf.int32)
        if (label := _label_spec(spec.values)) is not None:
            names["labels"] = label
        if spec.augmentation.num_parameters:
            names["parameters"] = tf.TensorSpec((spec.augmentation.num_parameters,), tf.float32)
        for column in spec.columns:
            names[column_part(column)] = tf.TensorSpec(column.shape, column.dtype)
        if spec.weights:
            names["sample_weight"] = tf.TensorSpec((), tf.float32)
        if spec.with_key:
            names["key"] = tf.TensorSpec((), tf.string)
        if spec.with_tfds_id:
            names["tfds_id"] = tf.TensorSpec((), tf.string)
        return names

    @property
    def declared_batch(self) -> int | None:
        """The examples of each fetch as the graph is told.

        Where the fetches are taken apart again, the last one may be smaller without harm, and their
        number is only known if all have the same shape.
        """
        steps = self.steps
        is_taken_apart = not self._spec.example.is_fetched_whole or steps.batch_size is None
        return steps.fetch_size if is_taken_apart or steps.has_full_batches else None

    def draw(self) -> NDArray[np.int64]:
        """Returns the fetches left of the next epoch: their steps, counted through all epochs."""
        epoch, first_step = self.epochs.take()
        self._ahead.restart(first_step)
        return epoch * self.steps.num_steps + self.steps.fetches(first_step)

    def fetch(self, global_step: int) -> dict[str, Any]:
        """Returns the parts of one fetch, see `parts`, each for a batch of examples."""
        epoch, step = divmod(global_step, self.steps.num_steps)
        self._ahead.prepare(epoch, step)
        positions = self.steps.positions(step)
        examples = self.order.examples(epoch, positions)
        rows = self.order.rows_of(examples)
        fetched = self._fetch_images(epoch, positions, rows)
        for column in self._spec.columns:
            fetched[column_part(column)] = self._reader.column(column.name, rows)
        if self._spec.weights:
            fetched["sample_weight"] = self._spec.weights.of(examples, fetched.get("labels"))
        if self._spec.with_key:
            fetched["key"] = _strings(self._reader.keys(rows))
        if self._spec.with_tfds_id:
            fetched["tfds_id"] = _strings(self._reader.tfds_ids(rows))
        return fetched

    def _fetch_images(
        self, epoch: int, positions: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> dict[str, Any]:
        example, augmentation = self._spec.example, self._spec.augmentation
        crop = augmentation.crop
        boxes = cut = None
        if crop and self._reader.is_raw:
            # All have the stored shape, so the boxes are known before anything is copied.
            stored = [np.full(len(rows), side, np.int64) for side in example.image_shape[:2]]
            boxes = augmentation.boxes(epoch, positions, *example.cut_sizes(*stored))
            if example.is_fetched_whole:
                cut = Cut(boxes, crop.image_size, crop.fill)
            elif example.is_cut_first:
                cut = Cut(boxes)
        batch = self._reader.fetch(rows, cut, self._dtype)
        heights, widths = batch.heights.astype(np.int64), batch.widths.astype(np.int64)
        if crop and boxes is None:
            boxes = augmentation.boxes(epoch, positions, *example.cut_sizes(heights, widths))
        fetched: dict[str, Any] = {} if batch.labels is None else {"labels": batch.labels}
        if example.is_fetched_whole:
            fetched["images"] = batch.images
        else:
            fetched["images"] = _strings(_files(batch))
            fetched["instructions"] = example.instructions(heights, widths, batch.is_jpeg, boxes)
        if augmentation.num_parameters:
            fetched["parameters"] = self._parameters(epoch, positions, heights, widths)
        return fetched

    def _parameters(
        self,
        epoch: int,
        positions: NDArray[np.int64],
        heights: NDArray[np.int64],
        widths: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        height, width, _ = self._spec.output_shape
        heights = np.full_like(heights, height) if height else heights
        widths = np.full_like(widths, width) if width else widths
        return self._spec.augmentation.draw(epoch, positions, heights, widths)


class Details(Pipeline):
    """The Python side of a streamed dataset: what is said of each image, without its bytes."""

    @property
    def parts(self) -> dict[str, tf.TensorSpec]:
        """What `fetch` returns, by name, as each example has it."""
        return {
            name: spec
            for name, spec in super().parts.items()
            if name in ("instructions", "parameters")
        }

    def fetch(self, global_step: int) -> dict[str, Any]:
        """Returns the parts of one fetch, see `parts`, each for a batch of examples."""
        epoch, step = divmod(global_step, self.steps.num_steps)
        positions = self.steps.positions(step)
        batch = self._reader.describe(self.order.rows(epoch, positions))
        heights, widths = batch.heights.astype(np.int64), batch.widths.astype(np.int64)
        example, augmentation = self._spec.example, self._spec.augmentation
        boxes = None
        if augmentation.crop:
            boxes = augmentation.boxes(epoch, positions, *example.cut_sizes(heights, widths))
        return {
            "instructions": example.instructions(heights, widths, batch.is_jpeg, boxes),
            "parameters": self._parameters(epoch, positions, heights, widths)
            if augmentation.num_parameters
            else None,
        }


def column_part(column: ColumnSpec) -> str:
    """Returns what the part of a column is called; another word than all other parts."""
    return f"column {column.name}"


def _label_spec(values: Values) -> tf.TensorSpec | None:
    """Returns what the label of an example is before its values; None: there is none."""
    if values.label_mode == "none":
        return None
    if values.label_mode == "multi_hot":
        return tf.TensorSpec((values.num_classes,), tf.float32)
    if values.label_mode == "value":
        return tf.TensorSpec(values.label_shape, tf.float32)
    return tf.TensorSpec((), tf.int32)


def _files(batch: Batch) -> list[bytes]:
    """Returns the bytes of each image, also of raw ones."""
    if isinstance(batch.images, list):
        return batch.images
    return [image.tobytes() for image in batch.images]


def _strings(values: list[bytes]) -> NDArray[Any]:
    # numpy's own byte strings would lose zeros at the end of a file.
    strings = np.empty(len(values), object)
    strings[:] = values
    return strings
