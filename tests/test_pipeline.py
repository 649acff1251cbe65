import dataclasses
import os
import shutil
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from datasets import NUM_TEST, NUM_TRAIN, resized_by_stage, run_script, values

from tfrds.read import fetch, pipeline

ORDER_SCRIPT = """
import sys, tfrds
builder = tfrds.builder(sys.argv[2], data_dir=sys.argv[1])
dataset = builder.as_dataset(split="train", shuffle=True, seed=11, with_key=True)
for _ in range(2):
    print(" ".join(example["key"].decode() for example in dataset.as_numpy_iterator()))
"""


def keys(dataset):
    """Returns the keys of a dataset's examples, batched or not."""
    return [
        key.decode() for example in dataset.as_numpy_iterator() for key in np.ravel(example["key"])
    ]


def expected_examples(built, split="train"):
    return values(
        (image.astype(np.float32), np.eye(4)[label])
        for image, label in built.stored(split).values()
    )


@pytest.mark.parametrize("batch_size", [None, 1, 7, 50, 64])
def test_examples_without_shuffling_are_the_records_in_their_order(built, batch_size):
    dataset = built.load(batch_size=batch_size)
    if batch_size:
        dataset = dataset.unbatch()
    assert values(dataset.as_numpy_iterator()) == expected_examples(built)


def test_the_whole_split_as_tensors_is_the_records_in_their_order(built):
    whole = built.load(batch_size=-1)
    assert whole["image"].dtype == whole["label"].dtype == tf.float32
    assert values(zip(whole["image"], whole["label"], strict=True)) == expected_examples(built)


@pytest.mark.parametrize("batch_size", [None, 16])
def test_images_by_key_are_what_pillow_decodes_from_the_source(built, batch_size):
    for split, count in (("train", NUM_TRAIN), ("test", NUM_TEST)):
        dataset = built.load(split, batch_size=batch_size, with_key=True, shuffle_files=True)
        examples = list((dataset.unbatch() if batch_size else dataset).as_numpy_iterator())
        assert len({example["key"] for example in examples}) == count
        for example in examples:
            key = example["key"].decode()
            np.testing.assert_array_equal(example["image"], built.pixels[key].astype(np.float32))
            np.testing.assert_array_equal(example["label"], np.eye(4)[built.labels[key]])


