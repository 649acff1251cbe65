import itertools
import logging

import numpy as np
import pytest
from fake_source import FakeSource

from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError, SourceError
from tfrds.spec import BuildOptions
from tfrds.write.groups import Groups, assign_groups, find_groups
from tfrds.write.plan import make_plan
from tfrds.write.sources.by_split import BySplit

FRACTIONS = {"train": 0.6, "test": 0.4}

# They never change.
GOLDEN_BY_CLASS = {
    "train": ["p0", "p1", "p2", "p5", "p6", "p8"],
    "test": ["p3", "p4", "p7", "p9"],
}


def groups_of(sizes):
    """Returns groups "g0", "g1", ... of these sizes."""
    numbers = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return Groups(numbers=numbers, names=Keys.from_iterable(b"g%d" % n for n in range(len(sizes))))


def splits_by_group(groups, splits):
    """Returns the split of each group; fails where one is torn apart."""
    found = {}
    for group, split in zip(groups.numbers.tolist(), splits.tolist(), strict=True):
        assert found.setdefault(group, split) == split
    return [found[group] for group in sorted(found)]


def patients(counts):
    """Returns keys such as "p3/1.png", `counts[3]` of patient 3."""
    return [b"p%d/%d.png" % (p, n) for p, count in enumerate(counts) for n in range(count)]


def plan_of(source, **options):
    return make_plan(source, BuildOptions(**options))


def keys_by_split(plan):
    return {
        name: sorted(plan.keys[row].decode() for row in split.rows)
        for name, split in plan.splits.items()
    }


def two_classes(keys):
    return FakeSource(keys, [number % 2 for number in range(len(keys))])


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("p[0-9]+", ["p1", "p23", "p1"]),  # no group: the whole match
        ("p([0-9]+)", ["1", "23", "1"]),
        ("(?:p)([0-9])([0-9]?)", ["1", "2", "1"]),  # the first of two
        ("[^/]+$", ["a.png", "b.png", "c.png"]),
        (lambda key: key.split("_")[0], ["x/p1", "x/p23", "y/p1"]),
    ],
)
def test_group_is_what_the_expression_or_the_function_gives(group, names):
    source = FakeSource([b"x/p1_/a.png", b"x/p23_/b.png", b"y/p1_/c.png"])
    groups = find_groups(source.references, group)
    assert [groups.names[number].decode() for number in groups.numbers] == names
    assert len(set(groups.names)) == len(groups.names)
    assert groups.numbers.dtype == np.int32


def test_functions_get_keys_as_text():
    groups = find_groups(FakeSource(["größe/é".encode()]).references, lambda key: key[:3])
    assert list(groups.names) == ["grö".encode()]


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (
            r"p\d",
            r"group: the expression 'p\\\\d' must name .*, got none for 'a', 'b', 'c', 'd', 'e',",
        ),
        (r"(p\d)?.", r"group: the expression .*, got none for 'a', .*, \.\.\.; 7 in all"),
        (r"x*", r"group: the expression 'x\*' must name .*, got none for 'a', .*; 8 in all"),
        (lambda key: "", r"group: the function must name .*, got none for 'a', .*; 8 in all"),
        (lambda key: key[1], r"group: the function fails for the key 'a': IndexError\('string"),
        (lambda key: 7, r"must give the group's name as text, got 7 for the key 'a'"),
        (lambda key: None, r"must give the group's name as text, got None for the key 'a'"),
        (lambda: "g", r"group: the function fails for the key 'a': TypeError"),
    ],
)
def test_keys_without_a_group_are_named(group, message):
    source = two_classes([*(b"%c" % letter for letter in b"abcdefg"), b"p1x"])
    with pytest.raises(ConfigError, match=message):
        plan_of(source, splits=FRACTIONS, group=group)


def test_few_keys_without_a_group_are_all_named():
    with pytest.raises(ConfigError, match=r"got none for 'a', 'b'\. Give these keys"):
        plan_of(two_classes([b"a", b"p1", b"b"]), splits=FRACTIONS, group=r"p\d")


@pytest.mark.parametrize("split_by", ["class", "hash"])
@pytest.mark.parametrize("splits", [{"train": 0.7, "test": 0.2, "dev": 0.1}, 4])
def test_groups_stay_whole_and_every_example_is_in_one_split(split_by, splits):
    counts = np.random.default_rng(0).integers(1, 30, 60)
    keys = patients(counts)
    plan = plan_of(two_classes(keys), splits=splits, split_by=split_by, group=r"p\d+")
    found = keys_by_split(plan)
    assert sorted(itertools.chain(*found.values())) == sorted(key.decode() for key in keys)
    owners = [{key.split("/")[0] for key in own} for own in found.values()]
    assert not any(one & other for one, other in itertools.combinations(owners, 2))


