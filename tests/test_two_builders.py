"""Two builders of one version at once, of this machine or of two, with and without locks."""

import os
import signal
import time

import images
import pytest
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
from tfrds.disk import commit

NAMES = [f"{name}/{number}.png" for name in ("ant", "bee") for number in range(30)]
HOST = "00112233445566aa"  # goes by another name than this machine


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return images.put_images(tmp_path_factory.mktemp("two") / "source", NAMES, 200, 200)


@pytest.fixture(scope="module")
def reference(tmp_path_factory, source):
    """The files of a build that was alone."""
    target = tfrds.build(
        "pets",
        source,
        data_dir=tmp_path_factory.mktemp("alone"),
        encoding="jpeg",
        num_shards=20,
    )
    return images.files_below(target.data_path)


def target_of(data_dir):
    return data_dir / "pets" / "1.0.0"


def check_whole(data_dir, reference):
    """The dataset is that of one builder alone, byte for byte, and nothing else is left."""
    assert find_dataset("pets", data_dir=data_dir) == target_of(data_dir)
    assert images.files_below(target_of(data_dir)) == reference
    assert {path.name for path in (data_dir / "pets").iterdir()} - {".tfrds-build-1.0.0.lock"} == {
        "1.0.0",
        ".tfrds-inputs-1.0.0.npz",
    }


def start_trapped(source, data_dir, num_finished=2, **settings):
    """Starts a builder that cannot end before an image is mended; gives what mends it."""
    mend = trap_source.put_trap(source / NAMES[40], trap_source.ENDLESS)
    process = start(source, data_dir, traps=True, **settings)
    wait_for(lambda: len(finished_shards(data_dir)) >= num_finished, process)
    return process, mend


def check_built(process):
    """Waits until a builder is done; returns what it has logged."""
    out, error = finish(process)
    assert out == ["begins", "built"], error
    return error


def test_second_builder_waits_with_a_message_and_uses_the_result(source, data_dir, reference):
    first, mend = start_trapped(source, data_dir)
    second = start(source, data_dir, traps=True)
    message = second.stderr.readline()
    mend()
    assert message == f"{target_of(data_dir)} is being built by another process: waiting for it.\n"
    check_built(first)
    before = {path: identity(path) for path in target_of(data_dir).iterdir()}
    check_built(second)
    assert {path: identity(path) for path in target_of(data_dir).iterdir()} == before
    check_whole(data_dir, reference)


def test_second_builder_with_other_inputs_waits_and_says_what_is_different(
    source, data_dir, reference, tmp_path
):
    other = images.put_images(tmp_path / "other", ["ant/0.png", "bee/1.png"])
    first, mend = start_trapped(source, data_dir)
    second = start(other, data_dir)
    assert "waiting for it" in second.stderr.readline()
    mend()
    check_built(first)
    out, error = finish(second)
    assert out[1].startswith(
        f"{target_of(data_dir)}: this version exists and was built from something else: "
    ), error
    assert "58 images removed" in out[1]
    check_whole(data_dir, reference)


@pytest.mark.parametrize("is_stopped", [pytest.param(False, marks=pytest.mark.slow), True])
def test_killed_holder_blocks_nobody_and_its_shards_are_used(
    source, data_dir, reference, is_stopped
):
    first, mend = start_trapped(source, data_dir)
    workers = children(first.pid)
    second = start(source, data_dir)
    assert "waiting for it" in second.stderr.readline()
    if is_stopped:
        first.send_signal(signal.SIGSTOP)
    first.kill()
    wait_for(lambda: not any(map(is_running, workers)), seconds=20)
    mend()
    # Before the first one is waited for: it is a zombie now.
    check_built(second)
    first.communicate()
    check_whole(data_dir, reference)


def leave_another_host(source, data_dir):
    """Kills a builder of another host; returns its directory and its finished shards."""
    first, mend = start_trapped(source, data_dir, 5, machine=HOST)
    workers = children(first.pid)
    first.kill()
    first.communicate()
    wait_for(lambda: not any(map(is_running, workers)), seconds=20)
    mend()
    (home,) = homes_of(data_dir)
    assert home.name.startswith(HOST)
    return home, finished_shards(data_dir)


def test_builder_of_another_host_that_may_live_is_not_disturbed(source, data_dir, reference):
    home, before = leave_another_host(source, data_dir)
    check_built(start(source, data_dir))
    assert images.files_below(target_of(data_dir)) == reference
    assert homes_of(data_dir) == [home]
    assert finished_shards(data_dir) == before


def test_shards_of_another_host_that_is_silent_are_used(source, data_dir, reference):
    home, before = leave_another_host(source, data_dir)
    past = time.time() - commit._BEAT_SECONDS * commit._SILENT_BEATS - 5
    os.utime(home, (past, past))
    check_built(start(source, data_dir))
    assert {name: identity(target_of(data_dir) / name) for name in before} == before
    check_whole(data_dir, reference)


@pytest.mark.parametrize("machine", [None, pytest.param(HOST, marks=pytest.mark.slow)])
def test_without_locks_both_finish_and_one_result_stands(source, data_dir, reference, machine):
    first, mend = start_trapped(source, data_dir, without_locks=True)
    second = start(source, data_dir, without_locks=True, traps=True, machine=machine)
    wait_for(lambda: len(homes_of(data_dir)) == 2, second)
    mend()
    assert check_built(first) == check_built(second) == ""
    check_whole(data_dir, reference)


def test_without_locks_the_slower_one_uses_the_result(source, data_dir, reference):
    first, mend = start_trapped(source, data_dir, without_locks=True)
    first.send_signal(signal.SIGSTOP)
    mend()
    check_built(start(source, data_dir, without_locks=True, machine=HOST))
    before = {path: identity(path) for path in target_of(data_dir).iterdir()}
    first.send_signal(signal.SIGCONT)
    check_built(first)
    assert {path: identity(path) for path in target_of(data_dir).iterdir()} == before
    check_whole(data_dir, reference)


def test_without_locks_the_slower_one_of_other_inputs_is_told(
    source, data_dir, reference, tmp_path
):
    other = images.put_images(tmp_path / "other", NAMES[:-1], 200, 200)
    first, mend = start_trapped(other, data_dir, without_locks=True)
    check_built(start(source, data_dir, without_locks=True))
    mend()
    out, error = finish(first)
    assert out[1].startswith(
        f"{target_of(data_dir)}: this version exists and was built from something else: 1 images "
        "removed: bee/29.png"
    ), error
    check_whole(data_dir, reference)
    # What the faster one was built from is still known.
    check_built(start(source, data_dir))


@pytest.mark.slow
def test_without_locks_several_at_once_overwrite_one_another(source, data_dir, reference):
    old = images.put_images(data_dir.parent / "old", ["ant/0.png", "bee/1.png"])
    tfrds.build("pets", old, data_dir=data_dir)
    settings = {"without_locks": True, "overwrite": True, "num_workers": 1}
    processes = [
        start(source, data_dir, machine=machine, **settings) for machine in (None, HOST, None)
    ]
    for process in processes:
        check_built(process)
    check_whole(data_dir, reference)
