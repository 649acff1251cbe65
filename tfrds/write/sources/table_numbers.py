"""Numbers in a table: how they may be written, and columns of them with every cell checked.

`table_labels.py` and `table_columns.py` call it.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import SourceError
from tfrds.write.sources.tables import BadRows, Table, cells

if TYPE_CHECKING:
    import pyarrow as pa

# In RE2 and Python. Zeros in front ("007") are no number's: what was written would be lost.
WHOLE = r"^(?:0|-?[1-9][0-9]*)$"
NUMBER = r"^-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"


def are_all(texts: "pa.ChunkedArray | pa.Array", pattern: str) -> bool:
    """Whether every text matches; None does not."""
    import pyarrow.compute as pc

    matches = pc.match_substring_regex(texts, pattern)
    return bool(pc.all(pc.fill_null(matches, False)).as_py())


def read_numbers(
    table: Table, name: str, column: "pa.ChunkedArray", *, lowest: float | None = None
) -> NDArray[np.float32]:
    """Returns float32 [n], every cell a finite number.

    Args:
      table: that the column is of.
      name: of the column.
      column: of numbers, truth values, or text.
      lowest: that is allowed; None: any.

    Raises:
      SourceError: a cell that is empty, or no number that float32 holds, or below `lowest`; or a
        column of something else.
    """
    values = _parsed(table, name, column)
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32)
    rule = "expected a number" if lowest is None else f"expected a number of at least {lowest:g}"
    bad = BadRows(table, name, rule, "Correct it, or remove the row.")
    is_wrong = ~np.isfinite(numbers)
    if lowest is not None:
        is_wrong |= numbers < lowest
    bad.add_all(np.flatnonzero(is_wrong).tolist(), column)
    bad.check()
    return numbers


def _parsed(table: Table, name: str, column: "pa.ChunkedArray") -> NDArray[np.float64]:
    """Returns float64 [n]; NaN for what is no number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_large_string(kind):
        column = pc.utf8_trim_whitespace(column)
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise SourceError(
            f"{table.name}, column {name!r}: expected numbers, got {kind}. Convert it."
        )
    try:
        numbers = column.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:
        return np.fromiter(map(_number, cells(column)), np.float64, len(column))
    return pc.fill_null(numbers, np.nan).to_numpy()  # type: ignore[no-any-return]


def _number(text: str | None) -> float:
    try:
        # Python alone reads "1_000" as a number.
        return float("nan") if text is None or "_" in text else float(text)
    except ValueError:
        return float("nan")
