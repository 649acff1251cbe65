"""From a build directory to a finished dataset in one rename: nothing half-built ever loads.

`prepare.py` and nobody else commits. The lock saves work when two build the same dataset; that the
result is right rests on directories of each builder's own and on the rename alone, since locks do
nothing on some network file systems.
"""

import contextlib
import dataclasses
import errno
import functools
import glob
import hashlib
import logging
import os
import pathlib
import secrets
import shutil
import signal
import socket
import threading
from collections.abc import Iterator

import filelock

from tfrds.disk.journal import Journal
from tfrds.disk.layout import (
    aside_dir,
    inputs_file,
    is_dataset,
    leftovers,
    lock_file,
    staging_dir,
)
from tfrds.errors import DatasetError

_log = logging.getLogger("tfrds")

# How often a waiting builder looks whether the lock is free.
_POLL_SECONDS = 0.5

# A builder shows this often that it lives; one that was silent for so many beats is dead. NFS may
# show the time of a directory as it was up to 60 seconds before.
_BEAT_SECONDS = 10.0
_SILENT_BEATS = 9

# The name of a directory whose builder ended without finishing; others are <machine>.<pid>.<token>.
_KEPT = "kept"

# The directories that this process works in. One of its number that is not among them was left by a
# process before it: in a container that was started again, numbers begin anew.
_own: set[str] = set()


@dataclasses.dataclass
class BuildDirectory:
    """Where one builder works.

    Attributes:
      home: holds the two others.
      is_committed: whether this build is what stands in the end; False where, without a working
        lock, another builder was faster.
    """

    home: pathlib.Path
    is_committed: bool = False

    @property
    def files(self) -> pathlib.Path:
        """Becomes the dataset."""
        return self.home / "dataset"

    @property
    def journal(self) -> Journal:
        """Says what is finished; not part of the dataset."""
        return Journal(self.home / "journal")


@contextlib.contextmanager
def building(target: pathlib.Path, *, overwrite: bool) -> Iterator[BuildDirectory | None]:
    """Gives a directory to build in, and renames it to `target` when the block succeeds.

    It lies beside `target`, so the rename is atomic. After an error or a kill the finished shards
    stay in it, are no dataset to anybody, and the next build of the same version gets them. With
    `overwrite` an existing dataset is swapped out only once the new one is complete.

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
            _finish_killed(target)
        if is_dataset(target) and not overwrite:
            yield None
            return
        _check_free(target)
        own = BuildDirectory(staging_dir(target) / _new_name())
        try:
            with _explained(target), _working_in(own.home):
                _make_or_take(own)
                yield own
                own.is_committed = _replace(own.files, target, overwrite=overwrite)
            shutil.rmtree(own.home, ignore_errors=True)
            _remove_abandoned(staging_dir(target))
        except BaseException:
            _keep_finished(own)
            # Nothing is left of a build that finished no shard; whoever waits for the lock makes a
            # new file.
            with contextlib.suppress(OSError):
                staging_dir(target).rmdir()
            with contextlib.suppress(OSError):
                if not target.exists() and not staging_dir(target).exists():
                    lock_file(target).unlink()
                    target.parent.rmdir()
            raise


def unfinished_builds(target: pathlib.Path) -> list[tuple[int, int | None]]:
    """Returns (finished shards, all shards) of each unfinished build of the version `target`."""
    journals = [BuildDirectory(home).journal for home in _builds(staging_dir(target))]
    return [(len(journal.finished()), journal.num_planned()) for journal in journals]


def abandoned_builds(container: pathlib.Path) -> list[pathlib.Path]:
    """Returns the directories of builds, below `staging_dir`, that nobody works in any more."""
    builds = _builds(container)
    if not builds:
        return []
    now = _clock_of(container)
    return [home for home in builds if _is_abandoned(home, now)]


def _builds(container: pathlib.Path) -> list[pathlib.Path]:
    """Returns the directories of builds, the one that was last worked in first."""
    try:
        found = [(path.stat().st_mtime_ns, path) for path in container.iterdir() if path.is_dir()]
    except OSError:
        return []
    return [path for _, path in sorted(found, reverse=True)]


def _new_name() -> str:
    return f"{_machine()}.{os.getpid()}.{secrets.token_hex(4)}"


def _make_or_take(own: BuildDirectory) -> None:
    """Makes the directory of a builder out of that of an abandoned build, or anew."""
    container = own.home.parent
    container.mkdir(exist_ok=True)
    for home in abandoned_builds(container):
        # Of several builders who find it, one gets it.
        with contextlib.suppress(OSError):
            os.utime(home)  # first: under its new name it must not look silent
            home.rename(own.home)
            break
    for path in (own.files, own.journal.folder):
        # With parents, since a builder that ends removes the container where it is empty.
        path.mkdir(parents=True, exist_ok=True)


def _is_abandoned(home: pathlib.Path, now: float) -> bool:
    owner, *rest = home.name.split(".")
    if owner == _KEPT:
        return True
    if owner == _machine() and rest and rest[0].isdecimal() and not _is_alive(int(rest[0]), home):
        return True
    # Of another machine; or its number was given to another process since.
    try:
        return now - home.stat().st_mtime > _BEAT_SECONDS * _SILENT_BEATS
    except OSError:
        return False  # its builder just finished


def _is_alive(pid: int, home: pathlib.Path) -> bool:
    """Whether the process of that number, by which a directory is called, may work in it."""
    if pid == os.getpid():
        return home.name in _own
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # another user's
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True  # not on Linux
    # A zombie, which was killed and is not waited for yet, has a number, too.
    return status.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


@functools.cache
def _machine() -> str:
    """Returns a name for all processes that see each other by their number."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(pathlib.Path("/proc/sys/kernel/random/boot_id").read_text())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _clock_of(directory: pathlib.Path) -> float:
    """Returns the time by the file system's own clock, which on a network is another's."""
    try:
        os.utime(directory)
        return directory.stat().st_mtime
    except OSError:
        return 0.0  # cannot be written: nothing here is ours to take


