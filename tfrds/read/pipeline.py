"""The dataset: order -> fetch -> decode -> batch -> values -> prefetch.

Gets a reader of records, an order and what the user wants, gives a `tf.data.Dataset`;
`datasets.py` calls it for each split. The parallelism is explicit: tf.data's autotuning makes
destroying an iterator wait for its tuner, for seconds an epoch, and Keras makes iterators all the
time.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfrds.cpus import available_cpus
from tfrds.errors import TfrdsError
from tfrds.read import host_calls
from tfrds.read.augmentation import Augmentation
from tfrds.read.example import INSTRUCTIONS, ExampleStage
from tfrds.read.fetch import Batch, Cut, SplitReader
from tfrds.read.mixed import MixedReader
from tfrds.read.order import EpochState, Order
from tfrds.read.selection import SampleWeights
from tfrds.read.stages.resize import Resize
from tfrds.read.stages.values import Values
from tfrds.read.steps import FETCHED_TOGETHER, Steps

# Two fetches hide each other's waits; more only compete for memory bandwidth, and hold a batch
# each.
_FETCH_CALLS = 2

# Where fetches wait for a network, these many wait at the same time.
_SLOW_FETCH_CALLS = 4

# Decodes a processor: 2 keep it busy while others wait for the batch; 4 gained nothing.
_DECODES_PER_CPU = 2

# One finished batch waits for the model; a second one costs its memory and gained nothing.
_PREFETCHED = 1


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
      weights: of examples, added as "sample_weight"; None: none.
      with_key: add the feature "key".
      with_tfds_id: add the feature "tfds_id".
      supervised: yield (image, label), or (image, label, weight), instead of a dict.
      prefetch: finish the next batch while the current one is used.
      decode_calls: parallel decodes; None: by the processors this process may use.
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
    weights: SampleWeights | None = None
    with_key: bool = False
    with_tfds_id: bool = False
    supervised: bool = False
    prefetch: bool = True
    decode_calls: int | None = None
    device: str | None = None
    options: Any = None

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
    """

    def __init__(self, reader: SplitReader | MixedReader, order: Order, spec: PipelineSpec) -> None:
        self.epochs = EpochState(*spec.start)
        self._reader = reader
        self._order = order
        self._spec = spec
        # Large images that are merely cast are cast as they are copied: TensorFlow would write the
        # floats to fresh memory, and clearing that takes as long. 1.1 to 1.2 times the speed.
        is_mere_cast = spec.values.dtype == "float32" and spec.values.is_mere_cast
        has_stages = bool(spec.batch_resize or spec.augmentation.stages)
        is_cast_here = reader.has_large_images and is_mere_cast and not has_stages
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
        names["labels"] = tf.TensorSpec((), tf.int32)
        if spec.augmentation.num_parameters:
            names["parameters"] = tf.TensorSpec((spec.augmentation.num_parameters,), tf.float32)
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
        steps = self._spec.steps
        is_taken_apart = not self._spec.example.is_fetched_whole or steps.batch_size is None
        return steps.fetch_size if is_taken_apart or steps.has_full_batches else None

    def draw(self) -> NDArray[np.int64]:
        """Returns the fetches left of the next epoch: their steps, counted through all epochs."""
        epoch, first_step = self.epochs.take()
        return epoch * self._spec.steps.num_steps + self._spec.steps.fetches(first_step)

    def fetch(self, global_step: int) -> dict[str, Any]:
        """Returns the parts of one fetch, see `parts`, each for a batch of examples."""
        epoch, step = divmod(global_step, self._spec.steps.num_steps)
        positions = self._spec.steps.positions(step)
        examples = self._order.examples(epoch, positions)
        rows = self._order.rows_of(examples)
        fetched = self._fetch_images(epoch, positions, rows)
        if self._spec.weights:
            fetched["sample_weight"] = self._spec.weights.of(examples, fetched["labels"])
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
        fetched: dict[str, Any] = {"labels": batch.labels}
        if example.is_fetched_whole:
            fetched["images"] = batch.images
        else:
            fetched["images"] = _strings(_files(batch))
            fetched["instructions"] = example.instructions(heights, widths, batch.is_jpeg, boxes)
        if augmentation.num_parameters:
            height, width, _ = self._spec.output_shape
            heights = np.full_like(heights, height) if height else heights
            widths = np.full_like(widths, width) if width else widths
            fetched["parameters"] = augmentation.draw(epoch, positions, heights, widths)
        return fetched


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


