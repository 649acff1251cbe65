"""Each kind of damage to shards, records and images, and the fault that tells of it.

The indexes, keys and small files are in tests/test_tools_verify_files.py.
"""

import dataclasses
import io
import json
import os
import pathlib
import shutil
import struct
import zlib

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf
from damaged import FIRST_ROW, RECORD, ROW, Copy, overwrite, serialized, sha256
from images import encoded, frames, noise, put

import tfrds
from tfrds import cli
from tfrds.disk.records import frame_header
from tfrds.errors import ConfigError, DatasetError
from tfrds.tools import verify as tool
from tfrds.tools import verify_shard
from tfrds.write.executors import run_here

SHARD = "raw_images-train.tfrecord-00001-of-00003"
RECORD_BYTES = 9 * 7 * 3 + 38  # of the raw dataset: pixels, and the Example around them


@pytest.fixture
def here(monkeypatch):
    """Verifies in this process, which starts no workers."""
    monkeypatch.setattr(
        tool, "run_in_processes", lambda function, tasks, *_: run_here(function, tasks)
    )


@pytest.fixture
def raw_copy(raw, tmp_path):
    return Copy(raw, tmp_path / "copy")


@pytest.fixture
def jpeg_copy(jpeg, tmp_path, here):
    return Copy(jpeg, tmp_path / "copy")


@pytest.fixture
def png_copy(png, tmp_path, here):
    return Copy(png, tmp_path / "copy")


def verify(copy, **options):
    return tfrds.verify(copy.name, data_dir=copy.root, **options)


def faults(copy, **options):
    """Returns (file, record, key, what) of each fault."""
    result = verify(copy, **options)
    assert result.num_faults == len(result.faults)
    assert result.ok == (not result.faults)
    return [dataclasses.astuple(fault) for fault in result.faults]


def the_record(copy, what, record=RECORD):
    return (copy.shard().name, record, copy.key(FIRST_ROW + record), what)


def other_hash(copy, before):
    return (
        copy.shard().name,
        None,
        None,
        f"expected the sha256 {before}, found {sha256(copy.shard())}",
    )


@pytest.mark.parametrize("fast", [False, True])
def test_a_whole_dataset_has_no_fault(built, fast):
    result = tfrds.verify(built.name, data_dir=built.root, fast=fast)
    assert result == tfrds.VerifyResult(
        directory=built.directory,
        name=built.name,
        version="1.0.0",
        digest=sha256(built.directory / "tfrds.json"),
        num_examples=63,
        num_shards=6,
        num_bytes=sum(path.stat().st_size for path in built.directory.glob("*.tfrecord-*")),
        faults=(),
        num_faults=0,
        is_fast=fast,
    )
    assert result.ok


def test_images_of_several_sizes_have_no_fault(sizes):
    assert faults(sizes) == []


@pytest.mark.parametrize(
    "options",
    [
        {"encoding": "jpeg", "store_size": 6},
        {"image_size": (4, 4)},
        {"image_size": (4, 4), "encoding": "original"},
        {"channels": 1},
        {"channels": 1, "encoding": "raw", "image_size": 70},
    ],
    ids=str,
)
def test_every_way_to_store_images_has_no_fault(tmp_path, data_dir, here, options):
    for number, size in enumerate([(8, 9), (10, 12), (9, 9)]):
        put(tmp_path / "pets" / "cat" / f"{number}.png", encoded(noise(number, *size)))
        put(tmp_path / "pets" / "dog" / f"{number}.jpg", encoded(noise(number, *size), "JPEG"))
    put(tmp_path / "pets" / "dog" / "gray.jpg", encoded(noise(7, 8, 8, 1), "JPEG"))
    tfrds.build("pets", tmp_path / "pets", num_workers=1, **options)
    assert tfrds.verify("pets").faults == ()


def test_other_files_in_the_folder_are_ignored(raw_copy):
    put(raw_copy.directory / "notes.txt", "mine")
    put(raw_copy.directory / "skipped.jsonl", '{"key": "a", "reason": "empty"}\n')
    assert faults(raw_copy) == []


@pytest.mark.parametrize("fast", [False, True])
def test_a_missing_shard(raw_copy, fast):
    raw_copy.shard().unlink()
    assert faults(raw_copy, fast=fast) == [(SHARD, None, None, "missing")]


