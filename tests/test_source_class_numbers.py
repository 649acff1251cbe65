import itertools

import numpy as np
import pytest

from tfrds.write.sources.class_numbers import make_lists, multi_hot_width


def test_lists_are_rising_and_have_each_class_once():
    rows = np.array([3, 0, 3, 1, 3, 0])
    numbers = np.array([2, 1, 0, 9, 2, 0], np.int32)
    lists = make_lists(rows, numbers, 5)
    assert lists.offsets.tolist() == [0, 2, 3, 3, 5, 5]
    assert lists.numbers.tolist() == [0, 1, 9, 0, 2]
    assert (lists.numbers.dtype, lists.offsets.dtype) == (np.int32, np.uint64)


def test_random_lists_are_those_of_sets():
    rng = np.random.default_rng(0)
    rows, numbers = rng.integers(0, 50, 400), rng.integers(0, 12, 400).astype(np.int32)
    lists = make_lists(rows, numbers, 60)
    edges = itertools.pairwise(lists.offsets.astype(int))
    found = [lists.numbers[start:end].tolist() for start, end in edges]
    assert found == [sorted(set(numbers[rows == row].tolist())) for row in range(60)]


def test_no_lists_are_lists():
    lists = make_lists(np.zeros(0, np.int64), np.zeros(0, np.int32), 2)
    assert (lists.offsets.tolist(), len(lists.numbers)) == ([0, 0, 0], 0)


@pytest.mark.parametrize(
    ("lengths", "highest", "width"),
    [
        *(([2, 2], 1, 2), ([5], 1, 5), ([5], 0, 5)),
        *(([5, 4], 1, 0), ([1, 1], 1, 0), ([], 0, 0), ([3], 2, 0)),
    ],
)
def test_lists_of_zeros_and_ones_of_one_length_are_multi_hot(lengths, highest, width):
    assert multi_hot_width(np.array(lengths, np.int64), highest) == width
