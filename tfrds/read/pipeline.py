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
from tfrds.read.fetch import SplitReader
from tfrds.read.order import EpochState, Order
from tfrds.read.stages.decode import decode_encoded, decode_smaller
from tfrds.read.stages.resize import Resize
from tfrds.read.stages.values import Values

# Two fetches hide each other's waits; more only compete for memory bandwidth, and hold a batch
# each.
_FETCH_CALLS = 2

# Decodes a processor: 2 keep it busy while others wait for the batch; 4 gained nothing.
_DECODES_PER_CPU = 2

# One finished batch waits for the model; a second one costs its memory and gained nothing.
_PREFETCHED = 1

# Without a batch size, examples are still fetched together: a call from the graph costs as much as
# 50 small images.
_UNBATCHED = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelineSpec:
    """What a pipeline yields.

    Attributes:
      batch_size: examples a batch; None: single examples.
      drop_remainder: leave out an epoch's last batch where it is smaller.
      image_shape: (height, width, channels) as stored, height and width None where they vary.
      resize: to one size; None: images are taken as they are.
      values: of pixels and labels.
      image_key, label_key: names of the features.
      with_key: add the feature "key".
      with_tfds_id: add the feature "tfds_id".
      supervised: yield (image, label) instead of a dict.
      prefetch: finish the next batch while the current one is used.
      decode_calls: parallel decodes; None: by the processors this process may use.
      options: the user's own, applied last.
    """

    batch_size: int | None
    drop_remainder: bool = False
    image_shape: tuple[int | None, int | None, int]
    resize: Resize | None
    values: Values
    image_key: str
    label_key: str
    with_key: bool = False
    with_tfds_id: bool = False
    supervised: bool = False
    prefetch: bool = True
    decode_calls: int | None = None
    options: Any = None


