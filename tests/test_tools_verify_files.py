"""Each kind of damage to what lies beside the shards, and the fault that tells of it."""

import dataclasses
import hashlib
import json
import os
import pickle

import numpy as np
import pytest
from damaged import ROW, Copy, overwrite, sha256

import tfrds
from tfrds.disk.index import ROW as ROW_DTYPE
from tfrds.errors import DatasetError
from tfrds.tools import verify_files, verify_keys

INDEX, KEYS, OFFSETS = (f"raw_images-train.{name}.npy" for name in ("index", "keys", "key_offsets"))


@pytest.fixture
def copy(raw, tmp_path):
    return Copy(raw, tmp_path / "copy")


def faults(copy, **options):
    """Returns (file, key, what) of each fault; none of these is about a record."""
    result = tfrds.verify(copy.name, data_dir=copy.root, **options)
    assert {fault.record for fault in result.faults} <= {None}
    assert result.num_faults == len(result.faults)
    return [(fault.file, fault.key, fault.what) for fault in result.faults]


def change_json(copy, name, change):
    path = copy.directory / name
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(json.dumps(content))


def change_shards_of_train(copy, change):
    copy.change_record(lambda content: change(content["splits"]["train"]))


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("file", [INDEX, KEYS, OFFSETS])
def test_a_missing_file(copy, file, fast):
    (copy.directory / file).unlink()
    assert faults(copy, fast=fast) == [(file, None, "missing")]


def test_a_file_that_cannot_be_read(copy):
    (copy.directory / INDEX).unlink()
    (copy.directory / INDEX).mkdir()
    assert faults(copy) == [(INDEX, None, "cannot be read: Is a directory")]


@pytest.mark.parametrize("file", [INDEX, KEYS, OFFSETS])
def test_one_changed_byte(copy, file):
    path = copy.directory / file
    before = sha256(path)
    # Past the header: in the reserved bytes of the first row, a key's letter, the first offset.
    overwrite(path, {INDEX: 128 + 60, KEYS: 128 + 3, OFFSETS: 128 + 8}[file], b"\x01")
    what = f"expected the sha256 {before}, found {sha256(path)}"
    assert (file, None, what) in faults(copy, fast=True)
    assert (file, None, what) in faults(copy)


@pytest.mark.parametrize("file", [INDEX, KEYS, OFFSETS])
def test_a_file_that_is_cut(copy, file):
    path = copy.directory / file
    os.truncate(path, path.stat().st_size - 1)
    dtype = {KEYS: "uint8", OFFSETS: "uint64"}.get(file, str(ROW_DTYPE))
    found = faults(copy)
    assert found[0][0] == file
    assert found[1][2].startswith(f"cannot be opened as an array of {dtype}: ")
    assert found[1][2].endswith("mmap length is greater than file size.")
    assert len(found) == 2


def test_an_index_of_other_columns(copy):
    np.save(copy.directory / INDEX, np.zeros(50, "<u8"))
    copy.fix_hashes()
    assert faults(copy) == [
        (INDEX, None, f"expected 50 elements of {ROW_DTYPE}, found (50,) of uint64.")
    ]
    assert faults(copy, fast=True) == []


def test_an_index_of_fewer_rows(copy):
    np.save(copy.directory / INDEX, copy.index()[:-1])
    copy.fix_hashes()
    assert faults(copy) == [
        (INDEX, None, f"expected 50 elements of {ROW_DTYPE}, found (49,) of {ROW_DTYPE}.")
    ]


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("an object of the file was made",)


@pytest.mark.parametrize("file", [INDEX, KEYS, OFFSETS])
@pytest.mark.parametrize("is_array", [True, False])
def test_objects_are_never_unpickled(copy, file, is_array):
    path = copy.directory / file
    if is_array:
        np.save(path, np.array([Bomb()] * 50, object), allow_pickle=True)
    else:
        path.write_bytes(pickle.dumps(Bomb()))
    copy.fix_hashes()
    ((found, _, what),) = faults(copy)
    assert found == file
    assert what.startswith("cannot be opened as an array of ")
    assert ("Python objects in dtype" if is_array else "magic string") in what


