import dataclasses
import json
import pathlib
import shutil
import sys

import numpy as np
import pytest
import tensorflow_datasets as tfds
from datasets import run_script

import tfrds
from tfrds import features
from tfrds.errors import ConfigError, DatasetError
from tfrds.image_builder import ImageDatasetBuilder

IDS = tfds.ReadConfig(add_tfds_id=True)

WITHOUT_TFRDS_SCRIPT = """
import json, sys
import numpy as np
import tensorflow_datasets as tfds

has_loaded = False
for name, way in json.loads(sys.argv[3]):
    if way == "directory":
        builder = tfds.builder_from_directory(f"{sys.argv[1]}/{name}/1.0.0")
    elif way == "version":
        builder = tfds.builder(f"{name}:1.0.0")
    else:
        builder = tfds.builder(name)
    # After the first dataset TFDS has imported our connectors, and with them our provider.
    is_of_tfds = type(builder).__module__.startswith("tensorflow_datasets.")
    assert is_of_tfds or (way, has_loaded) == ("name", True), (name, way, type(builder))
    has_loaded = True
    dataset = builder.as_dataset(split="train", read_config=tfds.ReadConfig(add_tfds_id=True))
    examples = list(dataset.as_numpy_iterator())
    np.savez(
        f"{sys.argv[2]}/{name}-{way}.npz",
        ids=[example["tfds_id"].decode() for example in examples],
        image=[example["image"] for example in examples],
        label=[example["label"] for example in examples],
    )
"""

WAYS = {
    "provider": lambda built: tfds.load(built.name, split="train", read_config=IDS),
    "tfrds.load": lambda built: tfrds.load(
        built.name, split="train", data_dir=built.root, read_config=IDS
    ),
    "tfrds.load of a version": lambda built: tfrds.load(
        f"{built.name}:1.0.0", split="train", read_config=IDS
    ),
    "version": lambda built: tfds.load(f"{built.name}:1.0.0", split="train", read_config=IDS),
    "any patch": lambda built: tfds.load(f"{built.name}:1.0.*", split="train", read_config=IDS),
    "version and data_dir": lambda built: tfds.load(
        f"{built.name}:1.0.0", split="train", data_dir=built.root, read_config=IDS
    ),
    "data_dir": lambda built: tfds.load(
        built.name, split="train", data_dir=built.root, read_config=IDS
    ),
    "fast": lambda built: tfds.load(
        f"{built.name}:1.0.0/fast=True", split="train", read_config=IDS
    ),
    "directory": lambda built: tfds.builder_from_directory(built.directory).as_dataset(
        split="train", read_config=IDS
    ),
    "builder": lambda built: tfds.builder(built.name).as_dataset(split="train", read_config=IDS),
}


@pytest.fixture
def by_default(built, monkeypatch):
    """Makes the dataset lie where TFDS looks by default."""
    monkeypatch.setattr(
        sys.modules["tensorflow_datasets.core.constants"], "DATA_DIR", str(built.root)
    )
    return built


def check_examples(built, examples):
    """The examples are the stored ones, exactly; `examples` is (tfds_id, image, label) of each."""
    stored = built.stored("train")
    assert len(examples) == len(stored) == 50
    assert {name for name, _, _ in examples} == set(stored)
    for name, image, label in examples:
        assert image.dtype == label.dtype == np.float32
        np.testing.assert_array_equal(image, stored[name][0])
        np.testing.assert_array_equal(label, np.eye(4)[stored[name][1]])


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_load_gives_the_same_pixels(by_default, way):
    examples = [
        (example["tfds_id"].decode(), example["image"], example["label"])
        for example in WAYS[way](by_default).as_numpy_iterator()
    ]
    check_examples(by_default, examples)


