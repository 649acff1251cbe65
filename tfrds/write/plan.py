"""All examples in their fixed order, cut into shards; columns, never one object an example.

Gets a source and the options, gives a `Plan`; `write/dataset.py` carries it out. Everything here
follows from the keys, labels and sizes alone: the same plan on any machine, for any number of
workers.
"""

import dataclasses
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_int
from tfrds.disk.columns import Column
from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError, EncodeError, SourceError
from tfrds.spec import CLASS_KINDS, MAX_AUTO_RAW_SIDE, BuildOptions, ImageSpec
from tfrds.write.check import read_size
from tfrds.write.classes import describe_order
from tfrds.write.given_columns import LABEL_KEY, check_columns
from tfrds.write.key_hash import ORDER_HASH, hash_keys, sort_by_hash
from tfrds.write.labels import Labels, choose_labels
from tfrds.write.sources.base import Inputs, References, Source, with_label_kind
from tfrds.write.splits import ChosenSplits, choose_splits

_SHARD_BYTES = 256 * 2**20
_MIN_SHARD_EXAMPLES = 512  # below this a shard is not worth a file ...
_PARALLEL_SHARDS = 16  # ... but this many shards let workers and readers share even small splits
MAX_SHARDS = 99_999

# JPEG at quality 95 takes about this many bytes a pixel; photographs are mostly 4:3.
_JPEG_BYTES_PER_PIXEL = 0.3
_PHOTO_ASPECT = 4 / 3