def test_a_header_that_claims_more_than_memory_holds(copy):
    header = {"descr": "|u1", "fortran_order": False, "shape": (2**50,)}
    with (copy.directory / KEYS).open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    copy.fix_hashes()
    ((file, _, what),) = faults(copy)
    assert (file, what[:41]) == (KEYS, "cannot be opened as an array of uint8: mm")


def test_keys_that_were_exchanged(copy):
    keys = copy.keys()
    keys[3], keys[4] = keys[4], keys[3]
    said = copy.record["source"]["digest"]
    copy.change_keys(keys)
    copy.fix_hashes()
    source = hashlib.sha256()
    for split in ("test", "train"):
        for key, row in zip(copy.keys(split), copy.index(split), strict=True):
            content = row["content"].tobytes()
            source.update(b"%d %s %d " % (len(key), key, row["image_length"]) + content)
    what = f"source: expected the digest {source.hexdigest()}, as of keys and index, found {said}"
    assert faults(copy) == [("tfrds.json", None, what)]


def test_keys_of_another_number(copy):
    copy.change_keys(copy.keys()[:-1])
    copy.fix_hashes()
    assert faults(copy) == [
        (OFFSETS, None, "expected 51 elements of uint64, found (50,) of uint64.")
    ]


def test_more_bytes_of_keys_than_the_offsets_tell(copy):
    size = len(b"".join(copy.keys()))
    np.save(copy.directory / KEYS, np.frombuffer(b"".join(copy.keys()) + b"abc", np.uint8))
    copy.fix_hashes()
    what = f"expected {size:,} bytes of keys by {OFFSETS}, found {size + 3:,}."
    assert faults(copy) == [(KEYS, None, what)]


def test_offsets_of_keys_that_go_back(copy):
    offsets = np.load(copy.directory / OFFSETS)
    right = offsets.copy()
    offsets[0], offsets[7] = 2, 10**9
    np.save(copy.directory / OFFSETS, offsets)
    copy.fix_hashes()
    assert faults(copy) == [
        (OFFSETS, None, "offset 0: expected 0, found 2"),
        (OFFSETS, None, f"offset 8: expected at least 1,000,000,000, found {right[8]}"),
    ]


def test_a_record_has_no_key_where_the_keys_are_damaged(copy):
    (copy.directory / OFFSETS).unlink()
    overwrite(copy.shard(), 100, b"\x00\xff\x00\xff")
    result = tfrds.verify(copy.name, data_dir=copy.root)
    assert [(fault.record, fault.key) for fault in result.faults] == [(None, None)] * 2 + [
        (0, None)
    ]


def test_a_key_that_is_not_utf8(copy):
    keys = copy.keys()
    keys[3] = b"cat\xff\xfe"
    copy.change_keys(keys)
    copy.fix()
    what = (
        "example 3 of split 'train': expected UTF-8, found 'utf-8' codec can't decode byte 0xff in "
        "position 3: invalid start byte"
    )
    assert faults(copy) == [(KEYS, "cat\\xff\\xfe", what)]


@pytest.mark.parametrize("block", [16_384, 4])
@pytest.mark.parametrize("split", ["train", "test"])
def test_two_equal_keys(copy, split, block, monkeypatch):
    monkeypatch.setattr(verify_keys, "_BLOCK", block)
    keys, key = copy.keys(), copy.keys(split)[12]
    keys[30] = key
    copy.change_keys(keys)
    copy.fix()
    what = f"example 30 of split 'train' has the key of example 12 of split '{split}'"
    assert faults(copy) == [(KEYS, key.decode(), what)]


def test_a_count_of_examples_that_differs(copy):
    change_shards_of_train(copy, lambda split: split.update(num_examples=51))
    what = "split 'train': num_examples: expected 50 as of its shards, found 51"
    assert faults(copy) == [("tfrds.json", None, what)]


