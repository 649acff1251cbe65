"""Fashion-MNIST, 28 x 28: reading and building, against a pipeline by hand and plain TFDS."""

import contextlib
import io
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable

import numpy as np

import baselines
import prepared
import tfrds
from fashion_mnist import load_fashion_mnist
from measure import Baseline, compare, one_epoch
from rows import Row

BATCH = 256
BUILD_ROUNDS = 3
# A third of an epoch of the slowest side takes a second.
PLAIN_STEPS = 80


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Row]:
    """Returns the comparisons; `data` is what get_data.py fetched, `folder` takes the datasets."""
    arrays = load_fashion_mnist(data / "fashion-mnist")
    # Over 127 classes a label takes two bytes, so records have unequal lengths.
    rng = np.random.default_rng(0)
    many = {
        split: (images, rng.integers(0, 200, len(labels)))
        for split, (images, labels) in arrays.items()
    }
    return [
        *reading("28x28 raw, float32", arrays, 10, folder / "ten_classes"),
        *reading("28x28 raw, float32, 200 classes", many, 200, folder / "many_classes"),
        *building(arrays, folder),
    ]


def reading(work: str, arrays: dict, num_classes: int, folder: pathlib.Path) -> list[Row]:
    """Reads the training split: ours in a new permutation each epoch, the others in file order."""
    sources = {split: tfrds.sources.Arrays(*pair) for split, pair in arrays.items()}
    builder = tfrds.build("fashion", sources, data_dir=folder / "tfrds")
    ours = builder.as_dataset(
        split="train", batch_size=BATCH, shuffle_files=True, as_supervised=True
    )
    plain = baselines.plain_tfds(
        build_plain(arrays, num_classes, folder / "plain"), num_classes, BATCH
    )
    by_hand = baselines.hand_written(prepared.train_shards(builder), num_classes, BATCH)
    return compare(
        work,
        one_epoch(ours),
        [
            Baseline("hand-written", one_epoch(by_hand), 6),
            Baseline("plain TFDS", one_epoch(plain.take(PLAIN_STEPS)), 18),
        ],
    )


def build_plain(arrays: dict, num_classes: int, folder: pathlib.Path):
    baselines.PlainFashionMnist.arrays = arrays
    baselines.PlainFashionMnist.num_classes = num_classes
    builder = baselines.PlainFashionMnist(data_dir=folder)
    with contextlib.redirect_stdout(io.StringIO()):  # it says at length what we know
        builder.download_and_prepare()
    return builder


def building(arrays: dict, folder: pathlib.Path) -> list[Row]:
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

    plain = timed(lambda place: build_plain(arrays, 10, place))
    return compare(
        "build 70,000 arrays",
        timed(ours),
        [Baseline("plain TFDS", plain, 10)],
        BUILD_ROUNDS,
        engine="",
    )
