"""What tfrds is measured against: the pipeline people write by hand, and plain TFDS."""

import pathlib
from collections.abc import Sequence

import tensorflow as tf
import tensorflow_datasets as tfds


def hand_written(
    shards: Sequence[pathlib.Path],
    num_classes: int,
    batch_size: int,
    shape: tuple[int, int, int] = (28, 28, 1),
    dtype: str = "float32",
) -> tf.data.Dataset:
    """Example by example: parse, decode, cast, reshape, one-hot; not shuffled.

    Source: what tutorials on TFRecord show.
    """

    def decode(record):
        example = tf.io.parse_single_example(
            record,
            {
                "image": tf.io.FixedLenFeature([], tf.string),
                "label": tf.io.FixedLenFeature([], tf.int64),
            },
        )
        image = tf.cast(tf.io.decode_raw(example["image"], tf.uint8), dtype)
        image = tf.reshape(image, shape)
        return image, tf.one_hot(tf.cast(example["label"], tf.int32), num_classes)

    dataset = tf.data.TFRecordDataset([str(path) for path in shards])
    return dataset.map(decode, num_parallel_calls=4).batch(batch_size).prefetch(tf.data.AUTOTUNE)


class PlainFashionMnist(tfds.core.GeneratorBasedBuilder):
    """Fashion-MNIST as TFDS's own classes store it: Image (PNG) and ClassLabel."""

    VERSION = tfds.core.Version("1.0.0")
    # Set before it is built: {split: (images, labels)}.
    arrays: dict | None = None
    num_classes = 10

    def _info(self):
        features = tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(28, 28, 1)),
                "label": tfds.features.ClassLabel(num_classes=self.num_classes),
            }
        )
        return tfds.core.DatasetInfo(
            builder=self, features=features, supervised_keys=("image", "label")
        )

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(*pair) for split, pair in self.arrays.items()}

    def _generate_examples(self, images, labels):
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            yield number, {"image": image[..., None], "label": int(label)}


def plain_tfds(
    builder: tfds.core.DatasetBuilder, num_classes: int, batch_size: int
) -> tf.data.Dataset:
    """Plain TFDS, mapped to float and one-hot as its guide says, not cached."""

    def values(image, label):
        return tf.cast(image, tf.float32), tf.one_hot(label, num_classes)

    dataset = builder.as_dataset(
        split="train", as_supervised=True, read_config=tfds.ReadConfig(try_autocache=False)
    )
    dataset = dataset.map(values, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.batch(batch_size).prefetch(tf.data.AUTOTUNE)
