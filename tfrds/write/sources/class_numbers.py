"""Class numbers as sources find them: how high they go, and lists of them.

Gets the numbers of all examples behind one another, gives `LabelLists`; the sources of tables,
records and WebDataset shards call it.
"""

import numpy as np
from numpy.typing import NDArray

from tfrds.write.sources.base import LabelLists

# Labels are int32 in the index; more classes than this are a mistake such as labels that are
# identifiers.
MAX_CLASSES = 10_000_000


def make_lists(rows: NDArray[np.int64], numbers: NDArray[np.int32], num_rows: int) -> LabelLists:
    """Returns the classes of each row, rising and each once.

    Args:
      rows: int64 [m], of each number.
      numbers: int32 [m], classes, in any order.
      num_rows: in all; some may have no class.
    """
    order = np.lexsort((numbers, rows))
    rows, numbers = rows[order], numbers[order]
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (rows[1:] != rows[:-1]) | (numbers[1:] != numbers[:-1])
    offsets = np.zeros(num_rows + 1, np.uint64)
    offsets[1:] = np.cumsum(np.bincount(rows[is_new], minlength=num_rows))
    return LabelLists(numbers=numbers[is_new], offsets=offsets)


def multi_hot_width(lengths: NDArray[np.int64], highest: int) -> int:
    """Returns of how many classes lists are multi-hot: one 0 or 1 for each. 0: they are not.

    Lists of class numbers are never equally long with only 0 and 1 in them, unless all examples
    have the same two classes.

    Args:
      lengths: int64 [n], of the lists as written.
      highest: number in any of them; none is below 0.
    """
    is_alike = len(lengths) > 0 and lengths[0] > 1 and bool((lengths == lengths[0]).all())
    return int(lengths[0]) if is_alike and highest <= 1 else 0
