"""`geometry.py` in graph operations: where pixels go when an image changes its size.

Gets sizes in pixels, integers or int64 tensors, height before width; gives int64 tensors. The
formulas are those of `geometry.py`, which explains them. Used by `resize.py` and
`pillow_resize.py`.
"""

from typing import Any

import tensorflow as tf

Side = Any  # an integer or a tensor int64 []
Box = tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]


def size_of(images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (height, width) of images [..., height, width, channels]."""
    height, width = tf.unstack(tf.cast(tf.shape(images)[-3:-1], tf.int64))
    return height, width


def crop_box(height: Side, width: Side, target_h: Side, target_w: Side) -> Box:
    """Returns (top, left, box_h, box_w) as `geometry.crop_box`."""
    is_tall = height * target_w >= width * target_h
    box_h = tf.where(is_tall, _scale(width, target_h, target_w), height)
    box_w = tf.where(is_tall, width, _scale(height, target_w, target_h))
    return (height - box_h) // 2, (width - box_w) // 2, box_h, box_w


def pad_box(height: Side, width: Side, target_h: Side, target_w: Side) -> Box:
    """Returns (top, left, inner_h, inner_w) as `geometry.pad_box`."""
    is_tall = height * target_w >= width * target_h
    inner_h = tf.where(is_tall, tf.cast(target_h, tf.int64), _scale(target_w, height, width))
    inner_w = tf.where(is_tall, _scale(target_h, width, height), tf.cast(target_w, tf.int64))
    return (target_h - inner_h) // 2, (target_w - inner_w) // 2, inner_h, inner_w


def shrink_size(height: Side, width: Side, shorter_side: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (height, width) as `geometry.shrink_size`."""
    is_tall = height > width
    shrunk_h = tf.where(
        is_tall, _scale(shorter_side, height, width), tf.constant(shorter_side, tf.int64)
    )
    shrunk_w = tf.where(
        is_tall, tf.constant(shorter_side, tf.int64), _scale(shorter_side, width, height)
    )
    is_small = tf.minimum(height, width) <= shorter_side
    return tf.where(is_small, height, shrunk_h), tf.where(is_small, width, shrunk_w)


def _scale(side: Side, numerator: Side, denominator: Side) -> tf.Tensor:
    return tf.maximum(
        tf.cast(1, tf.int64), (2 * side * numerator + denominator) // (2 * denominator)
    )
