"""What every random stage of augmentation is: drawn in numpy, applied to batches in the graph.

A stage says how many uniform numbers it needs of each example. `draw` turns them into parameters,
with the sizes of the images at hand, and `__call__` applies those. So the randomness depends on
(seed, epoch, position) alone, and compiled and plain graphs get the same.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfrds.checks import is_number, parse_numbers
from tfrds.errors import ConfigError

Boxes = NDArray[np.int64]


class BatchStage(ABC):
    """A stage for batches of images of one size.

    Attributes:
      num_uniforms: random numbers that each example needs.
      num_parameters: what `draw` makes of them.
      is_mixing: whether it makes one example of two, which has no weight of its own.
    """

    num_uniforms: ClassVar[int]
    num_parameters: ClassVar[int]
    is_mixing: ClassVar[bool] = False

    @abstractmethod
    def draw(
        self, uniforms: NDArray[np.float64], heights: NDArray[np.int64], widths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Returns [n, num_parameters], each exact as float32.

        Args:
          uniforms: float64 [n, num_uniforms], 0 <= u < 1.
          heights: of the images, in pixels [n].
          widths: likewise.
        """

    @abstractmethod
    def __call__(
        self, images: tf.Tensor, labels: tf.Tensor, parameters: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images and labels.

        Args:
          images: uint8 or float32 [batch, height, width, channels], 0..255.
          labels: [batch, ...], by `label_mode`.
          parameters: float32 [batch, num_parameters].
        """

    def check(  # noqa: B027 - most stages have nothing to check
        self, channels: int, label_mode: str, batch_size: int | None
    ) -> None:
        """Raises ConfigError where the stage cannot serve such a dataset.

        Args:
          channels: of the images.
          label_mode: of the labels.
          batch_size: None: single examples.
        """


class CropStage(ABC):
    """A stage that cuts a box out of each image, while it is fetched or decoded where it can.

    Attributes:
      num_uniforms: random numbers that each example needs.
      is_resized: whether the boxes, of any size, are resized to one size; else all have it.
    """

    num_uniforms: ClassVar[int]
    is_resized: ClassVar[bool] = False
    image_size: Any
    fill: Any = 0

    @abstractmethod
    def boxes(
        self, uniforms: NDArray[np.float64], heights: NDArray[np.int64], widths: NDArray[np.int64]
    ) -> Boxes:
        """Returns int64 [n, 4]: (top, left, height, width) of each box.

        Boxes that are not resized may reach beyond their image; `fill` is what lies there.

        Args:
          uniforms: float64 [n, num_uniforms], 0 <= u < 1.
          heights: of the images, in pixels [n].
          widths: likewise.
        """


def draw_boxes(
    uniforms: NDArray[np.float64],
    heights: NDArray[np.int64],
    widths: NDArray[np.int64],
    scale: tuple[float, float],
    ratio: tuple[float, float],
) -> tuple[Boxes, NDArray[np.bool_]]:
    """Returns boxes of a random area and aspect ratio, and which of them fit into their image.

    The area is uniform in `scale` times the image's, the aspect ratio (width / height) uniform in
    its logarithm; of ten such pairs the first that fits is taken, at a place uniform among all.

    Args:
      uniforms: float64 [n, 22].
      heights: of the images [n].
      widths: likewise.
      scale: (low, high) of the area.
      ratio: (low, high) of the aspect ratio.

    Source: the crop of "Going Deeper with Convolutions" (Szegedy et al. 2014) as torchvision's
    RandomResizedCrop defines it.
    """
    count = len(uniforms)
    tries = uniforms[:, : 2 * NUM_TRIES].reshape(count, NUM_TRIES, 2)
    areas = (heights * widths)[:, np.newaxis] * (scale[0] + tries[..., 0] * (scale[1] - scale[0]))
    low, high = np.log(ratio)
    aspects = np.exp(low + tries[..., 1] * (high - low))
    tried_widths = np.rint(np.sqrt(areas * aspects)).astype(np.int64)
    tried_heights = np.rint(np.sqrt(areas / aspects)).astype(np.int64)
    fits = (
        (tried_widths >= 1)
        & (tried_heights >= 1)
        & (tried_widths <= widths[:, np.newaxis])
        & (tried_heights <= heights[:, np.newaxis])
    )
    chosen = np.arange(count), fits.argmax(axis=1)
    box_heights, box_widths = tried_heights[chosen], tried_widths[chosen]
    places = uniforms[:, 2 * NUM_TRIES :]
    tops = np.floor(places[:, 0] * (heights - box_heights + 1)).astype(np.int64)
    lefts = np.floor(places[:, 1] * (widths - box_widths + 1)).astype(np.int64)
    return np.stack([tops, lefts, box_heights, box_widths], axis=1), fits.any(axis=1)


NUM_TRIES = 10
BOX_UNIFORMS = 2 * NUM_TRIES + 2


def parse_pair(
    where: str, value: object, low: float = -math.inf, high: float = math.inf
) -> tuple[float, float]:
    """Returns (first, second), `low` <= first <= second <= `high`.

    Raises:
      ConfigError: not two numbers, or out of this order.
    """
    pair = parse_numbers(value)
    if pair is None or len(pair) != 2 or not low <= pair[0] <= pair[1] <= high:
        bounds = "" if math.isinf(low) else f", from {low:g} to {high:g}"
        raise ConfigError(f"{where}: expected (low, high){bounds}, got {value!r}.")
    return pair[0], pair[1]


def parse_number(where: str, value: Any, low: float, high: float = math.inf) -> float:
    """Returns a number from `low` to `high`.

    Raises:
      ConfigError: anything else.
    """
    if not is_number(value) or not low <= value <= high:
        bounds = f"of at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise ConfigError(f"{where}: expected a number {bounds}, got {value!r}.")
    return float(value)


def parse_fill(where: str, value: Any) -> tuple[float, ...]:
    """Returns the colour that fills what is missing: one value of 0..255, or one for each channel.

    Raises:
      ConfigError: anything else.
    """
    values = parse_numbers((value,) if is_number(value) else value)
    if not values or not all(0 <= one <= 255 for one in values):
        raise ConfigError(
            f"{where}: expected a number from 0 to 255, or one for each channel, got {value!r}."
        )
    return values
