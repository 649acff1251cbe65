"""Finds and removes what abandoned builds and removals left in a data directory.

Gets data directories, first gives `Leftovers` to be confirmed, then removes them. What somebody
works in, and a dataset that a killed overwrite left aside, stays.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
from collections.abc import Iterator

import filelock

from tfrds.data_dirs import roots_of
from tfrds.disk.commit import abandoned_builds
from tfrds.disk.layout import inputs_file, lock_file, staging_dir
from tfrds.errors import DatasetError

_OURS = re.compile(r"\.tfrds-(?P<kind>build|old|inputs)-(?P<version>\d+\.\d+\.\d+)(?P<rest>.*)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Leftovers:
    """What would be removed.

    Attributes:
      paths: files and directories.
      num_bytes: of all their files.
    """

    paths: tuple[pathlib.Path, ...]
    num_bytes: int


def find_leftovers(data_dir: os.PathLike[str] | str | None) -> Leftovers:
    """Returns what nobody needs any more.

    Args:
      data_dir: root of all datasets; None: TFDS's own.
    """
    paths = tuple(path for root in roots_of(data_dir) for path in _leftovers_in(root))
    return Leftovers(paths=paths, num_bytes=sum(map(_num_bytes, paths)))


def remove_leftovers(leftovers: Leftovers) -> None:
    """Removes them, and folders that are empty then.

    Raises:
      DatasetError: something cannot be removed.
    """
    for path in leftovers.paths:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise DatasetError(
                f"{path}: cannot be removed: {error}. Mend its access, then clean again."
            ) from error
        # A folder that still holds something, such as another version, stays.
        with contextlib.suppress(OSError):
            path.parent.rmdir()
            path.parent.parent.rmdir()


def _leftovers_in(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields leftovers below `<root>/<name>` and `<root>/<name>/<config>`."""
    for name in _folders(root):
        for folder in (name, *_folders(name)):
            for path in sorted(folder.iterdir() if os.access(folder, os.R_OK) else ()):
                match = _OURS.fullmatch(path.name)
                if match:
                    yield from _unneeded(path, match["kind"], folder / match["version"])


def _unneeded(path: pathlib.Path, kind: str, target: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields what of one file or directory of ours is not needed."""
    if _is_locked(target):
        return
    if kind == "build":
        if path == staging_dir(target):
            yield from abandoned_builds(path)
        elif path == lock_file(target) and not target.exists() and not staging_dir(target).exists():
            yield path
    elif kind == "old":
        if target.exists():
            yield path
    elif path == inputs_file(target) and not target.exists():
        yield path


def _is_locked(target: pathlib.Path) -> bool:
    if not lock_file(target).exists():
        return False
    lock = filelock.FileLock(lock_file(target), mode=0o666)
    try:
        with lock.acquire(timeout=0):
            return False
    except (filelock.Timeout, OSError):
        return True


def _folders(folder: pathlib.Path) -> list[pathlib.Path]:
    try:
        return sorted(
            path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
        )
    except OSError:
        return []


def _num_bytes(path: pathlib.Path) -> int:
    files = path.rglob("*") if path.is_dir() and not path.is_symlink() else (path,)
    return sum(file.lstat().st_size for file in files if file.is_file() or file.is_symlink())
