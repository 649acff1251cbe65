"""Resizes images to one size.

Input:   images  uint8 or float32 [height, width, channels] or [batch, height, width, channels]
Output:  images  float32, [image_size[0], image_size[1], channels] for the last three dimensions,
         0..255, not rounded
Source:  tf.image.resize. Bilinear without antialiasing is Keras's and TensorFlow's own default, so
         values equal theirs; "antialias" is Pillow's bilinear, "area" the mean of the covered area.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resize:
    """The stage.

    Attributes:
      image_size: (height, width) in pixels.
      resize: "stretch", "crop" or "pad", as `geometry.py` defines them.
      background: one value for each channel, 0..255, around a padded image.
      interpolation: "bilinear", "area" or "antialias".
    """

    image_size: tuple[int, int]
    resize: str = "stretch"
    background: tuple[int, ...] = ()
    interpolation: str = "bilinear"

    @property
    def may_decode_smaller(self) -> bool:
        """Whether large JPEGs are decoded smaller first; "bilinear" keeps TensorFlow's values."""
        return self.interpolation != "bilinear"

    def decode_ratios(
        self, heights: NDArray[Any], widths: NDArray[Any], is_jpeg: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Returns 1, 2, 4 or 8 for each image: by how much it may be decoded smaller.

        The largest that keeps both sides at or above the target: faster than decoding whole, and
        closer to a resize of the whole image than a larger step of the small resize would be.
        """
        if not self.may_decode_smaller:
            return np.ones(len(heights), np.int64)
        larger = np.maximum if self.resize == "pad" else np.minimum
        factors = larger(heights / self.image_size[0], widths / self.image_size[1])
        powers = np.clip(np.floor(np.log2(np.maximum(factors, 1))), 0, 3).astype(np.int64)
        return np.where(is_jpeg, 1 << powers, 1)

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """Returns the images in the new size."""
        target_h, target_w = self.image_size
        if self.resize == "stretch":
            return self._to(images, self.image_size)
        height, width = tf.unstack(tf.cast(tf.shape(images)[-3:-1], tf.int64))
        is_tall = height * target_w >= width * target_h
        if self.resize == "crop":
            box_h = tf.where(is_tall, _scale(width, target_h, target_w), height)
            box_w = tf.where(is_tall, width, _scale(height, target_w, target_h))
            top, left = (height - box_h) // 2, (width - box_w) // 2
            box = images[..., top : top + box_h, left : left + box_w, :]
            return self._to(box, self.image_size)
        inner_h = tf.where(
            is_tall, tf.constant(target_h, tf.int64), _scale(target_w, height, width)
        )
        inner_w = tf.where(
            is_tall, _scale(target_h, width, height), tf.constant(target_w, tf.int64)
        )
        top, left = (target_h - inner_h) // 2, (target_w - inner_w) // 2
        inner = self._to(images, tf.cast(tf.stack([inner_h, inner_w]), tf.int32))
        colour = tf.constant([float(value) for value in self.background])
        # Padded with zeros around the difference to the background, so that one operation fills any
        # colour.
        margins = [[top, target_h - inner_h - top], [left, target_w - inner_w - left], [0, 0]]
        if images.shape.rank == 4:
            margins = [[0, 0], *margins]
        padded = tf.pad(inner - colour, margins) + colour
        return tf.ensure_shape(
            padded, (*images.shape[:-3], target_h, target_w, len(self.background))
        )

    def _to(self, images: tf.Tensor, size: tf.Tensor | tuple[int, int]) -> tf.Tensor:
        if self.interpolation == "area":
            return tf.image.resize(images, size, method="area")
        return tf.image.resize(images, size, antialias=self.interpolation == "antialias")


def _scale(
    side: tf.Tensor | int, numerator: tf.Tensor | int, denominator: tf.Tensor | int
) -> tf.Tensor:
    return tf.maximum(
        tf.cast(1, tf.int64), (2 * side * numerator + denominator) // (2 * denominator)
    )
