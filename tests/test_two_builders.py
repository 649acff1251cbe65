"""Two builders of one version at once, of this machine or of two, with and without locks."""

import os
import signal
import time

import images
import pytest
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
    return images.put_images(tmp_path_factory.mktemp("two") / "source", NAMES, 300, 300)


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


def start_and_stop(source, data_dir, num_finished=2, **settings):
    """Starts a builder that stands still when it has finished so many shards."""
    process = start(source, data_dir, **settings)
    wait_for(lambda: len(finished_shards(data_dir)) >= num_finished, process)
    process.send_signal(signal.SIGSTOP)
    assert not target_of(data_dir).exists()
    return process


def test_second_builder_waits_with_a_message_and_uses_the_result(source, data_dir, reference):
    first = start_and_stop(source, data_dir)
    second = start(source, data_dir)
    message = second.stderr.readline()
    first.send_signal(signal.SIGCONT)
    assert message == (
        f"{target_of(data_dir)} is being built by another process: waiting for it.\n"
    )
    out, error = finish(first)
    assert out == ["begins", "built"], error
    before = {path: identity(path) for path in target_of(data_dir).iterdir()}
    out, error = finish(second)
    assert out == ["begins", "built"], error
    assert {path: identity(path) for path in target_of(data_dir).iterdir()} == before
    check_whole(data_dir, reference)


def test_second_builder_with_other_inputs_waits_and_says_what_is_different(
    source, data_dir, reference, tmp_path
):
    other = images.put_images(tmp_path / "other", ["ant/0.png", "bee/1.png"])
    first = start_and_stop(source, data_dir)
    second = start(other, data_dir)
    second.stderr.readline()
    first.send_signal(signal.SIGCONT)
    finish(first)
    out, error = finish(second)
    assert out[1].startswith(
        f"{target_of(data_dir)}: this version exists and was built from something else: "
    ), error
    assert "58 images removed" in out[1]
    check_whole(data_dir, reference)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_killed_holder_blocks_nobody_and_its_shards_are_used(
    source, data_dir, reference, is_stopped
):
    first = start_and_stop(source, data_dir)
    workers = children(first.pid)
    second = start(source, data_dir)
    assert "waiting for it" in second.stderr.readline()
    if not is_stopped:
        first.send_signal(signal.SIGCONT)
    first.kill()
    wait_for(lambda: not any(map(is_running, workers)), seconds=20)
    out, error = finish(second)  # before the zombie of the first one is waited for
    first.communicate()
    assert out == ["begins", "built"], error
    check_whole(data_dir, reference)


def test_shards_of_a_killed_builder_of_this_machine_are_used_at_once(source, data_dir, reference):
    first = start_and_stop(source, data_dir, 5)
    first.kill()
    first.communicate()
    before = finished_shards(data_dir)
    out, error = finish(start(source, data_dir))
    assert out == ["begins", "built"], error
    assert {name: identity(target_of(data_dir) / name) for name in before} == before
    check_whole(data_dir, reference)


def test_builder_of_another_host_that_may_live_is_not_disturbed(source, data_dir, reference):
    first = start_and_stop(source, data_dir, 5, machine=HOST)
    first.kill()
    first.communicate()
    (home,) = homes_of(data_dir)
    before = finished_shards(data_dir)
    out, error = finish(start(source, data_dir))
    assert out == ["begins", "built"], error
    assert images.files_below(target_of(data_dir)) == reference
    assert homes_of(data_dir) == [home]
    assert finished_shards(data_dir) == before


def test_shards_of_another_host_that_is_silent_are_used(source, data_dir, reference):
    first = start_and_stop(source, data_dir, 5, machine=HOST)
    first.kill()
    first.communicate()
    (home,) = homes_of(data_dir)
    assert home.name.startswith(HOST)
    before = finished_shards(data_dir)
    # A host's silence is measured by the time of its directory.
    past = time.time() - commit._BEAT_SECONDS * commit._SILENT_BEATS - 5
    os.utime(home, (past, past))
    out, error = finish(start(source, data_dir))
    assert out == ["begins", "built"], error
    assert {name: identity(target_of(data_dir) / name) for name in before} == before
    check_whole(data_dir, reference)


@pytest.mark.parametrize("machine", [None, HOST])
def test_without_locks_both_finish_and_one_result_stands(source, data_dir, reference, machine):
    first = start_and_stop(source, data_dir, without_locks=True)
    second = start(source, data_dir, without_locks=True, machine=machine)
    wait_for(lambda: len(homes_of(data_dir)) == 2, second)
    first.send_signal(signal.SIGCONT)
    for process in (first, second):
        out, error = finish(process)
        assert out == ["begins", "built"], error
        assert error == ""
    check_whole(data_dir, reference)


def test_without_locks_the_slower_one_uses_the_result(source, data_dir, reference):
    first = start_and_stop(source, data_dir, without_locks=True)
    out, error = finish(start(source, data_dir, without_locks=True, machine=HOST))
    assert out == ["begins", "built"], error
    before = {path: identity(path) for path in target_of(data_dir).iterdir()}
    first.send_signal(signal.SIGCONT)
    out, error = finish(first)
    assert out == ["begins", "built"], error
    assert {path: identity(path) for path in target_of(data_dir).iterdir()} == before
    check_whole(data_dir, reference)


def test_without_locks_the_slower_one_of_other_inputs_is_told(
    source, data_dir, reference, tmp_path
):
    other = images.put_images(tmp_path / "other", NAMES[:-1], 300, 300)
    first = start_and_stop(other, data_dir, without_locks=True)
    out, error = finish(start(source, data_dir, without_locks=True))
    assert out == ["begins", "built"], error
    first.send_signal(signal.SIGCONT)
    out, error = finish(first)
    assert out[1].startswith(
        f"{target_of(data_dir)}: this version exists and was built from something else: 1 images "
        "removed: bee/29.png"
    ), error
    check_whole(data_dir, reference)
    # What the faster one was built from is still known.
    out, error = finish(start(source, data_dir))
    assert out == ["begins", "built"], error


def test_without_locks_several_at_once_overwrite_one_another(source, data_dir, reference):
    old = images.put_images(data_dir.parent / "old", ["ant/0.png", "bee/1.png"])
    tfrds.build("pets", old, data_dir=data_dir)
    settings = {"without_locks": True, "overwrite": True, "num_shards": 20, "num_workers": 1}
    processes = [
        start(source, data_dir, machine=machine, **settings) for machine in (None, HOST, None)
    ]
    for process in processes:
        out, error = finish(process)
        assert out == ["begins", "built"], error
    check_whole(data_dir, reference)
