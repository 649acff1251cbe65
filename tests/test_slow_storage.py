"""Storage whose reads wait: ranges are asked for ahead, at once, and once. Nothing is timed."""

import ctypes
import mmap
import os
import pathlib
import resource
import shutil
import time

import numpy as np
import pytest
import tensorflow as tf
from datasets import build, photo

import tfrds
from benchmarks import slow_files
from tfrds.disk.build_record import read_build_record
from tfrds.read import advice, fetch, host_calls, request
from tfrds.read.fetch import SplitReader
from tfrds.read.mapped import map_files
from tfrds.read.memory import FilesInMemory
from tfrds.read.pread import PreadFiles

PAGE = mmap.PAGESIZE
KIB = 1024

libc = ctypes.CDLL(None)
libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


def pages_in_memory(path):
    """Returns the numbers of a file's pages that the kernel has."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        flags = np.zeros(-(-len(view) // PAGE), np.uint8)
        assert libc.mincore(view.ctypes.data, len(view), flags.ctypes.data) == 0
        del view
    return np.flatnonzero(flags & 1).tolist()


def drop(path):
    """Takes a file out of memory; skips the test where that cannot be."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    if pages_in_memory(path):
        pytest.skip("files stay in memory: needs Linux and a file system on a disk")


@pytest.fixture
def files(tmp_path):
    """Two files of 9,000,000 and 1,000 bytes, as (path, size), none of it in memory."""
    made = [(tmp_path / "large", 9_000_000), (tmp_path / "small", 1_000)]
    for path, size in made:
        path.write_bytes(os.urandom(size))
    return made


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, 1, [(0, 1)]),
        (5, 0, [(0, 5)]),
        (PAGE + 5, 10, [(PAGE, 15)]),
        (0, 128 * KIB, [(0, 128 * KIB)]),
        (5, 300 * KIB, [(0, 128 * KIB), (128 * KIB, 128 * KIB), (256 * KIB, 44 * KIB + 5)]),
    ],
)
def test_pieces_are_small_enough_for_the_kernel_and_begin_with_a_page(start, length, expected):
    assert list(advice.pieces(start, length)) == expected


