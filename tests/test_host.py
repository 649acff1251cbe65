"""What graphs call, called here: the parts of each fetch beside the source and the dataset.

TensorFlow calls the Python side from threads of its own.
"""

import dataclasses
import os
import re
import shutil

import numpy as np
import pytest

import tfrds
from tfrds.augment import (
    CenterCrop,
    MixUp,
    RandomCrop,
    RandomErasing,
    RandomFlip,
    RandomResizedCrop,
)
from tfrds.errors import DatasetError
from tfrds.read import fetch, host_calls, pipeline
from tfrds.read.example import INSTRUCTIONS

TRAIN = 50


def fetches(dataset):
    """Returns the parts of each fetch of the next epoch."""
    (target,) = host_calls.targets(dataset)
    return [target.fetch(int(step)) for step in target.draw()]


def keys_of(parts):
    return [key.decode() for key in parts["key"]]


@pytest.mark.parametrize("batch_size", [None, 7, 50])
@pytest.mark.parametrize("shuffle", [False, True, "blocks"])
def test_fetches_of_an_epoch_hold_each_image_and_label_once(built, batch_size, shuffle):
    dataset = built.load(batch_size=batch_size, with_key=True, shuffle=shuffle, seed=1)
    seen = []
    for parts in fetches(dataset):
        for number, key in enumerate(keys_of(parts)):
            assert parts["labels"][number] == built.labels[key]
            if built.name.startswith("raw"):
                np.testing.assert_array_equal(parts["images"][number], built.pixels[key])
            else:
                np.testing.assert_array_equal(
                    built._decoded(parts["images"][number]), built.pixels[key]
                )
        seen += keys_of(parts)
    assert len(set(seen)) == len(seen) == TRAIN


def test_epochs_are_drawn_one_after_another_and_from_where_they_are_set(raw):
    dataset = raw.load(batch_size=7, start=(2, 3), shuffle=True)
    (target,) = host_calls.targets(dataset)
    assert target.draw().tolist() == [2 * 8 + step for step in range(3, 8)]
    assert target.draw().tolist() == [3 * 8 + step for step in range(8)]
    target.epochs.set(7, 6)
    assert target.draw().tolist() == [62, 63]


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_boxes_of_raw_images_are_copied_alone(raw, padding, dtype, monkeypatch):
    monkeypatch.setattr(fetch, "_GATHER_BYTES", 0)
    crop = RandomCrop((8, 5), padding=padding, fill=9)
    dataset = raw.load(batch_size=16, with_key=True, augment=[crop], seed=3, dtype=dtype)
    for parts in fetches(dataset):
        assert parts["images"].dtype == dtype
        for image, key in zip(parts["images"], keys_of(parts), strict=True):
            ground = np.pad(
                raw.pixels[key], ((padding, padding), (padding, padding), (0, 0)), constant_values=9
            )
            places = [
                ground[top : top + 8, left : left + 5]
                for top in range(2 + 2 * padding)
                for left in range(3 + 2 * padding)
            ]
            assert any(np.array_equal(image, place) for place in places)


def instructions_of(parts):
    return [dict(zip(INSTRUCTIONS, row, strict=True)) for row in parts["instructions"].tolist()]


def test_resized_boxes_of_raw_images_are_bytes_of_them(raw):
    dataset = raw.load(batch_size=16, with_key=True, augment=[RandomResizedCrop(4)], seed=3)
    for parts in fetches(dataset):
        for data, said, key in zip(
            parts["images"], instructions_of(parts), keys_of(parts), strict=True
        ):
            box = raw.pixels[key][said["top"] :, said["left"] :]
            box = box[: said["height"], : said["width"]]
            assert data == box.tobytes()


def test_raw_images_that_are_resized_and_then_cut_come_whole(raw):
    dataset = raw.load(batch_size=16, with_key=True, image_size=12, augment=[CenterCrop((6, 20))])
    for parts in fetches(dataset):
        for data, said, key in zip(
            parts["images"], instructions_of(parts), keys_of(parts), strict=True
        ):
            assert data == raw.pixels[key].tobytes()
            assert (said["top"], said["left"], said["height"], said["width"]) == (3, 0, 6, 12)
            assert (said["above"], said["before"]) == (0, 4)