def test_groups_by_hand():
    # 60 and 40 wanted of 100 examples of one class; the splits in the order given.
    groups = groups_of([30, 25, 15, 10, 10, 5, 5])
    splits = assign_groups(groups, np.zeros(100, np.int32), 1, [0.6, 0.4])
    found = splits_by_group(groups, splits)
    # 30: both lack all, the first. 25: the second lacks 100%, the first 50%. 15: the first, 50% and
    # 37.5%. Then both have room for 15, 37.5% of the second and 25% of the first: 10 to the second,
    # 10 to the first, and one 5 each.
    assert found[:3] == [0, 1, 0]
    assert sorted(found[3:5]) == [0, 1]
    assert sorted(found[5:]) == [0, 1]
    assert np.bincount(splits).tolist() == [60, 40]


def test_group_that_fits_nowhere_goes_where_most_is_missing():
    groups = groups_of([70, 60, 2, 2])  # wanted: 67, 40.2 and 26.8
    splits = assign_groups(groups, np.zeros(134, np.int32), 1, [0.5, 0.3, 0.2])
    assert splits_by_group(groups, splits) == [0, 1, 2, 2]


def test_last_groups_go_to_the_splits_that_have_none():
    groups = groups_of([10] * 10)  # none fits into 5%
    splits = assign_groups(groups, np.zeros(100, np.int32), 1, [0.95, 0.05])
    assert np.bincount(splits).tolist() == [90, 10]


def test_classes_are_shared_out_by_groups():
    # Twenty groups of ten, each of one class: of both classes four groups of five.
    groups = groups_of([10] * 20)
    labels = np.repeat(np.arange(20) % 2, 10).astype(np.int32)
    splits = assign_groups(groups, labels, 2, [0.8, 0.2])
    assert np.bincount(splits * 2 + labels).tolist() == [80, 80, 20, 20]


def test_groups_of_mixed_classes_come_close_to_the_fractions():
    random = np.random.default_rng(3)
    for fractions in ([0.8, 0.2], [0.7, 0.15, 0.15], [0.2] * 5):
        sizes = np.maximum(random.lognormal(2, 1, 300), 1).astype(int)
        groups = groups_of(sizes)
        labels = random.integers(0, 5, len(groups.numbers)).astype(np.int32)
        splits = assign_groups(groups, labels, 5, fractions)
        splits_by_group(groups, splits)
        shares = np.bincount(splits) / len(splits)
        assert np.abs(shares - fractions).max() < 0.01
        for label in range(5):
            of_class = np.bincount(splits[labels == label]) / (labels == label).sum()
            assert np.abs(of_class - fractions).max() < 0.03


def test_groups_of_one_example_fill_each_class_exactly():
    groups = groups_of([1] * 70)
    labels = np.repeat([0, 1, 2], [10, 20, 40]).astype(np.int32)
    splits = assign_groups(groups, labels, 3, [0.7, 0.2, 0.1])
    counts = np.bincount(labels * 3 + splits).reshape(3, 3)
    assert counts.tolist() == [[7, 2, 1], [14, 4, 2], [28, 8, 4]]


def test_small_classes_of_single_examples_do_not_all_leave_the_same_split_out():
    groups = groups_of([1] * 70)
    labels = np.repeat(np.arange(10), 7).astype(np.int32)  # seven of each, five folds
    splits = assign_groups(groups, labels, 10, [0.2] * 5)
    assert np.bincount(splits).tolist() == [14] * 5
    counts = np.bincount(labels * 5 + splits).reshape(10, 5)
    assert set(counts.ravel().tolist()) == {1, 2}


@pytest.mark.parametrize("split_by", ["class", "hash"])
def test_numbering_of_groups_and_examples_has_no_say(split_by):
    random = np.random.default_rng(4)
    keys = patients(random.integers(1, 9, 40))
    labels = random.integers(0, 3, len(keys))
    options = {"splits": {"train": 0.6, "a": 0.2, "b": 0.2}, "split_by": split_by, "group": r"p\d+"}
    whole = keys_by_split(plan_of(FakeSource(keys, labels, "abc"), **options))
    shuffled = random.permutation(len(keys))
    source = FakeSource([keys[row] for row in shuffled], labels[shuffled], "abc")
    assert keys_by_split(plan_of(source, **options)) == whole
    options["splits"] = {"b": 0.2, "train": 0.6, "a": 0.2}
    assert keys_by_split(plan_of(source, **options)) == whole


def test_groups_by_class_are_fixed_for_ever():
    keys = patients([3, 1, 4, 1, 5, 9, 2, 6, 5, 3])
    labels = [number * 7 % 3 for number in range(len(keys))]
    plan = plan_of(FakeSource(keys, labels, "abc"), splits=FRACTIONS, group=r"p\d+")
    owners = {
        name: sorted({key.split("/")[0] for key in own})
        for name, own in keys_by_split(plan).items()
    }
    assert owners == GOLDEN_BY_CLASS


