"""A build that is killed, interrupted, without room or not alone leaves nothing that loads."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import images
import numpy as np
import pytest
import tensorflow_datasets as tfds

import tfrds
from tfrds.data_dirs import find_dataset
from tfrds.errors import DatasetError

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Arguments: source, data_dir. Says when the build begins, and how it ended.
SCRIPT = """
import logging, signal, sys
import tfrds
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
logging.basicConfig(format="%(message)s")
source, data_dir = sys.argv[1:]
print("begins", flush=True)
try:
    tfrds.build("pets", source, data_dir=data_dir, encoding="jpeg", num_workers=2, num_shards=20)
    print("built")
except tfrds.DatasetError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder that takes half a second or more to encode."""
    folder = tmp_path_factory.mktemp("interrupted") / "source"
    names = [f"{name}/{number}.png" for name in ("ant", "bee") for number in range(30)]
    return images.put_images(folder, names, height=400, width=400)


def start(source, data_dir):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, source, data_dir],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def staging_of(data_dir):
    return data_dir / "pets" / ".tfrds-build-1.0.0"


def wait_for(condition, process):
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.002)


def num_finished_shards(data_dir):
    return len(list(staging_of(data_dir).glob("*-of-00020")))


def assert_nothing_loads(data_dir):
    assert find_dataset("pets", data_dir=data_dir) is None
    assert list(data_dir.rglob("tfrds.json")) == []
    with pytest.raises(DatasetError, match="pets: no such dataset"):
        tfrds.load("pets", data_dir=data_dir)
    with pytest.raises(tfds.core.DatasetNotFoundError):
        tfds.load("pets", data_dir=data_dir)


def assert_builds(source, data_dir):
    process = start(source, data_dir)
    out, error = process.communicate(timeout=60)
    assert out.split() == ["begins", "built"], error
    directory = find_dataset("pets", data_dir=data_dir)
    assert len(list(directory.glob("*-of-00020"))) == 20
    assert not staging_of(data_dir).exists()


def test_killed_builds_leave_nothing_that_loads_and_the_next_one_succeeds(tmp_path, source):
    rng = random.Random(0)
    for moment in (0, 1, rng.randint(2, 9), rng.randint(9, 16)):
        process = start(source, tmp_path)
        wait_for(lambda: staging_of(tmp_path).exists(), process)
        wait_for(lambda count=moment: num_finished_shards(tmp_path) >= count, process)
        time.sleep(rng.random() * 0.01)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert staging_of(tmp_path).exists()
        assert_nothing_loads(tmp_path)
    assert_builds(source, tmp_path)


def test_killed_overwrite_leaves_the_old_dataset(tmp_path, source):
    old = tfrds.build(
        "pets", images.put_images(tmp_path / "s", ["a/1.png", "b/2.png"]), data_dir=tmp_path
    )
    before = images.files_below(old.data_dir)
    code = SCRIPT.replace("num_workers=2", "overwrite=True, num_workers=2")
    process = subprocess.Popen(
        [sys.executable, "-c", code, source, tmp_path], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    wait_for(lambda: num_finished_shards(tmp_path) > 1, process)
    process.kill()
    process.wait()
    assert images.files_below(old.data_dir) == before


def test_ctrl_c_removes_what_was_begun(tmp_path, source):
    process = start(source, tmp_path)
    wait_for(lambda: num_finished_shards(tmp_path) > 0, process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert error.rstrip().endswith("KeyboardInterrupt")
    assert not staging_of(tmp_path).exists()
    assert_nothing_loads(tmp_path)


def test_damaged_image_leaves_nothing(tmp_path):
    source = images.put_images(tmp_path / "source", ["a/1.png", "b/2.png", "b/3.png"])
    images.put(source / "b" / "cut.png", (source / "b" / "2.png").read_bytes()[:-15])
    with pytest.raises(tfrds.EncodeError, match=r"b/cut\.png: cut off or damaged"):
        tfrds.build("pets", source, data_dir=tmp_path / "data", num_workers=2, num_shards=4)
    assert not staging_of(tmp_path / "data").exists()
    assert_nothing_loads(tmp_path / "data")


def test_two_builds_at_once_make_one_dataset(tmp_path, source):
    first = start(source, tmp_path)
    wait_for(lambda: num_finished_shards(tmp_path) > 0, first)
    first.send_signal(signal.SIGSTOP)
    second = start(source, tmp_path)
    message = second.stderr.readline()
    first.send_signal(signal.SIGCONT)
    target = tmp_path / "pets" / "1.0.0"
    assert message == f"{target} is being built by another process: waiting for it.\n"
    out, _ = first.communicate(timeout=60)
    assert out.split() == ["begins", "built"]
    before = {path: path.stat().st_mtime_ns for path in target.iterdir()}
    out, error = second.communicate(timeout=60)
    # Whether both had the same source is not known, so the second one does not pass for its own.
    assert f"{target}: another process has built this version meanwhile" in out, error
    assert {path: path.stat().st_mtime_ns for path in target.iterdir()} == before
    assert find_dataset("pets", data_dir=tmp_path) == target
    assert not staging_of(tmp_path).exists()


@pytest.mark.parametrize("kind", ["here", "workers"])
def test_full_disk_leaves_nothing(tiny_disk, tmp_path, kind):
    if kind == "here":
        pixels = np.zeros((500, 28, 28), np.uint8)
        pixels[:250] = 1
        source = tfrds.sources.Arrays(pixels, [0, 1] * 250)
    else:
        names = [f"{name}/{number}.png" for name in "ab" for number in range(10)]
        source = images.put_images(tmp_path / "source", names, height=100, width=100)
    with pytest.raises(DatasetError, match=rf"{tiny_disk}/pets/1\.0\.0: the disk is full"):
        tfrds.build("pets", source, data_dir=tiny_disk, num_workers=2, num_shards=5)
    assert_nothing_loads(tiny_disk)
    assert {path.suffix for path in tiny_disk.rglob("*") if path.is_file()} <= {".lock"}
    small = tfrds.sources.Arrays(np.zeros((4, 2, 2), np.uint8), [0, 1, 0, 1])
    tfrds.build("pets", small, data_dir=tiny_disk)
    assert len(tfrds.load("pets", split="train", data_dir=tiny_disk)) == 4


def test_read_only_disk_is_said_before_any_work(tiny_disk, tmp_path):
    source = images.put_images(tmp_path / "source", ["a/1.png", "b/2.png"])
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    with pytest.raises(
        DatasetError, match=rf"{tiny_disk}/pets/1\.0\.0: cannot be written: Read-only"
    ):
        tfrds.build("pets", source, data_dir=tiny_disk)
    assert list(tiny_disk.iterdir()) == []
