"""One split expression of a prepared dataset as a `tf.data.Dataset`.

Gets the record of the build, the stretches of rows and the request, gives the dataset;
`image_builder.py` calls it for each leaf of what the user asked for.
"""

import dataclasses
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfrds.checks import check_int
from tfrds.disk.build_record import BuildRecord
from tfrds.errors import ConfigError
from tfrds.read.augmentation import Augmentation, parse_augmentation
from tfrds.read.example import ExampleStage
from tfrds.read.fetch import SplitReader
from tfrds.read.host import Details, PipelineSpec
from tfrds.read.order import Order
from tfrds.read.permutation import block_sizes
from tfrds.read.pipeline import make_dataset
from tfrds.read.selection import (
    SampleWeights,
    class_groups,
    parse_sample_weight,
    select_examples,
)
from tfrds.read.stages.resize import Resize
from tfrds.read.stages.stage import CropStage
from tfrds.read.stages.values import Values
from tfrds.read.statistics import dataset_statistics
from tfrds.read.steps import Steps
from tfrds.read.stream import check_stream, make_stream
from tfrds.read_options import ReadOptions
from tfrds.spec import background_values


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What the user wants of every split.

    Attributes:
      batch_size: examples a batch; None: single examples; -1: all, as tensors.
      supervised: (image, label), or (image, label, weight), instead of a dict.
      shuffle: a permutation.
      seed: of the permutation and of augmentation.
      reshuffle: another permutation each epoch.
      worker: (index, count): which share of the split is read.
      class_names: of the dataset.
      with_tfds_id: add the feature "tfds_id".
      prefetch: finish the next batch while the current one is used.
      decode_calls: parallel decodes; None: by the processors.
      assert_cardinality: of streams.
      tf_options: the user's `tf.data.Options`.
      options: our own read options.
    """

    batch_size: int | None
    supervised: bool
    shuffle: bool
    seed: int
    reshuffle: bool
    worker: tuple[int, int]
    class_names: Sequence[str]
    with_tfds_id: bool
    prefetch: bool
    decode_calls: int | None
    assert_cardinality: bool
    tf_options: Any
    options: ReadOptions


def read_split(
    record: BuildRecord, stretches: Sequence[tuple[str, int, int]], request: Request
) -> Any:
    """Returns the dataset, or its only batch as tensors where `batch_size` is -1.

    Args:
      record: of the build.
      stretches: (split, first row, count) in the order of the split expression.
      request: what to yield.

    Raises:
      ConfigError: images of several sizes cannot make a batch.
      DatasetError: a file is missing or damaged.
    """
    if request.options.engine == "stream":
        check_stream(request.options, shuffle=request.shuffle, with_tfds_id=request.with_tfds_id)
    splits = list(dict.fromkeys(split for split, _, _ in stretches))
    reader = open_reader(record, splits, request.options)
    ranges = [(reader.first_row(split) + first, count) for split, first, count in stretches]
    order = _order(record, reader, ranges, request)
    spec = make_spec(record, order, request, sum(count for _, count in ranges))
    is_whole = request.batch_size == -1
    if request.options.engine == "stream":
        dataset = make_stream(record, stretches, Details(reader, order, spec), spec)
    else:
        dataset = make_dataset(reader, order, spec)
    return dataset.get_single_element() if is_whole else dataset


def open_reader(record: BuildRecord, splits: Sequence[str], options: ReadOptions) -> SplitReader:
    """Returns the reader of some splits, as the options want it."""
    return SplitReader(
        record,
        splits,
        verify_records=options.verify_records,
        engine=None if options.engine == "stream" else options.engine,
        in_memory=options.cache == "memory" and options.engine != "stream",
    )


def _order(
    record: BuildRecord,
    reader: SplitReader,
    ranges: Sequence[tuple[int, int]],
    request: Request,
) -> Order:
    options = request.options
    subset = groups = None
    if options.select is not None or options.balance:
        everything = Order(ranges, seed=None)
        rows = everything.rows(0, np.arange(everything.num_examples))
        labels = reader.labels(rows)

        def keys() -> list[bytes]:
            reader.open_keys()
            return reader.keys(rows)

        if options.select is not None:
            subset = select_examples(options.select, labels, request.class_names, keys)
            labels = labels[subset]
        if options.balance:
            if not request.shuffle:
                raise ConfigError(
                    'balance: "classes" takes examples in a random order, got shuffle=False. Pass '
                    "shuffle=True."
                )
            members = class_groups(labels)
            quota = max(len(labels) // len(members), 1)
            groups = [(group, quota) for group in members]
    if options.shuffle == "blocks" and groups:
        raise ConfigError(
            'shuffle: "blocks" cannot be honoured together with balance="classes", which takes '
            "examples from everywhere. Pass shuffle=True."
        )
    return Order(
        ranges,
        seed=request.seed if request.shuffle else None,
        reshuffle=request.reshuffle,
        blocks=block_sizes(_mean_bytes(record)) if options.shuffle == "blocks" else None,
        subset=subset,
        groups=groups,
    )


def make_spec(
    record: BuildRecord, order: Order, request: Request, num_examples: int
) -> PipelineSpec:
    """Returns what the pipeline of a request yields.

    Args:
      record: of the build.
      order: of the examples.
      request: what to yield.
      num_examples: of the split expression, before any is chosen.
    """
    options = request.options
    is_raw = record.content["image"]["encoding"] == "raw"
    stored = stored_shape(record)
    steps = _steps(order.num_examples, request)
    augmentation = parse_augmentation(
        options.augment,
        seed=request.seed,
        channels=stored[2],
        label_mode=options.label_mode,
        batch_size=steps.batch_size,
    )
    crop = augmentation.crop
    resize = _resize_to_crop(record, options, crop) if crop else None
    resize = resize or choose_resize(record, options)
    # Where nothing is done for each image, whole batches of raw ones are resized at once.
    is_batch_resized = is_raw and crop is None
    spec = PipelineSpec(
        steps=steps,
        start=_checked_start(options, steps, record.name),
        example=ExampleStage(
            is_raw=is_raw,
            image_shape=stored,
            resize=None if is_batch_resized else resize,
            crop=crop,
            has_whole_bytes=options.engine == "stream",
        ),
        batch_resize=resize if is_batch_resized else None,
        augmentation=augmentation,
        values=choose_values(record, options),
        image_key=record.content["image"]["key"],
        label_key=record.content["label"]["key"],
        weights=_weights(request, augmentation, num_examples),
        with_key=options.with_key,
        with_tfds_id=request.with_tfds_id,
        supervised=request.supervised,
        prefetch=request.prefetch,
        decode_calls=request.decode_calls,
        is_cached=options.cache == "memory",
        assert_cardinality=request.assert_cardinality,
        device=options.device,
        options=request.tf_options,
    )
    if steps.batch_size and None in spec.output_shape:
        raise ConfigError(
            f"batch_size: the images of {record.name} have several sizes, so {steps.batch_size} of "
            "them make no batch. Pass image_size=(height, width), or build the dataset with it."
        )
    return spec


def _weights(
    request: Request, augmentation: Augmentation, num_examples: int
) -> SampleWeights | None:
    if request.options.sample_weight is None:
        return None
    for stage in augmentation.stages:
        if getattr(stage, "is_mixing", False):
            raise ConfigError(
                f"sample_weight: {type(stage).__name__} makes one example of two, which has no "
                "weight of its own. Leave one of them out."
            )
    return parse_sample_weight(request.options.sample_weight, num_examples, request.class_names)


def _steps(num_examples: int, request: Request) -> Steps:
    share = max(-(-num_examples // request.worker[1]), 1)
    batch_size = share if request.batch_size == -1 else request.batch_size
    if batch_size and not request.options.drop_remainder:
        # tf.data makes room for as many examples as it is told.
        batch_size = min(batch_size, share)
    return Steps(
        num_examples=num_examples,
        batch_size=batch_size,
        drop_remainder=request.options.drop_remainder,
        worker=request.worker,
    )


def _checked_start(options: ReadOptions, steps: Steps, name: str) -> tuple[int, int]:
    epoch, step = options.start
    if step > max(steps.num_steps - 1, 0):
        raise ConfigError(
            f"start: an epoch of {name} has {steps.num_steps:,} steps here, so the last one is "
            f"{max(steps.num_steps - 1, 0):,}, got (epoch, step) = {options.start}. Begin the "
            f"next epoch, ({epoch + 1}, 0), or check batch_size."
        )
    return epoch, step


def _mean_bytes(record: BuildRecord) -> float:
    """Returns bytes of a record, over all splits: the order must not depend on what is read."""
    shards = [shard for split in record.splits for shard in record.shards(split)]
    num_bytes = sum(size for _, size, _ in shards)
    return max(num_bytes / max(sum(records for _, _, records in shards), 1), 1.0)


def _is_resized_while_reading(record: BuildRecord) -> bool:
    is_raw = record.content["image"]["encoding"] == "raw"
    return not is_raw and record.content["options"]["image_size"] is not None


def stored_shape(record: BuildRecord) -> tuple[int | None, int | None, int]:
    """Returns (height, width, channels) of stored images, None where they vary."""
    declared = record.image_shape
    return (None, None, declared[2]) if _is_resized_while_reading(record) else declared


def choose_resize(record: BuildRecord, options: ReadOptions) -> Resize | None:
    """Returns how stored images reach the size that is asked for; None: they have it."""
    declared = record.image_shape[:2] if _is_resized_while_reading(record) else None
    image_size: Any = options.image_size or declared
    stored = stored_shape(record)
    if image_size is None or image_size == stored[:2]:
        return None
    built = record.content["options"]
    return Resize(
        image_size=image_size,
        resize=options.resize or built["resize"],
        background=background_values(built["background"], stored[2]),
        interpolation=options.interpolation,
    )


def _resize_to_crop(record: BuildRecord, options: ReadOptions, crop: CropStage) -> Resize | None:
    """Returns how boxes of several sizes become one; None: all have one size."""
    if not crop.is_resized:
        return None
    name = type(crop).__name__
    if options.resize not in (None, "stretch"):
        raise ConfigError(
            f"resize: {name} stretches its boxes, got resize={options.resize!r}. Leave it out."
        )
    if crop.image_size and options.image_size not in (None, crop.image_size):
        raise ConfigError(
            f"image_size: got {options.image_size}, and {name} with image_size={crop.image_size}. "
            "Pass one of them."
        )
    image_size: Any = crop.image_size or options.image_size or record.image_shape[:2]
    if None in image_size:
        raise ConfigError(
            f"augment: {name} needs one size to resize to, and the images of {record.name} have "
            "several. Pass image_size=(height, width)."
        )
    return Resize(image_size=image_size, interpolation=options.interpolation)


def choose_values(record: BuildRecord, options: ReadOptions) -> Values:
    """Returns what the model takes: pixels and labels."""
    num_classes = record.content["label"]["num_classes"]
    if options.label_mode == "binary" and num_classes != 2:
        raise ConfigError(
            f"label_mode: 'binary' is for two classes, {record.name} has {num_classes}. Pass "
            'label_mode="int" or "one_hot".'
        )
    center, scale = _affine(record, options)
    return Values(
        num_classes=num_classes,
        dtype=options.dtype,
        center=center,
        scale=scale,
        label_mode=options.label_mode,
        label_smoothing=options.label_smoothing,
    )


def _affine(
    record: BuildRecord, options: ReadOptions
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns (center, scale): a pixel of 0..255 becomes (pixel - center) * scale."""
    low, high = options.value_range
    step = (high - low) / 255
    if options.normalize is None:
        return (-low / step + 0.0,), (step,)
    if options.normalize == "dataset":
        measured = dataset_statistics(record)
        return measured.mean, tuple(1 / (std or 1.0) for std in measured.std)
    mean, std = options.normalize
    channels = record.image_shape[2]
    for name, numbers in (("mean", mean), ("std", std)):
        if len(numbers) not in (1, channels):
            raise ConfigError(
                f"normalize: expected one {name} or {channels}, one for each channel of "
                f"{record.name}, got {len(numbers)}: {list(numbers)}."
            )
    return tuple((value - low) / step for value in mean), tuple(step / value for value in std)


