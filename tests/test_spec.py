import dataclasses
import json
import pickle
import re

import numpy as np
import pytest
from PIL import Image

from tfrds.checks import parse_image_size
from tfrds.errors import ConfigError
from tfrds.read_options import ReadOptions
from tfrds.spec import BuildOptions, background_values

SIZES_REFUSED = [
    0,
    -1,
    65_536,
    True,
    1.0,
    "64",
    "64x64",
    b"64",
    (64,),
    (64, 64, 3),
    (64, 0),
    (64, -2),
    (64, True),
    (64, 64.0),
    (64, None),
    ("a", "b"),
    {64: 64},
    float("nan"),
    np.array([64, 64]),
    np.zeros((2, 2)),
]


def got(value):
    return f"got {re.escape(repr(value))}"


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (None, None),
        (64, (64, 64)),
        (1, (1, 1)),
        (65_535, (65_535, 65_535)),
        ((48, 64), (48, 64)),
        ([48, 64], (48, 64)),
        (np.int64(7), (7, 7)),
        ((np.uint8(200), 3), (200, 3)),
    ],
)
def test_image_size_is_height_and_width_and_one_integer_a_square(given, parsed):
    size = parse_image_size(given)
    assert size == parsed
    assert size is None or [type(side) for side in size] == [int, int]
    assert BuildOptions(image_size=given).image_size == parsed
    assert ReadOptions(image_size=given).image_size == parsed


@pytest.mark.parametrize("value", SIZES_REFUSED, ids=repr)
@pytest.mark.parametrize("options", [BuildOptions, ReadOptions])
def test_image_size_that_is_no_size_is_refused_with_its_value(options, value):
    with pytest.raises(ConfigError, match=f"image_size: expected .*height, width.*{got(value)}"):
        options(image_size=value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resize", "Crop"),
        ("resize", None),
        ("resize", ["crop"]),
        ("encoding", "png"),
        ("encoding", ""),
        ("encoding", None),
        ("channels", 0),
        ("channels", 256),
        ("channels", True),
        ("channels", 3.0),
        ("channels", "3"),
        ("background", (0, 0)),
        ("background", (0, 0, 256)),
        ("background", (0, -1, 0)),
        ("background", (0, 0, True)),
        ("background", (0.0, 0.0, 0.0)),
        ("background", "abc"),
        ("background", b"abc"),
        ("background", 255),
        ("background", None),
        ("jpeg_quality", 0),
        ("jpeg_quality", 101),
        ("jpeg_quality", None),
        ("jpeg_quality", 95.0),
        ("check", "full"),
        ("check", None),
        ("check", True),
        ("exif_transpose", None),
        ("exif_transpose", 1),
        ("exif_transpose", "no"),
        ("max_pixels", 0),
        ("max_pixels", -1),
        ("max_pixels", 65_535**2 + 1),
        ("max_pixels", 1e6),
        ("max_pixels", True),
        ("max_pixels", None),
        ("num_shards", 0),
        ("num_shards", 100_000),
        ("num_shards", "4"),
        ("splits", {}),
        ("splits", ["train"]),
        ("splits", 0.8),
        ("splits", {"train": 0.8, "test": 0}),
        ("splits", {"train": 0.8, "test": -0.2}),
        ("splits", {"train": 1.5}),
        ("splits", {"train": True}),
        ("splits", {"train": "0.8", "test": 0.2}),
        ("splits", {"train": float("nan")}),
        ("class_names", b"cat"),
        ("class_names", 2),
        ("class_names", ()),
        ("class_names", ["cat", 1]),
        ("class_names", {"cat"}),
        ("on_error", "ignore"),
        ("on_error", None),
        ("on_error", True),
        ("max_bad", -0.01),
        ("max_bad", 1.01),
        ("max_bad", float("nan")),
        ("max_bad", "0.1"),
        ("max_bad", True),
        ("max_bad", None),
        ("on_duplicate", "remove"),
        ("on_duplicate", False),
        ("on_duplicate", None),
    ],
    ids=repr,
)
def test_build_option_is_refused_with_its_value(field, value):
    bad = value
    if isinstance(value, dict) and value:
        bad = next(each for each in value.values() if each != 0.8)
        bad = value["train"] if isinstance(value["train"], str) else bad
    with pytest.raises(ConfigError, match=f"^{field}: .*{got(bad)}"):
        BuildOptions(**{field: value})


