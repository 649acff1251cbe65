"""A build that is killed, interrupted or without room leaves nothing that loads, and is resumed.

Killed at every change of a file: see test_build_killed.py; two builders: test_two_builders.py.
"""

import dataclasses
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import images
import numpy as np
import pytest
import tensorflow_datasets as tfds
import trap_source
from build_script import (
    children,
    finish,
    finished_shards,
    homes_of,
    identity,
    is_running,
    start,
    wait_for,
)

import tfrds
from tfrds.data_dirs import find_dataset
from tfrds.disk.journal import Journal
from tfrds.errors import DatasetError
from tfrds.revise import edit
from tfrds.write.executors import ThisProcess
from tfrds.write.plan import make_plan
from tfrds.write.run import plan_slices

NAMES = [f"{name}/{number}.png" for name in ("ant", "bee") for number in range(30)]
TRAP = NAMES[40]
ARGUMENTS = {"encoding": "jpeg", "num_shards": 20}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder that is the same for all tests."""
    folder = tmp_path_factory.mktemp("interrupted") / "source"
    return images.put_images(folder, NAMES, height=200, width=200)


@pytest.fixture(scope="module")
def reference(tmp_path_factory, source):
    """The files of an uninterrupted build."""
    return fresh(source, tmp_path_factory.mktemp("reference"))


@pytest.fixture
def own_source(tmp_path, source):
    """A copy of the folder, with its times of change, that a test may change."""
    return shutil.copytree(source, tmp_path / "source")


@pytest.fixture(scope="module")
def killed_once(tmp_path_factory, source):
    """The data directory of a build that was killed with half of its shards finished."""
    folder = tmp_path_factory.mktemp("killed")
    copy = shutil.copytree(source, folder / "source")
    assert 10 <= len(kill(copy, folder / "data", 10)) < 20
    return folder / "data"


@pytest.fixture
def killed(data_dir, killed_once):
    """The finished shards, with identities, of a copy of that directory in `data_dir`."""
    shutil.copytree(killed_once, data_dir)
    return finished_shards(data_dir)


def files_of(target):
    return images.files_below(target)


def target_of(data_dir):
    return data_dir / "pets" / "1.0.0"


def keys_of_shards(source):
    """Returns the keys that each shard is made of, by the shard's name."""
    plan = make_plan(tfrds.sources.ImageFolder(source), tfrds.BuildOptions(**ARGUMENTS))
    return {
        part.path.name: [plan.keys[row].decode() for row in part.rows.tolist()]
        for part in plan_slices(plan, target_of(source), "pets")
    }


def start_trapped(source, data_dir, kind=trap_source.ENDLESS, **settings):
    """Starts a build that cannot end before one of its images is mended; gives what mends it."""
    mend = trap_source.put_trap(source / TRAP, kind)
    return start(source, data_dir, traps=True, **settings), mend


def kill(source, data_dir, num_finished, **settings):
    """Kills a build by SIGKILL that has finished so many shards; returns those with identities."""
    process, mend = start_trapped(source, data_dir, **settings)
    wait_for(lambda: homes_of(data_dir), process)
    wait_for(lambda: len(finished_shards(data_dir)) >= num_finished, process)
    time.sleep(random.Random(num_finished).random() * 0.02)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    mend()
    return finished_shards(data_dir)


def resume(source, data_dir, **arguments):
    """Builds again, to the end; returns the shards with identities."""
    options = {**ARGUMENTS, "executor": ThisProcess(), **arguments}
    target = tfrds.build("pets", source, data_dir=data_dir, **options).data_path
    assert target == target_of(data_dir)
    return {path.name: identity(path) for path in target.glob("*-of-00020")}


def fresh(source, folder, **arguments):
    """Returns the files of an uninterrupted build."""
    options = {**ARGUMENTS, "executor": ThisProcess(), **arguments}
    return files_of(tfrds.build("pets", source, data_dir=folder / "fresh", **options).data_path)


def assert_nothing_loads(data_dir):
    assert find_dataset("pets", data_dir=data_dir) is None
    assert not target_of(data_dir).exists()
    with pytest.raises(DatasetError, match="pets: no such dataset"):
        tfrds.load("pets", data_dir=data_dir)
    with pytest.raises(tfds.core.DatasetNotFoundError):
        tfds.load("pets", data_dir=data_dir)


