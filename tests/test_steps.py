import itertools

import numpy as np
import pytest

from tfrds.read.steps import Steps

COUNTS = [0, 1, 2, 5, 63, 64, 65, 128, 200]
WORKERS = [1, 2, 3, 7]


def fetched(steps, first_step=0):
    return [steps.positions(step) for step in steps.fetches(first_step)]


def shares(num_examples, count, batch_size, **options):
    """Returns the positions of each worker, and checks that all have the same number of steps."""
    workers = [
        Steps(num_examples=num_examples, batch_size=batch_size, worker=(index, count), **options)
        for index in range(count)
    ]
    assert len({steps.num_steps for steps in workers}) == 1
    return [fetched(steps) for steps in workers]


@pytest.mark.parametrize("num_examples", COUNTS)
@pytest.mark.parametrize("batch_size", [1, 3, 64, 500])
def test_one_workers_batches_are_the_positions_in_their_order(num_examples, batch_size):
    steps = Steps(num_examples=num_examples, batch_size=batch_size)
    batches = fetched(steps)
    assert [position for batch in batches for position in batch] == list(range(num_examples))
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert steps.num_steps == len(batches) == -(-num_examples // batch_size)
    assert steps.has_full_batches == (num_examples % batch_size == 0)


@pytest.mark.parametrize("num_examples", COUNTS)
def test_single_examples_are_fetched_together(num_examples):
    steps = Steps(num_examples=num_examples, batch_size=None)
    batches = fetched(steps)
    assert [position for batch in batches for position in batch] == list(range(num_examples))
    assert steps.num_steps == num_examples
    assert all(len(batch) <= steps.fetch_size for batch in batches)


@pytest.mark.parametrize("num_examples", COUNTS[1:])
@pytest.mark.parametrize("count", WORKERS)
@pytest.mark.parametrize("batch_size", [None, 1, 4, 64])
def test_workers_are_disjoint_and_complete_but_for_what_fills_up(num_examples, count, batch_size):
    taken = list(itertools.chain(*itertools.chain(*shares(num_examples, count, batch_size))))
    assert set(taken) == set(range(num_examples))
    # Fewer than the workers are seen twice, from the epoch's front where there are enough.
    repeated = len(taken) - num_examples
    assert 0 <= repeated < count
    if num_examples >= count:
        assert sorted(taken) == sorted([*range(num_examples), *range(repeated)])


@pytest.mark.parametrize("num_examples", COUNTS)
@pytest.mark.parametrize("count", WORKERS)
def test_without_the_remainder_all_batches_are_full_and_none_is_seen_twice(num_examples, count):
    worker_batches = shares(num_examples, count, 4, drop_remainder=True)
    taken = list(itertools.chain(*itertools.chain(*worker_batches)))
    assert sorted(taken) == list(range(num_examples // (4 * count) * 4 * count))
    assert all(len(batch) == 4 for batches in worker_batches for batch in batches)


@pytest.mark.parametrize("batch_sizes", [(12, 6, 4, 3), (24, 12, 8, 6)])
def test_a_step_of_all_workers_does_not_depend_on_their_count(batch_sizes):
    by_count = []
    for count, batch_size in zip((1, 2, 3, 4), batch_sizes, strict=True):
        workers = shares(200, count, batch_size)
        by_count.append([sorted(np.concatenate(step)) for step in zip(*workers, strict=True)])
    first = by_count[0]
    for steps in by_count[1:]:
        assert steps[:-1] == first[:-1]
        assert set(steps[-1]) >= set(first[-1])


@pytest.mark.parametrize("batch_size", [None, 1, 8])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("first_step", [0, 1, 7, 8, 24])
def test_a_start_is_the_rest_of_the_epoch(batch_size, count, first_step):
    steps = Steps(num_examples=200, batch_size=batch_size, worker=(count - 1, count))
    whole = np.concatenate(fetched(steps))
    first_step = min(first_step, steps.num_steps - 1)
    rest = np.concatenate(fetched(steps, first_step))
    assert rest.tolist() == whole[first_step * (batch_size or 1) :].tolist()


def test_ten_thousand_millions_of_examples_take_no_time_and_no_memory():
    steps = Steps(num_examples=10**10, batch_size=256, worker=(4, 7))
    last = steps.positions(steps.num_steps - 1)
    assert steps.num_steps == 5_580_358
    assert 0 < len(last) <= 256
    assert last.max() < 10**10