def choose_seed(seed: int | None, shuffle_seed: int | None) -> int:
    """Returns the seed of the permutation; a new one where none is given.

    Args:
      seed: our read option.
      shuffle_seed: TFDS's, of `read_config`.

    Raises:
      ConfigError: out of range, or both are given and differ.
    """
    if shuffle_seed is not None:
        check_int("read_config.shuffle_seed", shuffle_seed, 0, 2**63 - 1)
    given = [one for one in (seed, shuffle_seed) if one is not None]
    if len(set(given)) > 1:
        raise ConfigError(
            f"seed: got {seed}, and read_config.shuffle_seed={shuffle_seed}. Pass one of them."
        )
    return int(given[0]) if given else secrets.randbits(63)


def choose_worker(worker: tuple[int, int] | None, input_context: Any) -> tuple[int, int]:
    """Returns (index, count) of the share that is read; (0, 1), all, where none is given.

    Args:
      worker: our read option.
      input_context: TFDS's, of `read_config`: a `tf.distribute.InputContext`.

    Raises:
      ConfigError: both are given and differ.
    """
    if input_context is None:
        return worker or (0, 1)
    index, count = input_context.input_pipeline_id, input_context.num_input_pipelines
    if worker not in (None, (index, count)):
        raise ConfigError(
            f"worker: got {worker}, and read_config.input_context of ({index}, {count}). Pass one "
            "of them."
        )
    return int(index), int(count)