@pytest.mark.parametrize("fast", [False, True])
def test_a_shard_that_cannot_be_read(raw_copy, fast):
    raw_copy.shard().unlink()
    raw_copy.shard().mkdir()
    assert faults(raw_copy, fast=fast) == [(SHARD, None, None, "cannot be read: Is a directory")]


def test_a_shard_that_is_cut_within_a_record(raw_copy):
    size = raw_copy.shard().stat().st_size
    os.truncate(raw_copy.shard(), size - 100)
    assert faults(raw_copy) == [
        (SHARD, None, None, f"expected {size:,} bytes, found {size - 100:,}"),
        the_record(raw_copy, f"cut off: {RECORD_BYTES + 4 - 100} of {RECORD_BYTES + 4} bytes", 15),
    ]
    assert faults(raw_copy, fast=True) == [
        (SHARD, None, None, f"expected {size:,} bytes, found {size - 100:,}")
    ]


def test_a_shard_that_is_cut_within_a_header(raw_copy):
    size = raw_copy.shard().stat().st_size
    os.truncate(raw_copy.shard(), size - RECORD_BYTES - 4 - 7)
    assert faults(raw_copy)[1:] == [
        the_record(raw_copy, "cut off: 5 of 12 bytes of its header", 15)
    ]


def test_a_shard_that_is_cut_between_records(raw_copy):
    size = raw_copy.shard().stat().st_size
    os.truncate(raw_copy.shard(), size - 2 * (RECORD_BYTES + 16))
    assert faults(raw_copy)[:2] == [
        (SHARD, None, None, f"expected {size:,} bytes, found {size - 2 * (RECORD_BYTES + 16):,}"),
        (SHARD, None, None, "expected 16 records, found 14"),
    ]


@pytest.mark.parametrize("extra", [b"more", b"much more than the header of a record"])
def test_a_shard_with_bytes_after_its_end(raw_copy, extra):
    size = raw_copy.shard().stat().st_size
    with raw_copy.shard().open("ab") as file:
        file.write(extra)
    assert faults(raw_copy) == [
        (SHARD, None, None, f"expected {size:,} bytes, found {size + len(extra):,}"),
        (SHARD, None, None, f"{len(extra)} bytes after its last record are none"),
    ]


def test_a_shard_with_one_record_more(raw_copy):
    records = [data for _, data in frames(raw_copy.shard())]
    raw_copy.write_shard([*records, serialized(records[0][22:211], 3)])
    raw_copy.change_index("offset", 0, row=FIRST_ROW + 16)  # the first of the next shard
    assert (SHARD, None, None, "expected 16 records, found 17") in faults(raw_copy)


def test_changed_bytes_of_an_image(raw_copy):
    before = sha256(raw_copy.shard())
    overwrite(raw_copy.shard(), RECORD * (RECORD_BYTES + 16) + 100, b"\x00\xff\x00\xff")
    assert faults(raw_copy) == [
        other_hash(raw_copy, before),
        the_record(raw_copy, "its checksum is wrong: bytes were changed"),
    ]
    assert faults(raw_copy, fast=True) == [other_hash(raw_copy, before)]


def test_a_changed_checksum(raw_copy):
    before = sha256(raw_copy.shard())
    overwrite(raw_copy.shard(), (RECORD + 1) * (RECORD_BYTES + 16) - 4, b"\x00\x01\x02\x03")
    assert faults(raw_copy) == [
        other_hash(raw_copy, before),
        the_record(raw_copy, "its checksum is wrong: bytes were changed"),
    ]


@pytest.mark.parametrize(("length", "said"), [(5, "5"), (2**60, "1,152,921,504,606,846,976")])
def test_a_changed_length_names_its_record_and_no_other(raw_copy, length, said):
    before, offset = sha256(raw_copy.shard()), RECORD * (RECORD_BYTES + 16)
    overwrite(raw_copy.shard(), offset, length.to_bytes(8, "little"))
    what = f"the header at byte {offset:,} says {said} bytes and has a wrong checksum"
    assert faults(raw_copy) == [other_hash(raw_copy, before), the_record(raw_copy, what)]


