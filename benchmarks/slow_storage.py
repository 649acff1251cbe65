"""Storage on which each read takes 5 ms, nothing in memory: in order, shuffled, by blocks.

The storage is a mount, `slow_files.py`, made anew for each run. What tfrds is compared with reads
16 shards side by side, as guides on speed say; shuffled, it puts the shards in random order and
mixes what comes by a buffer of 1,000, which is far less than a permutation. On two processors,
which serve the mount as well, 64 reads of 5 ms side by side are no limit any more: at 20 ms they
are. The last rows are of mapped files: with the ranges of each batch advised and without, on the
mount and on the disk here.
"""

import gc
import itertools
import os
import pathlib
import sys
from collections.abc import Callable
from unittest import mock

import numpy as np
import tensorflow as tf

import prepared
import slow_files
import tfrds
from measure import Baseline, Measurement, compare, one_epoch
from rows import Row
from tfrds.read import fetch

BATCH = 128
SIZE = 224
NUM_SHARDS = 16
# 600 MB: three windows of blocks.
NUM_RAW = 4000
# Their decoding takes as long as reading them.
NUM_PHOTOS = 2000
# Mapped and not advised, 400 a second are read.
NUM_MAPPED = 600
SHUFFLE_BUFFER = 1000
# Each run takes a second or two.
ROUNDS = 3

# From where the shards of a dataset are, and its data_dir, to batches.
Open = Callable[[pathlib.Path], tf.data.Dataset]
# From such a function to a measurement of one epoch from a cold cache.
Cold = Callable[[Open], Measurement]
Decode = Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

_numbers = itertools.count()


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Row]:
    """Returns the comparisons; `folder` takes the datasets, 1 GB. Without FUSE, the disk's."""
    if sys.platform != "linux":
        return []
    shards = folder / "slow"
    raw = build_raw(shards)
    rows = []
    try:
        with slow_files.mounted(shards, folder / "tried", 5):
            pass
    except slow_files.FuseUnavailableError as error:
        sys.stdout.write(f"slow_storage: no rows of slow reads: {error}\n")
    else:
        mount, slower = (from_mount(shards, folder / "mounts", time) for time in (5, 20))
        photographs = build_photographs(data, shards)
        rows += reading("5 ms, 224 raw, uint8", 1.0, raw, mount, decode_raw, dtype="uint8")
        rows += by_blocks("5 ms, 224 raw, uint8", raw, mount)
        rows += by_blocks("20 ms, 224 raw, uint8", raw, slower)
        # Decoding is the limit for both: as fast, but for the noise of few rounds.
        rows += reading("5 ms, JPEG to 224", 0.9, photographs, mount, decode_jpeg, image_size=SIZE)
        rows += mapped("5 ms, 224 raw, shuffled", raw, mount, f"train[:{NUM_MAPPED}]")
    return rows + mapped("cold disk, 224 raw, shuffled", raw, from_disk(shards), "train")


