"""Which stretches of files are read ahead for some records; no TensorFlow.

Gets where the records lie, in the order of the files, gives pieces that are worth a read each;
`fetch.py` says which records.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

# A gap so small is read along: that takes less time than one more request.
_MAX_GAP = 16 * 1024

# No piece is larger, so that pieces can be read side by side, and left when they are not needed.
_MAX_PIECE = 4 * 2**20


def runs(is_parted: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns int64 [n] each, the first and the last element of runs.

    Args:
      is_parted: bool [elements - 1], whether a run ends after an element; one element or more.
    """
    ends = np.flatnonzero(is_parted)
    return np.append(0, ends + 1), np.append(ends, len(is_parted))


def stretches(
    numbers: NDArray[np.int64], starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> Iterator[tuple[int, int, int]]:
    """Yields (file, offset, length) of pieces that hold some ranges.

    Args:
      numbers: int64 [n], of the files, n at least 1.
      starts: int64 [n], in them; in rising order for each file.
      stops: int64 [n].
    """
    firsts, lasts = runs((np.diff(numbers) > 0) | (starts[1:] - stops[:-1] > _MAX_GAP))
    for number, start, stop in zip(
        numbers[firsts].tolist(), starts[firsts].tolist(), stops[lasts].tolist(), strict=True
    ):
        for offset in range(start, stop, _MAX_PIECE):
            yield number, offset, min(_MAX_PIECE, stop - offset)
