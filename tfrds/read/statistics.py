"""Mean and standard deviation of a dataset's pixels, measured once and kept beside it.

Gets the record of a build, gives `Statistics`; `datasets.py` normalises by it.
"""

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import secrets

import numpy as np

from tfrds.disk.build_record import BuildRecord, canonical_json
from tfrds.disk.layout import STATISTICS_FILE
from tfrds.read.fetch import SplitReader
from tfrds.read.numpy_stages.decode import decode_encoded
from tfrds.read.order import Order

_log = logging.getLogger("tfrds")

# Examples that are measured: the first in record order, which the hash of the key decides, so a
# random sample. The mean of 10,000 photographs is known to a tenth of a level.
_MAX_EXAMPLES = 10_000
_STEP = 64
_MAX_BYTES = 2**16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statistics:
    """What was measured, of stored pixels, each of the same weight.

    Attributes:
      mean: of each channel, 0..255.
      std: of each channel.
      split: that was measured: "train" where there is one, since a model must not see the others.
      num_examples: that were measured.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    split: str
    num_examples: int


def dataset_statistics(record: BuildRecord) -> Statistics:
    """Returns the statistics of a dataset: measured on first use, read from its directory after.

    A directory that cannot be written is measured again in each process.

    Raises:
      DatasetError: a file is missing or damaged.
    """
    path = record.directory / STATISTICS_FILE
    known = _read(path, record)
    if known:
        return known
    measured = _measure(record)
    _log.info("%s: measured mean %s and std %s.", record.name, measured.mean, measured.std)
    content = {"digest": record.digest, **dataclasses.asdict(measured)}
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):
        try:
            temporary.write_bytes(canonical_json(content))
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    return measured


def _read(path: pathlib.Path, record: BuildRecord) -> Statistics | None:
    """Returns what the file says, None where it is missing, damaged or of another dataset."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return None
        content = json.loads(path.read_bytes())
        found = Statistics(
            mean=tuple(float(value) for value in content["mean"]),
            std=tuple(float(value) for value in content["std"]),
            split=str(content["split"]),
            num_examples=int(content["num_examples"]),
        )
        is_ours = content["digest"] == record.digest
    except (OSError, ValueError, KeyError, TypeError):
        return None
    channels = record.image_shape[2]
    is_valid = len(found.mean) == len(found.std) == channels and min(found.std) >= 0
    return found if is_ours and is_valid and np.isfinite([*found.mean, *found.std]).all() else None


def _measure(record: BuildRecord) -> Statistics:
    split = "train" if "train" in record.splits else record.splits[0]
    reader = SplitReader(record, [split])
    channels = record.image_shape[2]
    count = min(sum(records for _, _, records in record.shards(split)), _MAX_EXAMPLES)
    order = Order([(0, count)], seed=None)
    pixels, total, squares = 0, np.zeros(channels), np.zeros(channels)
    for start in range(0, count, _STEP):
        batch = reader.fetch(order.rows(0, np.arange(start, min(start + _STEP, count))))
        for image, is_jpeg in zip(batch.images, batch.is_jpeg, strict=True):
            if isinstance(image, bytes):
                image = decode_encoded(image, channels, bool(is_jpeg))
            values = np.asarray(image, np.float64).reshape(-1, channels)
            pixels += len(values)
            total += values.sum(axis=0)
            squares += (values**2).sum(axis=0)
    mean = total / pixels
    std = np.sqrt(np.maximum(squares / pixels - mean**2, 0))
    return Statistics(
        mean=tuple(float(value) for value in mean),
        std=tuple(float(value) for value in std),
        split=split,
        num_examples=count,
    )