def assert_only_the_dataset_is_left(data_dir):
    assert {path.name for path in (data_dir / "pets").iterdir()} == {
        "1.0.0",
        ".tfrds-build-1.0.0.lock",
        ".tfrds-inputs-1.0.0.npz",
    }


# Killed.


def check_same_command_goes_on(source, data_dir, reference):
    """Runs the command of a killed build again: finished shards are reused, no byte is other."""
    before = finished_shards(data_dir)
    is_finished = target_of(data_dir).exists()
    if not is_finished:
        assert_nothing_loads(data_dir)
    out, error = finish(start(source, data_dir))
    assert out == ["begins", "built"], error
    assert {name: identity(target_of(data_dir) / name) for name in before} == before
    assert files_of(target_of(data_dir)) == reference
    if not is_finished:  # else a journal may stay until something is built or cleaned
        assert_only_the_dataset_is_left(data_dir)
    return len(before)


@pytest.mark.parametrize("num_finished", [0, 3, 9, 19])
def test_killed_build_goes_on_where_it_stood(own_source, data_dir, reference, num_finished):
    assert len(kill(own_source, data_dir, num_finished)) >= num_finished
    num_reused = check_same_command_goes_on(own_source, data_dir, reference)
    assert num_finished <= num_reused <= 19


@pytest.mark.slow
def test_builds_killed_at_any_moment_go_on_where_they_stood(tmp_path):
    source = images.put_images(tmp_path / "source", NAMES, height=500, width=500)
    process = start(source, tmp_path / "whole")
    wait_for(lambda: homes_of(tmp_path / "whole"), process)
    begin = time.monotonic()
    finish(process)
    seconds = time.monotonic() - begin
    reference = files_of(target_of(tmp_path / "whole"))
    rng = random.Random(0)
    reused = []
    for number in range(24):
        data_dir = tmp_path / str(number)
        process = start(source, data_dir)
        wait_for(lambda data_dir=data_dir: homes_of(data_dir), process)
        time.sleep(rng.random() * seconds)
        process.kill()
        process.communicate()
        reused.append(check_same_command_goes_on(source, data_dir, reference))
        shutil.rmtree(data_dir)
    assert sum(map(bool, reused)) >= 5, reused


def test_build_killed_again_and_again_comes_to_its_end(own_source, data_dir, reference):
    before = {}
    for num_finished in (5, 12):
        now = kill(own_source, data_dir, num_finished)
        assert {name: now[name] for name in before} == before
        assert len(homes_of(data_dir)) == 1
        before = now
    after = resume(own_source, data_dir)
    assert {name: after[name] for name in before} == before
    assert files_of(target_of(data_dir)) == reference


def test_inputs_of_finished_shards_are_not_read_again(own_source, data_dir, reference, killed):
    for name, keys in keys_of_shards(own_source).items():
        for key in keys if name in killed else ():
            path = own_source / key
            status, head = path.stat(), path.read_bytes()[:200]
            path.write_bytes(head.ljust(status.st_size, b"x"))  # no image any more
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    resume(own_source, data_dir)
    assert files_of(target_of(data_dir)) == reference


def test_input_that_changed_meanwhile_is_read_again(own_source, data_dir, tmp_path, killed):
    changed = sorted(killed)[3]
    key = keys_of_shards(own_source)[changed][0]
    images.put(own_source / key, images.encoded(images.noise(999, 200, 200)))
    after = resume(own_source, data_dir)
    assert {name for name in killed if after[name] != killed[name]} == {changed}
    assert files_of(target_of(data_dir)) == fresh(own_source, tmp_path)


@pytest.mark.parametrize("change", ["added", "moved"])
def test_other_inputs_make_the_dataset_of_a_fresh_build(
    own_source, data_dir, tmp_path, killed, change
):
    path = own_source / NAMES[7]
    if change == "added":
        images.put(own_source / "ant" / "new.png", images.encoded(images.noise(1, 9, 9)))
    else:
        path.rename(own_source / "bee" / "new.png")
    resume(own_source, data_dir)
    assert files_of(target_of(data_dir)) == fresh(own_source, tmp_path)


