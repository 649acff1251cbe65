"""A table of any kind as columns of Arrow, with the place of each row as its user knows it.

Gets what a user passes as a table, gives a `Table`; what each of its columns means is decided by
`table_roles.py`, and `manifest.py` puts all of it together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources.table_delimited import DelimitedText
from tfrds.write.sources.table_files import TableFiles, find_files
from tfrds.write.sources.table_json_lines import JsonLines
from tfrds.write.sources.table_memory import MemoryTable, is_memory_table
from tfrds.write.sources.table_parquet import ParquetPart

if TYPE_CHECKING:
    import pyarrow as pa

_LISTED = 5

# Of a cell so many characters are shown.
_SHOWN = 80

# Cells become objects of Python in blocks of so many.
_BLOCK = 16_384


class Part(Protocol):
    """One file of a table, or a table in memory.

    Attributes:
      name: for errors.
      names: of the columns, each once.
      written: columns of text as the file has it, which says nothing of their dtype.
      class_names: of columns whose whole numbers are classes with known names.
      notes: what was left out.
    """

    name: str
    names: list[str]
    written: frozenset[str]
    class_names: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]

    def read(self, columns: Sequence[str]) -> "tuple[pa.Table, int]":
        """Returns (the columns, the number of rows)."""

    def holds_bytes(self, column: str) -> bool:
        """Whether the column's cells are the bytes of images."""

    def place(self, row: int) -> str:
        """Returns where a row that was read stands, such as "line 8"."""


class Table:
    """Rows of one or more parts, one after the other.

    Attributes:
      name: of the whole, for errors.
      parts: in the order of their rows.
      files: that the parts are; None: a table in memory.
      names: of the columns, the same in all parts.
      starts: int64 [num parts + 1], the first row of each part, and the number of rows; filled by
        `read`.
    """

    def __init__(self, name: str, parts: Sequence[Part], files: TableFiles | None = None) -> None:
        self.name = name
        self.parts = parts
        self.files = files
        self.names = parts[0].names
        self.starts = np.zeros(1, np.int64)
        for part in parts[1:]:
            if odd := sorted(set(part.names) ^ set(self.names)):
                has, lacks = (part, parts[0]) if odd[0] in part.names else (parts[0], part)
                raise SourceError(
                    f"{self.name}: expected the same columns in all files, but {has.name} has "
                    f"{odd[0]!r} and {lacks.name} has not. Add it there, or pass files of one kind."
                )

    @property
    def num_rows(self) -> int:
        """Of all parts, as far as they are read."""
        return int(self.starts[-1])

    @property
    def notes(self) -> tuple[str, ...]:
        """Of all parts, each once."""
        return tuple(dict.fromkeys(note for part in self.parts for note in part.notes))

    def is_written(self, column: str) -> bool:
        """Whether a column is text as written, in every part."""
        return all(column in part.written for part in self.parts)

    def holds_bytes(self, column: str) -> bool:
        """Whether a column's cells are the bytes of images, in any part."""
        return any(part.holds_bytes(column) for part in self.parts)

    def class_names(self, column: str) -> tuple[str, ...]:
        """Returns the names of the classes that a column's numbers are; none: not known.

        Raises:
          SourceError: two files have other names.
        """
        known = {part.class_names.get(column, ()): part.name for part in self.parts}
        if len(known) > 1:
            first, second = list(known.values())[:2]
            raise SourceError(
                f"{self.name}, column {column!r}: expected the same class names in all files, but "
                f"those of {first} and {second} differ. Write both with the same features."
            )
        return next(iter(known))

    def read(self, columns: Sequence[str]) -> "pa.Table":
        """Returns the columns of all parts; text and numbers as they are, categories as values.

        Raises:
          SourceError: a file is damaged, or the types of two do not fit.
        """
        import pyarrow as pa

        read = [part.read(columns) for part in self.parts]
        self.starts = np.cumsum([0, *(count for _, count in read)])
        try:
            joined = pa.concat_tables(
                [_without_categories(data) for data, _ in read], promote_options="permissive"
            )
        except pa.ArrowException as error:
            raise SourceError(
                f"{self.name}: expected the same types in all files: {error}. Write all of them "
                "alike."
            ) from error
        try:
            joined.validate(full=True)
        except pa.ArrowException as error:  # text that is no UTF-8, above all
            raise SourceError(
                f"{self.name}: expected valid values, found others: {error}. Write it again."
            ) from error
        return joined

    def place(self, row: int) -> str:
        """Returns where a row stands: "line 8", of several files with the file's name before it."""
        part = int(np.searchsorted(self.starts, row, side="right")) - 1
        place = self.parts[part].place(row - int(self.starts[part]))
        return place if len(self.parts) == 1 else f"{self.parts[part].name} {place}"

    def where(self, row: int, column: str) -> str:
        """Returns a cell as a message names it."""
        name = f"{self.name} " if len(self.parts) == 1 else ""
        return f"{name}{self.place(row)}, column {column!r}"


