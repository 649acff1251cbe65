import colorsys

import numpy as np
import pytest
import tensorflow as tf

from tfrds.augment import ColorJitter
from tfrds.errors import ConfigError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (6, 4, 5, 3), np.uint8)
GRAY = RNG.integers(0, 256, (6, 4, 5, 1), np.uint8)
LABELS = np.arange(6)
FACTORS = np.linspace(0.2, 1.8, 6)


@pytest.fixture(params=["plain", "compiled", "tf.data"])
def run(request):
    """Returns the images of one stage for parameters of one column, each other one unchanged."""

    def call(stage, images, column, values):
        parameters = np.tile(np.float32([1, 1, 1, 0]), (len(images), 1))
        parameters[:, column] = values
        if request.param == "tf.data":
            parts = tf.data.Dataset.from_tensors((images, LABELS, parameters))
            ((changed, _),) = parts.map(lambda *parts: stage(*parts)).as_numpy_iterator()
            return changed
        function = tf.function(stage, jit_compile=True) if request.param == "compiled" else stage
        changed, labels = function(images, tf.constant(LABELS), tf.constant(parameters))
        np.testing.assert_array_equal(labels, LABELS)
        return changed.numpy()

    return call


def luma(images):
    return images @ np.array([0.2989, 0.587, 0.114])


def each(values):
    return np.reshape(values, (-1, 1, 1, 1))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_brightness_multiplies(run, dtype):
    changed = run(ColorJitter(brightness=0.9), IMAGES.astype(dtype), 0, FACTORS)
    expected = np.clip(IMAGES * each(FACTORS), 0, 255)
    np.testing.assert_allclose(changed, expected, rtol=1e-5)
    assert changed.dtype == np.float32


@pytest.mark.parametrize("images", [IMAGES, GRAY], ids=["colour", "gray"])
def test_contrast_is_the_distance_from_the_mean_gray(run, images):
    changed = run(ColorJitter(contrast=0.9), images, 1, FACTORS)
    gray = luma(images) if images.shape[-1] == 3 else images[..., 0]
    mean = each(gray.mean(axis=(1, 2)))
    expected = np.clip(mean + (images - mean) * each(FACTORS), 0, 255)
    np.testing.assert_allclose(changed, expected, atol=1e-3)


def test_saturation_is_the_distance_from_each_pixels_gray(run):
    changed = run(ColorJitter(saturation=0.9), IMAGES, 2, FACTORS)
    gray = luma(IMAGES)[..., np.newaxis]
    expected = np.clip(gray + (IMAGES - gray) * each(FACTORS), 0, 255)
    np.testing.assert_allclose(changed, expected, atol=1e-3)


def test_hue_turns_colours_as_in_hsv(run):
    turns = np.linspace(-0.5, 0.5, 6)
    images = IMAGES.copy()
    images[0, 0, 0] = 77  # gray has no hue
    changed = run(ColorJitter(hue=0.5), images, 3, turns)

    def turned(pixel, turn):
        hue, saturation, value = colorsys.rgb_to_hsv(*(pixel / 255))
        return np.array(colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)) * 255

    for image, result, turn in zip(images, changed, turns, strict=True):
        expected = [[turned(pixel, turn) for pixel in row] for row in image]
        np.testing.assert_allclose(result, expected, atol=2e-3)


def test_parameters_that_change_nothing_give_the_image(run):
    stage = ColorJitter(0.5, 0.5, 0.5, 0.1)
    np.testing.assert_allclose(run(stage, IMAGES, 0, 1.0), IMAGES, atol=1e-3)


def test_factors_are_uniform_in_their_ranges():
    stage = ColorJitter(brightness=0.4, contrast=1.5, saturation=(0.5, 0.6), hue=0.1)
    uniforms = (np.arange(1000)[:, np.newaxis] + 0.5) / 1000 * np.ones(4)
    drawn = stage.draw(uniforms, None, None)
    for column, (low, high) in zip(
        drawn.T, [(0.6, 1.4), (0, 2.5), (0.5, 0.6), (-0.1, 0.1)], strict=True
    ):
        np.testing.assert_allclose(column, low + uniforms[:, 0] * (high - low))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"brightness": -0.1}, r"ColorJitter\.brightness: .* at least 0, got -0\.1"),
        ({"contrast": (2, 1)}, r"ColorJitter\.contrast: expected \(low, high\).* got \(2, 1\)"),
        ({"saturation": "high"}, r"ColorJitter\.saturation: .* got 'high'"),
        ({"hue": 0.6}, r"ColorJitter\.hue: .* from 0 to 0\.5, got 0\.6"),
        ({"hue": (-1, 0)}, r"ColorJitter\.hue: .* from -0\.5 to 0\.5, got \(-1, 0\)"),
    ],
)
def test_what_color_jitter_cannot_take_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        ColorJitter(**options)


@pytest.mark.parametrize("name", ["saturation", "hue"])
def test_gray_images_have_no_colours_to_change(name):
    with pytest.raises(ConfigError, match=rf"ColorJitter\.{name} .* the images have 1\."):
        ColorJitter(**{name: 0.1}).check(1, "one_hot", 8)
    ColorJitter(brightness=0.1, contrast=0.1).check(1, "one_hot", 8)
