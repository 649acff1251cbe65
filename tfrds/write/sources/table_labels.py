"""The labels of a table: classes by name or number, several at once, or values.

Gets the columns of the labels, gives them as `References` hold them. The kind is what the user
says, or what the cells look like; what could be read in two ways is an error.
`table_label_lists.py` reads labels of several classes.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import SourceError
from tfrds.write.sources.base import (
    LabelLists,
    SourceLabelKind,
    check_distinct,
    clean_class_name,
)
from tfrds.write.sources.class_numbers import MAX_CLASSES
from tfrds.write.sources.table_numbers import NUMBER, WHOLE, are_all, read_numbers
from tfrds.write.sources.tables import BadRows, Table

if TYPE_CHECKING:
    import pyarrow as pa

# What stands between classes in one cell.
_SEPARATORS = (";", "|", ",")

# Numbers that a class may be written as by some program and as another text by another.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Labels:
    """Labels of all rows; the attributes are those of `References`."""

    kind: SourceLabelKind
    values: "NDArray[np.int32] | LabelLists | NDArray[np.float32] | None" = None
    class_names: tuple[str, ...] = ()
    has_numbered_classes: bool = False
    notes: tuple[str, ...] = ()

    def shown(self, row: int) -> Any:
        """Returns the label of a row for a message: names of classes, or numbers."""
        if self.values is None:
            return None
        if isinstance(self.values, LabelLists):
            start, end = self.values.offsets[row : row + 2].tolist()
            return [self.class_names[number] for number in self.values.numbers[start:end]]
        value = self.values[row].tolist()
        return self.class_names[value] if self.kind == "single" else value


def read_class_column(
    table: Table, name: str, column: "pa.ChunkedArray", kind: SourceLabelKind | None
) -> Labels:
    """Returns one label for each row: a class, or a value where `kind` or the cells say so.

    Args:
      table: that the column is of.
      name: of the column.
      column: of text or numbers.
      kind: "single", "value", or None: by the cells.

    Raises:
      SourceError: an empty cell, a class that no name or number can be, two spellings of one
        number, or numbers that may be classes or values.
    """
    import pyarrow as pa

    own = column.type
    if kind == "value":
        return Labels(kind="value", values=read_numbers(table, name, column))
    if pa.types.is_integer(own):
        return _numbered(table, name, column)
    if pa.types.is_floating(own) or pa.types.is_decimal(own):
        if kind is None and _has_fractions(column):
            return _values_by_look(table, name, column)
        raise _either_or(table, name, "numbers with a decimal point")
    if pa.types.is_null(own) or pa.types.is_boolean(own):
        column = column.cast(pa.large_string())  # "true" and "false"
    elif not pa.types.is_large_string(own):
        raise SourceError(
            f"{table.name}, column {name!r}: expected the names or numbers of classes, got {own}. "
            "Convert it, or pass label_kind= of what it is."
        )
    is_open = kind is None and table.is_written(name)
    labels = _named(table, name, column, may_be_values=is_open)
    notes = _separator_note(table, name, labels.class_names) if kind is None else ()
    return dataclasses.replace(labels, notes=(*labels.notes, *notes))


def _named(table: Table, name: str, column: "pa.ChunkedArray", *, may_be_values: bool) -> Labels:
    distinct = column.unique().drop_null()
    if may_be_values and _has_written_fractions(distinct):
        return _values_by_look(table, name, column)
    numbers, names = name_classes(table, name, column)
    check_spelling(table, name, names, numbers)
    if may_be_values and are_all(distinct, NUMBER) and not are_all(distinct, WHOLE):
        odd = next(text for text in names if not re.match(WHOLE, text))
        raise _either_or(table, name, f"whole numbers with a decimal point such as {odd!r}")
    return Labels(kind="single", values=numbers, class_names=names)


def _separator_note(table: Table, name: str, names: Sequence[str]) -> tuple[str, ...]:
    """Says so where names look like several classes with something between them."""
    for separator in _SEPARATORS:
        joined = [text for text in names if separator in text]
        parts = {part.strip() for text in joined for part in text.split(separator)}
        if joined and not parts.isdisjoint(names):
            return (
                f"{table.name}: column {name!r} has classes such as {joined[0]!r}. If these are "
                f"several classes, pass separator={separator!r}.",
            )
    return ()


def name_classes(
    table: Table, name: str, column: "pa.ChunkedArray"
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Returns (int32 [n] positions in the names, names of classes in order of their first rows).

    Raises:
      SourceError: an empty cell, or text that no class can be named.
    """
    import pyarrow.compute as pc

    is_empty = pc.fill_null(pc.equal(column, ""), True).to_numpy()
    bad = BadRows(table, name, "expected the name of a class", "Fill it, or remove the row.")
    bad.add_all(np.flatnonzero(is_empty).tolist(), column)
    bad.check()
    distinct = column.unique()
    numbers = np.asarray(pc.index_in(column, value_set=distinct).to_numpy(), np.int32)
    return numbers, clean_names(table, name, distinct.to_pylist(), numbers)


