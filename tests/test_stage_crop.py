import math
import random

import numpy as np
import pytest

from tfrds.augment import CenterCrop, RandomCrop, RandomResizedCrop
from tfrds.errors import ConfigError

COUNT = 20_000
FAR = 1.95 / math.sqrt(COUNT)  # see tests/test_randomness.py


def boxes_of(stage, height, width, count=COUNT):
    uniforms = np.random.default_rng(0).random((count, stage.num_uniforms))
    sizes = np.full(count, height), np.full(count, width)
    return stage.boxes(uniforms, *sizes)


def distance_from_uniform(numbers, low, high):
    ordered = (np.sort(numbers) - low) / (high - low)
    return np.abs(ordered - (np.arange(len(ordered)) + 0.5) / len(ordered)).max()


def textbook_box(generator, height, width, fallback, scale=(0.08, 1), ratio=(3 / 4, 4 / 3)):
    """The definition, an image at a time."""
    for _ in range(10):
        area = height * width * generator.uniform(*scale)
        aspect = math.exp(generator.uniform(math.log(ratio[0]), math.log(ratio[1])))
        box_width = round(math.sqrt(area * aspect))
        box_height = round(math.sqrt(area / aspect))
        if 0 < box_width <= width and 0 < box_height <= height:
            top = generator.randint(0, height - box_height)
            return top, generator.randint(0, width - box_width), box_height, box_width
    return fallback


def test_area_and_aspect_ratio_of_boxes_are_uniform_where_all_fit():
    # Half of a square with an aspect ratio of 4/3 is 0.82 wide, so no first try is refused.
    stage = RandomResizedCrop(scale=(0.08, 0.5))
    top, left, height, width = boxes_of(stage, 4000, 4000).T
    areas = height * width / 4000**2
    assert 0.0799 <= areas.min() <= 0.081
    assert 0.499 <= areas.max() <= 0.5001
    assert distance_from_uniform(areas, 0.08, 0.5) < FAR
    ratios = np.log(width / height)
    assert distance_from_uniform(ratios, math.log(3 / 4), math.log(4 / 3)) < FAR
    assert distance_from_uniform(top / (4000 - height + 1), 0, 1) < FAR
    assert distance_from_uniform(left / (4000 - width + 1), 0, 1) < FAR


@pytest.mark.parametrize(
    ("size", "fallback"),
    [
        ((375, 500), (0, 0, 375, 500)),
        ((500, 500), (0, 0, 500, 500)),
        ((1500, 400), (483, 0, 533, 400)),  # 400 / 533 is 3/4
    ],
)
def test_boxes_are_distributed_as_the_textbook_draws_them(size, fallback):
    generator = random.Random(0)
    expected = np.array([textbook_box(generator, *size, fallback) for _ in range(COUNT)])
    found = boxes_of(RandomResizedCrop(), *size)
    for name, measure in {
        "area": lambda box: box[:, 2] * box[:, 3] / (size[0] * size[1]),
        "aspect": lambda box: np.log(box[:, 3] / box[:, 2]),
        "top": lambda box: box[:, 0] / size[0],
        "left": lambda box: box[:, 1] / size[1],
    }.items():
        probabilities = np.linspace(0.05, 0.95, 19)
        quantiles = [np.quantile(measure(boxes), probabilities) for boxes in (expected, found)]
        np.testing.assert_allclose(*quantiles, atol=0.02, err_msg=name)


def test_mean_area_of_boxes_of_a_photograph():
    # TensorFlow's sample_distorted_bounding_box gives 0.37.
    _, _, heights, widths = boxes_of(RandomResizedCrop(), 375, 500).T
    assert (heights * widths).mean() / (375 * 500) == pytest.approx(0.43, abs=0.01)


