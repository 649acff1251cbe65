import contextlib
import copy
import hashlib
import json
import pathlib

import images
import pytest

from tfrds.disk.build_record import (
    canonical_json,
    check_complete,
    read_build_record,
    write_build_record,
)
from tfrds.errors import DatasetError

CONTENT = {
    "format": "1.0",
    "readable_by": "0.1.0",
    "requires": [],
    "name": "pets",
    "version": "1.0.0",
    "decode": 1,
    "image": {"key": "image", "encoding": "raw", "shape": [4, 5, 3]},
    "label": {"key": "label", "kind": "single", "num_classes": 2},
    "columns": [],
    "options": {"image_size": None, "resize": "stretch", "background": [255, 255, 255]},
    "splits": {
        "train": {
            "shards": [
                {"file": "ignored", "bytes": 10, "records": 1},
                {"file": "../../etc/passwd", "bytes": 20, "records": 2},
            ]
        }
    },
}

HOSTILE = [
    None,
    True,
    False,
    0,
    -1,
    2,
    10**30,
    1.5,
    "",
    "..",
    "a/b",
    "/etc/passwd",
    "nul\0nul",
    "\ud800",
    [],
    [1],
    ["a", "b", "c"],
    [0, 0, 0],
    [None, None, None],
    {},
    {"a": 1},
    {"0": 0, "1": 1, "2": 2},
    [[[]]],
]


def changed(path, value):
    """Returns CONTENT with `value` at `path`, a tuple of keys."""
    content = copy.deepcopy(CONTENT)
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return content


def paths_of(content, path=()):
    """Yields the path of every value inside `content`."""
    if path:
        yield path
    inside = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in inside:
        if isinstance(value, dict | list):
            yield from paths_of(value, (*path, key))
        else:
            yield (*path, key)


def put(directory, content):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return images.put(directory / "tfrds.json", data)


def use(record):
    """Asks everything of a record that readers ask."""
    assert isinstance(record.name, str)
    assert isinstance(record.version, str)
    channels = record.image_shape[2]
    for split in record.splits:
        for path, num_bytes, num_records in record.shards(split):
            assert path.parent == record.directory
            with pytest.raises((FileNotFoundError, NotADirectoryError)):
                path.stat()
            assert num_bytes * num_records * channels is not None


def test_json_is_canonical():
    content = {"b": [1, 2.5, None, True], "a": {"z": "é\n", "y": {}}}
    assert canonical_json(content) == b'{"a":{"y":{},"z":"\\u00e9\\n"},"b":[1,2.5,null,true]}\n'
    assert canonical_json(dict(reversed(content.items()))) == canonical_json(content)
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": float("nan")})


def test_record_comes_back_with_its_digest(tmp_path):
    write_build_record(tmp_path, CONTENT)
    record = read_build_record(tmp_path)
    assert record.content == CONTENT
    assert record.digest == hashlib.sha256((tmp_path / "tfrds.json").read_bytes()).hexdigest()
    assert (record.name, record.version, record.image_shape) == ("pets", "1.0.0", (4, 5, 3))
    assert record.splits == ["train"]
    assert record.split_files("train").index == tmp_path / "pets-train.index.npy"


def test_paths_of_shards_come_from_the_layout_and_not_from_the_file(tmp_path):
    put(tmp_path, CONTENT)
    assert read_build_record(tmp_path).shards("train") == [
        (tmp_path / "pets-train.tfrecord-00000-of-00002", 10, 1),
        (tmp_path / "pets-train.tfrecord-00001-of-00002", 20, 2),
    ]


def test_missing_record_names_the_directory(tmp_path):
    with pytest.raises(
        DatasetError, match=f"{tmp_path}: no dataset of tfrds, tfrds.json is missing"
    ):
        read_build_record(tmp_path)


def test_later_minor_format_with_more_in_it_is_read(tmp_path):
    put(tmp_path, {**CONTENT, "format": "1.7", "more": {"a": [1]}})
    assert read_build_record(tmp_path).name == "pets"


@pytest.mark.parametrize(
    "change",
    [
        {"format": "2.0"},
        {"format": "10.0"},
        {"format": 2},
        {"format": None},
        {"requires": ["sparse"]},
        {"requires": None},
    ],
    ids=repr,
)
def test_unknown_format_or_requirement_names_the_tfrds_that_reads_it(tmp_path, change):
    put(tmp_path, {**CONTENT, **change, "readable_by": "3.4.0"})
    (value,) = change.values()
    with pytest.raises(
        DatasetError, match=r"expected format 1\.0 .*found.*Install tfrds 3\.4\.0"
    ) as raised:
        read_build_record(tmp_path)
    assert repr(value) in str(raised.value)


def test_unknown_format_without_a_version_asks_for_a_newer_one(tmp_path):
    put(tmp_path, {"format": "2.0"})
    with pytest.raises(DatasetError, match="Install tfrds in a newer version"):
        read_build_record(tmp_path)


@pytest.mark.parametrize("path", list(paths_of(CONTENT)), ids=lambda path: ".".join(map(str, path)))
def test_any_value_at_any_place_is_read_or_refused_as_damaged(tmp_path, path):
    for value in HOSTILE:
        put(tmp_path, changed(path, value))
        with contextlib.suppress(DatasetError):
            use(read_build_record(tmp_path))


