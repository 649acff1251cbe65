import re

import pytest

from tfrds.checks import check_dataset_name, check_split_name, check_version
from tfrds.errors import ConfigError
from tfrds.spec import BuildOptions


def got(value):
    return f"got {re.escape(repr(value))}"


@pytest.mark.parametrize(
    "name", ["all", "ALL", "a-b", "a b", "", "1st", "_a", "train[:5]", "a+b", "über", "a\n", 5]
)
def test_split_name_that_tfds_cannot_read_is_refused(name):
    with pytest.raises(ConfigError, match=f"splits: .*name.*{got(name)}"):
        BuildOptions(splits={name: 1.0})
    with pytest.raises(ConfigError, match=f"source: .*{got(name)}"):
        check_split_name(name, "source")


@pytest.mark.parametrize("name", ["train", "Train", "fold_1", "validation", "alls"])
def test_words_are_split_names(name):
    assert check_split_name(name) == name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Flowers", "Try 'flowers'"),
        ("CIFAR-10", "Try 'cifar_10'"),
        ("3d shapes", "Try 'd_shapes'"),
        ("my data!", "Try 'my_data'"),
        ("a/b", "Try 'a_b'"),
        ("name:1.0.0", "Try 'name_1_0_0'"),
    ],
)
def test_dataset_name_is_refused_with_a_name_to_try(name, hint):
    with pytest.raises(ConfigError, match=f"name: expected lower case.*{got(name)}.*{hint}"):
        check_dataset_name(name)


@pytest.mark.parametrize("name", ["", "1", "___", "é", "..", None, 5, "name\n"])
def test_dataset_name_is_refused_with_its_value(name):
    with pytest.raises(ConfigError, match=f"name: expected lower case.*{got(name)}"):
        check_dataset_name(name)


def test_dataset_names_of_tfds_are_accepted():
    for name in ("mnist", "cifar10", "d4rl_adroit_door", "x"):
        assert check_dataset_name(name) == name


@pytest.mark.parametrize(
    "version",
    [
        "1",
        "1.0",
        "1.0.0.0",
        "v1.0.0",
        "1.*.*",
        "01.0.0",
        "1.0.0-rc1",
        "1.0.0\n",
        "\u0661.0.0",
        "1\u0661.0.0",
        "",
        None,
        1.0,
    ],
)
def test_version_is_refused_with_its_value(version):
    with pytest.raises(ConfigError, match=f"version: .*major.minor.patch.*{got(version)}"):
        check_version(version)


def test_versions_are_three_numbers():
    for version in ("0.0.0", "1.0.0", "10.20.30"):
        assert check_version(version) == version
