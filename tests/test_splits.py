import fractions
import hashlib
import logging
import re

import numpy as np
import pytest
from fake_source import FakeSource

from tfrds.errors import SourceError
from tfrds.spec import BuildOptions
from tfrds.write.plan import make_plan
from tfrds.write.splits import assign_splits, describe_shares, largest_remainder, split_by_hash

# They never change. By `hash_by_hand` below: times ten, "test" is below 4 * 2^64.
GOLDEN_BY_HASH = {
    **dict.fromkeys(["a", "c", "e", "g", "j", "k"], "train"),
    **dict.fromkeys(["b", "d", "f", "h", "i", "l", "größe"], "test"),
}


def shares_by_hand(count, quotas):
    """The largest remainder method for one class, in exact arithmetic."""
    exact = [fractions.Fraction(str(fraction)) * count for fraction in quotas]
    shares = [int(quota) for quota in exact]
    by_remainder = sorted(
        range(len(quotas)), key=lambda split: (shares[split] - exact[split], split)
    )
    for split in by_remainder[: count - sum(shares)]:
        shares[split] += 1
    return shares


def splits_by_hand(order, labels, quotas):
    """Goes through the examples in hash order, class by class."""
    splits = [None] * len(labels)
    for label in set(labels):
        rows = [row for row in order if labels[row] == label]
        shares = shares_by_hand(len(rows), quotas)
        names = [split for split, share in enumerate(shares) for _ in range(share)]
        for row, split in zip(rows, names, strict=True):
            splits[row] = split
    return splits


@pytest.mark.parametrize(
    ("count", "quotas", "shares"),
    [
        (10, (0.8, 0.2), [8, 2]),
        (9, (0.8, 0.2), [7, 2]),  # 7.2, 1.8
        (7, (0.8, 0.2), [6, 1]),  # 5.6, 1.4
        (1, (0.8, 0.2), [1, 0]),
        (2, (0.8, 0.2), [2, 0]),  # 1.6, 0.4
        (3, (0.8, 0.2), [2, 1]),  # 2.4, 0.6
        (1, (0.5, 0.5), [1, 0]),  # equal remainders: the earlier
        (3, (0.5, 0.5), [2, 1]),
        (5, (0.25, 0.25, 0.25, 0.25), [2, 1, 1, 1]),
        (7, (0.1, 0.2, 0.7), [1, 1, 5]),  # 0.7, 1.4, 4.9
        (100, (0.29, 0.71), [29, 71]),  # 28.999999999999996 in binary
        (1000, (0.001, 0.999), [1, 999]),
        (0, (0.8, 0.2), [0, 0]),
        (10_000_000, (0.7, 0.2, 0.1), [7_000_000, 2_000_000, 1_000_000]),
    ],
)
def test_largest_remainder_of_one_class(count, quotas, shares):
    assert shares_by_hand(count, quotas) == shares
    assert largest_remainder(np.array([count]), np.array(quotas)).tolist() == [shares]


def test_largest_remainder_of_random_counts_equals_exact_arithmetic():
    rng = np.random.default_rng(0)
    for _ in range(200):
        weights = rng.integers(1, 100, rng.integers(1, 6))
        cuts = np.round(weights / weights.sum(), 2)
        cuts[0] = round(1 - cuts[1:].sum(), 2)
        if (cuts <= 0).any():
            continue
        quotas = [float(f"{cut:.2f}") for cut in cuts]
        counts = np.concatenate([rng.integers(0, 3000, 20), np.arange(10)])
        expected = [shares_by_hand(int(count), quotas) for count in counts]
        assert largest_remainder(counts, np.array(quotas)).tolist() == expected, quotas


