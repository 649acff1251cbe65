import numpy as np
import pytest
import tensorflow as tf
from datasets import photo, resized_by_stage
from PIL import Image

from tfrds.geometry import crop_box, pad_box
from tfrds.read.stages.resize import Resize

SIZES = [(20, 30), (30, 20), (64, 64), (7, 90), (1, 1), (16, 24)]
TARGET = (16, 24)


def bilinear(image, height, width):
    """Bilinear interpolation between pixel centres in numpy, float64, without antialiasing."""

    def weights(target, side):
        place = np.clip((np.arange(target) + 0.5) * side / target - 0.5, 0, side - 1)
        low = np.floor(place).astype(int)
        return low, np.minimum(low + 1, side - 1), place - low

    top, bottom, down = weights(height, image.shape[0])
    left, right, across = weights(width, image.shape[1])
    image = image.astype(np.float64)
    rows = image[top] * (1 - down)[:, None, None] + image[bottom] * down[:, None, None]
    return rows[:, left] * (1 - across)[:, None] + rows[:, right] * across[:, None]


def expected(image, resize, background):
    if resize == "stretch":
        return bilinear(image, *TARGET)
    if resize == "crop":
        top, left, height, width = crop_box(*image.shape[:2], *TARGET)
        return bilinear(image[top : top + height, left : left + width], *TARGET)
    top, left, height, width = pad_box(*image.shape[:2], *TARGET)
    canvas = np.full((*TARGET, len(background)), background, np.float64)
    canvas[top : top + height, left : left + width] = bilinear(image, height, width)
    return canvas


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_values_are_bilinear_between_pixel_centres(size, resize):
    image = photo(5, *size)
    background = (255, 128, 7)
    resized = resized_by_stage(tf.constant(image), TARGET, resize, background)
    assert resized.dtype == tf.float32
    np.testing.assert_allclose(resized, expected(image, resize, background), atol=0.01)


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_inside_tf_data_where_sizes_are_unknown_values_are_the_same_and_the_shape_known(resize):
    images = [photo(number, *size) for number, size in enumerate(SIZES)]
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(images), output_signature=tf.TensorSpec((None, None, 3), tf.uint8)
    ).map(lambda image: resized_by_stage(image, TARGET, resize, (1, 2, 3)))
    assert dataset.element_spec == tf.TensorSpec((16, 24, 3), tf.float32)
    for resized, image in zip(dataset, images, strict=True):
        np.testing.assert_allclose(resized, expected(image, resize, (1, 2, 3)), atol=0.01)


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_batch_is_resized_as_each_of_its_images(resize, channels):
    images = np.stack([photo(number, 20, 33, channels) for number in range(4)])
    background = (90,) * channels
    resized = resized_by_stage(tf.constant(images), TARGET, resize, background)
    assert resized.shape == (4, *TARGET, channels)
    for one, image in zip(resized, images, strict=True):
        np.testing.assert_allclose(one, expected(image, resize, background), atol=0.01)


def test_an_image_of_the_target_size_keeps_its_pixels():
    image = photo(1, *TARGET)
    for resize in ("stretch", "crop", "pad"):
        np.testing.assert_array_equal(
            resized_by_stage(tf.constant(image), TARGET, resize, (0, 0, 0)), image
        )


def test_area_is_the_mean_of_whole_blocks():
    image = photo(3, 48, 72)
    stage = Resize(image_size=TARGET, interpolation="area")
    blocks = image.reshape(16, 3, 24, 3, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(stage(tf.constant(image)), blocks, atol=0.01)


@pytest.mark.parametrize(("interpolation", "bound"), [("area", 2.0), ("antialias", 0.5)])
def test_values_are_near_those_of_pillow_on_photographs(interpolation, bound):
    photographs = [photo(number, 360, 480) for number in range(4)]
    stage = Resize(image_size=(224, 224), interpolation=interpolation)
    for image in photographs:
        pillow = Image.fromarray(image).resize((224, 224), Image.Resampling.BILINEAR)
        difference = np.abs(stage(tf.constant(image)).numpy() - np.asarray(pillow, np.float32))
        assert difference.mean() < bound


@pytest.mark.parametrize(
    ("resize", "size", "ratio"),
    [
        ("stretch", (223, 999), 1),
        ("stretch", (224, 224), 1),
        ("stretch", (447, 900), 1),
        ("stretch", (448, 448), 2),
        ("stretch", (448, 5000), 2),
        ("crop", (896, 2000), 4),
        ("crop", (20_000, 20_000), 8),
        ("pad", (448, 100), 2),
        ("pad", (223, 100), 1),
    ],
)
def test_ratio_is_the_largest_that_keeps_the_sides_at_or_above_the_target(resize, size, ratio):
    stage = Resize(image_size=(224, 224), resize=resize, interpolation="area")
    height, width = np.array([size[0]], np.uint32), np.array([size[1]], np.uint32)
    assert stage.decode_ratios(height, width, np.array([True])).tolist() == [ratio]
    assert stage.decode_ratios(height, width, np.array([False])).tolist() == [1]
    sides = tf.constant(size[0], tf.int64), tf.constant(size[1], tf.int64)
    assert stage.decode_ratio(*sides) == ratio
    bilinear = Resize(image_size=(224, 224), resize=resize)
    assert bilinear.decode_ratios(height, width, np.array([True])).tolist() == [1]


def test_a_last_batch_smaller_than_declared_is_padded_too():
    image = photo(1, 20, 33)

    def declared_larger(_):
        images = tf.numpy_function(lambda: np.stack([image] * 3), [], tf.uint8)
        images.set_shape((64, 20, 33, 3))
        return resized_by_stage(images, TARGET, "pad", (1, 2, 3))

    for resized in tf.data.Dataset.range(1).map(declared_larger).unbatch().take(3):
        np.testing.assert_allclose(resized, expected(image, "pad", (1, 2, 3)), atol=0.01)