def test_without_an_index_nothing_is_found_behind_a_changed_length(raw_copy):
    overwrite(raw_copy.shard(), RECORD * (RECORD_BYTES + 16), b"\x05")
    raw_copy.path("train.index.npy").unlink()
    found = [what for file, _, _, what in faults(raw_copy) if file == SHARD]
    assert "the records after record 3 were not found: no index tells where" in found
    assert "expected 16 records, found 4" in found


def test_a_changed_length_of_the_last_record(raw_copy):
    overwrite(raw_copy.shard(), 15 * (RECORD_BYTES + 16), b"\x05")
    offset = 15 * (RECORD_BYTES + 16)
    what = f"the header at byte {offset:,} says 5 bytes and has a wrong checksum"
    assert faults(raw_copy)[1:] == [the_record(raw_copy, what, 15)]


def test_a_length_with_a_right_checksum_takes_no_memory(raw_copy):
    for length, what in (
        (2**31, "expected at most 2,147,483,647 bytes, found 2,147,483,648"),
        (2**31 - 1, f"cut off: {13 * (RECORD_BYTES + 16) - 12:,} of 2,147,483,651 bytes"),
    ):
        overwrite(raw_copy.shard(), RECORD * (RECORD_BYTES + 16), frame_header(length))
        assert the_record(raw_copy, what) in faults(raw_copy)


def test_a_shard_replaced_by_another_of_the_dataset(raw_copy):
    before = sha256(raw_copy.shard())
    contents = raw_copy.index()["content"]
    labels = raw_copy.index()["label"].tolist()
    # Shards 0 and 2 have 17 records, and records of raw images have equal lengths.
    shutil.copy(raw_copy.shard(0), raw_copy.shard(2))
    result = verify(raw_copy)
    assert result.num_faults == 1 + 17 + sum(
        labels[:17].count(label) != labels[33:].count(label) for label in range(4)
    )
    assert result.faults[0].what.startswith("expected the sha256 ")
    label = f"label {labels[33]} instead of {labels[0]}, " if labels[33] != labels[0] else ""
    assert result.faults[1].what == (
        f"the index differs: {label}content {contents[33].tobytes().hex()} instead of "
        f"{contents[0].tobytes().hex()}"
    )
    assert before == sha256(raw_copy.shard())


def test_the_faults_of_one_shard_are_listed_up_to_a_limit_and_counted(raw_copy, monkeypatch):
    monkeypatch.setattr(verify_shard, "MAX_FAULTS", 5)
    raw_copy.shard(0).write_bytes(raw_copy.shard(2).read_bytes())
    result = verify(raw_copy)
    ours = [fault for fault in result.faults if fault.file == raw_copy.shard(0).name]
    assert [fault.record for fault in ours] == [None, 0, 1, 2, 3, 4]
    assert ours[0].what.startswith("expected the sha256 ")
    assert result.num_faults >= 18


def test_all_faults_are_listed_up_to_a_limit_and_counted(raw_copy, monkeypatch):
    monkeypatch.setattr(tool, "MAX_FAULTS", 2)
    for number in range(3):
        raw_copy.shard(number).unlink()
    result = verify(raw_copy)
    assert (len(result.faults), result.num_faults, result.ok) == (2, 3, False)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "expected the tag 0x0a at byte 0, found the end"),
        (b"\x0b", "expected the tag 0x0a at byte 0, found 0x0b"),
        (
            serialized(b"x", 1, more=tf.train.Feature()),
            "expected the features ['image', 'label'], found ['image', 'label', 'more']",
        ),
    ],
    ids=["empty", "other", "more"],
)
def test_a_record_that_is_no_example_of_ours(raw_copy, data, what):
    raw_copy.change_data(data)
    assert the_record(raw_copy, f"its Example cannot be parsed: {what}") in faults(raw_copy)


@pytest.mark.parametrize(("label", "said"), [(4, "4"), (2**40, "1,099,511,627,776"), (-1, "-1")])
def test_a_label_out_of_range(raw_copy, label, said):
    raw_copy.change_example(label=label)
    assert faults(raw_copy) == [the_record(raw_copy, f"label: expected 0 to 3, found {said}")]


def test_a_wrong_label_that_only_the_record_tells(raw_copy):
    _, label = raw_copy.example()
    raw_copy.change_data(serialized(raw_copy.example()[0], 3 - label))
    assert faults(raw_copy)[0] == the_record(
        raw_copy, f"the index differs: label {label} instead of {3 - label}"
    )


