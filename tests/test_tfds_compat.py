import dataclasses
import json
import shutil
import sys

import pytest
import tensorflow_datasets as tfds

import tfrds
from tfrds import tfds_compat
from tfrds.errors import ConfigError, DatasetError


@pytest.fixture
def copy(raw, tmp_path):
    shutil.copytree(raw.directory, tmp_path / raw.name / "1.0.0")
    return dataclasses.replace(raw, root=tmp_path)


def change_features(built, change):
    path = built.directory / "features.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A module that is importable, and leaves a trace when it is imported."""
    (tmp_path / "trap.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_suffix('.sprung').touch()"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "trap", raising=False)
    return tmp_path / "trap.sprung"


def at_the_image(key):
    def change(content):
        image = content["featuresDict"]["features"]["image"]
        del image["pythonClassName"]
        image[key] = "trap.Class"

    return change


def at_the_top(key):
    def change(content):
        del content["pythonClassName"]
        content[key] = "trap.Class"
        content["content"] = {}

    return change


def deep_inside(key):
    def change(content):
        content["featuresDict"]["features"]["more"] = {
            "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
            "featuresDict": {"features": {"x": {key: "trap.Class"}}},
        }

    return change


@pytest.mark.parametrize("place", [at_the_image, at_the_top, deep_inside])
@pytest.mark.parametrize("key", ["pythonClassName", "python_class_name", "type", "proto_cls"])
def test_features_that_name_another_class_are_refused_and_not_imported(copy, trap, key, place):
    change_features(copy, place(key))
    with pytest.raises(
        DatasetError, match=r"names the class 'trap.Class', expected only .* not imported"
    ):
        tfds_compat.read_features(copy.directory)
    with pytest.raises(DatasetError, match=r"names the class 'trap.Class'"):
        tfrds.load(copy.name, data_dir=copy.root)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read"),
        ("[1, 2]", "incomplete"),
        ("{}", "incomplete"),
        ("[" * 100_000, "cannot be read"),
        ('{"pythonClassName": "tfrds.features.Image"}', "incomplete"),
        ('{"featuresDict": {"features": 3}}', "incomplete"),
        ('{"featuresDict": {"features": {"a": ' * 300 + "{}" + "}}}" * 300, "incomplete"),
        (" " * 2**21, "larger than"),
    ],
)
def test_damaged_features_name_the_file(copy, text, message):
    (copy.directory / "features.json").write_text(text)
    with pytest.raises(DatasetError, match=f"features.json: {message}"):
        tfds_compat.read_features(copy.directory)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b'{"version": "1.0.0", "more": 1}',
        b'{"version": "2.0.0"}',
        b'{"version": "1.0.0", "splits": 3}',
        b'{"version": "1.0.0", "splits": [{"name": "train", "shardLengths": [[]]}]}',
        b" " * (64 * 2**20 + 1),
    ],
    ids=lambda data: repr(data[:50]),
)
def test_damaged_info_names_the_file(copy, data):
    (copy.directory / "dataset_info.json").write_bytes(data)
    with pytest.raises(DatasetError, match=r"dataset_info\.json: cannot be read: .*Copy or build"):
        copy.load()


def test_info_of_other_shards_is_refused(copy):
    path = copy.directory / "dataset_info.json"
    content = json.loads(path.read_text())
    content["splits"][1]["shardLengths"][0] = "16"
    path.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=r"dataset_info\.json and tfrds\.json tell of different"):
        copy.load()


@pytest.mark.parametrize(
    ("part", "key", "value"), [("image", "shape", [9, 8, 3]), ("label", "num_classes", 5)]
)
def test_features_of_another_dataset_are_refused(copy, part, key, value):
    path = copy.directory / "tfrds.json"
    content = json.loads(path.read_text())
    content[part][key] = value
    path.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=r"features\.json and tfrds\.json tell of different"):
        copy.load()


def test_missing_or_fewer_class_names_are_named(copy):
    path = copy.directory / "label.labels.txt"
    path.write_text("ant\nbee\n")
    with pytest.raises(
        DatasetError, match=r"label.labels.txt: expected the names of 4 classes, found 2"
    ):
        copy.load()
    path.unlink()
    with pytest.raises(DatasetError, match=r"expected the names of 4 classes, found 0"):
        copy.load()


def test_features_come_back_as_they_were_written(raw):
    features = tfds_compat.read_features(raw.directory)
    assert features["image"].shape == (9, 7, 3)
    assert features["label"].names == ["ant", "bee", "cat", "dog"]


def test_stretches_of_a_split_expression(raw):
    info = raw.builder.info
    assert tfds_compat.row_ranges(info, "train") == [("train", 0, 50)]
    assert tfds_compat.row_ranges(info, "train[20:40]") == [("train", 20, 20)]
    assert tfds_compat.row_ranges(info, "train[:5]+test[2:]+train[5:7]") == [
        ("train", 0, 5),
        ("test", 2, 11),
        ("train", 5, 2),
    ]


def test_a_split_that_tfds_refuses_is_a_config_error(raw):
    with pytest.raises(ConfigError, match=r"split: Unknown split 'vaild'"):
        tfds_compat.row_ranges(raw.builder.info, "vaild")


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(tfds.ReadConfig)])
def test_every_field_of_read_config_is_honoured_or_served_by_tfds(field):
    values = {
        "options": None,
        "file_format": tfds.core.FileFormat.ARRAY_RECORD,
        "input_context": object(),
        "experimental_interleave_sort_fn": sorted,
    }
    default = getattr(tfds.ReadConfig(), field)
    value = values.get(field, not default if isinstance(default, bool) else 3)
    config = tfds.ReadConfig(**{field: value})
    served = tfds_compat.reason_for_tfds_reader(None, config)
    honoured = {
        "options",
        "input_context",
        "try_autocache",
        "add_tfds_id",
        "shuffle_seed",
        "shuffle_reshuffle_each_iteration",
        "skip_prefetch",
        "num_parallel_calls_for_decode",
        "num_parallel_calls_for_interleave_files",
        "enable_ordering_guard",
        "assert_cardinality",
        "override_buffer_size",
    }
    assert served == (None if field in honoured else f"read_config.{field}")


def test_mock_data_is_noticed():
    assert not tfds_compat.is_mocked()
    with tfds.testing.mock_data():
        assert tfds_compat.is_mocked()
    assert not tfds_compat.is_mocked()


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("flowers", "flowers", {}),
        ("flowers:1.0.0", "flowers", {"version": "1.0.0"}),
        ("flowers/small:1.*.*", "flowers", {"config": "small", "version": "1.*.*"}),
        ("flowers:1.0.0/fast=True", "flowers", {"version": "1.0.0", "fast": True}),
    ],
)
def test_names_are_read_as_tfds_reads_them(text, name, arguments):
    found, kwargs = tfds_compat.parse_name(text)
    assert found == name
    assert {
        key: str(value) if key == "version" else value for key, value in kwargs.items()
    } == arguments
