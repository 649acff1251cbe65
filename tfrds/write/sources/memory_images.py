"""Images that lie as encoded bytes in a table in memory.

Gets the column, gives the bytes of each row; they travel to the workers, as the pixels of `Arrays`
do.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from tfrds.write.sources.table_memory import fields_of
from tfrds.write.sources.tables import BadRows, Table

if TYPE_CHECKING:
    import pyarrow as pa


class MemoryImages:
    """The images of a column of bytes, or of structs of bytes and perhaps a path.

    Args:
      table: in memory.
      name: of the column.

    Attributes:
      sizes: int64 [n], bytes of the images.
      stamps: uint64 [n], their hashes.
      paths: beside the images; None: there are none.

    Raises:
      SourceError: a cell that holds no bytes.
    """

    def __init__(self, table: Table, name: str) -> None:
        part: Any = table.parts[0]
        column = part.values(name)
        self._label = f"{table.name} {{}}, column {name!r}"
        self._place = table.place
        self.paths: pa.ChunkedArray | None = None
        if hasattr(column, "chunks"):
            fields = fields_of(column)
            own = fields["bytes"]
            self._cell: Callable[[int], Any] = lambda row: own[row].as_py()
            self.paths = _arrow_paths(fields.get("path"))
        else:
            self._cell = column.to_numpy(dtype=object).__getitem__
            self.paths = _paths(self._cell, table.num_rows)
        bad = BadRows(
            table, name, "expected the bytes of an image file", "Fill it, or remove the row."
        )
        self.sizes = np.zeros(table.num_rows, np.int64)
        self.stamps = np.zeros(table.num_rows, np.uint64)
        for row in range(table.num_rows):
            image = self.image(row)
            if image is None:
                bad.add(row, type(self._cell(row)).__name__)
                continue
            self.sizes[row] = len(image)
            self.stamps[row] = xxhash.xxh3_64_intdigest(image)
        bad.check()

    def inputs(self, rows: NDArray[np.int64]) -> "MemoryInputs":
        """Returns the images at `rows`; copied out when the object is pickled, not before."""
        return MemoryInputs(self, rows)

    def name(self, row: int) -> str:
        """Returns what the user knows an image as."""
        return self._label.format(self._place(row))

    def image(self, row: int) -> bytes | None:
        """Returns the bytes of an image, None where there are none."""
        cell = self._cell(row)
        if isinstance(cell, dict):
            cell = cell.get("bytes")
        return bytes(cell) if isinstance(cell, bytes | bytearray | memoryview) else None


class MemoryInputs:
    """The images of one shard."""

    def __init__(self, images: MemoryImages, rows: NDArray[np.int64]) -> None:
        self._images = images
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __reduce__(self) -> tuple[Any, ...]:
        positions = range(len(self))
        names = [self.name(position) for position in positions]
        return CopiedInputs, (names, [self.read(position) for position in positions])

    def name(self, position: int) -> str:
        """Returns the table and the row."""
        return self._images.name(int(self._rows[position]))

    def read(self, position: int) -> bytes:
        """Returns the bytes of the image."""
        image = self._images.image(int(self._rows[position]))
        return b"" if image is None else image


class CopiedInputs:
    """The images of one shard where they have travelled to."""

    def __init__(self, names: list[str], images: list[bytes]) -> None:
        self._names = names
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def name(self, position: int) -> str:
        """Returns the table and the row."""
        return self._names[position]

    def read(self, position: int) -> bytes:
        """Returns the bytes of the image."""
        return self._images[position]


def _paths(cell: Callable[[int], Any], count: int) -> "pa.ChunkedArray | None":
    """Returns the paths in cells that are dicts; None: not all of them have one."""
    import pyarrow as pa

    cells = (cell(row) for row in range(count))
    paths = [own.get("path") if isinstance(own, dict) else None for own in cells]
    if not all(isinstance(path, str) for path in paths):
        return None
    return pa.chunked_array([pa.array(paths, pa.large_string())])


def _arrow_paths(paths: "pa.ChunkedArray | None") -> "pa.ChunkedArray | None":
    """Returns valid text; None: there is none."""
    import pyarrow as pa

    try:
        texts = None if paths is None else paths.cast(pa.large_string())
        if texts is not None:
            texts.validate(full=True)
    except pa.ArrowException:
        return None
    return texts
