import numpy as np
import pytest
import tensorflow as tf

from tfrds.augment import CutMix, MixUp
from tfrds.errors import ConfigError

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 6, 8, 3), np.uint8)
LABELS = np.eye(5, dtype=np.float32)[[0, 3, 1, 4]]
OTHERS = [3, 0, 1, 2]  # the example before each


@pytest.fixture(params=["plain", "compiled", "tf.data"])
def run(request):
    def call(stage, images, labels, parameters):
        parts = images, labels, np.float32(parameters)
        if request.param == "tf.data":
            dataset = tf.data.Dataset.from_tensors(parts).map(lambda *parts: stage(*parts))
            (mixed,) = dataset.as_numpy_iterator()
            return mixed
        function = tf.function(stage, jit_compile=True) if request.param == "compiled" else stage
        return function(*map(tf.constant, parts))

    return call


def test_mixup_weighs_images_and_labels_alike(run):
    weights = np.array([1, 0, 0.25, 0.9])
    images, labels = run(MixUp(), IMAGES, LABELS, weights[:, np.newaxis])
    each = weights[:, np.newaxis, np.newaxis, np.newaxis]
    np.testing.assert_allclose(images, IMAGES * each + IMAGES[OTHERS] * (1 - each), atol=1e-3)
    expected = LABELS * weights[:, np.newaxis] + LABELS[OTHERS] * (1 - weights[:, np.newaxis])
    np.testing.assert_allclose(labels, expected, atol=1e-6)


def test_cutmix_shows_another_example_in_a_box(run):
    parameters = [[0, 0, 3, 8, 0.5], [1, 2, 4, 6, 0.75], [0, 0, 0, 0, 1], [0, 0, 6, 8, 0]]
    images, labels = run(CutMix(), IMAGES, LABELS, parameters)
    expected = IMAGES.copy()
    expected[0, :3] = IMAGES[3, :3]
    expected[1, 1:4, 2:6] = IMAGES[0, 1:4, 2:6]
    expected[3] = IMAGES[2]
    np.testing.assert_array_equal(images, expected)
    np.testing.assert_allclose(
        labels,
        [
            LABELS[0] / 2 + LABELS[3] / 2,
            LABELS[1] * 0.75 + LABELS[0] * 0.25,
            LABELS[2],
            LABELS[2],
        ],
    )


def test_binary_labels_are_mixed_too(run):
    labels = np.float32([[0], [1], [1], [0]])
    _, mixed = run(MixUp(), IMAGES, labels, np.full((4, 1), 0.75))
    np.testing.assert_allclose(mixed, [[0], [0.75], [1], [0.25]])


def drawn_by(stage, height=100, width=50, count=20_000):
    uniforms = np.random.default_rng(0).random((count, stage.num_uniforms))
    return stage.draw(uniforms, np.full(count, height), np.full(count, width))


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_weights_of_mixup_are_those_of_the_beta_distribution(alpha):
    weights = drawn_by(MixUp(alpha))[:, 0]
    reference = np.random.default_rng(1).beta(alpha, alpha, 200_000)
    for bound in np.linspace(0.05, 0.95, 19):
        assert (weights < bound).mean() == pytest.approx((reference < bound).mean(), abs=0.012)
    assert weights.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.03)


@pytest.mark.parametrize("stage", [MixUp(probability=0.3), CutMix(probability=0.3)], ids=repr)
def test_as_many_examples_are_mixed_as_asked(stage):
    assert (drawn_by(stage)[:, -1] != 1).mean() == pytest.approx(0.3, abs=0.015)


def test_boxes_of_cutmix_are_those_of_the_definition():
    # Independently, as the paper's reference does it, an image at a time.
    rng = np.random.default_rng(2)
    expected = []
    for _ in range(20_000):
        side = np.sqrt(1 - rng.beta(1, 1))
        extents, middles = (int(100 * side), int(50 * side)), (rng.integers(100), rng.integers(50))
        ends = [
            (np.clip(m - e // 2, 0, n), np.clip(m - e // 2 + e, 0, n))
            for m, e, n in zip(middles, extents, (100, 50), strict=True)
        ]
        (top, bottom), (left, right) = ends
        expected.append([top, left, bottom, right, 1 - (bottom - top) * (right - left) / 5000])
    found = drawn_by(CutMix())
    probabilities = np.linspace(0.05, 0.95, 19)
    for number, atol in enumerate((2, 1, 2, 1, 0.02)):
        quantiles = [
            np.quantile(np.array(rows)[:, number], probabilities) for rows in (found, expected)
        ]
        np.testing.assert_allclose(*quantiles, atol=atol)
    share = 1 - (found[:, 2] - found[:, 0]) * (found[:, 3] - found[:, 1]) / 5000
    np.testing.assert_allclose(found[:, 4], share)


@pytest.mark.parametrize("make", [MixUp, CutMix])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, r"\.alpha: expected a number from 0\.01 to 100, got 0"),
        ({"probability": 2}, r"\.probability: expected a number from 0 to 1, got 2"),
    ],
)
def test_what_a_mix_cannot_take_is_refused(make, options, message):
    with pytest.raises(ConfigError, match=make.__name__ + message):
        make(**options)


@pytest.mark.parametrize("stage", [MixUp(), CutMix()], ids=["MixUp", "CutMix"])
def test_mixing_needs_batches_and_labels_that_can_be_mixed(stage):
    name = type(stage).__name__
    with pytest.raises(ConfigError, match=f"{name} mixes the examples of a batch"):
        stage.check(3, "one_hot", None)
    with pytest.raises(ConfigError, match=f'{name} mixes labels.* label_mode="int"'):
        stage.check(3, "int", 8)
    stage.check(3, "binary", 8)
