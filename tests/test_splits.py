import fractions

import numpy as np
import pytest

from tfrds.errors import SourceError
from tfrds.write.splits import assign_splits, largest_remainder


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


def test_empty_split_is_named_with_its_fraction():
    labels = np.array([0, 0, 1, 1, 2, 2], np.int32)
    with pytest.raises(
        SourceError, match=r"splits: 'test' would be empty: 0\.2 of 6 examples in\s+3 classes"
    ):
        assign_splits(np.arange(6), labels, 9, {"train": 0.8, "test": 0.2})
