import hashlib
import json
import pickle
import re
import unicodedata

import numpy as np
import pytest

import tfrds
from tfrds.errors import ConfigError, DatasetError
from tfrds.spec import BuildOptions

LISTS = {"train": ["b", "a", "c"], "test": ["d"]}


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        (1, "splits: the number of folds must be from 2 to 1,000, got 1"),
        (0, "number of folds must be from 2 to 1,000, got 0"),
        (-5, "number of folds must be from 2 to 1,000, got -5"),
        (np.int64(1001), "number of folds must be from 2 to 1,000, got 1001"),
        (True, "splits: expected fractions by name .*, a number of folds .*, got True"),
        (5.0, "splits: expected fractions .*lists of keys by name, got 5.0"),
        ({"train": ["a"], "test": 0.2}, "so 'test' must be one too, got 0.2"),
        ({"train": 0.8, "test": ["a"]}, "so 'train' must be one too, got 0.8"),
        ({"train": ["a"], "test": "b.txt"}, "so 'test' must be one too, got 'b.txt'"),
        ({"train": ["a"], "test": {"b": 1}}, "so 'test' must be one too, got {'b': 1}"),
        ({"train": ["a"], "test": []}, r"the list of 'test' must hold at least one key, got \[\]"),
        ({"train": ["a", 7]}, r"the keys of 'train' must be text such as .*, got 7"),
        ({"train": [b"a"]}, r"the keys of 'train' must be text such as .*, got b'a'"),
        ({"a-b": ["a"]}, "splits: a split's name is .*, got 'a-b'"),
        ({"all": ["a"]}, "splits: a split's name is .*, got 'all'"),
        ({"a": ["x", "y", "x"]}, "each key is listed once, got 'x' in 'a' and 'a'; .* all: 1. "),
        ({"a": ["x"], "b": ["x"]}, "each key is listed once, got 'x' in 'a' and 'b'; .* all: 1. "),
        (
            {"a": list("uvwxyz"), "b": list("zyxwvu")},
            r"got 'z' in 'a' and 'b', ('.' in 'a' and 'b', ){3}'v' in 'a' and 'b', \.\.\.; "
            "listed again in all: 6. Remove",
        ),
    ],
    ids=repr,
)
def test_splits_are_refused_with_their_value(splits, message):
    with pytest.raises(ConfigError, match=message):
        BuildOptions(splits=splits)


def test_folds_are_a_whole_number_of_python():
    splits = BuildOptions(splits=np.int64(5)).splits
    assert (splits, type(splits)) == (5, int)
    assert BuildOptions(splits=1000).splits == 1000
    assert BuildOptions(splits=5).to_dict()["splits"] == 5


@pytest.mark.parametrize("kind", [list, tuple, set, np.array, iter], ids=lambda kind: kind.__name__)
def test_keys_are_any_collection_of_text(kind):
    splits = BuildOptions(splits={name: kind(keys) for name, keys in LISTS.items()}).splits
    assert {name: set(keys) for name, keys in splits.items()} == {
        name: set(keys) for name, keys in LISTS.items()
    }
    assert {type(key) for keys in splits.values() for key in keys} == {str}


def test_keys_are_compared_in_nfc():
    composed, decomposed = "caf\u00e9", unicodedata.normalize("NFD", "caf\u00e9")
    assert BuildOptions(splits={"a": [decomposed]}).splits == {"a": (composed,)}
    with pytest.raises(ConfigError, match="each key is listed once, got 'café' in 'a' and 'b'"):
        BuildOptions(splits={"a": [decomposed], "b": [composed]})


def test_lists_of_keys_are_recorded_by_their_digest():
    recorded = BuildOptions(splits=LISTS).to_dict()["splits"]
    assert recorded == {
        "train": {"count": 3, "keys_sha256": hashlib.sha256(b"a\0b\0c\0").hexdigest()},
        "test": {"count": 1, "keys_sha256": hashlib.sha256(b"d\0").hexdigest()},
    }
    assert json.loads(json.dumps(recorded)) == recorded


def test_the_same_lists_in_another_order_are_recorded_as_the_same():
    recorded = BuildOptions(splits=LISTS).to_dict()
    other = {"test": ("d",), "train": {"c", "a", "b"}}
    assert BuildOptions(splits=other).to_dict() == recorded
    for different in ({"train": ["a", "b"], "test": ["d"]}, {"train": ["d"], "test": list("abc")}):
        assert BuildOptions(splits=different).to_dict() != recorded


