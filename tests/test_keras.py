import importlib.util
import json
import subprocess
import sys

import pytest
import tensorflow as tf
from datasets import ROOT, environment

import tfrds
from tfrds.errors import ConfigError


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_orders_inside_fit_are_those_of_a_plain_loop(raw, backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed: it comes with the test extra")
    process = subprocess.run(
        [sys.executable, "-W", "ignore", ROOT / "tests" / "keras_orders.py", raw.root, raw.name],
        env=environment(KERAS_BACKEND=backend),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout.splitlines()[-1])
    assert found.pop("backend") == backend
    assert not [name for name, is_same in found.items() if not is_same]


def test_sync_epoch_sets_all_datasets_it_is_given(raw, png):
    first, second = raw.load(seed=1, shuffle=True), png.load(seed=1, shuffle=True)
    callback = tfrds.keras.SyncEpoch(tf.data.Dataset.zip(first, second.repeat()).batch(2))
    assert len(callback._pipelines) == 2
    callback.on_epoch_begin(5)
    assert [pipeline.epochs.take() for pipeline in callback._pipelines] == [(5, 0), (5, 0)]


@pytest.mark.parametrize("dataset", [tf.data.Dataset.range(3), None, [1, 2]])
def test_sync_epoch_refuses_what_is_not_ours(dataset):
    with pytest.raises(ConfigError, match="SyncEpoch: expected datasets of tfrds's fast path, got"):
        tfrds.keras.SyncEpoch(dataset)


def test_sync_epoch_refuses_a_dataset_of_tfds_reader(raw):
    import tensorflow_datasets as tfds

    dataset = tfds.builder_from_directory(raw.directory).as_dataset(split="train")
    with pytest.raises(ConfigError, match=r"which holds none\. Load it with tfrds\.load"):
        tfrds.keras.SyncEpoch(dataset)