def test_a_process_that_never_imports_tfrds_reads_the_same_pixels(raw, jpeg, png, tmp_path):
    # One process for all: it spends its time importing TensorFlow.
    ways = [
        (built.name, way) for built in (raw, jpeg, png) for way in ("name", "directory", "version")
    ]
    root = tmp_path / "data"
    root.mkdir()
    for built in (raw, jpeg, png):
        (root / built.name).symlink_to(built.root / built.name)
    process = run_script(
        WITHOUT_TFRDS_SCRIPT, root, tmp_path, json.dumps(ways), TFDS_DATA_DIR=str(root)
    )
    assert process.returncode == 0, process.stderr
    for built in (raw, jpeg, png):
        for way in ("directory", "version", "name"):
            with np.load(tmp_path / f"{built.name}-{way}.npz") as found:
                check_examples(
                    built, list(zip(found["ids"], found["image"], found["label"], strict=True))
                )


def test_a_registered_class_reads_the_same_pixels(built, data_dir):
    source = built.directory.parent / "unused"

    class_name = f"Registered{built.name.title().replace('_', '')}"
    registered = type(
        class_name,
        (ImageDatasetBuilder,),
        {
            "VERSION": "1.0.0",
            "OPTIONS": tfrds.BuildOptions(
                class_names=("ant", "bee", "cat", "dog"), encoding="original", num_shards=3
            ),
            "_source": lambda self, dl_manager: source_of(built),
            "__module__": __name__,
        },
    )
    try:
        assert tfds.builder_cls(registered.name) is registered
        dataset = tfds.load(registered.name, split="train", read_config=IDS)
        examples = [
            (example["tfds_id"].decode(), example["image"], example["label"])
            for example in dataset.as_numpy_iterator()
        ]
        directory = pathlib.Path(data_dir / registered.name / "1.0.0")
        check_examples(dataclasses.replace(built, name=registered.name, root=data_dir), examples)
        assert directory.is_dir()
        assert not source.exists()
    finally:
        del tfds.core.registered._DATASET_REGISTRY[registered.name]


def source_of(built):
    splits = {}
    for split in ("train", "test"):
        chosen = [key for key in built.pixels if key.startswith(split)]
        splits[split] = tfrds.sources.Arrays(
            np.stack([built.pixels[key] for key in chosen]),
            np.array([built.labels[key] for key in chosen]),
        )
    return splits


def test_tfds_reader_says_so_once_and_names_the_fast_forms(by_default, caplog):
    features._say_which_reader_once.cache_clear()
    for _ in range(2):
        tfds.load(f"{by_default.name}:1.0.0", split="train")
    (record,) = [record for record in caplog.records if record.name == "tfrds"]
    assert "the same values, but not the fast path" in record.getMessage()
    assert '"name:1.0.0/fast=True"' in record.getMessage()
    caplog.clear()
    features._say_which_reader_once.cache_clear()
    tfds.load(f"{by_default.name}:1.0.0/fast=True", split="train")
    assert not [record for record in caplog.records if record.name == "tfrds"]


def test_tfds_reader_takes_no_read_option_of_ours(by_default):
    with pytest.raises(TypeError, match="image_size"):
        tfds.load(f"{by_default.name}:1.0.0", as_dataset_kwargs={"image_size": 8})
    fast = tfds.load(by_default.name, split="train", as_dataset_kwargs={"image_size": 8})
    assert fast.element_spec["image"].shape == (8, 8, 3)


def test_load_returns_the_info_too(raw):
    dataset, info = tfrds.load(raw.name, split="test", data_dir=raw.root, with_info=True)
    assert len(dataset) == info.splits["test"].num_examples == 13
    assert info.features["label"].names == ["ant", "bee", "cat", "dog"]
    assert str(info.version) == "1.0.0"


def test_load_takes_every_argument_of_tfds(raw):
    dataset = tfrds.load(
        raw.name,
        split="train",
        data_dir=raw.root,
        batch_size=25,
        shuffle_files=True,
        download=False,
        as_supervised=True,
        decoders=None,
        read_config=tfds.ReadConfig(shuffle_seed=1),
        with_info=False,
        builder_kwargs={"version": "1.0.0"},
        download_and_prepare_kwargs={},
        as_dataset_kwargs={"drop_remainder": True},
        try_gcs=False,
        file_format="tfrecord",
    )
    assert len(dataset) == 2


