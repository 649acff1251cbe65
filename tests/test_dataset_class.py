"""TFDS's own test case on a dataset of tfrds that is a small class."""

import pytest
import tensorflow_datasets as tfds
from small_photos.small_photos import SmallPhotos

import tfrds


class TestSmallPhotos(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = SmallPhotos
    SPLITS = {"train": 6, "test": 4}  # noqa: RUF012 - as TFDS declares it


del tfds  # so that pytest does not collect the base class


@pytest.mark.parametrize("name", ["small_photos"])
def test_the_class_is_registered_under_its_name_in_snake_case(name):
    assert tfrds.builder(name).name == name
