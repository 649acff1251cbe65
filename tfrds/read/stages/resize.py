"""Resizes images to one size.

Input:   images  uint8 or float32 [height, width, channels] or [batch, height, width, channels]
Output:  images  float32, [image_size[0], image_size[1], channels] for the last three dimensions,
         0..255, not rounded
Source:  tf.image.resize. Bilinear without antialiasing is Keras's and TensorFlow's own default, so
         values equal theirs; "antialias" is Pillow's bilinear, "area" the mean of the covered area.
"""

import dataclasses

import tensorflow as tf

from tfrds.read.resolve import ResizeSpec
from tfrds.read.stages.boxes import crop_box, pad_box, size_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resize(ResizeSpec):
    """The stage."""

    def decode_ratio(self, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        """Returns `decode_ratios` of one JPEG, int32 [], in the graph.

        Args:
          height: of the JPEG, int64 [].
          width: likewise.
        """
        larger = tf.maximum if self.resize == "pad" else tf.minimum
        factor = larger(height // self.image_size[0], width // self.image_size[1])
        is_at_least = [tf.cast(factor >= ratio, tf.int32) for ratio in (2, 4, 8)]
        return 1 + is_at_least[0] + 2 * is_at_least[1] + 4 * is_at_least[2]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """Returns the images in the new size."""
        target_h, target_w = self.image_size
        if self.resize == "stretch":
            return self._to(images, self.image_size)
        sides = size_of(images)
        if self.resize == "crop":
            top, left, height, width = crop_box(*sides, target_h, target_w)
            box = images[..., top : top + height, left : left + width, :]
            return self._to(box, self.image_size)
        top, left, inner_h, inner_w = pad_box(*sides, target_h, target_w)
        inner = self._to(images, tf.cast(tf.stack([inner_h, inner_w]), tf.int32))
        colour = tf.constant([float(value) for value in self.background])
        # Padded with zeros around the difference to the background, so that one operation fills any
        # colour.
        margins = [[top, target_h - inner_h - top], [left, target_w - inner_w - left], [0, 0]]
        if images.shape.rank == 4:
            margins = [[0, 0], *margins]
        padded = tf.pad(inner - colour, margins) + colour
        # Told, not checked: the last batch of single examples is smaller than it is declared.
        padded.set_shape((*images.shape[:-3], target_h, target_w, len(self.background)))
        return padded

    def _to(self, images: tf.Tensor, size: tf.Tensor | tuple[int, int]) -> tf.Tensor:
        if self.interpolation == "area":
            return tf.image.resize(images, size, method="area")
        return tf.image.resize(images, size, antialias=self.interpolation == "antialias")