def test_pixels_of_another_number(raw_copy):
    raw_copy.change_example(image=bytes(9 * 7 * 3 - 1))
    assert faults(raw_copy) == [
        the_record(raw_copy, "its image has 188 bytes of pixels, expected 189 (9 x 7 x 3)")
    ]


@pytest.mark.parametrize(
    ("stop", "complaint"),
    [
        (-50, "Premature end of JPEG file"),
        (300, "unusual chroma subsampling or a damaged header"),
    ],
)
def test_a_jpeg_that_was_cut_before_it_was_stored(jpeg_copy, stop, complaint):
    image, _ = jpeg_copy.example()
    jpeg_copy.change_example(image=image[:stop])
    what = f"its image does not decode completely: {complaint}"
    assert faults(jpeg_copy) == [the_record(jpeg_copy, what)]
    assert faults(jpeg_copy, fast=True) == []


def cut(image):
    return image[:-12], "truncated PNG file"


def cut_within_the_last_chunk(image):
    return image[:-1], "no IEND chunk at its end"


def change_pixels(image):
    place = image.index(b"IDAT") + 20
    changed = image[:place] + bytes([image[place] ^ 1]) + image[place + 1 :]
    return changed, "broken PNG file (bad header checksum in b'IDAT')"


@pytest.mark.parametrize("damage", [cut, cut_within_the_last_chunk, change_pixels])
def test_a_png_that_was_damaged_before_it_was_stored(png_copy, damage):
    image, complaint = damage(png_copy.example()[0])
    png_copy.change_example(image=image)
    what = f"its image does not decode completely: cut off or damaged: {complaint}"
    assert faults(png_copy) == [the_record(png_copy, what)]


def test_a_png_whose_header_claims_more_pixels_than_can_be_is_not_decoded(png_copy):
    header = b"IHDR" + struct.pack(">II5B", 60_000, 60_000, 8, 2, 0, 0, 0)
    image, _ = png_copy.example()
    image = (
        image[:8]
        + struct.pack(">I", 13)
        + header
        + struct.pack(">I", zlib.crc32(header))
        + image[33:]
    )
    png_copy.change_example(image=image)
    ((*_, what),) = faults(png_copy)
    assert what.startswith("its image does not decode completely: too large: expected at most ")
    assert "got 3,600,000,000" in what


@pytest.mark.parametrize(
    ("mode", "bits", "colour_type"), [("P", 1, 3), ("RGBA", 8, 6), ("I;16", 16, 0), ("1", 1, 0)]
)
def test_a_png_that_reading_does_not_know(png_copy, mode, bits, colour_type):
    file = io.BytesIO()
    PIL.Image.new(mode, (18, 11)).save(file, "PNG")
    png_copy.change_example(image=file.getvalue())
    what = (
        f"its image is a PNG of {bits} bits and colour type {colour_type}, expected 8 bits and "
        "gray (0) or RGB (2)"
    )
    assert faults(png_copy) == [the_record(png_copy, what)]


def test_what_is_no_image(jpeg_copy):
    jpeg_copy.change_example(image=b"GIF89a and so on")
    what = "its image is none: expected JPEG or PNG, found GIF"
    assert faults(jpeg_copy) == [the_record(jpeg_copy, what)]
    jpeg_copy.change_example(image=b"nothing at all")
    found = "bytes that begin with 6e 6f 74 68 69 6e 67 20"
    what = f"its image is none: expected JPEG or PNG, found {found}"
    assert faults(jpeg_copy) == [the_record(jpeg_copy, what)]


def test_a_png_among_images_that_were_all_stored_as_jpeg(jpeg_copy):
    def declare(content):
        content["image"]["encoding"] = "jpeg"

    jpeg_copy.change_record(declare)
    jpeg_copy.change_example(image=encoded(noise(1, 37, 29)), encoding=3)
    what = "its image is none: expected JPEG, found PNG"
    assert the_record(jpeg_copy, what) in faults(jpeg_copy)