class Pipeline:
    """The Python part of one dataset: what its graph calls, found again by its handle.

    Attributes:
      epochs: sets and takes the epoch of the next iterator.
    """

    def __init__(self, reader: SplitReader, order: Order, spec: PipelineSpec) -> None:
        self.epochs = EpochState()
        self._reader = reader
        self._order = order
        self._spec = spec
        batch_size = spec.batch_size or _UNBATCHED
        # A batch never holds more than the split: tf.data makes room for as many as it is told.
        self.batch_size = min(batch_size, max(order.num_examples, 1))
        if spec.drop_remainder and spec.batch_size:
            self.num_examples = order.num_examples // batch_size * batch_size
        else:
            self.num_examples = order.num_examples
        self.num_steps = -(-self.num_examples // self.batch_size)
        self.has_full_batches = self.num_examples % self.batch_size == 0
        self.image_shape = spec.image_shape
        if spec.with_key:
            reader.open_keys()

    @property
    def kinds(self) -> list[str]:
        """The types of what `fetch` returns."""
        names = self._spec.with_key + self._spec.with_tfds_id
        images = ["uint8"] if self._reader.is_raw else ["string", "int32"]
        return [*images, "int32", *["string"] * names]

    @property
    def declared_batch(self) -> int | None:
        """The examples of each fetch as the graph is told.

        Where the fetches are taken apart again, the last one may be smaller without harm, and their
        number is only known if all have the same shape.
        """
        is_taken_apart = not self._reader.is_raw or self._spec.batch_size is None
        return self.batch_size if is_taken_apart or self.has_full_batches else None

    def draw(self) -> NDArray[np.int64]:
        """Returns the steps left of the next epoch, counted through all epochs."""
        epoch, first_step = self.epochs.take()
        return np.arange(epoch * self.num_steps + first_step, (epoch + 1) * self.num_steps)

    def fetch(self, global_step: int) -> list[Any]:
        """Returns the parts of one step, by `kinds`.

        The images; for encoded ones how much smaller each may be decoded; the labels; the names
        that were asked for.
        """
        epoch, step = divmod(global_step, self.num_steps)
        start = step * self.batch_size
        rows = self._order.rows(epoch, start, min(start + self.batch_size, self.num_examples))
        batch = self._reader.fetch(rows)
        if isinstance(batch.images, list):
            resize = self._spec.resize
            ratios = (
                resize.decode_ratios(batch.heights, batch.widths, batch.is_jpeg) if resize else 1
            )
            fetched = [_strings(batch.images), np.full(len(rows), ratios, np.int32), batch.labels]
        else:
            fetched = [batch.images, batch.labels]
        if self._spec.with_key:
            fetched.append(_strings(self._reader.keys(rows)))
        if self._spec.with_tfds_id:
            fetched.append(_strings(self._reader.tfds_ids(rows)))
        return fetched


def _strings(values: list[bytes]) -> NDArray[Any]:
    # numpy's own byte strings would lose zeros at the end of a file.
    strings = np.empty(len(values), object)
    strings[:] = values
    return strings


def make_dataset(reader: SplitReader, order: Order, spec: PipelineSpec) -> tf.data.Dataset:
    """Returns the dataset of one split expression.

    Element: dict of `image_key` float32 [batch, height, width, channels], 0..255, and `label_key`
    float32 [batch, num_classes], one-hot; with "key" and "tfds_id" string [batch] where asked for;
    without the batch dimension where `batch_size` is None; (image, label) where supervised. Its
    cardinality is known.

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
    dataset = root.map(_as_written(lambda _: _draw(handle, pipeline))).unbatch()
    add_images = _add_raw if reader.is_raw else _add_encoded
    dataset = add_images(dataset, handle, pipeline, spec)
    if not spec.batch_size:
        # The last fetch may be smaller than its shape says: `take` makes the number of examples
        # right again.
        dataset = dataset.take(pipeline.num_examples)
    if spec.prefetch:
        dataset = dataset.prefetch(_PREFETCHED if spec.batch_size else _UNBATCHED)
    if not pipeline.num_steps:
        # `unbatch` takes a dimension of 0 for an unknown one.
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(0))
    # Options come last: some datasets lose those that were set before them.
    return dataset.with_options(_options(spec.options))


def _add_raw(
    steps: tf.data.Dataset, handle: np.int64, pipeline: Pipeline, spec: PipelineSpec
) -> tf.data.Dataset:
    """Fetches whole batches of pixels, and makes their values in the same call."""
    # Pixels are uint8 until the batch exists: a quarter of the bytes to copy. One map for both: a
    # second one takes 6% of the speed at 28 x 28.
    fetch = _as_written(lambda step: _values(_fetch(handle, step, pipeline), spec))
    dataset = steps.map(fetch, num_parallel_calls=_FETCH_CALLS)
    return dataset if spec.batch_size else dataset.unbatch()


def _add_encoded(
    steps: tf.data.Dataset, handle: np.int64, pipeline: Pipeline, spec: PipelineSpec
) -> tf.data.Dataset:
    """Fetches whole batches of JPEG and PNG, decodes them one by one, and batches them again."""
    fetch = _as_written(lambda step: _fetch(handle, step, pipeline))
    decode = _as_written(lambda data, ratio, *rest: (_decode(data, ratio, spec), *rest))
    values = _as_written(lambda *parts: _values(parts, spec))
    dataset = steps.map(fetch, num_parallel_calls=_FETCH_CALLS).unbatch()
    # Decoding is where the time goes.
    calls = spec.decode_calls or available_cpus() * _DECODES_PER_CPU
    dataset = dataset.map(decode, num_parallel_calls=calls)
    if not spec.batch_size:
        return dataset.map(values)
    dataset = dataset.batch(pipeline.batch_size, drop_remainder=pipeline.has_full_batches)
    return dataset.map(values, num_parallel_calls=_FETCH_CALLS)


def _as_written(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps AutoGraph from a graph function.

    It finds nothing to convert in ours, and where it fails to read their source it keeps them, and
    all that they hold, for good.
    """
    return tf.autograph.experimental.do_not_convert(function)  # type: ignore[no-any-return]


def _draw(handle: np.int64, pipeline: Pipeline) -> tf.Tensor:
    steps = tf.numpy_function(_draw_here, [handle], tf.int64)
    # tf.data does not check this shape, and must not: an epoch that starts in its middle has fewer
    # steps left.
    steps.set_shape([pipeline.num_steps])
    return steps


def _fetch(handle: np.int64, step: tf.Tensor, pipeline: Pipeline) -> tuple[tf.Tensor, ...]:
    kinds = pipeline.kinds
    *parts, fault = tf.numpy_function(
        _fetch_here, [handle, step, ",".join(kinds)], [*_types(kinds), tf.string]
    )
    with tf.control_dependencies([tf.debugging.Assert(tf.equal(fault, ""), [fault])]):
        parts = [tf.identity(part) for part in parts]
    for part, kind in zip(parts, kinds, strict=True):
        part.set_shape(
            [pipeline.declared_batch, *(pipeline.image_shape if kind == "uint8" else ())]
        )
    return tuple(parts)


def _draw_here(handle: NDArray[np.int64]) -> NDArray[np.int64]:
    with host_calls.running:
        steps: NDArray[np.int64] = host_calls.find(int(handle)).draw()
        return steps


def _fetch_here(handle: NDArray[np.int64], step: NDArray[np.int64], kinds: bytes) -> list[Any]:
    """Returns the parts and an empty string; after an error empty parts and its text.

    As an exception the text would lose its class and gain a traceback of thirty lines.
    """
    try:
        with host_calls.running:
            return [*host_calls.find(int(handle)).fetch(int(step)), ""]
    except (TfrdsError, LookupError, OSError, MemoryError) as error:
        return [*(_EMPTY[kind] for kind in kinds.decode().split(",")), str(error)]


_EMPTY = {
    "uint8": np.zeros((0, 0, 0, 0), np.uint8),
    "int32": np.zeros(0, np.int32),
    "string": np.zeros(0, object),
}


def _types(kinds: list[str]) -> list[tf.DType]:
    return [tf.dtypes.as_dtype(kind) for kind in kinds]


def _decode(data: tf.Tensor, ratio: tf.Tensor, spec: PipelineSpec) -> tf.Tensor:
    """Returns one image, uint8, or float32 where it was resized."""
    channels = spec.image_shape[2]
    if spec.resize is None:
        return tf.ensure_shape(decode_encoded(data, channels), spec.image_shape)
    if not spec.resize.may_decode_smaller:
        return spec.resize(decode_encoded(data, channels))
    return spec.resize(decode_smaller(data, channels, ratio))


def _values(parts: tuple[tf.Tensor, ...], spec: PipelineSpec) -> Any:
    images, labels, *names = parts
    if spec.resize and images.dtype == tf.uint8:
        images = spec.resize(images)  # raw; others were resized as they were decoded
    is_one_shape = spec.batch_size is not None or images.shape.is_fully_defined()
    return _named((*spec.values(images, labels, is_one_shape=is_one_shape), *names), spec)


def _named(parts: tuple[tf.Tensor, ...], spec: PipelineSpec) -> Any:
    if spec.supervised:
        return parts[0], parts[1]
    names = [spec.image_key, spec.label_key, *(["key"] if spec.with_key else [])]
    names += ["tfds_id"] if spec.with_tfds_id else []
    return dict(zip(names, parts, strict=True))


def _options(given: tf.data.Options | None) -> tf.data.Options:
    options = tf.data.Options()
    options.autotune.enabled = False
    return options.merge(given) if given else options
