import pathlib

import images
import pytest

from tfrds.disk.layout import (
    SplitFiles,
    class_names_file,
    find_configs,
    find_versions,
    is_dataset,
    parse_version,
)

FILES = ("tfrds.json", "features.json", "dataset_info.json")


def put_dataset(directory):
    for name in FILES:
        images.put(directory / name, "{}")
    return directory


def test_files_of_a_split_are_named_as_in_the_format():
    files = SplitFiles(pathlib.Path("/data/pets/1.0.0"), "pets", "train")
    assert str(files.shard(0, 4)) == "/data/pets/1.0.0/pets-train.tfrecord-00000-of-00004"
    assert files.shard(99_998, 99_999).name == "pets-train.tfrecord-99998-of-99999"
    assert files.index.name == "pets-train.index.npy"
    assert files.keys.name == "pets-train.keys.npy"
    assert files.key_offsets.name == "pets-train.key_offsets.npy"
    assert class_names_file(files.directory, "label").name == "label.labels.txt"


def test_shard_names_are_those_of_tfds():
    import tensorflow_datasets as tfds

    template = tfds.core.ShardedFileTemplate(
        data_dir="/d", dataset_name="pets", split="test", filetype_suffix="tfrecord"
    )
    ours = SplitFiles(pathlib.Path("/d"), "pets", "test")
    assert str(ours.shard(7, 12)) == str(template.sharded_filepath(shard_index=7, num_shards=12))


def test_dataset_needs_all_three_files(tmp_path):
    put_dataset(tmp_path / "1.0.0")
    assert is_dataset(tmp_path / "1.0.0")
    for name in FILES:
        (tmp_path / "1.0.0" / name).unlink()
        assert not is_dataset(tmp_path / "1.0.0")
        images.put(tmp_path / "1.0.0" / name, "{}")
    assert not is_dataset(tmp_path / "2.0.0")
    assert not is_dataset(tmp_path)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("1.0.0", (1, 0, 0)),
        ("10.2.33", (10, 2, 33)),
        ("1.0", None),
        ("1.0.0.0", None),
        ("v1.0.0", None),
        ("1.0.0\n", None),
        ("1.0.-1", None),
        ("\u0661.0.0", None),  # an Arabic digit
        (".tfrds-build-1.0.0", None),
    ],
)
def test_only_three_numbers_are_a_version(name, version):
    assert parse_version(name) == version


def test_versions_are_sorted_by_number_and_complete(tmp_path):
    for version in ("9.0.0", "10.0.0", "1.2.10", "1.2.9"):
        put_dataset(tmp_path / version)
    put_dataset(tmp_path / ".tfrds-build-11.0.0")
    put_dataset(tmp_path / ".tfrds-old-12.0.0-00")
    images.put(tmp_path / "13.0.0" / "tfrds.json", "{}")
    images.put(tmp_path / "14.0.0", "a file")
    assert find_versions(tmp_path) == ["1.2.9", "1.2.10", "9.0.0", "10.0.0"]


def test_configs_are_folders_that_hold_a_version(tmp_path):
    put_dataset(tmp_path / "small" / "1.0.0")
    put_dataset(tmp_path / "big" / "2.0.0")
    put_dataset(tmp_path / "1.0.0" / "1.0.0")
    put_dataset(tmp_path / ".hidden" / "1.0.0")
    (tmp_path / "empty").mkdir()
    assert find_configs(tmp_path) == ["big", "small"]


def test_missing_folder_and_file_hold_nothing(tmp_path):
    path = images.put(tmp_path / "file", "text")
    for place in (tmp_path / "gone", path):
        assert find_versions(place) == find_configs(place) == []
