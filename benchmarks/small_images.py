"""Fashion-MNIST, 28 x 28: reading and building, against a pipeline by hand and plain TFDS."""

import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable

import numpy as np

import baselines
import tfrds
from fashion_mnist import load_fashion_mnist
from measure import Row, compare, one_epoch

BATCH = 256
BUILD_PAIRS = 3


def rows(data: pathlib.Path, folder: pathlib.Path) -> list[Row]:
    """Returns the comparisons; `data` is what get_data.py fetched, `folder` takes the datasets."""
    arrays = load_fashion_mnist(data / "fashion-mnist")
    # Over 127 classes a label takes two bytes, so records have unequal lengths.
    rng = np.random.default_rng(0)
    many = {
        split: (images, rng.integers(0, 200, len(labels)))
        for split, (images, labels) in arrays.items()
    }
    return [
        *reading("read 60,000 of 28x28", arrays, 10, folder / "ten"),
        *reading("read them with 200 classes", many, 200, folder / "many"),
        building(arrays, folder),
    ]


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
