"""Arrays out of files, by split: one source whose errors say which file they are about.

Gets arrays, gives an `Arrays`, or a `BySplit` of several; `npz.py` and `idx.py` find the arrays.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import SourceError
from tfrds.write.sources.arrays import Arrays
from tfrds.write.sources.base import References, Source
from tfrds.write.sources.by_split import BySplit


@dataclasses.dataclass(frozen=True, eq=False)
class SplitArrays:
    """The arrays of one split.

    Attributes:
      where: the file and the arrays in it, for errors.
      images: as `Arrays` takes them.
      labels: likewise; None: there are none.
    """

    where: str
    images: NDArray[Any]
    labels: NDArray[Any] | None


def join_splits(parts: Mapping[str, SplitArrays], label_kind: Any) -> Source:
    """Returns one source of all splits.

    Args:
      parts: by split; of the only one "" where it is none.
      label_kind: as `Arrays` takes it.

    Raises:
      SourceError: arrays that cannot be used.
    """
    sources = {split: _NamedArrays(part, label_kind) for split, part in parts.items()}
    return sources[""] if list(sources) == [""] else BySplit(sources)


class _NamedArrays(Arrays):
    """Arrays that say where they come from."""

    def __init__(self, part: SplitArrays, label_kind: Any) -> None:
        self._where = part.where
        with self._named():
            super().__init__(part.images, part.labels, label_kind=label_kind)
        if isinstance(part.images, np.memmap):
            self._images = part.images  # as such: its stamps are the file's, and it is not read

    def scan(self) -> References:
        with self._named():
            return super().scan()

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except SourceError as error:
            raise SourceError(f"{self._where}: {error}") from error
