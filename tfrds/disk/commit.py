"""From a build directory to a finished dataset in one rename: nothing half-built ever loads.

`prepare.py` and nobody else commits. The lock saves work when two build the same dataset;
that the result is right rests on the rename alone, since locks do nothing on some network file
systems.
"""

import contextlib
import errno
import logging
import os
import pathlib
import shutil
from collections.abc import Iterator

import filelock

from tfrds.disk.layout import aside_dir, is_dataset, leftovers, lock_file, staging_dir
from tfrds.errors import DatasetError

_log = logging.getLogger("tfrds")

# How often a waiting builder looks whether the lock is free.
_POLL_SECONDS = 0.5


@contextlib.contextmanager
def building(target: pathlib.Path, *, overwrite: bool) -> Iterator[pathlib.Path | None]:
    """Gives an empty directory to build in, and renames it to `target` when the block succeeds.

    The directory lies beside `target`, so the rename is atomic. After an error it is removed; after
    a kill it stays, is no dataset to anybody, and the next build of the same version replaces it.
    With `overwrite` an existing dataset is swapped out only once the new one is complete.

    Yields:
      The directory, or None where `target` is a finished dataset and `overwrite` is not set:
        nothing is to be done.

    Raises:
      DatasetError: `target` holds something that is no dataset, or the place cannot be written to
        or is full.
    """
    with _explained(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target):
        with _explained(target):
            _restore(target)
        if is_dataset(target) and not overwrite:
            yield None
            return
        _check_free(target)
        staging = staging_dir(target)
        with _explained(target):
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
        try:
            with _explained(target):
                yield staging
                _replace(staging, target)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            # Nothing is left of a build that failed; whoever waits for the lock makes a new file.
            with contextlib.suppress(OSError):
                if not target.exists():
                    lock_file(target).unlink()
                    target.parent.rmdir()
            raise


def _check_free(target: pathlib.Path) -> None:
    """An empty directory is in nobody's way.

    Anything in it that is no dataset is somebody's, and stays.
    """
    if is_dataset(target) or not os.path.lexists(target):
        return
    try:
        target.rmdir()
    except OSError as error:
        is_folder = target.is_dir()
        found = sorted(child.name for child in target.iterdir())[:3] if is_folder else "a file"
        raise DatasetError(
            f"{target}: expected no directory, an empty one or a dataset of tfrds, found {found}. "
            "Move it away, or choose another version or data_dir."
        ) from error


def _replace(staging: pathlib.Path, target: pathlib.Path) -> None:
    old = None
    if target.exists():
        old = aside_dir(target)
        target.rename(old)
    try:
        staging.rename(target)
    except BaseException:
        if old:
            old.rename(target)
        raise
    if old:
        # A link to a dataset that lies elsewhere is ours to replace, the dataset is not.
        old.unlink() if old.is_symlink() else shutil.rmtree(old, ignore_errors=True)


def _restore(target: pathlib.Path) -> None:
    """Puts a dataset back that a kill in the middle of `_replace` left aside."""
    asides = [path for path in leftovers(target) if path != staging_dir(target)]
    if not target.exists() and asides and is_dataset(asides[-1]):
        asides[-1].rename(target)


@contextlib.contextmanager
def _lock(target: pathlib.Path) -> Iterator[None]:
    # Mode 0o666: a second user of a shared data_dir must be able to take the lock as well.
    lock = filelock.FileLock(lock_file(target), mode=0o666)
    with _explained(target):
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            _log.warning("%s is being built by another process: waiting for it.", target)
            while not lock.is_locked:
                with contextlib.suppress(filelock.Timeout):
                    lock.acquire(timeout=_POLL_SECONDS)
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _explained(target: pathlib.Path) -> Iterator[None]:
    """Turns the errors of an unusable place into one that says which place and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(target.parent).free
            raise DatasetError(
                f"{target}: the disk is full, {free:,} bytes are free. Nothing was kept. Free "
                "space, or choose another data_dir."
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise DatasetError(
                f"{target}: cannot be written: {error.strerror}. Choose a data_dir that you may "
                "write to."
            ) from error
        if error.errno in (errno.ENOTDIR, errno.EEXIST):
            raise DatasetError(
                f"{target}: cannot be made: {error.filename} is a file. Choose another data_dir."
            ) from error
        raise