@pytest.mark.parametrize("options", [{"jpeg_quality": 50}, {"num_shards": 3, "splits": 2}])
def test_other_options_make_the_dataset_of_a_fresh_build(
    source, data_dir, tmp_path, killed, options
):
    resume(source, data_dir, **options)
    assert files_of(target_of(data_dir)) == fresh(source, tmp_path, **options)
    assert_only_the_dataset_is_left(data_dir)


def test_damaged_or_outdated_shards_are_done_again(source, data_dir, reference, killed):
    (home,) = homes_of(data_dir)
    shards = [home / "dataset" / name for name in sorted(killed)]
    entries = [home / "journal" / f"{shard.name}.json" for shard in shards]
    rows = [home / "journal" / f"{shard.name}.npy" for shard in shards]
    data = bytearray(shards[0].read_bytes())
    data[len(data) // 2] ^= 1
    shards[0].write_bytes(data)
    os.truncate(shards[1], shards[1].stat().st_size - 1)
    shards[2].unlink()
    entries[3].write_text("{")
    entries[4].write_text(json.dumps({**json.loads(entries[4].read_text()), "skipped": [[0, 1]]}))
    np.save(rows[5], np.zeros(3, np.int64))
    rows[6].unlink()
    journal = Journal(home / "journal")
    entry = journal.get(shards[7].name)
    journal.add(shards[7].name, dataclasses.replace(entry, encoders={"Pillow": "0.1"}))
    images.put(home / "dataset" / "pets-train.tfrecord-00000-of-00001", "not of this build")
    after = resume(source, data_dir)
    again = {shard.name for shard in shards[:8]}
    assert {name for name in killed if after[name] != killed[name]} == again
    assert files_of(target_of(data_dir)) == reference


def test_killed_build_is_told_of_where_the_dataset_is_asked_for(data_dir, killed):
    with pytest.raises(
        DatasetError,
        match=rf"A build of version 1\.0\.0 .* with {len(killed)} of 20 shards finished",
    ):
        tfrds.load("pets", data_dir=data_dir)


def test_killed_overwrite_leaves_the_old_dataset_and_goes_on(
    tmp_path, own_source, data_dir, reference
):
    folder = images.put_images(tmp_path / "s", ["a/1.png", "b/2.png"])
    old = tfrds.build("pets", folder, data_dir=data_dir, executor=ThisProcess())
    before = files_of(old.data_path)
    finished = kill(own_source, data_dir, 5, overwrite=True)
    assert files_of(old.data_path) == before
    assert len(tfrds.load("pets", split="train", data_dir=data_dir)) == 2
    after = resume(own_source, data_dir, overwrite=True)
    assert {name: after[name] for name in finished} == finished
    assert files_of(target_of(data_dir)) == reference


@pytest.mark.parametrize("moment", ["before", "after"])
def test_kill_at_the_rename_is_as_good_as_one_before_or_after(source, data_dir, reference, moment):
    process = start(source, data_dir, killed_at_rename=moment)
    finish(process)
    assert process.returncode == -signal.SIGKILL
    assert target_of(data_dir).exists() == (moment == "after")
    before = finished_shards(data_dir)
    assert len(before) == (20 if moment == "before" else 0)
    # After: the dataset is reused, since it is known what it was built from.
    after = resume(source, data_dir)
    assert {name: after[name] for name in before} == before
    assert files_of(target_of(data_dir)) == reference


# Workers that die.


def shard_of_the_trap(source):
    (shard,) = (name for name, keys in keys_of_shards(source).items() if TRAP in keys)
    return shard


def test_worker_that_is_killed_once_is_named_and_replaced(own_source, data_dir, reference):
    process, mend = start_trapped(own_source, data_dir)
    # One worker does all the other shards, the other one sits in the trap.
    wait_for(lambda: len(finished_shards(data_dir)) == 19, process)
    pids = children(process.pid)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    mend()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)  # the one without a task is missed by nobody
    out, error = finish(process)
    assert out == ["begins", "built"], error
    assert (
        "A worker process was killed by signal 9 (out of memory?) at "
        f"{shard_of_the_trap(own_source)}, input {TRAP}. Free memory or pass a smaller "
        "num_workers. Attempt 2 of 3 begins.\n"
    ) in error
    assert error.count("A worker process") == 1
    assert files_of(target_of(data_dir)) == reference