@pytest.mark.parametrize(
    ("batch_size", "drop_remainder", "steps"),
    [
        (None, False, 50),
        (7, False, 8),
        (7, True, 7),
        (50, False, 1),
        (50, True, 1),
        (25, True, 2),
        (64, False, 1),
    ],
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_length_is_the_number_of_elements(built, batch_size, drop_remainder, steps, shuffle):
    dataset = built.load(batch_size=batch_size, drop_remainder=drop_remainder, shuffle=shuffle)
    assert len(dataset) == steps
    assert len(list(dataset)) == steps
    assert len(dataset.repeat(2)) == len(list(dataset.repeat(2))) == 2 * steps


def test_dropping_the_remainder_of_a_split_below_a_batch_leaves_no_batch(built):
    dataset = built.load(batch_size=64, drop_remainder=True)
    assert len(dataset) == 0
    assert list(dataset) == []


def test_a_batch_size_far_beyond_the_split_is_one_batch(built):
    dataset = built.load(batch_size=10**9)
    assert len(dataset) == 1
    (batch,) = dataset
    assert batch["image"].shape[0] == NUM_TRAIN


def test_element_spec_tells_dtypes_and_shapes(built):
    image, label = built.pixels[next(iter(built.pixels))].shape, (4,)

    def spec(*batch):
        return tf.TensorSpec((*batch, *image)), tf.TensorSpec((*batch, *label))

    assert built.load(as_supervised=True).element_spec == spec()
    assert built.load(as_supervised=True, batch_size=7).element_spec == spec(None)
    assert built.load(as_supervised=True, batch_size=7, drop_remainder=True).element_spec == spec(7)
    named = built.load(batch_size=25, with_key=True).element_spec
    assert named == {
        "image": spec(25)[0],
        "label": spec(25)[1],
        "key": tf.TensorSpec((25,), tf.string),
    }


def test_a_shuffled_epoch_is_numpys_permutation_of_the_records(built):
    in_order = keys(built.load(with_key=True))
    dataset = built.load(batch_size=8, shuffle_files=True, seed=5, with_key=True)
    for epoch in range(3):
        assert keys(dataset) == [
            in_order[row] for row in np.random.RandomState([5, 0, epoch]).permutation(NUM_TRAIN)
        ]


def test_epochs_differ_in_order_and_agree_as_multisets(built):
    dataset = built.load(batch_size=8, shuffle_files=True, as_supervised=True)
    epochs = [values(dataset.unbatch().as_numpy_iterator()) for _ in range(3)]
    assert len(set(map(tuple, epochs))) == 3
    assert all(Counter(epoch) == Counter(expected_examples(built)) for epoch in epochs)


def test_repeat_goes_through_other_orders(raw):
    seen = keys(raw.load(shuffle_files=True, with_key=True, seed=1).repeat(2))
    assert seen[:50] != seen[50:]
    assert (
        Counter(seen[:50])
        == Counter(seen[50:])
        == Counter(key for key in raw.pixels if key.startswith("train"))
    )


def test_two_live_iterators_have_an_epoch_each(raw):
    dataset = raw.load(shuffle_files=True, with_key=True, seed=3)
    first, second = dataset.as_numpy_iterator(), dataset.as_numpy_iterator()
    seen = ([], [])
    for one, two in zip(first, second, strict=True):
        seen[0].append(one["key"].decode())
        seen[1].append(two["key"].decode())
    alone = raw.load(shuffle_files=True, with_key=True, seed=3)
    assert list(seen) == [keys(alone), keys(alone)]


def test_an_iterator_that_is_never_asked_takes_no_epoch(raw):
    dataset = raw.load(shuffle_files=True, with_key=True, seed=3)
    iter(dataset)
    assert keys(dataset) == keys(raw.load(shuffle_files=True, with_key=True, seed=3))


def test_take_skip_and_zip_are_tf_datas_own(built):
    whole = keys(built.load(shuffle_files=True, with_key=True, seed=3))
    start = built.load(shuffle_files=True, with_key=True, seed=3)
    assert keys(start.take(11)) == whole[:11]
    start = built.load(shuffle_files=True, with_key=True, seed=3)
    assert keys(start.skip(11)) == whole[11:]
    zipped = tf.data.Dataset.zip(built.load(with_key=True), built.load("test", with_key=True))
    assert len(zipped) == 13
    assert len(list(zipped)) == 13


def test_an_abandoned_iterator_leaves_later_epochs_whole(raw):
    dataset = raw.load(batch_size=4, shuffle_files=True, with_key=True, seed=3)
    next(iter(dataset))
    assert sorted(keys(dataset)) == sorted(key for key in raw.pixels if key.startswith("train"))


def test_same_seed_gives_the_same_orders_in_another_process(png):
    dataset = png.load(shuffle=True, seed=11, with_key=True)
    expected = [" ".join(keys(dataset)) for _ in range(2)]
    process = run_script(ORDER_SCRIPT, png.root, png.name, PYTHONHASHSEED="7")
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == expected


def test_without_a_seed_loads_differ(raw):
    assert keys(raw.load(shuffle_files=True, with_key=True)) != keys(
        raw.load(shuffle_files=True, with_key=True)
    )


def test_images_of_several_sizes_come_one_by_one_as_they_are(sizes):
    dataset = sizes.load(with_key=True)
    assert dataset.element_spec["image"] == tf.TensorSpec((None, None, 3))
    for example in dataset.as_numpy_iterator():
        np.testing.assert_array_equal(example["image"], sizes.pixels[example["key"].decode()])


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_image_size_makes_batches_of_several_sizes(sizes, resize):
    dataset = sizes.load(with_key=True, image_size=(16, 20), resize=resize, batch_size=32)
    assert dataset.element_spec["image"] == tf.TensorSpec((None, 16, 20, 3))
    for example in dataset.unbatch().as_numpy_iterator():
        pixels = sizes.pixels[example["key"].decode()]
        expected = resized_by_stage(tf.constant(pixels), (16, 20), resize, (255, 255, 255))
        np.testing.assert_allclose(example["image"], expected, atol=1e-3)


@pytest.mark.parametrize("batch_size", [None, 8])
def test_raw_images_are_resized_while_reading_too(raw, batch_size):
    dataset = raw.load(with_key=True, image_size=4, batch_size=batch_size)
    for example in (dataset.unbatch() if batch_size else dataset).as_numpy_iterator():
        expected = tf.image.resize(raw.pixels[example["key"].decode()], (4, 4))
        np.testing.assert_allclose(example["image"], expected, atol=1e-3)


@pytest.fixture
def copy(built, tmp_path):
    shutil.copytree(built.directory, tmp_path / built.name / "1.0.0")
    return dataclasses.replace(built, root=tmp_path)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_shard_that_is_cut_while_iterating_is_an_error_with_our_text(copy, batch_size):
    dataset = copy.load(batch_size=batch_size)
    os.truncate(copy.directory / f"{copy.name}-train.tfrecord-00002-of-00003", 7)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"tfrecord-00002-of-00003: expected .* found 7"
    ):
        list(dataset)


def test_index_that_does_not_fit_is_an_error_with_our_text(copy):
    path = copy.directory / f"{copy.name}-train.index.npy"
    index = np.load(path)
    index["offset"][30] += 10**9
    np.save(path, index)
    with pytest.raises(tf.errors.OpError, match="record 13: the index says bytes"):
        list(copy.load(batch_size=4))


def test_dataset_made_inside_a_function_that_ended_says_so(raw, monkeypatch):
    dataset = raw.load(batch_size=4)
    monkeypatch.setattr(pipeline.host_calls, "_live", {})
    with pytest.raises(
        tf.errors.OpError, match="Make the dataset in the process that iterates over it"
    ):
        list(dataset)


def test_a_damaged_image_is_an_error(copy):
    if copy.name == "raw_images":
        pytest.skip("raw pixels have no format to damage")
    index = np.load(copy.directory / f"{copy.name}-train.index.npy")
    shard = copy.directory / f"{copy.name}-train.tfrecord-00000-of-00003"
    with shard.open("r+b") as file:
        file.seek(int(index["offset"][2] + 12 + index["image_offset"][2]))
        file.write(bytes(8))
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(copy.load(batch_size=4))


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16"])
def test_batches_that_are_kept_are_never_written_again(raw, monkeypatch, dtype):
    monkeypatch.setattr(fetch, "_GATHER_BYTES", 0)  # as for large images
    dataset = raw.load(batch_size=7, dtype=dtype, with_key=True, shuffle=True)
    kept = [batch for _ in range(4) for batch in dataset]
    arrays = [batch["image"].numpy() for batch in kept]
    keys = [batch["key"].numpy() for batch in kept]
    del kept
    for _ in range(3):
        for _ in dataset:
            pass
    for images, names in zip(arrays, keys, strict=True):
        for image, key in zip(images, names, strict=True):
            assert image.dtype == dtype
            np.testing.assert_array_equal(image, raw.pixels[key.decode()])
