"""`skipped.jsonl`, the list of the inputs that a build left out: a line each, sorted by key.

`write/assemble.py` writes it; appending, comparing and counting read it.
"""

import json
import pathlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tfrds.disk.layout import skipped_file
from tfrds.errors import DatasetError

# The reason of an input that holds the same bytes as one that is stored.
DUPLICATE = "duplicate"

# A line an input: a larger file is none of ours.
_MAX_BYTES = 2**30


class Skipped(NamedTuple):
    """An input that is not in the dataset.

    Attributes:
      key: that it would have.
      reason: kind of fault in a few words, the same for all of its kind.
      message: what exactly is wrong with it.
    """

    key: str
    reason: str
    message: str


def write_skipped(directory: pathlib.Path, skipped: Iterable[Skipped]) -> None:
    """Writes the list; no file where it is empty."""
    lines = [
        json.dumps(one._asdict(), sort_keys=True, ensure_ascii=True) for one in sorted(skipped)
    ]
    if lines:
        skipped_file(directory).write_text("\n".join(lines) + "\n", encoding="ascii")


def read_skipped(directory: pathlib.Path) -> Iterator[Skipped]:
    """Yields what a dataset's builds left out; nothing where there is no list.

    Raises:
      DatasetError: the list is damaged.
    """
    path = skipped_file(directory)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"larger than {_MAX_BYTES:,} bytes")
        with path.open(encoding="utf-8") as file:
            for line in file:
                content = json.loads(line)
                found = Skipped(*(str(content[name]) for name in Skipped._fields))
                found.key.encode()  # JSON may hold half a character
                yield found
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DatasetError(
            f"{path}: cannot be read: {error!r}. Copy or build the dataset again."
        ) from error