def test_input_that_kills_each_time_is_named_and_all_else_is_kept(own_source, data_dir, reference):
    process, mend = start_trapped(own_source, data_dir, trap_source.DEADLY)
    out, error = finish(process)
    shard = shard_of_the_trap(own_source)
    assert out == [
        "begins",
        "3 worker processes died: the last was killed by signal 9 (out of memory?) at "
        f"{shard}, input {TRAP}. Free memory or pass a smaller num_workers.",
    ]
    assert re.findall(r"Attempt \d of 3 begins\.\n", error) == [
        "Attempt 2 of 3 begins.\n",
        "Attempt 3 of 3 begins.\n",
    ]
    assert_nothing_loads(data_dir)
    before = finished_shards(data_dir)
    assert len(before) == 19
    assert shard not in before
    mend()
    after = resume(own_source, data_dir)
    assert {name: after[name] for name in before} == before
    assert files_of(target_of(data_dir)) == reference


def start_with_traps_only(source, data_dir):
    """Starts a build that is at its first two images, which never end."""
    for name in NAMES:
        trap_source.put_trap(source / name, trap_source.ENDLESS)
    process = start(source, data_dir, traps=True)
    wait_for(lambda: len(list(data_dir.rglob("*.at"))) == 2, process)
    return process


def test_workers_end_with_a_killed_build(own_source, data_dir):
    process = start_with_traps_only(own_source, data_dir)
    pids = children(process.pid)
    assert len(pids) == 2
    process.kill()
    process.communicate()
    wait_for(lambda: not any(map(is_running, pids)), seconds=20)


# Interrupted.


def test_ctrl_c_ends_a_build_within_two_seconds_and_it_goes_on(own_source, data_dir, reference):
    seconds = []
    # The time that matters is that of a machine which is not busy with something else.
    while min(seconds, default=60) > 2 and len(seconds) < 4:
        process, mend = start_trapped(own_source, data_dir)
        wait_for(lambda process=process: len(finished_shards(data_dir)) == 19, process)
        pids = children(process.pid)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(60)
        seconds.append(time.monotonic() - begin)
        _, error = finish(process)
        mend()
        assert process.returncode == -signal.SIGINT
        assert error.rstrip().endswith("KeyboardInterrupt")
        assert not any(map(is_running, pids))
        assert_nothing_loads(data_dir)
        (home,) = homes_of(data_dir)
        assert home.name.startswith("kept.")
    assert min(seconds) < 2
    before = finished_shards(data_dir)
    assert len(before) == 19
    after = resume(own_source, data_dir)
    assert {name: after[name] for name in before} == before
    assert files_of(target_of(data_dir)) == reference


def test_ctrl_c_before_the_first_shard_leaves_nothing(own_source, data_dir):
    process = start_with_traps_only(own_source, data_dir)
    process.send_signal(signal.SIGINT)
    finish(process)
    assert process.returncode == -signal.SIGINT
    assert list(data_dir.iterdir()) == []


# Errors.


def test_damaged_image_is_no_dataset_and_mended_the_rest_is_reused(own_source, data_dir, reference):
    path = own_source / TRAP
    data = path.read_bytes()
    path.write_bytes(data[:-15])
    with pytest.raises(tfrds.EncodeError, match=rf"{TRAP}: cut off or damaged"):
        resume(own_source, data_dir)
    assert_nothing_loads(data_dir)
    before = finished_shards(data_dir)
    assert len(before) == 19
    path.write_bytes(data)
    after = resume(own_source, data_dir)
    assert {name: after[name] for name in before} == before
    assert files_of(target_of(data_dir)) == reference


def test_errors_of_a_source_with_one_bad_image_of_few_leave_little(tmp_path, data_dir):
    source = images.put_images(tmp_path / "source", ["a/1.png", "b/2.png"])
    images.put(source / "b" / "2.png", (source / "b" / "2.png").read_bytes()[:-15])
    with pytest.raises(tfrds.EncodeError, match=r"b/2\.png: cut off or damaged"):
        tfrds.build("pets", source, data_dir=data_dir, num_workers=2, num_shards=1)
    assert list(data_dir.iterdir()) == []


def test_edit_takes_nothing_of_an_interrupted_build_of_its_version(source, data_dir, killed):
    old = tfrds.build(
        "pets", source, data_dir=data_dir, version="0.9.0", executor=ThisProcess(), encoding="raw"
    )
    new = edit("pets:0.9.0", relabel={NAMES[0]: "bee"}, data_dir=data_dir, version="1.0.0")
    assert {path.name for path in new.data_path.iterdir()} == {
        path.name for path in old.data_path.iterdir()
    }
    assert not homes_of(data_dir)


