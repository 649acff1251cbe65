"""Each kind of damage and its outcome, with records verified: an error naming file, record and key.

| damage | when it stops | named |
|---|---|---|
| bytes of an image or a label changed | at the record | file, record, key |
| length or checksum of a frame changed | at the record | file, record, key |
| a shard replaced by another of the same size | at the record | file, record, key |
| an index of another build | at the record | file, record, key |
| a label or a place in an index changed | at the record | file, record, key |
| a shard cut, grown or missing before loading | at load | file, sizes |
| a shard cut while reading | at the next batch | file, sizes |
| an index missing, cut, or of other records | at load | file |
"""

import dataclasses
import itertools
import os
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tfrds.errors import DatasetError

ROW = 20  # record 3 of the second shard
SHARD = "train.tfrecord-00001-of-00003"


@pytest.fixture
def copy(built, tmp_path):
    directory = tmp_path / "copy" / built.name / "1.0.0"
    shutil.copytree(built.directory, directory)
    return dataclasses.replace(built, root=tmp_path / "copy")


def shard_of(copy):
    return copy.directory / f"{copy.name}-{SHARD}"


def index_of(copy):
    return np.load(copy.directory / f"{copy.name}-train.index.npy")


def overwrite(copy, place, data):
    """Writes into the frame of record `ROW`, in place, as a bad disk or a bad program does."""
    with shard_of(copy).open("r+b") as file:
        file.seek(int(index_of(copy)["offset"][ROW]) + place)
        file.write(data)


def key_of(copy):
    """Returns the key of record `ROW`, from the file alone."""
    stem = copy.directory / f"{copy.name}-train"
    offsets = np.load(f"{stem}.key_offsets.npy")
    blob = np.load(f"{stem}.keys.npy").tobytes()
    return blob[int(offsets[ROW]) : int(offsets[ROW + 1])].decode()


def change_image(copy):
    overwrite(copy, 12 + int(index_of(copy)["image_offset"][ROW]) + 50, b"\x00\xff\x00\xff")
    return "its checksum is wrong: bytes were changed"


def change_label(copy):
    # The label is the last byte of an Example whose image comes first.
    overwrite(copy, 12 + int(index_of(copy)["length"][ROW]) - 1, b"\x63")
    return "its checksum is wrong"


def change_checksum(copy):
    overwrite(copy, 12 + int(index_of(copy)["length"][ROW]), b"\x00\x01\x02\x03")
    return "its checksum is wrong"


def change_length(copy):
    overwrite(copy, 0, (5).to_bytes(8, "little"))
    return r"its header says 5 bytes or has a wrong checksum, the index says [\d,]+ bytes"


def replace_shard(copy):
    """The same records, with those of equal length exchanged: a valid file of the same size."""
    index = index_of(copy)
    first, second = (
        (int(index["offset"][row]), 16 + int(index["length"][row])) for row in (ROW, ROW + 1)
    )
    content = bytearray(shard_of(copy).read_bytes())
    if first[1] != second[1]:
        # Frames of other lengths lie elsewhere then, which their headers tell.
        one = content[first[0] : sum(first)]
        content[first[0] : sum(second)] = content[second[0] : sum(second)] + one
        expected = "its header says"
    else:
        one = content[first[0] : sum(first)]
        content[first[0] : sum(first)] = content[second[0] : sum(second)]
        content[second[0] : sum(second)] = one
        expected = "its image is another one than the index tells of: the shard was replaced"
    replacement = shard_of(copy).with_name("other")
    replacement.write_bytes(content)
    os.replace(replacement, shard_of(copy))
    return expected


def shift_index(copy):
    index = index_of(copy)
    index["offset"][ROW] -= 1
    np.save(copy.directory / f"{copy.name}-train.index.npy", index)
    return "its header says"


def change_label_of_index(copy):
    index = index_of(copy)
    label = int(index["label"][ROW])
    index["label"][ROW] = label ^ 1
    np.save(copy.directory / f"{copy.name}-train.index.npy", index)
    return f"its label is {label}, the index says {label ^ 1}"


def move_image_of_index(copy):
    index = index_of(copy)
    index["image_offset"][ROW] += 1
    index["content"][ROW] = np.void(bytes(16))  # as one that was not computed
    np.save(copy.directory / f"{copy.name}-train.index.npy", index)
    return r"its image lies at \(\d+, \d+\), not where the index tells"


DAMAGES = [
    change_label_of_index,
    move_image_of_index,
    change_image,
    change_label,
    change_checksum,
    change_length,
    replace_shard,
    shift_index,
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("batch_size", [None, 4])
def test_a_damaged_record_is_named(copy, damage, batch_size):
    fault = damage(copy)
    dataset = copy.load(batch_size=batch_size, verify_records=True)
    message = f"{SHARD}: record 3, key {re.escape(key_of(copy))}: {fault}.*Copy or build"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        list(dataset)


def test_a_dataset_without_damage_is_verified_in_silence(built):
    verified = built.load(batch_size=4, verify_records=True, with_key=True, shuffle=True)
    assert sum(len(batch["key"]) for batch in verified) == 50


@pytest.mark.parametrize("change", [-1, 1, None])
def test_a_shard_of_another_size_or_none_is_named_at_load(copy, change):
    path = shard_of(copy)
    if change is None:
        path.unlink()
    else:
        os.truncate(path, path.stat().st_size + change)
    with pytest.raises(DatasetError, match=SHARD):
        copy.load(batch_size=4)


def test_a_shard_that_is_cut_while_reading_stops_the_next_batch(copy):
    iterator = iter(copy.load(batch_size=4).repeat())
    next(iterator)
    os.truncate(shard_of(copy), 100)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{SHARD}: .* found 100"):
        list(itertools.islice(iterator, 30))


@pytest.mark.parametrize("ending", ["index.npy", "keys.npy"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_an_index_that_is_missing_or_cut_is_named_at_load(copy, ending, is_cut):
    path = copy.directory / f"{copy.name}-train.{ending}"
    if is_cut:
        os.truncate(path, path.stat().st_size - 1)
    else:
        path.unlink()
    with pytest.raises(DatasetError, match=f"train.{ending}"):
        copy.load(batch_size=4, with_key=True)
