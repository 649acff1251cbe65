import gc
import os

import numpy as np
import pytest

from tfrds.errors import DatasetError
from tfrds.read import mapped
from tfrds.read.mapped import map_file


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "shard"
    path.write_bytes(bytes(range(256)) * 40)
    return path


def test_data_is_the_files_bytes_and_read_only(shard):
    data = map_file(shard, 10_240).data
    assert data.dtype == np.uint8
    assert data.tobytes() == shard.read_bytes()
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 1


def test_a_file_is_mapped_once_for_all_who_use_it(shard):
    assert map_file(shard, 10_240) is map_file(shard, 10_240)


def test_a_mapped_file_takes_no_descriptor(shard):
    before = os.listdir("/dev/fd")
    file = map_file(shard, 10_240)
    assert len(os.listdir("/dev/fd")) == len(before)
    assert file.data[255] == 255


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc")
def test_a_file_is_unmapped_after_the_last_view_of_it(shard):
    def is_mapped():
        with open("/proc/self/maps") as maps:
            return str(shard) in maps.read()

    view = map_file(shard, 10_240).data[100:200]
    gc.collect()
    assert is_mapped()
    assert view[0] == 100
    del view
    gc.collect()
    assert not is_mapped()
    assert not any(str(shard) in key for key in mapped._open_files)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DatasetError, match="gone: cannot be opened: No such file"):
        map_file(tmp_path / "gone", 10)


@pytest.mark.parametrize("num_bytes", [10_239, 10_241, 1])
def test_file_of_another_size_names_both_sizes(shard, num_bytes):
    with pytest.raises(DatasetError, match=f"shard: expected {num_bytes:,} bytes, found 10,240"):
        map_file(shard, num_bytes)


def test_file_that_is_cut_after_it_was_mapped_is_found_by_check(shard):
    file = map_file(shard, 10_240)
    file.check()
    os.truncate(shard, 5)
    with pytest.raises(DatasetError, match=r"expected 10,240 bytes, found 5: the file was changed"):
        file.check()


def test_file_that_is_replaced_or_removed_keeps_its_bytes(shard, tmp_path):
    expected = shard.read_bytes()
    file = map_file(shard, 10_240)
    other = tmp_path / "other"
    other.write_bytes(b"new")
    other.replace(shard)
    file.check()
    assert file.data.tobytes() == expected
    shard.unlink()
    file.check()
    assert file.data.tobytes() == expected


def test_a_new_file_under_the_name_is_mapped_anew(shard, tmp_path):
    old = map_file(shard, 10_240)
    other = tmp_path / "other"
    other.write_bytes(bytes(10_240))
    other.replace(shard)
    new = map_file(shard, 10_240)
    assert not new.data.any()
    assert old.data.any()
