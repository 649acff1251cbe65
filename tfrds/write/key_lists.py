"""Splits given as lists of keys: each example in the split whose list names it.

Gets the keys of a source and the lists, gives a split for each example; `splits.py` calls it.
"""

import bisect
import difflib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError

_LISTED = 5

# Among so many keys the nearest one is looked for, which takes a moment; among a million, minutes.
_COMPARED = 500


def match_lists(keys: Keys, lists: Mapping[str, tuple[str, ...]]) -> NDArray[np.int32]:
    """Returns the split of each example, int32 [n], positions in `lists`.

    Args:
      keys: of the source.
      lists: keys in NFC by split name, none twice.

    Raises:
      ConfigError: a listed key that no example has, or an example that is in no list.
    """
    split_of = {key: number for number, own in enumerate(lists.values()) for key in own}
    splits = np.empty(len(keys), np.int32)
    unlisted = []
    for row, key in enumerate(keys):
        text = key.decode()
        number = split_of.pop(text, None)  # what is left at the end, no example has
        if number is None:
            unlisted.append(text)
        else:
            splits[row] = number
    if split_of:
        names = list(lists)
        unknown = sorted(split_of)
        listed = [f"{key!r} in {names[split_of[key]]!r}" for key in unknown[:_LISTED]]
        raise ConfigError(
            f"splits: each listed key must be that of an example, got {_shortened(listed, unknown)}"
            f" that {'is' if len(unknown) == 1 else 'are'} none. "
            f"{_hint(unknown[0], unlisted)}Keys are paths below the source's folder, or row "
            "numbers of arrays."
        )
    if unlisted:
        listed = [repr(key) for key in unlisted[:_LISTED]]
        raise ConfigError(
            "splits: each example must be in one of the lists, got "
            f"{_shortened(listed, unlisted)} in none. List them, in a split of their own if they "
            "are not wanted, or take them out of the source."
        )
    return splits


def _hint(key: str, unlisted: list[str]) -> str:
    """Returns the likely key among those that no list names, which are the ones left to mean."""
    by_name = sorted(unlisted)
    middle = bisect.bisect(by_name, key)
    near = by_name[max(middle - _COMPARED // 2, 0) : middle + _COMPARED // 2]
    found = difflib.get_close_matches(key, near, n=1)
    return f"Did you mean {found[0]!r}? " if found else ""


def _shortened(listed: list[str], every: list[str]) -> str:
    more = f", ... ({len(every):,} in all)" if len(every) > _LISTED else ""
    return f"{', '.join(listed)}{more}"
