import tracemalloc

import numpy as np
import pytest

from tfrds.disk import keys as keys_module
from tfrds.disk.keys import Keys, open_keys, read_keys, write_keys
from tfrds.errors import DatasetError


@pytest.fixture
def stored(tmp_path):
    """Keys on disk: a function that opens them for a number of examples, and the two paths."""
    paths = tmp_path / "keys.npy", tmp_path / "key_offsets.npy"
    parts = [[b"cat/1.png"], ["größe/ü".encode(), b""]]
    write_keys([Keys.from_iterable(part) for part in parts], *paths)
    return paths


def test_keys_are_one_blob_and_its_offsets():
    keys = Keys.from_iterable([b"ab", b"", "é".encode()])
    assert keys.blob.tobytes() == b"ab\xc3\xa9"
    assert keys.offsets.tolist() == [0, 2, 2, 4]
    assert (keys.blob.dtype.str, keys.offsets.dtype.str) == ("|u1", "<u8")
    assert len(keys) == 3
    assert [keys[row] for row in range(3)] == list(keys) == [b"ab", b"", b"\xc3\xa9"]


def test_no_keys_are_a_valid_sequence():
    keys = Keys.from_iterable(())
    assert len(keys) == 0
    assert list(keys) == []
    assert len(keys.take(np.array([], np.int64))) == 0


def test_take_gives_keys_in_the_order_of_the_rows_with_repeats():
    keys = Keys.from_iterable([b"a", b"bb", b"", b"dddd"])
    taken = keys.take(np.array([3, 0, 3, 2, 1]))
    assert list(taken) == [b"dddd", b"a", b"dddd", b"", b"bb"]
    assert list(keys) == [b"a", b"bb", b"", b"dddd"]


@pytest.mark.parametrize("block_bytes", [1, 7, 100, 2**18])
def test_take_crosses_the_borders_of_its_blocks(block_bytes, monkeypatch):
    monkeypatch.setattr(keys_module, "_BLOCK_BYTES", block_bytes)
    rng = np.random.default_rng(0)
    repeats = rng.integers(0, 4, 2_000) * np.where(rng.random(2_000) < 0.01, 100, 1)
    names = [b"%d" % number * int(repeat) for number, repeat in enumerate(repeats)]
    keys = Keys.from_iterable(names)
    for count in (0, 1, 2, 3, 1_999, 2_000):
        rows = rng.permutation(len(names))[:count]
        taken = keys.take(rows)
        assert list(taken) == [names[row] for row in rows]
        assert taken.offsets.dtype.str == "<u8"


def test_take_of_long_keys_takes_little_more_memory_than_they_have():
    keys = Keys.from_iterable([b"x" * 5_000_000, b"", b"yz"] * 4)
    tracemalloc.start()
    try:
        taken = keys.take(np.arange(12)[::-1])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [len(key) for key in taken] == [2, 0, 5_000_000] * 4
    assert peak < 20_000_006 + 30_000_000


def test_keys_come_back_from_disk(stored):
    keys = open_keys(*stored, 3)
    assert list(keys) == [b"cat/1.png", "größe/ü".encode(), b""]
    assert isinstance(keys.blob, np.memmap)
    blob, offsets = (np.load(path) for path in stored)
    assert (blob.dtype.str, offsets.dtype.str) == ("|u1", "<u8")
    assert offsets.tolist() == [0, 9, 19, 19]


def test_keys_of_another_number_of_examples_are_refused(stored):
    with pytest.raises(
        DatasetError, match=r"key_offsets\.npy: expected 5 elements .* found \(4,\)"
    ):
        open_keys(*stored, 4)


def test_missing_keys_are_refused(stored):
    stored[0].unlink()
    with pytest.raises(DatasetError, match=r"keys\.npy: cannot be opened"):
        open_keys(*stored, 3)


def test_blob_that_does_not_fit_the_offsets_is_refused(stored):
    np.save(stored[0], np.zeros(17, np.uint8))
    with pytest.raises(
        DatasetError, match=r"expected 19 bytes of keys by key_offsets\.npy, found 17"
    ):
        open_keys(*stored, 3)


@pytest.mark.parametrize("offsets", [[0, 99, 19, 19], [0, 9, 2**63, 19], [17, 9, 19, 19]])
def test_offsets_outside_of_the_blob_are_refused_when_read(stored, offsets):
    np.save(stored[1], np.array(offsets, "<u8"))
    keys = open_keys(*stored, 3)
    with pytest.raises(
        DatasetError, match=r"key \d: the offsets \d+ to \d+ are outside of the 19 bytes"
    ):
        [keys[row] for row in range(3)]


def test_all_keys_are_read_into_memory(stored):
    keys = read_keys(*stored, 3)
    assert list(keys) == [b"cat/1.png", "größe/ü".encode(), b""]
    assert not isinstance(keys.blob, np.memmap)


@pytest.mark.parametrize("offsets", [[1, 9, 19, 19], [0, 9, 8, 19], [0, 2**63, 19, 19]])
def test_all_keys_are_refused_where_offsets_do_not_rise(stored, offsets):
    np.save(stored[1], np.array(offsets, "<u8"))
    with pytest.raises(DatasetError, match=r"key_offsets\.npy: expected numbers that rise from 0"):
        read_keys(*stored, 3)


def test_all_keys_are_refused_where_one_is_not_utf8(stored):
    np.save(stored[1], np.array([0, 12, 19, 19], "<u8"))
    with pytest.raises(DatasetError, match=r"/keys\.npy: expected keys in UTF-8: 'utf-8' codec"):
        read_keys(*stored, 3)
