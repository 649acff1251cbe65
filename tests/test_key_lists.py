import unicodedata

import images
import pytest
from fake_source import FakeSource

from tfrds.errors import ConfigError
from tfrds.spec import BuildOptions
from tfrds.write.plan import make_plan
from tfrds.write.sources import ImageFolder


def plan_of(keys, **lists):
    source = FakeSource([key.encode() for key in keys], [n % 2 for n in range(len(keys))])
    return make_plan(source, BuildOptions(splits=lists))


def keys_by_split(plan):
    return {
        name: sorted(plan.keys[row].decode() for row in split.rows)
        for name, split in plan.splits.items()
    }


def test_each_example_is_in_the_split_that_lists_it():
    plan = plan_of("abcde", test=["d", "b"], train=["a", "e", "c"])
    assert keys_by_split(plan) == {"test": ["b", "d"], "train": ["a", "c", "e"]}
    assert not plan.notes


def test_order_of_the_records_is_that_of_all_splits():
    keys = [f"key {number}" for number in range(50)]
    whole = plan_of(keys, train=keys).splits["train"].rows.tolist()
    plan = plan_of(keys, a=keys[:20], b=keys[20:])
    for name, own in (("a", range(20)), ("b", range(20, 50))):
        assert plan.splits[name].rows.tolist() == [row for row in whole if row in own]


def test_files_are_listed_by_their_paths_in_any_form_of_unicode(tmp_path):
    images.put_images(tmp_path, ["caf\u00e9/1.png", "dog/1.png"])
    lists = {"train": [unicodedata.normalize("NFD", "caf\u00e9/1.png")], "test": ["dog/1.png"]}
    plan = make_plan(ImageFolder(tmp_path), BuildOptions(splits=lists))
    assert keys_by_split(plan) == {"train": ["caf\u00e9/1.png"], "test": ["dog/1.png"]}


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (
            {"a": ["cat/1.png", "cat/2.png"], "b": ["dog/l.png"]},
            "each listed key must be that of an example, got 'dog/l.png' in 'b' that is none. "
            "Did you mean 'dog/1.png'\\? Keys are paths",
        ),
        (
            {"a": ["cat/1.png", "cat/2.png", "dog/1.png", "zzz", "yyy"]},
            "got 'yyy' in 'a', 'zzz' in 'a' that are none. Keys are paths",
        ),
        (
            {"a": ["cat/1.png", "cat/2.png", *"rstuv"], "b": ["dog/1.png", "w"]},
            r"got 'r' in 'a', 's' in 'a', 't' in 'a', 'u' in 'a', 'v' in 'a', \.\.\. \(6 in all\)",
        ),
        (
            {"a": ["cat/1.png"], "b": ["\udc80"]},
            r"got '\\udc80' in 'b' that is none",
        ),
        (
            {"a": ["cat/1.png"]},
            "each example must be in one of the lists, got 'cat/2.png', 'dog/1.png' in none. List",
        ),
    ],
)
def test_lists_that_do_not_fit_the_examples_are_refused(lists, message):
    with pytest.raises(ConfigError, match=f"^splits: .*{message}"):
        plan_of(["cat/1.png", "cat/2.png", "dog/1.png"], **lists)


def test_many_examples_in_no_list_are_counted():
    keys = [f"{number:04}" for number in range(3000)]
    with pytest.raises(
        ConfigError, match=r"got '0001', '0002', '0003', '0004', '0005', \.\.\. \(2,999 in all\) in"
    ):
        plan_of(keys, train=["0000"])
    with pytest.raises(
        ConfigError, match=r"got '2500x' in 'train' that is none\. Did you mean '2500'\?"
    ):
        plan_of(keys, train=["2500x"])