def make_dataset(
    reader: SplitReader | MixedReader, order: Order, spec: PipelineSpec
) -> tf.data.Dataset:
    """Returns the dataset of one split expression.

    Element: dict of `image_key` float32 [batch, height, width, channels], 0..255, and `label_key`
    float32 [batch, num_classes], one-hot; with "sample_weight" float32 [batch], "key" and "tfds_id"
    string [batch] where asked for; without the batch dimension where there is no batch size;
    (image, label) or (image, label, weight) where supervised. Its cardinality is known.

    While iterating, an error surfaces as `tf.errors.InvalidArgumentError` whose text holds ours.
    """
    pipeline = Pipeline(reader, order, spec)
    handle = np.int64(host_calls.register(pipeline))
    # A root of one element, so that `draw` runs once an iterator, when its first element is asked
    # for.
    root = tf.data.Dataset.from_tensors(handle)
    if not tf.inside_function():
        host_calls.bind(root, int(handle))
    # The steps of an epoch become elements by `unbatch`, which knows their number from the shape.
    dataset = root.map(_as_written(lambda _: _draw(handle, spec.steps))).unbatch()
    add_images = _add_batches if spec.example.is_fetched_whole else _add_examples
    dataset = add_images(dataset, handle, pipeline, spec)
    if not spec.steps.batch_size:
        # The last fetch may be smaller than its shape says: `take` makes the number of examples
        # right again.
        dataset = dataset.take(spec.steps.num_steps)
    if spec.prefetch:
        dataset = dataset.prefetch(_PREFETCHED if spec.steps.batch_size else FETCHED_TOGETHER)
    if not spec.steps.num_steps:
        # `unbatch` takes a dimension of 0 for an unknown one.
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(0))
    if spec.device:
        dataset = dataset.apply(tf.data.experimental.prefetch_to_device(spec.device, 1))
        if spec.start == (0, 0):
            # It forgets the cardinality; of a shorter first epoch none would be right.
            number = tf.data.experimental.assert_cardinality(spec.steps.num_steps)
            dataset = dataset.apply(number)
    # Options come last: some datasets lose those that were set before them.
    return dataset.with_options(_options(spec))


def _add_batches(
    steps: tf.data.Dataset, handle: np.int64, pipeline: Pipeline, spec: PipelineSpec
) -> tf.data.Dataset:
    """Fetches whole batches of pixels, and makes their values in the same call."""
    # Pixels are uint8 until the batch exists: a quarter of the bytes to copy. One map for both: a
    # second one takes 6% of the speed at 28 x 28.
    fetch = _as_written(lambda step: _values(_fetch(handle, step, pipeline), spec))
    dataset = steps.map(fetch, num_parallel_calls=pipeline.fetch_calls)
    return dataset if spec.steps.batch_size else dataset.unbatch()


def _add_examples(
    steps: tf.data.Dataset, handle: np.int64, pipeline: Pipeline, spec: PipelineSpec
) -> tf.data.Dataset:
    """Fetches the bytes of whole batches, decodes them one by one, and batches them again."""
    fetch = _as_written(lambda step: _fetch(handle, step, pipeline))
    decode = _as_written(lambda parts: _decode(parts, spec))
    values = _as_written(lambda parts: _values(parts, spec))
    dataset = steps.map(fetch, num_parallel_calls=pipeline.fetch_calls).unbatch()
    # Decoding is where the time goes.
    calls = spec.decode_calls or available_cpus() * _DECODES_PER_CPU
    dataset = dataset.map(decode, num_parallel_calls=calls)
    if not spec.steps.batch_size:
        return dataset.map(values)
    dataset = dataset.batch(spec.steps.batch_size, drop_remainder=spec.steps.has_full_batches)
    return dataset.map(values, num_parallel_calls=_FETCH_CALLS)


