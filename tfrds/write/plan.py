"""All examples in their fixed order, cut into shards; columns, never one object an example.

Gets a source and the options, gives a `Plan`; `write/dataset.py` carries it out. Everything here
follows from the keys, labels and sizes alone: the same plan on any machine, for any number of
workers.
"""

import dataclasses
import hashlib
import logging
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_int
from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError, EncodeError, SourceError
from tfrds.spec import MAX_AUTO_RAW_SIDE, BuildOptions, ImageSpec
from tfrds.write.check import read_size
from tfrds.write.classes import describe_order, number_classes
from tfrds.write.sources.base import References, Source
from tfrds.write.splits import assign_splits

# Hashes of a key by what they decide. Their names stand in tfrds.json: another way to hash gets
# another name.
ORDER_HASH = "blake2b-128 tfrds-order-1"
SPLIT_HASH = "blake2b-128 tfrds-split-1"

_SHARD_BYTES = 256 * 2**20
_MIN_SHARD_EXAMPLES = 512  # below this a shard is not worth a file ...
_PARALLEL_SHARDS = 16  # ... but this many shards let workers and readers share even small splits
_MAX_SHARDS = 99_999

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
      class_names: in the order of their numbers.
      keys, labels: of all examples, by the source's rows; labels are positions in `class_names`.
      splits: by name, in TFDS's order of names.
      left_out: files that are no images, by kind.
      notes: what was decided on the way, for the user to read.
    """

    source: Source
    options: BuildOptions
    image: ImageSpec
    class_names: tuple[str, ...]
    keys: Keys
    labels: NDArray[np.int32]
    splits: dict[str, SplitPlan]
    left_out: Counter[str]
    notes: tuple[str, ...]

    @property
    def num_examples(self) -> int:
        """Of all splits."""
        return sum(len(split.rows) for split in self.splits.values())

    def class_counts(self, split: str) -> list[int]:
        """Returns how many examples of each class `split` has, by class number."""
        labels = self.labels[self.splits[split].rows]
        return [int(count) for count in np.bincount(labels, minlength=len(self.class_names))]


def make_plan(source: Source, options: BuildOptions, *, limit: int | None = None) -> Plan:
    """Scans `source` and decides everything about the dataset but the encoded bytes.

    Args:
      source: of labelled images.
      options: of the build.
      limit: keep at most this many examples of each split: the first in record order, so a random
        sample.

    Raises:
      SourceError: no images, unusable labels or class names, equal keys, an empty split.
      ConfigError: options that do not fit each other or the source.
    """
    if limit is not None:
        check_int("limit", limit, 1)
    references = source.scan()
    if not len(references.keys):
        raise SourceError("source: expected at least one labelled image, found none.")
    class_names, labels = number_classes(references, options.class_names)
    order = _order(references.keys, ORDER_HASH)
    image = _image_spec(source, references, options, order)
    rows_by_split = {
        name: rows[:limit]
        for name, rows in _split_rows(references, labels, len(class_names), options, order).items()
    }
    sizes = _estimated_sizes(references, options, image)
    splits = {}
    for name, rows in sorted(rows_by_split.items()):
        estimated = int(sizes[rows].sum())
        splits[name] = SplitPlan(
            rows=rows,
            num_shards=_num_shards(len(rows), estimated, options.num_shards),
            estimated_bytes=estimated,
        )
    for note in references.notes:
        _log.info(note)
    class_notes = describe_order(class_names)
    for note in class_notes:
        _log.warning(note)
    return Plan(
        source=source,
        options=options,
        image=image,
        class_names=class_names,
        keys=references.keys,
        labels=labels,
        splits=splits,
        left_out=references.left_out,
        notes=(*references.notes, *class_notes),
    )


def _order(keys: Keys, hash_name: str) -> NDArray[np.int64]:
    """Returns the rows sorted by the 128-bit hash of their keys.

    Raises:
      SourceError: two keys are equal.
    """
    salt = hash_name.split()[1].encode()
    digests = b"".join(hashlib.blake2b(key, digest_size=16, salt=salt).digest() for key in keys)
    halves = np.frombuffer(digests, ">u8").reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    ordered = halves[order]
    equal = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
    if len(equal):
        key = keys[int(order[equal[0]])].decode()
        groups = 1 + int((np.diff(equal) > 1).sum())
        raise SourceError(
            f"{key}: more than one image has this key after Unicode normalisation (NFC); images "
            f"that share a key in all: {len(equal) + groups:,}. Rename all but one of each."
        )
    return order


def _split_rows(
    references: References,
    labels: NDArray[np.int32],
    num_classes: int,
    options: BuildOptions,
    order: NDArray[np.int64],
) -> dict[str, NDArray[np.int64]]:
    """Returns the rows of each split, in record order."""
    if options.splits is None:
        if references.splits is None:
            return {"train": order}
        splits, names = references.splits, references.split_names
    else:
        if references.splits is not None:
            raise ConfigError(
                f"splits: the source has its own, {list(references.split_names)}. Leave out "
                'splits=, or pass ImageFolder(path, layout="class"), or one source instead of a '
                "dict."
            )
        names = tuple(options.splits)
        by_split_hash = _order(references.keys, SPLIT_HASH)
        splits = assign_splits(by_split_hash, labels, num_classes, options.splits)
    return {name: order[splits[order] == number] for number, name in enumerate(names)}


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
        shape_from=(size or _first_size(source, order)) if raw_of_own_size else None,
        resize=options.resize,
        background=options.background,
        store_size=options.store_size,
        jpeg_quality=options.jpeg_quality,
    )


def _size(references: References) -> tuple[int, int] | None:
    """Returns (height, width) of all images, where the source knows that they are the same."""
    height, width, _ = references.shape or (None, None, None)
    return None if height is None or width is None else (height, width)


def _first_size(source: Source, order: NDArray[np.int64]) -> tuple[int, int]:
    """Returns (height, width) of the first record's image.

    Raw images without `image_size` must all have it.
    """
    inputs = source.inputs(order[:1])
    try:
        image = inputs.read(0)
        return read_size(image) if isinstance(image, bytes) else (image.shape[0], image.shape[1])
    except OSError as error:
        raise SourceError(f"{inputs.name(0)}: cannot be read: {error.strerror}.") from error
    except EncodeError as error:
        raise EncodeError(f"{inputs.name(0)}: {error}") from error


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
    return min(max(-(-estimated_bytes // _SHARD_BYTES), low), _MAX_SHARDS, count)