def test_splits_of_random_labels_equal_a_slow_walk():
    rng = np.random.default_rng(1)
    for _ in range(50):
        count, num_classes = int(rng.integers(30, 200)), int(rng.integers(1, 9))
        labels = rng.integers(0, num_classes, count).astype(np.int32)
        order = rng.permutation(count)
        quotas = [(0.5, 0.5), (0.8, 0.1, 0.1), (0.29, 0.71), (1.0,)][rng.integers(4)]
        fractions_by_name = {f"s{number}": quota for number, quota in enumerate(quotas)}
        splits = assign_splits(order, labels, num_classes + 2, fractions_by_name)
        assert splits.dtype == np.int32
        assert splits.tolist() == splits_by_hand(order.tolist(), labels.tolist(), quotas)


def test_other_classes_have_no_say():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 100).astype(np.int32)
    order = rng.permutation(100)
    splits = assign_splits(order, labels, 3, {"train": 0.7, "test": 0.3})
    kept = np.flatnonzero(labels != 1)
    place = {row: position for position, row in enumerate(kept)}
    order_without = np.array([place[row] for row in order if labels[row] != 1])
    without = assign_splits(order_without, labels[kept], 3, {"train": 0.7, "test": 0.3})
    assert without.tolist() == splits[kept].tolist()


def test_numbering_of_the_examples_has_no_say():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 4, 60).astype(np.int32)
    order, shuffled = rng.permutation(60), rng.permutation(60)
    splits = assign_splits(order, labels, 4, {"train": 0.7, "test": 0.3})
    moved = assign_splits(
        np.argsort(shuffled)[order], labels[shuffled], 4, {"train": 0.7, "test": 0.3}
    )
    assert moved.tolist() == splits[shuffled].tolist()


def hash_by_hand(name):
    """Returns the upper 64 bits of a key's or group's hash, as docs/FORMAT.md says."""
    digest = hashlib.blake2b(name.encode(), digest_size=16, salt=b"tfrds-split-1").digest()
    return int.from_bytes(digest[:8], "big")


def split_by_hand(name, parts):
    """Goes through the splits in the order of their names, in exact arithmetic."""
    limit = fractions.Fraction(0)
    for split in sorted(parts):
        limit += fractions.Fraction(str(parts[split]))
        if hash_by_hand(name) < limit * 2**64:
            return split
    return split


def plan_of(keys, labels=None, **options):
    labels = [number % 2 for number in range(len(keys))] if labels is None else labels
    names = [f"c{number}" for number in range(max(labels) + 1)]
    source = FakeSource([key.encode() for key in keys], labels, names)
    return make_plan(source, BuildOptions(**options))


def split_of_keys(plan):
    return {
        plan.keys[row].decode(): name for name, split in plan.splits.items() for row in split.rows
    }


def keys_of(count):
    return [f"class/image {number}.jpg" for number in range(count)]


@pytest.mark.parametrize(
    "parts", [{"train": 0.8, "test": 0.2}, {"z": 0.29, "a": 0.01, "m": 0.7}, {"only": 1.0}]
)
def test_splits_by_hash_follow_from_the_key_alone(parts):
    keys = [*keys_of(2000), "größe/é.png"]
    found = split_of_keys(plan_of(keys, splits=parts, split_by="hash"))
    assert found == {key: split_by_hand(key, parts) for key in keys}
    named_otherwise = dict(reversed(parts.items()))
    assert split_of_keys(plan_of(keys, splits=named_otherwise, split_by="hash")) == found


@pytest.mark.parametrize("folds", [2, 3, 7, 11])
def test_folds_by_hash_are_equal_parts_of_all_hashes(folds):
    keys = keys_of(1000)
    found = split_of_keys(plan_of(keys, splits=folds, split_by="hash"))
    assert found == {key: f"fold_{hash_by_hand(key) * folds // 2**64}" for key in keys}


@pytest.mark.parametrize("group", [None, r"^\d+"])
@pytest.mark.parametrize("splits", [{"train": 0.7, "test": 0.2, "dev": 0.1}, 5])
def test_by_hash_old_examples_stay_where_they_are(group, splits):
    random = np.random.default_rng(5)
    keys = [f"{number // 4}/{number}.jpg" for number in range(1200)]
    options = {"splits": splits, "split_by": "hash", "group": group}
    whole = split_of_keys(plan_of(keys, random.integers(0, 3, len(keys)).tolist(), **options))
    for count in (300, 700, 1199):
        # Other labels and another order too.
        part = random.permutation(keys)[:count].tolist()
        labels = random.integers(0, 5, count).tolist()
        found = split_of_keys(plan_of(part, labels, **options))
        assert found == {key: whole[key] for key in part}