def _as_written(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps AutoGraph from a graph function.

    It finds nothing to convert in ours, and where it fails to read their source it keeps them, and
    all that they hold, for good.
    """
    return tf.autograph.experimental.do_not_convert(function)  # type: ignore[no-any-return]


def _draw(handle: np.int64, steps: Steps) -> tf.Tensor:
    fetches = tf.numpy_function(_draw_here, [handle], tf.int64)
    # tf.data does not check this shape, and must not: an epoch that starts in its middle has fewer
    # fetches left.
    fetches.set_shape([len(steps.fetches(0))])
    return fetches


def _fetch(handle: np.int64, step: tf.Tensor, pipeline: Pipeline) -> dict[str, tf.Tensor]:
    specs = pipeline.parts
    # The names go along, so that after an error empty parts can be given in their place.
    names = ",".join(f"{name}:{spec.dtype.name}" for name, spec in specs.items())
    types = [*(spec.dtype for spec in specs.values()), tf.string]
    *parts, fault = tf.numpy_function(_fetch_here, [handle, step, names], types)
    with tf.control_dependencies([tf.debugging.Assert(tf.equal(fault, ""), [fault])]):
        fetched = {name: tf.identity(part) for name, part in zip(specs, parts, strict=True)}
    for name, spec in specs.items():
        fetched[name].set_shape([pipeline.declared_batch, *spec.shape])
    return fetched


def _draw_here(handle: NDArray[np.int64]) -> NDArray[np.int64]:
    with host_calls.running:
        steps: NDArray[np.int64] = host_calls.find(int(handle)).draw()
        return steps


def _fetch_here(handle: NDArray[np.int64], step: NDArray[np.int64], names: bytes) -> list[Any]:
    """Returns the parts by their names, and an empty string; after an error, empty parts, its text.

    As an exception the text would lose its class and gain a traceback of thirty lines.
    """
    parts = [part.split(":") for part in names.decode().split(",")]
    try:
        with host_calls.running:
            fetched = host_calls.find(int(handle)).fetch(int(step))
        return [*(fetched[name] for name, _ in parts), ""]
    except (TfrdsError, LookupError, OSError, MemoryError) as error:
        return [*(_EMPTY[dtype] for _, dtype in parts), str(error)]


_EMPTY = {
    "uint8": np.zeros(0, np.uint8),
    "int32": np.zeros(0, np.int32),
    "float32": np.zeros(0, np.float32),
    "string": np.zeros(0, object),
}


def _decode(parts: dict[str, tf.Tensor], spec: PipelineSpec) -> dict[str, tf.Tensor]:
    """Returns the parts with one image, uint8, or float32 where it was resized."""
    parts = dict(parts)
    image = spec.example(parts["images"], parts.pop("instructions"))
    return {**parts, "images": tf.ensure_shape(image, spec.example.output_shape)}


def _values(parts: dict[str, tf.Tensor], spec: PipelineSpec) -> Any:
    images = spec.batch_resize(parts["images"]) if spec.batch_resize else parts["images"]
    is_one_shape = spec.steps.batch_size is not None or images.shape.is_fully_defined()
    images, labels = spec.augmentation(
        images, parts["labels"], parts.get("parameters"), spec.values, is_one_shape=is_one_shape
    )
    if spec.supervised:
        return (images, labels, parts["sample_weight"]) if spec.weights else (images, labels)
    added = ("sample_weight", "key", "tfds_id")
    names = {name: parts[name] for name in added if name in parts}
    return {spec.image_key: images, spec.label_key: labels, **names}


def _options(spec: PipelineSpec) -> tf.data.Options:
    options = tf.data.Options()
    options.autotune.enabled = False
    if spec.steps.worker[1] > 1:
        # tf.distribute would share a share out again. Without `worker` it must: "off" there gives
        # every worker the same examples.
        policy = tf.data.experimental.AutoShardPolicy.OFF
        options.experimental_distribute.auto_shard_policy = policy
    return options.merge(spec.options) if spec.options else options
