from collections import Counter

import numpy as np

from tfrds.read.order import EpochState, Order
from tfrds.read.permutation import BlockPermutation


def test_rows_without_seed_are_the_ranges_in_their_order():
    order = Order([(20, 3), (5, 2)], seed=None)
    assert order.num_examples == 5
    assert order.rows(0, np.arange(0, 5)).tolist() == [20, 21, 22, 5, 6]
    assert order.rows(7, np.arange(2, 4)).tolist() == [22, 5]


def test_rows_with_seed_are_numpys_permutation_of_the_ranges():
    order = Order([(100, 6), (50, 4)], seed=0)
    rows = np.array([*range(100, 106), *range(50, 54)])
    assert order.rows(0, np.arange(0, 10)).tolist() == rows[[8, 2, 4, 3, 6, 0, 9, 1, 5, 7]].tolist()
    assert order.rows(1, np.arange(3, 6)).tolist() == rows[[0, 1, 8]].tolist()


def test_epochs_differ_in_order_and_agree_as_multisets():
    order = Order([(0, 300)], seed=9)
    epochs = [order.rows(epoch, np.arange(0, 300)).tolist() for epoch in range(4)]
    assert all(sorted(rows) == list(range(300)) for rows in epochs)
    assert len(set(map(tuple, epochs))) == 4


def test_every_epoch_is_the_same_without_reshuffle():
    order = Order([(0, 40)], seed=9, reshuffle=False)
    assert (
        order.rows(5, np.arange(0, 40)).tolist()
        == np.random.RandomState([9, 0, 0]).permutation(40).tolist()
    )


def test_rows_that_are_selected_twice_come_twice():
    order = Order([(0, 50), (0, 25)], seed=4)
    counts = Counter(order.rows(2, np.arange(0, 75)).tolist())
    assert counts == Counter([*range(50), *range(25)])


def test_an_old_epoch_comes_again_as_it_was():
    order = Order([(0, 30)], seed=1)
    first = order.rows(0, np.arange(0, 30)).tolist()
    for epoch in range(1, 6):
        order.rows(epoch, np.arange(0, 30))
    assert order.rows(0, np.arange(0, 30)).tolist() == first


def test_each_taken_epoch_counts_one():
    epochs = EpochState()
    assert [epochs.take() for _ in range(3)] == [(0, 0), (1, 0), (2, 0)]


def test_a_set_epoch_is_taken_next_and_counted_on():
    epochs = EpochState()
    epochs.set(7, 3)
    assert [epochs.take() for _ in range(2)] == [(7, 3), (8, 0)]


def test_positions_may_be_any():
    order = Order([(0, 300)], seed=9)
    whole = order.rows(2, np.arange(300))
    chosen = np.array([7, 299, 0, 7, 150])
    assert order.rows(2, chosen).tolist() == whole[chosen].tolist()


def test_blocks_are_those_of_the_block_permutation():
    order = Order([(100, 50), (0, 30)], seed=3, blocks=(4, 5))
    expected = BlockPermutation(80, 3, 1, block=4, window=5).positions(0, 80)
    rows = np.array([*range(100, 150), *range(30)])[expected]
    assert order.rows(1, np.arange(80)).tolist() == rows.tolist()


def test_the_first_epoch_and_step_may_be_given():
    epochs = EpochState(3, 5)
    assert [epochs.take() for _ in range(2)] == [(3, 5), (4, 0)]
