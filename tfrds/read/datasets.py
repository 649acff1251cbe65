"""One split expression of a prepared dataset as a `tf.data.Dataset`.

Gets the record of the build, the stretches of rows and the request, gives the dataset;
`image_builder.py` calls it for each leaf of what the user asked for.
"""

from collections.abc import Sequence
from typing import Any

from tfrds.disk.build_record import BuildRecord
from tfrds.disk.columns import WEIGHT_KEY, ColumnSpec
from tfrds.errors import ConfigError
from tfrds.read import resolve
from tfrds.read.augmentation import Augmentation, parse_augmentation
from tfrds.read.example import ExampleStage
from tfrds.read.host import Details, PipelineSpec
from tfrds.read.order import Order
from tfrds.read.pipeline import make_dataset
from tfrds.read.request import Request, checked_start, make_order, make_steps, open_reader
from tfrds.read.selection import (
    SampleWeights,
    parse_sample_weight,
)
from tfrds.read.stages.crop import CenterCrop
from tfrds.read.stages.resize import Resize
from tfrds.read.stages.stage import CropStage
from tfrds.read.stages.values import Values
from tfrds.read.stream import check_stored_in_order, check_stream, make_stream
from tfrds.read_options import ReadOptions


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
        check_stored_in_order(record)
    splits = list(dict.fromkeys(split for split, _, _ in stretches))
    reader = open_reader(record, splits, request.options)
    ranges = [(reader.first_row(split) + first, count) for split, first, count in stretches]
    order = make_order(record, reader, ranges, request)
    spec = make_spec(record, order, request, sum(count for _, count in ranges))
    is_whole = request.batch_size == -1
    if request.options.engine == "stream":
        dataset = make_stream(record, stretches, Details(reader, order, spec), spec)
    else:
        dataset = make_dataset(reader, order, spec)
    return dataset.get_single_element() if is_whole else dataset


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
    stored = resolve.stored_shape(record)
    steps = make_steps(order.num_examples, request)
    augmentation = parse_augmentation(
        options.augment,
        seed=request.seed,
        channels=stored[2],
        label_mode=resolve.choose_label_mode(record, options),
        batch_size=steps.batch_size,
    )
    crop = augmentation.crop
    resize = _resize_to_crop(record, options, crop) if crop else None
    if crop:
        _check_that_it_cuts(record, options, crop)
    resize = resize or choose_resize(record, options)
    # Where nothing is done for each image, whole batches of raw ones are resized at once.
    is_batch_resized = is_raw and crop is None
    spec = PipelineSpec(
        steps=steps,
        start=checked_start(options, steps, record.name),
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
        image_key=record.image_key,
        label_key=record.label_key,
        label_offset=(record.adopted or {}).get("label_offset", 0),
        weights=_weights(record, request, augmentation, num_examples),
        columns=_columns(record, request),
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


def _check_that_it_cuts(record: BuildRecord, options: ReadOptions, crop: CropStage) -> None:
    """Raises ConfigError for a centred crop of what the declared size made just as large."""
    size = record.image_shape[:2]
    is_resized_first = resolve.is_resized_while_reading(record) and options.image_size is None
    if is_resized_first and isinstance(crop, CenterCrop) and crop.image_size == size:
        raise ConfigError(
            f"augment: CenterCrop({size}) cuts nothing off, as images of {record.name} are resized "
            'to that size first. Pass a larger image_size, or resize="crop" and no CenterCrop.'
        )


def _weights(
    record: BuildRecord, request: Request, augmentation: Augmentation, num_examples: int
) -> SampleWeights | None:
    given = request.options.sample_weight
    has_own = request.supervised and any(spec.name == WEIGHT_KEY for spec in record.columns)
    if given is None and not has_own:
        return None
    if request.supervised and resolve.choose_label_mode(record, request.options) == "none":
        if given is not None:
            raise ConfigError(
                "sample_weight: without labels as_supervised yields the images alone, and no "
                "weights. Leave one of them out."
            )
        return None
    for stage in augmentation.stages:
        if getattr(stage, "is_mixing", False):
            raise ConfigError(
                f"sample_weight: {type(stage).__name__} makes one example of two, which has no "
                "weight of its own. Leave one of them out."
            )
    if given is None:
        return None  # the dataset's, a column
    return parse_sample_weight(given, num_examples, request.class_names)


def _columns(record: BuildRecord, request: Request) -> tuple[ColumnSpec, ...]:
    """Returns the columns that are yielded beside image and label; of pairs only the weights."""
    is_weighted = request.options.sample_weight is not None
    return tuple(
        spec
        for spec in record.columns
        if spec.name != record.label_key
        and not (is_weighted and spec.name == WEIGHT_KEY)
        and (spec.name == WEIGHT_KEY or not request.supervised)
    )


def choose_resize(record: BuildRecord, options: ReadOptions) -> Resize | None:
    """Returns the stage that gives stored images the size that is asked for; None: they have it."""
    spec = resolve.choose_resize(record, options)
    return Resize(**vars(spec)) if spec else None


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
    """Returns the stage that gives what the model takes: pixels and labels."""
    return Values(**vars(resolve.choose_values(record, options)))
