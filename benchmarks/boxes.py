"""Draws the boxes of random resized crops one by one, as the definition says; no TensorFlow."""

import math
from collections.abc import Iterable

import numpy as np

SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
TRIES = 10


def draw_boxes(sizes: Iterable[tuple[int, int]], rng: np.random.Generator) -> np.ndarray:
    """Returns int32 [n, 4]: (top, left, height, width) of a box for each (height, width).

    Source: "Going Deeper with Convolutions" (Szegedy et al. 2014), as torchvision's
    RandomResizedCrop defines it.
    """
    return np.array([_draw_box(height, width, rng) for height, width in sizes], np.int32)


def _draw_box(height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    for _ in range(TRIES):
        area = height * width * rng.uniform(*SCALE)
        ratio = math.exp(rng.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        box_width, box_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < box_width <= width and 0 < box_height <= height:
            top = int(rng.integers(0, height - box_height + 1))
            left = int(rng.integers(0, width - box_width + 1))
            return top, left, box_height, box_width
    # None fitted: the largest centred box whose ratio is allowed.
    box_width = min(width, round(height * RATIO[1]))
    box_height = min(height, round(width / RATIO[0]))
    return (height - box_height) // 2, (width - box_width) // 2, box_height, box_width