@pytest.mark.parametrize(("interpolation", "ratio"), [("bilinear", 1), ("area", 4)])
def test_large_jpegs_are_decoded_smaller(jpeg, interpolation, ratio):
    for augment in ([], [RandomResizedCrop(scale=(1, 1), ratio=(29 / 37, 29 / 37))]):
        dataset = jpeg.load(
            batch_size=25, image_size=(8, 7), interpolation=interpolation, augment=augment
        )
        for parts in fetches(dataset):
            assert {said["ratio"] for said in instructions_of(parts)} == {ratio}
            if augment:
                sides = {(said["height"], said["width"]) for said in instructions_of(parts)}
                assert sides == {(-(-37 // ratio), -(-29 // ratio))}


def test_parameters_of_stages_lie_side_by_side(raw):
    stages = [RandomFlip(probability=1), RandomErasing(1), MixUp()]
    (first, *_) = fetches(raw.load(batch_size=50, augment=stages, seed=2))
    flips, corners, weights = np.split(first["parameters"], [2, 6], axis=1)
    assert first["parameters"].dtype == np.float32
    assert (flips == 1).all()
    assert (corners[:, 2] <= 9).all()
    assert (corners[:, 3] <= 7).all()
    assert ((weights >= 0) & (weights <= 1)).all()


def test_streams_are_told_of_each_image_without_its_bytes(jpeg):
    dataset = jpeg.load(batch_size=16, engine="stream", augment=[CenterCrop(8), RandomFlip()])
    for parts in fetches(dataset):
        assert set(parts) == {"instructions", "parameters"}
        assert {(said["top"], said["left"]) for said in instructions_of(parts)} == {(14, 10)}


def test_weights_go_with_their_examples(raw):
    by_class = raw.load(batch_size=16, sample_weight={"bee": 3.0}, shuffle=True)
    for parts in fetches(by_class):
        np.testing.assert_array_equal(
            parts["sample_weight"], np.where(parts["labels"] == 1, 3, 1).astype(np.float32)
        )
    order = [key for parts in fetches(raw.load(with_key=True)) for key in keys_of(parts)]
    by_example = raw.load(
        batch_size=16, sample_weight=np.arange(TRAIN) / 2, shuffle=True, with_key=True
    )
    for parts in fetches(by_example):
        expected = [order.index(key) / 2 for key in keys_of(parts)]
        np.testing.assert_array_equal(parts["sample_weight"], expected)


@pytest.mark.parametrize("names", [("raw",), ("jpeg", "png")])
def test_a_mixture_gives_each_example_from_its_own_dataset(names, request, tmp_path):
    datasets = [request.getfixturevalue(name) for name in names]
    for built in datasets:
        (tmp_path / built.name).symlink_to(built.root / built.name)
    mixed = tfrds.mix(
        {built.name: 1 for built in datasets},
        data_dir=tmp_path,
        batch_size=9,
        image_size=8,
        with_key=True,
        augment=[RandomResizedCrop()],
    )
    pixels = {key: built for built in datasets for key in built.pixels}
    seen = 0
    for parts in fetches(mixed):
        for number, key in enumerate(keys_of(parts)):
            assert parts["labels"][number] == pixels[key].labels[key]
        seen += len(parts["labels"])
    assert seen == TRAIN * len(datasets)


def test_raw_datasets_mix_in_one_array(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(0, 256, (30, 6, 5, 3), np.uint8) for name in ("one", "two")}
    for name, images in arrays.items():
        source = tfrds.sources.Arrays(images, np.arange(30) % 2)
        tfrds.build(name, source, data_dir=tmp_path, encoding="raw")
    mixed = tfrds.mix({"one": 1, "two": 1}, data_dir=tmp_path, batch_size=8, dtype="uint8", seed=1)
    known = {image.tobytes() for images in arrays.values() for image in images}
    seen = [image.tobytes() for parts in fetches(mixed) for image in parts["images"]]
    assert (len(seen), set(seen)) == (60, known)


def test_ids_of_tfds_are_those_of_its_reader(raw):
    import tensorflow_datasets as tfds

    dataset = raw.load(batch_size=16, read_config=tfds.ReadConfig(add_tfds_id=True))
    ids = [name.decode() for parts in fetches(dataset) for name in parts["tfds_id"]]
    assert ids == list(raw.stored("train"))


@pytest.fixture
def copy(raw, tmp_path):
    directory = tmp_path / "copy" / raw.name / "1.0.0"
    shutil.copytree(raw.directory, directory)
    return dataclasses.replace(raw, root=tmp_path / "copy")


@pytest.mark.parametrize(
    ("place", "fault"),
    [(0, "its header says"), (60, "its checksum is wrong"), (None, "its image is another one")],
)
def test_damage_is_named_with_its_record(copy, place, fault):
    dataset = copy.load(batch_size=50, verify_records=True)
    index = np.load(copy.directory / f"{copy.name}-train.index.npy")
    size = int(index["offset"][1])
    path = copy.directory / f"{copy.name}-train.tfrecord-00000-of-00003"
    with path.open("r+b") as file:
        if place is None:  # two records of one length exchanged: a valid file
            content = file.read()
            file.seek(0)
            file.write(content[size : 2 * size] + content[:size])
        else:
            file.seek(place)
            file.write(b"\x01\x02\x03\x04\x05")
    with pytest.raises(DatasetError, match=f"00000-of-00003: record 0, key .*: {re.escape(fault)}"):
        fetches(dataset)


def test_a_record_beyond_its_shard_is_cut_off(copy):
    path = copy.directory / f"{copy.name}-train.index.npy"
    index = np.load(path)
    index["length"][3] = 2**31 - 1
    np.save(path, index)
    with pytest.raises(DatasetError, match=r"record 3, key .*: cut off: [\d,]+ of 2,147,483,663"):
        fetches(copy.load(batch_size=50, verify_records=True))


def test_the_graphs_own_call_gives_parts_or_the_text_of_an_error(copy):
    dataset = copy.load(batch_size=50)
    handle = dataset_handle(dataset)
    names = b"images:uint8,labels:int32"
    images, labels, fault = pipeline._fetch_here(handle, np.int64(0), names)
    assert (images.shape, labels.shape, fault) == ((50, 9, 7, 3), (50,), "")
    assert pipeline._draw_here(handle).tolist() == [0]
    os.truncate(copy.directory / f"{copy.name}-train.tfrecord-00000-of-00003", 10)
    images, labels, fault = pipeline._fetch_here(handle, np.int64(0), names)
    assert (len(images), len(labels)) == (0, 0)
    assert "00000-of-00003: expected" in fault


def dataset_handle(dataset):
    (target,) = host_calls.targets(dataset)
    (handle,) = [number for number, one in host_calls._live.items() if one is target]
    return np.int64(handle)