def test_key_that_no_file_can_have_is_recorded_without_an_error():
    assert BuildOptions(splits={"a": ["\udcff"]}).to_dict()["splits"]["a"]["count"] == 1


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (5, r"group: expected a regular expression such as r'patient\\d\+', .*, got 5"),
        ("", "group: expected a regular expression .*, got ''"),
        (b"p", "group: expected a regular expression .*, got b'p'"),
        (re.compile("p"), r"group: expected a regular expression .*, got re.compile\('p'\)"),
        ("(p", r"group: missing \), .* in the regular expression, got '\(p'"),
        ("*", r"group: nothing to repeat at position 0 in the regular expression, got '\*'"),
    ],
    ids=repr,
)
def test_group_is_refused_with_its_value(group, message):
    with pytest.raises(ConfigError, match=message):
        BuildOptions(group=group)


def test_group_is_recorded_as_its_text_or_as_a_function():
    assert BuildOptions().to_dict()["group"] is None
    assert BuildOptions(group=r"(p\d+)").to_dict()["group"] == r"(p\d+)"
    assert BuildOptions(group=str.lower).to_dict()["group"] == "function"
    assert BuildOptions(group=lambda key: key).to_dict()["group"] == "function"


@pytest.mark.parametrize("value", ["Hash", None, "key", ["hash"]])
def test_split_by_is_refused_with_its_value(value):
    message = rf"split_by: expected one of \['class', 'hash'\], got {re.escape(repr(value))}"
    with pytest.raises(ConfigError, match=message):
        BuildOptions(splits=5, split_by=value)


@pytest.mark.parametrize(("splits", "shown"), [(None, "None"), (LISTS, "lists of keys")])
def test_split_by_hash_needs_something_to_draw(splits, shown):
    message = (
        f"split_by: only fractions and folds are drawn, got split_by='hash' with splits={shown}"
    )
    with pytest.raises(ConfigError, match=message):
        BuildOptions(splits=splits, split_by="hash")
    assert BuildOptions(splits=5, split_by="hash").to_dict()["split_by"] == "hash"


def test_options_with_lists_can_be_pickled_and_replaced():
    options = BuildOptions(splits=LISTS, group="(.)")
    assert pickle.loads(pickle.dumps(options)) == options
    assert BuildOptions(splits=options.splits, group="(.)") == options


class Listed(tfrds.ImageDatasetBuilder):
    """Eight images in lists of keys."""

    VERSION = "1.0.0"
    OPTIONS = tfrds.BuildOptions(splits={"train": list("012345"), "test": ["6", "7"]})

    def _source(self, dl_manager):
        return tfrds.sources.Arrays(np.zeros((8, 3, 4), np.uint8), np.arange(8) % 2)


def test_a_class_opens_what_its_lists_built_and_refuses_other_lists(tmp_path, monkeypatch):
    Listed(data_dir=tmp_path).download_and_prepare()
    builder = Listed(data_dir=tmp_path)
    builder.download_and_prepare()
    examples = builder.as_dataset(split="test", with_key=True).as_numpy_iterator()
    assert sorted(example["key"] for example in examples) == [b"6", b"7"]
    other = {"train": list("012345"), "test": ["6"], "dev": ["7"]}
    monkeypatch.setattr(Listed, "OPTIONS", tfrds.BuildOptions(splits=other))
    with pytest.raises(
        DatasetError, match=r"built with splits=.*'count': 2, .* say splits=.*'count': 1, "
    ):
        Listed(data_dir=tmp_path).download_and_prepare()


def test_folds_are_splits_like_all_others(tmp_path):
    source = tfrds.sources.Arrays(np.zeros((30, 3, 4), np.uint8), np.arange(30) % 2)
    builder = tfrds.build("folds", source, data_dir=tmp_path, splits=3, group=lambda key: key[:1])
    found = [
        [example["key"] for example in builder.as_dataset(split=split, with_key=True)]
        for split in ("fold_0", "fold_1+fold_2")
    ]
    assert [len(keys) for keys in found] == [10, 20]
    groups = [{key.numpy()[:1] for key in keys} for keys in found]
    assert not groups[0] & groups[1]
    options = json.loads((builder.data_path / "tfrds.json").read_text())["options"]
    assert (options["splits"], options["split_by"], options["group"]) == (3, "class", "function")
