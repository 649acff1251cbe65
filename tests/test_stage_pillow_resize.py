import numpy as np
import PIL
import pytest
import tensorflow as tf
from datasets import photo
from PIL import Image

from tfrds.geometry import crop_box, pad_box, shrink_size
from tfrds.read.stages.pillow_resize import PillowResize, resize_to, shrink

# (height, width) before and after: up, down, by whole and odd factors, one side alone, from and to
# one pixel, a side much shorter than the other, which changes the order of the axes.
SIZES = [
    ((1, 1), (1, 1)),
    ((1, 1), (9, 7)),
    ((31, 17), (1, 1)),
    ((48, 64), (24, 32)),
    ((24, 32), (48, 64)),
    ((37, 53), (16, 24)),
    ((37, 53), (38, 54)),
    ((53, 37), (53, 11)),
    ((53, 37), (11, 37)),
    ((200, 3), (7, 90)),
    ((3, 200), (90, 7)),
    ((129, 61), (64, 60)),
    ((50, 25), (6, 3)),
    ((51, 25), (6, 3)),
    ((375, 500), (224, 224)),
    ((17, 300), (299, 5)),
]
TARGET = (16, 24)
BACKGROUND = (10, 200, 30)


@pytest.fixture(scope="module")
def in_graph():
    """Resizes in one graph for all sizes."""
    image = tf.TensorSpec((None, None, None), tf.uint8)
    side = tf.TensorSpec((), tf.int32)
    return tf.function(resize_to, input_signature=[image, side, side], autograph=False)


def by_pillow(image, height, width):
    if image.shape[2] == 1:
        return by_pillow(np.repeat(image, 3, axis=2), height, width)[..., :1]
    resized = Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(resized)


def images_of(size, seed=0):
    """A smooth image, noise, and black and white, which needs the widest sums."""
    random = np.random.default_rng(seed)
    noise = random.integers(0, 256, (*size, 3), np.uint8)
    return photo(seed, *size), noise, np.where(noise > 127, 255, 0).astype(np.uint8)


@pytest.mark.skipif(int(PIL.__version__.split(".")[0]) < 13, reason="another order of the axes")
@pytest.mark.parametrize(("size", "target"), SIZES)
def test_pixels_are_those_of_pillow(in_graph, size, target):
    for number, image in enumerate(images_of(size)):
        expected = by_pillow(image, *target)
        np.testing.assert_array_equal(in_graph(image, *target), expected)
        if number == 0:
            np.testing.assert_array_equal(resize_to(tf.constant(image), *target), expected)


@pytest.mark.skipif(int(PIL.__version__.split(".")[0]) < 13, reason="another order of the axes")
def test_pixels_are_those_of_pillow_for_any_sizes(in_graph):
    random = np.random.default_rng(1)
    for seed in range(300):
        height, width, target_h, target_w = (
            int(random.integers(1, limit)) for limit in random.choice([9, 70, 300], 4)
        )
        image = random.integers(0, 256, (height, width, 3), np.uint8)
        np.testing.assert_array_equal(
            in_graph(image, target_h, target_w), by_pillow(image, target_h, target_w), str(seed)
        )


def test_gray_is_resized_as_each_channel_of_colour(in_graph):
    image = photo(3, 37, 53, 1)
    resized = in_graph(image, 20, 90)
    assert resized.shape == (20, 90, 1)
    np.testing.assert_array_equal(resized, by_pillow(image, 20, 90))


def expected(image, resize, background):
    """Pillow's own operations, with the boxes of geometry.py."""
    if resize == "stretch":
        return by_pillow(image, *TARGET)
    if resize == "crop":
        top, left, height, width = crop_box(*image.shape[:2], *TARGET)
        return by_pillow(image[top : top + height, left : left + width].copy(), *TARGET)
    top, left, height, width = pad_box(*image.shape[:2], *TARGET)
    canvas = np.full((*TARGET, image.shape[2]), background, np.uint8)
    canvas[top : top + height, left : left + width] = by_pillow(image, height, width)
    return canvas


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("channels", [1, 3])
def test_stage_stretches_crops_and_pads_as_pillow(resize, channels):
    background = BACKGROUND[:channels]
    stage = PillowResize(image_size=TARGET, resize=resize, background=background)
    images = [photo(1, *size, channels) for size in ((20, 30), (31, 30), (7, 90), (1, 1), TARGET)]
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(images), output_signature=tf.TensorSpec((None, None, channels), tf.uint8)
    ).map(stage)
    assert dataset.element_spec == tf.TensorSpec((*TARGET, channels), tf.uint8)
    for resized, image in zip(dataset, images, strict=True):
        np.testing.assert_array_equal(resized, expected(image, resize, background))


@pytest.mark.parametrize("size", [(40, 61), (61, 40), (20, 90), (8, 8)])
def test_shorter_side_is_shrunk_and_never_enlarged(size):
    image = photo(2, *size)
    np.testing.assert_array_equal(
        shrink(tf.constant(image), 20), by_pillow(image, *shrink_size(*size, 20))
    )
