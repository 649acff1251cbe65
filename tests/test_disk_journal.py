import hashlib
import json
import pathlib

import numpy as np
import pytest
from images import put

from tfrds.disk.index import ROW
from tfrds.disk.journal import Journal, ShardEntry, file_sha256

SHARD = "pets-train.tfrecord-00000-of-00002"
OTHER = "pets-train.tfrecord-00001-of-00002"


def rows_of(count):
    rows = np.zeros(count, ROW)
    rows["offset"] = np.arange(count) * 100
    rows["label"] = np.arange(count)
    return rows


def entry_of(data=b"records", task="a task", **changes):
    """An entry of a shard of `data`, whose second of four inputs was left out."""
    return ShardEntry(
        **{
            "task": task,
            "num_bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "kept": np.array([0, 2, 3]),
            "rows": rows_of(3),
            "repaired": (("cat/é.jpg", "cut off"),),
            "skipped": ((1, "no image", "cat/1.png: no image."),),
            "encoders": {"Pillow": "11.0.0"},
            "has_reencoded": True,
            **changes,
        }
    )


@pytest.fixture
def journal(tmp_path):
    folder = tmp_path / "journal"
    folder.mkdir()
    return Journal(folder)


@pytest.fixture
def shard(tmp_path):
    return put(tmp_path / "dataset" / SHARD, b"records")


def test_what_was_added_is_found_again(journal):
    entry = entry_of()
    journal.add(SHARD, entry)
    for found in (journal.get(SHARD), journal.get(SHARD, "a task")):
        assert (found.task, found.num_bytes, found.sha256) == ("a task", 7, entry.sha256)
        assert found.kept.tolist() == [0, 2, 3]
        assert found.rows.dtype == ROW
        assert (found.rows == entry.rows).all()
        assert found.repaired == entry.repaired
        assert found.skipped == entry.skipped
        assert found.encoders == {"Pillow": "11.0.0"}
        assert found.has_reencoded is True
    assert journal.get(SHARD, "another task") is None
    assert journal.get(OTHER) is None
    assert sorted(path.name for path in journal.folder.iterdir()) == [
        f"{SHARD}.json",
        f"{SHARD}.npy",
    ]


def test_rows_are_a_copy_that_needs_no_file(journal):
    journal.add(SHARD, entry_of())
    found = journal.get(SHARD)
    journal.remove(SHARD)
    assert type(found.rows) is np.ndarray
    assert found.rows["label"].tolist() == [0, 1, 2]


def test_the_last_entry_of_a_shard_stands(journal):
    journal.add(SHARD, entry_of())
    journal.add(SHARD, entry_of(b"others", "a later task", rows=rows_of(1), kept=np.array([0])))
    assert journal.get(SHARD, "a task") is None
    assert len(journal.get(SHARD, "a later task").rows) == 1


def test_shard_is_finished_where_its_file_is_whole(journal, shard):
    assert journal.is_finished(shard, "a task") is None
    journal.add(SHARD, entry_of())
    assert journal.is_finished(shard, "a task").num_bytes == 7
    assert journal.is_finished(shard, "another task") is None


@pytest.mark.parametrize("data", [b"recordS", b"record", b"records and more", b"", None])
def test_damaged_shard_is_not_finished(journal, shard, data):
    journal.add(SHARD, entry_of())
    shard.unlink() if data is None else shard.write_bytes(data)
    assert journal.is_finished(shard, "a task") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "17",
        "null",
        '"a task"',
        "{}",
        '{"task": "a task"}',
        '{"task": ["a task"]}',
        "\x00" * 500,
        "[" * 100_000,
        "\ud800",
    ],
)
def test_entry_that_cannot_be_read_is_none(journal, shard, text):
    journal.add(SHARD, entry_of())
    (journal.folder / f"{SHARD}.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert journal.get(SHARD) is None
    assert journal.is_finished(shard, "a task") is None
    assert journal.keep_only([(SHARD, "another task")], shard.parent) == 0
    assert list(journal.folder.iterdir()) == list(shard.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_bytes", 8),
        ("num_bytes", float("inf")),
        ("sha256", None),
        ("repaired", 3),
        ("repaired", [["cat/e.jpg", "cut off"]]),
        ("skipped", []),
        ("skipped", [[9, "no image", "cat/1.png: no image."]]),
        ("encoders", {"Pillow": "11.0.1"}),
        ("has_reencoded", False),
        ("check", None),
        ("check", "0" * 64),
        ("more", 1),
    ],
)
def test_entry_that_is_not_as_it_was_written_is_none(journal, name, value):
    journal.add(SHARD, entry_of())
    path = journal.folder / f"{SHARD}.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content))
    assert journal.get(SHARD, "a task") is not None
    path.write_text(json.dumps({**content, name: value}))
    assert journal.get(SHARD, "a task") is None


