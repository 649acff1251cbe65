"""Raw pixels, 224 x 224: uint8, float32, normalised, against a pipeline by hand and bare numpy."""

import pathlib
import time
from collections.abc import Callable

import numpy as np

import baselines
import tfrds
from measure import Row, compare, one_epoch
from tfrds.disk.build_record import read_build_record
from tfrds.read.fetch import SplitReader

BATCH = 128
COUNT = 3000
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def rows(folder: pathlib.Path) -> list[Row]:
    """Returns the comparisons; `folder` takes the dataset, 450 MB."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (COUNT, 224, 224, 3), dtype=np.uint8)
    source = tfrds.sources.Arrays(images, rng.integers(0, 10, COUNT))
    builder = tfrds.build("large", source, data_dir=folder, encoding="raw")

    def ours(**options: object) -> Callable[[], float]:
        return one_epoch(
            builder.as_dataset(
                split="train", batch_size=BATCH, shuffle_files=True, as_supervised=True, **options
            )
        )

    shards = sorted(pathlib.Path(builder.data_dir).glob("large-train.tfrecord-*"))
    by_hand = {
        dtype: one_epoch(baselines.hand_written(shards, 10, BATCH, (224, 224, 3), dtype))
        for dtype in ("uint8", "float32")
    }
    # Memory is what limits these: a batch of 19 MB of uint8 comes from fresh pages, which a gather
    # that drops each batch at once gets back warm. So they are shown, and have no goal yet.
    normalized = ours(value_range=(0, 1), normalize=IMAGENET)
    return [
        compare("224 raw, uint8", ours(dtype="uint8"), "hand-written", by_hand["uint8"]),
        compare("224 raw, uint8", ours(dtype="uint8"), "bare gather", bare_gather(builder)),
        compare("224 raw, float32", ours(), "hand-written", by_hand["float32"]),
        compare("224 raw, normalised", normalized, "float32 alone", ours(), 0.7),
    ]


def bare_gather(builder: tfrds.ImageDatasetBuilder) -> Callable[[], float]:
    """The same rows in the same kind of order, copied by numpy alone from the same mapped files."""
    reader = SplitReader(read_build_record(pathlib.Path(builder.data_dir)), ["train"])

    def measure() -> float:
        order = np.random.permutation(COUNT)
        start = time.perf_counter()
        for first in range(0, COUNT, BATCH):
            reader.fetch(order[first : first + BATCH])
        return COUNT / (time.perf_counter() - start)

    return measure
