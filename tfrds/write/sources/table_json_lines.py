"""JSON Lines: an object a line, as columns whose types are those of its values.

Gets a file, gives columns; `tables.py` calls it. Numbers are kept as they were written until all
are known, so that `1` beside `1.0` is seen, and whole numbers that no dtype holds stay text.
"""

import array
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfrds.errors import SourceError
from tfrds.write.sources.table_files import TableFile
from tfrds.write.sources.table_text import read_lines

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 8_192


class _Whole(str):
    """A whole number as it was written."""

    __slots__ = ()


class _Fraction(str):
    """Another number as it was written."""

    __slots__ = ()


_SCALARS = (str, _Whole, _Fraction, bool)


class JsonLines:
    """A file with an object on each line; what a line lacks is an empty cell.

    Raises:
      SourceError: a line is no object, or a column has lists and single values.
    """

    class_names: Mapping[str, tuple[str, ...]] = {}
    notes: tuple[str, ...] = ()

    def __init__(self, file: TableFile, encoding: str) -> None:
        self.name = file.name
        columns: dict[str, _Column] = {}
        rows: list[dict[str, Any]] = []
        lines = array.array("q")
        for number, line in enumerate(read_lines(file, encoding), 1):
            if not line.strip():
                continue
            rows.append(_parse(line, f"{file.name} line {number:,}"))
            lines.append(number)
            if len(rows) == _BLOCK:
                self._add(columns, rows, lines)
                rows = []
        self._add(columns, rows, lines)
        self._lines = np.array(lines, np.int64)
        self._columns = {name: column.finish() for name, column in columns.items()}
        self.names = list(columns)
        self.written = frozenset(name for name, column in columns.items() if column.is_written)
        if not self.names:
            raise SourceError(f"{file.name}: expected a JSON object on each line, found none.")

    def read(self, columns: Sequence[str]) -> "tuple[pa.Table, int]":
        """Returns (the columns, the number of rows)."""
        import pyarrow as pa

        own = [self._columns[column] for column in columns]
        return pa.table(own, names=list(columns)), len(self._lines)

    def holds_bytes(self, column: str) -> bool:
        """Text has none."""
        return False

    def place(self, row: int) -> str:
        """Returns the line of a row, the first of the file being 1."""
        return f"line {self._lines[row]:,}"

    def _add(
        self, columns: "dict[str, _Column]", rows: list[dict[str, Any]], lines: Sequence[int]
    ) -> None:
        first = len(lines) - len(rows)
        for row in rows:
            for name in row:
                if name not in columns:
                    columns[name] = _Column(name, self.name, first)
        for name, column in columns.items():
            try:
                column.add([row.get(name) for row in rows], lines[first:])
            except UnicodeEncodeError as error:
                raise SourceError(
                    f"{self.name}, column {name!r}, line {lines[first]:,} or after it: expected "
                    f"text, got half a character, {error.object[error.start : error.end]!r}. "
                    "Write it again in UTF-8."
                ) from error


class _Column:
    """A column as far as it is read: text as it was written, and which kinds of values it had."""

    def __init__(self, name: str, table: str, num_before: int) -> None:
        import pyarrow as pa

        self._name = name
        self._table = table
        self._kinds: set[type] = set()
        self._are_lists: bool | None = None
        self._first_line = 0
        self._blocks = [pa.nulls(num_before, pa.large_string())]

    @property
    def is_written(self) -> bool:
        """Whether numbers were written in several ways, so that the text alone says which."""
        is_mixed = self._kinds == {_Whole, _Fraction}
        return is_mixed and not self._are_lists

    def add(self, values: list[Any], lines: Sequence[int]) -> None:
        """Takes a block of cells."""
        import pyarrow as pa

        kinds = set(map(type, values)) - {type(None)}
        if kinds:
            self._check_lists(values, lines, kinds)
        if self._are_lists:
            elements = {type(element) for value in values if value for element in value}
            self._kinds |= elements
            is_plain = elements <= {*_SCALARS, type(None)}
            texts = [value and [_text(element) for element in value] for value in values]
            kind = pa.large_list(pa.large_string())
            # Blocks before the first list hold nothing.
            self._blocks = [
                block if block.type == kind else pa.nulls(len(block), kind)
                for block in self._blocks
            ]
            self._blocks.append(pa.array(texts if is_plain else [None] * len(values), kind))
        else:
            self._kinds |= kinds
            is_plain = kinds <= set(_SCALARS)
            texts = [_text(value) for value in values] if is_plain else [None] * len(values)
            self._blocks.append(pa.array(texts, pa.large_string()))

    def finish(self) -> "pa.ChunkedArray":
        """Returns the column in the type that holds all its values."""
        import pyarrow as pa

        column = pa.chunked_array(self._blocks)
        self._blocks = []
        own = self._type()
        if own is None:
            return column
        if pa.types.is_struct(own) or pa.types.is_null(own):
            return pa.chunked_array([pa.nulls(len(column), own)])
        try:
            return column.cast(pa.large_list(own) if self._are_lists else own)
        except pa.ArrowInvalid:  # more digits than the type holds
            return column

    def _type(self) -> "pa.DataType | None":
        """Returns the type of the values; None: text as it is; of objects an empty struct."""
        import pyarrow as pa

        kinds = self._kinds - {type(None)}
        if not kinds <= set(_SCALARS):
            return pa.struct([])
        if kinds == {_Whole}:
            return pa.int64()
        if kinds == {_Fraction} or (self._are_lists and kinds == {_Whole, _Fraction}):
            return pa.float64()
        if kinds == {bool}:
            return pa.bool_()
        return pa.null() if not kinds and not self._are_lists else None

    def _check_lists(self, values: list[Any], lines: Sequence[int], kinds: set[type]) -> None:
        for value, line in zip(values, lines, strict=True):
            if value is None:
                continue
            if self._are_lists is None:
                self._are_lists, self._first_line = isinstance(value, list), line
            elif isinstance(value, list) != self._are_lists:
                expected = "a list" if self._are_lists else "a single value"
                raise SourceError(
                    f"{self._table} line {line:,}, column {self._name!r}: expected {expected} as "
                    f"in line {self._first_line:,}, got {str(value)[:100]!r}. Write all alike."
                )
            elif kinds == {list} or list not in kinds:
                return  # the rest is of the same kind


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value  # type: ignore[no-any-return]


def _parse(line: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line, parse_int=_Whole, parse_float=_Fraction, parse_constant=_Fraction)
    except json.JSONDecodeError as error:
        raise SourceError(
            f"{where}: expected a JSON object, got {line.strip()[:100]!r}: {error.msg} at "
            f"character {error.colno:,}. Write one object a line."
        ) from error
    except RecursionError as error:
        raise SourceError(f"{where}: expected a flat JSON object, got one far too deep.") from error
    if not isinstance(value, dict):
        raise SourceError(
            f"{where}: expected a JSON object, got {line.strip()[:100]!r}. Write one object a line."
        )
    return value