def test_counts_of_classes_that_differ(copy):
    counts = copy.record["splits"]["train"]["class_counts"]
    changed = [counts[0] - 1, counts[1] + 1, *counts[2:]]
    change_shards_of_train(copy, lambda split: split.update(class_counts=changed))
    assert faults(copy) == [
        (
            "tfrds.json",
            None,
            f"split 'train': class {label}: expected {counts[label]} examples, as there are "
            f"records, found {changed[label]}",
        )
        for label in (0, 1)
    ]


def test_counts_of_another_number_of_classes(copy):
    counts = copy.record["splits"]["train"]["class_counts"]
    change_shards_of_train(copy, lambda split: split.update(class_counts=[*counts, 0]))
    what = "split 'train': class_counts: expected 4 classes, found 5"
    assert faults(copy) == [("tfrds.json", None, what)]


def test_a_shard_of_another_name(copy):
    change_shards_of_train(copy, lambda split: split["shards"][1].update(file="../other"))
    name = copy.shard().name
    what = f"split 'train': expected a shard named '{name}', found '../other'"
    assert faults(copy) == [("tfrds.json", None, what)]


def test_numbers_of_records_that_differ(copy):
    def move(split):
        split["shards"][0]["records"], split["shards"][1]["records"] = 16, 17

    change_shards_of_train(copy, move)
    result = tfrds.verify(copy.name, data_dir=copy.root)
    found = [(fault.file, fault.what) for fault in result.faults if fault.record is None]
    assert found == [
        ("dataset_info.json", "split 'train': shard 0: expected 16 records, found 17"),
        ("dataset_info.json", "split 'train': shard 1: expected 17 records, found 16"),
        (copy.shard(0).name, "expected 16 records, found 17"),
        (copy.shard(1).name, "expected 17 records, found 16"),
    ]


def test_a_record_that_was_formatted(copy):
    path = copy.directory / "tfrds.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=2))
    what = "not the bytes that a build writes: its JSON was edited or formatted"
    assert faults(copy) == [("tfrds.json", None, what)]


def test_a_folder_of_another_name(copy):
    copy.directory.rename(copy.directory.with_name("1.0.1"))
    what = "tells of version 1.0.0 of 'raw_images', expected that of 'copy/raw_images/1.0.1'"
    assert faults(copy) == [("tfrds.json", None, what)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x00garbage", r"tfrds\.json: cannot be read: "),
        (b"{}", r"tfrds\.json: expected format 1\.0"),
    ],
)
def test_a_record_that_is_none_is_an_error(copy, content, message):
    (copy.directory / "tfrds.json").write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        faults(copy)


def test_a_missing_record_is_an_error(copy):
    (copy.directory / "tfrds.json").unlink()
    with pytest.raises(DatasetError, match="raw_images: no such dataset"):
        faults(copy)


@pytest.mark.parametrize("name", ["index_sha256", "class_counts"])
def test_an_incomplete_record_is_an_error(copy, name):
    change_shards_of_train(copy, lambda split: split.pop(name))
    with pytest.raises(DatasetError, match=rf"tfrds\.json: incomplete: KeyError\('{name}'\)"):
        faults(copy)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("file", ["features.json", "dataset_info.json", "label.labels.txt"])
def test_a_missing_small_file(copy, file, fast):
    (copy.directory / file).unlink()
    assert faults(copy, fast=fast) == [(file, None, "missing")]


def test_of_incomplete_datasets_the_highest_version_is_taken(copy):
    for version in ("1.10.0", "1.9.0"):
        (copy.directory.with_name(version)).mkdir()
        copied = copy.directory.with_name(version) / "tfrds.json"
        copied.write_bytes((copy.directory / "tfrds.json").read_bytes())
    (copy.directory / "features.json").unlink()
    result = tfrds.verify("raw_images", data_dir=copy.root)
    assert result.directory.name == "1.10.0"
    result = tfrds.verify("raw_images:1.0.0", data_dir=copy.root)
    assert [dataclasses.astuple(fault) for fault in result.faults] == [
        ("features.json", None, None, "missing")
    ]


