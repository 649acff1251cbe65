"""Values that make sense under `tfds.testing.mock_data`: it fills every float with 0..1.

Gets what TFDS's mock yields, gives pixels of 0..255 and labels of their kind; `image_builder.py`
calls it.
"""

from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds
import tree

from tfrds.features import BinaryLabel, Image, Label, MultiLabel


def realistic(mocked: Any, info: tfds.core.DatasetInfo, *, as_supervised: bool = False) -> Any:
    """Returns mocked datasets with the values that real ones have; tensors as they are.

    Args:
      mocked: what TFDS gives, in any structure.
      info: of the dataset.
      as_supervised: whether elements are tuples, where there are labels.
    """
    features = dict(info.features.items())
    keys = info.supervised_keys if as_supervised else None

    def change(*element: Any) -> Any:
        if keys is None:
            return {key: _value(value, features.get(key)) for key, value in element[0].items()}
        return tuple(_value(value, features[key]) for key, value in zip(keys, element, strict=True))

    def changed(one: Any) -> Any:
        # Of a whole split, batch_size=-1, there are tensors.
        return one.map(change) if isinstance(one, tf.data.Dataset) else one

    return tree.map_structure(changed, mocked)


def _value(value: tf.Tensor, feature: Any) -> tf.Tensor:
    if isinstance(feature, Image):
        return tf.floor(value * 255.999)
    if isinstance(feature, BinaryLabel | MultiLabel):
        return tf.round(value)
    return _one_hot(value) if isinstance(feature, Label) else value


def _one_hot(label: tf.Tensor) -> tf.Tensor:
    row = tf.one_hot(tf.argmax(label, axis=-1), tf.shape(label)[-1])
    return tf.ensure_shape(row, label.shape)
