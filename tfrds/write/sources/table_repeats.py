"""Rows that name the same image: a table has one row for each.

Gets the keys and what else the rows say, raises the error with both rows; `manifest.py` calls it.
"""

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.keys import Keys
from tfrds.errors import SourceError
from tfrds.write.sources.equal_keys import find_equal
from tfrds.write.sources.table_labels import Labels
from tfrds.write.sources.tables import Table

_LISTED = 5


def check_repeats(
    table: Table,
    name: str,
    keys: Keys,
    labels: Labels,
    splits: NDArray[np.int32] | None,
    split_names: tuple[str, ...],
) -> None:
    """Raises SourceError where two rows have the same key.

    Args:
      table: for the message.
      name: of the column of images.
      keys: of all rows.
      labels: of all rows.
      splits: int32 [n], positions in `split_names`; None: there are none.
      split_names: of the splits.
    """
    first, later = find_equal(keys)
    if not len(first):
        return
    pairs = list(zip(first.tolist(), later.tolist(), strict=True))
    differ = [pair for pair in pairs if labels.shown(pair[0]) != labels.shown(pair[1])]
    one, other = (differ or pairs)[0]
    what = f"{table.where(other, name)}: expected each image once, got {keys[other].decode()!r}"
    if differ:
        what += (
            f" with the label {labels.shown(other)!r}, and in {table.place(one)} with "
            f"{labels.shown(one)!r}. Remove the wrong row"
        )
        if labels.kind == "single":
            what += (
                ", or write all labels of an image into one cell and pass separator= to read them"
            )
    elif splits is not None and splits[one] != splits[other]:
        what += (
            f" in split {split_names[splits[other]]!r}, and in {table.place(one)} in split "
            f"{split_names[splits[one]]!r}. Remove one of the rows"
        )
    else:
        what += f" again, as in {table.place(one)}. Remove one of the rows"
    others = [pair for pair in differ or pairs if pair != (one, other)]
    listed = ", ".join(
        f"{table.place(again)} ({keys[again].decode()!r} of {table.place(before)})"
        for before, again in others[: _LISTED - 1]
    )
    if listed:
        more = ", ..." if len(others) >= _LISTED else ""
        listed = f" So are {listed}{more}; {len(others) + 1:,} in all."
    raise SourceError(f"{what}.{listed}")