@pytest.mark.parametrize("file", ["features.json", "dataset_info.json", "label.labels.txt"])
def test_a_small_file_that_is_large_is_not_read(copy, file, monkeypatch):
    size = (copy.directory / file).stat().st_size
    monkeypatch.setattr(verify_files, "_MAX_BYTES", 10)
    assert (file, None, f"expected at most 10 bytes, found {size}") in faults(copy)


@pytest.mark.parametrize("file", ["features.json", "dataset_info.json"])
def test_a_small_file_that_is_no_json(copy, file):
    (copy.directory / file).write_text("{]")
    ((found, _, what),) = faults(copy)
    assert found == file
    assert what.startswith("cannot be parsed: JSONDecodeError('Expecting property name")


@pytest.mark.parametrize("file", ["features.json", "dataset_info.json"])
def test_a_small_file_of_another_form(copy, file):
    (copy.directory / file).write_text('{"splits": 3}')
    field = {"features.json": "pythonClassName", "dataset_info.json": "name"}[file]
    assert faults(copy) == [(file, None, f"cannot be parsed: KeyError('{field}')")]


def test_a_small_file_that_cannot_be_read(copy):
    (copy.directory / "label.labels.txt").unlink()
    (copy.directory / "label.labels.txt").mkdir()
    assert faults(copy) == [("label.labels.txt", None, "cannot be read: Is a directory")]


def test_class_names_that_differ(copy):
    expected = hashlib.sha256(b"ant\nbee\ncat\ndog").hexdigest()
    found = hashlib.sha256(b"ant\nbee\ncat\ncow").hexdigest()
    (copy.directory / "label.labels.txt").write_text("ant\nbee\ncat\ncow\n")
    assert faults(copy, fast=True) == [
        ("label.labels.txt", None, f"expected names of the sha256 {expected}, found {found}")
    ]


def test_class_names_of_another_number(copy):
    (copy.directory / "label.labels.txt").write_text("ant\nbee\ncat\n")
    assert faults(copy)[1] == ("label.labels.txt", None, "expected 4 names, found 3")


def test_class_names_without_their_last_line_break(copy):
    (copy.directory / "label.labels.txt").write_text("ant\nbee\ncat\ndog")
    assert faults(copy) == [
        ("label.labels.txt", None, "expected a line break at its end, found b'g'")
    ]


def change_features_class(content):
    content["pythonClassName"] = "os.system"
    name = "tensorflow_datasets.core.features.features_dict.FeaturesDict"
    return f"expected the class {name}, found os.system"


def change_image_class(content):
    content["featuresDict"]["features"]["image"]["pythonClassName"] = "os.system"
    return "image: expected the class tfrds.features.Image, found os.system"


def change_shape(content):
    feature = content["featuresDict"]["features"]["image"]["jsonFeature"]
    expected = feature["json"]
    feature["json"] = expected.replace("[9, 7, 3]", "[9, 8, 3]")
    return f"image: expected {expected}, found {feature['json']}"


def change_number_of_classes(content):
    content["featuresDict"]["features"]["label"]["jsonFeature"]["json"] = '{"num_classes": 5}'
    return 'label: expected {"num_classes": 4}, found {"num_classes": 5}'


def change_key_of_the_image(content):
    features = content["featuresDict"]["features"]
    features["picture"] = features.pop("image")
    return "expected the features ['image', 'label'], found ['label', 'picture']"


def add_a_field_to_the_features(content):
    content["x"] = {}
    return "the features: expected no field 'x'"


def add_a_field_to_the_image(content):
    content["featuresDict"]["features"]["image"]["x"] = 1
    return "image: expected no field 'x'"


