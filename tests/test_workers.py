"""Workers, starts and blocks from end to end, by the keys that are seen."""

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from datasets import NUM_TRAIN

from tfrds.augment import RandomFlip
from tfrds.errors import ConfigError


def batches(dataset):
    return [
        [key.decode() for key in np.ravel(batch["key"])] for batch in dataset.as_numpy_iterator()
    ]


def load(built, batch_size=4, **options):
    return built.load(
        batch_size=batch_size, **{"with_key": True, "shuffle": True, "seed": 7, **options}
    )


def steps_of_all(built, count, batch_size, start=(0, 0), **options):
    """Returns the keys of each step of all workers together."""
    workers = [
        batches(load(built, batch_size, worker=(index, count), start=start, **options))
        for index in range(count)
    ]
    assert len({len(worker) for worker in workers}) == 1
    return [Counter(key for batch in step for key in batch) for step in zip(*workers, strict=True)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("batch_size", [None, 1, 4])
def test_workers_see_every_key(built, count, batch_size):
    seen = sum(steps_of_all(built, count, batch_size), Counter())
    assert set(seen) == {key for key in built.pixels if key.startswith("train/")}
    assert sum(seen.values()) - NUM_TRAIN < count


def test_more_workers_than_shards_and_examples_have_one_step_each(raw):
    seen = sum(steps_of_all(raw, 60, 4), Counter())
    assert (len(seen), sum(seen.values())) == (NUM_TRAIN, 60)


@pytest.mark.parametrize("count", [2, 3])
def test_cardinality_is_each_workers_own(raw, count):
    for drop_remainder, steps in (
        (False, -(-NUM_TRAIN // (4 * count))),
        (True, NUM_TRAIN // (4 * count)),
    ):
        dataset = load(raw, worker=(1, count), drop_remainder=drop_remainder)
        assert len(dataset) == len(batches(dataset)) == steps


def test_the_whole_share_comes_as_tensors(raw):
    shares = [load(raw, -1, worker=(index, 3))["key"].numpy().tolist() for index in range(3)]
    assert [len(share) for share in shares] == [16, 17, 17]
    assert len({key for share in shares for key in share}) == NUM_TRAIN


def test_a_run_goes_on_with_another_number_of_workers(built):
    # Three workers of 4 where two of 6 were, from the second epoch's third step on.
    two = steps_of_all(built, 2, 6, (1, 2))
    three = steps_of_all(built, 3, 4, (1, 2))
    assert two[:-1] == three[:-1]
    whole = steps_of_all(built, 1, 12, (1, 0))
    assert [set(step) for step in two] == [set(step) for step in whole[2:]]


def test_an_input_context_is_a_worker(raw):
    context = tf.distribute.InputContext(num_input_pipelines=3, input_pipeline_id=1)
    config = tfds.ReadConfig(input_context=context)
    assert batches(load(raw, read_config=config)) == batches(load(raw, worker=(1, 3)))
    assert batches(load(raw, read_config=config, worker=(1, 3)))
    with pytest.raises(ConfigError, match=r"worker: got \(0, 3\), and .* of \(1, 3\)"):
        load(raw, read_config=config, worker=(0, 3))


@pytest.mark.parametrize("count", [2, 3])
def test_even_splits_are_disjoint_and_complete(raw, count):
    shares = [
        batches(raw.load(split, batch_size=4, with_key=True, shuffle=True))
        for split in tfds.even_splits("train", count)
    ]
    seen = Counter(key for share in shares for batch in share for key in batch)
    assert (len(seen), set(seen.values())) == (NUM_TRAIN, {1})


@pytest.mark.parametrize("batch_size", [None, 4, 50])
@pytest.mark.parametrize("place", [(0, 0), (0, 1), (2, 0), (2, -1)])
def test_a_start_yields_the_rest_of_that_epoch_and_then_the_next(built, batch_size, place):
    dataset = load(built, batch_size)
    epochs = [batches(dataset) for _ in range(4)]
    epoch, step = place[0], place[1] % len(epochs[0])
    started = load(built, batch_size, start=(epoch, step))
    assert batches(started) == epochs[epoch][step:]
    assert batches(started) == epochs[epoch + 1]


def test_a_start_augments_as_the_run_would_have(raw):
    options = {"augment": [RandomFlip()], "dtype": "uint8"}
    whole = load(raw, **options)
    epochs = [list(whole.as_numpy_iterator()) for _ in range(2)]
    rest = list(load(raw, start=(1, 5), **options).as_numpy_iterator())
    assert len(rest) == len(epochs[1]) - 5
    for batch, expected in zip(rest, epochs[1][5:], strict=True):
        assert (batch["image"] == expected["image"]).all()


def test_blocks_hold_every_key_once_and_change_each_epoch(built):
    dataset = load(built, shuffle="blocks")
    epochs = [[key for batch in batches(dataset) for key in batch] for _ in range(3)]
    assert all(len(set(epoch)) == NUM_TRAIN for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 3
    assert batches(load(built, shuffle="blocks")) == batches(load(built, shuffle="blocks"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"worker": (3, 3)}, r"worker: expected \(index, count\) .* got \(3, 3\)"),
        ({"worker": 1}, "worker: expected .* got 1"),
        ({"worker": (0, 0)}, r"worker: .* got \(0, 0\)"),
        ({"worker": (-1, 2)}, r"worker: .* got \(-1, 2\)"),
        ({"start": 3}, "start: expected .* got 3"),
        ({"start": (0, -1)}, r"start: .* got \(0, -1\)"),
        ({"start": (0, 1.5)}, r"start: .* got \(0, 1\.5\)"),
        ({"start": (1, 13)}, r"start: an epoch of raw_images has 13 steps here, .* 12, got .*13\)"),
        ({"start": (1, 7), "worker": (0, 2)}, "start: an epoch of raw_images has 7 steps here"),
        ({"shuffle": "block"}, "shuffle: expected .* got 'block'"),
    ],
)
def test_what_is_no_worker_and_no_start_is_refused(raw, options, message):
    with pytest.raises(ConfigError, match=message):
        load(raw, **options)
