import json
import logging
import pathlib
import pickle

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from datasets import decoded, run_script
from small_photos.small_photos import SmallPhotos

import tfrds
from tfrds.errors import ConfigError, DatasetError, SourceError

PHOTOS = pathlib.Path(__file__).parent / "small_photos" / "dummy_data"


class Plain(tfrds.ImageDatasetBuilder, skip_registration=True):
    VERSION = "1.0.0"
    OPTIONS = tfrds.BuildOptions(class_names=("a", "b"))

    def _source(self, dl_manager):
        return tfrds.sources.Arrays(np.full((20, 4, 3), 7, np.uint8), np.arange(20) % 2)


def in_manual_dir(**config):
    return tfds.download.DownloadConfig(manual_dir=PHOTOS, **config)


@pytest.fixture
def small_photos(tmp_path):
    builder = SmallPhotos(data_dir=tmp_path)
    builder.download_and_prepare(download_config=in_manual_dir())
    return builder


def test_class_reads_from_manual_dir(small_photos):
    images = dict.fromkeys(("train", "test"), 0)
    for split in images:
        for example in small_photos.as_dataset(split=split, with_key=True).as_numpy_iterator():
            pixels = decoded((PHOTOS / "photos" / example["key"].decode()).read_bytes())
            expected = tf.image.resize(pixels, (12, 16))
            # Raw pixels are resized at build, by Pillow, with antialiasing: near, not equal.
            assert np.abs(example["image"] - expected.numpy()).max() < 6
            assert (
                small_photos.info.features["label"].int2str(example["label"])
                in example["key"].decode()
            )
            images[split] += 1
    assert images == {"train": 6, "test": 4}


def test_missing_manual_files_say_where_and_what(tmp_path):
    builder = SmallPhotos(data_dir=tmp_path)
    config = tfds.download.DownloadConfig(manual_dir=tmp_path / "nothing")
    with pytest.raises((SourceError, AssertionError), match="nothing"):
        builder.download_and_prepare(download_config=config)
    assert not builder.data_path.exists()


def test_info_tells_what_the_class_says(small_photos):
    info = SmallPhotos(data_dir=small_photos.data_dir_root).info
    assert info.description == "Photographs that are not photographs."
    assert info.citation == "@misc{none}"
    assert str(info.version) == "1.0.0"
    assert info.supervised_keys == ("image", "label")
    assert info.features["image"].shape == (12, 16, 3)
    assert info.features["label"].names == ["cat", "dog"]
    assert {name: split.num_examples for name, split in info.splits.items()} == {
        "train": 6,
        "test": 4,
    }
    assert info.redistribution_info.license == "CC0"


def test_not_prepared_says_what_to_call(tmp_path):
    with pytest.raises(
        DatasetError, match=r"no prepared dataset of plain\. Call download_and_prepare\(\)"
    ):
        Plain(data_dir=tmp_path).as_dataset(split="train")


def test_an_empty_target_directory_is_not_a_prepared_dataset(tmp_path):
    (tmp_path / "plain" / "1.0.0").mkdir(parents=True)
    builder = Plain(data_dir=tmp_path)
    builder.download_and_prepare()
    assert len(builder.as_dataset(split="train")) == 20


def test_a_prepared_dataset_is_reused(tmp_path, caplog):
    Plain(data_dir=tmp_path).download_and_prepare()
    before = (tmp_path / "plain" / "1.0.0" / "tfrds.json").stat()
    with caplog.at_level(logging.INFO, "tfrds"):
        Plain(data_dir=tmp_path).download_and_prepare()
    assert "Reusing the dataset plain" in caplog.text
    assert (tmp_path / "plain" / "1.0.0" / "tfrds.json").stat().st_ino == before.st_ino


def test_other_options_than_those_built_are_an_error(tmp_path, monkeypatch):
    Plain(data_dir=tmp_path).download_and_prepare()
    monkeypatch.setattr(
        Plain, "OPTIONS", tfrds.BuildOptions(class_names=("a", "b"), jpeg_quality=80)
    )
    with pytest.raises(
        DatasetError,
        match=r"built with jpeg_quality=95, OPTIONS of Plain say jpeg_quality=80. Raise VERSION",
    ):
        Plain(data_dir=tmp_path).download_and_prepare()


def test_overwrite_builds_again(tmp_path, monkeypatch):
    Plain(data_dir=tmp_path).download_and_prepare()
    monkeypatch.setattr(Plain, "OPTIONS", tfrds.BuildOptions(class_names=("x", "y")))
    builder = Plain(data_dir=tmp_path)
    config = tfds.download.DownloadConfig(
        download_mode=tfds.download.GenerateMode.REUSE_CACHE_IF_EXISTS
    )
    builder.download_and_prepare(download_config=config)
    assert builder.info.features["label"].names == ["x", "y"]
    assert Plain(data_dir=tmp_path).info.features["label"].names == ["x", "y"]


