"""What paths and patterns mean, to every source that takes them."""

import os
import pathlib
import re

import images
import pytest

from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources.archive import Archive
from tfrds.write.sources.given_files import find_given, parse_given
from tfrds.write.sources.manifest import Manifest
from tfrds.write.sources.tfrecords import TFRecords


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(*names):
    for name in names:
        images.put(pathlib.Path(name), b"x")


def meant(given):
    return find_given("files", parse_given("files", given))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("s-{000..002}.tar", ["s-000.tar", "s-001.tar", "s-002.tar"]),
        ("s-{2..0}.tar", ["s-2.tar", "s-1.tar", "s-0.tar"]),
        ("{a,b}-{09..10}.tar", ["a-09.tar", "a-10.tar", "b-09.tar", "b-10.tar"]),
        ("s-*.tar", ["s-a.tar", "s-b.tar"]),
        ("s-?.t{ar,ar.gz}", ["s-a.tar", "s-b.tar.gz"]),
        ("{odd}-{0..1.tar", ["{odd}-{0..1.tar"]),
        ("**/*.tar", ["a.tar", "b/c.tar", "b/d/e.tar"]),
        ("file:1.tar", ["file:1.tar"]),
        (["b.tar", pathlib.Path("a.tar")], ["b.tar", "a.tar"]),
        (iter(["b.tar", "c*"]), ["b.tar", "c1", "c2"]),
    ],
)
def test_patterns_mean_files(pattern, expected):
    put(*expected, ".hidden/z.tar")
    os.makedirs("s-folder.tar")
    assert meant(pattern) == expected


def test_a_file_of_that_very_name_goes_before_a_pattern():
    put("a[1].tar", "a1.tar", "{x,y}", "x", "y")
    assert meant(["a[1].tar", "{x,y}"]) == ["a[1].tar", "{x,y}"]
    # In braces too.
    assert meant("{a[1],a1}.tar") == ["a[1].tar", "a1.tar"]


def test_home_folder_may_be_a_tilde(folder, monkeypatch):
    put("a.tar")
    monkeypatch.setenv("HOME", str(folder))
    assert meant("~/a.tar") == meant(["~/*.tar"]) == [f"{folder}/a.tar"]


def test_missing_files_are_named(folder):
    put("shard-1.tar", "shard-3.tar")
    for given, message in [
        (
            folder / "shard-{0..8}.tar",
            r"expected 9 files, 7 are missing: .*-0\.tar, .*-6\.tar, \.\.\.\. Did you mean '.*tar'",
        ),
        (folder / "shrad-1.tar", r"shrad-1\.tar: no such file\. Did you mean '/.*/shard-1\.tar'\?"),
        ("shrad-1.tar", r"^shrad-1\.tar: no such file\. Did you mean 'shard-1\.tar'\? Correct it"),
        ("SHARD-3.tar", r"Did you mean 'shard-3\.tar'"),
        ("x*.zip", r"^x\*\.zip: no file fits this pattern\. Correct it"),
        ("gone/a.tar", r"^gone/a\.tar: no such file\. There is no folder 'gone'"),
    ]:
        with pytest.raises(SourceError, match=message):
            meant(given)


@pytest.mark.parametrize("make", [Archive, TFRecords, Manifest])
def test_every_source_says_so(make):
    put("train.csv")
    with pytest.raises(SourceError, match=r"^tarin\.csv: no such file\. Did you mean 'train\.csv'"):
        make("tarin.csv").scan()
    with pytest.raises(
        ConfigError,
        match=r"(files|table): expected a path, a pattern such as 'data/\*' or .*, got 3\.",
    ):
        make(3).scan()
    with pytest.raises(ConfigError, match=r"expected files of this machine, .*got 's3://b/a'"):
        make("s3://b/a").scan()
    with pytest.raises(ConfigError, match=r"each file once, got train\.csv twice"):
        make(["*.csv", "train.csv"]).scan()


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (None, "None"),
        (3, "3"),
        ([], "an empty list"),
        ("", "''"),
        (b"a.tar", "b'a.tar'"),
        ([b"a.tar"], "b'a.tar'"),
        (["a.tar", 3], "3"),
        ({"a": "b"}, "{'a': 'b'}"),
        ("a\0b", "'a\\x00b'"),
        ([["x" * 100]], "['" + "x" * 78 + "..."),
    ],
    ids=str,
)
def test_files_must_be_paths(given, got):
    with pytest.raises(ConfigError, match=rf"files: expected a path, .*, got {re.escape(got)}\.$"):
        parse_given("files", given)


@pytest.mark.parametrize("url", ["https://example.com/a.tar", "pipe:cat a.tar", "s3://b/a.tar"])
def test_files_lie_on_this_machine(url):
    with pytest.raises(ConfigError, match=f"files: expected files of this machine, .*got '{url}'"):
        parse_given("files", url)


def test_file_that_is_meant_twice_is_named(folder):
    put("a.tar")
    with pytest.raises(ConfigError, match=rf"expected each file once, got {folder}/a\.tar twice"):
        meant(["a.tar", folder / "a.tar"])


def test_range_of_too_many_files_is_refused():
    with pytest.raises(ConfigError, match=r"more than 1,000,000 files"):
        meant("{0..9999}-{0..9999}.tar")
