import os
import pathlib
import subprocess
import sys

import filelock
import images
import pytest

import tfrds
from tfrds import cli
from tfrds.disk.commit import building
from tfrds.errors import DatasetError
from tfrds.tools.clean import find_leftovers, remove_leftovers

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Arguments: source, data_dir. Dies when its first shard is finished.
KILLED = """
import os, sys, tfrds
from tfrds.tools.progress import ProgressDisplay
from tfrds.no_code import build_dataset
from tfrds.write.run import Execution
source, data_dir = sys.argv[1:]
build_dataset(
    "pets", source, tfrds.BuildOptions(num_shards=4, encoding="original"), data_dir=data_dir,
    version="1.0.0", overwrite=False, fingerprint="stat",
    execution=Execution(num_workers=1, progress=lambda *_: os._exit(9)),
)
"""


@pytest.fixture
def source(tmp_path):
    return images.put_images(tmp_path / "source", [f"{c}/{i}.png" for c in "ab" for i in range(8)])


@pytest.fixture
def interrupted(source, data_dir):
    """A data directory with a build that was killed; gives the folder of its name."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    code = subprocess.run([sys.executable, "-c", KILLED, source, data_dir], env=environment)
    assert code.returncode == 9
    return data_dir / "pets"


def test_loading_says_what_is_there_and_how_to_go_on(interrupted, source, data_dir):
    # The worker may finish a second shard before its parent dies.
    with pytest.raises(
        DatasetError,
        match=rf"^pets: no such dataset .* A build of version 1\.0\.0 in {interrupted} was "
        r"interrupted with [12] of 4 shards finished: the same build goes on from there, "
        r"`tfrds clean` removes it\.$",
    ):
        tfrds.load("pets")
    tfrds.build("pets", source, num_shards=4, encoding="original")
    assert len(tfrds.load("pets", split="train")) == 16


def test_leftovers_of_a_killed_build_are_found_and_removed(interrupted, data_dir):
    found = find_leftovers(None)
    (path,) = found.paths
    assert path.parent == interrupted / ".tfrds-build-1.0.0"
    assert found.num_bytes == sum(map(len, images.files_below(path).values())) > 0
    remove_leftovers(found)
    assert images.files_below(data_dir).keys() <= {"pets/.tfrds-build-1.0.0.lock"}
    remove_leftovers(find_leftovers(None))
    assert not interrupted.exists()


def test_clean_takes_nothing_that_is_needed(source, data_dir):
    builder = tfrds.build("pets", source)
    before = images.files_below(data_dir)
    assert find_leftovers(None).paths == ()
    with building(data_dir / "dogs" / "1.0.0", overwrite=False) as build:
        images.put(build.files / "shard", "half")
        assert find_leftovers(None).paths == ()
        for name in ("tfrds.json", "features.json", "dataset_info.json"):
            images.put(build.files / name, "{}")
    lock = filelock.FileLock(data_dir / "pets" / ".tfrds-build-1.0.0.lock")
    images.put(data_dir / "pets" / ".tfrds-old-1.0.0-12345678" / "shard", "old")
    with lock:
        assert find_leftovers(None).paths == ()
    remove_leftovers(find_leftovers(None))
    assert pathlib.Path(builder.data_dir).exists()
    after = images.files_below(data_dir)
    assert {name: data for name, data in after.items() if "dogs" not in name} == before


def test_dataset_that_a_killed_overwrite_left_aside_stays(source, data_dir):
    builder = tfrds.build("pets", source)
    target = pathlib.Path(builder.data_dir)
    target.rename(target.parent / ".tfrds-old-1.0.0-12345678")
    paths = find_leftovers(None).paths
    names = [path.name for path in paths]
    assert names == [".tfrds-build-1.0.0.lock", ".tfrds-inputs-1.0.0.npz"]


def test_noted_inputs_of_a_version_that_is_gone_are_left(source, data_dir):
    builder = tfrds.build("pets", source)
    tfrds.build("pets", source, version="2.0.0")
    subprocess.run(["rm", "-r", str(builder.data_dir)], check=True)
    names = [path.name for path in find_leftovers(data_dir).paths]
    assert names == [".tfrds-build-1.0.0.lock", ".tfrds-inputs-1.0.0.npz"]


def test_configurations_are_searched_too(data_dir):
    images.put(data_dir / "pets" / "small" / ".tfrds-build-1.0.0" / "kept.1234" / "shard", "half")
    images.put(data_dir / "pets" / "small" / "notes.txt", "of somebody")
    (path,) = find_leftovers(None).paths
    assert path.name == "kept.1234"
    remove_leftovers(find_leftovers(None))
    assert images.files_below(data_dir) == {"pets/small/notes.txt": b"of somebody"}


def test_what_cannot_be_removed_is_named(data_dir, monkeypatch):
    path = data_dir / "pets" / ".tfrds-build-1.0.0" / "kept.1234"
    images.put(path / "shard", "half")
    found = find_leftovers(None)

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(
        DatasetError, match=rf"^{path}: cannot be removed: .*Permission denied.*clean again\.$"
    ):
        remove_leftovers(found)


def test_command_line_asks_and_removes(interrupted, data_dir, capsys):
    assert cli.main(["clean"]) == 2
    captured = capsys.readouterr()
    assert ".tfrds-build-1.0.0" in captured.out
    assert "1 leftovers" in captured.out
    assert "There is no terminal to ask on. Pass --yes" in captured.err
    assert cli.main(["clean", "--yes"]) == 0
    assert capsys.readouterr().out.endswith("Removed.\n")
    assert cli.main(["clean", "--yes"]) == 0
    cli.main(["clean"])
    assert capsys.readouterr().out.endswith("Nothing is left of abandoned builds.\n")
