import io

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from datasets import decoded, photo, resized_by_stage

from tfrds.features import Image, Label

NAMES = ("ant", "bee", "cat")


def jpeg_of(pixels):
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "JPEG", quality=80)
    return file.getvalue()


def through_graph(feature, stored):
    (result,) = tf.data.Dataset.from_tensors(stored).map(feature.decode_example).as_numpy_iterator()
    return result


def restored(feature, folder):
    """Returns the feature as TFDS reads it back from features.json."""
    features = tfds.features.FeaturesDict({"it": feature})
    features.save_config(str(folder))
    return tfds.features.FeatureConnector.from_config(str(folder))["it"]


@pytest.fixture(params=["made", "restored"])
def again(request, tmp_path):
    """Gives a feature as it is, or as it comes back from features.json."""
    return (
        (lambda feature: feature)
        if request.param == "made"
        else lambda feature: restored(feature, tmp_path)
    )


def test_raw_image_gives_its_pixels_as_float32(again):
    feature = again(Image(shape=(4, 5, 3), encoding="raw"))
    pixels = photo(0, 4, 5)
    image = through_graph(feature, pixels.tobytes())
    assert image.dtype == np.float32
    np.testing.assert_array_equal(image, pixels)
    np.testing.assert_array_equal(feature.decode_example_np(pixels.tobytes()), pixels)


def test_jpeg_gives_what_pillow_decodes(again):
    feature = again(Image(shape=(33, 20, 3), encoding="jpeg"))
    data = jpeg_of(photo(0, 33, 20))
    np.testing.assert_array_equal(through_graph(feature, data), decoded(data))


def test_images_of_several_sizes_keep_theirs(again):
    feature = again(Image(shape=(None, None, 3)))
    assert feature.get_tensor_spec() == tf.TensorSpec((None, None, 3), tf.float32)
    for size in ((3, 9), (8, 2)):
        data = jpeg_of(photo(0, *size))
        np.testing.assert_array_equal(through_graph(feature, data), decoded(data))


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_resized_image_has_the_values_of_the_fast_path(again, resize):
    feature = again(Image(shape=(8, 6, 3), resize=resize, background=(1, 2, 3)))
    data = jpeg_of(photo(0, 20, 30))
    expected = resized_by_stage(tf.constant(decoded(data)), (8, 6), resize, (1, 2, 3))
    image = through_graph(feature, data)
    assert image.shape == (8, 6, 3)
    np.testing.assert_allclose(image, expected, atol=1e-4)


def test_gray_image_has_one_channel(again):
    feature = again(Image(shape=(4, 5, 1), encoding="original"))
    pixels = photo(0, 4, 5, 1)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels[..., 0]).save(file, "PNG")
    np.testing.assert_array_equal(through_graph(feature, file.getvalue()), pixels)


def test_image_of_another_size_than_declared_is_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError, match="33,20,3"):
        through_graph(Image(shape=(32, 20, 3)), jpeg_of(photo(0, 33, 20)))


def test_arrays_are_encoded_and_come_back():
    pixels = photo(0, 4, 5)
    for feature in (Image(shape=(4, 5, 3), encoding="raw"), Image(shape=(4, 5, 3))):
        for array in (pixels, pixels.astype(np.float32)):
            np.testing.assert_array_equal(
                through_graph(feature, feature.encode_example(array)), pixels
            )


def test_float_arrays_are_rounded_and_clipped():
    feature = Image(shape=(1, 3, 1), encoding="raw")
    assert feature.encode_example(np.array([[[-3.0], [1.6], [300.0]]], np.float32)) == bytes(
        (0, 2, 255)
    )


def test_image_is_found_where_tfds_looks_for_images():
    assert isinstance(Image(), tfds.features.Image)
    assert Image(shape=(4, 5, 3), encoding="raw").shape == (4, 5, 3)
    assert Image().dtype == np.float32
    assert 'src="data:image/png;base64' in Image(shape=(4, 5, 3)).repr_html(
        np.full((4, 5, 3), 254.7, np.float32)
    )


def test_label_gives_a_one_hot_row(again):
    feature = again(Label(names=NAMES))
    assert feature.get_tensor_spec() == tf.TensorSpec((3,), tf.float32)
    label = through_graph(feature, np.int64(1))
    assert label.dtype == np.float32
    assert label.tolist() == [0, 1, 0]
    assert feature.decode_example_np(2).tolist() == [0, 0, 1]


def test_label_is_a_class_label(again):
    feature = again(Label(names=NAMES))
    assert isinstance(feature, tfds.features.ClassLabel)
    assert feature.names == list(NAMES)
    assert feature.num_classes == 3
    assert feature.int2str(2) == "cat"
    assert feature.str2int("bee") == 1
    assert [feature.int2str(row) for row in np.eye(3, dtype=np.float32)] == list(NAMES)


@pytest.mark.parametrize("given", [1, "bee", np.int32(1), np.array([0.0, 1.0, 0.0], np.float32)])
def test_label_is_encoded_from_number_name_and_one_hot_row(given):
    assert Label(names=NAMES).encode_example(given) == 1


@pytest.mark.parametrize("given", ["cta", 3, -2])
def test_label_that_is_no_class_is_an_error(given):
    with pytest.raises((ValueError, KeyError), match=str(given)):
        Label(names=NAMES).encode_example(given)


def test_label_shows_number_and_name_as_harmless_html():
    feature = Label(names=("<script>", "b&w"))
    assert feature.repr_html(np.array([1.0, 0.0], np.float32)) == "0 (&lt;script&gt;)"
    assert feature.repr_html(1) == "1 (b&amp;w)"


def test_skip_decoding_gives_what_is_stored():
    features = tfds.features.FeaturesDict({"image": Image(), "label": Label(names=NAMES)})
    spec = features.get_serialized_info()
    assert spec["image"].shape == spec["label"].shape == ()
    assert spec["label"].dtype == np.int64
