import logging
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from datasets import NUM_TRAIN, values

import tfrds
from tfrds.errors import ConfigError


def permutation(seed, epoch):
    return np.random.RandomState([seed, 0, epoch]).permutation(50)


def keys(dataset):
    return [example["key"].decode() for example in dataset.as_numpy_iterator()]


@pytest.fixture
def train_keys(raw):
    return keys(raw.load(with_key=True))


@pytest.fixture
def test_keys(raw):
    return keys(raw.load("test", with_key=True))


@pytest.mark.parametrize(
    ("split", "start", "stop"),
    [
        ("train", 0, 50),
        ("train[:10]", 0, 10),
        ("train[13:37]", 13, 37),
        ("train[-5:]", 45, 50),
        ("train[50%:]", 25, 50),
        ("train[:10%]", 0, 5),
        ("train[:1shard]", 0, 17),
        ("train[2shard:]", 33, 50),
        (tfds.Split.TRAIN, 0, 50),
        (tfds.core.ReadInstruction("train", from_=20, to=40, unit="%"), 10, 20),
        (tfds.core.ReadInstruction("train", from_=3, to=4, unit="abs"), 3, 4),
    ],
)
def test_a_split_expression_selects_tfds_records(raw, train_keys, split, start, stop):
    dataset = raw.load(split, with_key=True)
    assert len(dataset) == stop - start
    assert keys(dataset) == train_keys[start:stop]


def test_splits_are_joined_in_their_order(raw, train_keys, test_keys):
    assert keys(raw.load("train+test", with_key=True)) == train_keys + test_keys
    assert (
        keys(raw.load("test[:3]+train[10:12]", with_key=True)) == test_keys[:3] + train_keys[10:12]
    )
    assert sorted(keys(raw.load("all", with_key=True))) == sorted(train_keys + test_keys)
    instruction = tfds.core.ReadInstruction("test") + tfds.core.ReadInstruction(
        "train", to=2, unit="abs"
    )
    assert keys(raw.load(instruction, with_key=True)) == test_keys + train_keys[:2]


def test_records_that_are_selected_twice_come_twice_shuffled_or_not(built):
    split = "train[:50]+train[:25]"
    expected = Counter(
        keys(built.load("train[:50]", with_key=True))
        + keys(built.load("train[:25]", with_key=True))
    )
    for shuffle in (False, True):
        dataset = built.load(split, with_key=True, shuffle_files=shuffle)
        assert len(dataset) == 75
        assert Counter(keys(dataset)) == expected
    whole = built.load(split, batch_size=-1)
    assert whole["image"].shape[0] == 75


def test_even_splits_share_out_every_record_once(raw, train_keys):
    parts = tfds.even_splits("train", n=3)
    found = [keys(raw.load(part, with_key=True)) for part in parts]
    assert [len(part) for part in found] == [17, 17, 16]
    assert [key for part in found for key in part] == train_keys


def test_no_split_is_a_dict_of_all(raw, train_keys, test_keys):
    datasets = raw.builder.as_dataset(with_key=True)
    assert set(datasets) == {"train", "test"}
    assert keys(datasets["train"]) == train_keys
    assert keys(datasets["test"]) == test_keys


def test_nested_splits_give_the_same_structure(raw, train_keys, test_keys):
    found = raw.load({"a": "train[:5]", "b": ["test", ("train[5:6]",)]}, with_key=True)
    assert keys(found["a"]) == train_keys[:5]
    assert keys(found["b"][0]) == test_keys
    assert keys(found["b"][1][0]) == train_keys[5:6]


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("trian", r"split: .*trian"),
        ("train[60:]", r"split: .*60"),
        ("train[5:5]", r"split: .*train\[5:5\]"),
        ("train[", r"split: .*train\["),
        ("train[0%:1%]", r"split: .*train\[0%:1%\]"),
        (17, r"split: expected the name of a split, .* got 17"),
    ],
)
def test_a_split_that_selects_nothing_is_named(raw, split, message):
    with pytest.raises(ConfigError, match=message):
        raw.load(split)


