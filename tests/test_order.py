from collections import Counter

import numpy as np
import pytest

from tfrds.read.order import EpochState, Order, permutation


@pytest.mark.parametrize(
    ("seed", "epoch", "expected"),
    [
        (0, 0, [8, 2, 4, 3, 6, 0, 9, 1, 5, 7]),
        (0, 1, [6, 7, 4, 0, 1, 8, 2, 9, 5, 3]),
        (1, 0, [2, 9, 3, 7, 0, 1, 6, 4, 5, 8]),
        (2**33 + 5, 3, [7, 0, 9, 8, 3, 2, 6, 4, 5, 1]),
    ],
)
def test_permutation_never_changes(seed, epoch, expected):
    assert permutation(10, seed, epoch).tolist() == expected


def test_permutation_uses_all_bits_of_the_seed():
    orders = {tuple(permutation(50, seed, 0)) for seed in (1, 2**32 + 1, 2**62 + 1, 2**63 - 1)}
    assert len(orders) == 4


@pytest.mark.parametrize("count", [1, 2, 3, 257, 10_000])
def test_permutation_holds_every_row_once(count):
    assert sorted(permutation(count, 3, 4).tolist()) == list(range(count))


def test_neighbours_of_a_permutation_are_not_correlated():
    order = permutation(100_000, 0, 0)
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.01
    assert abs(np.corrcoef(order, permutation(100_000, 0, 1))[0, 1]) < 0.01


def test_rows_without_seed_are_the_ranges_in_their_order():
    order = Order([(20, 3), (5, 2)], seed=None)
    assert order.num_examples == 5
    assert order.rows(0, 0, 5).tolist() == [20, 21, 22, 5, 6]
    assert order.rows(7, 2, 4).tolist() == [22, 5]


def test_rows_with_seed_are_numpys_permutation_of_the_ranges():
    order = Order([(100, 6), (50, 4)], seed=0)
    rows = np.array([*range(100, 106), *range(50, 54)])
    assert order.rows(0, 0, 10).tolist() == rows[[8, 2, 4, 3, 6, 0, 9, 1, 5, 7]].tolist()
    assert order.rows(1, 3, 6).tolist() == rows[[0, 1, 8]].tolist()


def test_epochs_differ_in_order_and_agree_as_multisets():
    order = Order([(0, 300)], seed=9)
    epochs = [order.rows(epoch, 0, 300).tolist() for epoch in range(4)]
    assert all(sorted(rows) == list(range(300)) for rows in epochs)
    assert len(set(map(tuple, epochs))) == 4


def test_every_epoch_is_the_same_without_reshuffle():
    order = Order([(0, 40)], seed=9, reshuffle=False)
    assert order.rows(5, 0, 40).tolist() == permutation(40, 9, 0).tolist()


def test_rows_that_are_selected_twice_come_twice():
    order = Order([(0, 50), (0, 25)], seed=4)
    counts = Counter(order.rows(2, 0, 75).tolist())
    assert counts == Counter([*range(50), *range(25)])


def test_an_old_epoch_comes_again_as_it_was():
    order = Order([(0, 30)], seed=1)
    first = order.rows(0, 0, 30).tolist()
    for epoch in range(1, 6):
        order.rows(epoch, 0, 30)
    assert order.rows(0, 0, 30).tolist() == first


def test_each_taken_epoch_counts_one():
    epochs = EpochState()
    assert [epochs.take() for _ in range(3)] == [(0, 0), (1, 0), (2, 0)]


def test_a_set_epoch_is_taken_next_and_counted_on():
    epochs = EpochState()
    epochs.set(7, 3)
    assert [epochs.take() for _ in range(2)] == [(7, 3), (8, 0)]
