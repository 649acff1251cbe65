"""Erases a random box of images.

Input:   images  uint8 or float32 [batch, height, width, channels], 0..255
Output:  images  of the same dtype and shape
Source:  "Random Erasing Data Augmentation" (Zhong et al. 2017), as torchvision's RandomErasing.
"""

import dataclasses
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfrds.errors import ConfigError
from tfrds.read.stages.stage import (
    BOX_UNIFORMS,
    BatchStage,
    draw_boxes,
    parse_fill,
    parse_number,
    parse_pair,
)


@dataclasses.dataclass(frozen=True)
class RandomErasing(BatchStage):
    """Fills a box of random area and aspect ratio with one colour, in some of the images.

    Args:
      probability: of an image, 0..1. Where none of ten boxes fits, it stays whole.
      scale: (low, high) of the box's area, as a share of the image's.
      ratio: (low, high) of its width / height, uniform in the logarithm.
      fill: 0..255, one value or one for each channel. As values are made after augmentation, the
        mean of the data becomes 0 where they are normalised by it.

    Raises:
      ConfigError: a value out of its range.
    """

    probability: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    fill: Any = 0

    num_uniforms: ClassVar[int] = BOX_UNIFORMS + 1
    num_parameters: ClassVar[int] = 4

    def __post_init__(self) -> None:
        name = "RandomErasing."
        probability = parse_number(f"{name}probability", self.probability, 0, 1)
        object.__setattr__(self, "probability", probability)
        object.__setattr__(self, "scale", parse_pair(f"{name}scale", self.scale, 0, 1))
        object.__setattr__(self, "ratio", parse_pair(f"{name}ratio", self.ratio, 0.01, 100))
        object.__setattr__(self, "fill", parse_fill(f"{name}fill", self.fill))

    def check(self, channels: int, label_mode: str, batch_size: int | None) -> None:
        """Raises ConfigError where `fill` has other channels than the images."""
        if len(self.fill) not in (1, channels):
            raise ConfigError(
                f"augment: RandomErasing.fill has {len(self.fill)} values, the images have "
                f"{channels} channels. Pass one, or one for each channel."
            )

    def draw(
        self, uniforms: NDArray[np.float64], heights: NDArray[np.int64], widths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Returns top, left, bottom and right of each box, all 0 where nothing is erased."""
        boxes, fits = draw_boxes(uniforms[:, 1:], heights, widths, self.scale, self.ratio)
        is_erased = fits & (uniforms[:, 0] < self.probability)
        ends = boxes[:, :2] + boxes[:, 2:]
        corners = np.concatenate([boxes[:, :2], ends], axis=1).astype(np.float64)
        return np.where(is_erased[:, np.newaxis], corners, 0)

    def __call__(
        self, images: tf.Tensor, labels: tf.Tensor, parameters: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the images with their boxes filled, and the labels as they are."""
        fill = tf.constant(self.fill)
        if images.dtype != tf.float32:
            fill = tf.saturate_cast(tf.round(fill), images.dtype)
        return tf.where(is_inside(images, parameters), fill, images), labels


def is_inside(images: tf.Tensor, corners: tf.Tensor) -> tf.Tensor:
    """Returns bool [batch, height, width, 1]: whether a pixel lies in its image's box.

    Args:
      images: [batch, height, width, channels].
      corners: float32 [batch, 4], top, left, bottom and right, the last two excluded.
    """
    top, left, bottom, right = (
        corners[:, number, tf.newaxis, tf.newaxis, tf.newaxis] for number in range(4)
    )
    shape = tf.shape(images)
    rows = tf.cast(tf.range(shape[1]), tf.float32)[tf.newaxis, :, tf.newaxis, tf.newaxis]
    columns = tf.cast(tf.range(shape[2]), tf.float32)[tf.newaxis, tf.newaxis, :, tf.newaxis]
    return (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
