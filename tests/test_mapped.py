import gc
import os

import numpy as np
import pytest

from tfrds.errors import DatasetError
from tfrds.read import mapped
from tfrds.read.mapped import map_files


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "shard"
    path.write_bytes(bytes(range(256)) * 40)
    return path


@pytest.fixture
def shards(tmp_path):
    """Three files of 10,000, 0 and 5 bytes."""
    files = []
    for number, size in enumerate((10_000, 0, 5)):
        path = tmp_path / f"shard-{number}"
        path.write_bytes(bytes([number + 1]) * size)
        files.append((path, size))
    return files


def map_one(path, num_bytes=10_240):
    return map_files([(path, num_bytes)])


def test_data_is_the_files_bytes_and_read_only(shard):
    data = map_one(shard).data
    assert data.dtype == np.uint8
    assert data[:10_240].tobytes() == shard.read_bytes()
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 1


def test_files_lie_behind_one_another_in_one_array(shards):
    files = map_files(shards)
    assert files.sizes.tolist() == [10_000, 0, 5]
    for (path, size), start in zip(shards, files.starts.tolist(), strict=True):
        assert files.data[start : start + size].tobytes() == path.read_bytes()


def test_files_are_mapped_once_for_all_who_use_them(shards, shard):
    assert map_files(shards) is map_files(shards)
    assert map_files(shards) is not map_files(shards[:2])
    assert map_one(shard) is map_one(shard)


def test_mapped_files_take_no_descriptor(shards):
    before = os.listdir("/dev/fd")
    files = map_files(shards)
    assert len(os.listdir("/dev/fd")) == len(before)
    assert files.data[0] == 1


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc")
def test_files_are_unmapped_after_the_last_view_of_them(shard):
    def is_mapped():
        with open("/proc/self/maps") as maps:
            return str(shard) in maps.read()

    view = map_one(shard).data[100:200]
    gc.collect()
    assert is_mapped()
    assert view[0] == 100
    del view
    gc.collect()
    assert not is_mapped()
    assert not any(str(shard) in str(key) for key in mapped._open_files)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DatasetError, match="gone: cannot be opened: No such file"):
        map_one(tmp_path / "gone", 10)


@pytest.mark.parametrize("num_bytes", [10_239, 10_241, 1])
def test_file_of_another_size_names_both_sizes(shard, num_bytes):
    with pytest.raises(DatasetError, match=f"shard: expected {num_bytes:,} bytes, found 10,240"):
        map_one(shard, num_bytes)


def test_file_that_is_cut_after_it_was_mapped_is_found_by_check(shards):
    files = map_files(shards)
    files.check(range(3))
    os.truncate(shards[2][0], 3)
    files.check([0, 1])
    with pytest.raises(
        DatasetError, match=r"shard-2: expected 5 bytes, found 3: the file was changed"
    ):
        files.check([2])


def test_file_that_is_replaced_or_removed_keeps_its_bytes(shard, tmp_path):
    expected = shard.read_bytes()
    files = map_one(shard)
    other = tmp_path / "other"
    other.write_bytes(b"new")
    other.replace(shard)
    files.check([0])
    assert files.data[:10_240].tobytes() == expected
    shard.unlink()
    files.check([0])
    assert files.data[:10_240].tobytes() == expected


def test_a_new_file_under_the_name_is_mapped_anew(shard, tmp_path):
    old = map_one(shard)
    other = tmp_path / "other"
    other.write_bytes(bytes(10_240))
    other.replace(shard)
    new = map_one(shard)
    assert not new.data[:10_240].any()
    assert old.data[:10_240].any()


def test_limit_of_address_space_is_said(shard, monkeypatch):
    # More than any machine can map.
    with pytest.raises(DatasetError, match=r"bytes of shards cannot be mapped: .*ulimit -v"):
        mapped._reserve(2**62)
