import math

import numpy as np
import pytest
import tensorflow as tf

from tfrds.augment import RandomErasing
from tfrds.errors import ConfigError

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 6, 8, 3), np.uint8)
LABELS = np.arange(3)
CORNERS = np.float32([[1, 2, 4, 8], [0, 0, 0, 0], [0, 0, 6, 1]])


@pytest.mark.parametrize(("fill", "colour"), [(7, [7, 7, 7]), ((1, 2.4, 300 - 45), [1, 2, 255])])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("kind", ["plain", "compiled", "tf.data"])
def test_boxes_are_filled(fill, colour, dtype, kind):
    stage = RandomErasing(fill=fill)
    parts = IMAGES.astype(dtype), LABELS, CORNERS
    if kind == "tf.data":
        dataset = tf.data.Dataset.from_tensors(parts).map(lambda *parts: stage(*parts))
        ((images, labels),) = dataset.as_numpy_iterator()
    else:
        function = tf.function(stage, jit_compile=True) if kind == "compiled" else stage
        images, labels = function(*map(tf.constant, parts))
    expected = IMAGES.astype(dtype)
    expected[0, 1:4, 2:8] = fill if dtype == np.float32 else colour
    expected[2, :, :1] = fill if dtype == np.float32 else colour
    np.testing.assert_array_equal(images, expected)
    np.testing.assert_array_equal(labels, LABELS)


def draw(stage, height, width, count=20_000):
    uniforms = np.random.default_rng(0).random((count, stage.num_uniforms))
    return stage.draw(uniforms, np.full(count, height), np.full(count, width))


def test_areas_ratios_and_frequency_are_those_of_the_definition():
    drawn = draw(RandomErasing(0.25), 2000, 2000)
    top, left, bottom, right = drawn.T
    is_erased = bottom > top
    assert is_erased.mean() == pytest.approx(0.25, abs=0.01)
    assert not drawn[~is_erased].any()
    heights, widths = (bottom - top)[is_erased], (right - left)[is_erased]
    areas, ratios = heights * widths / 2000**2, np.log(widths / heights)
    assert 0.0199 < areas.min() < 0.021
    assert areas.max() < 0.3301
    # No first try is refused up to 1 / 3.3 of the area; beyond, fewer than one in a hundred are.
    assert areas.mean() == pytest.approx((0.02 + 0.33) / 2, abs=0.005)
    assert ratios.mean() == pytest.approx(0, abs=0.03)
    assert ratios.std() == pytest.approx(math.log(3.3 / 0.3) / math.sqrt(12), rel=0.02)
    assert min(top.min(), left.min()) == 0
    assert max(bottom.max(), right.max()) <= 2000


def test_an_image_that_no_box_fits_into_stays_whole():
    assert not draw(RandomErasing(1, scale=(1, 1), ratio=(3, 3.3)), 10, 10, 100).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probability": -1}, r"RandomErasing\.probability: .* got -1"),
        ({"scale": (0, 2)}, r"RandomErasing\.scale: .* got \(0, 2\)"),
        ({"ratio": 1}, r"RandomErasing\.ratio: .* got 1"),
        ({"fill": -1}, r"RandomErasing\.fill: expected a number from 0 to 255.* got -1"),
    ],
)
def test_what_erasing_cannot_take_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        RandomErasing(**options)


def test_fill_has_one_value_or_one_for_each_channel():
    with pytest.raises(ConfigError, match="fill has 3 values, the images have 1 channels"):
        RandomErasing(fill=(1, 2, 3)).check(1, "one_hot", 8)
