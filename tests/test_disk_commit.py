import contextlib
import logging
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import images
import pytest

from tfrds.disk.commit import building
from tfrds.disk.layout import find_versions, is_dataset
from tfrds.errors import DatasetError

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Holds the lock until a file appears.
OTHER_BUILDER = """
import pathlib, sys, time
from tfrds.disk.commit import building
target, ready, go = map(pathlib.Path, sys.argv[1:])
with building(target, overwrite=False) as directory:
    for name in ("tfrds.json", "features.json", "dataset_info.json"):
        (directory / name).write_text("other")
    ready.touch()
    while not go.exists():
        time.sleep(0.01)
"""


def fill(directory, text):
    for name in ("tfrds.json", "features.json", "dataset_info.json"):
        (directory / name).write_text(text)


def build(target, text="new", overwrite=False):
    with building(target, overwrite=overwrite) as directory:
        if directory is not None:
            fill(directory, text)
    return directory


def fail(target, error, overwrite):
    with building(target, overwrite=overwrite) as directory:
        fill(directory, "new")
        raise error


def left_beside(target):
    """What lies beside the dataset but for the file of the lock."""
    names = target.parent.iterdir() if target.parent.exists() else ()
    return {path.name for path in names if path.suffix != ".lock"} - {target.name}


@pytest.fixture
def target(tmp_path):
    return tmp_path / "data" / "pets" / "1.0.0"


@pytest.fixture
def locked_folder():
    """A folder that this process may read and not write, as another user where it runs as root."""
    folder = pathlib.Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    with images.without_root():
        yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_directory_is_empty_beside_the_target_and_renamed_when_done(target):
    with building(target, overwrite=False) as directory:
        assert list(directory.iterdir()) == []
        assert directory.parent == target.parent
        assert not target.exists()
        fill(directory, "new")
        assert find_versions(target.parent) == []
    assert set(images.files_below(target).values()) == {b"new"}
    assert left_beside(target) == set()


def test_finished_dataset_is_left_alone(target):
    build(target, "old")
    assert build(target, "new") is None
    assert set(images.files_below(target).values()) == {b"old"}


def test_overwrite_replaces_the_old_one_only_when_the_new_one_is_complete(target):
    build(target, "old")
    images.put(target / "more", "only in the old one")
    with building(target, overwrite=True) as directory:
        assert is_dataset(target)
        fill(directory, "new")
        assert images.files_below(target)["tfrds.json"] == b"old"
    assert set(images.files_below(target).values()) == {b"new"}
    assert left_beside(target) == set()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("overwrite", [False, True])
def test_error_leaves_what_was_there_before(target, error, overwrite):
    if overwrite:
        build(target, "old")
    with pytest.raises(error):
        fail(target, error, overwrite)
    assert target.exists() == overwrite
    assert left_beside(target) == set()
    if overwrite:
        assert set(images.files_below(target).values()) == {b"old"}
    build(target, "next", overwrite)
    assert set(images.files_below(target).values()) == {b"next"}


def test_old_dataset_comes_back_where_the_new_one_cannot_take_its_place(target):
    build(target, "old")
    with pytest.raises(FileNotFoundError), building(target, overwrite=True) as directory:
        directory.rmdir()
    assert set(images.files_below(target).values()) == {b"old"}
    assert left_beside(target) == set()


def test_leftover_of_a_killed_build_is_replaced(target):
    images.put(target.parent / ".tfrds-build-1.0.0" / "deep" / "shard", "half")
    with building(target, overwrite=False) as directory:
        assert list(directory.iterdir()) == []
        fill(directory, "new")
    assert set(images.files_below(target)) == {"tfrds.json", "features.json", "dataset_info.json"}


def test_dataset_that_a_killed_overwrite_left_aside_comes_back(target):
    build(target, "old")
    # The state between the two renames of an overwrite.
    target.rename(target.parent / ".tfrds-old-1.0.0-0123abcd")
    fill_staging = target.parent / ".tfrds-build-1.0.0"
    fill_staging.mkdir()
    fill(fill_staging, "new")
    assert build(target, "newer") is None
    assert (target / "tfrds.json").read_text() == "old"


