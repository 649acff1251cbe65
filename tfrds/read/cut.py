"""Boxes of raw images, copied without the rest of them; no TensorFlow.

Gets the stored bytes from `fetch.py`, and from `host.py` which part of each is wanted, gives
what is copied.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True)
class Cut:
    """Which part of each raw image is copied.

    Attributes:
      boxes: int64 [n, 4], (top, left, height, width).
      size: (height, width) of all boxes, which may then reach beyond their image; None: boxes of
        several sizes, inside their images.
      fill: what lies beyond an image, 0..255: one value, or one for each channel.
    """

    boxes: NDArray[np.int64]
    size: tuple[int, int] | None = None
    fill: tuple[float, ...] = (0.0,)


def cut_boxes(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    shape: tuple[int, ...],
    cut: Cut,
    memory: Callable[[tuple[int, ...]], NDArray[Any]],
) -> "NDArray[Any] | list[bytes]":
    """Returns the boxes, as one array where they are of one size.

    Args:
      data: uint8 [bytes], holds the images.
      starts: int64 [n], where in it each begins.
      shape: (height, width, channels) of all.
      cut: what to copy.
      memory: gives an array of a shape, not initialised.
    """
    height, width, channels = shape
    size = height * width * channels
    images = [data[start : start + size].reshape(shape) for start in starts.tolist()]
    boxes = cut.boxes.tolist()
    if cut.size is None:
        return [
            image[top : top + box_height, left : left + box_width].tobytes()
            for image, (top, left, box_height, box_width) in zip(images, boxes, strict=True)
        ]
    rows, columns = cut.size
    ground = memory((len(images), rows, columns, channels))
    tops, lefts = cut.boxes[:, 0], cut.boxes[:, 1]
    if ((tops < 0) | (lefts < 0) | (tops + rows > height) | (lefts + columns > width)).any():
        ground[:] = np.rint(cut.fill)
    for target, image, (top, left, _, _) in zip(ground, images, boxes, strict=True):
        above, before = max(-top, 0), max(-left, 0)
        inside = image[top + above : top + rows, left + before : left + columns]
        target[above : above + inside.shape[0], before : before + inside.shape[1]] = inside
    return ground
