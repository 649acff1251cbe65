"""CSV and TSV files: every cell as the text that was written, every row with its line.

Gets a file, gives columns of text; `tables.py` calls it. Parsed by Python's `csv` and not by
pyarrow's reader, because that knows no lines: a row's number is no help where quoted cells hold
line breaks. A million rows take some seconds, as finding their images does.
"""

import array
import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfrds.errors import SourceError
from tfrds.write.sources.table_files import TableFile
from tfrds.write.sources.table_text import read_lines

if TYPE_CHECKING:
    import pyarrow as pa

_DELIMITERS = (",", ";", "\t", "|")

# Rows that are lists of Python before they become columns.
_BLOCK = 8_192


class DelimitedText:
    """A file whose first line names its columns.

    Args:
      file: of text.
      delimiter: between cells; None: the one by which the first line has most cells.
      encoding: of the file.

    Raises:
      SourceError: the file is empty, a column stands twice, or the text cannot be read.
    """

    class_names: Mapping[str, tuple[str, ...]] = {}

    def __init__(self, file: TableFile, delimiter: str | None, encoding: str) -> None:
        self._file = file
        self._encoding = encoding
        self.name = file.name
        self.notes: tuple[str, ...] = ()
        self._lines = np.zeros(0, np.int64)  # filled by `read`
        first = next((line for line in read_lines(file, encoding) if line.strip()), "")
        if not first:
            raise SourceError(
                f"{file.name}: expected a line with the names of the columns, found an empty file."
            )
        self._delimiter = delimiter or _guess_delimiter(first, file.path.suffix.lower())
        # "path, label": by the header's look the spaces are no part of the cells.
        cells = first.count(self._delimiter)
        self._skips_spaces = cells > 0 and first.count(self._delimiter + " ") == cells
        _, header = next(self._records())
        self._header = [name.strip() for name in header]
        self.names = [name for name in self._header if name]
        self.written = frozenset(self.names)
        for name in self.names:
            if self.names.count(name) > 1:
                raise SourceError(
                    f"{file.name}: expected each column once, got {name!r} "
                    f"{self.names.count(name)} times in the first line. Rename or remove the "
                    "others."
                )
        if len(self.names) < len(self._header):
            self.notes = (f"{file.name}: columns without a name in the first line are left out.",)

    def read(self, columns: Sequence[str]) -> "tuple[pa.Table, int]":
        """Returns (columns of text, the number of rows)."""
        import pyarrow as pa

        positions = [self._header.index(column) for column in columns]
        blocks: list[list[pa.Array]] = [[] for _ in positions]
        rows: list[list[str]] = []
        lines = array.array("q")
        for line, record in self._rows():
            rows.append(record)
            lines.append(line)
            if len(rows) == _BLOCK:
                _add(blocks, positions, rows)
                rows = []
        _add(blocks, positions, rows)
        self._lines = np.array(lines, np.int64)
        columns_read = [pa.chunked_array(own, pa.large_string()) for own in blocks]
        return pa.table(columns_read, names=list(columns)), len(lines)

    def holds_bytes(self, column: str) -> bool:
        """Text has none."""
        return False

    def place(self, row: int) -> str:
        """Returns the line on which a row begins, the first line of the file being 1."""
        return f"line {self._lines[row]:,}"

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yields (line, cells) of each row behind the header."""
        records = self._records()
        next(records)
        for line, record in records:
            if len(record) != len(self._header):
                raise SourceError(
                    f"{self.name} line {line:,}: expected {len(self._header)} cells as in the "
                    f"first line, got {len(record)}: {_shortened(record)}. Cells that hold "
                    f"{self._delimiter!r} or line breaks must stand in double quotes."
                )
            yield line, record

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(
            read_lines(self._file, self._encoding),
            delimiter=self._delimiter,
            skipinitialspace=self._skips_spaces,
            strict=True,
        )
        line = 1
        while True:
            try:
                record = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise SourceError(
                    f"{self.name} line {line:,}: cannot be read from here on: {error}. Look for a "
                    "double quote that is not closed, or not doubled inside a quoted cell."
                ) from error
            if len(record) > 1 or (record and record[0].strip()):
                yield line, record
            line = reader.line_num + 1


def _guess_delimiter(line: str, ending: str) -> str:
    """Returns the delimiter that makes most cells of the first line."""
    cells = {delimiter: next(csv.reader([line], delimiter=delimiter)) for delimiter in _DELIMITERS}
    # A quote inside a cell: it began in the middle of a quoted one.
    counts = {
        delimiter: 1 if any('"' in cell for cell in own) else len(own)
        for delimiter, own in cells.items()
    }
    best = max(counts, key=lambda delimiter: counts[delimiter])
    return best if counts[best] > 1 else {".tsv": "\t"}.get(ending, ",")


def _add(
    blocks: "list[list[pa.Array]]", positions: Sequence[int], rows: Sequence[Sequence[str]]
) -> None:
    import pyarrow as pa

    for own, position in zip(blocks, positions, strict=True):
        own.append(pa.array([row[position] for row in rows], pa.large_string()))


def _shortened(record: Sequence[str]) -> str:
    text = repr(list(record))
    return text if len(text) <= 200 else f"{text[:200]}..."
