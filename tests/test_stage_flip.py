import numpy as np
import pytest
import tensorflow as tf

from tfrds.augment import RandomFlip
from tfrds.errors import ConfigError

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 3, 5, 2), np.uint8)
LABELS = np.array([1, 2, 3, 4], np.int32)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("is_in_dataset", [False, True])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_images_are_mirrored_where_their_parameters_say(dtype, is_in_dataset, is_compiled):
    stage = RandomFlip("horizontal_and_vertical")
    call = tf.function(stage, jit_compile=True) if is_compiled else stage
    parts = IMAGES.astype(dtype), LABELS, np.float32([[0, 0], [0, 1], [1, 0], [1, 1]])
    if is_in_dataset:
        dataset = tf.data.Dataset.from_tensors(parts).map(lambda *parts: call(*parts))
        ((images, labels),) = dataset.as_numpy_iterator()
    else:
        images, labels = call(*map(tf.constant, parts))
    expected = [IMAGES[0], IMAGES[1][:, ::-1], IMAGES[2][::-1], IMAGES[3][::-1, ::-1]]
    np.testing.assert_array_equal(images, expected)
    assert np.asarray(images).dtype == dtype
    np.testing.assert_array_equal(labels, LABELS)


@pytest.mark.parametrize(("mode", "axis"), [("horizontal", 2), ("vertical", 1)])
def test_a_mode_mirrors_only_its_own_direction(mode, axis):
    images, _ = RandomFlip(mode)(tf.constant(IMAGES), LABELS, tf.ones([4, 2]))
    np.testing.assert_array_equal(images, np.flip(IMAGES, axis))


@pytest.mark.parametrize("probability", [0, 0.2, 0.5, 1])
def test_flips_are_as_frequent_as_asked_and_independent(probability):
    uniforms = np.random.default_rng(0).random((20_000, 2))
    drawn = RandomFlip(probability=probability).draw(uniforms, None, None)
    assert set(np.unique(drawn)) <= {0, 1}
    spread = 3.3 * np.sqrt(probability * (1 - probability) / 20_000)
    np.testing.assert_allclose(drawn.mean(axis=0), probability, atol=spread)
    np.testing.assert_allclose(drawn.prod(axis=1).mean(), probability**2, atol=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "both"}, r"RandomFlip\.mode: expected one of .* got 'both'"),
        ({"probability": 1.5}, r"RandomFlip\.probability: .* from 0 to 1, got 1\.5"),
        ({"probability": None}, r"RandomFlip\.probability: .* got None"),
    ],
)
def test_what_a_flip_cannot_take_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        RandomFlip(**options)