@contextlib.contextmanager
def _working_in(home: pathlib.Path) -> Iterator[None]:
    """Shows others, and other machines again and again, that somebody works in a directory."""
    done = threading.Event()

    def beat() -> None:
        # Ctrl-C is the main thread's, which holds it back while it starts worker processes.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while not done.wait(_BEAT_SECONDS):
            with contextlib.suppress(OSError):
                os.utime(home)

    thread = threading.Thread(target=beat, name="tfrds-build", daemon=True)
    _own.add(home.name)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        _own.discard(home.name)


def _keep_finished(own: BuildDirectory) -> None:
    with contextlib.suppress(OSError):
        if own.files.is_dir() and own.journal.finished():
            own.home.rename(own.home.with_name(f"{_KEPT}.{secrets.token_hex(8)}"))
            return
    shutil.rmtree(own.home, ignore_errors=True)


def _remove_abandoned(container: pathlib.Path) -> None:
    for home in abandoned_builds(container):
        shutil.rmtree(home, ignore_errors=True)
    with contextlib.suppress(OSError):
        container.rmdir()


def _check_free(target: pathlib.Path) -> None:
    """An empty directory is in nobody's way.

    Anything in it that is no dataset is somebody's, and stays.
    """
    if is_dataset(target) or not os.path.lexists(target):
        return
    try:
        target.rmdir()
    except OSError as error:
        if is_dataset(target) or not os.path.lexists(target):
            return  # another builder was faster
        is_folder = target.is_dir()
        found = sorted(child.name for child in target.iterdir())[:3] if is_folder else "a file"
        raise DatasetError(
            f"{target}: expected no directory, an empty one or a dataset of tfrds, found {found}. "
            "Move it away, or choose another version or data_dir."
        ) from error


def _replace(files: pathlib.Path, target: pathlib.Path, *, overwrite: bool) -> bool:
    """Renames `files` to `target`; returns False where another builder's dataset stays there."""
    if is_dataset(target) and not overwrite:
        return False
    _check_free(target)
    old = _put_aside(target) if overwrite else None
    try:
        files.rename(target)
    except BaseException as error:
        if is_dataset(target):  # of a faster builder, or ours: Ctrl-C came right after the rename
            _remove(old)
            if isinstance(error, OSError):
                return False
        elif old:
            old.rename(target)
        raise
    _remove(old)
    return True


def _put_aside(target: pathlib.Path) -> pathlib.Path | None:
    old = aside_dir(target)
    try:
        target.rename(old)
    except FileNotFoundError:
        return None
    return old


def _remove(old: pathlib.Path | None) -> None:
    if old:
        # A link to a dataset that lies elsewhere is ours to replace, the dataset is not.
        old.unlink() if old.is_symlink() else shutil.rmtree(old, ignore_errors=True)


def _finish_killed(target: pathlib.Path) -> None:
    """Ends what a kill in the middle of `_replace` began: a dataset put aside comes back, or goes.

    So goes the journal of a build that got its place; one with files can still be resumed.
    """
    for half in target.parent.glob(f"{glob.escape(inputs_file(target).name)}.*.tmp"):
        half.unlink(missing_ok=True)
    asides = [path for path in leftovers(target) if path != staging_dir(target)]
    if not target.exists() and asides and is_dataset(asides[-1]):
        asides[-1].rename(target)
    elif is_dataset(target):
        for aside in asides:
            _remove(aside)
        for home in abandoned_builds(staging_dir(target)):
            if not BuildDirectory(home).files.exists():
                shutil.rmtree(home, ignore_errors=True)
        with contextlib.suppress(OSError):
            staging_dir(target).rmdir()


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
            free = shutil.disk_usage(next(filter(os.path.exists, target.parents))).free
            raise DatasetError(
                f"{target}: the disk is full, {free:,} bytes are free. Finished shards are kept: "
                "free space and run the same build again to go on, or choose another data_dir."
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
