"""Verifies the columns of a split: their files, and each value against its record.

`verify_keys.py` asks for the files, `verify_shard.py` for the values of each record it reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfrds.disk.build_record import BuildRecord
from tfrds.disk.columns import Column, ColumnSpec, column_paths, open_column
from tfrds.disk.keys import Keys
from tfrds.disk.layout import SplitFiles
from tfrds.errors import DatasetError
from tfrds.tools.faults import Fault
from tfrds.tools.verify_files import SplitRecord, hash_fault


def check_columns(
    record: BuildRecord, split: str, said: SplitRecord
) -> tuple[list[Fault], tuple[ColumnSpec, ...]]:
    """Returns the faults of a split's columns, and those that can be used for more.

    Args:
      record: of the build.
      split: its name.
      said: what the record says of it.
    """
    files = record.split_files(split)
    num_examples = sum(count for _, _, count in record.shards(split))
    faults: list[Fault] = []
    usable = []
    for spec in record.columns:
        paths = column_paths(files, spec, record.label_key)
        found = [hash_fault(path, said.columns_sha256.get(path.name, "none")) for path in paths]
        faults += [fault for fault, _ in found if fault]
        # Never mapped where it could not be read: a page that cannot be had kills the process.
        if not all(is_read for _, is_read in found):
            continue
        try:
            wrong = list(_offset_faults(files, spec, num_examples, record.label_key))
        except DatasetError as error:
            path = next(path for path in paths if str(error).startswith(f"{path}: "))
            what = str(error).removeprefix(f"{path}: ").partition(" Build the")[0]
            wrong = [Fault(file=path.name, what=what)]
        faults += wrong
        if not wrong:
            usable.append(spec)
    return faults, tuple(usable)


def _offset_faults(
    files: SplitFiles, spec: ColumnSpec, num_examples: int, label_key: str
) -> Iterator[Fault]:
    """Yields where the offsets of lists or text do not start at 0 or go back."""
    column = open_column(files, spec, num_examples, label_key)
    offsets = column.values.offsets if isinstance(column.values, Keys) else column.offsets
    if offsets is not None and (offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any()):
        path = column_paths(files, spec, label_key)[1]
        yield Fault(file=path.name, what="expected numbers that rise from 0")


class ColumnRows:
    """The columns of one split, for the records of one shard.

    Args:
      files: of the split.
      specs: of the columns that can be used.
      num_examples: of the split.
      label_key: name of the label's feature.
      first: row of the shard's first record.
    """

    def __init__(
        self,
        files: SplitFiles,
        specs: Sequence[ColumnSpec],
        num_examples: int,
        label_key: str,
        first: int,
    ) -> None:
        self._first = first
        self._columns: list[Column] = []
        for spec in specs:
            try:
                self._columns.append(open_column(files, spec, num_examples, label_key))
            except DatasetError:
                pass  # changed since `check_columns` opened it a moment ago

    def differences(self, number: int, values: Mapping[str, Any]) -> Iterator[str]:
        """Yields where a record's values are others than those of the columns."""
        row = self._first + number
        for column in self._columns:
            if row < len(column) and (what := column.difference(row, values[column.spec.name])):
                yield what
