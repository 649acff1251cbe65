"""One class, several configurations: as code, and read without it."""

import pathlib
import pickle
import sys
import types

import numpy as np
import pytest
import tensorflow_datasets as tfds

import tfrds
from tfrds.errors import ConfigError, DatasetError


class TwoConfigs(tfrds.ImageDatasetBuilder, skip_registration=True):
    """Images of one colour."""

    VERSION = "2.1.0"
    SUPPORTED_VERSIONS = ["2.0.0"]  # noqa: RUF012 - TFDS takes lists only
    RELEASE_NOTES = types.MappingProxyType({"2.1.0": "Better colours."})
    BUILDER_CONFIGS = (
        tfds.core.BuilderConfig(name="small", description="2 x 2"),
        tfds.core.BuilderConfig(name="large", description="5 x 4"),
    )

    def _source(self, dl_manager):
        height, width = (2, 2) if self.builder_config.name == "small" else (5, 4)
        images = np.arange(12, dtype=np.uint8)[:, None, None] * np.ones((height, width), np.uint8)
        return {
            "train": tfrds.sources.Arrays(images[:8], np.arange(8) % 2),
            "test": tfrds.sources.Arrays(images[8:], np.arange(4) % 2),
        }


def test_features_are_open_before_the_build_and_closed_after(tmp_path):
    builder = TwoConfigs(data_dir=tmp_path, config="small")
    assert builder.info.features["image"].shape == (None, None, 3)
    builder.download_and_prepare()
    assert builder.info.features["image"].shape == (2, 2, 1)
    assert builder.info.features["label"].names == ["0", "1"]


def test_each_configuration_is_a_dataset(tmp_path):
    for config, size in (("small", (2, 2, 1)), ("large", (5, 4, 1))):
        builder = TwoConfigs(data_dir=tmp_path, config=config)
        builder.download_and_prepare()
        assert pathlib.Path(builder.data_dir) == tmp_path / "two_configs" / config / "2.1.0"
        assert builder.as_dataset(split="train").element_spec["image"].shape == size
        assert len(list(builder.as_dataset(split="test"))) == 4
    assert pathlib.Path(TwoConfigs(data_dir=tmp_path).data_dir).parent.name == "small"


@pytest.fixture
def two_configs(tmp_path, monkeypatch):
    """Two configurations on disk, whose class is not registered."""
    monkeypatch.setattr(
        sys.modules["tensorflow_datasets.core.constants"], "DATA_DIR", str(tmp_path)
    )
    for config in ("small", "large"):
        TwoConfigs(data_dir=tmp_path, config=config).download_and_prepare()
    return tmp_path


def test_a_configuration_is_read_without_the_class(two_configs):
    for name in ("two_configs/large", "two_configs/large:2.1.0", "two_configs/large:2.*.*"):
        dataset = tfrds.load(name, split="train", data_dir=two_configs)
        assert dataset.element_spec["image"].shape == (5, 4, 1)
        assert len(list(dataset)) == 8
    assert tfds.load("two_configs/large:2.1.0", split="test").element_spec["image"].shape == (
        5,
        4,
        1,
    )
    assert (
        pickle.loads(pickle.dumps(tfrds.builder("two_configs/large"))).builder_config.name
        == "large"
    )


def test_a_builder_pickles_with_its_configuration(two_configs):
    builder = TwoConfigs(data_dir=two_configs, config="large")
    again = pickle.loads(pickle.dumps(builder))
    assert again.builder_config.name == "large"
    assert again.data_dir == builder.data_dir


def test_a_name_with_several_configurations_asks_which(two_configs):
    with pytest.raises(
        DatasetError, match=r"has the configurations \['large', 'small'\]. Choose one"
    ):
        tfrds.load("two_configs")


def test_a_configuration_is_found_by_the_name_alone(two_configs):
    assert len(tfds.load("two_configs/large", split="train")) == 8


def test_a_single_configuration_is_found_by_the_name_alone(tmp_path):
    TwoConfigs(data_dir=tmp_path, config="large").download_and_prepare()
    for name in ("two_configs", "two_configs/large"):
        assert tfrds.load(name, split="train").element_spec["image"].shape == (5, 4, 1)
        assert tfds.load(name, split="train").element_spec["image"].shape == (5, 4, 1)


def test_an_older_version_that_is_not_on_disk_cannot_be_built(tmp_path):
    with pytest.raises(
        ConfigError, match=r"version: two_configs builds 2.1.0, got 2.0.0, which is not on disk"
    ):
        TwoConfigs(data_dir=tmp_path, version="2.0.0").download_and_prepare()


def test_max_examples_per_split_bounds_each_split(tmp_path):
    builder = TwoConfigs(data_dir=tmp_path)
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(max_examples_per_split=3)
    )
    assert {name: split.num_examples for name, split in builder.info.splits.items()} == {
        "train": 3,
        "test": 3,
    }
