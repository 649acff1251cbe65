"""The dataset: order -> fetch -> decode -> batch -> values -> prefetch.

Gets a reader of records, an order and what the user wants, gives a `tf.data.Dataset`;
`datasets.py` calls it for each split. The parallelism is explicit: tf.data's autotuning makes
destroying an iterator wait for its tuner, for seconds an epoch, and Keras makes iterators all the
time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfrds.cpus import available_cpus
from tfrds.disk.columns import WEIGHT_KEY
from tfrds.errors import TfrdsError
from tfrds.read import host_calls
from tfrds.read.fetch import SplitReader
from tfrds.read.host import Pipeline, PipelineSpec, column_part
from tfrds.read.mixed import MixedReader
from tfrds.read.order import Order
from tfrds.read.steps import FETCHED_TOGETHER, Steps

# Batches whose values are made at the same time.
_BATCH_CALLS = 2

# Decodes a processor: 2 keep it busy while others wait for the batch; 4 gained nothing.
_DECODES_PER_CPU = 2

# One finished batch waits for the model; a second one costs its memory and gained nothing.
_PREFETCHED = 1


def make_dataset(
    reader: SplitReader | MixedReader, order: Order, spec: PipelineSpec
) -> tf.data.Dataset:
    """Returns the dataset of one split expression.

    Element: dict of `image_key` float32 [batch, height, width, channels], 0..255, and `label_key`
    float32 [batch, num_classes], one-hot, or as `label_mode` has it; the dataset's columns;
    "sample_weight" float32 [batch], "key" and "tfds_id" string [batch] where asked for; without the
    batch dimension where there is no batch size; (image, label) or (image, label, weight) where
    supervised, or the images alone where there are no labels. Its cardinality is known.

    While iterating, an error surfaces as `tf.errors.InvalidArgumentError` whose text holds ours.
    """
    pipeline = Pipeline(reader, order, spec)
    root, handle = new_root(pipeline)
    steps = draw_steps(root, handle, spec.steps)
    if spec.example.is_fetched_whole:
        # Pixels are uint8 until the batch exists: a quarter of the bytes to copy. One map for both:
        # a second one takes 6% of the speed at 28 x 28.
        values = as_written(lambda step: make_values(fetch_parts(handle, step, pipeline), spec))
        dataset = steps.map(values, num_parallel_calls=pipeline.fetch_calls)
        dataset = dataset if spec.steps.batch_size else dataset.unbatch()
    else:
        fetch = as_written(lambda step: fetch_parts(handle, step, pipeline))
        dataset = batch_examples(steps.map(fetch, num_parallel_calls=pipeline.fetch_calls), spec)
    return end(dataset, spec)


def new_root(pipeline: Pipeline) -> tuple[tf.data.Dataset, np.int64]:
    """Returns a dataset that keeps `pipeline` alive, and the handle that graphs call it by.

    It has one element, so that `draw_steps` draws once an iterator, when its first element is asked
    for.
    """
    handle = np.int64(host_calls.register(pipeline))
    root = tf.data.Dataset.from_tensors(handle)
    if not tf.inside_function():
        host_calls.bind(root, int(handle))
    return root, handle


def draw_steps(root: tf.data.Dataset, handle: np.int64, steps: Steps) -> tf.data.Dataset:
    """Returns the fetches of the next epoch, int64 [], with known cardinality."""
    # The steps of an epoch become elements by `unbatch`, which knows their number from the shape.
    return root.map(as_written(lambda _: _draw(handle, steps))).unbatch()


def batch_examples(batches: tf.data.Dataset, spec: PipelineSpec) -> tf.data.Dataset:
    """Takes batches of encoded images apart, decodes them one by one, and batches them again."""
    decode = as_written(lambda parts: _decode(parts, spec))
    values = as_written(lambda parts: make_values(parts, spec))
    # Decoding is where the time goes.
    calls = spec.decode_calls or available_cpus() * _DECODES_PER_CPU
    dataset = batches.unbatch().map(decode, num_parallel_calls=calls)
    if not spec.steps.batch_size:
        return dataset.map(values)
    dataset = dataset.batch(spec.steps.batch_size, drop_remainder=spec.steps.has_full_batches)
    return dataset.map(values, num_parallel_calls=_BATCH_CALLS)


def end(dataset: tf.data.Dataset, spec: PipelineSpec) -> tf.data.Dataset:
    """Returns the dataset with its cardinality, prefetched, and with its options."""
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


def as_written(function: Callable[..., Any]) -> Callable[..., Any]:
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


def fetch_parts(handle: np.int64, step: tf.Tensor, pipeline: Pipeline) -> dict[str, tf.Tensor]:
    """Returns the parts of one fetch, see `Pipeline.parts`, each for a batch of examples."""
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
        empty = (np.zeros(0, object if dtype == "string" else dtype) for _, dtype in parts)
        return [*empty, str(error)]


def _decode(parts: dict[str, tf.Tensor], spec: PipelineSpec) -> dict[str, tf.Tensor]:
    """Returns the parts with one image, uint8, or float32 where it was resized."""
    parts = dict(parts)
    image = spec.example(parts["images"], parts.pop("instructions"))
    return {**parts, "images": tf.ensure_shape(image, spec.example.output_shape)}


def make_values(parts: dict[str, tf.Tensor], spec: PipelineSpec) -> Any:
    """Returns what the model takes of a batch, or of one example."""
    is_batch = spec.example.is_fetched_whole
    declared = parts["images"].shape[0] if is_batch and spec.steps.batch_size is None else None
    if declared is None or not spec.augmentation.has_foreign:
        return _values_of(parts, spec)
    # The last fetch may be smaller than is declared, and others' code believes what it is told.
    sizes = {name: (None, *part.shape[1:]) for name, part in parts.items()}
    parts = {
        name: tf.raw_ops.PlaceholderWithDefault(input=part, shape=sizes[name])
        for name, part in parts.items()
    }
    values = _values_of(parts, spec)
    for value in tf.nest.flatten(values):
        value.set_shape((declared, *value.shape[1:]))
    return values


def _values_of(parts: dict[str, tf.Tensor], spec: PipelineSpec) -> Any:
    images = spec.batch_resize(parts["images"]) if spec.batch_resize else parts["images"]
    is_one_shape = spec.steps.batch_size is not None or images.shape.is_fully_defined()
    images, labels = spec.augmentation(
        images, parts.get("labels"), parts.get("parameters"), spec.values, is_one_shape=is_one_shape
    )
    added = (WEIGHT_KEY, "key", "tfds_id")
    others = {
        **{column.name: parts[column_part(column)] for column in spec.columns},
        **{name: parts[name] for name in added if name in parts},
    }
    if spec.supervised:
        if labels is None:
            return images
        weights = (others[WEIGHT_KEY],) if WEIGHT_KEY in others else ()
        return (images, labels, *weights)
    label = {} if labels is None else {spec.label_key: labels}
    return {spec.image_key: images, **label, **others}


def _options(spec: PipelineSpec) -> tf.data.Options:
    options = tf.data.Options()
    options.autotune.enabled = False
    if spec.steps.worker[1] > 1:
        # tf.distribute would share a share out again. Without `worker` it must: "off" there gives
        # every worker the same examples.
        policy = tf.data.experimental.AutoShardPolicy.OFF
        options.experimental_distribute.auto_shard_policy = policy
    return options.merge(spec.options) if spec.options else options
