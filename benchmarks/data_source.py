"""Examples by their number, in numpy: beside the dataset's batches, and in PyTorch's DataLoader.

A data source works in the process and the thread that asks; the dataset uses all processors, as
does a DataLoader of one worker for each.
"""

import pathlib
import time

import numpy as np
import torch

import prepared
import tfrds
from measure import Baseline, Measurement, compare, one_epoch
from rows import Row
from tfrds import tfds_compat
from tfrds.cpus import available_cpus
from tfrds.disk.build_record import read_build_record
from tfrds.read.data_source import DataSource, open_source
from tfrds.read_options import parse_read_options

ROUNDS = 3
NUM_SMALL = 60_000
# One thread decodes some hundred a second.
NUM_PHOTOS = 1000


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Row]:
    """Returns the comparisons; `folder` takes the datasets, 600 MB."""
    photographs = prepared.photographs(data, folder)
    return [
        *reading("28 x 28 raw, float32", small(folder), 256),
        *reading("224 raw, float32", prepared.raw_224(folder), 128),
        *reading("224 raw, uint8", prepared.raw_224(folder), 128, dtype="uint8"),
        *reading("JPEG to 224", photographs, 128, f"train[:{NUM_PHOTOS}]", image_size=224),
    ]


def reading(
    work: str,
    builder: tfrds.ImageDatasetBuilder,
    batch_size: int,
    split: str = "train",
    **options: object,
) -> list[Row]:
    """Reads a split in a new permutation each epoch."""
    record = read_build_record(pathlib.Path(builder.data_dir))
    stretches = tfds_compat.row_ranges(builder.info, split)
    source = open_source(record, stretches, parse_read_options(options))
    dataset = builder.as_dataset(
        split=split, batch_size=batch_size, shuffle_files=True, as_supervised=True, **options
    )
    return compare(
        f"data source, {work}",
        by_batches(source, batch_size),
        [
            Baseline("dataset", one_epoch(dataset)),
            Baseline("one by one", one_by_one(source)),
            Baseline(f"DataLoader, {available_cpus()} workers", loaded(source, batch_size)),
        ],
        ROUNDS,
    )


def small(folder: pathlib.Path) -> tfrds.ImageDatasetBuilder:
    """Random pixels of the size and number of Fashion-MNIST's."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (NUM_SMALL, 28, 28, 1), dtype=np.uint8)
    source = tfrds.sources.Arrays(images, rng.integers(0, 10, NUM_SMALL))
    return tfrds.build("small", source, data_dir=folder, encoding="raw")


def by_batches(source: DataSource, batch_size: int) -> Measurement:
    """As a DataLoader asks for them, in the process that asks."""

    def run() -> float:
        order = np.random.permutation(len(source)).tolist()
        start = time.perf_counter()
        for first in range(0, len(order), batch_size):
            source.__getitems__(order[first : first + batch_size])
        return len(order) / (time.perf_counter() - start)

    return run


def one_by_one(source: DataSource) -> Measurement:
    def run() -> float:
        order = np.random.permutation(len(source))[:5000].tolist()
        start = time.perf_counter()
        for number in order:
            source[number]
        return len(order) / (time.perf_counter() - start)

    return run


def loaded(source: DataSource, batch_size: int) -> Measurement:
    """Batches of tensors from workers that stay alive, as they do in training."""
    loader = torch.utils.data.DataLoader(
        source,
        batch_size=batch_size,
        shuffle=True,
        num_workers=available_cpus(),
        multiprocessing_context="fork",
        persistent_workers=True,
    )

    def run() -> float:
        start = time.perf_counter()
        count = sum(len(batch["image"]) for batch in loader)
        return count / (time.perf_counter() - start)

    return run
