"""Values beside the images of a split, one for each example: extra columns, and labels of any kind.

Sources make them, the plan orders them, `write/` puts each value into its record as a feature and
all of them into files beside the index, `read/` maps these. A class number needs no file of its
own: the index has it.
"""

import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.index import map_array, write_array, write_parts
from tfrds.disk.keys import Keys, join_keys, open_keys, write_keys
from tfrds.disk.layout import SplitFiles
from tfrds.disk.records import bytes_feature, float_feature, int64_feature
from tfrds.errors import DatasetError

# What a value may be. All whole numbers fit int64, which an Example holds; floats are float32
# there, so more digits would be lost by who reads the records.
WHOLE_DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
DTYPES = (*WHOLE_DTYPES, "float32", "string")

# A name is part of a file's name, and a feature's.
NAME = re.compile(r"[A-Za-z0-9_]{1,64}")

# The feature of weights in the loss, and names that are taken by what reading adds.
WEIGHT_KEY = "sample_weight"
ADDED_KEYS = frozenset(("key", "tfds_id"))

# Of image and label, which others may have named.
MAX_KEY_BYTES = 128

# More values an example are a mistake; sizes from disk are checked against it.
MAX_VALUES = 2**20

# Of a value, in messages.
_SHOWN = 200

Values: TypeAlias = "NDArray[Any] | Keys"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnSpec:
    """What a column holds.

    Attributes:
      name: of the feature: letters, digits and underscores.
      dtype: one of `DTYPES`.
      shape: of each value: () or (k,); None: a list of any length. Strings have ().
    """

    name: str
    dtype: str
    shape: tuple[int] | tuple[()] | None = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the specification as JSON values."""
        shape = None if self.shape is None else list(self.shape)
        return {"name": self.name, "dtype": self.dtype, "shape": shape}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "ColumnSpec":
        """Returns the specification of `to_dict`, checked.

        Raises:
          ValueError, KeyError, TypeError: it is none.
        """
        shape = None if value["shape"] is None else tuple(value["shape"])
        spec = cls(name=value["name"], dtype=value["dtype"], shape=shape)
        is_valid = (
            NAME.fullmatch(spec.name) is not None
            and spec.dtype in DTYPES
            and (shape in ((), None) or (len(shape) == 1 and type(shape[0]) is int))
            and (not shape or 0 < shape[0] <= MAX_VALUES)
            and (shape == () or spec.dtype != "string")
        )
        if not is_valid:
            raise ValueError(f"no column: {dict(value)!r}")
        return spec


@dataclasses.dataclass(frozen=True, eq=False)
class Column:
    """A value for each example.

    Attributes:
      spec: what they are.
      values: dtype [n, *shape]; of lists all of them behind one another, dtype [m]; of strings
        `Keys` in UTF-8.
      offsets: uint64 [n + 1], where each list starts, and the end; None where there are no lists.
    """

    spec: ColumnSpec
    values: Values
    offsets: NDArray[np.uint64] | None = None

    @classmethod
    def of(cls, name: str, values: Values) -> "Column":
        """Returns the column of an array [n] or [n, k], or of strings.

        Floats become float32.
        """
        if isinstance(values, Keys):
            return cls(ColumnSpec(name=name, dtype="string"), values)
        # Files are little-endian on every machine, and a name of a dtype does not tell.
        dtype = np.dtype(np.float32) if values.dtype.kind == "f" else values.dtype
        values = values.astype(dtype.newbyteorder("<"), copy=False)
        shape: Any = values.shape[1:]
        return cls(ColumnSpec(name=name, dtype=values.dtype.name, shape=shape), values)

    @classmethod
    def of_lists(cls, name: str, values: NDArray[Any], offsets: NDArray[np.uint64]) -> "Column":
        """Returns the column of lists that lie behind one another."""
        return cls(ColumnSpec(name=name, dtype=values.dtype.name, shape=None), values, offsets)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Values of each list, int64 [n]; only where there are lists."""
        if self.offsets is None:
            raise ValueError(f"{self.spec.name}: no lists")
        return np.diff(self.offsets).astype(np.int64)

    def __len__(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    def take(self, rows: NDArray[np.int64], most: int | None = None) -> "Column":
        """Returns the values of these rows, in that order.

        Args:
          rows: int64 [n].
          most: values that a list may have; None: any number.

        Raises:
          DatasetError: of mapped lists or texts, one lies outside of the values, or is too long.
        """
        if isinstance(self.values, Keys):
            return dataclasses.replace(self, values=self.values.take(rows))
        if self.offsets is None:
            return dataclasses.replace(self, values=self.values[rows])
        starts, ends = self.offsets[rows], self.offsets[rows + 1]
        # Before memory is taken by what they say: of mapped offsets nobody has looked at all.
        is_wrong = (starts > ends) | (ends > len(self.values))
        if most is not None:
            is_wrong |= ends - starts > most
        if is_wrong.any():
            raise self._outside(int(rows[is_wrong][0]), most)
        lengths = (ends - starts).astype(np.int64)
        offsets = np.zeros(len(rows) + 1, "<u8")
        np.cumsum(lengths, out=offsets[1:])
        # The place of each value: its list's start, plus how far into the list it is.
        shifts = starts.astype(np.int64) - offsets[:-1].astype(np.int64)
        places = np.arange(int(offsets[-1])) + np.repeat(shifts, lengths)
        return dataclasses.replace(self, values=self.values[places], offsets=offsets)

    def _outside(self, row: int, most: int | None) -> DatasetError:
        start, end = (0, 0) if self.offsets is None else map(int, self.offsets[row : row + 2])
        rule = "" if most is None else f", or more than {most:,}"
        return DatasetError(
            f"{self.spec.name}, row {row:,}: the offsets {start} to {end} are outside of the "
            f"{len(self.values):,} values{rule}. Build the dataset again, or copy it again."
        )

    def value(self, row: int) -> Any:
        """Returns the value of one row: bytes, a number of Python, or a list of them."""
        if isinstance(self.values, Keys):
            return self.values[row]
        if self.offsets is None:
            return self.values[row].tolist()
        start, end = int(self.offsets[row]), int(self.offsets[row + 1])
        return self.values[start:end].tolist()

    def feature(self, row: int) -> bytes:
        """Returns the value of one row as a `tf.train.Feature`."""
        return as_feature(self.spec, self.value(row))

    def difference(self, row: int, stored: Any) -> str | None:
        """Returns what is different from the value that a record holds; None: nothing."""
        if self.feature(row) == as_feature(self.spec, stored):
            return None
        is_number = self.spec.shape == () and isinstance(stored, list) and len(stored) == 1
        found = _shortened(stored[0] if is_number else stored)
        has = _shortened(self.value(row))
        return f"{self.spec.name}: the column has {has} instead of {found}"

    def arrays(self) -> list[NDArray[Any]]:
        """Returns what the column is made of, to be hashed or stored."""
        if isinstance(self.values, Keys):
            return [self.values.blob, self.values.offsets]
        return [self.values, *([] if self.offsets is None else [self.offsets])]


def as_feature(spec: ColumnSpec, value: Any) -> bytes:
    """Returns a value, or a list of its numbers, as a `tf.train.Feature`."""
    if isinstance(value, bytes):
        return bytes_feature(value)
    numbers = value if isinstance(value, list) else [value]
    if spec.dtype == "float32":
        return float_feature(numbers)
    return int64_feature([int(number) for number in numbers])


def _shortened(value: Any) -> str:
    text = repr(value[:_SHOWN] if isinstance(value, bytes | list) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def join_columns(parts: Sequence[Column]) -> Column:
    """Returns the values of all parts, which have one specification, behind one another."""
    values: Values
    if isinstance(parts[0].values, Keys):
        values = join_keys([part.values for part in parts])  # type: ignore[misc]
        return Column(parts[0].spec, values)
    values = np.concatenate([np.asarray(part.values) for part in parts])
    return Column(parts[0].spec, values, _joined_offsets(parts))


def _joined_offsets(parts: Sequence[Column]) -> NDArray[np.uint64] | None:
    lists = [part.offsets for part in parts if part.offsets is not None]
    if not lists:
        return None
    lengths = np.concatenate([np.diff(offsets) for offsets in lists])
    joined = np.zeros(len(lengths) + 1, "<u8")
    np.cumsum(lengths, out=joined[1:])
    return joined


def column_paths(files: SplitFiles, spec: ColumnSpec, label_key: str) -> list[pathlib.Path]:
    """Returns the paths of a column's one or two files: the values, and where each starts."""
    names = (
        ("labels", "label_offsets")
        if spec.name == label_key
        else (f"column-{spec.name}", f"column_offsets-{spec.name}")
    )
    values, offsets = map(files.values, names)
    return [values, offsets] if spec.dtype == "string" or spec.shape is None else [values]


def write_columns(files: SplitFiles, parts: Sequence[Column], label_key: str) -> list[pathlib.Path]:
    """Stores the values of all parts behind one another; returns the files' paths."""
    spec = parts[0].spec
    paths = column_paths(files, spec, label_key)
    if isinstance(parts[0].values, Keys):
        write_keys([part.values for part in parts], *paths)  # type: ignore[misc]
        return paths
    write_parts(paths[0], [np.asarray(part.values) for part in parts])
    offsets = _joined_offsets(parts)
    if offsets is not None:
        write_array(paths[1], offsets)
    return paths


def open_column(files: SplitFiles, spec: ColumnSpec, num_examples: int, label_key: str) -> Column:
    """Maps a column of a split; reads only the headers and the last offset.

    Raises:
      DatasetError: a file is missing or damaged, or does not fit the split.
    """
    paths = column_paths(files, spec, label_key)
    if spec.dtype == "string":
        return Column(spec, open_keys(paths[0], paths[1], num_examples))
    dtype = np.dtype(spec.dtype)
    if spec.shape is not None:
        return Column(spec, map_array(paths[0], dtype, num_examples, spec.shape))
    offsets = map_array(paths[1], np.dtype("<u8"), num_examples + 1)
    values = map_array(paths[0], dtype, None)
    if int(offsets[-1]) != len(values):
        raise DatasetError(
            f"{paths[0]}: expected {int(offsets[-1]):,} values by {paths[1].name}, found "
            f"{len(values):,}. Build the dataset again, or copy it again."
        )
    return Column(spec, values, offsets)


def read_column(
    files: SplitFiles, spec: ColumnSpec, num_examples: int, label_key: str, num_classes: int
) -> Column:
    """Reads a column of a split into memory, and looks at its offsets and class numbers.

    Args:
      files: of the split.
      spec: of the column.
      num_examples: of the split.
      label_key: name of the label's feature.
      num_classes: class numbers in lists are below it.

    Raises:
      DatasetError: as `open_column`, or the offsets go back, or a class is none.
    """
    column = open_column(files, spec, num_examples, label_key)
    offsets = column.values.offsets if isinstance(column.values, Keys) else column.offsets
    if offsets is not None and (offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any()):
        raise DatasetError(
            f"{column_paths(files, spec, label_key)[1]}: expected numbers that rise from 0. Build "
            "the dataset again, or copy it again."
        )
    if column.offsets is not None:
        check_classes(column.values, num_classes, column_paths(files, spec, label_key)[0])
    return column.take(np.arange(num_examples))


def check_classes(numbers: Values, num_classes: int, place: pathlib.Path) -> None:
    """Raises DatasetError where a class number is none of the dataset's.

    Args:
      numbers: of any number of examples.
      num_classes: of the dataset.
      place: they come from there.
    """
    found = np.asarray(numbers)
    if len(found) and not 0 <= found.min() <= found.max() < num_classes:
        raise DatasetError(
            f"{place}: expected class numbers from 0 to {num_classes - 1:,}, found "
            f"{found.min():,} to {found.max():,}. Build the dataset again, or copy it again."
        )
