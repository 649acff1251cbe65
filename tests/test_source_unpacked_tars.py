"""Compressed tars, which are unpacked into a temporary folder."""

import gc
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile

import archives
import images
import numpy as np
import pytest

import tfrds
from tfrds.errors import DatasetError, SourceError
from tfrds.write.sources.archive import Archive

PNG = images.encoded(images.noise(0, 2, 3))


@pytest.fixture
def folder(tmp_path):
    return images.put_images(tmp_path / "source", ["cat/1.png", "cat/2.png", "dog/1.png"])


def scratch_folders(parent):
    return sorted(path.name for path in pathlib.Path(parent).glob("tfrds-unpacked-*"))


def test_tar_is_unpacked_once_and_goes_with_the_source(tmp_path, folder, monkeypatch):
    archive = archives.pack(folder, tmp_path / "gzip.tar.gz")
    scratch = tmp_path / "new" / "scratch"
    source = Archive(archive, scratch_dir=scratch)
    assert not scratch.exists()
    source.scan()
    assert len(scratch_folders(scratch)) == 1
    (unpacked,) = scratch.rglob("*.tar")
    assert stat_of(unpacked) == stat_of(unpacked)
    before = stat_of(unpacked)
    source.scan()
    assert stat_of(unpacked) == before
    inputs = source.inputs(np.array([0]))
    del source
    gc.collect()
    assert inputs.read(0) == (folder / "cat/1.png").read_bytes()
    del inputs
    gc.collect()
    assert scratch_folders(scratch) == []


def stat_of(path):
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def test_plain_archives_need_no_scratch_folder(tmp_path, folder):
    for packing in ("deflated.zip", "gnu.tar"):
        archive = archives.pack(folder, tmp_path / packing)
        Archive(archive, scratch_dir=tmp_path / "scratch").scan()
    assert not (tmp_path / "scratch").exists()


