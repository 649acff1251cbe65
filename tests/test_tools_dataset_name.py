import pytest

from tfrds.errors import ConfigError, DatasetError
from tfrds.tools.dataset_name import find_directory, parse_dataset_name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("pets", ("pets", None, None)),
        ("pets:1.0.0", ("pets", None, "1.0.0")),
        ("pets:1.*.*", ("pets", None, "1.*.*")),
        ("pets/small", ("pets", "small", None)),
        ("pets/small:10.2.30", ("pets", "small", "10.2.30")),
    ],
)
def test_parts_of_a_name(text, parts):
    name = parse_dataset_name(text)
    assert (name.name, name.config, name.version) == parts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got ''"),
        ("Pets", "got 'Pets'"),
        ("..", r"got '\.\.'"),
        ("/etc", "got ''"),
        ("pets/", "got 'pets/'"),
        ("pets/..", r"does not start with a dot, got 'pets/\.\.'"),
        ("pets/../..", r"got 'pets/\.\./\.\.'"),
        ("pets:", "got 'pets:'"),
        ("pets:1.0", r"version .* got 'pets:1\.0'"),
        ("pets:1.0.0/..", r"got 'pets:1\.0\.0/\.\.'"),
        ("pets/fast=True:1.0.0:2", "got 'pets/fast=True:1.0.0:2'"),
    ],
)
def test_other_text_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_dataset_name(text)


@pytest.mark.parametrize("text", ["raw_images", "raw_images:1.0.0", "raw_images:1.*.*"])
def test_finds_the_directory(raw, text):
    assert find_directory(text, raw.root) == raw.directory


def test_says_what_is_near_what_it_does_not_find(raw):
    with pytest.raises(
        DatasetError, match=r"raw_image: no such dataset .* Did you mean 'raw_images'"
    ):
        find_directory("raw_image", raw.root)
    with pytest.raises(
        DatasetError, match=r"raw_images:2\.0\.0: .* has the versions \['1\.0\.0'\]"
    ):
        find_directory("raw_images:2.0.0", raw.root)
