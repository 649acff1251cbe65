"""Mixes each example of a batch with another one, labels too.

Input:   images  uint8 or float32 [batch, height, width, channels], 0..255
         labels  float32 [batch, num_classes] or [batch, 1]
Output:  images  of the same shape; MixUp gives float32
         labels  of the same shape, in the same proportions

The other example is the one before it in the batch: their order is a permutation, so it is random.
"""

import dataclasses
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfrds.errors import ConfigError
from tfrds.read.randomness import beta
from tfrds.read.stages.erasing import is_inside
from tfrds.read.stages.stage import BatchStage, parse_number


@dataclasses.dataclass(frozen=True)
class MixUp(BatchStage):
    """Weighted means of two examples each.

    Args:
      alpha: the weight of an example is drawn from Beta(alpha, alpha), for each of its own.
      probability: of an example to be mixed, 0..1.

    Raises:
      ConfigError: a value out of its range.

    Source: "mixup: Beyond Empirical Risk Minimization" (Zhang et al. 2017).
    """

    alpha: float = 0.2
    probability: float = 1.0

    num_uniforms: ClassVar[int] = 2
    num_parameters: ClassVar[int] = 1
    is_mixing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _parse(self, "MixUp")

    def check(self, channels: int, label_mode: str, batch_size: int | None) -> None:
        """Raises ConfigError where there are no batches, or labels that cannot be mixed."""
        _check("MixUp", label_mode, batch_size)

    def draw(self, uniforms: NDArray[np.float64], heights: Any, widths: Any) -> NDArray[np.float64]:
        """Returns the weight of each example; 1 where it is not mixed."""
        return _weights(self, uniforms)[:, np.newaxis]

    def __call__(
        self, images: tf.Tensor, labels: tf.Tensor, parameters: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the mixed images and labels."""
        images = tf.cast(images, tf.float32)
        weights = parameters[:, :, tf.newaxis, tf.newaxis]
        others = tf.roll(images, 1, axis=0)
        return others + (images - others) * weights, _mix_labels(labels, parameters)


@dataclasses.dataclass(frozen=True)
class CutMix(BatchStage):
    """A box of each image shows another example.

    Args:
      alpha: the share of the image that stays is drawn from Beta(alpha, alpha), for each example of
        its own. The box has the image's aspect ratio, its centre is uniform over the image, and
        what of it lies outside is cut off; labels are mixed by what is seen.
      probability: of an example to be mixed, 0..1.

    Raises:
      ConfigError: a value out of its range.

    Source: "CutMix: Regularization Strategy to Train Strong Classifiers" (Yun et al. 2019).
    """

    alpha: float = 1.0
    probability: float = 1.0

    num_uniforms: ClassVar[int] = 4
    num_parameters: ClassVar[int] = 5
    is_mixing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _parse(self, "CutMix")

    def check(self, channels: int, label_mode: str, batch_size: int | None) -> None:
        """Raises ConfigError where there are no batches, or labels that cannot be mixed."""
        _check("CutMix", label_mode, batch_size)

    def draw(
        self, uniforms: NDArray[np.float64], heights: NDArray[np.int64], widths: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Returns top, left, bottom and right of each box, and the share of the image beside it."""
        side = np.sqrt(1 - _weights(self, uniforms[:, :2]))
        corners = []
        for lengths, centre in ((heights, uniforms[:, 2]), (widths, uniforms[:, 3])):
            middle, extent = np.floor(centre * lengths), np.floor(lengths * side)
            first = np.clip(middle - np.floor(extent / 2), 0, lengths)
            last = np.clip(middle - np.floor(extent / 2) + extent, 0, lengths)
            corners.append((first, last))
        (top, bottom), (left, right) = corners
        share = 1 - (bottom - top) * (right - left) / (heights * widths)
        return np.stack([top, left, bottom, right, share], axis=1)

    def __call__(
        self, images: tf.Tensor, labels: tf.Tensor, parameters: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the mixed images and labels."""
        others = tf.roll(images, 1, axis=0)
        images = tf.where(is_inside(images, parameters[:, :4]), others, images)
        return images, _mix_labels(labels, parameters[:, 4:])


def _parse(stage: Any, name: str) -> None:
    # Below 0.01 the numbers are 0 or 1, above 100 all near 0.5; the table holds neither.
    object.__setattr__(stage, "alpha", parse_number(f"{name}.alpha", stage.alpha, 0.01, 100))
    probability = parse_number(f"{name}.probability", stage.probability, 0, 1)
    object.__setattr__(stage, "probability", probability)


def _check(name: str, label_mode: str, batch_size: int | None) -> None:
    if batch_size is None:
        raise ConfigError(
            f"augment: {name} mixes the examples of a batch, got batch_size=None. Pass batch_size."
        )
    if label_mode == "int":
        raise ConfigError(
            f"augment: {name} mixes labels, and class numbers cannot be mixed, got "
            'label_mode="int". Pass label_mode="one_hot".'
        )
    if label_mode in ("value", "none"):
        raise ConfigError(
            f"augment: {name} mixes classes, got label_mode={label_mode!r}. Leave it out."
        )


def _weights(stage: Any, uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(uniforms[:, 0] < stage.probability, beta(uniforms[:, 1], stage.alpha), 1.0)


def _mix_labels(labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    others = tf.roll(labels, 1, axis=0)
    return others + (labels - others) * weights
