"""engine="stream": the same values by TensorFlow's own reader, in another process too."""

import contextlib
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from datasets import ROOT, environment

from tfrds.augment import CenterCrop, ColorJitter, MixUp, RandomCrop, RandomFlip, RandomResizedCrop
from tfrds.errors import ConfigError


def batches(built, split="train", **options):
    return list(built.load(split, as_supervised=True, **options).as_numpy_iterator())


@pytest.mark.parametrize("batch_size", [None, 7, 50, 64])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": "uint8", "label_mode": "int"},
        {"image_size": 8},
        {"image_size": 8, "interpolation": "area"},
        {"value_range": (0, 1), "drop_remainder": True},
        {"augment": [CenterCrop(6)], "dtype": "uint8"},
        {"augment": [RandomCrop(6, padding=1), RandomFlip()], "seed": 4},
        {"augment": [RandomResizedCrop(8), RandomFlip(), ColorJitter(0.2)], "seed": 4},
        {"cache": "memory"},
    ],
    ids=str,
)
def test_streamed_examples_are_those_of_the_index(built, batch_size, options):
    expected = batches(built, batch_size=batch_size, **options)
    dataset = built.load(
        "train", as_supervised=True, batch_size=batch_size, engine="stream", **options
    )
    assert len(dataset) == len(expected)
    # Twice, since cached bytes come from elsewhere then; augmentation goes on with the next epoch.
    found = list(dataset.as_numpy_iterator())
    assert len(found) == len(expected)
    for (images, labels), (other_images, other_labels) in zip(found, expected, strict=True):
        np.testing.assert_allclose(images, other_images, atol=1e-3)
        np.testing.assert_array_equal(labels, other_labels)
        assert images.dtype == other_images.dtype
    assert len(list(dataset)) == len(expected)


@pytest.mark.parametrize("split", ["train[10:30]", "test+train[40:]", "train[:5]+train[:5]", "all"])
def test_split_expressions_are_streamed_in_their_order(built, split):
    expected = batches(built, split, batch_size=6)
    found = batches(built, split, batch_size=6, engine="stream")
    for (images, labels), (other_images, other_labels) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(images, other_images)
        np.testing.assert_array_equal(labels, other_labels)


def test_epochs_of_a_stream_are_augmented_each_of_its_own(raw):
    options = {"batch_size": 8, "augment": [RandomFlip(), MixUp()], "seed": 1}
    streamed = raw.load("train", as_supervised=True, engine="stream", **options)
    indexed = raw.load("train", as_supervised=True, **options)
    for _ in range(3):
        for (images, labels), (other_images, other_labels) in zip(streamed, indexed, strict=True):
            np.testing.assert_allclose(images, other_images, atol=1e-3)
            np.testing.assert_allclose(labels, other_labels, atol=1e-6)


def test_a_damaged_record_stops_a_stream(raw, tmp_path):
    import dataclasses
    import shutil

    directory = tmp_path / "copy" / raw.name / "1.0.0"
    shutil.copytree(raw.directory, directory)
    copy = dataclasses.replace(raw, root=tmp_path / "copy")
    with (directory / f"{raw.name}-train.tfrecord-00000-of-00003").open("r+b") as shard:
        shard.seek(100)
        shard.write(b"\xff\xfe\xfd")
    with pytest.raises(tf.errors.DataLossError):
        list(copy.load(batch_size=4, engine="stream"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shuffle": True}, r'shuffle: engine="stream" reads .* Call shuffle\(buffer_size\)'),
        ({"shuffle_files": True}, 'shuffle: engine="stream"'),
        ({"start": (1, 0)}, r'start: engine="stream" cannot honour it.* skip\(\)'),
        ({"worker": (0, 2)}, 'worker: engine="stream" cannot honour it'),
        ({"select": ["ant"]}, 'select: engine="stream" cannot honour it'),
        ({"sample_weight": {"ant": 2}}, 'sample_weight: engine="stream" cannot honour it'),
        ({"with_key": True}, 'with_key: engine="stream" cannot honour it'),
        ({"verify_records": True}, 'verify_records: engine="stream" cannot honour it'),
        ({"read_config": tfds.ReadConfig(add_tfds_id=True)}, "add_tfds_id"),
    ],
)
def test_what_needs_the_index_is_refused(raw, options, message):
    with pytest.raises(ConfigError, match=message):
        raw.load(engine="stream", batch_size=4, **options)


@pytest.fixture
def service():
    """The address of a dispatcher here, with two workers in processes of their own."""
    dispatcher = tf.data.experimental.service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, str(ROOT / "tests" / "service_worker.py"), address],
                    env=environment(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1"),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.kill)
            assert process.stdout.readline() == "ready\n"
        yield dispatcher.target


def distribute(dataset, service):
    return dataset.apply(
        tf.data.experimental.service.distribute(
            processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC, service=service
        )
    )


def test_workers_of_the_tf_data_service_run_a_stream(raw, jpeg, service):
    for built in (raw, jpeg):
        expected = Counter(
            (image.tobytes(), int(label.argmax()))
            for images, labels in batches(built, batch_size=8)
            for image, label in zip(images, labels, strict=True)
        )
        # Each worker has only a part of the elements.
        config = tfds.ReadConfig(assert_cardinality=False)
        streamed = built.load(
            "train", batch_size=8, as_supervised=True, engine="stream", read_config=config
        )
        found = Counter(
            (image.tobytes(), int(label.argmax()))
            for images, labels in distribute(streamed, service).as_numpy_iterator()
            for image, label in zip(images, labels, strict=True)
        )
        assert found == expected


def test_workers_cannot_run_the_index_engines(raw, service):
    dataset = distribute(raw.load("train", batch_size=8, as_supervised=True), service)
    with pytest.raises(tf.errors.OpError):
        list(dataset)