def test_temporary_folder_is_the_systems_by_default(tmp_path, folder, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    source = Archive(archives.pack(folder, tmp_path / "xz.tar.xz"))
    source.scan()
    assert len(scratch_folders(tmp_path / "tmp")) == 1


def test_worker_that_does_not_see_the_unpacked_tar_says_so(tmp_path, folder):
    archive = archives.pack(folder, tmp_path / "gzip.tar.gz")
    source = Archive(archive, scratch_dir=tmp_path / "scratch")
    source.scan()
    inputs = pickle.loads(pickle.dumps(source.inputs(np.array([0]))))
    shutil.rmtree(tmp_path / "scratch")
    expected = rf"{archive} as unpacked to {tmp_path}/scratch/.*\.tar: expected .*scratch_dir"
    with pytest.raises(DatasetError, match=expected):
        inputs.read(0)


CODE = """
import os, signal, sys
from tfrds.write.sources.archive import Archive
source = Archive(sys.argv[1], scratch_dir=sys.argv[2])
source.scan()
if sys.argv[3] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] == "forked" and os.fork() == 0:
    sys.exit()
if sys.argv[3] == "forked":
    os.wait()
    print(len(list(source.inputs(__import__("numpy").arange(1)).read(0))) > 0)
"""


@pytest.mark.parametrize("end", ["at its end", "killed", "forked"])
def test_process_leaves_nothing_that_the_next_one_does_not_remove(tmp_path, folder, end):
    archive = archives.pack(folder, tmp_path / "gzip.tar.gz")
    scratch = tmp_path / "scratch"
    ran = subprocess.run(
        [sys.executable, "-c", CODE, str(archive), str(scratch), end],
        capture_output=True,
        text=True,
        check=False,
        cwd=pathlib.Path(tfrds.__file__).parents[1],
    )
    left = scratch_folders(scratch)
    assert (ran.returncode, len(left)) == ((-9, 1) if end == "killed" else (0, 0)), ran.stderr
    assert ran.stdout.strip() == ("True" if end == "forked" else "")
    source = Archive(archive, scratch_dir=scratch)
    source.scan()
    now = scratch_folders(scratch)
    assert len(now) == 1
    assert not set(now) & set(left)


def test_folders_in_use_stay(tmp_path, folder):
    archive = archives.pack(folder, tmp_path / "gzip.tar.gz")
    sources = [Archive(archive, scratch_dir=tmp_path / "scratch") for _ in range(2)]
    for source in sources:
        source.scan()
    assert len(scratch_folders(tmp_path / "scratch")) == 2
    for source in sources:
        assert source.inputs(np.array([0])).read(0) == (folder / "cat/1.png").read_bytes()


@pytest.mark.parametrize("packing", archives.COMPRESSED_TARS)
def test_tar_beyond_the_limit_is_refused_and_leaves_nothing(tmp_path, packing):
    tar = archives.tar_of(tmp_path / "a.tar", [("cat/1.png", PNG), ("x/zeros", bytes(9 * 2**20))])
    archive = tmp_path / packing
    archive.write_bytes(archives.compressed(tar.read_bytes(), packing))
    size, total = archive.stat().st_size, tar.stat().st_size
    source = Archive(archive, scratch_dir=tmp_path / "scratch", max_unpacked_bytes=total - 1)
    expected = rf"{archive}: its {size:,} bytes unpack to more than the {total - 1:,} that are left"
    with pytest.raises(SourceError, match=expected):
        source.scan()
    assert list((tmp_path / "scratch").iterdir()) == []
    source = Archive(archive, scratch_dir=tmp_path / "scratch", max_unpacked_bytes=total)
    assert len(source.scan().keys) == 1


def test_limit_is_for_all_archives_together(tmp_path):
    files = []
    for number in range(2):
        members = [(f"cat/{number}.png", PNG), ("x/zeros", bytes(2**20))]
        files.append(archives.tar_of(tmp_path / f"{number}.tar.gz", members, "w:gz"))
    with pytest.raises(
        SourceError, match=rf"{files[1]}: its .* bytes unpack to more than the 4\d\d,"
    ):
        Archive(files, max_unpacked_bytes=1_500_000).scan()
    assert len(Archive(files, max_unpacked_bytes=3_000_000).scan().keys) == 2


def test_default_limit_is_a_gigabyte_or_a_hundred_times_the_archive(tmp_path, monkeypatch):
    members = [("cat/1.png", PNG), ("x/zeros", bytes(2**22))]
    archive = archives.tar_of(tmp_path / "a.tar.gz", members, "w:gz")
    assert len(Archive(archive).scan().keys) == 1
    monkeypatch.setattr("tfrds.write.sources.archive._ALWAYS_ALLOWED_BYTES", 2**20)
    limit = max(100 * archive.stat().st_size, 2**20)
    with pytest.raises(SourceError, match=f"unpack to more than the {limit:,} that are left"):
        Archive(archive).scan()


def test_tar_that_does_not_fit_the_disk_is_refused(tmp_path, tiny_disk):
    members = [("cat/1.png", PNG), ("x/zeros", bytes(2**20))]
    archive = archives.tar_of(tmp_path / "a.tar.gz", members, "w:gz")
    expected = rf"{archive}: cannot be unpacked into {tiny_disk}: No space left on device\. Pass an"
    with pytest.raises(SourceError, match=expected):
        Archive(archive, scratch_dir=tiny_disk).scan()
    assert list(tiny_disk.iterdir()) == []


def test_scratch_folder_that_cannot_be_made_is_named(tmp_path, folder):
    archive = archives.pack(folder, tmp_path / "gzip.tar.gz")
    scratch = images.put(tmp_path / "file", "text")
    with pytest.raises(
        SourceError, match=rf"{archive}: cannot be unpacked into {scratch}: File exi"
    ):
        Archive(archive, scratch_dir=scratch).scan()


def test_error_in_the_tar_removes_what_was_unpacked(tmp_path):
    archive = archives.tar_of(tmp_path / "a.tar.gz", [("cat/1.png", b"text")], "w:gz")
    source = Archive(archive, scratch_dir=tmp_path / "scratch")
    with pytest.raises(SourceError, match="1 file is named like an image"):
        source.scan()
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("chunk", [2**20, 100])
def test_streams_behind_one_another_are_one_tar(tmp_path, folder, monkeypatch, chunk):
    monkeypatch.setattr("tfrds.write.sources.unpacked_tars._CHUNK", chunk)
    plain = archives.pack(folder, tmp_path / "pax.tar").read_bytes()
    middle = len(plain) // 2
    for packing in archives.COMPRESSED_TARS:
        parts = [archives.compressed(part, packing) for part in (plain[:middle], plain[middle:])]
        padding = bytes(400) if packing in ("xz.tar.xz", "gzip.tar.gz") else b""
        (tmp_path / packing).write_bytes(padding.join([*parts, b""]))
        archives.assert_same_as_folder(tmp_path / packing, folder)
