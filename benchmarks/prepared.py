"""The datasets that several groups read: each built by tfrds once a run, when it is asked for."""

import functools
import pathlib
import sys

import numpy as np

import tfrds

# Images of the raw dataset of 224 x 224, 450 MB; as many as fit several times into any page cache.
NUM_RAW = 3000


@functools.cache
def raw_224(folder: pathlib.Path, count: int = NUM_RAW) -> tfrds.ImageDatasetBuilder:
    """Random pixels of 224 x 224 x 3; ten classes."""
    rng = np.random.default_rng(0)
    # Some hundred different images are enough: what is copied does not matter, only where from.
    images = rng.integers(0, 256, (500, 224, 224, 3), dtype=np.uint8)
    images = np.concatenate([images] * (count // 500))
    source = tfrds.sources.Arrays(images, rng.integers(0, 10, count))
    return tfrds.build(f"raw_{count}", source, data_dir=folder, encoding="raw")


@functools.cache
def photographs(data: pathlib.Path, folder: pathlib.Path) -> tfrds.ImageDatasetBuilder:
    """Photographs of about 500 x 375 as their own JPEG files."""
    return tfrds.build("photographs", find_photos(data), data_dir=folder)


@functools.cache
def photographs_at_256(data: pathlib.Path, folder: pathlib.Path) -> tfrds.ImageDatasetBuilder:
    """The same, stored with a shorter side of 256."""
    return tfrds.build(
        "photographs_256", find_photos(data), data_dir=folder, encoding="jpeg", store_size=256
    )


@functools.cache
def million(folder: pathlib.Path) -> tfrds.ImageDatasetBuilder:
    """1,000,000 random images of 28 x 28, 830 MB."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (1_000_000, 28, 28), dtype=np.uint8)
    source = tfrds.sources.Arrays(images, rng.integers(0, 10, len(images)))
    return tfrds.build("million", source, data_dir=folder, encoding="raw")


def find_photos(data: pathlib.Path, kind: str = "photos") -> pathlib.Path:
    """Returns the largest folder of photographs that get_data.py made."""
    folders = sorted(data.glob(f"{kind}-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    if not folders:
        sys.exit(f"bench.py: no {data.name}/{kind}-N. Run get_data.py --{kind} N, or `make bench`.")
    return folders[-1]


def train_shards(builder: tfrds.ImageDatasetBuilder) -> list[pathlib.Path]:
    """Returns the files of the training split, in order."""
    return sorted(pathlib.Path(builder.data_dir).glob(f"{builder.name}-train.tfrecord-*"))
