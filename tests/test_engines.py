"""Engines: the same examples however the shards are read, and the right one chosen by itself."""

import os

import numpy as np
import pytest
import tensorflow as tf

from tfrds.augment import CenterCrop, RandomFlip, RandomResizedCrop
from tfrds.errors import ConfigError, DatasetError
from tfrds.read import fetch, storage
from tfrds.read.pread import PreadFiles
from tfrds.read.storage import choose_engine, file_system_of

WAYS = [{"engine": "pread"}, {"cache": "memory"}, {"engine": "pread", "cache": "memory"}]


def batches(built, **options):
    dataset = built.load(batch_size=7, with_key=True, **options)
    return [{name: part for name, part in batch.items()} for batch in dataset.as_numpy_iterator()]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": False},
        {"shuffle": True, "seed": 3, "dtype": "uint8"},
        {"shuffle": "blocks", "seed": 3},
        {"augment": [CenterCrop(6)], "seed": 1, "dtype": "uint8"},
        {"augment": [RandomResizedCrop(8), RandomFlip()], "seed": 1, "shuffle": True},
        {"verify_records": True, "shuffle": True, "seed": 2},
        {"worker": (1, 3), "start": (2, 1), "shuffle": True, "seed": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("gather_bytes", [0, 16_384])
def test_engines_give_the_same_examples(built, way, options, gather_bytes, monkeypatch):
    monkeypatch.setattr(fetch, "_GATHER_BYTES", gather_bytes)  # 0: as for large images
    expected, found = batches(built, **options), batches(built, **way, **options)
    assert len(found) == len(expected)
    for batch, other in zip(found, expected, strict=True):
        assert batch["key"].tolist() == other["key"].tolist()
        np.testing.assert_array_equal(batch["image"], other["image"])
        np.testing.assert_array_equal(batch["label"], other["label"])


def test_batches_end_on_the_device_asked_for(raw):
    dataset = raw.load(batch_size=7, device="/cpu:0", as_supervised=True)
    assert len(dataset) == 8
    for images, _ in dataset:
        assert images.device.endswith("CPU:0")
    assert dataset.options().autotune.enabled is False


@pytest.fixture
def files(tmp_path):
    """Two files of 300,000 and 1,000 bytes, as (path, size), and what they hold."""
    rng = np.random.default_rng(0)
    made = []
    for number, size in enumerate((300_000, 1_000)):
        path = tmp_path / f"file-{number}"
        path.write_bytes(rng.integers(0, 256, size, np.uint8).tobytes())
        made.append((path, size))
    return made


def test_ranges_come_behind_one_another_in_the_order_asked_for(files):
    content = [path.read_bytes() for path, _ in files]
    ranges = [(0, 5, 100), (1, 999, 1), (0, 250_000, 50_000), (0, 80, 30), (1, 0, 0), (0, 5, 100)]
    numbers, offsets, lengths = (np.array(column, np.int64) for column in zip(*ranges, strict=True))
    data, starts = PreadFiles(files).gather(numbers, offsets, lengths)
    found = [
        data[start : start + length].tobytes()
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
    assert found == [content[number][first : first + size] for number, first, size in ranges]


def test_neighbours_are_read_together(files, monkeypatch):
    read, calls = os.preadv, []
    monkeypatch.setattr(os, "preadv", lambda *args: calls.append(args[2]) or read(*args))
    offsets = np.arange(0, 200_000, 2_000)
    lengths = np.full(100, 1_900)
    PreadFiles(files).gather(np.zeros(100, np.int64), offsets, lengths)
    assert calls == [0]
    calls.clear()
    PreadFiles(files).gather(np.zeros(2, np.int64), np.array([290_000, 0]), np.array([9, 9]))
    assert sorted(calls) == [0, 290_000]


def test_more_files_than_may_be_open_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("tfrds.read.pread._MAX_OPEN", 3)
    made = []
    for number in range(20):
        path = tmp_path / str(number)
        path.write_bytes(bytes([number]) * 10)
        made.append((path, 10))
    reader = PreadFiles(made)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        data, _ = reader.gather(np.arange(20), np.zeros(20, np.int64), np.full(20, 10))
        assert data.reshape(20, 10)[:, 0].tolist() == list(range(20))
    assert len(os.listdir("/proc/self/fd")) - before <= 3


@pytest.mark.parametrize("open_files", [PreadFiles, storage.FilesInMemory])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: os.truncate(path, 999), "file-1: expected 1,000 bytes, found 999"),
        (lambda path: path.unlink(), "file-1: cannot be (opened|read): No such file"),
    ],
)
def test_a_file_that_is_cut_or_missing_is_named(files, open_files, change, message):
    change(files[1][0])
    with pytest.raises(DatasetError, match=message):
        open_files(files)


def test_a_file_that_is_cut_while_reading_is_named(files):
    reader = PreadFiles(files)
    os.truncate(files[1][0], 500)
    with pytest.raises(DatasetError, match="file-1: expected 1,000 bytes, found 500: the file was"):
        reader.gather(np.array([1]), np.array([400]), np.array([300]))


MOUNTS = """\
22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /data rw,relatime shared:2 - nfs4 server:/data rw
31 30 0:26 / /data/local\\040disk rw - xfs /dev/sdb rw
32 22 0:27 / /home/some\\040one rw - fuse.sshfs host: rw
33 22 0:28 / /over rw - ext4 /dev/sdc rw
34 22 0:29 / /over rw - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("directory", "kind", "engine"),
    [
        ("/var/x", "ext4", "mmap"),
        ("/data/x/1.0.0", "nfs4", "pread"),
        ("/data", "nfs4", "pread"),
        ("/database", "ext4", "mmap"),
        ("/data/local disk/x", "xfs", "mmap"),
        ("/home/some one/x", "fuse.sshfs", "pread"),
        ("/over/x", "cifs", "pread"),
    ],
)
def test_the_engine_is_chosen_by_the_mount(directory, kind, engine, tmp_path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    monkeypatch.setattr(storage, "_MOUNTS", mounts)
    assert file_system_of(directory) == kind
    assert choose_engine(directory) == engine


def test_without_mounts_files_are_mapped(monkeypatch, tmp_path):
    monkeypatch.setattr(storage, "_MOUNTS", tmp_path / "nowhere")
    assert choose_engine(tmp_path) == "mmap"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "aio"}, r"engine: expected one of \['mmap', 'pread', 'stream'\], got 'aio'"),
        ({"cache": True}, r"cache: expected one of \['memory'\], got True"),
        ({"device": 0}, "device: expected the name of a device .* got 0"),
    ],
)
def test_what_is_no_engine_cache_or_device_is_refused(raw, options, message):
    with pytest.raises(ConfigError, match=message):
        raw.load(**options)


def test_a_cut_shard_stops_reading_by_ranges_with_its_name(raw, tmp_path):
    import dataclasses
    import shutil

    directory = tmp_path / "copy" / raw.name / "1.0.0"
    shutil.copytree(raw.directory, directory)
    copy = dataclasses.replace(raw, root=tmp_path / "copy")
    dataset = copy.load(batch_size=4, engine="pread")
    os.truncate(directory / f"{raw.name}-train.tfrecord-00001-of-00003", 100)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"00001-of-00003: .* found 100"):
        list(dataset)
