"""All stages of one dataset's augmentation: their random numbers, and one call for a batch.

Gets what the user listed; gives the crop, whose boxes `pipeline.py` hands to fetch and decode, and
for what follows it the parameters (numpy, a batch at a time) and the graph function, which ends
with the values. Neighbouring stages of ours and the values are compiled into one function.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfrds.errors import ConfigError
from tfrds.read.randomness import uniforms
from tfrds.read.stages.compiled import has_compiler
from tfrds.read.stages.stage import BatchStage, Boxes, CropStage
from tfrds.read.stages.values import Values


@dataclasses.dataclass(frozen=True, kw_only=True)
class Augmentation:
    """The stages of one dataset.

    Attributes:
      crop: cuts a box out of each image before it is in a batch.
      stages: what is applied to batches, in this order: `BatchStage`s, Keras layers and functions
        of (images, labels).
      seed: of all random numbers.
    """

    crop: CropStage | None = None
    stages: tuple[Any, ...] = ()
    seed: int = 0

    @property
    def num_parameters(self) -> int:
        """Numbers of each example that `draw` gives."""
        return sum(stage.num_parameters for _, stage in self._ours())

    @property
    def has_foreign(self) -> bool:
        """Whether some stages are Keras layers or functions."""
        return not all(isinstance(stage, BatchStage) for stage in self.stages)

    def boxes(
        self,
        epoch: int,
        positions: NDArray[np.int64],
        heights: NDArray[np.int64],
        widths: NDArray[np.int64],
    ) -> Boxes:
        """Returns int64 [n, 4], the boxes of the crop; see `CropStage.boxes`.

        Args:
          epoch: counted from 0.
          positions: int64 [n], of the examples in the order of the epoch.
          heights: of the images that are cut, in pixels [n].
          widths: likewise.
        """
        if self.crop is None:
            raise ValueError("there is no crop")
        drawn = uniforms(self.seed, epoch, positions, 0, self.crop.num_uniforms)
        return self.crop.boxes(drawn, heights, widths)

    def draw(
        self,
        epoch: int,
        positions: NDArray[np.int64],
        heights: NDArray[np.int64],
        widths: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        """Returns float32 [n, num_parameters], those of all stages side by side.

        Args:
          epoch: counted from 0.
          positions: int64 [n], of the examples in the order of the epoch.
          heights: of the images in the batch, in pixels [n].
          widths: likewise.
        """
        drawn = [
            stage.draw(
                uniforms(self.seed, epoch, positions, number, stage.num_uniforms), heights, widths
            )
            for number, stage in self._ours()
        ]
        return np.concatenate(drawn, axis=1).astype(np.float32)

    def __call__(
        self,
        images: tf.Tensor,
        labels: tf.Tensor | None,
        parameters: tf.Tensor | None,
        values: Values,
        *,
        is_one_shape: bool,
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Returns the model's images and labels.

        Args:
          images: uint8 or float32 [batch, height, width, channels], 0..255, or one without batch.
          labels: as `Values` takes them, with or without batch; None where there are none.
          parameters: float32 [batch, num_parameters] or [num_parameters], where there are any.
          values: of pixels and labels.
          is_one_shape: whether all calls are for images of one shape; code is compiled for each.
        """
        if not self.stages:
            return values(images, labels, is_one_shape=is_one_shape)
        if images.shape.rank == 3:
            batch = (
                images[tf.newaxis],
                None if labels is None else labels[tf.newaxis],
                None if parameters is None else parameters[tf.newaxis],
            )
            images, labels = self(*batch, values, is_one_shape=is_one_shape)
            return images[0], None if labels is None else labels[0]
        labels = values.labels(labels)
        waiting: list[BatchStage] = []
        first = 0  # parameter of the first stage that waits

        def run(values: Values | None) -> None:
            nonlocal images, labels, first
            count = sum(stage.num_parameters for stage in waiting)
            part = None if parameters is None else parameters[:, first : first + count]
            function = _compiled if is_one_shape else _plain
            images, labels = function(tuple(waiting), values)(images, labels, part)
            first += count
            waiting.clear()

        for stage in self.stages:
            if isinstance(stage, BatchStage):
                waiting.append(stage)
            else:
                run(None)
                images, labels = _call_foreign(stage, images, labels)
        run(values)
        return images, labels

    def _ours(self) -> list[tuple[int, BatchStage]]:
        """Returns our stages with the number of the stream of random numbers, 0 for the crop."""
        return [
            (number, stage)
            for number, stage in enumerate(self.stages, 1)
            if isinstance(stage, BatchStage)
        ]


