"""Inputs that cannot be stored: what is wrong with each, and when a build stops for them.

`shards.py` finds faults in worker processes, `dataset.py` gathers them here.
"""

import dataclasses
import hashlib
import logging
import pathlib
import re
import secrets

import numpy as np

from tfrds.errors import DatasetError, EncodeError, SourceError, TfrdsError
from tfrds.spec import BuildOptions
from tfrds.write.sources.base import Image

# A build that stops for every fault goes on to find all, but a folder of nothing else is not read
# to its end.
_MAX_FOUND = 1_000

_LISTED = 5

_ADVICE = " Replace it or remove it."

_log = logging.getLogger("tfrds")


@dataclasses.dataclass(frozen=True)
class Fault:
    """One input that cannot be stored.

    Attributes:
      name: what the user knows it as.
      reason: kind of fault in a few words, the same for all of its kind.
      message: the whole error, which begins with the name.
      error_type: what it is raised as.
    """

    name: str
    reason: str
    message: str
    error_type: type[TfrdsError] = EncodeError

    def error(self) -> TfrdsError:
        """Returns it as an exception."""
        if self.error_type is EncodeError:
            return EncodeError(self.message, self.reason)
        return self.error_type(self.message)

    @classmethod
    def of(cls, name: str, error: EncodeError | SourceError) -> "Fault":
        """Returns the fault that an error tells of."""
        reason = error.reason if isinstance(error, EncodeError) else "cannot be read"
        return cls(name, reason, str(error), type(error))


class Faults:
    """All faults of a build so far.

    Args:
      options: of the build.
      num_inputs: of the build.
    """

    def __init__(self, options: BuildOptions, num_inputs: int) -> None:
        self.skips = options.on_error == "skip"
        self._max_bad = options.max_bad
        self._num_inputs = num_inputs
        # Fractions such as 0.29 have no exact binary form: 28.999999999999996 of 100 means 29.
        self.max_faults = int(options.max_bad * num_inputs + 1e-9) if self.skips else _MAX_FOUND
        self._faults: list[Fault] = []

    def add(self, faults: tuple[Fault, ...]) -> None:
        """Adds a shard's faults.

        Raises:
          EncodeError, SourceError: there are more than the build goes on with.
        """
        if faults and not self._faults and not self.skips:
            _log.warning("%s All images are looked at for more.", faults[0].message)
        self._faults += faults
        if len(self._faults) > self.max_faults:
            self._stop("so far")

    def finish(self) -> None:
        """Is called when all inputs were looked at.

        Raises:
          EncodeError, SourceError: there are faults, and none is to be skipped.
        """
        if self._faults and not self.skips:
            self._stop("")

    def _stop(self, when: str) -> None:
        faults = sorted(self._faults, key=lambda fault: fault.name)
        if len(faults) == 1 and not self.skips:
            raise faults[0].error()
        listed = "; ".join(
            fault.message.removesuffix(_ADVICE).removesuffix(".") for fault in faults[:_LISTED]
        )
        more = "; ..." if len(faults) > _LISTED else ""
        found = f"{len(faults):,} of {self._num_inputs:,} images cannot be stored"
        raise faults[0].error_type(
            f"{found}{', ' + when if when else ''}: {listed}{more}. {self._advice()}"
        )

    def _advice(self) -> str:
        if not self.skips:
            return 'Replace or remove them, or pass on_error="skip".'
        return (
            f"max_bad={self._max_bad:g} lets a build skip {self.max_faults:,} of them: replace or "
            "remove them, or raise max_bad."
        )


def quarantine(folder: pathlib.Path, name: str, image: Image) -> None:
    """Copies an input aside that cannot be stored, under its own name; an array as `.npy`.

    Args:
      folder: made where it is missing; nothing is written outside of it.
      name: of the input, "/" between folders.
      image: its bytes or pixels. Other objects are not copied.

    Raises:
      DatasetError: the folder cannot be written.
    """
    if isinstance(image, np.ndarray) and not image.dtype.hasobject:
        name += ".npy"
    elif not isinstance(image, bytes):
        return
    path = folder.joinpath(*_safe_parts(name))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
        with temporary.open("wb") as file:
            if isinstance(image, bytes):
                file.write(image)
            else:
                np.lib.format.write_array(file, image, allow_pickle=False)
        temporary.replace(path)
    except OSError as error:
        raise DatasetError(
            f"{folder}: {name} cannot be copied there: {error.strerror}. Choose another folder for "
            "quarantine."
        ) from error


def _safe_parts(name: str) -> list[str]:
    """Returns a name's folders and file, or one file of another name where they are no path."""
    parts = name.split("/")
    if all(part.strip(".") and part.isprintable() and len(part.encode()) < 256 for part in parts):
        return parts
    # The hash keeps names apart that look alike without what no path can have.
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return [f"{digest}-{re.sub(r'[^A-Za-z0-9.]', '_', name)[-100:]}"]
