"""Cuts a box out of each image: which box, in numpy; `decode.py` and `fetch.py` take it.

Input:   heights, widths  int64 [n], pixels, of the index
Output:  boxes            int64 [n, 4], (top, left, height, width)
"""

import dataclasses
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_int, parse_image_size
from tfrds.errors import ConfigError
from tfrds.read.stages.stage import (
    BOX_UNIFORMS,
    Boxes,
    CropStage,
    draw_boxes,
    parse_fill,
    parse_pair,
)


@dataclasses.dataclass(frozen=True)
class RandomResizedCrop(CropStage):
    """A box of random area and aspect ratio, resized to `image_size`; fused with JPEG's decode.

    The area is uniform in `scale` times the image's, the aspect ratio uniform in its logarithm, the
    place uniform among all. Where none of ten tries fits, the largest centred box whose aspect
    ratio is within `ratio`.

    Args:
      image_size: (height, width) of the result; one integer means a square. None: the read option
        `image_size`, else as the dataset declares.
      scale: (low, high) of the area, as a share of the image's.
      ratio: (low, high) of width / height.

    Raises:
      ConfigError: a value out of its range.

    Source: torchvision's RandomResizedCrop. TensorFlow's sample_distorted_bounding_box draws larger
    boxes too rarely: the mean area is 0.37 of the image, by the definition 0.43.
    """

    image_size: Any = None
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    num_uniforms: ClassVar[int] = BOX_UNIFORMS
    is_resized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        name = "RandomResizedCrop."
        size = parse_image_size(self.image_size, f"{name}image_size")
        object.__setattr__(self, "image_size", size)
        object.__setattr__(self, "scale", parse_pair(f"{name}scale", self.scale, 0, 1))
        object.__setattr__(self, "ratio", parse_pair(f"{name}ratio", self.ratio, 0.01, 100))

    def boxes(
        self, uniforms: NDArray[np.float64], heights: NDArray[np.int64], widths: NDArray[np.int64]
    ) -> Boxes:
        """Returns a box inside each image."""
        drawn, fits = draw_boxes(uniforms, heights, widths, self.scale, self.ratio)
        # One side is cut where the image is too wide or too tall, none where it is neither.
        low, high = self.ratio
        box_heights = np.minimum(heights, np.rint(widths / low)).astype(np.int64)
        box_widths = np.minimum(widths, np.rint(heights * high)).astype(np.int64)
        box_heights, box_widths = np.maximum(box_heights, 1), np.maximum(box_widths, 1)
        centred = _centred(heights, widths, box_heights, box_widths)
        return np.where(fits[:, np.newaxis], drawn, centred)


@dataclasses.dataclass(frozen=True)
class RandomCrop(CropStage):
    """A box of one size at a place uniform among all; on raw images only its bytes are copied.

    Args:
      image_size: (height, width) of the box; one integer means a square.
      padding: pixels, fewer than the box has, that the image is enlarged by on each side before: an
        integer, or (vertical, horizontal). An image that is smaller than the box even so is padded
        to its size.
      fill: of the padding, 0..255: one value, or one for each channel.

    Raises:
      ConfigError: a value out of its range.

    Source: torchvision's RandomCrop, with pad_if_needed.
    """

    image_size: Any
    padding: Any = 0
    fill: Any = 0

    num_uniforms: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _parse_fixed(self, "RandomCrop")
        pair = self.padding if isinstance(self.padding, tuple | list) else (self.padding,) * 2
        if len(pair) != 2:
            raise ConfigError(
                "RandomCrop.padding: expected an integer or (vertical, horizontal), got "
                f"{self.padding!r}."
            )
        for side, length in zip(pair, self.image_size, strict=True):
            # Below the box's side, so that each box shows something of its image.
            check_int("RandomCrop.padding", side, 0, length - 1)
        object.__setattr__(self, "padding", tuple(map(int, pair)))

    def boxes(
        self, uniforms: NDArray[np.float64], heights: NDArray[np.int64], widths: NDArray[np.int64]
    ) -> Boxes:
        """Returns boxes of `image_size`, which may reach into the padding."""
        sides = []
        for axis, lengths in enumerate((heights, widths)):
            room = lengths + 2 * self.padding[axis] - self.image_size[axis]
            first = np.floor(uniforms[:, axis] * (room + 1)).astype(np.int64) - self.padding[axis]
            sides.append(np.where(room >= 0, first, -((self.image_size[axis] - lengths) // 2)))
        return _of_one_size(sides[0], sides[1], self.image_size)


@dataclasses.dataclass(frozen=True)
class CenterCrop(CropStage):
    """The centred box of one size, the same each time: also for validation.

    Args:
      image_size: (height, width) of the box; one integer means a square.
      fill: around an image that is smaller, 0..255: one value, or one for each channel.

    Raises:
      ConfigError: a value out of its range.
    """

    image_size: Any
    fill: Any = 0

    num_uniforms: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _parse_fixed(self, "CenterCrop")

    def boxes(
        self, uniforms: NDArray[np.float64], heights: NDArray[np.int64], widths: NDArray[np.int64]
    ) -> Boxes:
        """Returns centred boxes of `image_size`; an odd rest is at the bottom or right."""
        size = np.array(self.image_size, np.int64)
        box_heights, box_widths = np.full_like(heights, size[0]), np.full_like(widths, size[1])
        return _centred(heights, widths, box_heights, box_widths)


def _parse_fixed(stage: Any, name: str) -> None:
    size = parse_image_size(stage.image_size, f"{name}.image_size")
    if size is None:
        raise ConfigError(
            f"{name}.image_size: expected (height, width) or one integer for a square, got None."
        )
    object.__setattr__(stage, "image_size", size)
    object.__setattr__(stage, "fill", parse_fill(f"{name}.fill", stage.fill))


def _centred(
    heights: NDArray[np.int64],
    widths: NDArray[np.int64],
    box_heights: NDArray[np.int64],
    box_widths: NDArray[np.int64],
) -> Boxes:
    tops, lefts = (heights - box_heights) // 2, (widths - box_widths) // 2
    return np.stack([tops, lefts, box_heights, box_widths], axis=1)


def _of_one_size(tops: NDArray[np.int64], lefts: NDArray[np.int64], size: tuple[int, int]) -> Boxes:
    ones = np.ones_like(tops)
    return np.stack([tops, lefts, ones * size[0], ones * size[1]], axis=1)
