"""What lies beside the images and not in the index: labels that are no single class, and columns.

Gets rows, gives one array for each; `fetch.py` asks for labels, `host.py` and `numpy_examples.py`
for columns. No TensorFlow.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.build_record import BuildRecord
from tfrds.disk.columns import Column, check_classes, open_column
from tfrds.disk.keys import Keys
from tfrds.errors import DatasetError


class Beside:
    """The mapped columns of several splits behind one another.

    Args:
      record: of the dataset.
      splits: names, in the order in which rows count through them.

    Raises:
      DatasetError: a file is missing or damaged.
    """

    def __init__(self, record: BuildRecord, splits: Sequence[str]) -> None:
        self._record = record
        self._num_classes = record.num_classes
        lengths = [sum(count for _, _, count in record.shards(split)) for split in splits]
        self._starts = np.cumsum([0, *lengths])
        self._columns = {
            spec.name: [
                open_column(record.split_files(split), spec, length, record.label_key)
                for split, length in zip(splits, lengths, strict=True)
            ]
            for spec in record.columns
        }

    def labels(self, rows: NDArray[np.int64]) -> NDArray[np.float32] | None:
        """Returns float32 [n, num_classes], multi-hot, or the values [n] or [n, k]; None: none."""
        parts = self._columns.get(self._record.label_key)
        if parts is None:
            return None
        if self._record.label_kind == "value":
            return self.values(self._record.label_key, rows)
        labels = np.zeros((len(rows), self._num_classes), np.float32)
        for chosen, column in self._shares(parts, rows):
            own = rows[chosen] - self._starts[parts.index(column)]
            lists = column.take(own, most=self._num_classes)
            self._fill(labels, chosen, lists)
        return labels

    def values(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Returns the values of a column: dtype [n, *shape], or objects: bytes in UTF-8."""
        parts = self._columns[name]
        spec = parts[0].spec
        if len(parts) == 1 and not isinstance(parts[0].values, Keys):
            return np.asarray(parts[0].values[rows])
        is_text = spec.dtype == "string"
        found = np.empty((len(rows), *(spec.shape or ())), object if is_text else spec.dtype)
        for chosen, column in self._shares(parts, rows):
            own = rows[chosen] - self._starts[parts.index(column)]
            if isinstance(column.values, Keys):
                for place, row in zip(chosen.tolist(), own.tolist(), strict=True):
                    found[place] = self._text(column, row)
            else:
                found[chosen] = column.values[own]
        return found

    def at(self, row: int) -> list[tuple[Column, int]]:
        """Returns each column, and its own row, of an example."""
        split = int(np.searchsorted(self._starts, row, side="right")) - 1
        own = row - int(self._starts[split])
        return [(parts[split], own) for parts in self._columns.values()]

    def _text(self, column: Column, row: int) -> Any:
        try:
            return column.values[row]
        except DatasetError as error:
            where = f"{self._record.directory}: column {column.spec.name!r}"
            raise DatasetError(f"{where}: {error}") from error

    def _shares(
        self, parts: list[Column], rows: NDArray[np.int64]
    ) -> list[tuple[NDArray[np.int64], Column]]:
        """Returns (places in `rows`, the split's column) for each split that has some of them."""
        splits = np.searchsorted(self._starts, rows, side="right") - 1
        return [(np.flatnonzero(splits == split), parts[split]) for split in np.unique(splits)]

    def _fill(self, labels: NDArray[np.float32], places: NDArray[np.int64], lists: Column) -> None:
        """Writes lists of class numbers into multi-hot rows."""
        check_classes(lists.values, self._num_classes, self._record.directory)
        labels[np.repeat(places, lists.lengths), np.asarray(lists.values)] = 1