def test_load_has_the_arguments_and_defaults_of_tfds():
    import inspect

    theirs = inspect.signature(tfds.load).parameters
    ours = inspect.signature(tfrds.load).parameters
    assert set(theirs) <= set(ours)
    assert {name: ours[name].default for name in theirs} == {
        name: parameter.default for name, parameter in theirs.items()
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(try_gcs=True), "try_gcs: .* got True"),
        (
            dict(file_format="array_record"),
            "file_format: tfrds knows 'tfrecord', got 'array_record'",
        ),
        (dict(builder_kwargs={"colour": 3}), "colour: 'raw_images' has no builder class"),
    ],
)
def test_load_refuses_what_it_cannot_honour(raw, arguments, message):
    with pytest.raises(ConfigError, match=message):
        tfrds.load(raw.name, data_dir=raw.root, **arguments)


def test_a_missing_name_says_where_it_looked_and_what_is_near(raw):
    with pytest.raises(
        DatasetError, match=r"raw_imgaes: no such dataset in .* Did you mean 'raw_images'\?"
    ):
        tfrds.load("raw_imgaes", data_dir=raw.root)
    with pytest.raises(DatasetError) as error:
        tfrds.load("raw_imgaes", data_dir=raw.root)
    assert str(raw.root) in str(error.value)


def test_a_missing_version_says_which_there_are(raw):
    with pytest.raises(
        DatasetError, match=r"raw_images:2.0.0: no such .* It has the versions \['1.0.0'\]"
    ):
        tfrds.load("raw_images:2.0.0", data_dir=raw.root)


def test_a_missing_name_imports_no_dataset_of_tfds(tmp_path):
    process = run_script(
        "import sys, tfrds\n"
        "try:\n  tfrds.load('mnits')\n"
        "except tfrds.DatasetError as error:\n  print(error)\n"
        "print([name for name in sys.modules if '.image_classification' in name])\n"
        "print('tensorflow' in sys.modules)",
        TFDS_DATA_DIR=str(tmp_path),
    )
    message, imported, has_tensorflow = process.stdout.splitlines()
    assert message.startswith(f"mnits: no such dataset in ['{tmp_path}'].")
    assert imported == "[]"
    assert has_tensorflow == "False"


def test_a_name_in_two_data_dirs_asks_which(raw, tmp_path):
    for root in (tmp_path / "a", tmp_path / "b"):
        shutil.copytree(raw.root / raw.name, root / raw.name)
        tfds.core.add_data_dir(root)
    with pytest.raises(
        DatasetError, match=r"raw_images: found in several data directories: .* Pass data_dir="
    ):
        tfrds.load(raw.name)
    with pytest.raises(DatasetError, match=r"raw_images: found in several data directories"):
        tfds.load(raw.name)


def test_reading_a_copy_once_changes_nothing_for_later_lines(raw, tmp_path):
    shutil.copytree(raw.root / raw.name, tmp_path / "copy" / raw.name)
    (tmp_path / "link").symlink_to(raw.root)
    tfds.core.add_data_dir(raw.root)
    for root in (tmp_path / "copy", tmp_path / "link"):
        tfrds.load(raw.name, data_dir=root)
    assert tfrds.builder(raw.name).data_dir_root == raw.root
    assert len(tfds.load(raw.name, split="train")) == 50


def test_a_renamed_folder_is_named(raw, tmp_path):
    shutil.copytree(raw.root / raw.name, tmp_path / "other")
    with pytest.raises(DatasetError, match=r"other/1\.0\.0: holds version 1\.0\.0 of 'raw_images'"):
        tfrds.load("other", data_dir=tmp_path)


def test_a_class_that_is_not_of_tfrds_is_refused(data_dir):
    tfds.builder_cls("mnist")
    with pytest.raises(
        ConfigError,
        match=r"name: 'mnist' is registered by tensorflow_datasets.*mnist, not a dataset",
    ):
        tfrds.load("mnist")