@pytest.mark.parametrize("open_files", [PreadFiles, map_files])
@pytest.mark.parametrize(("offset", "length"), [(4_500_000, 2_500_000), (0, 9_000_000)])
def test_what_is_read_ahead_comes_into_memory(files, open_files, offset, length):
    storage = open_files(files)
    drop(files[0][0])
    storage.read_ahead(0, offset, length)
    expected = {*range(offset // PAGE, (offset + length - 1) // PAGE + 1)}
    end = time.monotonic() + 30
    while not expected <= set(pages_in_memory(files[0][0])):  # mapped files are merely advised
        assert time.monotonic() < end
        time.sleep(0.01)
    found, starts = storage.gather(np.array([0]), np.array([offset]), np.array([length]))
    content = files[0][0].read_bytes()[offset : offset + length]
    assert found[starts[0] : starts[0] + length].tobytes() == content


@pytest.mark.parametrize("open_files", [PreadFiles, map_files, FilesInMemory])
def test_errors_are_left_to_the_read_that_needs_it(files, open_files):
    storage = open_files(files)
    for path, _ in files:
        os.truncate(path, 10)
    storage.read_ahead(0, 5_000_000, 1_000_000)
    for path, _ in files:
        path.unlink()
    storage.read_ahead(0, 0, 100)
    storage.read_ahead(1, 0, 1_000)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="macOS takes no advice")
@pytest.mark.parametrize(
    ("length", "expected"),
    [(400_000, [131_072, 131_072, 131_072, 400_000 - 3 * 131_072]), (131_072, [])],
)
def test_large_reads_are_advised_as_a_whole(files, length, expected, monkeypatch):
    sizes, fadvise = [], os.posix_fadvise
    monkeypatch.setattr(os, "posix_fadvise", lambda *call: sizes.append(call[2]) or fadvise(*call))
    data, _ = PreadFiles(files).gather(np.array([0]), np.array([PAGE]), np.array([length]))
    assert sizes == expected
    assert data.tobytes() == files[0][0].read_bytes()[PAGE : PAGE + length]


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="macOS takes no advice")
def test_a_kernel_that_takes_no_advice_is_read_all_the_same(files, monkeypatch):
    def refuse(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    storage = PreadFiles(files)
    storage.read_ahead(0, 0, 400_000)
    data, _ = storage.gather(np.array([0]), np.array([0]), np.array([400_000]))
    assert data.tobytes() == files[0][0].read_bytes()[:400_000]


def test_without_advice_files_are_read_ahead_all_the_same(files, monkeypatch):
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    storage = PreadFiles(files)
    storage.read_ahead(0, 1_000, 300_000)
    data, _ = storage.gather(np.array([1]), np.array([0]), np.array([1_000]))
    assert data.tobytes() == files[1][0].read_bytes()


# Mapped files, while they are not in memory


def test_waits_are_those_of_this_thread():
    before = advice.count_waits()
    assert advice.count_waits() - before in (0, 1)


def test_systems_that_do_not_count_waits_have_none(monkeypatch):
    monkeypatch.delattr(resource, "RUSAGE_THREAD", raising=False)
    assert advice.count_waits() == 0


@pytest.mark.parametrize("engine", ["mmap", "pread"])
@pytest.mark.parametrize("verify_records", [False, True])
def test_batches_are_advised_for_a_while_after_one_that_waited(
    built, engine, verify_records, monkeypatch
):
    monkeypatch.setattr(fetch, "_ADVISED", 3)
    waits, advised = iter([0, 0, 0, 5, *[5] * 20]), []
    monkeypatch.setattr(fetch, "count_waits", lambda: next(waits))
    record = read_build_record(built.directory)
    reader = SplitReader(record, ["train"], engine=engine, verify_records=verify_records)
    read_ahead = reader._files.read_ahead
    monkeypatch.setattr(
        reader._files, "read_ahead", lambda *piece: advised.append(piece) or read_ahead(*piece)
    )
    rows = np.array([3, 40, 3])
    counts = []
    for _ in range(6):
        reader.fetch(rows)
        counts.append(len(advised))
    # The second one waited.
    assert counts == ([0, 0, 3, 6, 9, 9] if engine == "mmap" else [0] * 6)
    lengths = record.split_files("train"), reader._entries(rows)["image_length"].tolist()
    assert [length for _, _, length in advised[:3]] == (lengths[1] if advised else [])


# Datasets


@pytest.fixture
def small_windows(monkeypatch):
    """Blocks of four examples, three to a window."""
    monkeypatch.setattr(request, "block_sizes", lambda _: (4, 3))


def batches(dataset):
    return [
        (batch["key"].tolist(), batch["image"].tobytes(), batch["label"].tobytes())
        for batch in dataset.as_numpy_iterator()
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 7},
        {"batch_size": 2, "start": (1, 9)},
        {"batch_size": 5, "worker": (1, 2)},
        {"batch_size": 30},
        {"batch_size": 3, "select": {"classes": ["ant", "cat"]}},
    ],
    ids=["whole", "start", "worker", "several_windows", "select"],
)
def test_an_epoch_by_blocks_reads_each_record_ahead_once(raw, options, small_windows, monkeypatch):
    plain = batches(raw.load(shuffle="blocks", seed=4, with_key=True, **options))
    asked, reads_ahead = [], SplitReader.reads_ahead
    monkeypatch.setattr(
        SplitReader, "reads_ahead", lambda self, rows: asked.extend(rows) or reads_ahead(self, rows)
    )
    dataset = raw.load(shuffle="blocks", seed=4, with_key=True, engine="pread", **options)
    assert batches(dataset) == plain
    keys = [key for names, _, _ in plain for key in names]
    assert len(set(asked)) == len(asked) == len(set(keys))


def test_mapped_files_are_read_ahead_once_they_are_found_to_wait(raw, small_windows, monkeypatch):
    options = {"batch_size": 4, "shuffle": "blocks", "seed": 4, "with_key": True}
    expected, asked, reads_ahead = batches(raw.load(**options)), [], SplitReader.reads_ahead
    monkeypatch.setattr(
        SplitReader, "reads_ahead", lambda self, rows: asked.extend(rows) or reads_ahead(self, rows)
    )
    assert batches(raw.load(**options)) == expected
    assert asked == []
    monkeypatch.setattr(fetch, "count_waits", iter(range(1000)).__next__)
    assert batches(raw.load(**options)) == expected
    # Of the first windows it is not known.
    assert 0 < len(set(asked)) == len(asked) < 50


