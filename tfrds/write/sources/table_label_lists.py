"""Labels that are several: lists, text with a separator, or a column for each class.

Gets the columns of the labels, gives lists of classes, vectors of values, or for columns of which
exactly one is 1 the class that it stands for; `manifest.py` chooses what to call.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import SourceError
from tfrds.write.sources.base import SourceLabelKind, check_distinct, clean_class_name
from tfrds.write.sources.class_numbers import make_lists, multi_hot_width
from tfrds.write.sources.table_labels import (
    Labels,
    check_class_numbers,
    check_spelling,
    clean_names,
    order_note,
    read_class_column,
)
from tfrds.write.sources.table_numbers import read_numbers
from tfrds.write.sources.tables import BadRows, Table

if TYPE_CHECKING:
    import pyarrow as pa

# More values an example are a mistake, as for the columns on disk.
_MAX_VALUES = 2**20

_ON, _OFF = ("1", "1.0", "true"), ("0", "0.0", "false", "")


def read_labels(
    table: Table,
    data: "pa.Table",
    names: Sequence[str],
    kind: SourceLabelKind | None,
    separator: str | None,
) -> Labels:
    """Returns the labels of all rows.

    Args:
      table: for the messages.
      data: its columns.
      names: of the columns that hold the labels; none: there are no labels.
      kind: None: by the cells.
      separator: between the classes of one cell; None: a cell is one class, or a list.

    Raises:
      SourceError: cells that are no labels of this kind.
    """
    import pyarrow as pa

    if not names:
        return Labels(kind="none")
    if len(names) > 1:
        return _read_several(table, data, names, kind)
    name, column = names[0], data.column(names[0])
    is_list = any(
        check(column.type)
        for check in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    )
    if separator is not None:
        if not pa.types.is_large_string(column.type):
            raise SourceError(
                f"{table.name}, column {name!r}: expected text that {separator!r} separates, got "
                f"{column.type}. Leave out separator=."
            )
        return _read_lists(table, name, _split(column, separator))
    if not is_list:
        if kind == "multi":
            return _read_lists(table, name, _lists_of_one(table, name, column))
        return read_class_column(table, name, column, kind)
    column = column.cast(pa.large_list(column.type.value_type))
    are_floats = pa.types.is_floating(column.type.value_type)
    if kind == "value" or (kind is None and are_floats):
        return _read_vectors(table, name, column, is_guess=kind is None)
    if kind == "single":
        raise SourceError(
            f"{table.name}, column {name!r}: expected one class a row for label_kind='single', got "
            'lists. Pass label_kind="multi".'
        )
    return _read_lists(table, name, column)


def _split(column: "pa.ChunkedArray", separator: str) -> "pa.ChunkedArray":
    import pyarrow.compute as pc

    return pc.split_pattern(pc.fill_null(column, ""), separator)


def _lists_of_one(table: Table, name: str, column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Returns each cell as a list of it, an empty one as an empty list."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        raise SourceError(
            f"{table.name}, column {name!r}: expected names or whole numbers of classes, got "
            f"{column.type}. Convert it."
        )
    chunks = []
    for chunk in column.chunks:
        is_some = chunk.is_valid()
        offsets = np.zeros(len(chunk) + 1, np.int64)
        np.cumsum(is_some.to_numpy(zero_copy_only=False), out=offsets[1:])
        chunks.append(pa.LargeListArray.from_arrays(offsets, pc.filter(chunk, is_some)))
    return pa.chunked_array(chunks, pa.large_list(column.type))


def _read_lists(table: Table, name: str, lists: "pa.ChunkedArray") -> Labels:
    """Returns the classes of each row: text without its edges' white space, or numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows, elements = _flat(lists)
    kind = elements.type
    if pa.types.is_dictionary(kind):
        elements = elements.cast(kind.value_type)
    if pa.types.is_boolean(elements.type) or pa.types.is_floating(elements.type):
        raise SourceError(
            f"{table.name}, column {name!r}: expected lists of the classes' names or numbers, got "
            f"lists of {kind}. For one column for each class pass their names as label=[...]; for "
            'vectors of numbers pass label_kind="value".'
        )
    is_numbers = pa.types.is_integer(elements.type)
    if not is_numbers:
        try:
            elements = pc.utf8_trim_whitespace(elements.cast(pa.large_string()))
        except pa.ArrowException as error:
            raise SourceError(
                f"{table.name}, column {name!r}: expected lists of the classes' names or numbers, "
                f"got lists of {kind}. Convert it."
            ) from error
    is_some = elements.is_valid()
    if not is_numbers:
        is_some = pc.and_(is_some, pc.fill_null(pc.not_equal(elements, ""), False))
    keep = np.asarray(is_some.to_numpy(zero_copy_only=False), bool)
    rows, elements = rows[keep], elements.filter(is_some)
    if not len(rows):
        raise SourceError(
            f"{table.name}, column {name!r}: expected classes in at least one row, found none."
        )
    if is_numbers:
        numbers, names, is_numbered = check_class_numbers(
            table, name, elements.to_numpy(zero_copy_only=False), rows
        )
        _check_not_multi_hot(table, name, numbers, lists)
    else:
        distinct = elements.unique()
        numbers = np.asarray(
            pc.index_in(elements, value_set=distinct).to_numpy(zero_copy_only=False), np.int32
        )
        names, is_numbered = clean_names(table, name, distinct.to_pylist(), numbers, rows), False
        check_spelling(table, name, names, numbers, rows)
    return Labels(
        kind="multi",
        values=make_lists(rows, numbers, len(lists)),
        class_names=names,
        has_numbered_classes=is_numbered,
        notes=order_note(table, name) if is_numbers else (),
    )


