"""Columns that are kept beside the images, in the dtypes that features have.

Gets columns of Arrow, gives `Column`s. What was asked for by name and cannot be kept is an error;
what would be kept only because it is there is left out with a note.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.columns import Column, Values
from tfrds.disk.keys import Keys
from tfrds.errors import SourceError
from tfrds.write.sources.table_numbers import NUMBER, WHOLE, are_all
from tfrds.write.sources.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

_TRUTH = r"^(?:true|false|True|False|TRUE|FALSE)$"

# Whole numbers up to here are the same as float32.
_EXACT = 2**24

# Among numbers it means "nothing".
_NAN = r"^(?i:nan)$"


class _CannotKeepError(Exception):
    """Why a column cannot be kept."""


def read_columns(
    table: Table, data: "pa.Table", kept: Mapping[str, str], *, are_asked: bool
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Returns (columns by the names of their features, notes).

    Args:
      table: for the messages.
      data: its columns.
      kept: names of the features by column.
      are_asked: whether the user named them.

    Raises:
      SourceError: a column that was asked for and cannot be kept.
    """
    columns: list[Column] = []
    notes: list[str] = []
    rounded: list[str] = []
    for name, feature in kept.items():
        column = data.column(name)
        try:
            values = _values(table, column, is_written=table.is_written(name))
        except _CannotKeepError as reason:
            if are_asked:
                raise SourceError(
                    f"{table.name}, column {name!r}: {reason}. Convert it, or leave it out of "
                    "columns=."
                ) from None
            notes.append(f"{table.name}: column {name!r} is left out: {reason}.")
            continue
        columns.append(Column.of(feature, values))
        notes.extend(_empty_note(table, name, column, values))
        if str(column.type) == "double":
            rounded.append(name)
    if rounded:
        notes.append(
            f"{table.name}: columns of float64 are kept as float32: "
            f"{', '.join(map(repr, rounded))}."
        )
    return tuple(columns), tuple(notes)


def _values(table: Table, column: "pa.ChunkedArray", *, is_written: bool) -> Values:
    import pyarrow as pa

    kind = column.type
    if column.null_count == len(column):
        raise _CannotKeepError("it holds nothing")
    if pa.types.is_large_string(kind):
        return _inferred(column) if is_written else _texts(column)
    if pa.types.is_boolean(kind):
        if column.null_count:
            raise _CannotKeepError(f"truth values, and none in {_first_empty(table, column)}")
        return np.asarray(column.to_numpy(), bool)
    if pa.types.is_integer(kind):
        return _whole(table, column)
    if pa.types.is_floating(kind):
        return _floats(table, column)
    raise _CannotKeepError(f"features hold numbers, truth values and text, got {kind}")


def _inferred(column: "pa.ChunkedArray") -> Values:
    """Returns text as written as numbers or truth values, where all cells are such."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_empty = pc.fill_null(pc.equal(column, ""), True)
    has_empty = bool(pc.any(is_empty).as_py())
    texts = column.filter(pc.invert(is_empty)) if has_empty else column
    if not len(texts):
        raise _CannotKeepError("every cell is empty")
    if are_all(texts, _TRUTH) and not has_empty:
        return np.asarray(pc.equal(pc.utf8_lower(column), "true").to_numpy(), bool)
    if are_all(texts, WHOLE):
        try:
            whole = texts.cast(pa.int64())
        except pa.ArrowInvalid:  # more digits than int64 holds
            return _texts(column)
        if not has_empty:
            return np.asarray(whole.to_numpy(), np.int64)
        if pc.max(pc.abs_checked(whole.cast(pa.float64()))).as_py() > _EXACT:
            return _texts(column)
    is_nan = pc.match_substring_regex(texts, _NAN)
    numbers = texts.filter(pc.invert(is_nan))
    if len(numbers) and are_all(numbers, NUMBER):
        cleared = pc.if_else(is_empty, "nan", column)
        found = np.asarray(cleared.cast(pa.float64()).to_numpy(), np.float64)
        if not _overflows(found).any():
            return found.astype(np.float32)
    return _texts(column)


def _whole(table: Table, column: "pa.ChunkedArray") -> Values:
    import pyarrow as pa
    import pyarrow.compute as pc

    low, high = (float(function(column).as_py()) for function in (pc.min, pc.max))
    if column.null_count:
        if max(-low, high) > _EXACT:
            raise _CannotKeepError(
                "whole numbers that float32 does not hold exactly, and none in "
                f"{_first_empty(table, column)}"
            )
        floats = pc.fill_null(column.cast(pa.float32()), np.nan)
        return np.asarray(floats.to_numpy(), np.float32)
    if pa.types.is_uint64(column.type):
        if pc.max(column).as_py() >= 2**63:
            raise _CannotKeepError(f"whole numbers up to {int(high):,}, more than int64 holds")
        column = column.cast(pa.int64())
    return np.asarray(column.to_numpy())


def _floats(table: Table, column: "pa.ChunkedArray") -> NDArray[np.float32]:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = np.asarray(pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy(), np.float64)
    if len(rows := np.flatnonzero(_overflows(numbers))):
        raise _CannotKeepError(
            f"more than float32 holds, {numbers[rows[0]]:g} in {table.place(int(rows[0]))}"
        )
    return numbers.astype(np.float32)


def _overflows(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.isfinite(numbers) & (np.abs(numbers) > np.finfo(np.float32).max)


def _texts(column: "pa.ChunkedArray") -> Keys:
    """Returns text as bytes, copied out of Arrow's buffers without an object for each."""
    import pyarrow.compute as pc

    column = pc.fill_null(column, "")
    blobs, offsets, size = [np.zeros(0, np.uint8)], [np.zeros(1, np.int64)], 0
    for chunk in column.chunks:
        _, places, data = chunk.buffers()
        if not len(chunk) or data is None:
            offsets.append(np.full(len(chunk), size))
            continue
        own = np.frombuffer(places, np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
        blobs.append(np.frombuffer(data, np.uint8)[own[0] : own[-1]])
        offsets.append(own[1:] - own[0] + size)
        size = int(offsets[-1][-1])
    return Keys(np.concatenate(blobs), np.concatenate(offsets).astype("<u8"))


def _empty_note(table: Table, name: str, column: "pa.ChunkedArray", values: Values) -> list[str]:
    """Says what became of cells that hold nothing; empty text in a text file is text."""
    if isinstance(values, Keys):
        count, what = column.null_count, "empty text"
    else:
        is_float = values.dtype.kind == "f"
        count, what = (int(np.isnan(values).sum()) if is_float else 0), "NaN"
    return [f"{table.name}: column {name!r}: {count:,} empty cells are {what}."] if count else []


def _first_empty(table: Table, column: "pa.ChunkedArray") -> str:
    row = int(np.flatnonzero(column.is_null().to_numpy())[0])
    return table.place(row)
