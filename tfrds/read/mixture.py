"""A mixture of datasets as one `tf.data.Dataset`.

Gets the records of the builds with their weights and the request, gives the dataset; `mixture.py`
of the package calls it with what the user named.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.build_record import BuildRecord
from tfrds.errors import ConfigError
from tfrds.read.datasets import make_spec
from tfrds.read.fetch import SplitReader
from tfrds.read.mixed import MixedReader, quotas_of
from tfrds.read.order import Order
from tfrds.read.pipeline import make_dataset
from tfrds.read.request import Request, open_reader
from tfrds.read.resolve import stored_shape


def read_mixture(
    parts: Sequence[tuple[BuildRecord, Sequence[tuple[str, int, int]]]],
    weights: Sequence[float],
    num_examples: int | None,
    request: Request,
) -> Any:
    """Returns the dataset, or its only batch as tensors where `batch_size` is -1.

    Args:
      parts: of each dataset its record and its stretches (split, first row, count).
      weights: of each dataset, above 0.
      num_examples: of an epoch; None: as many as all have together.
      request: what to yield.

    Raises:
      ConfigError: the datasets do not fit each other, or an option cannot be honoured.
      DatasetError: a file is missing or damaged.
    """
    options = request.options
    for name in ("select", "balance"):
        if getattr(options, name) is not None:
            raise ConfigError(
                f"{name}: cannot be honoured together with mix, which has proportions of its own. "
                "Leave it out."
            )
    if options.shuffle not in (None, True):
        raise ConfigError(
            f"shuffle: a mixture is always shuffled as a whole, got {options.shuffle!r}. Leave it "
            "out."
        )
    if options.normalize == "dataset":
        raise ConfigError(
            'normalize: "dataset" is of one dataset, and a mixture has several. Pass (mean, std).'
        )
    records = [record for record, _ in parts]
    for record in records[1:]:
        _check_alike(records[0], record, options.image_size is not None)
    readers: list[SplitReader] = []
    counts: list[int] = []  # rows of each
    ranges: list[tuple[int, int]] = []
    groups: list[tuple[NDArray[np.int64], int]] = []
    quotas = quotas_of(weights, num_examples or sum(_count(stretches) for _, stretches in parts))
    for (record, stretches), quota in zip(parts, quotas, strict=True):
        splits = list(dict.fromkeys(split for split, _, _ in stretches))
        reader = open_reader(record, splits, options)
        first_row = sum(counts)
        ranges += [
            (first_row + reader.first_row(split) + first, count)
            for split, first, count in stretches
        ]
        first_example = sum(len(group) for group, _ in groups)
        groups.append((first_example + np.arange(_count(stretches)), quota))
        readers.append(reader)
        counts.append(reader.num_rows)
    order = Order(ranges, seed=request.seed, reshuffle=request.reshuffle, groups=groups)
    is_whole = request.batch_size == -1
    spec = make_spec(records[0], order, request, sum(len(group) for group, _ in groups))
    dataset = make_dataset(MixedReader(readers, counts), order, spec)
    return dataset.get_single_element() if is_whole else dataset


def _count(stretches: Sequence[tuple[str, int, int]]) -> int:
    return sum(count for _, _, count in stretches)


def _check_alike(first: BuildRecord, other: BuildRecord, is_resized: bool) -> None:
    """Raises ConfigError unless images of both can be in one batch."""

    def traits(record: BuildRecord) -> dict[str, Any]:
        is_raw = record.content["image"]["encoding"] == "raw"
        height, width, channels = stored_shape(record) if is_raw else record.image_shape
        built = record.content["options"]
        shape = (height, width) if is_raw or not is_resized else None
        resize = None if is_raw else (built["resize"], tuple(built["background"]))
        kind = "raw" if is_raw else "JPEG or PNG"
        keys = (record.image_key, record.label_key)
        return {
            "encoding": kind,
            "image_size": shape,
            "channels": channels,
            "resize": resize,
            "keys": keys,
            "label_kind": record.label_kind,
            "columns": [(spec.name, spec.dtype, spec.shape) for spec in record.columns],
        }

    mine, others = traits(first), traits(other)
    for name, value in mine.items():
        if others[name] != value:
            raise ConfigError(
                f"mix: {first.name} has {name} {value}, {other.name} has {others[name]}. Build "
                "them alike"
                + (", or pass image_size." if name == "image_size" and mine["resize"] else ".")
            )