_log = logging.getLogger("tfrds")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitPlan:
    """One split.

    Attributes:
      rows: int64 [n], the source's rows in the order of the records.
      num_shards: shards, cut by count.
      estimated_bytes: of all its shards, before encoding.
    """

    rows: NDArray[np.int64]
    num_shards: int
    estimated_bytes: int

    def edges(self) -> list[int]:
        """Returns where each shard starts, and the end.

        Source: TFDS cuts at round(n * i / k) too.
        """
        return [round(len(self.rows) * i / self.num_shards) for i in range(self.num_shards + 1)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What a build will write.

    Attributes:
      source: resolves rows to images.
      options: as given.
      image: how each image is stored.
      labels: of all examples, by the source's rows.
      keys: likewise.
      columns: values beside the images and their labels, likewise, in the order of their names.
      stamps: uint64, likewise; see `References`.
      splits: by name, in TFDS's order of names.
      left_out: files that are no images, by kind.
      notes: what was decided on the way, for the user to read.
    """

    source: Source
    options: BuildOptions
    image: ImageSpec
    labels: Labels
    keys: Keys
    columns: tuple[Column, ...]
    stamps: NDArray[np.uint64]
    splits: dict[str, SplitPlan]
    left_out: Counter[str]
    notes: tuple[str, ...]

    @property
    def class_names(self) -> tuple[str, ...]:
        """In the order of their numbers; none where labels are no classes."""
        return self.labels.class_names

    @property
    def features(self) -> tuple[Column, ...]:
        """All that a record holds beside its image: the label and the columns."""
        label = self.labels.column
        return (*(() if label is None else (label,)), *self.columns)

    @property
    def stored_columns(self) -> tuple[Column, ...]:
        """Those of `features` that get files of their own: the index holds class numbers."""
        return tuple(
            column
            for column in self.features
            if column is not self.labels.column or self.labels.kind not in CLASS_KINDS
        )

    @property
    def num_examples(self) -> int:
        """Of all splits."""
        return sum(len(split.rows) for split in self.splits.values())

    def class_counts(self, split: str) -> list[int]:
        """Returns how many examples of each class `split` has, by class number."""
        return self.labels.take(self.splits[split].rows).class_counts()


def make_plan(
    source: Source,
    options: BuildOptions,
    *,
    limit: int | None = None,
    known_classes: Sequence[str] = (),
) -> Plan:
    """Scans `source` and decides everything about the dataset but the encoded bytes.

    Args:
      source: of labelled images.
      options: of the build.
      limit: keep at most this many examples of each split: the first in record order, so a random
        sample.
      known_classes: of an earlier version, which keep their numbers.

    Raises:
      SourceError: no images, unusable labels or class names, equal keys, an empty split.
      ConfigError: options that do not fit each other or the source.
    """
    if limit is not None:
        check_int("limit", limit, 1)
    source = with_label_kind(source, options.label_kind)
    references = source.scan()
    if not len(references.keys):
        raise SourceError("source: expected at least one labelled image, found none.")
    labels = choose_labels(references, options, LABEL_KEY, known_classes)
    columns = check_columns(references)
    order = _order(references.keys)
    image = _image_spec(source, references, options, order)
    chosen = choose_splits(references, *labels.strata, options)
    sizes = _estimated_sizes(references, options, image)
    splits = {}
    for name, rows in sorted(_rows_by_split(chosen, order).items()):
        rows = rows[:limit]
        estimated = int(sizes[rows].sum())
        splits[name] = SplitPlan(
            rows=rows,
            num_shards=_num_shards(len(rows), estimated, options.num_shards),
            estimated_bytes=estimated,
        )
    for note in references.notes:
        _log.info(note)
    # Of classes that are numbers nobody expects another order.
    shown = () if references.has_numbered_classes else describe_order(labels.class_names)
    warnings = (*shown, *chosen.notes)
    for note in warnings:
        _log.warning(note)
    return Plan(
        source=source,
        options=options,
        image=image,
        labels=labels,
        keys=references.keys,
        columns=columns,
        stamps=references.stamps,
        splits=splits,
        left_out=references.left_out,
        notes=(*references.notes, *warnings),
    )


def _order(keys: Keys) -> NDArray[np.int64]:
    """Returns the rows sorted by the 128-bit hash of their keys.

    Raises:
      SourceError: two keys are equal.
    """
    hashes = hash_keys(keys, ORDER_HASH)
    order = sort_by_hash(hashes)
    ordered = hashes[order]
    equal = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
    if len(equal):
        key = keys[int(order[equal[0]])].decode()
        groups = 1 + int((np.diff(equal) > 1).sum())
        raise SourceError(
            f"{key}: more than one image has this key after Unicode normalisation (NFC); images "
            f"that share a key in all: {len(equal) + groups:,}. Rename all but one of each."
        )
    return order


def _rows_by_split(chosen: ChosenSplits, order: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Returns the rows of each split, in record order."""
    numbers = chosen.numbers[order]
    # One sort, whatever the number of folds.
    rows = order[np.argsort(numbers, kind="stable")]
    ends = np.cumsum(np.bincount(numbers, minlength=len(chosen.names)))
    return dict(zip(chosen.names, np.split(rows, ends[:-1]), strict=True))


def _image_spec(
    source: Source, references: References, options: BuildOptions, order: NDArray[np.int64]
) -> ImageSpec:
    shape = references.shape
    channels = options.channels or (shape[2] if shape else 3)
    size = options.image_size or _size(references)
    encoding: Any = options.encoding
    if encoding == "auto":
        encoding = "raw" if size and max(size) <= MAX_AUTO_RAW_SIDE else "original"
    if encoding != "raw" and channels not in (1, 3):
        raise ConfigError(
            f"channels: JPEG and PNG hold 1 or 3, got {channels}. "
            f'Pass channels=3 to convert them, or encoding="raw" to keep {channels}.'
        )
    if shape is None and channels not in (1, 3):
        raise ConfigError(f"channels: images from files have 1 or 3, got {channels}.")
    raw_of_own_size = encoding == "raw" and options.image_size is None
    return ImageSpec(
        encoding=encoding,
        channels=channels,
        image_size=options.image_size if encoding == "raw" else None,
        shape_from=(size or _first_size(source, options, order)) if raw_of_own_size else None,
        resize=options.resize,
        background=options.background,
        store_size=options.store_size,
        jpeg_quality=options.jpeg_quality,
        check=options.check,
        exif_transpose=options.exif_transpose,
        max_pixels=options.max_pixels,
    )


def _size(references: References) -> tuple[int, int] | None:
    """Returns (height, width) of all images, where the source knows that they are the same."""
    height, width, _ = references.shape or (None, None, None)
    return None if height is None or width is None else (height, width)


def _first_size(source: Source, options: BuildOptions, order: NDArray[np.int64]) -> tuple[int, int]:
    """Returns (height, width) of the first record's image, of those that can be read.

    Raw images without `image_size` must all have it.
    """
    # A build that skips images would stop after so many, too.
    may_fail = int(options.max_bad * len(order)) if options.on_error == "skip" else 0
    errors: list[EncodeError | SourceError] = []
    for start in range(may_fail + 1):
        try:
            return _size_of(source.inputs(order[start : start + 1]), options)
        except (EncodeError, SourceError) as error:
            errors.append(error)
    raise errors[0]


def _size_of(inputs: Inputs, options: BuildOptions) -> tuple[int, int]:
    """Returns (height, width) of the first of the inputs."""
    try:
        image = inputs.read(0)
        if isinstance(image, np.ndarray) and image.ndim in (2, 3):
            return image.shape[0], image.shape[1]
        if not isinstance(image, bytes):
            raise EncodeError(
                "expected the bytes of a file, or an array [height, width] or [height, width, "
                f"channels], got {getattr(image, 'shape', type(image).__name__)}.",
                "wrong array",
            )
        return read_size(
            image, exif_transpose=options.exif_transpose, max_pixels=options.max_pixels
        )
    except OSError as error:
        raise SourceError(
            f"{inputs.name(0)}: cannot be read: {error.strerror or error}."
        ) from error
    except EncodeError as error:
        raise EncodeError(f"{inputs.name(0)}: {error}", error.reason) from error


def _estimated_sizes(
    references: References, options: BuildOptions, image: ImageSpec
) -> NDArray[np.int64]:
    """Returns int64 [n], the bytes each image will about take.

    From the plan alone, so the same on every machine.
    """
    count = len(references.sizes)
    size = image.image_size or image.shape_from
    if image.encoding == "raw" and size:
        return np.full(count, size[0] * size[1] * image.channels, np.int64)
    if image.encoding == "jpeg":
        if options.store_size:
            pixels = options.store_size**2 * _PHOTO_ASPECT
            return np.full(count, round(pixels * _JPEG_BYTES_PER_PIXEL), np.int64)
        if known := _size(references):
            pixels = known[0] * known[1]
            return np.full(count, round(pixels * _JPEG_BYTES_PER_PIXEL), np.int64)
    return references.sizes


def _num_shards(count: int, estimated_bytes: int, given: int | None) -> int:
    if given is not None:
        return min(given, count)  # a shard holds at least one example
    low = min(_PARALLEL_SHARDS, -(-count // _MIN_SHARD_EXAMPLES))
    return min(max(-(-estimated_bytes // _SHARD_BYTES), low), MAX_SHARDS, count)
