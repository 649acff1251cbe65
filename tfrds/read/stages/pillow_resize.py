"""Resizes one image to the very pixels that Pillow gives, as `write/pixels.py` does at build.

Input:   image  uint8 [height, width, channels], 0..255
Output:  image  uint8 [image_size[0], image_size[1], channels], 0..255
Source:  Pillow's Image.resize(..., BILINEAR), Resample.c: a triangle over all that a pixel covers,
         its weights normalised in double precision and rounded to 22 bits, each axis for itself and
         rounded to 8 bits. Here the sums are exact too, in int32. The order of the axes is that of
         Pillow 13; older ones always resize the width first, which changes some pixels by 1.
"""

import dataclasses

import tensorflow as tf

from tfrds.read.stages.boxes import crop_box, pad_box, shrink_size, size_of

_PRECISION_BITS = 32 - 8 - 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class PillowResize:
    """The stage.

    Attributes:
      image_size: (height, width) in pixels.
      resize: "stretch", "crop" or "pad", as `geometry.py` defines them.
      background: one value for each channel, 0..255, around a padded image.
    """

    image_size: tuple[int, int]
    resize: str = "stretch"
    background: tuple[int, ...] = ()

    def __call__(self, image: tf.Tensor) -> tf.Tensor:
        """Returns the image in the new size."""
        target_h, target_w = self.image_size
        if self.resize == "crop":
            top, left, height, width = crop_box(*size_of(image), target_h, target_w)
            image = image[top : top + height, left : left + width]
        if self.resize != "pad":
            resized = resize_to(image, target_h, target_w)
        else:
            top, left, height, width = pad_box(*size_of(image), target_h, target_w)
            inner = resize_to(image, height, width)
            margins = [[top, target_h - height - top], [left, target_w - width - left], [0, 0]]
            colour = tf.constant(self.background, tf.uint8)
            # Around the difference to the background, which wraps around in uint8, are zeros.
            resized = tf.pad(inner - colour, margins) + colour
        return tf.ensure_shape(resized, (target_h, target_w, image.shape[-1]))


def shrink(image: tf.Tensor, shorter_side: int) -> tf.Tensor:
    """Returns the image with at most `shorter_side` pixels on its shorter side."""
    return resize_to(image, *shrink_size(*size_of(image), shorter_side))


def resize_to(image: tf.Tensor, height: tf.Tensor | int, width: tf.Tensor | int) -> tf.Tensor:
    """Returns uint8 [height, width, channels]."""
    height, width = tf.cast(height, tf.int64), tf.cast(width, tf.int64)
    old_height, old_width = size_of(image)
    cut = old_height - height
    return tf.cond(
        (cut > 0) & (cut > 2 * (old_width - width)),
        lambda: _pass(_pass(image, height, axis=0), width, axis=1),
        lambda: _pass(_pass(image, width, axis=1), height, axis=0),
    )


def _pass(image: tf.Tensor, length: tf.Tensor, axis: int) -> tf.Tensor:
    """Returns the image with `length` pixels along one axis."""
    length = tf.cast(length, tf.int32)
    count = tf.shape(image)[axis]
    along = (1, -1, 1) if axis == 1 else (-1, 1, 1)
    shape = tf.tensor_scatter_nd_update(tf.shape(image), [[axis]], [length])

    def resized() -> tf.Tensor:
        firsts, weights = _weights(count, length)

        def add(tap: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # What lies beyond the last pixel has a weight of 0.
            pixels = tf.gather(image, tf.minimum(firsts + tap, count - 1), axis=axis)
            weight = tf.reshape(weights[tap], along)
            return tap + 1, total + tf.cast(pixels, tf.int32) * weight

        half = tf.fill(shape, 1 << (_PRECISION_BITS - 1))
        unknown = tf.TensorShape([None, None, image.shape[-1]])
        _, total = tf.while_loop(
            lambda tap, _: tap < tf.shape(weights)[0],
            add,
            (0, tf.ensure_shape(half, unknown)),
            shape_invariants=(tf.TensorShape([]), unknown),
        )
        levels = tf.bitwise.right_shift(total, _PRECISION_BITS)
        return tf.cast(tf.minimum(levels, 255), tf.uint8)

    # A pass over an axis that keeps its size changes nothing; Pillow leaves it out too.
    return tf.cond(tf.equal(count, length), lambda: image, resized)


def _weights(count: tf.Tensor, length: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns what each of `length` pixels is made of, where there were `count`.

    That is int32 [length], the first pixel of each, and int32 [taps, length], the weights of those
    that follow, in units of 2^-22. The order of the operations decides the last bits, so it is
    Pillow's.
    """
    scale = tf.cast(count, tf.float64) / tf.cast(length, tf.float64)
    support = tf.maximum(scale, 1.0)
    centers = (tf.cast(tf.range(length), tf.float64) + 0.5) * scale
    firsts = tf.maximum(tf.cast(centers - support + 0.5, tf.int32), 0)
    ends = tf.minimum(tf.cast(centers + support + 0.5, tf.int32), count)
    taps = tf.cast(tf.math.ceil(support), tf.int32) * 2 + 1
    places = firsts + tf.range(taps)[:, tf.newaxis]
    distances = tf.abs((tf.cast(places, tf.float64) - centers + 0.5) * (1.0 / support))
    shares = tf.where((distances < 1.0) & (places < ends), 1.0 - distances, 0.0)
    # A cumulative sum adds one after the other, as Pillow does.
    shares = shares / tf.cumsum(shares)[-1]
    return firsts, tf.cast(0.5 + shares * (1 << _PRECISION_BITS), tf.int32)