# Without room.


@pytest.fixture
def large_source(tmp_path):
    """Images that are more as JPEGs than is foreseen, and than 256 kB."""
    names = [f"{name}/{number}.png" for name in "ab" for number in range(15)]
    return images.put_images(tmp_path / "source", names, height=100, width=100)


def test_full_disk_keeps_what_is_finished_and_with_room_the_build_goes_on(
    tiny_disk, large_source, tmp_path
):
    options = {"encoding": "jpeg", "num_workers": 2, "num_shards": 10}
    with pytest.raises(
        DatasetError,
        match=rf"^{target_of(tiny_disk)}: the disk is full, [\d,]+ bytes are free, about "
        r"[\d,]+ more are needed\. Finished "
        r"shards are kept: free space and run the same build again to go on, or choose another "
        r"data_dir\.$",
    ):
        tfrds.build("pets", large_source, data_dir=tiny_disk, **options)
    assert_nothing_loads(tiny_disk)
    before = finished_shards(tiny_disk)
    assert len(before) >= 3
    subprocess.run(["mount", "-o", "remount,size=4m", str(tiny_disk)], check=True)
    target = tfrds.build("pets", large_source, data_dir=tiny_disk, **options).data_path
    after = {path.name: identity(path) for path in target.glob("*-of-00010")}
    assert {name: after[name] for name in before} == before
    fresh = tfrds.build("pets", large_source, data_dir=tmp_path / "fresh", **options).data_path
    assert files_of(target) == files_of(fresh)


def test_raw_images_that_do_not_fit_are_refused_before_any_work(tiny_disk):
    pixels = np.zeros((500, 28, 28), np.uint8)
    pixels[:250] = 1
    free = shutil.disk_usage(tiny_disk).free
    with pytest.raises(DatasetError) as caught:
        tfrds.build("pets", tfrds.sources.Arrays(pixels, [0, 1] * 250), data_dir=tiny_disk)
    match = re.fullmatch(
        rf"{tiny_disk}/pets/1\.0\.0: the images take about 392,000 bytes more, ([\d,]+) are free\. "
        r"Free space, or choose another data_dir\.",
        str(caught.value),
    )
    assert free - 2**16 <= int(match[1].replace(",", "")) <= free
    assert list(tiny_disk.iterdir()) == []
    small = tfrds.sources.Arrays(np.zeros((4, 2, 2), np.uint8), [0, 1, 0, 1])
    tfrds.build("pets", small, data_dir=tiny_disk)
    assert len(tfrds.load("pets", split="train", data_dir=tiny_disk)) == 4


def test_files_of_twice_the_room_are_refused_before_any_work(tiny_disk, large_source):
    needed = sum(path.stat().st_size for path in large_source.rglob("*.png"))
    assert needed > 2 * 2**18
    with pytest.raises(DatasetError, match=rf"take about {needed:,} bytes more, [\d,]+ are free"):
        tfrds.build("pets", large_source, data_dir=tiny_disk, encoding="original")
    assert list(tiny_disk.iterdir()) == []


def test_files_of_little_more_than_the_room_are_told_and_tried(tiny_disk, large_source, caplog):
    for path in sorted(large_source.rglob("*.png"))[12:]:
        path.unlink()
    (large_source / "b").rename(large_source / "c")
    images.put_images(large_source, ["b/1.png"])
    needed = sum(path.stat().st_size for path in large_source.rglob("*.png"))
    assert 2**18 < needed < 2 * 2**18
    with pytest.raises(DatasetError, match="the disk is full"):
        tfrds.build("pets", large_source, data_dir=tiny_disk, encoding="original")
    assert re.search(rf"the images take about {needed:,} bytes more, [\d,]+ are free", caplog.text)


def test_read_only_disk_is_said_before_any_work(tiny_disk, tmp_path):
    source = images.put_images(tmp_path / "source", ["a/1.png", "b/2.png"])
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    with pytest.raises(
        DatasetError, match=rf"{tiny_disk}/pets/1\.0\.0: cannot be written: Read-only"
    ):
        tfrds.build("pets", source, data_dir=tiny_disk)
    assert list(tiny_disk.iterdir()) == []