def test_overwrite_replaces_a_link_and_leaves_what_it_points_to(target, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    fill(elsewhere, "old")
    target.parent.mkdir(parents=True)
    target.symlink_to(elsewhere)
    build(target, "new", overwrite=True)
    assert not target.is_symlink()
    assert (target / "tfrds.json").read_text() == "new"
    assert (elsewhere / "tfrds.json").read_text() == "old"
    assert left_beside(target) == set()


def test_empty_directory_is_in_nobodys_way(target):
    target.mkdir(parents=True)
    build(target)
    assert is_dataset(target)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "names", [["notes.txt"], ["tfrds.json"], ["dataset_info.json", "features.json"]]
)
def test_foreign_directory_is_refused_and_untouched(target, overwrite, names):
    for name in names:
        images.put(target / name, "mine")
    with pytest.raises(
        DatasetError, match=f"{target}: expected no directory, .*found {re.escape(str(names))}"
    ):
        build(target, overwrite=overwrite)
    assert images.files_below(target) == dict.fromkeys(names, b"mine")
    assert left_beside(target) == set()


@pytest.mark.parametrize("overwrite", [False, True])
def test_file_in_the_place_is_refused_and_untouched(target, overwrite):
    images.put(target, "mine")
    with pytest.raises(DatasetError, match=f"{target}: expected no directory, .*found a file"):
        build(target, overwrite=overwrite)
    assert target.read_text() == "mine"
    assert left_beside(target) == set()


def test_link_to_nowhere_in_the_place_is_refused_and_untouched(target):
    target.parent.mkdir(parents=True)
    target.symlink_to("nowhere")
    with pytest.raises(DatasetError, match=f"{target}: expected no directory"):
        build(target)
    assert target.is_symlink()


@pytest.mark.parametrize("depth", [0, 1])
def test_file_above_the_place_is_named(target, depth):
    path = images.put(target.parents[depth], "a file")
    with pytest.raises(DatasetError, match=f"{target}: cannot be made: .*{path.name}.* is a file"):
        build(target)
    assert path.read_text() == "a file"


def test_full_disk_is_said_and_nothing_is_kept(tiny_disk):
    target = tiny_disk / "pets" / "1.0.0"
    with pytest.raises(DatasetError, match=rf"{target}: the disk is full, \d[\d,]* bytes are free"):
        with building(target, overwrite=False) as directory:
            images.put(directory / "shard", bytes(2**20))
    assert not target.exists()
    assert left_beside(target) == set()
    build(target)
    assert is_dataset(target)


def test_disk_that_is_full_from_the_start_is_said(tiny_disk):
    with contextlib.suppress(OSError):
        images.put(tiny_disk / "fill", bytes(2**20))
    with contextlib.suppress(OSError):
        for number in range(1000):
            (tiny_disk / str(number)).touch()
    (tiny_disk / "0").unlink()
    with pytest.raises(DatasetError, match="the disk is full"):
        with building(tiny_disk / "1.0.0", overwrite=False) as directory:
            images.put(directory / "shard", bytes(5000))


@pytest.mark.parametrize("is_made", [False, True])
def test_read_only_file_system_is_said(tiny_disk, is_made):
    target = tiny_disk / "pets" / "1.0.0"
    if is_made:
        target.parent.mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    with pytest.raises(DatasetError, match=f"{target}: cannot be written: Read-only file system"):
        build(target)


@pytest.mark.parametrize("parts", [("pets", "1.0.0"), ("1.0.0",)])
def test_folder_without_permission_is_said(locked_folder, parts):
    target = locked_folder.joinpath(*parts)
    with pytest.raises(DatasetError, match=f"{target}: cannot be written: Permission denied"):
        build(target)
    assert list(locked_folder.iterdir()) == []


def test_second_builder_waits_says_so_and_finds_the_dataset(target, tmp_path):
    ready, go = tmp_path / "ready", tmp_path / "go"
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER_BUILDER, target, ready, go],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    messages = []

    class GoWhenSaid(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())
            go.touch()

    handler = GoWhenSaid(logging.WARNING)
    logging.getLogger("tfrds").addHandler(handler)
    try:
        while not ready.exists():
            assert other.poll() is None
        assert build(target, "ours") is None
    finally:
        logging.getLogger("tfrds").removeHandler(handler)
        go.touch()
        assert other.wait(20) == 0
    assert messages == [f"{target} is being built by another process: waiting for it."]
    assert set(images.files_below(target).values()) == {b"other"}


def test_builders_of_other_versions_do_not_wait(target):
    with building(target, overwrite=False) as directory:
        fill(directory, "1")
        build(target.with_name("2.0.0"), "2")
    assert find_versions(target.parent) == ["1.0.0", "2.0.0"]