def test_an_image_of_another_size_than_all(jpeg_copy):
    jpeg_copy.change_example(image=encoded(noise(1, 36, 29), "JPEG"), height=36)
    what = "its image has the size (36, 29), expected (37, 29) (height, width)"
    assert faults(jpeg_copy) == [the_record(jpeg_copy, what)]


@pytest.mark.parametrize("mode", ["CMYK", "L"])
def test_an_image_of_other_channels(jpeg_copy, mode):
    file = io.BytesIO()
    PIL.Image.new(mode, (29, 37)).save(file, "JPEG")
    channels = {"CMYK": 4, "L": 1}[mode]
    jpeg_copy.change_example(image=file.getvalue(), channels=channels)
    what = "its image has 4 channels, expected 3"
    assert faults(jpeg_copy) == ([] if mode == "L" else [the_record(jpeg_copy, what)])


@pytest.mark.parametrize(
    ("field", "shift"),
    [
        ("offset", 1),
        ("length", -1),
        ("image_offset", 1),
        ("image_length", -1),
        ("height", 1),
        ("width", 2),
        ("label", 1),
        ("encoding", 1),
        ("channels", -2),
    ],
)
@pytest.mark.parametrize("name", ["raw", "jpeg"])
def test_a_row_of_the_index_that_differs(request, name, field, shift):
    copy = request.getfixturevalue(f"{name}_copy")
    right = int(copy.index()[field][ROW])
    wrong = max(right + shift, 0)
    copy.change_index(field, wrong)
    assert faults(copy) == [
        the_record(copy, f"the index differs: {field} {wrong:,} instead of {right:,}")
    ]
    assert faults(copy, fast=True) == []


def test_a_content_hash_that_differs(raw_copy):
    right = raw_copy.index()["content"][ROW].tobytes().hex()
    raw_copy.change_index("content", np.void(b"x" * 16))
    assert faults(raw_copy) == [
        the_record(raw_copy, f"the index differs: content {'78' * 16} instead of {right}")
    ]


def test_a_content_hash_may_be_left_out(raw_copy):
    raw_copy.change_index("content", np.void(bytes(16)))
    assert faults(raw_copy) == []


def test_several_fields_and_several_records_are_all_told(raw_copy, monkeypatch):
    monkeypatch.setattr("tfrds.tools.verify_rows._BLOCK_ROWS", 2)
    raw_copy.change_index("width", 70)
    raw_copy.change_index("height", 90)
    label = raw_copy.example(FIRST_ROW + 9)[1]
    raw_copy.change_index("label", label + 7, row=FIRST_ROW + 9)
    assert faults(raw_copy) == [
        the_record(raw_copy, "the index differs: height 90 instead of 9, width 70 instead of 7"),
        the_record(raw_copy, f"the index differs: label {label + 7} instead of {label}", 9),
    ]


@pytest.mark.parametrize("num_workers", [1, 3])
def test_workers_find_the_same(jpeg, tmp_path, num_workers):
    copy = Copy(jpeg, tmp_path / "copy")
    image, _ = copy.example()
    copy.change_example(image=image[:500])
    copy.shard(2).unlink()
    calls = []
    result = verify(copy, num_workers=num_workers, progress=lambda *call: calls.append(call))
    assert [(fault.file, fault.record, fault.key) for fault in result.faults] == [
        (copy.shard().name, RECORD, copy.key()),
        (copy.shard(2).name, None, None),
    ]
    assert len(calls) == 6
    assert calls[-1] == (63, 63)
    assert sorted(calls) == calls


def test_large_datasets_are_hashed_in_workers(raw_copy, monkeypatch):
    monkeypatch.setattr(tool, "_MAX_BYTES_HERE", 100)
    used = []

    def run(function, tasks, num_workers, describe):
        used.append((num_workers, describe(tasks[4])))
        return run_here(function, tasks)

    monkeypatch.setattr(tool, "run_in_processes", run)
    assert faults(raw_copy, fast=True, num_workers=2) == []
    assert used == [(2, SHARD)]


def test_the_result_is_json(raw_copy):
    raw_copy.shard().unlink()
    content = verify(raw_copy).to_dict()
    assert json.loads(json.dumps(content))["directory"] == str(raw_copy.directory)
    assert set(content) == {
        *(field.name for field in dataclasses.fields(tfrds.VerifyResult)),
        "ok",
    }
    assert content["ok"] is False
    assert list(content["faults"]) == [
        {"file": SHARD, "record": None, "key": None, "what": "missing"}
    ]


