"""Several datasets as one, in fixed proportions."""

import itertools
from collections import Counter

import numpy as np
import pytest

import tfrds
from tfrds.augment import CenterCrop
from tfrds.errors import ConfigError
from tfrds.read.mixed import quotas_of


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Datasets "a" of 40, "b" of 20 and "c" of 7 images; each image holds its own number."""
    folder = tmp_path_factory.mktemp("mixed")
    for number, (name, count) in enumerate((("a", 40), ("b", 20), ("c", 7))):
        images = np.full((count, 5, 4, 3), number, np.uint8)
        images[:, 0, 0, 0] = np.arange(count)
        source = tfrds.sources.Arrays(images, np.arange(count) % 2)
        tfrds.build(name, source, data_dir=folder, class_names=["no", "yes"], encoding="raw")
    tfrds.build("three", tfrds.sources.Arrays(images, np.arange(7) % 3), data_dir=folder)
    other = np.zeros((6, 4, 4, 3), np.uint8)
    tfrds.build(
        "small",
        tfrds.sources.Arrays(other, np.arange(6) % 2),
        data_dir=folder,
        class_names=["no", "yes"],
    )
    return folder


def mix(root, weights, **options):
    return tfrds.mix(
        weights,
        data_dir=root,
        **{"batch_size": 8, "seed": 1, "label_mode": "int", "dtype": "uint8", **options},
    )


def epoch_of(dataset):
    """Returns (dataset, number, label) of each example."""
    return [
        (int(image[-1, -1, 0]), int(image[0, 0, 0]), int(label))
        for batch in dataset.as_numpy_iterator()
        for image, label in zip(batch["image"], batch["label"], strict=True)
    ]


def test_epochs_have_the_proportions_asked_for(root):
    dataset = mix(root, {"a": 0.5, "b": 0.25, "c": 0.25})
    assert len(dataset) == 9
    orders = []
    for _ in range(3):
        epoch = epoch_of(dataset)
        assert Counter(name for name, _, _ in epoch) == {0: 33, 1: 17, 2: 17}
        assert all(label == number % 2 for _, number, label in epoch)
        assert sum(one[0] != other[0] for one, other in itertools.pairwise(epoch)) > 20
        orders.append(epoch)
    assert len(set(map(tuple, orders))) == 3


def test_examples_of_each_are_seen_equally_often(root):
    dataset = mix(root, {"a": 1, "c": 1}, num_examples=20)
    seen = Counter()
    for _ in range(7):
        seen.update((name, number) for name, number, _ in epoch_of(dataset))
        for name, count in ((0, 40), (2, 7)):
            counts = [seen[name, number] for number in range(count)]
            assert max(counts) - min(counts) <= 1


def test_keys_go_with_their_images(root):
    dataset = mix(root, {"a": 1, "b": 1}, with_key=True)
    for batch in dataset.as_numpy_iterator():
        assert [int(key) for key in batch["key"]] == batch["image"][:, 0, 0, 0].tolist()


def test_workers_starts_and_crops_work_as_for_one_dataset(root):
    weights = {"a": 0.6, "b": 0.4}
    whole = epoch_of(mix(root, weights, augment=[CenterCrop((5, 4))]))
    assert whole == epoch_of(mix(root, weights))
    assert epoch_of(mix(root, weights, start=(0, 3))) == whole[24:]
    shares = [epoch_of(mix(root, weights, batch_size=4, worker=(index, 2))) for index in (0, 1)]
    assert Counter(shares[0] + shares[1]) == Counter(whole)


def test_jpeg_datasets_of_several_sizes_mix_at_one(jpeg, sizes, tmp_path):
    for built in (jpeg, sizes):
        (tmp_path / built.name).symlink_to(built.root / built.name)
    dataset = tfrds.mix(
        {jpeg.name: 1, sizes.name: 3}, data_dir=tmp_path, batch_size=10, image_size=8, with_key=True
    )
    keys = [key for batch in dataset.as_numpy_iterator() for key in batch["key"]]
    assert len(keys) == 100


def test_largest_remainders_come_first():
    assert quotas_of([1, 1, 1], 10) == [4, 3, 3]
    assert quotas_of([0.7, 0.3], 10) == [7, 3]
    assert quotas_of([5, 3, 2], 7) == [4, 2, 1]
    with pytest.raises(ConfigError, match=r"has none of the dataset with weight 0\.001"):
        quotas_of([1, 0.001], 10)


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        ({}, {}, r"mix: expected weights by name .* got \{\}"),
        (["a"], {}, r"mix: expected weights by name .* got \['a'\]"),
        ({"a": 0}, {}, "mix: expected a weight above 0 for 'a', got 0"),
        ({"a": 1}, {"num_examples": 0}, "num_examples: expected an integer of at least 1, got 0"),
        ({"a": 1, "three": 1}, {}, r"mix: 'three' has the classes \['0', '1', '2'\], 'a' has"),
        ({"a": 1, "small": 1}, {}, r"a has image_size \(5, 4\), small has \(4, 4\)"),
        ({"a": 1}, {"select": ["no"]}, "select: cannot be honoured together with mix"),
        ({"a": 1}, {"balance": "classes"}, "balance: cannot be honoured together with mix"),
        ({"a": 1}, {"shuffle": False}, "shuffle: a mixture is always shuffled .* got False"),
        ({"a": 1}, {"normalize": "dataset", "dtype": "float32"}, 'normalize: "dataset" is of one'),
    ],
)
def test_what_cannot_be_mixed_is_refused(root, weights, options, message):
    with pytest.raises(ConfigError, match=message):
        mix(root, weights, **options)


def test_raw_and_encoded_images_do_not_mix(root, jpeg, tmp_path):
    (tmp_path / "a").symlink_to(root / "a")
    (tmp_path / jpeg.name).symlink_to(jpeg.root / jpeg.name)
    with pytest.raises(ConfigError, match="classes"):
        tfrds.mix({"a": 1, jpeg.name: 1}, data_dir=tmp_path)


def test_a_dataset_that_is_not_there_is_named(root):
    with pytest.raises(tfrds.DatasetError, match="nowhere"):
        mix(root, {"a": 1, "nowhere": 1})