@pytest.mark.parametrize("batch_size", [0, -2, "8", 2.5, True])
def test_a_batch_size_that_is_none_is_named(raw, batch_size):
    with pytest.raises(
        ConfigError, match=f"batch_size: expected an integer of at least 1, got {batch_size!r}"
    ):
        raw.load(batch_size=batch_size)


def test_batches_of_several_sizes_ask_for_an_image_size(sizes):
    for batch_size in (8, -1):
        with pytest.raises(
            ConfigError, match=r"batch_size: .* several sizes.* Pass image_size=\(height, width\)"
        ):
            sizes.load(batch_size=batch_size)


def test_supervised_pairs_are_the_dicts_values(built):
    assert values(built.load(as_supervised=True).as_numpy_iterator()) == values(
        built.load().as_numpy_iterator()
    )
    image, label = built.load(as_supervised=True, batch_size=-1)
    assert image.shape[0] == label.shape[0] == NUM_TRAIN


def test_a_key_has_no_place_in_supervised_pairs(raw):
    with pytest.raises(ConfigError, match=r"with_key: .* Leave out as_supervised=True"):
        raw.load(with_key=True, as_supervised=True)


def test_tfds_ids_are_those_of_tfds(built):
    config = tfds.ReadConfig(add_tfds_id=True)
    for batch_size in (None, 8):
        dataset = built.load(read_config=config, batch_size=batch_size, shuffle_files=True)
        examples = (dataset.unbatch() if batch_size else dataset).as_numpy_iterator()
        found = {
            example["tfds_id"].decode(): (example["image"], example["label"].argmax())
            for example in examples
        }
        stored = built.stored("train")
        assert found.keys() == stored.keys()
        for name, (image, label) in found.items():
            np.testing.assert_array_equal(image, stored[name][0])
            assert label == stored[name][1]


def test_shuffle_seed_is_the_permutations_seed(raw, train_keys):
    for seed in (dict(read_config=tfds.ReadConfig(shuffle_seed=6)), dict(seed=6)):
        dataset = raw.load(shuffle_files=True, with_key=True, **seed)
        for epoch in range(2):
            assert keys(dataset) == [train_keys[row] for row in permutation(6, epoch)]


def test_two_seeds_that_differ_are_refused(raw):
    raw.load(seed=5, read_config=tfds.ReadConfig(shuffle_seed=5))
    with pytest.raises(ConfigError, match=r"seed: got 4, and read_config.shuffle_seed=5"):
        raw.load(seed=4, read_config=tfds.ReadConfig(shuffle_seed=5))


def test_without_reshuffle_every_epoch_has_the_same_order(raw, train_keys):
    config = tfds.ReadConfig(shuffle_seed=6, shuffle_reshuffle_each_iteration=False)
    dataset = raw.load(shuffle_files=True, with_key=True, read_config=config)
    expected = [train_keys[row] for row in permutation(6, 0)]
    assert [keys(dataset), keys(dataset)] == [expected, expected]


def test_shuffle_overrides_shuffle_files(raw, train_keys):
    assert keys(raw.load(shuffle_files=True, shuffle=False, with_key=True)) == train_keys
    assert keys(raw.load(shuffle=True, with_key=True, seed=0)) != train_keys


def test_autotuning_is_off_and_the_users_options_stay(built):
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 3
    for batch_size in (None, 4):
        assert built.load(batch_size=batch_size).options().autotune.enabled is False
        found = built.load(
            batch_size=batch_size, read_config=tfds.ReadConfig(options=options)
        ).options()
        assert found.autotune.enabled is False
        assert found.deterministic is False
        assert found.threading.private_threadpool_size == 3


def test_the_user_may_switch_autotuning_on(raw):
    options = tf.data.Options()
    options.autotune.enabled = True
    assert raw.load(read_config=tfds.ReadConfig(options=options)).options().autotune.enabled is True


