import os
import subprocess
import sys

import filelock
import pytest
from images import files_below, put, put_images

import tfrds
from tfrds.disk.commit import building
from tfrds.errors import ConfigError, DatasetError
from tfrds.tools.remove import find_removal, remove

IS_ROOT = os.geteuid() == 0


@pytest.fixture
def pets(tmp_path, data_dir):
    """The directory of a small dataset."""
    folder = put_images(tmp_path / "pets", ["cat/a.png", "dog/b.png"])
    return data_dir / tfrds.build("pets", folder, num_workers=1).data_path.relative_to(data_dir)


def leave_by_a_kill(target):
    """Lets a process die in the middle of a build of `target`."""
    script = (
        "import os, pathlib, sys\nfrom tfrds.disk.commit import building\n"
        "with building(pathlib.Path(sys.argv[1]), overwrite=True) as folder:\n"
        "    (folder.files / 'half').write_text('half a shard')\n"
        "    os._exit(9)"
    )
    root = os.path.dirname(os.path.dirname(os.path.abspath(tfrds.__file__)))
    subprocess.run(
        [sys.executable, "-c", script, target], env={**os.environ, "PYTHONPATH": root}, check=False
    )
    assert len(files_below(target.parent / f".tfrds-build-{target.name}")) == 1


def test_a_removal_says_what_it_removes(pets):
    removal = find_removal("pets", None)
    assert removal.directory == pets
    assert (removal.leftovers, removal.name_folder) == ((), pets.parent)
    assert removal.num_files == len(files_below(pets))
    assert removal.num_bytes == sum(map(len, files_below(pets).values()))


def test_the_folder_of_the_name_goes_with_its_last_version(pets, data_dir):
    remove(find_removal("pets:1.0.0", data_dir))
    assert list(data_dir.iterdir()) == []


def test_other_versions_and_files_of_others_stay(tmp_path, pets, data_dir):
    folder = put_images(tmp_path / "more", ["cat/a.png", "dog/b.png"])
    tfrds.build("pets", folder, version="2.0.0", num_workers=1)
    put(pets.parent / "notes.txt", "of somebody")
    before = files_below(pets.parent / "2.0.0")
    remove(find_removal("pets:1.0.0", None))
    assert files_below(pets.parent / "2.0.0") == before
    assert (pets.parent / "notes.txt").read_text() == "of somebody"
    assert not pets.exists()
    remove(find_removal("pets", None))
    assert [path.name for path in pets.parent.iterdir()] == ["notes.txt"]


def test_what_a_killed_build_left_goes_too(pets, data_dir):
    leave_by_a_kill(pets)
    put(pets.parent / ".tfrds-old-1.0.0-abcd" / "file", "old")
    removal = find_removal("pets", None)
    assert [path.name for path in removal.leftovers] == [
        ".tfrds-build-1.0.0",
        ".tfrds-old-1.0.0-abcd",
    ]
    remove(removal)
    assert list(data_dir.iterdir()) == []


def test_leftovers_alone_are_removed_by_their_version(data_dir):
    leave_by_a_kill(data_dir / "pets" / "1.0.0")
    with pytest.raises(DatasetError, match="pets: no such dataset"):
        find_removal("pets", None)
    removal = find_removal("pets:1.0.0", None)
    assert removal.num_files == 1
    remove(removal)
    assert list(data_dir.iterdir()) == []


def test_leftovers_of_other_versions_stay(pets):
    leave_by_a_kill(pets.with_name("1.0.1"))
    remove(find_removal("pets:1.0.0", None))
    assert len(files_below(pets.parent / ".tfrds-build-1.0.1")) == 1


def test_a_dataset_that_is_being_built_stays(pets):
    removal = find_removal("pets", None)
    lock = filelock.FileLock(pets.parent / ".tfrds-build-1.0.0.lock")
    with lock, pytest.raises(DatasetError, match=f"{pets}: is being built by another process"):
        # Another lock object, as in another process.
        remove(removal)
    assert (pets / "tfrds.json").is_file()


def test_it_takes_the_lock_that_builds_take(pets):
    removal = find_removal("pets", None)
    with building(pets, overwrite=True), pytest.raises(DatasetError, match="is being built"):
        remove(removal)


def test_what_is_no_dataset_any_more_stays(pets):
    removal = find_removal("pets", None)
    (pets / "tfrds.json").rename(pets / "other.json")
    with pytest.raises(DatasetError, match=f"{pets}: expected a dataset of tfrds, found none"):
        remove(removal)
    assert (pets / "other.json").is_file()


def test_a_foreign_folder_is_not_found(data_dir):
    put(data_dir / "mnist" / "3.0.1" / "dataset_info.json", "{}")
    with pytest.raises(DatasetError, match=r"mnist:3\.0\.1: no such dataset"):
        find_removal("mnist:3.0.1", None)


def test_a_link_is_removed_and_what_it_points_to_stays(tmp_path, pets, data_dir):
    elsewhere = tmp_path / "elsewhere"
    pets.rename(elsewhere)
    pets.symlink_to(elsewhere)
    remove(find_removal("pets", None))
    assert not pets.is_symlink()
    assert (elsewhere / "tfrds.json").is_file()


def test_a_configuration_goes_with_its_folders(pets, data_dir):
    target = data_dir / "pets" / "small" / "1.0.0"
    target.parent.mkdir()
    pets.rename(target)
    for path in (data_dir / "pets").glob(".tfrds-*"):
        path.unlink()
    removal = find_removal("pets/small:1.0.0", None)
    assert (removal.directory, removal.name_folder) == (target, data_dir / "pets")
    remove(removal)
    assert list(data_dir.iterdir()) == []


@pytest.mark.parametrize("name", ["pets:1.*.*", "pets:*.*.*"])
def test_wildcards_are_refused(pets, name):
    with pytest.raises(ConfigError, match=rf"one version .* got '{name.replace('*', '[*]')}'"):
        find_removal(name, None)


def test_a_file_that_cannot_be_removed_is_told(pets, monkeypatch):
    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("tfrds.tools.remove.shutil.rmtree", refuse)
    with pytest.raises(DatasetError, match=f"{pets}: cannot be removed: .*Permission denied"):
        remove(find_removal("pets", None))
    # It was renamed before: nobody finds half of it.
    assert not pets.exists()