def test_a_split_by_hash_keeps_its_examples_when_it_grows():
    keys = keys_of(500)
    small, large = (
        split_of_keys(plan_of(keys, splits={"test": part, "train": 1 - part}, split_by="hash"))
        for part in (0.2, 0.3)
    )
    assert {key for key in keys if small[key] == "test"} < {
        key for key in keys if large[key] == "test"
    }


def test_groups_by_hash_follow_from_their_names_alone():
    keys = [f"p{number % 50}/{number}.jpg" for number in range(1000)]
    parts = {"train": 0.8, "test": 0.2}
    found = split_of_keys(plan_of(keys, splits=parts, split_by="hash", group=r"p\d+"))
    assert found == {key: split_by_hand(key.split("/")[0], parts) for key in keys}


def test_splits_by_hash_are_fixed_for_ever():
    plan = plan_of([*"abcdefghijkl", "größe"], splits={"train": 0.6, "test": 0.4}, split_by="hash")
    assert split_of_keys(plan) == GOLDEN_BY_HASH


@pytest.mark.parametrize(
    ("parts", "hashes", "expected"),
    [
        (("0.5", "0.5"), [0, 2**63 - 1, 2**63, 2**64 - 1], [0, 0, 1, 1]),
        (("0.25", "0.75"), [2**62 - 1, 2**62], [0, 1]),
        (
            ("0.1", "0.9"),
            [1844674407370955160, 1844674407370955161],
            [0, 1],
        ),  # 2^64 / 10 is ...161.6
        (("1",), [0, 2**64 - 1], [0, 0]),
        # Thirds that sum to 0.999: the last limit is the end nevertheless.
        (
            ("0.333", "0.333", "0.333"),
            [6148914691236517204, 6148914691236517205, 2**64 - 1],
            [0, 1, 2],
        ),
    ],
)
def test_limits_of_hashes_are_exact(parts, hashes, expected):
    found = split_by_hash(np.array(hashes, np.uint64), [fractions.Fraction(part) for part in parts])
    assert found.tolist() == expected
    assert found.dtype == np.int32


@pytest.mark.parametrize("folds", [2, 3, 5, 10])
def test_folds_by_class_differ_by_at_most_one_example(folds):
    random = np.random.default_rng(6)
    labels = random.integers(0, 6, 437).tolist()
    plan = plan_of(keys_of(437), labels, splits=folds)
    assert set(plan.splits) == {f"fold_{number}" for number in range(folds)}
    assert len(split_of_keys(plan)) == plan.num_examples == 437
    sizes = [len(split.rows) for split in plan.splits.values()]
    assert max(sizes) - min(sizes) <= 1
    for counts in zip(*(plan.class_counts(name) for name in plan.splits), strict=True):
        assert max(counts) - min(counts) <= 1


def test_folds_by_class_are_dealt_in_the_order_of_the_hash():
    keys, labels = keys_of(40), [number % 3 for number in range(40)]
    cards = sorted(range(40), key=lambda row: (labels[row], hash_by_hand(keys[row])))
    expected = {keys[row]: f"fold_{place % 4}" for place, row in enumerate(cards)}
    assert split_of_keys(plan_of(keys, labels, splits=4)) == expected


def test_names_of_splits_may_be_in_any_order():
    keys = keys_of(7)
    first = plan_of(keys, splits={"a": 0.25, "b": 0.25, "c": 0.5})
    other = plan_of(keys, splits={"c": 0.5, "b": 0.25, "a": 0.25})
    assert split_of_keys(first) == split_of_keys(other)