def test_other_orders_read_nothing_ahead(raw, monkeypatch):
    monkeypatch.delattr(SplitReader, "reads_ahead")
    for shuffle in (False, True):
        assert len(batches(raw.load(batch_size=7, shuffle=shuffle, with_key=True))) == 8


# Through a mount on which each read waits

NUM_IMAGES, SIDE = 60, 128
RECORD_BYTES = SIDE * SIDE * 3


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """The folder of a dataset of 60 raw images of 49 kB each, in three shards."""
    root = tmp_path_factory.mktemp("large")
    images = np.stack([photo(number, SIDE, SIDE) for number in range(NUM_IMAGES)])
    build("raw_large", tfrds.sources.Arrays(images, np.arange(NUM_IMAGES) % 5), root)
    return root


@pytest.fixture
def mounted(large, tmp_path):
    """Returns a context manager that mounts the dataset anew, with nothing of it in memory."""
    numbers = iter(range(100))

    def mount(milliseconds=5.0, source=large):
        return slow_files.mounted(source, tmp_path / f"mount-{next(numbers)}", milliseconds)

    try:
        with mount():
            pass
    except slow_files.FuseUnavailableError as error:
        pytest.skip(str(error))
    return mount


def load(root, **options):
    builder = tfrds.builder("raw_large", data_dir=root)
    return builder.as_dataset(split="train", with_key=True, dtype="uint8", **options)


def engine_of(dataset):
    (target,) = host_calls.targets(dataset)
    return target._reader.engine


def test_a_machine_that_cannot_mount_says_why(large, tmp_path, monkeypatch):
    monkeypatch.setenv("FUSE_LIBRARY_NAME", "no_such_library")
    with (
        pytest.raises(slow_files.FuseUnavailableError, match=r"no FUSE here: .*libfuse"),
        slow_files.mounted(large, tmp_path / "mount", 5),
    ):
        pass


@pytest.mark.parametrize("shuffle", [False, True, "blocks"])
def test_values_are_the_same_through_a_slow_mount(mounted, large, shuffle, small_windows):
    options = {"batch_size": 8, "shuffle": shuffle, "seed": 2}
    expected = batches(load(large, engine="mmap", **options))
    with mounted() as mount:
        dataset = load(mount.path, **options)
        assert engine_of(dataset) == "pread"
        assert batches(dataset) == expected
        del dataset
    # The index, the keys and the shards, each once.
    total = sum(path.stat().st_size for path in large.rglob("*") if path.is_file())
    assert mount.asked["bytes"] <= 1.2 * total
    assert mount.asked["most_at_once"] > 1


def test_windows_are_asked_for_ahead_and_side_by_side(mounted, monkeypatch):
    monkeypatch.setattr(request, "block_sizes", lambda _: (10, 2))
    with mounted(20) as mount:
        dataset = load(mount.path, batch_size=1, shuffle="blocks", seed=2)
        first = next(iter(dataset))
        assert first["image"].shape == (1, SIDE, SIDE, 3)
        (target,) = host_calls.targets(dataset)
        for window in list(target._ahead._windows.values()):
            assert window.is_read.wait(30)
        del dataset, target
    # Two windows of three, where at most five examples were fetched.
    assert mount.asked["bytes"] > 40 * RECORD_BYTES
    assert mount.asked["most_at_once"] > 8


@pytest.mark.parametrize("shuffle", [False, True, "blocks"])
def test_a_shard_cut_while_it_is_read_ends_with_its_name(mounted, large, tmp_path, shuffle):
    source = tmp_path / "copy"
    shutil.copytree(large, source)
    with mounted(source=source) as mount:
        dataset = load(mount.path, batch_size=4, shuffle=shuffle, seed=2)
        for path in pathlib.Path(source).rglob("*-train.tfrecord-*"):
            os.truncate(path, 1_000)
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"of-00003: .*the file was changed"
        ):
            list(dataset)
        del dataset


def test_a_mount_that_is_gone_ends_with_the_files_name(mounted, small_windows):
    with mounted() as mount:
        dataset = load(mount.path, batch_size=4, shuffle="blocks", seed=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"of-00003: .*(opened|read)"):
        list(dataset)