def parse_augmentation(
    stages: Sequence[Any],
    *,
    seed: int,
    channels: int,
    label_mode: str,
    batch_size: int | None,
) -> Augmentation:
    """Returns the stages of a list, checked against the dataset.

    Args:
      stages: as the read option `augment` gives them.
      seed: of the random numbers.
      channels: of the images.
      label_mode: of the labels.
      batch_size: None: single examples.

    Raises:
      ConfigError: a crop that is not the first, or a stage that cannot serve such a dataset.
    """
    crop = stages[0] if stages and isinstance(stages[0], CropStage) else None
    rest = tuple(stages[1:] if crop else stages)
    for stage in rest:
        if isinstance(stage, CropStage):
            raise ConfigError(
                f"augment: {type(stage).__name__} crops while images are fetched and decoded, so "
                "it can only be the first stage, and the only one that crops, got "
                f"{[_name(one) for one in stages]}."
            )
        if isinstance(stage, BatchStage):
            stage.check(channels, label_mode, batch_size)
        elif not callable(stage) or isinstance(stage, type):
            raise ConfigError(
                "augment: expected stages of tfrds.augment, Keras layers or functions of (images, "
                f"labels), got {stage!r}."
            )
    fill = () if crop is None or crop.is_resized else crop.fill
    if len(fill) > 1 and len(fill) != channels:
        raise ConfigError(
            f"augment: {type(crop).__name__}.fill has {len(fill)} values, the images have "
            f"{channels} channels. Pass one, or one for each channel."
        )
    return Augmentation(crop=crop, stages=rest, seed=seed)


def _name(stage: Any) -> str:
    return str(getattr(stage, "__name__", type(stage).__name__))


def _call_foreign(
    stage: Callable[..., Any], images: tf.Tensor, labels: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor | None]:
    images = tf.cast(images, tf.float32)
    if _is_keras_layer(stage):
        return stage(images, training=True), labels
    # AutoGraph is kept from our own functions, but a user may rely on it.
    result = tf.function(stage)(images, labels)
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise ConfigError(
            f"augment: {_name(stage)} must return (images, labels), got {type(result).__name__}."
        )
    return result[0], result[1]


def _is_keras_layer(stage: Any) -> bool:
    # Whoever made a layer has imported its package.
    return any(
        isinstance(stage, package.layers.Layer)
        for package in map(sys.modules.get, ("keras", "tf_keras"))
        if package is not None
    )


def _plain(
    stages: tuple[BatchStage, ...], values: Values | None
) -> Callable[..., tuple[tf.Tensor, tf.Tensor | None]]:
    """Returns a function of (images, labels, parameters), which ends with `values`."""

    def apply(
        images: tf.Tensor, labels: tf.Tensor | None, parameters: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        first = 0
        for stage in stages:
            last = first + stage.num_parameters
            part = None if parameters is None else parameters[:, first:last]
            images, labels = stage(images, labels, part)
            first = last
        return (values.pixels(images) if values else images), labels

    return apply


@functools.cache
def _compiled(
    stages: tuple[BatchStage, ...], values: Values | None
) -> Callable[..., tuple[tf.Tensor, tf.Tensor | None]]:
    """Returns the same compiled by XLA; pipelines of a process share it, as it is never freed.

    A flip of 224 x 224 takes 1.2 times a copy this way, 13 times by plain operations.
    """
    if not stages and (values is None or values.is_mere_cast):
        return _plain(stages, values)
    compiled: Callable[..., tuple[tf.Tensor, tf.Tensor | None]] = tf.function(
        _plain(stages, values), jit_compile=has_compiler(), autograph=False
    )
    return compiled
