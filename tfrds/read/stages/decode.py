"""Decodes one stored image; the only place that knows how bytes become pixels.

Input:   data   string [], raw pixels, JPEG or 8-bit PNG
Output:  image  uint8 [height, width, channels], 0..255
Source:  tf.io.decode_jpeg, whose kernel looks at the first bytes and decodes PNG as well. Its DCT
         method INTEGER_ACCURATE is bit-identical to Pillow, simplejpeg and OpenCV, at 0.98 of the
         speed of TensorFlow's default.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def decode_encoded(data: tf.Tensor, channels: int) -> tf.Tensor:
    """Returns uint8 [height, width, channels] from a JPEG or PNG.

    A gray image is repeated in each channel.
    """
    return tf.io.decode_jpeg(data, channels=channels, dct_method="INTEGER_ACCURATE")


def decode_smaller(data: tf.Tensor, channels: int, ratio: tf.Tensor) -> tf.Tensor:
    """Returns uint8 [height / ratio, width / ratio, channels], rounded up, from a JPEG or PNG.

    A JPEG is decoded at 1/ratio by its own transform (DCT), which skips most of the work.

    Args:
      data: string [].
      channels: of the image.
      ratio: int32 [], 1, 2, 4 or 8; 1 for a PNG.
    """

    def at(factor: int) -> Callable[[], tf.Tensor]:
        return lambda: tf.io.decode_jpeg(
            data, channels=channels, ratio=factor, dct_method="INTEGER_ACCURATE"
        )

    return tf.switch_case(ratio // 2 - ratio // 8, [at(1), at(2), at(4), at(8)])


def decode_box(
    data: tf.Tensor,
    channels: int,
    box: tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor],
    is_jpeg: tf.Tensor,
    ratio: tf.Tensor | None = None,
) -> tf.Tensor:
    """Returns uint8 [height, width, channels]: a box of the decoded image, the same pixels.

    Of a JPEG only what the box needs is decoded.

    Args:
      data: string [].
      channels: of the image.
      box: (top, left, height, width), each int32 [], inside the image as it is decoded.
      is_jpeg: bool []; else a PNG.
      ratio: as in `decode_smaller`; None: 1.
    """
    top, left, height, width = box
    # Colours of fewer pixels than brightness are smoothed from both sides, which at the edges of a
    # crop is not done: with one column more on each side its pixels are those of the whole image.
    before = tf.minimum(left, 1)

    def at(factor: int) -> Callable[[], tf.Tensor]:
        def decode() -> tf.Tensor:
            image_width = -(-tf.io.extract_jpeg_shape(data)[1] // factor)
            after = tf.minimum(image_width - left - width, 1)
            window = [top, left - before, height, before + width + after]
            decoded = tf.io.decode_and_crop_jpeg(
                data, window, channels=channels, ratio=factor, dct_method="INTEGER_ACCURATE"
            )
            return decoded[:, before : before + width]

        return decode

    def whole() -> tf.Tensor:
        return decode_encoded(data, channels)[top : top + height, left : left + width]

    if ratio is None:
        return tf.cond(is_jpeg, at(1), whole)
    branch = tf.where(is_jpeg, ratio // 2 - ratio // 8 + 1, 0)
    return tf.switch_case(branch, [whole, at(1), at(2), at(4), at(8)])


def decode_raw(data: tf.Tensor, shape: tuple[Any, Any, int]) -> tf.Tensor:
    """Returns uint8 `shape` from its pixels in row order."""
    return tf.reshape(tf.io.decode_raw(data, tf.uint8), shape)
