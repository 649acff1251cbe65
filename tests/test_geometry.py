from fractions import Fraction

import numpy as np
import pytest

from tfrds.geometry import crop_box, pad_box, shrink_size


def half_up(value: Fraction) -> int:
    return max(1, int(value + Fraction(1, 2)))


@pytest.mark.parametrize(
    ("sizes", "box"),
    [
        ((100, 200, 50, 50), (0, 50, 100, 100)),
        ((200, 100, 50, 50), (50, 0, 100, 100)),
        ((480, 640, 3, 4), (0, 0, 480, 640)),
        ((10, 10, 2, 4), (2, 0, 5, 10)),  # 10 - 5 is odd: 2 rows off the top, 3 off the bottom
        ((10, 10, 4, 2), (0, 2, 10, 5)),
        ((3, 3, 1, 2), (0, 0, 2, 3)),  # 1.5 rounds up
        ((1, 1000, 1000, 1), (0, 499, 1, 1)),  # 0.001 becomes 1
        ((65_535, 65_535, 65_535, 65_534), (0, 0, 65_535, 65_534)),
    ],
)
def test_crop_box_is_the_largest_centred_box_of_the_targets_ratio(sizes, box):
    assert crop_box(*sizes) == box


@pytest.mark.parametrize(
    ("sizes", "box"),
    [
        ((100, 200, 50, 50), (12, 0, 25, 50)),  # 25 rows of background: 12 above, 13 below
        ((200, 100, 50, 50), (0, 12, 50, 25)),
        ((480, 640, 3, 4), (0, 0, 3, 4)),
        ((2, 4, 10, 10), (2, 0, 5, 10)),  # enlarged too
        ((1, 2, 3, 3), (0, 0, 2, 3)),  # 1.5 rounds up
        ((1, 1000, 10, 10), (4, 0, 1, 10)),  # 0.01 becomes 1
    ],
)
def test_pad_box_holds_the_whole_image_in_the_middle(sizes, box):
    assert pad_box(*sizes) == box


def test_boxes_agree_with_exact_fractions_rounded_half_up():
    random = np.random.RandomState(0)
    for height, width, target_h, target_w in random.randint(1, 300, (500, 4)).tolist():
        ratio = Fraction(target_w, target_h)
        box_h = height if width >= height * ratio else half_up(width / ratio)
        box_w = width if width <= height * ratio else half_up(height * ratio)
        top, left = (height - box_h) // 2, (width - box_w) // 2
        assert crop_box(height, width, target_h, target_w) == (top, left, box_h, box_w)

        scale = min(Fraction(target_h, height), Fraction(target_w, width))
        inner_h, inner_w = half_up(height * scale), half_up(width * scale)
        top, left = (target_h - inner_h) // 2, (target_w - inner_w) // 2
        assert pad_box(height, width, target_h, target_w) == (top, left, inner_h, inner_w)


@pytest.mark.parametrize(
    ("sizes", "shrunk"),
    [
        ((500, 375, 256), (341, 256)),  # 341.33
        ((375, 500, 256), (256, 341)),
        ((3, 5, 2), (2, 3)),  # 3.33
        ((2, 3, 1), (1, 2)),  # 1.5 rounds up
        ((100, 300, 100), (100, 300)),
        ((10, 300, 256), (10, 300)),  # never enlarged
    ],
)
def test_shrink_size_bounds_the_shorter_side_and_keeps_the_ratio(sizes, shrunk):
    assert shrink_size(*sizes) == shrunk
