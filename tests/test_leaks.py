import gc
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from datasets import build, environment, run_script

import tfrds
from tfrds.read import host_calls, mapped

LOADS_SCRIPT = """
import gc, os, sys
import tfrds
from tfrds.read import host_calls, mapped

def anonymous_megabytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024

def load(number):
    builder = tfrds.builder(sys.argv[2], data_dir=sys.argv[1])
    dataset = builder.as_dataset(split="train", batch_size=8, shuffle_files=True, with_key=True)
    for _ in dataset.take(1 + number % 3):
        pass

for number in range(30):
    load(number)
gc.collect()
before = anonymous_megabytes(), len(os.listdir("/proc/self/fd"))
for number in range(int(sys.argv[3])):
    load(number)
gc.collect()
print(anonymous_megabytes() - before[0], len(os.listdir("/proc/self/fd")) - before[1])
print(len(host_calls._live), len(mapped._open_files))
"""

MANY_SHARDS_SCRIPT = """
import sys
import tfrds
builder = tfrds.builder("many_shards", data_dir=sys.argv[1])
dataset = builder.as_dataset(split="train", batch_size=64, shuffle_files=True)
for _ in range(2):
    labels = sorted(int(label) for batch in dataset for label in batch["label"].numpy().argmax(1))
    print(len(labels), sum(labels))
"""


@pytest.fixture(params=["raw", "jpeg"])
def built(request):
    return request.getfixturevalue(request.param)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("loads", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_loads_leave_no_memory_no_files_and_no_handles(raw, loads):
    process = run_script(LOADS_SCRIPT, raw.root, raw.name, loads, timeout=300)
    assert process.returncode == 0, process.stderr
    memory, handles = process.stdout.splitlines()
    megabytes, files = memory.split()
    assert float(megabytes) < 60
    assert int(files) <= 0
    assert handles == "0 0"


def test_a_dataset_of_more_shards_than_open_files_are_allowed_is_read_in_full(tmp_path):
    labels = np.arange(900) % 5
    images = np.zeros((900, 2, 2), np.uint8)
    build(
        "many_shards",
        tfrds.sources.Arrays(images, labels),
        tmp_path,
        num_shards=300,
        encoding="raw",
    )
    command = 'ulimit -n 256 && exec "$0" -c "$1" "$2"'
    process = subprocess.run(
        ["bash", "-c", command, sys.executable, MANY_SHARDS_SCRIPT, tmp_path],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.stdout.splitlines() == [f"900 {labels.sum()}"] * 2, process.stderr


def live_after_collecting():
    gc.collect()
    return len(host_calls._live), len(mapped._open_files)


# Named functions, and out of AutoGraph's way: it keeps what it could not convert, with all that the
# frames on the way hold (seen on Python 3.13 where warnings are errors).
def unchanged(dataset):
    return dataset


@tf.autograph.experimental.do_not_convert
def identity(example):
    return example


def long_pipeline(dataset):
    return dataset.map(identity).repeat(2).prefetch(1)


def zipped(dataset):
    return tf.data.Dataset.zip(dataset, dataset)


def cached(dataset):
    return dataset.cache()


def numpy_iterator(dataset):
    return dataset.as_numpy_iterator()


@pytest.mark.parametrize("change", [unchanged, long_pipeline, zipped, cached, iter, numpy_iterator])
def test_a_pipeline_goes_with_the_last_that_uses_it(built, change):
    before = live_after_collecting()
    kept = change(built.load(batch_size=4))
    next(iter(kept))
    assert live_after_collecting() > before
    next(iter(kept))
    del kept
    assert live_after_collecting() == before


def test_whole_splits_and_infos_leave_nothing(built):
    before = live_after_collecting()
    built.load(batch_size=-1)
    assert live_after_collecting() == before
    assert built.builder.info.splits["train"].num_examples == 50
    assert live_after_collecting() == before


def test_datasets_share_the_mapped_files(raw):
    before = live_after_collecting()
    datasets = [
        raw.load(batch_size=4),
        raw.load("train[:10]"),
        tfrds.load(raw.name, data_dir=raw.root, split="train"),
    ]
    handles, files = live_after_collecting()
    assert handles == before[0] + 3
    # All three read the shards of one split, which are mapped once.
    assert files == before[1] + 1
    del datasets


def test_a_failed_load_leaves_nothing(sizes):
    before = live_after_collecting()
    for _ in range(3):
        with pytest.raises(tfrds.ConfigError, match="several sizes"):
            sizes.load(batch_size=4)
    assert live_after_collecting() == before