def test_versions_and_configurations_are_named_as_for_info(raw_copy):
    folder = raw_copy.root / raw_copy.name
    (folder / "small").mkdir()
    raw_copy.directory.rename(folder / "small" / "1.0.0")
    for name in ("raw_images", "raw_images/small", "raw_images/small:1.0.0", "raw_images:1.*.*"):
        result = tfrds.verify(name, data_dir=raw_copy.root)
        assert (result.ok, result.directory) == (True, folder / "small" / "1.0.0")
    with pytest.raises(DatasetError, match=r"raw_images:2\.0\.0: no such dataset"):
        tfrds.verify("raw_images:2.0.0", data_dir=raw_copy.root)


def test_arguments_are_checked(raw):
    with pytest.raises(ConfigError, match="fast: expected True or False, got 1"):
        tfrds.verify("raw_images", data_dir=raw.root, fast=1)
    with pytest.raises(ConfigError, match="num_workers: expected an integer of at least 1, got 0"):
        tfrds.verify("raw_images", data_dir=raw.root, num_workers=0)
    with pytest.raises(ConfigError, match=r"name: expected .*, got '\.\.'"):
        tfrds.verify("../raw_images", data_dir=raw.root)


def test_a_shard_that_is_cut_while_it_is_read(raw_copy, monkeypatch):
    read = verify_shard._HashedFile.read

    def cut(self, count):
        os.truncate(raw_copy.shard(), 0) if pathlib.Path(self._file.name) == raw_copy.shard() else 0
        return read(self, count)

    monkeypatch.setattr(verify_shard, "_BLOCK_BYTES", 0)
    monkeypatch.setattr(verify_shard._HashedFile, "read", cut)
    assert faults(raw_copy) == [
        (SHARD, None, None, "cannot be read: it was cut to 0 bytes while it was read")
    ]


@pytest.mark.parametrize("arguments", [[], ["--fast"], ["--num-workers", "2"]])
def test_the_command_says_what_was_checked(raw_copy, capsys, arguments):
    arguments = ["verify", "raw_images:1.0.0", "--data-dir", str(raw_copy.root), *arguments]
    assert cli.main(arguments) == 0
    out, err = capsys.readouterr()
    checked = "hashes of all files" if "--fast" in arguments else "all files, records and images"
    digest = sha256(raw_copy.directory / "tfrds.json")
    assert out == (
        f"raw_images 1.0.0: whole; checked {checked}\n  directory  {raw_copy.directory}\n"
        f"  examples   63\n  shards     6, 15.3 kB\n  digest     {digest}\n"
    )
    assert err == ""


def test_the_command_names_each_fault_and_ends_with_1(raw_copy, capsys):
    raw_copy.change_index("width", 70)
    raw_copy.shard(2).unlink()
    arguments = ["verify", "raw_images", "--data-dir", str(raw_copy.root)]
    assert cli.main(arguments) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[:3] == [
        f"{SHARD}: record 3, key {raw_copy.key()}: the index differs: width 70 instead of 7",
        f"{raw_copy.shard(2).name}: missing",
        "raw_images 1.0.0: 2 faults; checked all files, records and images",
    ]
    assert out.endswith("\nCopy or build the dataset again.\n")
    assert err == ""
    assert cli.main([*arguments, "--json"]) == 1
    content = json.loads(capsys.readouterr().out)
    assert (content["ok"], content["num_faults"]) == (False, 2)
    assert content["faults"][0]["record"] == RECORD


def test_the_command_refuses_what_has_no_build_record(raw_copy, capsys):
    (raw_copy.directory / "tfrds.json").write_bytes(b"garbage")
    assert cli.main(["verify", "raw_images", "--data-dir", str(raw_copy.root)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    path = raw_copy.directory / "tfrds.json"
    assert err.startswith(f"tfrds: error: {path}: cannot be read: ")


def test_the_command_refuses_no_workers(raw_copy, capsys):
    arguments = ["verify", "raw_images", "--data-dir", str(raw_copy.root), "--num-workers", "0"]
    assert cli.main(arguments) == 2
    assert "num_workers: expected an integer of at least 1, got 0" in capsys.readouterr().err
