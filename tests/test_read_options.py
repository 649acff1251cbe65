import dataclasses
import inspect
import re

import numpy as np
import pytest

import tfrds
from tfrds.errors import ConfigError
from tfrds.read_options import ReadKeywords, ReadOptions, parse_read_options


def got(value):
    return f"got {re.escape(repr(value))}"


NAMES = [field.name for field in dataclasses.fields(ReadOptions)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resize", "fit"),
        ("interpolation", "nearest"),
        ("dtype", "float64"),
        ("dtype", float),
        ("dtype", None),
        ("value_range", (1, 0)),
        ("value_range", (0, 0)),
        ("value_range", (0, float("inf"))),
        ("value_range", (0,)),
        ("value_range", "01"),
        ("value_range", (False, True)),
        ("normalize", "imagenet"),
        ("normalize", 1.0),
        ("normalize", (1.0,)),
        ("normalize", ((1.0,), 0.0)),
        ("normalize", (1.0, (1.0, -1.0))),
        ("normalize", (float("nan"), 1.0)),
        ("normalize", ((), ())),
        ("label_mode", "sparse"),
        ("label_smoothing", 1),
        ("label_smoothing", -0.1),
        ("label_smoothing", "0.1"),
        ("label_smoothing", True),
        ("shuffle", 1),
        ("shuffle", "yes"),
        ("seed", -1),
        ("seed", 2**63),
        ("seed", 1.0),
        ("seed", True),
        ("drop_remainder", None),
        ("drop_remainder", 0),
        ("with_key", "key"),
        ("verify_records", 1),
        ("balance", "keys"),
        ("augment", "flip"),
    ],
    ids=repr,
)
def test_read_option_is_refused_with_its_value(field, value):
    with pytest.raises(ConfigError, match=f"^{field}: .*{got(value)}"):
        ReadOptions(**{field: value})


def test_keras_name_for_one_hot_is_answered_with_ours():
    with pytest.raises(ConfigError, match=r"got 'categorical'\. Did you mean 'one_hot'"):
        ReadOptions(label_mode="categorical")


@pytest.mark.parametrize(
    "options", [{"value_range": (0, 1)}, {"normalize": "dataset"}, {"normalize": (1, 2)}]
)
def test_uint8_pixels_stay_as_they_are(options):
    (field,) = options
    with pytest.raises(ConfigError, match=f'{field}: dtype="uint8" keeps .* got {field}='):
        ReadOptions(dtype="uint8", **options)


@pytest.mark.parametrize("label_mode", ["int", "binary"])
def test_only_one_hot_labels_are_smoothed(label_mode):
    with pytest.raises(ConfigError, match=f"got 0.1 with label_mode='{label_mode}'"):
        ReadOptions(label_smoothing=0.1, label_mode=label_mode)


def test_numbers_of_normalize_are_one_for_all_or_one_for_each_channel():
    assert ReadOptions(normalize=(1, 2)).normalize == ((1.0,), (2.0,))
    assert ReadOptions(normalize=([1, 2], np.array([3, 4.5]))).normalize == ((1, 2), (3, 4.5))
    assert ReadOptions(normalize="dataset").normalize == "dataset"


def test_read_options_name_what_was_changed():
    assert ReadOptions().changed() == []
    assert ReadOptions(image_size=5, seed=0, with_key=True).changed() == [
        "image_size",
        "seed",
        "with_key",
    ]
    assert ReadOptions(shuffle=False, resize="stretch").changed() == ["resize", "shuffle"]


def test_options_are_given_by_keyword():
    assert parse_read_options({"image_size": 5, "seed": 3}) == ReadOptions(image_size=5, seed=3)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("imagesize", r"Did you mean 'image_size'\?"),
        ("labels", r"Did you mean 'label_mode'\?"),
        ("xyz", r"Expected one of \['image_size', "),
    ],
)
def test_an_unknown_option_is_answered_with_its_neighbour(name, hint):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'. {hint}"):
        parse_read_options({name: 1})


def test_editors_know_the_same_options():
    assert list(ReadKeywords.__annotations__) == NAMES


@pytest.mark.parametrize("function", [tfrds.load, tfrds.ImageDatasetBuilder.as_dataset])
def test_signatures_show_the_options_and_their_defaults(function):
    parameters = inspect.signature(function).parameters
    assert list(parameters)[-len(NAMES) :] == NAMES
    assert all(parameters[name].default == getattr(ReadOptions(), name) for name in NAMES)