@pytest.mark.parametrize("name", ["task", "skipped", "check"])
def test_entry_that_lacks_something_is_none(journal, name):
    journal.add(SHARD, entry_of())
    path = journal.folder / f"{SHARD}.json"
    content = json.loads(path.read_text())
    del content[name]
    path.write_text(json.dumps(content))
    assert journal.get(SHARD) is None


def test_entry_of_an_enormous_file_is_not_read(journal):
    journal.add(SHARD, entry_of())
    with (journal.folder / f"{SHARD}.json").open("r+b") as file:
        file.truncate(2**40)  # takes no space
    assert journal.get(SHARD) is None


@pytest.mark.parametrize("kind", ["missing", "other type", "other length", "cut off", "flipped"])
def test_entry_without_its_rows_is_none(journal, kind):
    journal.add(SHARD, entry_of())
    path = journal.folder / f"{SHARD}.npy"
    if kind == "missing":
        path.unlink()
    elif kind == "other type":
        np.save(path, np.zeros(3, np.int64))
    elif kind == "other length":
        np.save(path, rows_of(2))
    elif kind == "cut off":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        data = bytearray(path.read_bytes())
        data[-100] ^= 1
        path.write_bytes(data)
    assert journal.get(SHARD) is None


def test_removed_shard_is_forgotten_and_the_others_stay(journal):
    journal.add(SHARD, entry_of())
    journal.add(OTHER, entry_of())
    journal.mark(SHARD).write_text("1")
    assert journal.finished() == [SHARD, OTHER]
    journal.remove(SHARD)
    journal.remove(SHARD)
    assert journal.finished() == [OTHER]
    assert sorted(path.name for path in journal.folder.iterdir()) == [
        f"{OTHER}.json",
        f"{OTHER}.npy",
    ]


def test_only_what_tasks_need_is_kept(journal, shard):
    journal.add(SHARD, entry_of())
    journal.add(OTHER, entry_of(task="an older task"))
    journal.add("pets-test.tfrecord-00000-of-00001", entry_of())
    journal.set_plan(9)
    journal.mark(OTHER).write_text("1")
    (journal.folder / f"{OTHER}.json.0123.tmp").touch()
    for name in (OTHER, f"{OTHER}.0123.tmp", "tfrds.json"):
        (shard.parent / name).touch()
    assert journal.keep_only([(SHARD, "a task"), (OTHER, "a newer task")], shard.parent) == 1
    assert sorted(path.name for path in journal.folder.iterdir()) == [
        f"{SHARD}.json",
        f"{SHARD}.npy",
        "plan.json",
    ]
    assert list(shard.parent.iterdir()) == [shard]


def test_plan_is_found_again(journal):
    assert journal.num_planned() is None
    journal.set_plan(20)
    assert journal.num_planned() == 20
    assert journal.finished() == []
    for text in ("{", "[20]", '{"num_shards": "20"}', "{}"):
        (journal.folder / "plan.json").write_text(text)
        assert journal.num_planned() is None


def test_folder_that_is_not_there_has_nothing_finished(tmp_path):
    journal = Journal(tmp_path / "journal")
    assert journal.finished() == []
    assert journal.num_planned() is None
    assert journal.get(SHARD) is None
    assert journal.marked(SHARD) is None


@pytest.mark.parametrize(
    ("data", "position"), [(b"%-20d" % 12, 12), (b"", None), (b"12a", None), (None, None)]
)
def test_mark_says_the_position_of_the_input(journal, data, position):
    if data is not None:
        journal.mark(SHARD).write_bytes(data)
    assert journal.marked(SHARD) == position


def test_hash_of_a_file_is_that_of_its_bytes(tmp_path):
    path = put(pathlib.Path(tmp_path, "file"), bytes(3_000_000))
    assert file_sha256(path) == hashlib.sha256(bytes(3_000_000)).hexdigest()
