"""Mirrors images at random.

Input:   images  uint8 or float32 [batch, height, width, channels]
Output:  images  of the same dtype and shape
"""

import dataclasses
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfrds.checks import check_choice
from tfrds.read.stages.stage import BatchStage, parse_number

_MODES = ("horizontal", "vertical", "horizontal_and_vertical")


@dataclasses.dataclass(frozen=True)
class RandomFlip(BatchStage):
    """Mirrors each image with a probability of its own, left and right, top and bottom, or both.

    Args:
      mode: "horizontal", "vertical" or "horizontal_and_vertical", as `keras.layers.RandomFlip`.
      probability: of each direction, 0..1.

    Raises:
      ConfigError: a value out of its range.
    """

    mode: str = "horizontal"
    probability: float = 0.5

    num_uniforms: ClassVar[int] = 2
    num_parameters: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_choice("RandomFlip.mode", self.mode, _MODES)
        probability = parse_number("RandomFlip.probability", self.probability, 0, 1)
        object.__setattr__(self, "probability", probability)

    def draw(self, uniforms: NDArray[np.float64], heights: Any, widths: Any) -> NDArray[np.float64]:
        """Returns 1 where an image is mirrored, else 0: vertically, horizontally."""
        return (uniforms < self.probability).astype(np.float64)

    def __call__(
        self, images: tf.Tensor, labels: tf.Tensor, parameters: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the images mirrored, and the labels as they are."""
        for axis, name in ((1, "vertical"), (2, "horizontal")):
            if name in self.mode:
                is_mirrored = parameters[:, axis - 1, tf.newaxis, tf.newaxis, tf.newaxis] > 0
                images = tf.where(is_mirrored, tf.reverse(images, [axis]), images)
        return images, labels
