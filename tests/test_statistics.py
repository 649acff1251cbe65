import json
import os
import shutil

import numpy as np
import pytest

import tfrds
from tfrds.disk.build_record import read_build_record
from tfrds.read.statistics import dataset_statistics


@pytest.fixture
def copied(built, tmp_path):
    """A dataset of its own, without statistics."""
    root = tmp_path / "copied"
    shutil.copytree(built.root / built.name, root / built.name)
    directory = root / built.name / "1.0.0"
    (directory / "tfrds-statistics.json").unlink(missing_ok=True)
    return tfrds.builder(built.name, data_dir=root), directory


def exact(built):
    """Mean and std of each channel over all training pixels, by numpy."""
    train = [image for key, image in built.pixels.items() if key.startswith("train/")]
    pixels = np.concatenate([image.reshape(-1, 3) for image in train]).astype(np.float64)
    return pixels.mean(axis=0), pixels.std(axis=0)


def test_statistics_are_those_of_the_training_pixels(built, copied):
    found = dataset_statistics(read_build_record(copied[1]))
    mean, std = exact(built)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(found.std, std, rtol=1e-9)
    assert (found.split, found.num_examples) == ("train", 50)


def test_dataset_is_normalized_to_mean_0_and_std_1(built, copied):
    dataset = copied[0].as_dataset(split="train", batch_size=50, normalize="dataset")
    (batch,) = dataset.as_numpy_iterator()
    np.testing.assert_allclose(batch["image"].mean(axis=(0, 1, 2)), 0, atol=1e-4)
    np.testing.assert_allclose(batch["image"].std(axis=(0, 1, 2)), 1, atol=1e-4)
    # Another split is normalized by the training pixels too.
    mean, std = exact(built)
    (test,) = (
        copied[0]
        .as_dataset(split="test", batch_size=50, normalize="dataset", with_key=True)
        .as_numpy_iterator()
    )
    for key, image in zip(test["key"], test["image"], strict=True):
        np.testing.assert_allclose(image, (built.pixels[key.decode()] - mean) / std, atol=1e-4)


def test_value_range_changes_nothing_of_a_measured_normalization(copied):
    one, other = (
        next(copied[0].as_dataset(split="test", batch_size=13, **options).as_numpy_iterator())
        for options in (
            {"normalize": "dataset"},
            {"normalize": "dataset", "value_range": (-1, 1)},
        )
    )
    np.testing.assert_array_equal(one["image"], other["image"])


def test_statistics_are_measured_once(copied):
    record = read_build_record(copied[1])
    first = dataset_statistics(record)
    path = copied[1] / "tfrds-statistics.json"
    assert json.loads(path.read_bytes())["digest"] == record.digest
    for shard in copied[1].glob("*.tfrecord-*"):
        shard.unlink()
    assert dataset_statistics(record) == first


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"[]",
        b"{}",
        b"x" * 100_000,
        lambda content: {**content, "digest": "other"},
        lambda content: {**content, "mean": [1.0]},
        lambda content: {**content, "std": [1.0, -1.0, 1.0]},
        lambda content: {**content, "mean": [float("nan")] * 3},
        lambda content: {**content, "mean": "abc"},
    ],
)
def test_statistics_that_are_damaged_or_of_another_dataset_are_measured_anew(copied, damage):
    record = read_build_record(copied[1])
    first = dataset_statistics(record)
    path = copied[1] / "tfrds-statistics.json"
    content = json.loads(path.read_bytes())
    path.write_bytes(damage if isinstance(damage, bytes) else json.dumps(damage(content)).encode())
    assert dataset_statistics(record) == first
    assert json.loads(path.read_bytes()) == content


def test_a_place_that_cannot_be_written_is_no_fault(copied, monkeypatch):
    def refuse(*_):
        raise PermissionError("read-only")

    monkeypatch.setattr(os, "replace", refuse)
    assert dataset_statistics(read_build_record(copied[1])).num_examples == 50
    assert not [name for name in os.listdir(copied[1]) if "statistics" in name]


def test_a_constant_channel_becomes_zero(tmp_path):
    images = np.full((4, 5, 6, 3), (7, 0, 255), np.uint8)
    source = tfrds.sources.Arrays(images, [0, 1, 0, 1])
    builder = tfrds.build("flat", source, data_dir=tmp_path)
    (batch,) = builder.as_dataset(
        split="train", batch_size=4, normalize="dataset"
    ).as_numpy_iterator()
    assert not batch["image"].any()
