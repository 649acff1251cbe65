import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tfrds.read.permutation import (
    TABLE_LIMIT,
    BlockPermutation,
    FeistelPermutation,
    FullPermutation,
    block_sizes,
)

# All random numbers here are fixed, so a test passes always or never. Chance alone would exceed
# four standard deviations once in 16,000 times.
SIGMAS = 4

MILLION = 10**6
LARGE = (TABLE_LIMIT + 1, 10**9 + 7, 10**10, 2**62)
SEEDS = (0, 1, 2, 2**32, 2**63 - 1)

# 1,000,000 images of 100 kB: what the module's docstring tells of.
BLOCK, WINDOW = 41, 64
IN_A_WINDOW = BLOCK * WINDOW


def by_blocks(count, seed=0, epoch=0, block=BLOCK, window=WINDOW):
    return BlockPermutation(count, seed, epoch, block=block, window=window)


def correlation(one, other):
    """In standard deviations of what chance gives."""
    return np.corrcoef(one.astype(float), other.astype(float))[0, 1] * math.sqrt(len(one))


def is_uniform(counts):
    """Chi-square, by the approximation of Wilson and Hilferty."""
    counts = np.asarray(counts)
    expected, spread = counts.mean(), 2 / (9 * (counts.size - 1))
    ratio = float(((counts - expected) ** 2).sum() / expected) / (counts.size - 1)
    return ratio ** (1 / 3) < 1 - spread + SIGMAS * math.sqrt(spread)


def sixty_fourths(values, count):
    return np.bincount((values * (64 / count)).astype(int).clip(0, 63), minlength=64)


def within(measured, expected, tolerance):
    return abs(measured / expected - 1) < tolerance


# Frozen values


@pytest.mark.parametrize(
    ("seed", "epoch", "expected"),
    [
        (0, 0, [8, 2, 4, 3, 6, 0, 9, 1, 5, 7]),
        (0, 1, [6, 7, 4, 0, 1, 8, 2, 9, 5, 3]),
        (1, 0, [2, 9, 3, 7, 0, 1, 6, 4, 5, 8]),
        (2**33 + 5, 3, [7, 0, 9, 8, 3, 2, 6, 4, 5, 1]),
    ],
)
def test_the_full_permutation_of_few_never_changes(seed, epoch, expected):
    assert FullPermutation(10, seed, epoch).positions(0, 10).tolist() == expected


@pytest.mark.parametrize(
    ("count", "seed", "epoch", "expected"),
    [
        (TABLE_LIMIT, 5, 2, [224616, 2374270, 1127483, 949445]),
        (TABLE_LIMIT + 1, 5, 2, [6594032, 5205585, 9117610, 6226252]),
        (10**10, 0, 0, [844167531, 7619579191, 7558865855, 4605044170]),
        (10**10, 2**63 - 1, 7, [3480984348, 2764064376, 4015286607, 3613440881]),
        (
            2**62,
            1,
            1,
            [3953535931198975700, 4008825752967904851, 2509918553311595721, 1039264542463343302],
        ),
    ],
)
def test_the_full_permutation_of_many_never_changes(count, seed, epoch, expected):
    assert FullPermutation(count, seed, epoch).positions(1000, 1004).tolist() == expected


@pytest.mark.parametrize(
    ("count", "seed", "epoch", "block", "window", "expected"),
    [
        (10, 0, 0, 3, 2, [4, 5, 7, 6]),
        (10, 0, 1, 3, 2, [8, 4, 1, 3]),
        (10**6, 7, 1, 41, 64, [429583, 954475, 651914, 94792]),
        (10**10, 7, 1, 41, 64, [9259274170, 4864919275, 8535872113, 852282840]),
        (10**10, 2**63 - 1, 3, 5349, 64, [2211489615, 5689565470, 6591311211, 9286810092]),
    ],
)
def test_the_order_by_blocks_never_changes(count, seed, epoch, block, window, expected):
    order = by_blocks(count, seed, epoch, block, window)
    assert order.positions(count // 2, count // 2 + 4).tolist() == expected


@pytest.mark.parametrize(
    ("bytes_per_example", "block"),
    [(0.5, 16_384), (784, 5_349), (100_000, 41), (110_592.5, 37), (4 * 2**20, 1), (10**9, 1)],
)
def test_block_sizes_never_change(bytes_per_example, block):
    assert block_sizes(bytes_per_example) == (block, 64)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 1000, 65_537, MILLION])
