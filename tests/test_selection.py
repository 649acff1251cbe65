"""Subsets, balance and weights: by index, before any decode."""

from collections import Counter

import keras
import numpy as np
import pytest

import tfrds
from tfrds.augment import MixUp
from tfrds.errors import ConfigError

NAMES = ["ant", "bee", "cat", "dog"]


def examples(dataset):
    return [
        (key.decode(), label)
        for batch in dataset.as_numpy_iterator()
        for key, label in zip(np.ravel(batch["key"]), np.ravel(batch["label"]), strict=True)
    ]


def load(built, split="train", **options):
    return built.load(split, batch_size=7, with_key=True, label_mode="int", **options)


def keys_of(built, *names, split="train/"):
    return {
        key
        for key, label in built.labels.items()
        if key.startswith(split) and NAMES[label] in names
    }


@pytest.mark.parametrize(
    "select", [["bee", "dog"], ("dog", 1), {"classes": [3, "bee"]}, {"classes": {1, 3}}]
)
@pytest.mark.parametrize("shuffle", [False, True, "blocks"])
def test_classes_are_selected(built, select, shuffle):
    dataset = load(built, select=select, shuffle=shuffle)
    found = examples(dataset)
    assert {key for key, _ in found} == keys_of(built, "bee", "dog")
    assert len(found) == len(keys_of(built, "bee", "dog"))
    assert len(dataset) == -(-len(found) // 7)


def test_a_selection_keeps_the_order_of_the_split(built):
    everything = examples(load(built))
    chosen = examples(load(built, select=["cat"]))
    assert chosen == [(key, label) for key, label in everything if label == 2]


def test_keys_are_selected(built):
    wanted = sorted(keys_of(built, "ant"))[:3]
    assert {key for key, _ in examples(load(built, select={"keys": wanted}))} == set(wanted)


def test_a_boolean_array_is_one_value_for_each_example_of_the_expression(built):
    everything = examples(load(built, "train[10:30]"))
    chosen = np.arange(20) % 3 == 0
    found = examples(load(built, "train[10:30]", select=chosen))
    assert found == [example for example, is_in in zip(everything, chosen, strict=True) if is_in]


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (["cta"], r"select: unknown class 'cta'\. Expected one of \['ant'.* Did you mean 'cat'\?"),
        ([4], "select: unknown class 4"),
        ([True], "select: unknown class True"),
        ([], r"select: expected a list of classes.* got \[\]"),
        ("cat", "select: expected a list of classes.* got 'cat'"),
        ({"class": ["cat"]}, r"select: expected .* got \{'class'"),
        ({"keys": ["nowhere"]}, r"select: 1 of 1 keys are not in the split: \['nowhere'\]\. Its"),
        (np.ones(49, bool), r"a boolean for each of the 50 examples .* array of \[49\]"),
        (np.zeros(50, bool), "select: none of the 50 examples"),
        (np.ones(50), r"select: expected .* got an array of float64 \[50\]"),
    ],
)
def test_what_selects_nothing_is_refused(raw, select, message):
    with pytest.raises(ConfigError, match=message):
        load(raw, select=select)


def test_balanced_epochs_have_equally_many_of_each_class(built):
    # 50 examples of 4 classes; of two only one example is left.
    everything = examples(load(built))
    first = {label: key for key, label in reversed(everything)}
    chosen = np.array([label in (0, 3) or key == first[label] for key, label in everything])
    dataset = load(built, select=chosen, balance="classes", shuffle=True, seed=1)
    quota = int(chosen.sum()) // 4
    for _ in range(3):
        found = examples(dataset)
        assert Counter(label for _, label in found) == {label: quota for label in range(4)}
    assert len(dataset) == -(-4 * quota // 7)


def test_balance_needs_shuffling_of_all(raw):
    with pytest.raises(ConfigError, match=r"balance: .* got shuffle=False"):
        load(raw, balance="classes")
    with pytest.raises(ConfigError, match=r'shuffle: "blocks" cannot be .* balance="classes"'):
        load(raw, balance="classes", shuffle="blocks")
    with pytest.raises(ConfigError, match=r"balance: expected one of \['classes'\], got 'keys'"):
        load(raw, balance="keys", shuffle=True)


def test_weights_by_class_come_beside_the_labels(built):
    dataset = built.load(batch_size=7, sample_weight={"bee": 2, 3: 0.5}, label_mode="int")
    for batch in dataset.as_numpy_iterator():
        assert batch["sample_weight"].dtype == np.float32
        np.testing.assert_array_equal(
            batch["sample_weight"], np.array([1, 2, 1, 0.5])[batch["label"]]
        )


def test_weights_by_example_follow_their_example(built):
    order = [key for key, _ in examples(load(built))]
    weights = np.arange(50) / 10
    by_key = dict(zip(order, weights, strict=True))
    dataset = load(built, sample_weight=weights, shuffle=True, select=["cat", "dog"])
    for batch in dataset.as_numpy_iterator():
        expected = [by_key[key.decode()] for key in batch["key"]]
        np.testing.assert_allclose(batch["sample_weight"], expected)


def test_keras_takes_the_weights_as_the_third_element(raw):
    dataset = raw.load(
        batch_size=50, as_supervised=True, sample_weight={"ant": 3.0}, label_mode="int"
    )
    assert [spec.shape.rank for spec in dataset.element_spec] == [4, 1, 1]
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(4, use_bias=False)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss)
    ((images, labels, weights),) = dataset
    expected = loss(labels, model(images), sample_weight=weights)
    assert model.evaluate(dataset, verbose=0) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize(
    ("sample_weight", "message"),
    [
        ({"cta": 1}, "sample_weight: unknown class 'cta'"),
        ({"cat": -1}, "sample_weight: expected a number of at least 0 for class 'cat', got -1"),
        ({"cat": "2"}, "class 'cat', got '2'"),
        (np.ones(49), r"each of the 50 examples .* got an array of float64 \[49\]"),
        ([1, 2], r"sample_weight: expected a mapping .* got \[1, 2\]"),
        (np.full(50, np.nan), "sample_weight: expected numbers of at least 0, got nan"),
        (np.arange(50) - 1, "got -1 at example 0"),
    ],
)
def test_what_is_no_weight_is_refused(raw, sample_weight, message):
    with pytest.raises(ConfigError, match=message):
        load(raw, sample_weight=sample_weight)


def test_mixed_examples_have_no_weight_of_their_own(raw):
    with pytest.raises(ConfigError, match="sample_weight: MixUp makes one example of two"):
        raw.load(batch_size=4, sample_weight={"cat": 2}, augment=[MixUp()])


@pytest.mark.parametrize("split", ["train", "test", "train[:20]+test"])
def test_class_weights_make_the_classes_count_alike(built, split):
    labels = [label for _, label in examples(load(built, split))]
    weights = tfrds.class_weight(built.builder, split)
    counts = Counter(labels)
    assert set(weights) == set(counts)
    for label, count in counts.items():
        assert weights[label] * count == pytest.approx(len(labels) / len(counts))