@pytest.mark.parametrize(
    "path",
    [
        ("format",),
        ("requires",),
        ("name",),
        ("version",),
        ("decode",),
        ("image",),
        ("image", "key"),
        ("image", "encoding"),
        ("image", "shape"),
        ("label",),
        ("label", "key"),
        ("splits",),
        ("splits", "train"),
        ("splits", "train", "shards"),
        ("splits", "train", "shards", 1, "bytes"),
        ("splits", "train", "shards", 1, "records"),
    ],
    ids=lambda path: ".".join(map(str, path)),
)
def test_missing_value_is_refused(tmp_path, path):
    content = copy.deepcopy(CONTENT)
    place = content
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    put(tmp_path, content)
    with pytest.raises(DatasetError, match=str(tmp_path)):
        read_build_record(tmp_path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("name",), "../pets"),
        (("name",), "a/b"),
        (("name",), "nul\0"),
        (("name",), 5),
        (("decode",), 2),
        (("image", "encoding"), "webp"),
        (("image", "shape"), [4, 5]),
        (("image", "shape"), [4, 5, 0]),
        (("image", "shape"), [4, -5, 3]),
        (("image", "shape"), [4, 5, None]),
        (("image", "shape"), "abc"),
        (("image", "shape"), [None, 5, 3]),
        (("label", "key"), 7),
        (("label", "key"), "a\nb"),
        (("label", "num_classes"), 0),
        (("label", "num_classes"), "10"),
        (("label", "num_classes"), 2**40),
        (("options",), {}),
        (("options", "image_size"), [0, 4]),
        (("options", "resize"), "fit"),
        (("options", "background"), [1, 2]),
        (("splits",), []),
        (("splits",), {"a-b": {"shards": [{"bytes": 1, "records": 1}]}}),
        (("splits",), {"all": {"shards": [{"bytes": 1, "records": 1}]}}),
        (("splits",), {"../x": {"shards": [{"bytes": 1, "records": 1}]}}),
        (("splits", "train", "shards"), []),
        (("splits", "train", "shards"), "ab"),
        (("splits", "train", "shards", 0, "records"), 0),
        (("splits", "train", "shards", 0, "records"), -3),
        (("splits", "train", "shards", 0, "records"), 1.0),
        (("splits", "train", "shards", 0, "records"), True),
        (("splits", "train", "shards", 0, "bytes"), "10"),
    ],
    ids=repr,
)
def test_value_that_tfrds_never_writes_is_refused(tmp_path, path, value):
    put(tmp_path, changed(path, value))
    with pytest.raises(
        DatasetError, match=r"tfrds\.json: (holds values that tfrds never writes|incomplete)"
    ):
        read_build_record(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"1e999999",
        b"\xff\xfe\x00",
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"[" * 100_000 + b"]" * 100_000,
        b"9" * 10_000,
        b'{"format": "1.0", "format": "2.0"}',
    ],
    ids=lambda data: repr(data[:12]),
)
def test_other_content_is_refused(tmp_path, data):
    put(tmp_path, data)
    with pytest.raises(DatasetError, match=str(tmp_path)):
        read_build_record(tmp_path)


def test_huge_file_is_refused_without_reading_it(tmp_path, monkeypatch):
    path = put(tmp_path, CONTENT)
    with path.open("r+b") as file:
        file.truncate(2**40)  # a hole: takes no space
    with pytest.raises(DatasetError, match=r"tfrds\.json: larger than 67,108,864 bytes"):
        read_build_record(tmp_path)


def test_folder_in_place_of_the_file_is_refused(tmp_path):
    pathlib.Path(tmp_path, "tfrds.json").mkdir()
    with pytest.raises(DatasetError, match=r"tfrds\.json: cannot be read: .*Is a directory"):
        read_build_record(tmp_path)


def complete():
    """Returns what a new version takes out of a record, as a build writes it."""
    content = copy.deepcopy(CONTENT)
    content["image"]["channels"] = 3
    content["source"] = {"kind": "folder", "digest": "ab"}
    content["totals"] = {"left_out": {"txt": 2}, "skipped": 1}
    content["encoders"] = {"pillow": "12.0.0"}
    for shard in content["splits"]["train"]["shards"]:
        shard.update(sha256="cd", generation=0)
    return content


def check(content, folder):
    write_build_record(folder, content)
    check_complete(read_build_record(folder))


def test_complete_record_may_lack_totals_and_encoders(tmp_path):
    content = complete()
    check(content, tmp_path)
    del content["totals"], content["encoders"]
    check(content, tmp_path)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("image", "channels"), 1, "holds values that tfrds never writes"),
        (("source", "kind"), 3, "holds values that tfrds never writes"),
        (("source",), {}, "incomplete: KeyError"),
        (("source",), ["x"], "incomplete: TypeError"),
        (("totals", "skipped"), "1", "holds values that tfrds never writes"),
        (("totals", "left_out"), {"txt": None}, "holds values that tfrds never writes"),
        (("totals",), [1], "incomplete: AttributeError"),
        (("encoders", "pillow"), 12, "holds values that tfrds never writes"),
        (("splits", "train", "shards", 0, "sha256"), None, "holds values that tfrds never writes"),
        (("splits", "train", "shards", 0, "generation"), "0", "incomplete: TypeError"),
        (("splits", "train", "shards", 1, "generation"), -1, "holds values that tfrds never"),
    ],
)
def test_record_that_no_version_can_be_made_of_is_refused(tmp_path, path, value, message):
    content = complete()
    *above, last = path
    place = content
    for step in above:
        place = place[step]
    place[last] = value
    with pytest.raises(DatasetError, match=rf"tfrds\.json: {message}"):
        check(content, tmp_path)
