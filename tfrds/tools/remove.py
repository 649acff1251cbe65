"""Removes one version of a dataset, and what a killed build of it left.

Gets a name, first gives a `Removal` to be confirmed, then carries it out. A dataset is renamed
aside before its files go, so that nobody ever finds a half of it.
"""

import contextlib
import dataclasses
import os
import pathlib
import shutil
from collections.abc import Iterator

import filelock

from tfrds.data_dirs import find_dataset, not_found, roots_of
from tfrds.disk.layout import (
    aside_dir,
    find_versions,
    inputs_file,
    is_dataset,
    leftovers,
    lock_file,
)
from tfrds.errors import ConfigError, DatasetError
from tfrds.tools.dataset_name import DatasetName, parse_dataset_name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Removal:
    """What would be removed.

    Attributes:
      directory: of the dataset's version; not there where only leftovers are.
      name_folder: of all its versions and configurations.
      leftovers: directories of killed builds of this version.
      num_files, num_bytes: of all of it.
    """

    directory: pathlib.Path
    name_folder: pathlib.Path
    leftovers: tuple[pathlib.Path, ...]
    num_files: int
    num_bytes: int


def find_removal(text: str, data_dir: os.PathLike[str] | str | None) -> Removal:
    """Returns what `tfrds rm` of `name[/config][:version]` would remove.

    Args:
      text: names one version; the version may be left out where there is only one.
      data_dir: root of all datasets; None: TFDS's own.

    Raises:
      ConfigError: a version with wildcards, or none where there are several.
      DatasetError: nothing of that name and version.
    """
    wanted = parse_dataset_name(text)
    if wanted.version and "*" in wanted.version:
        raise ConfigError(f"name: one version is removed at a time, got {text!r}. Name it in full.")
    directory = find_dataset(
        wanted.name, config=wanted.config, version=wanted.version, data_dir=data_dir
    )
    if directory is None:
        directory = _only_leftovers(wanted, data_dir)
    elif wanted.version is None and len(versions := find_versions(directory.parent)) > 1:
        raise ConfigError(
            f"name: {text!r} has the versions {versions}. Name one, such as "
            f"{text + ':' + versions[0]!r}."
        )
    remains = tuple(leftovers(directory))
    files = [
        path
        for folder in (directory, *remains)
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    ]
    return Removal(
        directory=directory,
        name_folder=directory.parent
        if directory.parent.name == wanted.name
        else directory.parent.parent,
        leftovers=remains,
        num_files=len(files),
        num_bytes=sum(path.lstat().st_size for path in files),
    )


def remove(removal: Removal) -> None:
    """Removes the dataset and its leftovers, and the folder of its name where that is empty now.

    Raises:
      DatasetError: it is being built, is no dataset any more, or cannot be removed.
    """
    target = removal.directory
    with _explained(target), _locked(target) as locked_file:
        if target.is_symlink() or target.exists():
            if not is_dataset(target):
                raise DatasetError(
                    f"{target}: expected a dataset of tfrds, found none. It was left as it is."
                )
            target.rename(aside_dir(target))
        for path in leftovers(target):
            if path.is_symlink():
                path.unlink()  # what it points to lies elsewhere, and may have other users
            else:
                shutil.rmtree(path)
        inputs_file(target).unlink(missing_ok=True)
        locked_file.unlink(missing_ok=True)
    # A folder that still holds something, such as another version, stays.
    with contextlib.suppress(OSError):
        target.parent.rmdir()
        removal.name_folder.rmdir()


def _only_leftovers(wanted: DatasetName, data_dir: os.PathLike[str] | str | None) -> pathlib.Path:
    for root in roots_of(data_dir) if wanted.version else ():
        directory = root.joinpath(wanted.name, wanted.config or "", wanted.version or "")
        if leftovers(directory):
            return directory
    raise not_found(wanted.name, wanted.version, data_dir)


@contextlib.contextmanager
def _locked(target: pathlib.Path) -> Iterator[pathlib.Path]:
    """Holds the lock of `disk/commit.py`, and gives its file; who waits for it makes a new one."""
    lock = filelock.FileLock(lock_file(target), mode=0o666)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout as error:
        raise DatasetError(
            f"{target}: is being built by another process. Wait until it is done, or stop it."
        ) from error
    try:
        yield pathlib.Path(lock.lock_file)
    finally:
        lock.release()


@contextlib.contextmanager
def _explained(target: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DatasetError(
            f"{target}: cannot be removed: {error}. Mend its access, then remove it again."
        ) from error