def clean_names(
    table: Table,
    name: str,
    distinct: Sequence[str],
    numbers: NDArray[np.int32],
    rows: "NDArray[np.int64] | None" = None,
) -> tuple[str, ...]:
    """Returns the names of classes in NFC.

    Args:
      table: for the message.
      name: of the column.
      distinct: names as written.
      numbers: positions in them.
      rows: of each of the numbers; None: one for each row.

    Raises:
      SourceError: a name that no class can have, with its first row, or two that are equal.
    """
    clean = []
    for number, text in enumerate(distinct):
        try:
            clean.append(clean_class_name(text, ""))
        except SourceError:
            first = int(np.flatnonzero(numbers == number)[0])
            row = first if rows is None else int(rows[first])
            clean.append(clean_class_name(text, table.where(row, name)))
    check_distinct(clean, f"{table.name}, column {name!r}")
    return tuple(clean)


def check_spelling(
    table: Table,
    name: str,
    names: Sequence[str],
    numbers: NDArray[np.int32],
    rows: "NDArray[np.int64] | None" = None,
) -> None:
    """Raises SourceError where two names are one number in two spellings, as `1` beside `1.0`."""
    position_of: dict[float, int] = {}
    for position, text in enumerate(names):
        if not _NUMBER.fullmatch(text):
            continue
        first = position_of.setdefault(float(text), position)
        if first == position:
            continue
        here, there = (
            int(at if rows is None else rows[at])
            for at in (int(np.flatnonzero(numbers == other)[0]) for other in (position, first))
        )
        raise SourceError(
            f"{table.where(here, name)}: expected one spelling for each number, got {text!r} "
            f"beside {names[first]!r} of {table.place(there)}. Write both alike, or pass "
            'label_kind="value" if they are no classes.'
        )


def check_class_numbers(
    table: Table,
    name: str,
    numbers: NDArray[Any],
    rows: "NDArray[np.int64] | None" = None,
) -> tuple[NDArray[np.int32], tuple[str, ...], bool]:
    """Returns (class numbers, names, whether the classes are numbers).

    Raises:
      SourceError: a number below 0, or beyond the classes whose names the file knows.
    """
    names = table.class_names(name)
    limit = len(names) or MAX_CLASSES
    bad = BadRows(
        table,
        name,
        f"expected a class number from 0 to {limit - 1:,}",
        "Correct it, or remove the row."
        + (" By -1 Hugging Face means that there is no label." if names else ""),
    )
    for at in np.flatnonzero((numbers < 0) | (numbers >= limit)).tolist():
        bad.add(at if rows is None else int(rows[at]), str(numbers[at]))
    bad.check()
    highest = int(numbers.max()) if len(numbers) else -1
    own = names or tuple(str(number) for number in range(highest + 1))
    return numbers.astype(np.int32), own, not names


def order_note(table: Table, name: str) -> tuple[str, ...]:
    """Says where the file's own numbers of named classes will not be the dataset's."""
    names = table.class_names(name)
    if list(names) == sorted(names):
        return ()
    return (
        f"{table.name}: the classes of column {name!r} are numbered by their sorted names, not as "
        "in the file. Pass class_names= with the file's order to keep its numbers.",
    )


def _numbered(table: Table, name: str, column: "pa.ChunkedArray") -> Labels:
    bad = BadRows(table, name, "expected a class number", "Fill it, or remove the row.")
    if column.null_count:
        bad.add_all(np.flatnonzero(column.is_null().to_numpy()).tolist(), column)
    bad.check()
    numbers, names, is_numbered = check_class_numbers(table, name, column.to_numpy())
    return Labels(
        kind="single",
        values=numbers,
        class_names=names,
        has_numbered_classes=is_numbered,
        notes=order_note(table, name),
    )


def _has_fractions(column: "pa.ChunkedArray") -> bool:
    import pyarrow as pa

    numbers = np.asarray(column.drop_null().cast(pa.float64()).to_numpy(), np.float64)
    finite = numbers[np.isfinite(numbers)]
    return bool((finite != np.floor(finite)).any())


def _has_written_fractions(distinct: "pa.Array") -> bool:
    """Whether all texts are numbers, and some of them are not whole."""
    if not are_all(distinct, NUMBER):
        return False
    return any(not float(text).is_integer() for text in distinct.to_pylist())


def _values_by_look(table: Table, name: str, column: "pa.ChunkedArray") -> Labels:
    note = (
        f"{table.name}: the labels of column {name!r} are read as values (regression), because "
        "they are numbers that are not whole. If they are names of classes, pass "
        'label_kind="single".'
    )
    return Labels(kind="value", values=read_numbers(table, name, column), notes=(note,))


def _either_or(table: Table, name: str, what: str) -> SourceError:
    return SourceError(
        f"{table.name}, column {name!r}: expected names or whole numbers of classes, got {what}. "
        'For values (regression) pass label_kind="value"; for classes write whole numbers.'
    )
