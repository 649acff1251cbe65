import os
import pathlib

import images
import pytest

from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources.archive import Archive
from tfrds.write.sources.manifest import Manifest
from tfrds.write.sources.scratch_folder import ScratchFolder
from tfrds.write.sources.tfrecords import TFRecords


def test_a_file_holds_what_was_written_and_goes_with_the_folder(tmp_path):
    folder = ScratchFolder(tmp_path / "a" / "b", "x.tar.gz")
    with folder.new_file("0", "x.tar.gz") as file:
        file.write(b"one")
        file.write(b"two")
    assert (folder.path / "0").read_bytes() == b"onetwo"
    assert folder.path.parent == tmp_path / "a" / "b"
    del folder
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_file_of_which_not_all_is_written_goes(tmp_path):
    folder = ScratchFolder(tmp_path, "x")

    def write(error):
        with folder.new_file("0", "x") as file:
            file.write(b"one")
            raise error

    for error in (SourceError, KeyboardInterrupt):
        with pytest.raises(error):
            write(error)
    assert not (folder.path / "0").exists()


def test_one_file_is_never_written_over(tmp_path):
    folder = ScratchFolder(tmp_path, "x")
    images.put(folder.path / "0", b"first")
    with pytest.raises(SourceError, match=rf"^y: cannot be unpacked into {tmp_path}: File exists"):
        with folder.new_file("0", "y"):
            pass
    assert (folder.path / "0").read_bytes() == b"first"


def test_what_does_not_fit_is_named_when_the_file_ends(tiny_disk):
    folder = ScratchFolder(tiny_disk, "x")
    # Less than what is written at once: the disk refuses it later.
    size = os.statvfs(tiny_disk).f_bavail * os.statvfs(tiny_disk).f_bsize
    images.put(tiny_disk / "filler", bytes(size))
    message = rf"^x.gz: cannot be unpacked into {tiny_disk}: No space left on device. Pass another"
    with pytest.raises(SourceError, match=message), folder.new_file("0", "x.gz") as file:
        file.write(bytes(5))
    assert sorted(path.name for path in folder.path.iterdir()) == ["lock"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    parent = images.put(tmp_path / "file", "text")
    with pytest.raises(SourceError, match=rf"^x.gz: cannot be unpacked into {parent}: File exists"):
        ScratchFolder(parent, "x.gz")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=rf"into {tmp_path}/file: "):
        ScratchFolder(pathlib.Path("file"), "x.gz")


@pytest.mark.parametrize("make", [Archive, TFRecords, Manifest])
def test_every_source_takes_a_path_alone(make):
    for given in (3, b"x"):
        with pytest.raises(ConfigError, match=rf"scratch_dir: expected the path .*, got {given!r}"):
            make("x.csv", scratch_dir=given)
