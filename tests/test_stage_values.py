import numpy as np
import pytest
import tensorflow as tf

from tfrds.read.stages import values as module
from tfrds.read.stages.values import Values

IMAGES = np.arange(256, dtype=np.uint8).reshape(4, 4, 4, 4)
LABELS = np.array([0, 2, 1, 2], np.int32)
ONE_HOT = [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]]


@pytest.fixture(params=["eager", "tf.data"])
def run(request):
    """Calls the stage on images and labels, eagerly or inside tf.data."""

    def eagerly(images, labels, **options):
        stage = Values(num_classes=3, **options)
        parts = stage(tf.constant(images), tf.constant(labels), is_one_shape=True)
        return tuple(part.numpy() for part in parts)

    def in_dataset(images, labels, **options):
        stage = Values(num_classes=3, **options)
        dataset = tf.data.Dataset.from_tensors((images, labels)).map(
            lambda *parts: stage(*parts, is_one_shape=True)
        )
        (result,) = dataset.as_numpy_iterator()
        return result

    return in_dataset if request.param == "tf.data" else eagerly


def test_pixels_become_float32_and_labels_one_hot(run):
    images, labels = run(IMAGES, LABELS)
    assert images.dtype == labels.dtype == np.float32
    np.testing.assert_array_equal(images, IMAGES)
    np.testing.assert_array_equal(labels, ONE_HOT)


def test_one_image_has_the_same_values_as_in_a_batch(run):
    image, label = run(IMAGES[1], LABELS[1])
    np.testing.assert_array_equal(image, IMAGES[1])
    np.testing.assert_array_equal(label, ONE_HOT[1])


def test_resized_pixels_keep_their_fractions(run):
    images = IMAGES.astype(np.float32) + np.float32(0.3)
    np.testing.assert_array_equal(run(images, LABELS)[0], images)


def test_a_label_that_is_no_class_is_all_zeros(run):
    assert not run(IMAGES[:1], np.array([-1], np.int32))[1].any()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_pixels_are_centred_and_scaled_for_each_channel(run, dtype):
    center, scale = (1.5, 100.0, 0.0, 255.0), (0.5, 1 / 58, 2.0, -1.0)
    images, _ = run(IMAGES, LABELS, dtype=dtype, center=center, scale=scale)
    exact = (IMAGES.astype(np.float64) - center) * scale
    assert images.dtype == tf.as_dtype(dtype).as_numpy_dtype
    tolerance = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    np.testing.assert_allclose(images.astype(np.float64), exact, rtol=tolerance, atol=1e-4)


def test_compiled_and_plain_values_have_the_same_bits():
    rng = np.random.default_rng(0)
    images = tf.constant(rng.integers(0, 256, (8, 16, 16, 3), dtype=np.uint8))
    for _ in range(20):
        stage = Values(
            num_classes=3,
            center=tuple(rng.uniform(-300, 300, 3)),
            scale=tuple(rng.uniform(-3, 3, 3)),
        )
        compiled, _ = stage(images, LABELS, is_one_shape=True)
        plain, _ = stage(images, LABELS, is_one_shape=False)
        assert compiled.numpy().tobytes() == plain.numpy().tobytes()


def test_values_are_the_same_where_xla_cannot_compile(monkeypatch):
    stage = Values(num_classes=3, center=(127.5,), scale=(2 / 255,))
    compiled, _ = stage(IMAGES, LABELS, is_one_shape=True)
    module._compiled_pixels.cache_clear()
    monkeypatch.setattr(module, "has_compiler", lambda: False)
    plain, _ = stage(IMAGES, LABELS, is_one_shape=True)
    module._compiled_pixels.cache_clear()
    assert compiled.numpy().tobytes() == plain.numpy().tobytes()


def test_uint8_stays_as_it_is_and_resized_pixels_are_rounded_into_it(run):
    np.testing.assert_array_equal(run(IMAGES, LABELS, dtype="uint8")[0], IMAGES)
    resized = np.array([[[[-0.4], [0.49]], [[1.5], [255.4]]]], np.float32)
    images, _ = run(resized, LABELS[:1], dtype="uint8")
    assert images.dtype == np.uint8
    assert images.ravel().tolist() == [0, 0, 2, 255]


def test_int_labels_are_the_numbers(run):
    labels = run(IMAGES, LABELS, label_mode="int")[1]
    assert labels.dtype == np.int32
    assert labels.tolist() == [0, 2, 1, 2]


def test_binary_labels_are_one_float(run):
    labels = run(IMAGES, LABELS % 2, label_mode="binary")[1]
    assert labels.dtype == np.float32
    assert labels.tolist() == [[0], [0], [1], [0]]


def test_smoothed_labels_are_those_of_keras(run):
    labels = run(IMAGES, LABELS, label_smoothing=0.3)[1]
    # keras.losses.CategoricalCrossentropy: y * (1 - s) + s / n
    np.testing.assert_allclose(labels[0], [0.8, 0.1, 0.1], rtol=1e-6)
    np.testing.assert_allclose(labels.sum(axis=1), 1, rtol=1e-6)
