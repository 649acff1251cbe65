"""JPEG photographs of about 500 x 375 to 224 x 224, against decoding them and nothing else."""

import pathlib
import time
from collections.abc import Callable

import tensorflow as tf

import tfrds
from measure import Row, compare, one_epoch

BATCH = 128
PAIRS = 5
GOALS = {"bilinear": 0.75, "area": 0.60, "antialias": 0.35}


def rows(photos: pathlib.Path, folder: pathlib.Path) -> list[Row]:
    """Returns the comparisons; `folder` takes the datasets."""
    builder = tfrds.build("photos", photos, data_dir=folder)
    decoding = decode_alone([path.read_bytes() for path in sorted(photos.rglob("*.jpg"))])
    compared = []
    for interpolation, goal in GOALS.items():
        dataset = builder.as_dataset(
            split="train",
            batch_size=BATCH,
            shuffle_files=True,
            as_supervised=True,
            image_size=224,
            interpolation=interpolation,
        )
        work = f"JPEG to 224, {interpolation}"
        compared.append(compare(work, one_epoch(dataset), "decode alone", decoding, goal, PAIRS))
    return compared


def decode_alone(files: list[bytes]) -> Callable[[], float]:
    """tf.io.decode_jpeg on all processors, to the pixels that tfrds gives; nothing else."""
    dataset = tf.data.Dataset.from_tensor_slices(files).map(
        lambda data: tf.shape(tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")),
        num_parallel_calls=4,
    )

    def measure() -> float:
        start = time.perf_counter()
        count = sum(1 for _ in dataset)
        return count / (time.perf_counter() - start)

    return measure
