import io

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf
from datasets import decoded, photo

from tfrds.read.stages.decode import decode_encoded, decode_raw, decode_smaller


def encoded(image, format, **options):
    file = io.BytesIO()
    PIL.Image.fromarray(image).save(file, format, **options)
    return file.getvalue()


@pytest.fixture(params=["eager", "tf.data"])
def run(request):
    """Calls a stage on one element, eagerly or inside tf.data."""

    def in_dataset(stage, value):
        (result,) = tf.data.Dataset.from_tensors(value).map(stage).as_numpy_iterator()
        return result

    return in_dataset if request.param == "tf.data" else lambda stage, value: stage(value).numpy()


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("size", [(64, 48), (33, 47), (1, 1), (8, 17)])
def test_jpeg_is_decoded_exactly_as_pillow_does(run, size, subsampling, progressive):
    data = encoded(
        photo(3, *size), "JPEG", subsampling=subsampling, progressive=progressive, quality=85
    )
    image = run(lambda data: decode_encoded(data, 3), data)
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image, decoded(data))


def test_png_is_decoded_exactly(run):
    pixels = photo(1, 13, 9)
    np.testing.assert_array_equal(
        run(lambda data: decode_encoded(data, 3), encoded(pixels, "PNG")), pixels
    )


@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_gray_image_is_repeated_in_each_channel(run, format):
    data = encoded(photo(1, 13, 9, 1)[..., 0], format)
    gray = np.asarray(PIL.Image.open(io.BytesIO(data)))
    np.testing.assert_array_equal(
        run(lambda data: decode_encoded(data, 3), data), np.stack([gray] * 3, -1)
    )
    np.testing.assert_array_equal(run(lambda data: decode_encoded(data, 1), data), gray[..., None])


def test_raw_pixels_are_taken_in_row_order(run):
    data = bytes(range(24))
    image = run(lambda data: decode_raw(data, (2, 4, 3)), data)
    np.testing.assert_array_equal(image, np.arange(24, dtype=np.uint8).reshape(2, 4, 3))


def test_real_jpegs_of_every_kind_are_decoded_as_pillow_does(dummy_data, run):
    for name in ("plain.jpg", "progressive.jpg"):
        data = (dummy_data / name).read_bytes()
        np.testing.assert_array_equal(
            run(lambda data: decode_encoded(data, 3), data), decoded(data)
        )


@pytest.mark.parametrize("ratio", [1, 2, 4, 8])
@pytest.mark.parametrize("size", [(64, 48), (33, 47), (8, 17)])
def test_jpeg_is_decoded_smaller_exactly_as_libjpeg_scales_for_pillow(run, size, ratio):
    data = encoded(photo(3, *size), "JPEG", subsampling="4:4:4", quality=90)
    image = run(lambda data: decode_smaller(data, 3, tf.constant(ratio)), data)
    with PIL.Image.open(io.BytesIO(data)) as draft:
        draft.draft("RGB", (max(1, draft.width // ratio), max(1, draft.height // ratio)))
        expected = np.asarray(draft)
    assert image.shape == (-(-size[0] // ratio), -(-size[1] // ratio), 3)
    np.testing.assert_array_equal(image, expected)


def test_png_is_decoded_whole(run):
    pixels = photo(1, 13, 9)
    data = encoded(pixels, "PNG")
    image = run(lambda data: decode_smaller(data, 3, tf.constant(1)), data)
    np.testing.assert_array_equal(image, pixels)
