import contextlib
import errno
import logging
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import images
import numpy as np
import pytest

from tfrds.disk import commit
from tfrds.disk.commit import abandoned_builds, building, unfinished_builds
from tfrds.disk.index import ROW
from tfrds.disk.journal import ShardEntry
from tfrds.disk.layout import find_versions, is_dataset
from tfrds.errors import DatasetError

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILES = ("tfrds.json", "features.json", "dataset_info.json")
SHARD = "pets-train.tfrecord-00000-of-00003"

# Works in a build until a file appears.
OTHER_BUILDER = """
import pathlib, sys, time
from tfrds.disk.commit import building
target, ready, go = map(pathlib.Path, sys.argv[1:])
with building(target, overwrite=False) as own:
    for name in ("tfrds.json", "features.json", "dataset_info.json"):
        (own.files / name).write_text("other")
    ready.touch()
    while not go.exists():
        time.sleep(0.01)
"""


def fill(directory, text):
    for name in FILES:
        images.put(directory / name, text)


def finish_shard(own, name=SHARD):
    """Puts a shard into a build, and its entry into the journal."""
    images.put(own.files / name, "records")
    rows = np.zeros(1, ROW)
    entry = ShardEntry(task="task", num_bytes=7, sha256="", kept=np.array([0]), rows=rows)
    own.journal.add(name, entry)


def build(target, text="new", overwrite=False):
    with building(target, overwrite=overwrite) as own:
        if own is not None:
            fill(own.files, text)
    return own


def fail(target, error=RuntimeError, overwrite=False, finished=()):
    with building(target, overwrite=overwrite) as own:
        for name in finished:
            finish_shard(own, name)
        fill(own.files, "new")
        raise error


def put_and_build(target, name, data, overwrite=False):
    """Builds a shard and something else, below the build's files or elsewhere."""
    with building(target, overwrite=overwrite) as own:
        finish_shard(own)
        images.put(own.files / name, data)
        fill(own.files, "new")


def texts(directory):
    return set(images.files_below(directory).values())


def staging_of(target):
    return target.parent / f".tfrds-build-{target.name}"


def builds_of(target):
    """The names of the directories in which somebody builds or has built."""
    container = staging_of(target)
    return sorted(path.name for path in container.iterdir()) if container.exists() else []


def leave(target, name, silent_seconds=0):
    """Makes the directory of a build with one finished shard, that was silent for some time."""
    own = commit.BuildDirectory(staging_of(target) / name)
    own.journal.folder.mkdir(parents=True)
    finish_shard(own)
    past = own.home.stat().st_mtime - silent_seconds
    os.utime(own.home, (past, past))
    return own.home


def left_beside(target):
    """What lies beside the dataset but for the file of the lock."""
    names = target.parent.iterdir() if target.parent.exists() else ()
    return {path.name for path in names if path.suffix != ".lock"} - {target.name}