@pytest.mark.parametrize(
    "change",
    [
        add_a_field_to_the_features,
        add_a_field_to_the_image,
        change_features_class,
        change_image_class,
        change_shape,
        change_number_of_classes,
        change_key_of_the_image,
    ],
)
def test_features_that_differ(copy, change):
    said = []
    change_json(copy, "features.json", lambda content: said.append(change(content)))
    assert faults(copy) == [("features.json", None, said[0])]


@pytest.mark.parametrize("resize", ["stretch", "pad"])
def test_features_of_images_that_are_resized_have_no_fault(tmp_path, data_dir, resize):
    from images import put_images

    folder = put_images(tmp_path / "pets", ["cat/a.png", "dog/b.png"])
    options = {"image_size": 70, "resize": resize, "background": (1, 2, 3), "channels": 1}
    tfrds.build("pets", folder, num_workers=1, **options)
    assert tfrds.verify("pets").faults == ()


def change_name(content):
    content["name"] = "other"
    return "name: expected 'raw_images', found 'other'"


def change_version(content):
    content["version"] = "1.0.1"
    return "version: expected '1.0.0', found '1.0.1'"


def change_supervised_keys(content):
    there = json.dumps(content["supervisedKeys"])
    content["supervisedKeys"]["tuple"]["items"].reverse()
    return f"supervisedKeys: expected {there}, found {json.dumps(content['supervisedKeys'])}"


def add_a_field(content):
    content["more"] = "x"
    return "the info: expected no field 'more'"


def add_a_field_to_a_split(content):
    content["splits"][1]["more"] = "x"
    return "split 'train': expected no field 'more'"


def change_a_type(content):
    content["description"] = 3
    return "description: expected str, found 3"


def repeat_a_split(content):
    content["splits"].append(content["splits"][0])
    return "expected the splits ['test', 'train'], found ['test', 'test', 'train']"


def remove_a_split(content):
    del content["splits"][0]
    return "expected the splits ['test', 'train'], found ['train']"


def change_file_names(content):
    content["splits"][1]["filepathTemplate"] = "{SPLIT}"
    expected = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    return f"split 'train': filepathTemplate: expected '{expected}', found '{{SPLIT}}'"


def change_shard_length(content):
    content["splits"][1]["shardLengths"][1] = "15"
    return "split 'train': shard 1: expected 16 records, found 15"


def remove_a_shard(content):
    del content["splits"][1]["shardLengths"][1]
    return "split 'train': expected 3 shards, found 2"


def change_num_bytes(content):
    content["splits"][1]["numBytes"] = "11349"
    return "split 'train': numBytes: expected 11,350, as the records have, found 11,349"


@pytest.mark.parametrize(
    "change",
    [
        change_name,
        change_version,
        change_supervised_keys,
        remove_a_split,
        change_file_names,
        change_shard_length,
        remove_a_shard,
        change_num_bytes,
        add_a_field,
        add_a_field_to_a_split,
        change_a_type,
        repeat_a_split,
    ],
)
def test_metadata_of_tfds_that_differs(copy, change):
    said = []
    change_json(copy, "dataset_info.json", lambda content: said.append(change(content)))
    assert faults(copy) == [("dataset_info.json", None, said[0])]


def test_counts_are_not_compared_where_records_were_lost(copy):
    copy.shard().unlink()
    change_json(copy, "dataset_info.json", change_num_bytes)
    assert faults(copy) == [(copy.shard().name, None, "missing")]


def test_an_index_that_changes_meanwhile_is_not_compared(copy, monkeypatch):
    check = verify_keys.check_split

    def check_and_lose(record, split, *arguments, **options):
        checked = check(record, split, *arguments, **options)
        if split == "train":
            (copy.directory / INDEX).unlink()
        return checked

    monkeypatch.setattr("tfrds.tools.verify.check_split", check_and_lose)
    monkeypatch.setattr("tfrds.tools.verify.key_faults", lambda *_: ())
    assert copy.index()["label"][ROW] >= 0
    assert faults(copy) == []