def test_num_shards_of_the_download_config_is_honoured(tmp_path):
    builder = Plain(data_dir=tmp_path)
    builder.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=4))
    assert builder.info.splits["train"].shard_lengths == [5, 5, 5, 5]
    Plain(data_dir=tmp_path).download_and_prepare()  # what shards there are is no reason to refuse


def test_another_file_format_is_refused(tmp_path):
    with pytest.raises(
        ConfigError, match="file_format: tfrds knows 'tfrecord', got 'array_record'"
    ):
        Plain(data_dir=tmp_path).download_and_prepare(file_format="array_record")


@pytest.mark.parametrize("is_prepared", [False, True])
def test_mock_data_gives_examples_of_the_features(tmp_path, is_prepared):
    if is_prepared:
        Plain(data_dir=tmp_path).download_and_prepare()
    with tfds.testing.mock_data(num_examples=3):
        builder = Plain(data_dir=tmp_path)
        builder.download_and_prepare()
        examples = list(builder.as_dataset(split="train"))
        assert len(examples) == 3
        assert examples[0]["image"].dtype == examples[0]["label"].dtype == tf.float32
        assert examples[0]["label"].shape == (2,)
        batch = next(iter(builder.as_dataset(split="train", batch_size=2, as_supervised=True)))
        assert batch[1].shape == (2, 2)
    assert is_prepared == (tmp_path / "plain").exists()


def test_mock_data_serves_a_name_without_code(raw):
    with tfds.testing.mock_data(num_examples=2, data_dir=str(raw.root)):
        (first, _) = tfrds.load(raw.name, split="train", data_dir=raw.root)
        assert first["image"].shape == (9, 7, 3)


def test_builders_pickle(raw, small_photos):
    for builder in (raw.builder, small_photos):
        again = pickle.loads(pickle.dumps(builder))
        assert (again.name, again.version, again.data_dir) == (
            builder.name,
            builder.version,
            builder.data_dir,
        )
        assert len(again.as_dataset(split="test")) == len(builder.as_dataset(split="test"))


def test_builders_unpickle_in_another_process(raw, small_photos, tmp_path):
    (tmp_path / "pickle").write_bytes(pickle.dumps([raw.builder, small_photos]))
    process = run_script(
        "import pickle, sys\n"
        "for builder in pickle.load(open(sys.argv[1], 'rb')):\n"
        "  print(builder.name, builder.info.splits['train'].num_examples)",
        tmp_path / "pickle",
    )
    assert process.stdout.splitlines() == ["raw_images 50", "small_photos 6"], process.stderr


def test_build_refuses_a_version_of_other_inputs_unless_overwrite_is_set(tmp_path):
    source = tfrds.sources.Arrays(np.zeros((3, 2, 2), np.uint8), np.arange(3))
    tfrds.build("flowers", source, data_dir=tmp_path)
    tfrds.build("flowers", source, data_dir=tmp_path)  # of the same ones: reused
    more = tfrds.sources.Arrays(np.zeros((5, 2, 2), np.uint8), np.arange(5))
    with pytest.raises(
        DatasetError,
        match=r"flowers/1\.0\.0: this version exists .*2 images added: 3, 4\. .*overwrite=True",
    ):
        tfrds.build("flowers", more, data_dir=tmp_path)
    assert (
        len(
            tfrds.build("flowers", more, data_dir=tmp_path, overwrite=True).as_dataset(
                split="train"
            )
        )
        == 5
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(name="Flowers"), "name: expected lower case letters.* got 'Flowers'. Try 'flowers'"),
        (dict(version="1.0"), "version: expected \"major.minor.patch\".* got '1.0'"),
        (dict(num_workers=0), "num_workers: expected an integer of at least 1, got 0"),
        (dict(image_size=0), r"image_size: .* got 0"),
        (dict(source=3), "source: expected .* got int"),
    ],
)
def test_build_names_the_argument_that_is_wrong(tmp_path, arguments, message):
    source = tfrds.sources.Arrays(np.zeros((3, 2, 2), np.uint8), np.arange(3))
    with pytest.raises(ConfigError, match=message):
        tfrds.build(**{"name": "flowers", "source": source, "data_dir": tmp_path, **arguments})
    assert not list(tmp_path.glob("flowers/*"))


def test_damaged_record_of_the_build_is_named(tmp_path):
    builder = Plain(data_dir=tmp_path)
    builder.download_and_prepare()
    path = pathlib.Path(builder.data_dir) / "tfrds.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "format": "2.0"}))
    with pytest.raises(
        DatasetError, match=r"tfrds.json: expected format 1.0 .* found format '2.0'"
    ):
        Plain(data_dir=tmp_path).as_dataset(split="train")
