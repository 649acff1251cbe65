"""Raw pixels, 224 x 224: uint8, float32, changed values, against a pipeline by hand and numpy."""

import collections
import pathlib
import time
from collections.abc import Callable

import numpy as np

import baselines
import prepared
import tfrds
from measure import Baseline, compare, one_epoch
from rows import Row
from tfrds.disk.build_record import read_build_record
from tfrds.disk.index import open_index
from tfrds.disk.records import HEADER_BYTES

BATCH = 128
# An epoch takes a tenth of a second, and memory's speed varies: more rounds than elsewhere.
ROUNDS = 15
SHAPE = (224, 224, 3)
# Batches of tfrds that are alive at a time: two are fetched, one waits, one is with the model.
IN_FLIGHT = 4
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Row]:
    """Returns the comparisons; `folder` takes the dataset, 450 MB."""
    builder = prepared.raw_224(folder)

    def ours(**options: object) -> Callable[[], float]:
        return one_epoch(
            builder.as_dataset(
                split="train", batch_size=BATCH, shuffle_files=True, as_supervised=True, **options
            )
        )

    def by_hand(dtype: str, goal: float) -> Baseline:
        shards = prepared.train_shards(builder)
        dataset = baselines.hand_written(shards, 10, BATCH, SHAPE, dtype)
        return Baseline("hand-written", one_epoch(dataset), goal)

    as_floats = ours()
    changed = ours(value_range=(0, 1), normalize=IMAGENET, augment=[tfrds.augment.RandomFlip()])
    normalized = ours(value_range=(0, 1), normalize=IMAGENET)
    as_bytes, by_blocks = ours(dtype="uint8"), ours(dtype="uint8", shuffle="blocks")
    gathers = [
        Baseline("bare gather", bare_gather(builder, IN_FLIGHT), 0.7),
        Baseline("gather to one place", bare_gather(builder, 1)),
    ]
    return [
        *compare("224 raw, uint8", as_bytes, [by_hand("uint8", 4), *gathers], ROUNDS),
        *compare("224 raw, uint8, by blocks", by_blocks, [Baseline("shuffled", as_bytes)], ROUNDS),
        *compare("224 raw, float32", as_floats, [by_hand("float32", 2)], ROUNDS),
        *compare(
            "224 raw, normalised, flipped at random",
            changed,
            [Baseline("float32 alone", as_floats, 0.7), Baseline("normalised alone", normalized)],
            ROUNDS,
        ),
    ]


def bare_gather(builder: tfrds.ImageDatasetBuilder, kept: int) -> Callable[[], float]:
    """The same pixels in the same kind of order, copied by numpy alone from the same mapped files.

    Args:
      builder: of the dataset.
      kept: batches that are alive at a time. With one, each batch is written to where the one
        before it was, which lies in the processor's cache: a speed that no pipeline can have whose
        batches outlive the next one's making.
    """
    record = read_build_record(pathlib.Path(builder.data_dir))
    shards = record.shards("train")
    counts = [count for _, _, count in shards]
    index = open_index(record.split_files("train").index, counts)[:]
    starts = (index["offset"] + index["image_offset"]).astype(np.int64) + HEADER_BYTES
    maps = [np.memmap(path, np.uint8, mode="r") for path, _, _ in shards]
    shard_of = np.repeat(np.arange(len(shards)), counts)
    size = int(np.prod(SHAPE))

    def gather(rows: np.ndarray) -> np.ndarray:
        pixels = np.empty((len(rows), size), np.uint8)
        for place, shard, start in zip(pixels, shard_of[rows], starts[rows], strict=True):
            place[:] = maps[shard][start : start + size]
        return pixels.reshape(-1, *SHAPE)

    def measure() -> float:
        order = np.random.permutation(len(starts))
        batches: collections.deque[np.ndarray] = collections.deque(maxlen=kept)
        start = time.perf_counter()
        for first in range(0, len(order), BATCH):
            batches.append(gather(order[first : first + BATCH]))
        return len(order) / (time.perf_counter() - start)

    return measure