def test_more_splits_than_groups_are_an_error():
    source = two_classes(patients([3, 3]))
    with pytest.raises(
        SourceError, match=r"'fold_2' would be empty: 0.333333 of 6 examples in 2 groups. Add"
    ):
        plan_of(source, splits=3, group=r"p\d+")


def test_far_shares_are_noted_with_both_numbers(caplog):
    source = two_classes(patients([50, 30, 20]))
    with caplog.at_level(logging.WARNING, "tfrds"):
        plan = plan_of(source, splits={"train": 0.8, "test": 0.2}, group=r"p\d+")
    assert keys_by_split(plan)["test"][0].startswith("p2/")  # 80 and 20, nothing to tell
    assert not plan.notes
    plan = plan_of(source, splits={"train": 0.9, "test": 0.1}, group=r"p\d+")
    assert plan.notes == (
        "splits: shares of the examples far from those asked for: 'test' 20.0% instead of 10.0%. "
        "Whole groups, hashes and small classes divide few examples only roughly.",
    )


def test_groups_without_several_splits_change_nothing():
    keys = patients([2, 3])
    assert keys_by_split(plan_of(two_classes(keys), group=r"p\d+")) == keys_by_split(
        plan_of(two_classes(keys))
    )


def own_splits(splits):
    keys = patients([2, 2, 2])
    return FakeSource(
        keys,
        [0, 1, 0, 1, 0, 1],
        splits=np.array(splits, np.int32),
        split_names=("train", "test"),
    )


def test_the_sources_own_splits_must_not_tear_groups_apart():
    assert set(plan_of(own_splits([0, 0, 0, 0, 1, 1]), group=r"p\d").splits) == {"train", "test"}
    with pytest.raises(
        SourceError,
        match=r"splits: the group 'p1' lies in 'train' \('p1/0.png'\) and in 'test' "
        r"\('p1/1.png'\); groups in more than one split in all: 2. Move",
    ):
        plan_of(own_splits([0, 0, 0, 1, 1, 0]), group=r"p\d")
    plan_of(own_splits([0, 0, 0, 1, 1, 0]))  # who asks for no groups gets none checked


def test_lists_must_not_tear_groups_apart():
    source = two_classes(patients([2, 2]))
    lists = {"train": ["p0/0.png", "p0/1.png"], "test": ["p1/0.png", "p1/1.png"]}
    assert keys_by_split(plan_of(source, splits=lists, group=r"p\d")) == lists
    torn = {"train": ["p0/0.png", "p1/1.png"], "test": ["p1/0.png", "p0/1.png"]}
    with pytest.raises(
        ConfigError,
        match=r"the group 'p0' lies in 'train' \('p0/0.png'\) and in 'test' \('p0/1.png'\); "
        r"groups in more than one split in all: 2\.",
    ):
        plan_of(source, splits=torn, group=r"p\d")


def with_groups(keys, names):
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return FakeSource(
        keys,
        [number % 2 for number in range(len(keys))],
        groups=np.array([numbers[name] for name in names], np.int32),
        group_names=Keys.from_iterable(numbers),
    )


@pytest.mark.parametrize("split_by", ["class", "hash"])
def test_the_sources_groups_are_as_good_as_those_of_the_option(split_by):
    keys = patients([3, 1, 4, 1, 5, 9, 2, 6, 5, 3])
    source = with_groups(keys, [key.split(b"/")[0] for key in keys])
    options = {"splits": FRACTIONS, "split_by": split_by}
    by_option = plan_of(two_classes(keys), group=r"p\d+", **options)
    assert keys_by_split(plan_of(source, **options)) == keys_by_split(by_option)
    # The option goes before: every example a group of its own.
    alone = plan_of(source, group=lambda key: key, **options)
    assert keys_by_split(alone) != keys_by_split(by_option)


def test_groups_of_several_sources_are_the_same_by_name():
    train = with_groups([b"1", b"2", b"3"], [b"x", b"y", b"y"])
    test = with_groups([b"1", b"2"], [b"z", b"y"])
    references = BySplit({"train": train, "test": test}).scan()
    assert references.groups.tolist() == [0, 1, 1, 2, 1]
    assert list(references.group_names) == [b"x", b"y", b"z"]
    with pytest.raises(SourceError, match=r"the group 'y' lies in 'train' \('train/2'\) and in"):
        plan_of(BySplit({"train": train, "test": test}))
    plan_of(BySplit({"train": train, "test": with_groups([b"1", b"2"], [b"z", b"w"])}))


def test_groups_in_some_sources_only_are_refused():
    sources = {"train": with_groups([b"1"], [b"x"]), "test": FakeSource([b"1"])}
    with pytest.raises(SourceError, match=r"groups: the sources of \['train'\] have groups"):
        BySplit(sources).scan()