def build_raw(folder: pathlib.Path) -> str:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (500, SIZE, SIZE, 3), dtype=np.uint8)
    images = np.concatenate([images] * (NUM_RAW // 500))
    source = tfrds.sources.Arrays(images, rng.integers(0, 10, NUM_RAW))
    tfrds.build("raw", source, data_dir=folder, encoding="raw", num_shards=NUM_SHARDS)
    return "raw"


def build_photographs(data: pathlib.Path, folder: pathlib.Path) -> str:
    photos = folder.parent / "slow_photos"
    found = sorted(prepared.find_photos(data).rglob("*.jpg"))
    for path in found[:: max(len(found) // NUM_PHOTOS, 1)]:
        place = photos / path.parent.name / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(path)
    tfrds.build("photographs", photos, data_dir=folder, num_shards=NUM_SHARDS)
    return "photographs"


def from_mount(source: pathlib.Path, mounts: pathlib.Path, milliseconds: float) -> Cold:
    """Through a new mount each time, of which nothing is in memory."""

    def cold(open_: Open) -> Measurement:
        def measure() -> float:
            point = mounts / str(next(_numbers))
            with slow_files.mounted(source, point, milliseconds) as mount:
                return one_epoch(open_(mount.path))()

        return measure

    return cold


def from_disk(source: pathlib.Path) -> Cold:
    """After the kernel was told that the files are needed no more, and nobody had them mapped."""

    def cold(open_: Open) -> Measurement:
        def measure() -> float:
            gc.collect()
            for path in filter(pathlib.Path.is_file, source.rglob("*")):
                descriptor = os.open(path, os.O_RDONLY)
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(descriptor)
            return one_epoch(open_(source))()

        return measure

    return cold


def reading(
    work: str, goal: float, name: str, cold: Cold, decode: Decode, **options: object
) -> list[Row]:
    """In order and shuffled, against TensorFlow's own reader."""

    def versus(kind: str, shuffle: bool, title: str, buffer: int, goal: float) -> list[Row]:
        mine = cold(ours(name, shuffle=shuffle, **options))
        theirs = cold(side_by_side(name, decode, buffer))
        baselines = [Baseline(title, theirs, goal)]
        return compare(f"{work}, {kind}", mine, baselines, ROUNDS, "pread")

    return [
        *versus("in order", False, "TFRecordDataset", 0, goal),
        *versus("shuffled", True, "shuffle(1000)", SHUFFLE_BUFFER, 0.5),
    ]


def by_blocks(work: str, name: str, cold: Cold) -> list[Row]:
    """By blocks, against a full shuffle."""
    blocks, full = (cold(ours(name, shuffle=kind, dtype="uint8")) for kind in ("blocks", True))
    baselines = [Baseline("tfrds shuffled", full, 1.0)]
    return compare(f"{work}, by blocks", blocks, baselines, ROUNDS, "pread")


def mapped(work: str, name: str, cold: Cold, split: str) -> list[Row]:
    """Advised against not advised; no goal, as a fast disk gains nothing."""
    advised = cold(ours(name, split=split, shuffle=True, dtype="uint8", engine="mmap"))

    def not_advised() -> float:
        with mock.patch.object(fetch, "_ADVISED", 0):
            return advised()

    return compare(f"{work}, mapped", advised, [Baseline("not advised", not_advised)], ROUNDS)


def ours(name: str, split: str = "train", **options: object) -> Open:
    def open_(root: pathlib.Path) -> tf.data.Dataset:
        builder = tfrds.builder(name, data_dir=root)
        return builder.as_dataset(split=split, batch_size=BATCH, as_supervised=True, **options)

    return open_


def side_by_side(name: str, decode: Decode, buffer: int) -> Open:
    """All shards at once, whichever comes first; shuffled where there is a buffer."""

    def open_(root: pathlib.Path) -> tf.data.Dataset:
        paths = sorted(map(str, (root / name).rglob("*.tfrecord-*")))
        shards = tf.data.Dataset.from_tensor_slices(paths)
        shards = shards.shuffle(len(paths)) if buffer else shards
        records = shards.interleave(
            tf.data.TFRecordDataset,
            cycle_length=NUM_SHARDS,
            num_parallel_calls=NUM_SHARDS,
            deterministic=False,
        )
        records = records.shuffle(buffer) if buffer else records
        return (
            records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
            .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
            .batch(BATCH)
            .prefetch(tf.data.AUTOTUNE)
        )

    return open_


def parse(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    example = tf.io.parse_single_example(record, features)
    return example["image"], tf.one_hot(example["label"], 20)


def decode_raw(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.reshape(tf.io.decode_raw(image, tf.uint8), (SIZE, SIZE, 3)), label


def decode_jpeg(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.image.resize(tf.io.decode_jpeg(image, channels=3), (SIZE, SIZE)), label