def test_a_table_is_numpys_own_permutation(count):
    expected = np.random.RandomState([5, 1, 2]).permutation(count)
    order = FullPermutation(count, 2**32 + 5, 2).positions(0, count)
    assert order.dtype == np.int64
    assert np.array_equal(order, expected)


def splitmix(value):
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


def cipher(position, count, seed, epoch):
    """The Feistel permutation of one position in Python's integers."""
    bases = [math.isqrt(count - 1) + 1]
    bases.append(-(-count // bases[0]))
    digits = list(divmod(position, bases[1]))
    for number in range(6):
        key = 0
        for part in (seed, epoch, number):
            key = splitmix((key + part + 0x9E3779B97F4A7C15) % 2**64)
        side = number % 2
        added = splitmix((digits[1 - side] + key) % 2**64) // 2
        digits[side] = (digits[side] + added) % bases[side]
    image = digits[0] * bases[1] + digits[1]
    return image if image < count else cipher(image, count, seed, epoch)


@pytest.mark.parametrize("count", [3, 50, *LARGE])
def test_the_cipher_is_what_plain_integers_give(count):
    for seed, epoch in ((0, 0), (2**63 - 1, 4)):
        order = FeistelPermutation(count, seed, epoch).positions(count - 3, count)
        assert order.dtype == np.int64
        assert order.tolist() == [cipher(count - i, count, seed, epoch) for i in (3, 2, 1)]


# Every example once, in whatever stretches


@pytest.mark.parametrize("make", [FullPermutation, FeistelPermutation, by_blocks])
def test_every_example_comes_once_at_any_small_size(make):
    for count in range(1, 201):
        assert sorted(make(count, count, 3).positions(0, count).tolist()) == [*range(count)]


@pytest.mark.parametrize(("block", "window"), [(1, 5), (4, 1), (4, 3), (7, 2), (300, 2)])
def test_every_example_comes_once_with_any_block_and_window(block, window):
    for count in range(201):
        order = by_blocks(count, 2, count, block, window).positions(0, count)
        assert sorted(order.tolist()) == [*range(count)]


@pytest.mark.parametrize("count", LARGE)
@pytest.mark.parametrize("make", [FeistelPermutation, by_blocks])
def test_a_million_of_many_are_different(make, count):
    order = make(count, 3, 1)
    starts = [i * (count - MILLION // 8) // 7 for i in range(8)]
    examples = np.sort(
        np.concatenate([order.positions(start, start + MILLION // 8) for start in starts])
    )
    assert examples[0] >= 0
    assert examples[-1] < count
    assert len(examples) == MILLION
    assert (np.diff(examples) > 0).all()


@pytest.mark.parametrize(
    "order",
    [
        FullPermutation(1003, 1, 0),
        FeistelPermutation(1003, 1, 0),
        by_blocks(1003, 1, 0, block=10, window=7),
    ],
    ids=["table", "cipher", "blocks"],
)
def test_any_stretch_is_a_part_of_the_whole(order):
    whole = order.positions(0, 1003).tolist()
    for start, stop in np.sort(np.random.RandomState(0).randint(0, 1004, (200, 2))).tolist():
        assert order.positions(start, stop).tolist() == whole[start:stop]
    assert order.positions(1000, 1010).tolist() == whole[1000:]


def test_threads_get_the_same_order_by_blocks():
    whole = by_blocks(50_000).positions(0, 50_000).tolist()
    order = by_blocks(50_000)
    with ThreadPoolExecutor(8) as pool:
        batches = pool.map(lambda start: order.positions(start, start + 100), range(0, 50_000, 100))
        assert np.concatenate(list(batches)).tolist() == whole


# No order is preferred


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("vary", ["seed", "epoch"])
def test_all_orders_of_few_are_equally_likely(count, vary):
    drawn = Counter(
        tuple(
            FullPermutation(count, *((i, 0) if vary == "seed" else (0, i)))
            .positions(0, count)
            .tolist()
        )
        for i in range(max(10 * math.factorial(count), 1000))
    )
    assert len(drawn) == math.factorial(count)
    assert is_uniform(list(drawn.values()))


def test_each_example_comes_at_each_position_equally_often_by_blocks():
    counts = np.zeros((11, 11), int)
    for seed in range(3000):
        counts[by_blocks(11, seed, 0, block=3, window=2).positions(0, 11), np.arange(11)] += 1
    assert all(is_uniform(row) for row in counts)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", LARGE)
def test_the_cipher_spreads_a_stretch_evenly(count, seed):
    starts = (0, count // 3)
    for start in starts:
        examples = FeistelPermutation(count, seed, 0).positions(start, start + 100_000)
        assert is_uniform(sixty_fourths(examples, count))
        assert is_uniform(np.bincount(examples % 64))
        assert is_uniform(sixty_fourths((examples - np.arange(100_000) - start) % count, count))


def test_the_full_permutation_moves_evenly():
    order = FullPermutation(MILLION, 0, 0).positions(0, MILLION)
    assert is_uniform(sixty_fourths((order - np.arange(MILLION)) % MILLION, MILLION))


@pytest.mark.parametrize("count", [100_000, *LARGE])
def test_neighbours_are_not_correlated(count):
    for seed in SEEDS:
        examples = FullPermutation(count, seed, 0).positions(0, 100_000)
        for lag in (1, 2, 3):
            assert abs(correlation(examples[lag:], examples[:-lag])) < SIGMAS


@pytest.mark.parametrize("count", [100_000, *LARGE])
def test_neighbouring_seeds_and_epochs_are_not_correlated(count):
    for seed in SEEDS:
        examples = FullPermutation(count, seed, 0).positions(0, 100_000)
        for other in ((seed ^ 1, 0), (seed ^ 2**32, 0), (seed, 1), (seed, 2)):
            stretch = FullPermutation(count, *other).positions(0, 100_000)
            assert abs(correlation(examples, stretch)) < SIGMAS
            moved = sixty_fourths((stretch - examples) % count, count)
            assert is_uniform(moved)


def test_seeds_and_epochs_cut_other_blocks():
    orders = {tuple(by_blocks(10_000, *one).positions(0, 5)) for one in ((0, 0), (1, 0), (0, 1))}
    assert len(orders) == 3


# What is read while the epoch is in a window


def read_within(order, start, stop):
    """Returns the lengths of stretches of neighbours among the examples of some positions."""
    examples = np.sort(order.positions(start, stop))
    return np.diff(np.flatnonzero(np.diff(examples, prepend=-2, append=-2) != 1))


@pytest.mark.parametrize("count", [1, 6, 7, 8, 100, 1000, 1003])
def test_windows_follow_each_other(count):
    order = by_blocks(count, 4, 1, block=7, window=5)
    start = 0
    while start < count:
        window = order.window(start)
        assert window[0] == start
        assert order.window(window[1] - 1) == window
        start = window[1]
    assert start == count


def test_windows_are_of_one_size_and_of_long_stretches():
    order = by_blocks(MILLION)
    (start, stop), sizes = order.window(0), []
    while stop < MILLION:
        sizes.append(stop - start)
        lengths = np.sort(read_within(order, start, stop))
        # The end of the examples cuts one block in two.
        assert len(lengths) <= WINDOW + 1
        assert lengths[2] >= BLOCK
        start, stop = order.window(stop)
    assert IN_A_WINDOW - BLOCK <= min(sizes) <= max(sizes) <= IN_A_WINDOW
    assert min(sizes) <= MILLION - sum(sizes) <= IN_A_WINDOW + BLOCK


def test_what_fits_into_one_window_is_mixed_as_a_whole():
    order = by_blocks(IN_A_WINDOW)
    assert order.window(0) == (0, IN_A_WINDOW)
    examples = order.positions(0, IN_A_WINDOW)
    assert abs(correlation(examples[1:], examples[:-1])) < SIGMAS
    assert is_uniform(sixty_fourths((examples - np.arange(IN_A_WINDOW)) % 2624, 2624))


# How random blocks are: the figures of the module's docstring


@pytest.fixture(scope="module")
def orders():
    """Five epochs each, [5, count]."""
    full = [FullPermutation(MILLION, 1, epoch).positions(0, MILLION) for epoch in range(5)]
    blocks = [by_blocks(MILLION, 1, epoch).positions(0, MILLION) for epoch in range(5)]
    return {"full": np.array(full), "blocks": np.array(blocks)}


def batches(order):
    return order[:, : MILLION // 128 * 128].reshape(-1, 128)


def test_examples_move_as_far_by_blocks(orders):
    for order in orders.values():
        distances = np.abs(order - np.arange(MILLION)) / MILLION
        assert within(distances.mean(), 1 / 3, 0.01)


def test_neighbours_are_as_little_correlated_as_documented(orders):
    means = {
        name: np.mean([np.corrcoef(one[1:], one[:-1])[0, 1] for one in order])
        for name, order in orders.items()
    }
    assert abs(means["full"]) < SIGMAS / math.sqrt(5 * MILLION)
    # The share of one block in the variance of a window's mean.
    assert within(means["blocks"], 1 / WINDOW, 0.1)


def test_epochs_by_blocks_are_not_correlated(orders):
    # Of examples within their windows, and of the means of the windows.
    chance = math.sqrt(1 / MILLION + IN_A_WINDOW / MILLION / WINDOW**2)
    for one, other in zip(orders["blocks"], orders["blocks"][1:], strict=False):
        assert abs(np.corrcoef(one, other)[0, 1]) < SIGMAS * chance


def test_neighbours_stay_neighbours_as_rarely_as_documented(orders):
    shares = {name: (abs(np.diff(order)) == 1).mean() for name, order in orders.items()}
    assert within(1 / shares["blocks"], 1_350, 0.05)
    assert within(2 * (BLOCK - 1) / BLOCK / (IN_A_WINDOW - 1), 1 / 1_350, 0.01)
    assert shares["full"] < 2 * 2 / MILLION


@pytest.mark.parametrize(
    ("kind", "expected", "tolerance"), [("full", 12_500, 0.05), ("blocks", 66, 0.01)]
)
def test_pairs_of_a_batch_are_as_rarely_near_as_documented(orders, kind, expected, tolerance):
    examples = np.sort(batches(orders[kind]))
    near = [(examples[:, i:] - examples[:, :-i] < BLOCK).sum() for i in range(1, BLOCK)]
    pairs = len(examples) * 128 * 127 / 2
    assert within(pairs / np.sum(near), expected, tolerance)


@pytest.mark.parametrize(("kind", "expected"), [("full", 120), ("blocks", 56)])
def test_batches_of_sorted_examples_hold_as_many_classes_as_documented(orders, kind, expected):
    classes = np.sort(batches(orders[kind]) // 1000)
    held = 1 + (np.diff(classes) > 0).sum(axis=1)
    assert within(held.mean(), expected, 0.01)


@pytest.mark.parametrize(("kind", "expected"), [("full", 0.0265), ("blocks", 0.045)])
def test_batches_of_sorted_examples_hold_shares_as_documented(orders, kind, expected):
    classes = batches(orders[kind]) // 100_000
    shares = np.array([(classes == label).mean(axis=1) for label in range(10)])
    assert within(math.sqrt(((shares - 0.1) ** 2).mean()), expected, 0.02)
