"""The splits that the names of files say, such as `train-00000-of-00002.tfrecord`.

Gets paths, gives them by split; `recognise.py` asks for files that a folder or a pattern stands
for, whose source has no splits of its own.
"""

import os
import re
from collections.abc import Sequence

from tfrds.errors import ConfigError
from tfrds.write.sources.class_tree import is_split_word

_WORD = re.compile(r"[A-Za-z]+")


def by_split(paths: Sequence[str]) -> dict[str, list[str]] | None:
    """Returns the paths by split; None where their names do not tell several apart.

    Args:
      paths: of files.

    Raises:
      ConfigError: some are named after splits, others are not.
    """
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    splits: dict[str, list[str]] = {}
    for path in paths:
        splits.setdefault(_split(os.path.relpath(path, folder)), []).append(path)
    if len(splits.keys() - {""}) < 2:
        return None
    if "" in splits:
        named = sorted(splits.keys() - {""})
        raise ConfigError(
            f"source: some files are named after the splits {named}, others such as "
            f"{splits[''][0]} are not. Name all of them so, or pass a dict of sources by split."
        )
    return dict(sorted(splits.items()))


def _split(path: str) -> str:
    """Returns the split that a file's name says, or else the nearest folder's; "" for none."""
    for part in reversed(path.split(os.sep)):
        words = {word.lower() for word in _WORD.findall(part) if is_split_word(word.encode())}
        if words:
            return words.pop() if len(words) == 1 else ""
    return ""
