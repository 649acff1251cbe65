"""What tfrds's reading of JPEG is measured against: other pipelines, and decoding alone.

Each gives float32 batches of one size and one-hot labels, as people write it for itself, in the
configuration that was fastest on two processors.
"""

import functools
import pathlib
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cv2
import grain
import keras
import numpy as np
import simplejpeg
import tensorflow as tf

from tfrds.cpus import available_cpus

# tf.image.resize's options, by the names that tfrds gives them.
TF_RESIZES = {
    "bilinear": {"method": "bilinear"},
    "area": {"method": "area"},
    "antialias": {"method": "bilinear", "antialias": True},
}
# OpenCV has no counterpart of "antialias".
OPENCV_RESIZES = {"bilinear": cv2.INTER_LINEAR, "area": cv2.INTER_AREA}

# Two calls a processor keep it busy while others wait for the batch, as in tfrds itself.
_CALLS = 2 * available_cpus()


def parse_record(record: tf.Tensor, num_classes: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the bytes of the image and its one-hot label."""
    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    example = tf.io.parse_single_example(record, features)
    return example["image"], tf.one_hot(tf.cast(example["label"], tf.int32), num_classes)


def hand_written(
    shards: Sequence[pathlib.Path],
    num_classes: int,
    batch_size: int,
    image_size: int,
    interpolation: str,
    count: int,
) -> tf.data.Dataset:
    """Example by example: parse, decode as TensorFlow does by itself, resize; not shuffled.

    Reads the first `count` records.
    """

    def decode(record):
        data, label = parse_record(record, num_classes)
        image = tf.io.decode_jpeg(data, channels=3)
        image = tf.image.resize(image, (image_size, image_size), **TF_RESIZES[interpolation])
        return tf.ensure_shape(image, (image_size, image_size, 3)), label

    dataset = tf.data.TFRecordDataset([str(path) for path in shards]).take(count)
    dataset = dataset.map(decode, num_parallel_calls=_CALLS)
    return dataset.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def keras_folder(photos: pathlib.Path, batch_size: int, image_size: int) -> tf.data.Dataset:
    """keras.utils.image_dataset_from_directory, which resizes by "bilinear"."""
    return keras.utils.image_dataset_from_directory(
        photos,
        label_mode="categorical",
        image_size=(image_size, image_size),
        batch_size=batch_size,
        verbose=False,
    )


def grain_opencv(
    photos: pathlib.Path, batch_size: int, image_size: int, interpolation: str
) -> Iterable[Any]:
    """Grain with OpenCV, shuffled.

    Of reading threads from 2 to 16, batching in them or after them, and grain.DataLoader, this was
    the fastest: one thread a processor, which OpenCV's own threads do not disturb.
    """
    cv2.setNumThreads(1)
    flag = OPENCV_RESIZES[interpolation]
    class_names = sorted(path.name for path in photos.iterdir())
    one_hot = dict(zip(class_names, np.eye(len(class_names), dtype=np.float32), strict=True))

    def load(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
        image = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR_RGB)
        image = cv2.resize(image, (image_size, image_size), interpolation=flag)
        return image.astype(np.float32), one_hot[path.parent.name]

    images = grain.MapDataset.source(sorted(photos.rglob("*.jpg"))).shuffle(seed=0).map(load)
    options = grain.ReadOptions(num_threads=available_cpus(), prefetch_buffer_size=batch_size)
    return images.to_iter_dataset(options).batch(batch_size)


def decode_alone(files: Sequence[bytes]) -> Callable[[], float]:
    """tf.io.decode_jpeg on all processors, to the pixels that tfrds gives; nothing else."""
    dataset = tf.data.Dataset.from_tensor_slices(list(files)).map(
        lambda data: tf.shape(tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")),
        num_parallel_calls=_CALLS,
    )

    def measure() -> float:
        start = time.perf_counter()
        count = sum(1 for _ in dataset)
        return count / (time.perf_counter() - start)

    return measure


def simplejpeg_alone(files: Sequence[bytes]) -> Callable[[], float]:
    """Decoding by simplejpeg on all processors, to the same pixels; nothing else."""
    decode = functools.partial(simplejpeg.decode_jpeg, colorspace="RGB")

    def measure() -> float:
        start = time.perf_counter()
        with ThreadPoolExecutor(available_cpus()) as threads:
            # Not a list of all images: they would not fit.
            count = sum(image.ndim == 3 for image in threads.map(decode, files))
        return count / (time.perf_counter() - start)

    return measure
