from collections import Counter

import numpy as np
import pytest

from tfrds.read.balance import BalancedPermutation

GROUPS = [np.arange(0, 50), np.arange(50, 57), np.arange(57, 60)]
QUOTAS = [20, 20, 20]


def epoch_of(epoch, seed=3, groups=GROUPS, quotas=QUOTAS):
    permutation = BalancedPermutation(groups, quotas, seed, epoch)
    return permutation.positions(0, permutation.count)


@pytest.mark.parametrize("quotas", [QUOTAS, [1, 2, 57], [60, 0, 5]])
def test_each_epoch_has_as_many_of_each_group(quotas):
    for epoch in range(3):
        examples = epoch_of(epoch, quotas=quotas)
        counts = [int(np.isin(examples, group).sum()) for group in GROUPS]
        assert counts == quotas


def test_all_examples_of_a_group_are_seen_equally_often_over_any_epochs():
    seen = Counter()
    for epoch in range(7):
        seen.update(epoch_of(epoch).tolist())
        for group in GROUPS:
            counts = [seen[example] for example in group.tolist()]
            assert max(counts) - min(counts) <= 1


def test_groups_are_mixed():
    group_of = np.repeat([0, 1, 2], [50, 7, 3])[epoch_of(0)]
    assert (np.diff(group_of) != 0).sum() > 30


def test_epochs_and_seeds_differ_and_come_again():
    orders = [tuple(epoch_of(epoch, seed)) for epoch in range(3) for seed in range(3)]
    assert len(set(orders)) == 9
    assert tuple(epoch_of(2, 1)) == orders[7]


def test_groups_of_one_size_have_orders_of_their_own():
    groups = [np.arange(0, 30), np.arange(30, 60)]
    examples = epoch_of(0, groups=groups, quotas=[10, 10])
    first, second = (sorted(examples[np.isin(examples, group)] % 30) for group in groups)
    assert first != second


def test_positions_may_be_any():
    whole = epoch_of(1)
    permutation = BalancedPermutation(GROUPS, QUOTAS, 3, 1)
    assert permutation.at(np.array([5, 0, 59, 5])).tolist() == whole[[5, 0, 59, 5]].tolist()