@pytest.mark.parametrize(
    ("count", "options", "message"),
    [
        (
            6,
            {"splits": {"train": 0.9, "test": 0.1}},
            r"'test' would be empty: 0\.1 of 6 examples in 2 classes\. Add images",
        ),
        (3, {"splits": 4}, r"'fold_3' would be empty: 0\.25 of 3 examples in 2 classes\. Add"),
        (
            6,
            {"splits": {"train": 0.999, "test": 0.001}, "split_by": "hash"},
            r"'test' would be empty: 0\.001 of 6 examples in 2 classes\.",
        ),
        (2, {"splits": 5, "split_by": "hash"}, r"'fold_\d' would be empty: 0\.2 of 2 examples"),
    ],
)
def test_empty_split_is_named_with_its_fraction(count, options, message):
    with pytest.raises(SourceError, match=f"splits: {message}"):
        plan_of(keys_of(count), **options)


def test_classes_that_are_not_in_every_split_are_noted(caplog):
    labels = [0] * 50 + [1] + [2] * 2 + [3] * 50
    with caplog.at_level(logging.WARNING, "tfrds"):
        plan = plan_of(keys_of(103), labels, splits={"train": 0.8, "test": 0.1, "dev": 0.1})
    note = (
        "splits: classes too small to be in each split: 'c1' (1 example, in 1 of 3 splits), "
        "'c2' (2 examples, in 1 of 3 splits); in all: 2. What is learned of them cannot be "
        "tested: add images of them."
    )
    assert plan.notes == (note,)
    assert note in caplog.text


def test_many_small_classes_are_noted_in_part():
    labels = [*([0] * 400), *range(1, 9)]
    plan = plan_of(keys_of(408), labels, splits={"train": 0.8, "test": 0.2})
    assert re.search(
        r"'c1' .*'c5' \(1 example, in 1 of 2 splits\), \.\.\.; in all: 8\.", plan.notes[0]
    )
    assert "c6" not in plan.notes[0]


def test_classes_without_examples_are_no_small_classes():
    options = BuildOptions(splits={"train": 0.5, "test": 0.5}, class_names=["a", "b", "c"])
    source = FakeSource([b"%d" % number for number in range(8)], [0, 1] * 4)
    with pytest.warns(UserWarning, match="No image is of the classes"):
        assert not make_plan(source, options).notes


@pytest.mark.parametrize(
    ("counts", "noted"),
    [
        ((800, 200), ""),
        ((780, 220), ""),  # a tenth more
        ((760, 240), ""),  # a fifth more, no more than that
        ((759, 241), "'test' 24.1% instead of 20.0%"),
        ((1000 - 121, 121), "'test' 12.1% instead of 20.0%"),
        ((0, 1000), "'train' 0.0% instead of 80.0%, 'test' 100.0% instead of 20.0%"),
    ],
)
def test_shares_far_from_those_asked_for_are_noted(counts, noted):
    parts = {"train": fractions.Fraction("0.8"), "test": fractions.Fraction("0.2")}
    notes = describe_shares(parts, np.array(counts))
    assert [f"far from those asked for: {noted}. Whole" in note for note in notes] == (
        [True] if noted else []
    )


def test_small_splits_may_be_off_by_two_hundredths():
    parts = {"train": fractions.Fraction("0.99"), "test": fractions.Fraction("0.01")}
    assert describe_shares(parts, np.array([970, 30])) == ()
    assert "'test' 3.1% instead of 1.0%" in describe_shares(parts, np.array([969, 31]))[0]


def test_few_examples_are_not_noted():
    parts = {"train": fractions.Fraction("0.8"), "test": fractions.Fraction("0.2")}
    assert describe_shares(parts, np.array([6, 2])) == ()
    assert describe_shares(parts, np.array([15, 9])) == ()  # 4.8 were asked for
    assert describe_shares(parts, np.array([14, 10]))


def test_many_far_shares_are_noted_in_part():
    parts = {f"fold_{number}": fractions.Fraction(1, 10) for number in range(10)}
    (note,) = describe_shares(parts, np.array([20, 0] * 5))
    assert "'fold_4' 20.0% instead of 10.0%, ... (10 in all). Whole" in note