def test_skip_prefetch_leaves_prefetching_to_the_user(built):
    def names(dataset):
        inputs = dataset._inputs()
        return [type(dataset).__name__] + [name for each in inputs for name in names(each)]

    assert any("Prefetch" in name for name in names(built.load(batch_size=4)))
    skipped = built.load(batch_size=4, read_config=tfds.ReadConfig(skip_prefetch=True))
    assert not any("Prefetch" in name for name in names(skipped))
    assert values(skipped.unbatch()) == values(built.load())


@pytest.mark.parametrize("calls", [1, 3, tf.data.AUTOTUNE])
def test_parallel_decodes_change_no_value(built, calls):
    config = tfds.ReadConfig(num_parallel_calls_for_decode=calls)
    assert values(built.load(read_config=config)) == values(built.load())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (dict(decoders={"image": tfds.decode.SkipDecoding()}), "decoders"),
        (dict(decoders=tfds.decode.PartialDecoding({"label": True})), "decoders"),
        (
            dict(read_config=tfds.ReadConfig(interleave_cycle_length=1)),
            "read_config.interleave_cycle_length",
        ),
        (dict(read_config=tfds.ReadConfig(repeat_filenames=True)), "read_config.repeat_filenames"),
    ],
)
def test_what_only_tfds_reader_serves_it_serves_and_says_so(raw, caplog, arguments, reason):
    with caplog.at_level(logging.INFO, "tfrds"):
        dataset = raw.load(**arguments)
    assert f"TFDS's own reader serves this because of {reason}" in caplog.text
    assert len(list(dataset.take(3))) == 3
    with pytest.raises(ConfigError, match=f"with_key: cannot be honoured together with {reason}"):
        raw.load(with_key=True, **arguments)


def test_tfds_reader_gives_the_same_values_in_the_same_order(built):
    config = tfds.ReadConfig(interleave_cycle_length=1)
    for batch_size in (None, 7, -1):
        ours, theirs = (
            built.load(batch_size=batch_size, read_config=given) for given in (None, config)
        )
        if batch_size == -1:
            ours, theirs = (tf.data.Dataset.from_tensor_slices(whole) for whole in (ours, theirs))
        elif batch_size:
            ours, theirs = ours.unbatch(), theirs.unbatch()
        assert values(ours.as_numpy_iterator()) == values(theirs.as_numpy_iterator())


def test_skipped_decoding_gives_the_stored_bytes(jpeg):
    dataset = jpeg.load(decoders={"image": tfds.decode.SkipDecoding()})
    for example in dataset.take(5).as_numpy_iterator():
        assert example["image"][:2] == b"\xff\xd8"
        assert example["label"].shape == (4,)


def test_decoders_of_unusual_options_are_refused(raw):
    with pytest.raises(ConfigError, match="image_size: cannot be honoured together with decoders"):
        raw.load(image_size=8, decoders={"image": tfds.decode.SkipDecoding()})


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (dict(image_size=0), r"image_size: expected \(height, width\).* got 0"),
        (dict(image_size=(8, 8, 3)), r"image_size: .* got \(8, 8, 3\)"),
        (dict(resize="fit"), "resize: expected one of .* got 'fit'"),
        (dict(shuffle="yes"), "shuffle: expected True, False .* got 'yes'"),
        (dict(seed=-1), "seed: expected an integer from 0 .* got -1"),
        (dict(seed=2**63), "seed: expected an integer from 0 .* got 9223372036854775808"),
        (dict(drop_remainder=1), "drop_remainder: expected True or False, got 1"),
    ],
)
def test_a_read_option_that_is_wrong_names_rule_and_value(raw, option, message):
    with pytest.raises(ConfigError, match=message):
        raw.load(**option)


def test_an_unknown_read_option_is_an_error(raw):
    with pytest.raises(TypeError, match="imagesize"):
        tfrds.load(raw.name, data_dir=raw.root, imagesize=3)