def _flat(lists: "pa.ChunkedArray") -> "tuple[NDArray[np.int64], pa.Array]":
    """Returns (the row of each element, all elements)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    rows = np.repeat(np.arange(len(lists), dtype=np.int64), lengths)
    parts = [chunk.flatten() for chunk in lists.chunks]
    return rows, pa.concat_arrays(parts) if parts else pa.array([], lists.type.value_type)


def _check_not_multi_hot(
    table: Table, name: str, numbers: NDArray[np.int32], lists: "pa.ChunkedArray"
) -> None:
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    if width := multi_hot_width(lengths, int(numbers.max())):
        raise SourceError(
            f"{table.name}, column {name!r}: expected lists of the classes' numbers, got lists of "
            f"{width:,} zeros and ones. Give each class a column of its own and pass their names "
            "as label=[...]."
        )


def _read_vectors(table: Table, name: str, lists: "pa.ChunkedArray", *, is_guess: bool) -> Labels:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows, elements = _flat(lists)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    size = int(lengths[0])
    bad = BadRows(
        table,
        name,
        f"expected {size:,} numbers as in {table.place(0)}" if size else "expected numbers",
        "Make all lists equally long.",
    )
    for row in np.flatnonzero((lengths != size) | (lengths == 0)).tolist():
        bad.add(row, f"{lengths[row]:,}")
    bad.check()
    if size > _MAX_VALUES:
        raise SourceError(
            f"{table.name}, column {name!r}: expected at most {_MAX_VALUES:,} numbers a row, got "
            f"{size:,}."
        )
    if not (pa.types.is_floating(elements.type) or pa.types.is_integer(elements.type)):
        raise SourceError(
            f"{table.name}, column {name!r}: expected lists of numbers, got lists of "
            f"{elements.type}. Convert it."
        )
    floats = pc.fill_null(elements.cast(pa.float64(), safe=False), np.nan)
    with np.errstate(over="ignore"):
        numbers = floats.to_numpy(zero_copy_only=False).astype(np.float32)
    bad = BadRows(table, name, "expected numbers", "Correct it, or remove the row.")
    for at in np.flatnonzero(~np.isfinite(numbers)).tolist():
        bad.add(int(rows[at]), repr(elements[at].as_py()))
    bad.check()
    note = (f"{table.name}: the labels of column {name!r} are read as vectors of {size:,} values.",)
    return Labels(kind="value", values=numbers.reshape(-1, size), notes=note if is_guess else ())


def _read_several(
    table: Table, data: "pa.Table", names: Sequence[str], kind: SourceLabelKind | None
) -> Labels:
    """Returns the labels of a column for each class, or for each number of a vector."""
    on = None if kind == "value" else _columns_that_are_on(table, data, names, kind)
    if on is None:
        columns = [read_numbers(table, name, data.column(name)) for name in names]
        note = (
            f"{table.name}: the labels are read as vectors of {len(names)} values, because they "
            "are not all 0 or 1."
        )
        return Labels(
            kind="value", values=np.stack(columns, 1), notes=(note,) if kind is None else ()
        )
    clean = [clean_class_name(name, f"{table.name}, column {name!r}") for name in names]
    check_distinct(clean, table.name)
    rows = np.concatenate(on)
    numbers = np.repeat(np.arange(len(on), dtype=np.int32), [len(part) for part in on])
    if kind != "single":
        lists = make_lists(rows, numbers, table.num_rows)
        guess = (
            f"{table.name}: the labels are read as any number of {len(names)} classes, a column "
            "for each.",
        )
        return Labels(
            kind="multi",
            values=lists,
            class_names=tuple(clean),
            notes=guess if kind is None else (),
        )
    counts = np.bincount(rows, minlength=table.num_rows)
    bad = BadRows(
        table,
        names[0],
        f"expected 1 in exactly one of the {len(names)} columns of the classes",
        'Correct it, or pass label_kind="multi".',
    )
    for row in np.flatnonzero(counts != 1).tolist():
        bad.add(row, f"it in {counts[row]}")
    bad.check()
    values = np.empty(table.num_rows, np.int32)
    values[rows] = numbers
    return Labels(kind="single", values=values, class_names=tuple(clean))


def _columns_that_are_on(
    table: Table, data: "pa.Table", names: Iterable[str], kind: SourceLabelKind | None
) -> list[NDArray[np.int64]] | None:
    """Returns the rows in which each column is 1; None: they are not all 0 or 1, and need not be.

    Raises:
      SourceError: they must be, and a cell is not.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found = []
    for name in names:
        column = data.column(name)
        if pa.types.is_large_string(column.type):
            texts = pc.utf8_lower(pc.utf8_trim_whitespace(pc.fill_null(column, "")))
            is_on = pc.is_in(texts, value_set=pa.array(_ON, pa.large_string())).to_numpy()
            is_off = pc.is_in(texts, value_set=pa.array(_OFF, pa.large_string())).to_numpy()
        elif pa.types.is_nested(column.type) or pa.types.is_temporal(column.type):
            is_on = is_off = np.zeros(len(column), bool)
        else:
            numbers = _zeros_and_ones(column)
            is_on, is_off = numbers == 1, numbers == 0
        if len(wrong := np.flatnonzero(~(is_on | is_off))):
            if kind is None:
                return None
            bad = BadRows(
                table, name, "expected 1 or 0", "Correct it, or pass the label_kind= of it."
            )
            bad.add_all(wrong.tolist(), column)
            bad.check()
        found.append(np.flatnonzero(is_on))
    return found


def _zeros_and_ones(column: "pa.ChunkedArray") -> NDArray[np.float64]:
    """Returns float64 [n] of a column of numbers or truth values; where there is none, 0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    numbers = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0).to_numpy()
    return np.nan_to_num(np.asarray(numbers, np.float64), nan=0.0)  # pandas's empty cell