@pytest.mark.parametrize(
    ("size", "box"),
    [((10, 1000), (0, 493, 10, 13)), ((1000, 10), (493, 0, 13, 10)), ((7, 8), (0, 0, 7, 8))],
)
def test_where_no_try_fits_the_largest_centred_box_within_the_ratio_is_taken(size, box):
    # Of the whole area, only the image's own aspect ratio fits, which is drawn with no probability.
    assert boxes_of(RandomResizedCrop(scale=(1, 1)), *size, 5).tolist() == [list(box)] * 5


@pytest.mark.parametrize("height", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("width", [1, 2, 4, 7, 50])
def test_boxes_of_tiny_images_lie_inside(height, width):
    top, left, box_height, box_width = boxes_of(RandomResizedCrop(), height, width, 500).T
    assert (min(top.min(), left.min()), min(box_height.min(), box_width.min()) > 0) == (0, True)
    assert ((top + box_height).max(), (left + box_width).max()) <= (height, width)
    assert (left + box_width).max() <= width


def test_random_crop_is_at_each_place_as_often():
    top, left, height, width = boxes_of(RandomCrop((3, 5)), 6, 8).T
    assert (set(height), set(width)) == ({3}, {5})
    counts = np.bincount(top * 4 + left, minlength=16)
    assert len(counts) == 16
    expected = COUNT / 16
    assert ((counts - expected) ** 2 / expected).sum() < 37.7  # chi-square, 15 degrees, 0.1%


def test_padding_gives_random_crops_more_places():
    top, left, _, _ = boxes_of(RandomCrop(6, padding=(2, 1)), 6, 6).T
    assert sorted(set(top)) == [-2, -1, 0, 1, 2]
    assert sorted(set(left)) == [-1, 0, 1]
    assert np.bincount(top + 2) / COUNT == pytest.approx(0.2, abs=0.01)


def test_random_crop_centres_images_that_are_smaller():
    assert boxes_of(RandomCrop((8, 5)), 5, 5, 3).tolist() == [[-1, 0, 8, 5]] * 3


@pytest.mark.parametrize(
    ("size", "box"),
    [((10, 9), (3, 2, 4, 5)), ((4, 5), (0, 0, 4, 5)), ((3, 9), (-1, 2, 4, 5))],
)
def test_center_crop_is_centred(size, box):
    assert CenterCrop((4, 5)).num_uniforms == 0
    assert boxes_of(CenterCrop((4, 5)), *size, 2).tolist() == [list(box)] * 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CenterCrop(0), r"CenterCrop\.image_size: expected .* got 0"),
        (lambda: CenterCrop(None), r"CenterCrop\.image_size: expected .* got None"),
        (lambda: CenterCrop(4, fill=256), r"CenterCrop\.fill: expected a number .* got 256"),
        (lambda: CenterCrop(4, fill="red"), r"CenterCrop\.fill: expected .* got 'red'"),
        (lambda: RandomCrop((4, 5, 3)), r"RandomCrop\.image_size: expected .* got \(4, 5, 3\)"),
        (lambda: RandomCrop(4, padding=-1), r"RandomCrop\.padding: .* from 0 to 3, got -1"),
        (lambda: RandomCrop(4, padding=4), r"RandomCrop\.padding: .* from 0 to 3, got 4"),
        (lambda: RandomCrop(4, padding=(1, 1, 1)), r"RandomCrop\.padding: .* got \(1, 1, 1\)"),
        (lambda: RandomResizedCrop("a"), r"RandomResizedCrop\.image_size: .* got 'a'"),
        (
            lambda: RandomResizedCrop(scale=(0.5, 0.1)),
            r"RandomResizedCrop\.scale: expected \(low, high\), from 0 to 1, got \(0\.5, 0\.1\)",
        ),
        (lambda: RandomResizedCrop(scale=2), r"RandomResizedCrop\.scale: expected .* got 2"),
        (lambda: RandomResizedCrop(ratio=(0, 1)), r"RandomResizedCrop\.ratio: .* got \(0, 1\)"),
    ],
)
def test_what_a_crop_cannot_take_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
