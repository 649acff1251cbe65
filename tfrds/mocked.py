"""Values that make sense under `tfds.testing.mock_data`: it fills every float with 0..1.

Gets what TFDS's mock yields, gives pixels of 0..255 and one-hot labels; `image_builder.py` calls
it.
"""

from typing import Any

import tensorflow as tf

from tfrds.write.run import IMAGE_KEY, LABEL_KEY


def realistic(mocked: Any) -> Any:
    """Returns a mocked dataset with the values that a real one has; tensors as they are."""
    if not isinstance(mocked, tf.data.Dataset):
        return mocked  # of a whole split, batch_size=-1
    return mocked.map(lambda *element: _element(element if len(element) > 1 else element[0]))


def _element(element: Any) -> Any:
    if isinstance(element, tuple):
        image, label = element
        return _pixels(image), _one_hot(label)
    changed = dict(element)
    changed[IMAGE_KEY] = _pixels(element[IMAGE_KEY])
    changed[LABEL_KEY] = _one_hot(element[LABEL_KEY])
    return changed


def _pixels(image: tf.Tensor) -> tf.Tensor:
    return tf.floor(image * 255.999)


def _one_hot(label: tf.Tensor) -> tf.Tensor:
    row = tf.one_hot(tf.argmax(label, axis=-1), tf.shape(label)[-1])
    return tf.ensure_shape(row, label.shape)
