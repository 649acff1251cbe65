"""A training run on disk: one file, which is replaced whole or not at all.

Gets where the training stands and the arrays of its model, gives them back in another process;
`resume.py` decides when. The file is one of numpy's, a ZIP of arrays with checksums and without
pickle, beside them `state.json`. It is written under another name and renamed, so a kill at any
moment leaves the old file or the new one. (Keras's own HDF5 files have no checksums, and a full
disk makes HDF5 crash the process.)
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import filelock
import numpy as np
from numpy.typing import NDArray

from tfrds.checks import is_int
from tfrds.errors import ConfigError, DatasetError

_FORMAT = 1
_FILE = "checkpoint.npz"
_STATE = "state.json"

# A million epochs of ten metrics stay under this, and nobody's memory is filled by a file.
_MAX_BYTES = 256 * 2**20

# Of a file that is cut, changed or made up, these come out of zipfile, json and numpy.
_DAMAGES = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    MemoryError,
    RecursionError,
    NotImplementedError,
    zipfile.BadZipFile,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """Where a training run stands.

    Attributes:
      epoch, step: what comes next, counted from 0.
      num_steps: of an epoch.
      batch_size: examples of a step, of all workers.
      seed: of the dataset.
      fingerprint: of the examples and their order.
      optimizer: name of its class.
      epochs: numbers of the epochs in `history`.
      history: values by name of metric, as in `keras.callbacks.History`.
      is_stopped: whether a callback ended the training.
      is_final: whether what Keras does at the end of training is done.
    """

    epoch: int
    step: int
    num_steps: int
    batch_size: int
    seed: int
    fingerprint: str
    optimizer: str
    epochs: tuple[int, ...] = ()
    history: Mapping[str, list[Any]] = dataclasses.field(default_factory=dict)
    is_stopped: bool = False
    is_final: bool = False


class Checkpoint:
    """The checkpoint in a directory.

    Attributes:
      path: of the file, whether it is there or not.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.path = directory / _FILE

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the directory, and keeps other processes away.

        Raises:
          ConfigError: another process trains here.
          DatasetError: the directory cannot be made.
        """
        directory = self.path.parent
        with self._explained():
            directory.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(directory / ".lock")
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                raise ConfigError(
                    f"directory: another process trains in {directory}. Wait for its end, or "
                    "choose another directory."
                ) from None
        try:
            yield
        finally:
            lock.release()

    def save(self, state: State, arrays: Iterable[tuple[str, NDArray[Any]]]) -> None:
        """Replaces the checkpoint.

        Args:
          state: where the training stands.
          arrays: of its model, by name; taken one after the other.

        Raises:
          DatasetError: the directory cannot be written to or is full; the checkpoint before stands.
        """
        temporary = self.path.with_name(f".{_FILE}.new")
        try:
            with self._explained():
                with temporary.open("wb") as file:
                    _write(file, state, arrays)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, self.path)
                _flush_names(self.path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def read_state(self) -> State | None:
        """Returns where the training stands; None where nothing was saved.

        Raises:
          DatasetError: the file is damaged, or of a newer tfrds.
        """
        if not self.path.exists():
            return None
        with self._checked(), zipfile.ZipFile(self.path) as file:
            num_bytes = file.getinfo(_STATE).file_size
            if num_bytes > _MAX_BYTES:
                raise ValueError(f"{_STATE} has {num_bytes:,} bytes, more than {_MAX_BYTES:,}")
            content = json.loads(file.read(_STATE))
            found = content["format"]
            if found == _FORMAT:
                return _parsed(content)
        raise DatasetError(
            f"{self.path}: expected format {_FORMAT}, found {found!r}: another tfrds wrote it. Use "
            "that one, or train in another directory."
        )

    def read_arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yields the arrays by name, in the order in which they were saved.

        Raises:
          DatasetError: the file is damaged.
        """
        with self._checked(), np.load(self.path, allow_pickle=False) as file:
            for name in file.files:
                if name != _STATE:
                    yield name, file[name]

    @contextlib.contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGES as error:
            raise DatasetError(
                f"{self.path}: the checkpoint is damaged: {type(error).__name__}: {error}. Bring "
                "it back from a copy, or remove it to train from the beginning."
            ) from error

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DatasetError(
                f"{self.path}: cannot be written: {error.strerror}. A checkpoint that was there is "
                "still whole. Free space, or choose a directory that you may write to."
            ) from error


def _write(file: Any, state: State, arrays: Iterable[tuple[str, NDArray[Any]]]) -> None:
    content = {"format": _FORMAT, **dataclasses.asdict(state)}
    # A loss may be NaN or infinite: Python reads what it writes for them.
    text = json.dumps(content, indent=1, default=lambda value: np.asarray(value).tolist())
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_STATE, text)
        for name, value in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, value, allow_pickle=False)


def _parsed(content: Mapping[str, Any]) -> State:
    """Returns the state; any error of Python where a value is missing or of another type."""
    values = {field.name: content[field.name] for field in dataclasses.fields(State)}
    for name in ("epoch", "step", "num_steps", "batch_size", "seed"):
        if not is_int(values[name]) or values[name] < 0:
            raise ValueError(f"{name} is {values[name]!r}, expected a number")
    kinds = {"fingerprint": str, "optimizer": str, "is_stopped": bool, "is_final": bool}
    for name, kind in kinds.items():
        if not isinstance(values[name], kind):
            raise ValueError(f"{name} is {values[name]!r}, expected a {kind.__name__}")
    if values["step"] >= values["num_steps"]:
        raise ValueError(f"step is {values['step']} of {values['num_steps']}")
    epochs, history = values["epochs"], values["history"]
    if not isinstance(epochs, list) or not all(map(is_int, epochs)):
        raise ValueError("epochs is no list of numbers")
    if not isinstance(history, dict) or not all(isinstance(one, list) for one in history.values()):
        raise ValueError("history holds no lists")
    return State(**{**values, "epochs": tuple(epochs)})


def _flush_names(directory: pathlib.Path) -> None:
    """Waits until a rename is on disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
