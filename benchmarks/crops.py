"""Crops of JPEG photographs, full size and stored at 256, against decoding them whole."""

import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import boxes
import jpeg_baselines
import prepared
import tfrds
from measure import Baseline, compare, one_epoch
from rows import Row
from tfrds.cpus import available_cpus

BATCH = 128
SIZE = 224
ROUNDS = 5


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Row]:
    """Returns the comparisons; `folder` takes the datasets."""
    full_size = prepared.photographs(data, folder)
    at_256 = prepared.photographs_at_256(data, folder)
    return [
        *centre_crops(full_size, at_256),
        *random_crops("full size", full_size),
        *random_crops("stored at 256", at_256),
    ]


def reading(builder: tfrds.ImageDatasetBuilder, **options: object) -> Callable[[], float]:
    return one_epoch(
        builder.as_dataset(
            split="train", batch_size=BATCH, shuffle_files=True, as_supervised=True, **options
        )
    )


def centre_crops(full_size, at_256) -> list[Row]:
    """What storing at 256 gains: against the same from photographs as they came."""
    crop = {"dtype": "uint8", "augment": [tfrds.augment.CenterCrop(SIZE)]}
    # The same crop shows a smaller part of a larger photograph; this shows about the same part.
    resized = {"dtype": "uint8", "image_size": SIZE, "resize": "crop"}
    return compare(
        "JPEG stored at 256, centre crop 224, uint8",
        reading(at_256, **crop),
        [
            Baseline("full size, resized", reading(full_size, **resized), 2.2),
            Baseline("full size, cropped", reading(full_size, **crop)),
        ],
        ROUNDS,
    )


def random_crops(where: str, builder: tfrds.ImageDatasetBuilder) -> list[Row]:
    stages = [tfrds.augment.RandomResizedCrop(), tfrds.augment.RandomFlip()]
    num_classes = builder.info.features["label"].num_classes
    whole = decoded_whole(prepared.train_shards(builder), num_classes)
    return compare(
        f"JPEG {where}, RandomResizedCrop, flip",
        reading(builder, image_size=SIZE, augment=stages),
        [Baseline("decoded whole, cropped", one_epoch(whole), 1.15)],
        ROUNDS,
    )


def decoded_whole(shards: list[pathlib.Path], num_classes: int) -> tf.data.Dataset:
    """By hand: decodes each photograph whole, cuts its box, resizes it by "bilinear", flips it.

    Boxes and flips are drawn before, so that drawing them costs this side nothing.
    """
    paths = [str(path) for path in shards]
    sizes = tf.data.TFRecordDataset(paths).map(
        lambda record: tf.io.extract_jpeg_shape(jpeg_baselines.parse_record(record, num_classes)[0])
    )
    rng = np.random.default_rng(0)
    drawn = boxes.draw_boxes([tuple(size[:2]) for size in sizes.as_numpy_iterator()], rng)
    flips = rng.random(len(drawn)) < 0.5

    def decode(record, box, flip):
        data, label = jpeg_baselines.parse_record(record, num_classes)
        image = tf.io.decode_jpeg(data, channels=3)
        image = tf.image.crop_to_bounding_box(image, box[0], box[1], box[2], box[3])
        image = tf.image.resize(image, (SIZE, SIZE))
        image = tf.cond(flip, lambda: tf.image.flip_left_right(image), lambda: image)
        return tf.ensure_shape(image, (SIZE, SIZE, 3)), label

    records = tf.data.TFRecordDataset(paths)
    dataset = tf.data.Dataset.zip(
        records,
        tf.data.Dataset.from_tensor_slices(drawn),
        tf.data.Dataset.from_tensor_slices(flips),
    )
    dataset = dataset.map(decode, num_parallel_calls=2 * available_cpus())
    return dataset.batch(BATCH).prefetch(tf.data.AUTOTUNE)
