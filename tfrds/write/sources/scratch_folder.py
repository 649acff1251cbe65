"""A folder for temporary files that leaves nothing behind, not even of a killed process.

`unpacked_tars.py`, `unpacked_records.py` and `parquet_images.py` unpack into it what cannot be
reached by place where it lies.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

from tfrds.errors import ConfigError, SourceError

# By this name what a killed process left is found, by us and by people.
_PREFIX = "tfrds-unpacked-"
_LOCK = "lock"


def parse_scratch_dir(given: Any) -> pathlib.Path | None:
    """Returns the absolute path of the folder that a user gives to unpack into, if any.

    Raises:
      ConfigError: it is no path.
    """
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike) or not isinstance(os.fspath(given), str):
        raise ConfigError(f"scratch_dir: expected the path of a folder, or None, got {given!r}.")
    return pathlib.Path(given).expanduser().absolute()


class ScratchFolder:
    """A new folder, which goes with this object, or at exit.

    What a killed process left beside it is removed.

    Attributes:
      path: of the folder.

    Args:
      parent: folder to put it in; None: the system's for temporary files.
      what: is to be unpacked into it, for messages.

    Raises:
      SourceError: it cannot be made.
    """

    def __init__(self, parent: pathlib.Path | None, what: str) -> None:
        self._parent = (parent or pathlib.Path(tempfile.gettempdir())).absolute()
        try:
            self._parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(self._parent)
            self.path = pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._parent))
            lock = _lock(self.path)
        except OSError as error:
            raise _refusal(what, self._parent, error) from error
        weakref.finalize(self, _remove, self.path, lock, os.getpid())

    @contextlib.contextmanager
    def new_file(self, name: str, what: str) -> Iterator["ScratchFile"]:
        """Opens a new file for writing, which goes where the block does not end well.

        Args:
          name: of the file.
          what: is unpacked into it, for messages.

        Raises:
          SourceError: it cannot be written.
        """
        path = self.path / name
        file = ScratchFile(path, what, self._parent)
        try:
            yield file
            file.close()
        except BaseException:
            file.drop()
            raise


class ScratchFile:
    """A file of a scratch folder while it is written.

    Raises:
      SourceError: it cannot be written, as where the disk is full; so do all of its methods.
    """

    def __init__(self, path: pathlib.Path, what: str, parent: pathlib.Path) -> None:
        self._path, self._what, self._parent = path, what, parent
        with self._named():
            self._file = path.open("xb")

    def write(self, data: bytes) -> None:
        """Adds bytes."""
        with self._named():
            self._file.write(data)

    def close(self) -> None:
        """Ends it."""
        with self._named():
            self._file.close()

    def drop(self) -> None:
        """Removes it, whatever is wrong with it."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _refusal(self._what, self._parent, error) from error


def _refusal(what: str, parent: pathlib.Path, error: OSError) -> SourceError:
    return SourceError(
        f"{what}: cannot be unpacked into {parent}: {error.strerror or error}. Pass another "
        "folder, on a disk with room for all that is unpacked, as scratch_dir."
    )


def _lock(folder: pathlib.Path) -> int | None:
    """Marks a folder as used as long as this process lives; None where locks are not to be had."""
    new = folder / f"{_LOCK}.new"
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever finds a lock finds it taken.
        new.rename(folder / _LOCK)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_abandoned(parent: pathlib.Path) -> None:
    """Removes folders whose process is no more; those of other users stay."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def _remove(folder: pathlib.Path, lock: int | None, process: int) -> None:
    # A forked child has a copy of the object, but the folder is its parent's.
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)
