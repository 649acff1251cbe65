import numpy as np
import pytest
import tensorflow as tf

from tfrds.read.stages.values import model_values

IMAGES = np.arange(256, dtype=np.uint8).reshape(4, 4, 4, 4)
LABELS = np.array([0, 2, 1, 2], np.int32)
ONE_HOT = [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]]


@pytest.fixture(params=["eager", "tf.data"])
def run(request):
    """Calls the stage on images and labels, eagerly or inside tf.data."""

    def stage(images, labels):
        return model_values(images, labels, 3)

    def in_dataset(*parts):
        (result,) = tf.data.Dataset.from_tensors(parts).map(stage).as_numpy_iterator()
        return result

    def eagerly(*parts):
        return tuple(part.numpy() for part in stage(*map(tf.constant, parts)))

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
