import dataclasses
import os
import pathlib
import shutil

import numpy as np
import pytest

from tfrds.disk.build_record import read_build_record
from tfrds.errors import DatasetError
from tfrds.read import fetch
from tfrds.read.fetch import SplitReader


@pytest.fixture
def copy(tmp_path):
    """Copies a dataset, so that a test may damage it."""

    def copy_dataset(built):
        directory = tmp_path / "copy" / built.name / "1.0.0"
        shutil.copytree(built.directory, directory)
        return dataclasses.replace(built, root=tmp_path / "copy")

    return copy_dataset


def reader_of(built, *splits):
    return SplitReader(read_build_record(built.directory), splits or ("train",))


def change_index(built, field, row, value):
    path = built.directory / f"{built.name}-train.index.npy"
    index = np.load(path)
    index[field][row] = value
    np.save(path, index)


def test_fetched_raw_images_and_labels_are_the_stored_ones(raw):
    stored = list(raw.stored("train").values())
    rows = np.array([49, 0, 17, 17, 3, 16])
    batch = reader_of(raw).fetch(rows)
    assert batch.images.shape == (6, 9, 7, 3)
    np.testing.assert_array_equal(batch.images, [stored[row][0] for row in rows])
    assert batch.labels.tolist() == [stored[row][1] for row in rows]
    assert batch.labels.dtype == np.int32


def test_large_raw_images_start_where_tensorflow_takes_them_without_a_copy(raw, monkeypatch):
    small = reader_of(raw).fetch(np.arange(50)).images
    monkeypatch.setattr(fetch, "_GATHER_BYTES", 0)
    for count in (1, 7, 50):
        images = reader_of(raw).fetch(np.arange(count)).images
        assert images.ctypes.data % 64 == 0
        np.testing.assert_array_equal(images, small[:count])


def test_fetched_files_are_the_sources(jpeg, tmp_path):
    reader = reader_of(jpeg)
    reader.open_keys()
    rows = np.array([5, 44, 20])
    for data, key in zip(reader.fetch(rows).images, reader.keys(rows), strict=True):
        np.testing.assert_array_equal(jpeg._decoded(data), jpeg.pixels[key.decode()])


def test_keys_are_those_of_the_rows_labels(built):
    reader = reader_of(built, "train", "test")
    reader.open_keys()
    rows = np.arange(63)[::-1]
    labels = reader.fetch(rows).labels.tolist()
    keys = [key.decode() for key in reader.keys(rows)]
    assert set(keys) == set(built.labels)
    assert labels == [built.labels[key] for key in keys]


def test_tfds_ids_name_shard_and_record(raw):
    expected = list(raw.stored("train"))
    ids = [name.decode() for name in reader_of(raw).tfds_ids(np.arange(50))]
    assert ids == expected


def test_rows_count_through_the_splits_in_the_order_given(raw):
    reader = reader_of(raw, "test", "train")
    assert reader.first_row("test") == 0
    assert reader.first_row("train") == 13
    images = reader.fetch(np.array([13, 12, 0])).images
    train, test = list(raw.stored("train").values()), list(raw.stored("test").values())
    np.testing.assert_array_equal(images, [train[0][0], test[12][0], test[0][0]])


def test_records_of_unequal_length_are_gathered_too(tmp_path):
    import tfrds

    images = np.random.RandomState(0).randint(0, 256, (400, 5, 4, 1), np.uint8)
    labels = np.arange(400) % 200  # from 128 a label takes two bytes
    builder = tfrds.build("many_classes", tfrds.sources.Arrays(images, labels), data_dir=tmp_path)
    reader = SplitReader(read_build_record(pathlib.Path(builder.data_path)), ["train"])
    reader.open_keys()
    batch = reader.fetch(np.arange(400))
    numbers = [int(key) for key in reader.keys(np.arange(400))]
    np.testing.assert_array_equal(batch.images, images[numbers])
    assert batch.labels.tolist() == labels[numbers].tolist()


def test_images_beyond_the_gather_limit_are_copied_one_by_one(tmp_path):
    import tfrds

    images = np.random.RandomState(0).randint(0, 256, (12, 80, 90, 3), np.uint8)
    builder = tfrds.build(
        "large_raw",
        tfrds.sources.Arrays(images, np.arange(12)),
        data_dir=tmp_path,
        encoding="raw",
        num_shards=2,
    )
    batch = SplitReader(read_build_record(pathlib.Path(builder.data_path)), ["train"]).fetch(
        np.arange(12)[::-1]
    )
    np.testing.assert_array_equal(batch.images, images[batch.labels])


@pytest.mark.parametrize("damage", ["index.npy", "tfrecord-00001-of-00003"])
def test_missing_file_is_named_before_iterating(raw, copy, damage):
    built = copy(raw)
    (built.directory / f"{built.name}-train.{damage}").unlink()
    with pytest.raises(DatasetError, match=f"{damage}: cannot be opened"):
        built.load()


def test_cut_shard_is_named_before_iterating(raw, copy):
    built = copy(raw)
    shard = built.directory / f"{built.name}-train.tfrecord-00001-of-00003"
    size = shard.stat().st_size
    os.truncate(shard, size - 1)
    with pytest.raises(
        DatasetError, match=f"00001-of-00003: expected {size:,} bytes, found {size - 1:,}"
    ):
        built.load()


def test_index_of_another_length_is_named_before_iterating(raw, copy):
    built = copy(raw)
    path = built.directory / f"{built.name}-train.index.npy"
    np.save(path, np.load(path)[:-1])
    with pytest.raises(DatasetError, match=r"index.npy: expected 50 elements .* found \(49,\)"):
        built.load()


def test_index_of_another_kind_is_named_before_iterating(raw, copy):
    built = copy(raw)
    np.save(built.directory / f"{built.name}-train.index.npy", np.zeros(50))
    with pytest.raises(DatasetError, match=r"found \(50,\) of float64"):
        built.load()


def test_cut_keys_are_named_before_iterating(raw, copy):
    built = copy(raw)
    path = built.directory / f"{built.name}-train.keys.npy"
    np.save(path, np.load(path)[:-3])
    with pytest.raises(
        DatasetError, match=r"keys\.npy: expected 400 bytes of keys by .*, found 397"
    ):
        built.load(with_key=True)
    built.load()  # whoever needs no keys does not see it


@pytest.mark.parametrize("offset", [10**6, 2**62, 2**63])
def test_index_that_points_beyond_its_shard_is_an_error(raw, copy, offset):
    built = copy(raw)
    change_index(built, "offset", 20, offset)
    with pytest.raises(DatasetError, match=r"00001-of-00003: record 3: the index says bytes"):
        reader_of(built).fetch(np.arange(50))


def test_index_with_another_image_length_is_an_error(raw, copy):
    built = copy(raw)
    change_index(built, "image_length", 5, 188)
    with pytest.raises(DatasetError, match=r"expected 189 bytes for an image .* 188 to 189"):
        reader_of(built).fetch(np.arange(10))


def test_cut_shard_is_an_error_while_reading(raw, copy):
    built = copy(raw)
    reader = reader_of(built)
    os.truncate(built.directory / f"{built.name}-train.tfrecord-00000-of-00003", 100)
    with pytest.raises(DatasetError, match=r"00000-of-00003: .* found 100"):
        reader.fetch(np.arange(3))
    reader.fetch(np.array([20]))  # the other shards are whole