def dead_pid():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@contextlib.contextmanager
def other_builder(target, tmp_path):
    """Lets another process build; gives it, and the file that lets it end."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER_BUILDER, target, ready, go],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        while not ready.exists():
            assert process.poll() is None
        yield process, go
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def called_when_waiting(function):
    """Calls a function when this process says that it waits; gives what it says."""
    messages = []

    class Caller(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())
            function()

    handler = Caller(logging.WARNING)
    logging.getLogger("tfrds").addHandler(handler)
    try:
        yield messages
    finally:
        logging.getLogger("tfrds").removeHandler(handler)


@pytest.fixture
def without_locks(monkeypatch):
    """Makes every lock do nothing, as on some network file systems."""
    monkeypatch.setattr(commit.filelock.FileLock, "acquire", lambda *_, **__: None)


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
    with building(target, overwrite=False) as own:
        assert list(own.files.iterdir()) == list(own.journal.folder.iterdir()) == []
        assert own.home.parent == staging_of(target)
        assert own.files.stat().st_dev == target.parent.stat().st_dev
        assert not target.exists()
        fill(own.files, "new")
        assert find_versions(target.parent) == []
        assert not own.is_committed
    assert own.is_committed
    assert texts(target) == {b"new"}
    assert left_beside(target) == set()


def test_finished_dataset_is_left_alone(target):
    build(target, "old")
    assert build(target, "new") is None
    assert texts(target) == {b"old"}


def test_overwrite_replaces_the_old_one_only_when_the_new_one_is_complete(target):
    build(target, "old")
    images.put(target / "more", "only in the old one")
    with building(target, overwrite=True) as own:
        assert is_dataset(target)
        fill(own.files, "new")
        assert images.files_below(target)["tfrds.json"] == b"old"
    assert own.is_committed
    assert texts(target) == {b"new"}
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
        assert texts(target) == {b"old"}
    build(target, "next", overwrite)
    assert texts(target) == {b"next"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("overwrite", [False, True])
def test_error_keeps_finished_shards_for_the_next_build(target, error, overwrite):
    if overwrite:
        build(target, "old")
    with pytest.raises(error):
        fail(target, error, overwrite, [SHARD])
    assert target.exists() == overwrite
    (kept,) = builds_of(target)
    assert kept.startswith("kept.")
    with building(target, overwrite=overwrite) as own:
        assert own.journal.finished() == [SHARD]
        assert (own.files / SHARD).read_text() == "records"
        assert builds_of(target) == [own.home.name]
        fill(own.files, "next")
    assert texts(target) == {b"next", b"records"}
    assert left_beside(target) == set()


def test_nothing_is_left_where_no_shard_was_finished(target):
    with pytest.raises(RuntimeError):
        fail(target)
    assert list(target.parents[1].iterdir()) == []


def test_old_dataset_comes_back_where_the_new_one_cannot_take_its_place(target):
    build(target, "old")
    with pytest.raises(FileNotFoundError), building(target, overwrite=True) as own:
        own.files.rmdir()
    assert texts(target) == {b"old"}
    assert left_beside(target) == set()


def test_dataset_that_a_killed_overwrite_left_aside_comes_back(target):
    build(target, "old")
    # The state between the two renames of an overwrite.
    target.rename(target.parent / ".tfrds-old-1.0.0-0123abcd")
    fill(leave(target, f"{commit._machine()}.{dead_pid()}.0123") / "dataset", "new")
    assert build(target, "newer") is None
    assert (target / "tfrds.json").read_text() == "old"


def test_what_killed_builds_left_of_a_finished_dataset_goes(target, tmp_path):
    build(target, "old")
    elsewhere = images.put(tmp_path / "elsewhere" / "file", "theirs").parent
    images.put(target.parent / ".tfrds-old-1.0.0-0123abcd" / "tfrds.json", "older")
    (target.parent / ".tfrds-old-1.0.0-4567abcd").symlink_to(elsewhere)
    images.put(target.parent / ".tfrds-inputs-1.0.0.npz.0123.tmp", "half")
    images.put(target.parent / ".tfrds-inputs-1.0.0.npz", "whole")
    images.put(target.parent / ".tfrds-old-1.0.1-0123abcd" / "tfrds.json", "of another version")
    shutil.rmtree(leave(target, f"{commit._machine()}.{dead_pid()}.0123") / "dataset")
    assert build(target) is None
    assert left_beside(target) == {".tfrds-inputs-1.0.0.npz", ".tfrds-old-1.0.1-0123abcd"}
    assert (elsewhere / "file").read_text() == "theirs"


def test_overwrite_that_was_killed_can_go_on_though_the_old_dataset_is_asked_for(target):
    build(target, "old")
    leave(target, f"{commit._machine()}.{dead_pid()}.0123")
    assert build(target) is None
    assert unfinished_builds(target) == [(1, None)]
    with building(target, overwrite=True) as own:
        assert own.journal.finished() == [SHARD]
        fill(own.files, "new")
    assert left_beside(target) == set()


def test_overwrite_replaces_a_link_and_leaves_what_it_points_to(target, tmp_path):
    elsewhere = tmp_path / "elsewhere"
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


def test_build_without_files_is_an_error_and_no_dataset(target):
    with pytest.raises(FileNotFoundError), building(target, overwrite=False) as own:
        own.files.rmdir()
    assert list(target.parents[1].iterdir()) == []


def test_full_disk_is_said_and_what_is_finished_stays(tiny_disk):
    target = tiny_disk / "pets" / "1.0.0"
    with pytest.raises(
        DatasetError,
        match=rf"^{target}: the disk is full, (\d[\d,]*) bytes are free\. Finished shards are "
        r"kept: free space and run the same build again to go on, or choose another data_dir\.$",
    ) as caught:
        put_and_build(target, "shard", bytes(2**20))
    assert caught.value.__cause__.errno == errno.ENOSPC
    free = int(re.search(r"full, ([\d,]+)", str(caught.value))[1].replace(",", ""))
    assert free < 2**18
    assert not target.exists()
    with building(target, overwrite=False) as own:
        assert own.journal.finished() == [SHARD]
        (own.files / "shard").unlink()
        fill(own.files, "new")
    assert is_dataset(target)
    assert left_beside(target) == set()


def fill_disk(folder):
    with contextlib.suppress(OSError):
        images.put(folder / "fill", bytes(2**20))
    with contextlib.suppress(OSError):
        for number in range(1000):
            (folder / str(number)).touch()


@pytest.mark.parametrize("name", ["1.0.0", "pets/1.0.0"])
def test_disk_without_room_for_a_folder_is_said(tiny_disk, name):
    fill_disk(tiny_disk)
    with pytest.raises(DatasetError, match=f"{tiny_disk / name}: the disk is full, 0 bytes"):
        build(tiny_disk / name)
    assert not (tiny_disk / name).exists()


def test_disk_that_is_full_from_the_start_is_said(tiny_disk):
    fill_disk(tiny_disk)
    for number in range(5):
        (tiny_disk / str(number)).unlink()
    with pytest.raises(DatasetError, match="the disk is full"):
        put_and_build(tiny_disk / "1.0.0", "shard", bytes(5000))


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


def test_errors_of_other_kinds_stay_as_they_are(target):
    error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output error") as caught:
        fail(target, error)
    assert caught.value is error


def test_second_builder_waits_says_so_and_finds_the_dataset(target, tmp_path):
    with other_builder(target, tmp_path) as (other, go), called_when_waiting(go.touch) as messages:
        assert build(target, "ours") is None
        assert other.wait(20) == 0
    assert messages == [f"{target} is being built by another process: waiting for it."]
    assert texts(target) == {b"other"}


@pytest.mark.parametrize("is_stopped", [False, True])
def test_killed_holder_of_the_lock_blocks_nobody(target, tmp_path, is_stopped):
    with other_builder(target, tmp_path) as (other, _):
        if is_stopped:
            other.send_signal(signal.SIGSTOP)
        with called_when_waiting(other.kill) as messages:
            assert build(target, "ours").is_committed
    assert len(messages) == 1
    assert texts(target) == {b"ours"}
    assert left_beside(target) == set()


def test_interrupted_wait_leaves_the_other_builder_alone(target, tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    with other_builder(target, tmp_path) as (other, go):
        with called_when_waiting(interrupt), pytest.raises(KeyboardInterrupt):
            build(target, "ours")
        go.touch()
        assert other.wait(20) == 0
    assert texts(target) == {b"other"}
    assert left_beside(target) == set()


def test_builders_of_other_versions_do_not_wait(target):
    with building(target, overwrite=False) as own:
        fill(own.files, "1")
        build(target.with_name("2.0.0"), "2")
    assert find_versions(target.parent) == ["1.0.0", "2.0.0"]


# Who works in a directory, and who does not any more.


def test_directory_says_whose_it_is(target):
    with building(target, overwrite=False) as own:
        machine, pid, token = own.home.name.split(".")
        assert re.fullmatch("[0-9a-f]{16}", machine)
        assert int(pid) == os.getpid()
        assert re.fullmatch("[0-9a-f]{8}", token)
        assert abandoned_builds(staging_of(target)) == []
        fill(own.files, "new")


@pytest.mark.parametrize("silent_seconds", [0, 1e6])
@pytest.mark.parametrize("owner", ["kept", "dead"])
def test_directory_of_an_ended_build_is_abandoned_at_once(target, owner, silent_seconds):
    name = "kept.0123" if owner == "kept" else f"{commit._machine()}.{dead_pid()}.0123"
    home = leave(target, name, silent_seconds)
    assert abandoned_builds(staging_of(target)) == [home]


@pytest.mark.parametrize("owner", ["other machine", "parent", "init", "no name of ours"])
def test_directory_of_who_may_live_is_abandoned_when_it_was_silent_for_long(target, owner):
    name = {
        "other machine": f"0123456789abcdef.{dead_pid()}.0123",
        "parent": f"{commit._machine()}.{os.getppid()}.0123",
        "init": f"{commit._machine()}.1.0123",  # of another user, unless the tests run as root
        "no name of ours": commit._machine(),
    }[owner]
    home = leave(target, name, 80)
    assert abandoned_builds(staging_of(target)) == []
    past = home.stat().st_mtime - 20
    os.utime(home, (past, past))
    assert abandoned_builds(staging_of(target)) == [home]


def test_directory_of_a_zombie_is_abandoned(target):
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    home = leave(target, f"{commit._machine()}.{process.pid}.0123")
    if pathlib.Path("/proc").is_dir():
        assert abandoned_builds(staging_of(target)) == [home]
    process.wait()
    assert abandoned_builds(staging_of(target)) == [home]


def test_process_of_another_user_lives(target):
    home = leave(target, f"{commit._machine()}.{os.getppid()}.0123")
    with images.without_root():
        assert commit._is_alive(os.getppid(), home)


def test_process_lives_where_there_is_no_proc(target, monkeypatch):
    home = leave(target, f"{commit._machine()}.{os.getppid()}.0123")
    monkeypatch.setattr(pathlib.Path, "read_bytes", lambda path: path.with_name("none").open())
    assert commit._is_alive(os.getppid(), home)


def test_directory_of_an_earlier_process_of_our_number_is_abandoned(target):
    # In a container that was started again the builder has the number that the killed one had.
    home = leave(target, f"{commit._machine()}.{os.getpid()}.0123")
    with building(target, overwrite=False) as own:
        assert own.journal.finished() == [SHARD]
        assert not home.exists()
        fill(own.files, "new")


def test_directories_of_this_process_are_not_taken_without_locks(target, without_locks):
    with building(target, overwrite=False) as first:
        finish_shard(first)
        with building(target, overwrite=False) as second:
            assert first.home != second.home
            assert second.journal.finished() == []
            fill(second.files, "second")
        assert first.journal.finished() == [SHARD]
        fill(first.files, "first")
    assert (first.is_committed, second.is_committed) == (False, True)
    assert texts(target) == {b"second"}
    assert left_beside(target) == set()


def test_clock_is_the_one_of_the_file_system(target, monkeypatch):
    home = leave(target, "0123456789abcdef.1.0123")
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert abandoned_builds(staging_of(target)) == []
    # Another machine's clock is off by a day: so are all times that it writes.
    utime, day = os.utime, 86_400
    past = home.stat().st_mtime - day
    utime(home, (past, past))
    monkeypatch.setattr(commit.os, "utime", lambda path: utime(path, (past + 5, past + 5)))
    assert abandoned_builds(staging_of(target)) == []


def test_nothing_is_abandoned_where_the_clock_cannot_be_read(target, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    leave(target, "0123456789abcdef.1.0123", 1e6)
    kept = leave(target, "kept.0123", 1e6)
    monkeypatch.setattr(commit.os, "utime", refuse)
    assert abandoned_builds(staging_of(target)) == [kept]


def test_directory_that_ends_meanwhile_is_not_abandoned(target):
    assert not commit._is_abandoned(staging_of(target) / "0123456789abcdef.1.0123", 1e12)
    assert abandoned_builds(staging_of(target)) == []


def test_builder_shows_again_and_again_that_it_lives(target, monkeypatch):
    beaten = threading.Event()
    utime = os.utime

    def note(path, *times):
        utime(path, *times)
        if path == own.home:
            beaten.set()

    monkeypatch.setattr(commit, "_BEAT_SECONDS", 0.01)
    with building(target, overwrite=False) as own:
        past = own.home.stat().st_mtime - 1000
        monkeypatch.setattr(commit.os, "utime", note)
        utime(own.home, (past, past))
        beaten.clear()
        assert beaten.wait(20)
        assert own.home.stat().st_mtime > past + 900
        fill(own.files, "new")
    assert "tfrds-build" not in {thread.name for thread in threading.enumerate()}


def test_directory_that_is_taken_looks_lively_at_once(target):
    leave(target, "kept.0123", 1e6)
    with building(target, overwrite=False) as own:
        assert own.journal.finished() == [SHARD]
        assert own.home.stat().st_mtime > staging_of(target).stat().st_mtime - 60
        fill(own.files, "new")


def test_last_build_is_taken_and_the_others_go_when_all_is_done(target):
    old = leave(target, "kept.old", 500)
    new = leave(target, "kept.new", 100)
    (new / "dataset" / "mark").touch()
    past = old.stat().st_mtime + 400
    os.utime(new, (past, past))
    alive = leave(target, "0123456789abcdef.1.0123")
    with building(target, overwrite=False) as own:
        assert (own.files / "mark").exists()
        assert builds_of(target) == sorted([own.home.name, alive.name, "kept.old"])
        fill(own.files, "new")
    assert builds_of(target) == [alive.name]


def test_directory_that_another_builder_takes_first_is_left_to_it(target, monkeypatch):
    leave(target, "kept.0123")
    rename = pathlib.Path.rename

    def be_late(path, new):
        if path.name == "kept.0123":
            rename(path, path.with_name("0123456789abcdef.1.0123"))
        return rename(path, new)

    monkeypatch.setattr(pathlib.Path, "rename", be_late)
    with building(target, overwrite=False) as own:
        assert own.journal.finished() == []
        fill(own.files, "new")
    assert builds_of(target) == ["0123456789abcdef.1.0123"]


def test_container_that_another_builder_removes_is_made_again(target, monkeypatch):
    find = commit.abandoned_builds

    def remove_after(container):
        found = find(container)
        container.rmdir()
        return found

    monkeypatch.setattr(commit, "abandoned_builds", remove_after)
    with building(target, overwrite=False) as own:
        fill(own.files, "new")
        monkeypatch.undo()
    assert is_dataset(target)


def test_unfinished_builds_are_counted(target):
    assert unfinished_builds(target) == []
    leave(target, "kept.0123", 100)
    own = commit.BuildDirectory(leave(target, "0123456789abcdef.1.0123"))
    own.journal.set_plan(3)
    finish_shard(own, "pets-train.tfrecord-00001-of-00003")
    assert unfinished_builds(target) == [(2, 3), (1, None)]


# Without working locks.


@pytest.mark.parametrize("overwrite", [False, True])
def test_without_locks_one_result_stands(target, without_locks, overwrite):
    if overwrite:
        build(target, "old")
    with building(target, overwrite=overwrite) as first:
        fill(first.files, "first")
        assert build(target, "second", overwrite).is_committed
        assert texts(target) == {b"second"}
    assert first.is_committed == overwrite
    assert texts(target) == {b"first" if overwrite else b"second"}
    assert left_beside(target) == set()


def meanwhile(monkeypatch, moment, function):
    """Calls a function once, right before a path with some part in its name is renamed."""
    rename, done = pathlib.Path.rename, []

    def renamed(path, new):
        if moment(path, pathlib.Path(new)) and not done:
            done.append(path)
            function()
        return rename(path, new)

    monkeypatch.setattr(pathlib.Path, "rename", renamed)


def test_dataset_that_comes_right_before_ours_stays(target, without_locks, monkeypatch):
    meanwhile(
        monkeypatch,
        lambda path, new: path.name == "dataset",
        lambda: fill(target, "faster"),
    )
    own = build(target, "ours")
    assert not own.is_committed
    assert texts(target) == {b"faster"}
    assert left_beside(target) == set()


def test_dataset_that_comes_amid_an_overwrite_stays(target, without_locks, monkeypatch):
    build(target, "old")
    meanwhile(
        monkeypatch,
        lambda path, new: path.name == "dataset",
        lambda: fill(target, "faster"),
    )
    own = build(target, "ours", overwrite=True)
    assert not own.is_committed
    assert texts(target) == {b"faster"}
    assert left_beside(target) == set()


def test_old_dataset_that_another_overwrite_puts_aside_first_is_no_error(
    target, without_locks, monkeypatch
):
    build(target, "old")
    meanwhile(monkeypatch, lambda path, new: path == target, lambda: shutil.rmtree(target))
    assert build(target, "ours", overwrite=True).is_committed
    assert texts(target) == {b"ours"}
    assert left_beside(target) == set()


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_somebody_puts_into_the_place_meanwhile_is_untouched(target, overwrite):
    with pytest.raises(DatasetError, match=rf"{target}: expected no directory.*\['mine'\]"):
        put_and_build(target, target / "mine", "mine", overwrite)
    assert images.files_below(target) == {"mine": b"mine"}
    assert unfinished_builds(target) == [(1, None)]


def test_empty_directory_that_is_made_meanwhile_is_in_nobodys_way(target):
    with building(target, overwrite=False) as own:
        fill(own.files, "new")
        target.mkdir()
    assert own.is_committed
    assert texts(target) == {b"new"}


@pytest.mark.parametrize("is_dataset_there", [False, True])
def test_place_that_frees_or_fills_while_it_is_looked_at(target, monkeypatch, is_dataset_there):
    images.put(target / "theirs", "theirs")
    rmdir = pathlib.Path.rmdir

    def change(path):
        if path == target:
            fill(target, "theirs") if is_dataset_there else shutil.rmtree(target)
        rmdir(path)

    monkeypatch.setattr(pathlib.Path, "rmdir", change)
    commit._check_free(target)


@pytest.mark.parametrize("overwrite", [False, True])
def test_ctrl_c_right_after_the_rename_leaves_the_new_dataset_alone(target, monkeypatch, overwrite):
    if overwrite:
        build(target, "old")
    rename = pathlib.Path.rename

    def interrupt(path, new):
        moved = rename(path, new)
        if path.name == "dataset":
            raise KeyboardInterrupt
        return moved

    monkeypatch.setattr(pathlib.Path, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        put_and_build(target, "more", "new", overwrite)
    assert texts(target) == {b"new", b"records"}
    assert left_beside(target) == set()
