"""What a build and reading make of a file, in one graph; whole datasets: test_preprocessing.py."""

import io

import numpy as np
import pytest
import tensorflow as tf
from datasets import photo
from images import encoded
from PIL import Image

from tfrds.augment import CenterCrop
from tfrds.geometry import shrink_size
from tfrds.read.new_image import NewImage
from tfrds.read.stages.resize import Resize
from tfrds.read.stages.values import Values
from tfrds.spec import ImageSpec

AS_IS = Values(num_classes=2, dtype="uint8")


def stage(encoding="original", shape=(None, None, 3), resize=None, crop=None, **options):
    spec = ImageSpec(encoding=encoding, channels=shape[2], **options)
    return NewImage(spec=spec, image_shape=shape, resize=resize, crop=crop, values=AS_IS)


@pytest.mark.parametrize("quality", [1, 60, 95, 100])
@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_stored_as_jpeg_are_those_of_pillows_encoder(quality, channels):
    new = stage("jpeg", (None, None, channels), jpeg_quality=quality, store_size=30)
    in_graph = tf.function(new.from_files, input_signature=[tf.TensorSpec((), tf.string)])
    for size in ((64, 48), (33, 47), (31, 30), (9, 70), (1, 1)):
        pixels = photo(quality, *size, channels)
        data = encoded(pixels[..., 0] if channels == 1 else pixels)
        image = Image.open(io.BytesIO(data)).convert("L" if channels == 1 else "RGB")
        height, width = shrink_size(*size, 30)
        file = io.BytesIO()
        image.resize((width, height), Image.Resampling.BILINEAR).save(file, "JPEG", quality=quality)
        expected = np.asarray(Image.open(file)).reshape(height, width, channels)
        np.testing.assert_array_equal(in_graph(data), expected)


def test_raw_images_are_resized_as_the_build_does():
    new = stage("raw", (16, 24, 3), image_size=(16, 24))
    data = encoded(photo(1, 33, 47))
    expected = Image.open(io.BytesIO(data)).resize((24, 16), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(new.from_files(tf.constant(data)), np.asarray(expected))


@pytest.mark.parametrize("encoding", ["jpeg", "original"])
def test_jpegs_are_decoded_smaller_where_reading_does(encoding):
    data = encoded(photo(1, 70, 90), "JPEG", quality=95)
    if encoding == "jpeg":
        file = io.BytesIO()
        Image.open(io.BytesIO(data)).save(file, "JPEG", quality=95)
        stored = file.getvalue()
    else:
        stored = data
    for interpolation, ratio in (("area", 4), ("antialias", 4), ("bilinear", 1)):
        resize = Resize(image_size=(16, 20), interpolation=interpolation)
        new = stage(encoding, resize=resize)
        smaller = tf.io.decode_jpeg(stored, ratio=ratio, dct_method="INTEGER_ACCURATE")
        expected = tf.cast(tf.round(resize(smaller)), tf.uint8)
        np.testing.assert_array_equal(new.from_files(tf.constant(data)), expected)
        np.testing.assert_array_equal(
            AS_IS.pixels(new.from_stored(stored, 70, 90, is_jpeg=True)), expected
        )
        # Before a crop of one size reading decodes the whole image.
        cropped = stage(encoding, resize=resize, crop=CenterCrop((16, 20)))
        whole = tf.io.decode_jpeg(stored, dct_method="INTEGER_ACCURATE")
        expected = tf.cast(tf.round(resize(whole)), tf.uint8)
        np.testing.assert_array_equal(cropped.from_files(tf.constant(data)), expected)


@pytest.mark.parametrize("fill", [0, (7, 8, 9)])
def test_center_crop_is_the_middle_on_its_ground(fill):
    image = photo(1, 10, 15)
    new = stage(crop=CenterCrop((7, 20), fill=fill))
    expected = np.full((7, 20, 3), fill, np.uint8)
    expected[:, 3:18] = image[1:8]
    cropped = new.from_files(tf.constant([encoded(image)] * 2))
    assert cropped.shape == (2, 7, 20, 3)
    np.testing.assert_array_equal(cropped[0], expected)


def test_shapes_are_known_where_the_dataset_knows_them():
    assert stage().output_shape == (None, None, 3)
    assert stage(shape=(4, 5, 1)).output_shape == (4, 5, 1)
    resized = stage(resize=Resize(image_size=(8, 9)))
    assert resized.output_shape == (8, 9, 3)
    assert stage(resize=resized.resize, crop=CenterCrop(3)).output_shape == (3, 3, 3)
    dataset = tf.data.Dataset.from_tensors([b"", b""]).map(resized.from_files)
    assert dataset.element_spec == tf.TensorSpec((2, 8, 9, 3), tf.uint8)


@pytest.mark.parametrize(
    ("new", "advice"),
    [
        (
            stage("raw", (6, 8, 3), shape_from=(6, 8)),
            r"Resize it before, or build the dataset with image_size\.",
        ),
        (stage(shape=(6, 8, 3)), r"Pass image_size=\(height, width\) to tfrds.preprocess\."),
    ],
)
def test_an_image_of_another_size_is_named_with_both_sizes(new, advice):
    files = [encoded(photo(1, *size)) for size in ((6, 8), (8, 6))]
    np.testing.assert_array_equal(new.from_files(tf.constant(files[0])), photo(1, 6, 8))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=rf"image 1: size \(height, width\): expected \(6, 8\), .* got \(8, 6\)\. {advice}",
    ):
        new.from_files(tf.constant(files))
