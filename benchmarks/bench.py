#!/usr/bin/env python3
"""Compares tfrds with a hand-written pipeline and with plain TFDS, on full Fashion-MNIST.

Prints a table of ratios, and writes benchmarks/data/results.json. The machine is shared and noisy,
so both sides run in turn, pair by pair, in this one process; the ratio is the median of the pairs.
Run it by `make bench`; a goal that is not reached makes the exit code 1.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

import baselines
import tfrds
from fashion_mnist import load_fashion_mnist

DATA = pathlib.Path(__file__).resolve().parent / "data"
BATCH = 256
PAIRS = 7
BUILD_PAIRS = 3


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison; speeds in images a second, each the median of its side."""

    work: str
    ours: float
    baseline: str
    theirs: float
    ratio: float
    goal: float


def compare(
    work: str,
    ours: Callable[[], float],
    baseline: str,
    theirs: Callable[[], float],
    goal: float,
    pairs: int = PAIRS,
) -> Row:
    """Measures both sides in turn; a first pair warms up and is not counted."""
    speeds = [(ours(), theirs()) for _ in range(pairs + 1)][1:]
    return Row(
        work,
        statistics.median(speed for speed, _ in speeds),
        baseline,
        statistics.median(speed for _, speed in speeds),
        statistics.median(mine / other for mine, other in speeds),
        goal,
    )


def one_epoch(dataset: tf.data.Dataset) -> Callable[[], float]:
    """Returns a measurement: images a second over one epoch."""

    def measure() -> float:
        start = time.perf_counter()
        count = sum(int(images.shape[0]) for images, _ in dataset)
        return count / (time.perf_counter() - start)

    return measure


def reading(work: str, arrays: dict, num_classes: int, folder: pathlib.Path) -> list[Row]:
    """Reads the training split: ours in a new permutation each epoch, the others in file order."""
    sources = {split: tfrds.sources.Arrays(*pair) for split, pair in arrays.items()}
    builder = tfrds.build("fashion", sources, data_dir=folder / "tfrds")
    ours = builder.as_dataset(
        split="train", batch_size=BATCH, shuffle_files=True, as_supervised=True
    )
    shards = sorted(pathlib.Path(builder.data_dir).glob("fashion-train.tfrecord-*"))
    by_hand = baselines.hand_written(shards, num_classes, BATCH)
    plain = baselines.plain_tfds(
        build_plain(arrays, num_classes, folder / "plain"), num_classes, BATCH
    )
    return [
        compare(work, one_epoch(ours), "hand-written", one_epoch(by_hand), 5),
        compare(work, one_epoch(ours), "plain TFDS", one_epoch(plain), 12),
    ]


def build_plain(arrays: dict, num_classes: int, folder: pathlib.Path):
    baselines.PlainFashionMnist.arrays = arrays
    baselines.PlainFashionMnist.num_classes = num_classes
    builder = baselines.PlainFashionMnist(data_dir=folder)
    builder.download_and_prepare()
    return builder


def building(arrays: dict, folder: pathlib.Path) -> Row:
    """Builds all 70,000 arrays, from memory to a dataset that loads."""
    count = sum(len(labels) for _, labels in arrays.values())

    def timed(build: Callable[[pathlib.Path], object]) -> Callable[[], float]:
        def measure() -> float:
            place = pathlib.Path(tempfile.mkdtemp(dir=folder))
            start = time.perf_counter()
            build(place)
            seconds = time.perf_counter() - start
            shutil.rmtree(place)
            return count / seconds

        return measure

    def ours(place: pathlib.Path) -> None:
        sources = {split: tfrds.sources.Arrays(*pair) for split, pair in arrays.items()}
        tfrds.build("fashion", sources, data_dir=place)

    return compare(
        "build 70,000 arrays",
        timed(ours),
        "plain TFDS",
        timed(lambda place: build_plain(arrays, 10, place)),
        10,
        BUILD_PAIRS,
    )


def main() -> int:
    tfds.disable_progress_bar()
    arrays = load_fashion_mnist(DATA / "fashion-mnist")
    # Over 127 classes a label takes two bytes, so records have unequal lengths.
    rng = np.random.default_rng(0)
    many = {
        split: (images, rng.integers(0, 200, len(labels)))
        for split, (images, labels) in arrays.items()
    }
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = [
            *reading("read 60,000 of 28x28", arrays, 10, folder / "ten"),
            *reading("read them with 200 classes", many, 200, folder / "many"),
            building(arrays, folder),
        ]
    print(
        f"\n{'work':28}{'tfrds':>10} {'baseline':>14}{'':>10} {'ratio':>7} {'goal':>6}   images/s"
    )
    for row in rows:
        print(
            f"{row.work:28}{row.ours:>10,.0f} {row.baseline:>14}{row.theirs:>10,.0f} "
            f"{row.ratio:>6.1f}x {row.goal:>5.0f}x   {'ok' if row.ratio >= row.goal else 'MISSED'}"
        )
    (DATA / "results.json").write_text(
        json.dumps([dataclasses.asdict(row) for row in rows], indent=2)
    )
    return 0 if all(row.ratio >= row.goal for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
