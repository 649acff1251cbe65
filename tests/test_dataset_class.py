"""TFDS's own test case on a dataset of tfrds that is a small class."""

import os
import pathlib

import pytest
import tensorflow_datasets as tfds
from many_classes.many_classes import ManyClasses
from small_photos.small_photos import SmallPhotos

import tfrds


class TestSmallPhotos(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = SmallPhotos
    SPLITS = {"train": 6, "test": 4}  # noqa: RUF012 - as TFDS declares it


class TestManyClasses(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = ManyClasses
    SPLITS = {"train": 23}  # noqa: RUF012
    # Its images are in memory: none have to be made up.
    EXAMPLE_DIR = os.fspath(pathlib.Path(__file__).parent / "small_photos" / "dummy_data")


del tfds  # so that pytest does not collect the base class


@pytest.mark.parametrize("name", ["small_photos", "many_classes"])
def test_the_class_is_registered_under_its_name_in_snake_case(name):
    assert tfrds.builder(name).name == name
