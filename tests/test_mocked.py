import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import tfrds


@pytest.fixture
def mocked_class():
    class Mocked(tfrds.ImageDatasetBuilder):
        VERSION = "1.0.0"
        OPTIONS = tfrds.BuildOptions(image_size=6, class_names=["ant", "bee", "cat"])

        def _source(self, dl_manager):
            raise AssertionError("nothing is built")

    yield Mocked
    tfds.core.registered._DATASET_REGISTRY.pop("mocked")


def check(image, label):
    assert (image.dtype, label.dtype) == (np.float32, np.float32)
    np.testing.assert_array_equal(image, np.floor(image))
    assert image.min() >= 0
    assert 200 < image.max() <= 255
    rows = label.reshape(-1, 3)
    assert set(rows.ravel().tolist()) == {0.0, 1.0}
    np.testing.assert_array_equal(rows.sum(axis=1), 1)


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("as_supervised", [False, True])
def test_mocked_values_are_pixels_and_one_hot_labels(mocked_class, batch_size, as_supervised):
    with tfds.testing.mock_data(num_examples=8):
        dataset = tfds.load(
            "mocked", split="train", batch_size=batch_size, as_supervised=as_supervised
        )
        elements = list(dataset.as_numpy_iterator())
    spec = tf.nest.flatten(dataset.element_spec)
    assert [part.shape[-1] for part in spec] == [3, 3]
    for element in elements:
        check(*(element if as_supervised else (element["image"], element["label"])))


def test_mocked_batches_train_a_model(mocked_class):
    import keras

    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3, "softmax")])
    model.compile("sgd", "categorical_crossentropy")
    with tfds.testing.mock_data(num_examples=8):
        train = tfds.load("mocked", split="train", batch_size=4, as_supervised=True)
        model.fit(train, epochs=1, verbose=0, shuffle=False)


def test_tensors_of_a_whole_split_are_left_as_they_are():
    # TFDS itself gives them for batch_size=-1, where the number of examples is known.
    from tfrds.mocked import realistic

    tensor = tf.constant([0.5])
    info = types.SimpleNamespace(features={})
    assert realistic(tensor, info) is tensor