def test_choices_are_listed():
    with pytest.raises(ConfigError, match=r"resize: expected one of \['stretch', 'crop', 'pad'\]"):
        BuildOptions(resize="fit")
    with pytest.raises(ConfigError, match=r"expected one of \['auto', 'raw', 'jpeg', 'original'\]"):
        BuildOptions(encoding="webp")
    with pytest.raises(ConfigError, match=r"expected one of \['decode', 'header', 'none'\]"):
        BuildOptions(check="all")


def test_largest_image_is_by_default_what_pillow_opens_without_an_error():
    assert BuildOptions().max_pixels == 2 * Image.MAX_IMAGE_PIXELS


@pytest.mark.parametrize("value", [0, -1, 65_536, True, 256.0])
def test_store_size_is_refused_with_its_value(value):
    with pytest.raises(ConfigError, match=f"store_size: .*{got(value)}"):
        BuildOptions(store_size=value, encoding="jpeg")


@pytest.mark.parametrize("encoding", ["auto", "raw", "original"])
def test_store_size_needs_images_that_are_encoded_again(encoding):
    with pytest.raises(ConfigError, match=f"store_size=256 with\\s+encoding='{encoding}'"):
        BuildOptions(store_size=256, encoding=encoding)


def test_fractions_must_sum_to_one():
    with pytest.raises(
        ConfigError, match=r"sum to 1, got \{'train': 0.8, 'test': 0.1\} with the sum 0.9"
    ):
        BuildOptions(splits={"train": 0.8, "test": 0.1})
    thirds = {"a": 1 / 3, "b": 1 / 3, "c": 0.3333333}
    assert BuildOptions(splits=thirds).splits == thirds
    assert BuildOptions(splits={"train": 1}).splits == {"train": 1.0}


def test_options_are_frozen_and_can_be_pickled():
    options = BuildOptions(image_size=5, splits={"a": 1.0}, class_names=["x"])
    assert pickle.loads(pickle.dumps(options)) == options
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.channels = 1


def test_build_options_become_json_whatever_integers_they_were_given():
    numbers = np.array([2, 100, 7, 90, 4])
    options = BuildOptions(
        image_size=numbers[1],
        channels=numbers[0],
        encoding="jpeg",
        store_size=numbers[2],
        jpeg_quality=numbers[3],
        check="header",
        exif_transpose=False,
        max_pixels=numbers[1],
        num_shards=numbers[4],
        background=tuple(numbers[:3]),
        splits={"train": np.float64(0.75), "test": 0.25},
        class_names=["b", "a"],
    )
    assert json.loads(json.dumps(options.to_dict())) == {
        "image_size": [100, 100],
        "resize": "stretch",
        "channels": 2,
        "background": [2, 100, 7],
        "encoding": "jpeg",
        "store_size": 7,
        "jpeg_quality": 90,
        "check": "header",
        "exif_transpose": False,
        "max_pixels": 100,
        "splits": {"train": 0.75, "test": 0.25},
        "split_by": "class",
        "group": None,
        "class_names": ["b", "a"],
        "label_kind": None,
        "on_error": "raise",
        "max_bad": 0.01,
        "on_duplicate": "keep",
        "num_shards": 4,
    }


def test_background_is_one_value_for_each_channel():
    assert background_values((10, 200, 30), 3) == (10, 200, 30)
    # By hand: 0.299 * 10 + 0.587 * 200 + 0.114 * 30 = 123.81
    assert background_values((10, 200, 30), 1) == (124,)
    assert background_values((255, 255, 255), 5) == (255,) * 5
    assert background_values((0, 0, 0), 2) == (0, 0)
