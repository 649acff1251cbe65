"""JPEG photographs of about 500 x 375 to 224 x 224, against other pipelines and decoding alone."""

import pathlib

import jpeg_baselines
import prepared
import tfrds
from measure import Baseline, compare, one_epoch
from rows import Row

BATCH = 128
SIZE = 224
# An epoch takes some seconds, so a few rounds are quiet enough.
ROUNDS = 5
# Photographs an epoch, at most: antialiasing takes three times as long as the others.
COUNTS = {"bilinear": 4000, "area": 4000, "antialias": 1500}
# Of tf.io.decode_jpeg alone.
GOALS = {"bilinear": 0.75, "area": 0.60, "antialias": 0.35}


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Row]:
    """Returns the comparisons; `folder` takes the datasets."""
    photos = prepared.find_photos(data)
    builder = prepared.photographs(data, folder)
    files = [path.read_bytes() for path in sorted(photos.rglob("*.jpg"))]
    rows = []
    for interpolation, goal in GOALS.items():
        count = min(COUNTS[interpolation], len(files))
        ours = builder.as_dataset(
            split=f"train[:{count}]",
            batch_size=BATCH,
            shuffle_files=True,
            as_supervised=True,
            image_size=SIZE,
            interpolation=interpolation,
        )
        decoding = jpeg_baselines.decode_alone(files[:count])
        baselines = [
            Baseline("decode_jpeg alone", decoding, goal),
            *pipelines(photos, builder, interpolation, count),
        ]
        if interpolation == "bilinear":
            alone = jpeg_baselines.simplejpeg_alone(files)
            baselines.append(Baseline("simplejpeg alone", alone))
        rows += compare(f"JPEG to 224, {interpolation}", one_epoch(ours), baselines, ROUNDS)
    return rows


def pipelines(
    photos: pathlib.Path, builder: tfrds.ImageDatasetBuilder, interpolation: str, count: int
) -> list[Baseline]:
    """Returns all that resize the same way: to be as fast as the best is as fast as each."""
    num_classes = builder.info.features["label"].num_classes
    hand_written = jpeg_baselines.hand_written(
        prepared.train_shards(builder), num_classes, BATCH, SIZE, interpolation, count
    )
    found = [Baseline("hand-written", one_epoch(hand_written), 1.0)]
    if interpolation == "bilinear":
        keras_folder = jpeg_baselines.keras_folder(photos, BATCH, SIZE)
        found.append(Baseline("Keras from directory", one_epoch(keras_folder), 1.0))
    if interpolation in jpeg_baselines.OPENCV_RESIZES:
        opencv = jpeg_baselines.grain_opencv(photos, BATCH, SIZE, interpolation)
        found.append(Baseline("Grain + OpenCV", one_epoch(opencv), 1.0))
    return found
