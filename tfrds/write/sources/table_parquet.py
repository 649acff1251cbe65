"""Parquet files: their columns, without those that hold images.

Gets a file, gives columns of Arrow; `tables.py` calls it. The bytes of images are read by the
workers, see `parquet_images.py`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfrds.errors import SourceError
from tfrds.write.sources.table_files import TableFile
from tfrds.write.sources.table_hugging_face import class_names_of

if TYPE_CHECKING:
    import pyarrow as pa

# Of a column so much is in memory at once, instead of all that a row group has of it.
BUFFER_BYTES = 2**18


@dataclasses.dataclass(frozen=True)
class RowGroup:
    """What the footer says of an image column in one row group.

    Attributes:
      num_rows: of it.
      num_empty: of the column's cells; None: the file does not say.
      num_bytes: of the column, about as they are in memory.
    """

    num_rows: int
    num_empty: int | None
    num_bytes: int


class ParquetPart:
    """A Parquet file; its rows are counted from 1.

    Raises:
      SourceError: it is damaged, or no Parquet file.
    """

    written: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def __init__(self, file: TableFile) -> None:
        self.file = file
        self.name = file.name
        with open_parquet(file) as opened:
            self._metadata = opened.metadata
            self._schema = opened.schema_arrow
        self.names = list(self._schema.names)
        for name in self.names:
            if self.names.count(name) > 1:
                raise SourceError(
                    f"{file.name}: expected each column once, got {name!r} "
                    f"{self.names.count(name)} times. Rename or remove the others."
                )
        self.class_names: Mapping[str, tuple[str, ...]] = class_names_of(self._schema.metadata)

    def read(self, columns: Sequence[str]) -> "tuple[pa.Table, int]":
        """Returns (the columns, the number of rows); of a struct of an image its path alone."""
        import pyarrow as pa

        wanted = [f"{name}.path" if self._image_leaf(name) else name for name in columns]
        try:
            with open_parquet(self.file) as opened:
                table = opened.read(columns=wanted)
        except (pa.ArrowException, OSError) as error:
            raise damaged(self.file, error) from error
        return table.select(list(columns)), self._metadata.num_rows

    def holds_bytes(self, column: str) -> bool:
        """Whether the column is binary, or a struct of bytes and path with any bytes in it."""
        if self.leaf(column) is None:
            return False
        groups = self.row_groups(column)
        known = [group.num_empty for group in groups if group.num_empty is not None]
        all_empty = len(known) == len(groups) and sum(known) == self._metadata.num_rows
        return not (all_empty and self.has_paths(column))

    def has_paths(self, column: str) -> bool:
        """Whether a column of images is a struct that has a path beside the bytes."""
        import pyarrow as pa

        own = self._schema.field(column).type
        return bool(pa.types.is_struct(own) and own.get_field_index("path") >= 0)

    def leaf(self, column: str) -> str | None:
        """Returns what Parquet calls the column of the images' bytes; None: it has none."""
        own = self._schema.field(column).type
        return column if is_binary(own) else self._image_leaf(column)

    def row_groups(self, column: str) -> list[RowGroup]:
        """Returns what the footer says of the images' bytes."""
        number = self._schema_leaves().index(str(self.leaf(column)))
        groups = []
        for position in range(self._metadata.num_row_groups):
            chunk = self._metadata.row_group(position).column(number)
            statistics = chunk.statistics
            is_known = statistics is not None and statistics.has_null_count
            groups.append(
                RowGroup(
                    num_rows=self._metadata.row_group(position).num_rows,
                    num_empty=statistics.null_count if is_known else None,
                    num_bytes=chunk.total_uncompressed_size,
                )
            )
        return groups

    def place(self, row: int) -> str:
        """Returns the number of a row, counted from 1."""
        return f"row {row + 1:,}"

    def _schema_leaves(self) -> list[str]:
        schema = self._metadata.schema
        return [schema.column(number).path for number in range(len(schema))]

    def _image_leaf(self, column: str) -> str | None:
        """Returns the leaf of the bytes of a struct of bytes and perhaps a path."""
        import pyarrow as pa

        own = self._schema.field(column).type
        if not pa.types.is_struct(own):
            return None
        position = own.get_field_index("bytes")
        return f"{column}.bytes" if position >= 0 and is_binary(own.field(position).type) else None


def open_parquet(file: TableFile) -> Any:
    """Returns the opened file, which reads a column piece by piece.

    Raises:
      SourceError: it is damaged, or no Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(file.path, buffer_size=BUFFER_BYTES, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise damaged(file, error) from error


def damaged(file: TableFile, error: Exception) -> SourceError:
    """Returns the error of a file that pyarrow cannot read."""
    return SourceError(f"{file.path}: cannot be read as Parquet: {error}. Write or copy it again.")


def is_binary(own: "pa.DataType") -> bool:
    """Whether values of a type are bytes of any length."""
    import pyarrow as pa

    checks = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(check(own) for check in checks)
