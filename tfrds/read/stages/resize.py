"""Resizes images to one size.

Input:   images  uint8 or float32 [height, width, channels] or [batch, height, width, channels],
0..255
Output:  images  float32, [image_size[0], image_size[1], channels] for the last three dimensions,
not rounded
Source:  tf.image.resize, bilinear without antialiasing: Keras's and TensorFlow's own, so values
equal theirs.
"""

from collections.abc import Sequence

import tensorflow as tf


def resize_images(
    images: tf.Tensor, image_size: tuple[int, int], resize: str, background: Sequence[int]
) -> tf.Tensor:
    """Resizes as `geometry.py` defines "stretch", "crop" and "pad".

    Args:
      images: see the module.
      image_size: (height, width) in pixels.
      resize: "stretch", "crop" or "pad".
      background: one value for each channel, 0..255, around a padded image.
    """
    target_h, target_w = image_size
    if resize == "stretch":
        return tf.image.resize(images, image_size)
    height, width = tf.unstack(tf.cast(tf.shape(images)[-3:-1], tf.int64))
    is_tall = height * target_w >= width * target_h
    if resize == "crop":
        box_h = tf.where(is_tall, _scale(width, target_h, target_w), height)
        box_w = tf.where(is_tall, width, _scale(height, target_w, target_h))
        top, left = (height - box_h) // 2, (width - box_w) // 2
        return tf.image.resize(images[..., top : top + box_h, left : left + box_w, :], image_size)
    inner_h = tf.where(is_tall, tf.constant(target_h, tf.int64), _scale(target_w, height, width))
    inner_w = tf.where(is_tall, _scale(target_h, width, height), tf.constant(target_w, tf.int64))
    top, left = (target_h - inner_h) // 2, (target_w - inner_w) // 2
    inner = tf.image.resize(images, tf.cast(tf.stack([inner_h, inner_w]), tf.int32))
    colour = tf.constant([float(value) for value in background])
    # Padded with zeros around the difference to the background, so that one operation fills any
    # colour.
    margins = [[top, target_h - inner_h - top], [left, target_w - inner_w - left], [0, 0]]
    if images.shape.rank == 4:
        margins = [[0, 0], *margins]
    padded = tf.pad(inner - colour, margins) + colour
    return tf.ensure_shape(padded, (*images.shape[:-3], target_h, target_w, len(background)))


def _scale(
    side: tf.Tensor | int, numerator: tf.Tensor | int, denominator: tf.Tensor | int
) -> tf.Tensor:
    return tf.maximum(
        tf.cast(1, tf.int64), (2 * side * numerator + denominator) // (2 * denominator)
    )
