"""A class whose OPTIONS or VERSION moved on, and a dataset that is overwritten under a builder."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

import tfrds


def arrays(count, num_classes, side=8):
    images = np.arange(count, dtype=np.uint8)[:, None, None] * np.ones((side, side), np.uint8)
    return tfrds.sources.Arrays(images, np.arange(count) % num_classes)


@pytest.fixture
def tool():
    """A registered class; its registration ends with the test."""

    class Tool(tfrds.ImageDatasetBuilder):
        VERSION = "1.0.0"
        OPTIONS = tfrds.BuildOptions(image_size=8)

        def _source(self, dl_manager):
            return arrays(20, 2)

    yield Tool
    tfds.core.registered._DATASET_REGISTRY.pop("tool")


@pytest.mark.parametrize("load", [tfds.load, tfrds.load])
def test_options_that_differ_from_the_built_ones_are_an_error_on_every_way(tool, load):
    load("tool", split="train")
    tool.OPTIONS = tfrds.BuildOptions(image_size=4)
    with pytest.raises(
        tfrds.DatasetError,
        match=r"built with image_size=\[8, 8\], OPTIONS of Tool say image_size=\[4, 4\]\. Raise "
        "VERSION",
    ):
        load("tool", split="train")


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"on_duplicate": "drop"}, "on_duplicate='keep', .* on_duplicate='drop'"),
        ({"jpeg_quality": 90, "check": "none"}, "check='decode', jpeg_quality=95, .* check='none'"),
        ({"splits": {"train": 0.5, "test": 0.5}}, r"splits=None, .* splits=\{'train': 0\.5"),
    ],
    ids=str,
)
def test_every_option_that_decides_bytes_needs_a_new_version(tool, options, difference):
    tfds.load("tool", split="train")
    tool.OPTIONS = tfrds.BuildOptions(image_size=8, **options)
    for use in (
        lambda: tfds.load("tool", split="train"),
        lambda: tool().download_and_prepare(),
        lambda: tool().as_data_source("train"),
    ):
        with pytest.raises(tfrds.DatasetError, match=f"built with {difference}.*Raise VERSION"):
            use()


def test_options_that_decide_no_byte_need_no_new_version(tool):
    tfds.load("tool", split="train")
    tool.OPTIONS = tfrds.BuildOptions(image_size=8, on_error="skip", max_bad=0.5, num_shards=3)
    assert len(tfds.load("tool", split="train")) == 20


def test_an_older_version_keeps_its_own_options(tool):
    tfds.load("tool", split="train")
    tool.OPTIONS = tfrds.BuildOptions(image_size=4)
    tool.VERSION = "1.1.0"
    for dataset in (
        tfrds.load("tool:1.0.0", split="train"),
        tfds.load("tool:1.0.0/fast=True", split="train"),
    ):
        assert dataset.element_spec["image"].shape == (8, 8, 1)
    assert tfds.load("tool", split="train").element_spec["image"].shape == (4, 4, 1)


@pytest.mark.parametrize(("before", "after"), [((20, 2), (60, 3)), ((60, 3), (20, 2))])
def test_a_builder_sees_what_another_one_wrote_over_its_dataset(tmp_path, before, after):
    builder = tfrds.build("grown", arrays(*before), data_dir=tmp_path)
    dataset = builder.as_dataset(split="train", batch_size=7)
    tfrds.build("grown", arrays(*after), data_dir=tmp_path, overwrite=True)
    # What is open keeps the old bytes, what is opened now has the new ones.
    assert sum(len(batch["label"]) for batch in dataset.as_numpy_iterator()) == before[0]
    batches = list(builder.as_dataset(split="train", batch_size=7).as_numpy_iterator())
    assert sum(len(batch["label"]) for batch in batches) == after[0]
    assert batches[0]["label"].shape == (7, after[1])
    assert builder.info.splits["train"].num_examples == after[0]
    assert builder.info.features["label"].num_classes == after[1]


@pytest.mark.parametrize("file_format", ["array_record", tfds.core.FileFormat.PARQUET])
def test_other_file_formats_are_refused_before_any_work(tool, file_format, data_dir):
    with pytest.raises(tfrds.ConfigError, match="file_format: tfrds knows 'tfrecord', got "):
        tfds.builder("tool", file_format=file_format)
    assert not (data_dir / "tool").exists()


def test_random_access_by_name_is_the_datasets_examples(tool, data_dir):
    builder = tfds.builder("tool")
    with pytest.raises(tfrds.DatasetError, match="no prepared dataset of tool"):
        builder.as_data_source("train")
    builder.download_and_prepare()
    expected = list(builder.as_dataset(split="train").as_numpy_iterator())
    sources = [
        builder.as_data_source("train"),
        builder.as_data_source()["train"],
        tfrds.data_source("tool", split="train"),
        tfds.data_source("tool", split="train", data_dir=data_dir),
    ]
    for source in sources:
        assert len(source) == len(expected)
        for example, other in zip(source, expected, strict=True):
            np.testing.assert_array_equal(example["image"], other["image"])
            np.testing.assert_array_equal(example["label"], other["label"])


@pytest.mark.parametrize("name", ["decoders", "deserialize_method"])
def test_a_data_source_decodes_by_itself(tool, name):
    builder = tfds.builder("tool")
    with pytest.raises(tfrds.ConfigError, match=f"{name}: a data source decodes by itself, got 3"):
        builder.as_data_source("train", **{name: 3})


def test_tfds_data_source_of_another_format_names_ours(tool):
    tfds.builder("tool").download_and_prepare()
    with pytest.raises(tfrds.ConfigError, match=r"For random access use tfrds\.data_source"):
        tfds.data_source("tool", split="train")


@pytest.mark.parametrize("split", ["train[15:5]", "train[15:5]+train", "train[5:5]"])
def test_a_slice_that_selects_nothing_is_refused(tool, split):
    with pytest.raises(tfrds.ConfigError, match="split: "):
        tfrds.load("tool", split=split)


@pytest.mark.parametrize("seed", [-5, 2**70])
def test_seed_of_read_config_is_checked_before_iterating(tool, seed):
    config = tfds.ReadConfig(shuffle_seed=seed)
    with pytest.raises(tfrds.ConfigError, match=f"read_config.shuffle_seed: .* got {seed}"):
        tfrds.load("tool", split="train", shuffle_files=True, read_config=config)


def test_a_name_too_long_for_files_is_refused(tmp_path):
    with pytest.raises(tfrds.ConfigError, match=r"name: expected at most 128 .* got 300"):
        tfrds.build("a" * 300, arrays(4, 2), data_dir=tmp_path)


def test_a_build_that_failed_leaves_nothing_at_all(tmp_path):
    source = tfrds.sources.Arrays(np.zeros((4, 8, 8, 2), np.uint8), [0, 1, 0, 1])
    with pytest.raises(tfrds.EncodeError):
        tfrds.build("failed", source, data_dir=tmp_path, channels=9, encoding="raw")
    assert list(tmp_path.iterdir()) == []
