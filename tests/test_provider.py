import pytest
import tensorflow_datasets as tfds
from datasets import build, run_script

import tfrds
from tfrds import data_dirs
from tfrds.errors import DatasetError
from tfrds.provider import Provider

ORDER_SCRIPT = """
import sys
{imports}
builder = tfds.builder("raw_images")
print(isinstance(builder, tfrds.ImageDatasetBuilder), builder.info.splits["train"].num_examples)
from tensorflow_datasets.core.registered import _DATASET_PROVIDER_REGISTRY as providers
print([type(provider).__name__ for provider in providers].count("Provider"))
print(any(name.startswith("tensorflow_datasets.image_classification") for name in sys.modules))
"""


@pytest.fixture
def small_source():
    import numpy as np

    return tfrds.sources.Arrays(np.zeros((4, 3, 3), np.uint8), np.arange(4))


@pytest.mark.parametrize(
    "imports",
    [
        "import tfrds; import tensorflow_datasets as tfds",
        "import tensorflow_datasets as tfds; import tfrds",
    ],
)
def test_either_import_order_installs_one_provider_and_imports_no_dataset(raw, imports):
    process = run_script(ORDER_SCRIPT.format(imports=imports), TFDS_DATA_DIR=str(raw.root))
    assert process.stdout.splitlines() == ["True 50", "1", "False"], process.stderr


def test_a_name_is_found_in_the_default_dir(small_source, data_dir):
    build("by_default", small_source, None, class_names=None)
    assert isinstance(tfds.builder("by_default"), tfrds.ImageDatasetBuilder)


def test_a_name_is_found_in_an_added_data_dir(small_source, tmp_path):
    build("in_added", small_source, tmp_path, class_names=None)
    data_dirs._used.clear()
    assert not Provider().has_dataset("in_added")
    tfds.core.add_data_dir(tmp_path)
    assert isinstance(tfds.builder("in_added"), tfrds.ImageDatasetBuilder)


def test_a_name_is_found_where_this_process_built_it(small_source, tmp_path):
    build("just_built", small_source, tmp_path, class_names=None)
    assert len(tfds.load("just_built", split="train")) == 4


def test_a_name_is_found_in_a_data_dir_this_process_loaded_from(raw):
    assert not Provider().has_dataset(raw.name)
    tfrds.load(raw.name, split="train", data_dir=raw.root)
    assert len(tfds.load(raw.name, split="train")) == 50


def test_other_names_are_left_to_tfds():
    assert not Provider().has_dataset("no_such_name")
    with pytest.raises(tfds.core.registered.DatasetNotFoundError):
        tfds.builder("no_such_name")
    with pytest.raises(DatasetError, match="no_such_name: no such dataset"):
        Provider().get_builder_cls("no_such_name")


def test_a_registered_name_is_never_shadowed(small_source, tmp_path):
    build("team_images", small_source, tmp_path, class_names=None)
    assert Provider().has_dataset("team_images")

    class TeamImages(tfrds.ImageDatasetBuilder):
        VERSION = "3.0.0"

        def _source(self, dl_manager):
            return small_source

    try:
        assert not Provider().has_dataset("team_images")
        assert tfds.builder_cls("team_images") is TeamImages
        assert isinstance(tfrds.builder("team_images"), TeamImages)
    finally:
        del tfds.core.registered._DATASET_REGISTRY["team_images"]


def test_a_dataset_of_tfds_is_not_shadowed_by_an_unprepared_name():
    assert tfds.builder_cls("mnist").__module__.startswith("tensorflow_datasets.")
    assert not Provider().has_dataset("mnist")


def test_the_highest_version_is_opened_and_any_other_on_demand(small_source, tmp_path):
    for version in ("1.9.0", "1.10.0", "0.3.0"):
        build("versions", small_source, tmp_path, version=version, class_names=None)
    assert str(tfds.builder("versions").version) == "1.10.0"
    assert str(tfds.builder("versions:0.3.0").version) == "0.3.0"
    assert str(tfds.builder("versions:1.9.*/fast=True").version) == "1.9.0"
    with pytest.raises((DatasetError, AssertionError), match=r"2\.0\.0"):
        tfds.builder("versions:2.0.0")
