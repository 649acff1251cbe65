import json

import pytest
from images import put

from tfrds.disk import skipped
from tfrds.disk.skipped import Skipped, read_skipped, write_skipped
from tfrds.errors import DatasetError


def test_list_is_sorted_ascii_and_read_back(tmp_path):
    listed = [Skipped("b/ü.png", "empty", "b/ü.png: empty"), Skipped("a\n", "duplicate", "of c")]
    write_skipped(tmp_path, listed)
    data = (tmp_path / "skipped.jsonl").read_bytes()
    assert data == (
        b'{"key": "a\\n", "message": "of c", "reason": "duplicate"}\n'
        b'{"key": "b/\\u00fc.png", "message": "b/\\u00fc.png: empty", "reason": "empty"}\n'
    )
    assert list(read_skipped(tmp_path)) == sorted(listed)


def test_nothing_left_out_is_no_file(tmp_path):
    write_skipped(tmp_path, [])
    assert list(tmp_path.iterdir()) == []
    assert list(read_skipped(tmp_path)) == []


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"\xff",
        b"[]",
        b"3",
        b"null",
        b"",
        b'{"key": "a"}',
        b"[" * 100_000,
        b'{"key": "\\ud800", "reason": "", "message": ""}',
    ],
    ids=lambda line: repr(line[:20]),
)
def test_damaged_list_is_named(tmp_path, line):
    good = json.dumps({"key": "a", "reason": "b", "message": "c"}).encode()
    path = put(tmp_path / "skipped.jsonl", good + b"\n" + line + b"\n")
    with pytest.raises(DatasetError, match=f"^{path}: cannot be read: "):
        list(read_skipped(tmp_path))


def test_folder_in_its_place_is_named(tmp_path):
    (tmp_path / "skipped.jsonl").mkdir()
    with pytest.raises(DatasetError, match=r"skipped\.jsonl: cannot be read: IsADirectoryError"):
        list(read_skipped(tmp_path))


def test_huge_list_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(skipped, "_MAX_BYTES", 10)
    put(tmp_path / "skipped.jsonl", "x" * 11)
    with pytest.raises(DatasetError, match=r"larger than 10 bytes"):
        list(read_skipped(tmp_path))
