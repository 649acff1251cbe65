"""Changes brightness, contrast, saturation and hue at random.

Input:   images  uint8 or float32 [batch, height, width, channels], 0..255
Output:  images  float32, the same shape, 0..255
Source:  torchvision's ColorJitter and its formulas for float images, in a fixed order: brightness,
         contrast, saturation, hue. Its order is random; one for the whole batch lets the compiler
         join all of them into one pass over the pixels.
"""

import dataclasses
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfrds.checks import is_number
from tfrds.errors import ConfigError
from tfrds.read.stages.stage import BatchStage, parse_number, parse_pair

_LUMA = (0.2989, 0.587, 0.114)


@dataclasses.dataclass(frozen=True)
class ColorJitter(BatchStage):
    """Changes the colours of each image by factors of its own.

    Args:
      brightness: the pixels are multiplied by a factor of 1 - brightness to 1 + brightness, or from
        a pair (low, high); so are contrast and saturation.
      contrast: the distance from the image's mean gray.
      saturation: the distance from each pixel's gray; three channels only.
      hue: turned by -hue to hue of the whole circle, at most 0.5, or by a pair; three channels
        only.

    Raises:
      ConfigError: a value out of its range.
    """

    brightness: Any = 0.0
    contrast: Any = 0.0
    saturation: Any = 0.0
    hue: Any = 0.0

    num_uniforms: ClassVar[int] = 4
    num_parameters: ClassVar[int] = 4

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            value, where = getattr(self, name), f"ColorJitter.{name}"
            if is_number(value) or not isinstance(value, tuple | list):
                spread = parse_number(where, value, 0)
                value = (max(0.0, 1 - spread), 1 + spread)
            object.__setattr__(self, name, parse_pair(where, value, 0, 1e6))
        value = self.hue
        if is_number(value) or not isinstance(value, tuple | list):
            spread = parse_number("ColorJitter.hue", value, 0, 0.5)
            value = (-spread, spread)
        object.__setattr__(self, "hue", parse_pair("ColorJitter.hue", value, -0.5, 0.5))

    def check(self, channels: int, label_mode: str, batch_size: int | None) -> None:
        """Raises ConfigError where colours of images without colour are to change."""
        for name, unchanged in (("saturation", (1.0, 1.0)), ("hue", (0.0, 0.0))):
            if channels != 3 and getattr(self, name) != unchanged:
                raise ConfigError(
                    f"augment: ColorJitter.{name} changes colours of three channels, the images "
                    f"have {channels}. Leave it out."
                )

    def draw(self, uniforms: NDArray[np.float64], heights: Any, widths: Any) -> NDArray[np.float64]:
        """Returns the factors of brightness, contrast and saturation, and the turn of the hue."""
        bounds = np.array([self.brightness, self.contrast, self.saturation, self.hue])
        drawn: NDArray[np.float64] = bounds[:, 0] + uniforms * (bounds[:, 1] - bounds[:, 0])
        return drawn

    def __call__(
        self, images: tf.Tensor, labels: tf.Tensor, parameters: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the images in other colours, and the labels as they are."""
        images = tf.cast(images, tf.float32)
        brightness, contrast, saturation, hue = (
            parameters[:, number, tf.newaxis, tf.newaxis, tf.newaxis] for number in range(4)
        )
        if self.brightness != (1.0, 1.0):
            images = _clip(images * brightness)
        if self.contrast != (1.0, 1.0):
            mean = tf.reduce_mean(_gray(images), axis=[1, 2, 3], keepdims=True)
            images = _clip(mean + (images - mean) * contrast)
        if self.saturation != (1.0, 1.0):
            gray = _gray(images)
            images = _clip(gray + (images - gray) * saturation)
        if self.hue != (0.0, 0.0):
            images = _turn_hue(images, hue)
        return images, labels


def _clip(images: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(images, 0, 255)


def _gray(images: tf.Tensor) -> tf.Tensor:
    if images.shape[-1] != 3:
        return tf.reduce_mean(images, axis=-1, keepdims=True)
    # Channel by channel: the compiler makes a slow loop of a sum over three.
    red, green, blue = tf.unstack(images, axis=-1)
    return (red * _LUMA[0] + green * _LUMA[1] + blue * _LUMA[2])[..., tf.newaxis]


def _turn_hue(images: tf.Tensor, turn: tf.Tensor) -> tf.Tensor:
    """Returns colours whose hue in HSV is turned by `turn` of the circle.

    Each channel of the result is value - chroma * max(0, min(k, 4 - k, 1)), where k is the hue in
    sixths of the circle, plus 5, 3 or 1 for red, green or blue. Channel by channel and without the
    modulo operation, which takes six times as long.
    """
    red, green, blue = tf.unstack(images, axis=-1)
    value = tf.maximum(tf.maximum(red, green), blue)
    chroma = value - tf.minimum(tf.minimum(red, green), blue)
    divisor = tf.where(chroma > 0, chroma, 1)
    sixths = tf.where(
        red == value,
        (green - blue) / divisor,
        tf.where(green == value, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    sixths += turn[..., 0] * 6
    channels = []
    for offset in (5.0, 3.0, 1.0):
        k = sixths + offset
        k -= 6 * tf.floor(k / 6)
        share = tf.maximum(0.0, tf.minimum(tf.minimum(k, 4 - k), 1))
        channels.append(value - chroma * share)
    return tf.stack(channels, axis=-1)
