"""Tables in memory: of pandas, of pyarrow, and of what gives its columns to pyarrow.

Gets the object, gives columns of Arrow; `tables.py` calls it.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfrds.errors import SourceError
from tfrds.write.sources.table_hugging_face import class_names_of
from tfrds.write.sources.table_parquet import is_binary

if TYPE_CHECKING:
    import pyarrow as pa


def is_memory_table(table: Any) -> bool:
    """Whether it is a table in memory; looks at no module that is not imported already."""
    return _is_pandas(table) or hasattr(table, "__arrow_c_stream__")


def _is_pandas(table: Any) -> bool:
    return all(hasattr(table, member) for member in ("iloc", "columns", "index", "dtypes"))


class MemoryTable:
    """A table in memory; its rows are counted from 1, and an index of pandas is no column.

    Raises:
      SourceError: a column stands twice.
    """

    written: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def __init__(self, table: Any) -> None:
        import pyarrow as pa

        self.name = "DataFrame" if _is_pandas(table) else "table"
        if not _is_pandas(table) and not isinstance(table, pa.Table):
            table = pa.table(table)
        self._table = table
        columns = table.columns if _is_pandas(table) else table.column_names
        self.names = [str(column) for column in columns]
        for name in self.names:
            if self.names.count(name) > 1:
                raise SourceError(
                    f"{self.name}: expected each column once, got {name!r} "
                    f"{self.names.count(name)} times. Rename or remove the others."
                )
        self.class_names: Mapping[str, tuple[str, ...]] = (
            {} if _is_pandas(table) else class_names_of(table.schema.metadata)
        )

    def read(self, columns: Sequence[str]) -> "tuple[pa.Table, int]":
        """Returns (the columns, the number of rows)."""
        import pyarrow as pa

        count = len(self._table) if _is_pandas(self._table) else self._table.num_rows
        return pa.table([self._column(name) for name in columns], names=list(columns)), count

    def holds_bytes(self, column: str) -> bool:
        """Whether the column is of bytes, or of structs that have any in a field of that name."""
        own = self.values(column)
        if _is_pandas(self._table):
            own = own.dropna().iloc[:1]
            value = own.iloc[0] if len(own) else None
            value = value.get("bytes") if isinstance(value, dict) else value
            return isinstance(value, bytes | bytearray | memoryview)
        fields = fields_of(own)
        return is_binary(fields["bytes"].type) and not (
            "path" in fields and fields["bytes"].null_count == len(own)
        )

    def values(self, column: str) -> Any:
        """Returns a column as the table has it: of pandas a Series, of pyarrow a ChunkedArray."""
        position = self.names.index(column)
        is_pandas = _is_pandas(self._table)
        return self._table.iloc[:, position] if is_pandas else self._table.column(position)

    def place(self, row: int) -> str:
        """Returns the number of a row, counted from 1."""
        return f"row {row + 1:,}"

    def _column(self, name: str) -> "pa.ChunkedArray":
        import pyarrow as pa

        values = self.values(name)
        if isinstance(values, pa.ChunkedArray):
            return values
        try:
            # Where pandas means "nothing" by NaN there is nothing, but NaN of a float column stays.
            array = pa.array(values, from_pandas=values.dtype.kind != "f")
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            array = self._objects(name, values)
        return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])

    def _objects(self, name: str, values: Any) -> "pa.Array":
        """Returns text of paths; of a column of several kinds none can be made."""
        import pyarrow as pa

        first = None
        texts: list[str | None] = []
        for row, (value, is_missing) in enumerate(zip(values, values.isna(), strict=True)):
            if is_missing:
                texts.append(None)
                continue
            first = value if first is None else first
            is_text = isinstance(value, str | os.PathLike)
            if not is_text or not isinstance(first, str | os.PathLike):
                kinds = f"{type(value).__name__} {str(value)[:80]!r}"
                raise SourceError(
                    f"{self.name} {self.place(row)}, column {name!r}: expected values of one kind "
                    f"that pyarrow can hold, the first being {type(first).__name__} "
                    f"{str(first)[:80]!r}, got {kinds}. Convert the column, or leave it out with "
                    "columns=."
                )
            texts.append(os.fspath(value))
        return pa.array(texts, pa.large_string())


def fields_of(column: "pa.ChunkedArray") -> "dict[str, pa.ChunkedArray]":
    """Returns the fields of a column of structs by name; of another the column as its bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_struct(column.type):
        return {"bytes": column}
    names = [column.type.field(number).name for number in range(column.type.num_fields)]
    fields = {name: pc.struct_field(column, name) for name in ("bytes", "path") if name in names}
    return {"bytes": pa.chunked_array([pa.nulls(len(column))]), **fields}