class BadRows:
    """Rows that break one rule: the first are kept for the error, all are counted.

    Args:
      table: that they are of.
      column: at fault.
      rule: what was expected.
      remedy: what to do, sentences.
    """

    def __init__(self, table: Table, column: str, rule: str, remedy: str) -> None:
        self._table = table
        self._column = column
        self._rule = rule
        self._remedy = remedy
        self._rows: list[tuple[int, str]] = []
        self.count = 0

    def add(self, row: int, got: str) -> None:
        """Notes a row and what it holds."""
        self.count += 1
        if len(self._rows) < _LISTED:
            self._rows.append((row, got))

    def add_all(self, rows: Iterable[int], column: "pa.ChunkedArray") -> None:
        """Notes rows of a column, by their cells."""
        for row in rows:
            got = ""
            if len(self._rows) < _LISTED:
                cell = column[int(row)].as_py()
                got = "an empty cell" if cell is None or cell == "" else shown(cell)
            self.add(int(row), got)

    def check(self) -> None:
        """Raises SourceError if there is any."""
        if not self.count:
            return
        (first, got), *others = self._rows
        more = ", ".join(f"{self._table.place(row)} ({value})" for row, value in others)
        if more:
            tail = ", ..." if self.count > _LISTED else ""
            more = f" So are {more}{tail}; {self.count:,} in all."
        raise SourceError(
            f"{self._table.where(first, self._column)}: {self._rule}, got {got}. {self._remedy}"
            f"{more}"
        )


def open_table(table: Any, delimiter: str | None, encoding: str) -> Table:
    """Returns the table that a path, a list of paths, a folder or an object in memory stands for.

    Raises:
      ConfigError: none of these, or a delimiter for what has none.
      SourceError: nothing is there, or it cannot be read.
    """
    if is_memory_table(table):
        if delimiter is not None:
            raise ConfigError("delimiter: expected None for a table in memory, which has none.")
        part = MemoryTable(table)
        return Table(part.name, [part])
    files = find_files(table)
    if delimiter is not None and files.kind != "delimited":
        raise ConfigError(
            f"delimiter: expected None for {files.name}, which is no CSV or TSV file, got "
            f"{delimiter!r}."
        )
    parts: list[Part] = []
    for file in files.files:
        if files.kind == "delimited":
            parts.append(DelimitedText(file, delimiter, encoding))
        elif files.kind == "json_lines":
            parts.append(JsonLines(file, encoding))
        else:
            parts.append(ParquetPart(file))
    return Table(files.name, parts, files)


def shown(value: Any) -> str:
    """Returns a cell's value for a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def cells(column: "pa.ChunkedArray") -> Iterator[Any]:
    """Yields the values of a column as objects of Python, a block at a time; None: no value."""
    import pyarrow as pa

    # Far faster than one scalar after the other.
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    for start in range(0, len(column), _BLOCK):
        block = column.slice(start, _BLOCK)
        yield from block.to_numpy().tolist() if is_text else block.to_pylist()


def _without_categories(table: "pa.Table") -> "pa.Table":
    """Returns the table with plain values instead of categories, and text of one type."""
    import pyarrow as pa

    for number, field in enumerate(table.schema):
        plain = field.type
        if pa.types.is_dictionary(plain):
            plain = plain.value_type
        if pa.types.is_string(plain) or pa.types.is_string_view(plain):
            plain = pa.large_string()  # no limit of 2 GiB a column
        if plain != field.type:
            table = table.set_column(number, field.name, table.column(number).cast(plain))
    return table
