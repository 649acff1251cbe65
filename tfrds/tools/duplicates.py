"""Which images of a dataset hold the same bytes, from its index and keys alone.

Gets the directory of a version, gives a `DuplicatesResult`; `tfrds info --duplicates` shows it.
"""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfrds.disk.adopted import check_own
from tfrds.disk.build_record import BuildRecord, read_build_record
from tfrds.disk.columns import Column, join_columns, read_column
from tfrds.disk.index import open_labelled_index
from tfrds.disk.keys import join_keys, open_keys
from tfrds.tools.info import dataset_info
from tfrds.write.duplicates import find_duplicates
from tfrds.write.shard_labels import value_numbers


@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class Duplicate:
    """One of the examples that hold the same bytes.

    Attributes:
      split: that it is in.
      key: of the example.
      class_name: that it has; several joined by commas, or its number, where labels are such.
    """

    split: str
    key: str
    class_name: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class DuplicatesResult:
    """All of them.

    Attributes:
      name, version: of the dataset.
      directory: where it lies.
      num_extra: examples beyond the first of each group.
      num_label_conflicts: groups under two labels or more.
      num_leaks: groups in two splits or more.
      groups: of examples with the same bytes; both sorted by split and key.
    """

    name: str
    version: str
    directory: pathlib.Path
    num_extra: int
    num_label_conflicts: int
    num_leaks: int
    groups: tuple[tuple[Duplicate, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as JSON values."""
        return {**dataclasses.asdict(self), "directory": os.fspath(self.directory)}


def dataset_duplicates(directory: os.PathLike[str] | str) -> DuplicatesResult:
    """Returns the examples of a dataset that hold the same bytes.

    Raises:
      DatasetError: no dataset of tfrds, or its files are damaged or do not fit each other.
      ConfigError: its images were adopted, so their hashes are not known.
    """
    summary = dataset_info(directory)
    record = read_build_record(summary.directory)
    check_own(record, "duplicates")
    rows = {
        split: open_labelled_index(
            record.split_files(split).index,
            [records for _, _, records in record.shards(split)],
            record.index_labels,
        )
        for split in record.splits
    }
    keys = join_keys(
        [
            open_keys(files.keys, files.key_offsets, len(rows[split]))
            for split in record.splits
            for files in [record.split_files(split)]
        ]
    )
    column = _labels(record, {split: len(part) for split, part in rows.items()})
    found = find_duplicates(
        {split: [part] for split, part in rows.items()},
        labels=None if column is None else value_numbers([column]),
    )
    numbers = np.concatenate([part["label"] for part in rows.values()])
    splits = np.repeat(list(rows), [len(part) for part in rows.values()])
    groups: dict[int, list[Duplicate]] = {}
    for number, group in zip(found.records.tolist(), found.groups.tolist(), strict=True):
        one = Duplicate(
            split=str(splits[number]),
            key=keys[number].decode(errors="backslashreplace"),
            class_name=_label_text(summary.class_names, numbers[number], column, number),
        )
        groups.setdefault(group, []).append(one)
    return DuplicatesResult(
        name=record.name,
        version=record.version,
        directory=record.directory,
        num_extra=found.num_extra,
        num_label_conflicts=found.num_groups(found.has_labels),
        num_leaks=found.num_groups(found.has_splits),
        groups=tuple(sorted(tuple(sorted(group)) for group in groups.values())),
    )


def _labels(record: BuildRecord, lengths: Mapping[str, int]) -> Column | None:
    """Returns the labels of all splits where they are no single class; None: the index has them."""
    for spec in record.columns:
        if spec.name == record.label_key:
            return join_columns(
                [
                    read_column(
                        record.split_files(split),
                        spec,
                        length,
                        record.label_key,
                        record.num_classes,
                    )
                    for split, length in lengths.items()
                ]
            )
    return None


def _label_text(names: Sequence[str], number: int, column: Column | None, row: int) -> str:
    if column is None:
        return names[number] if number >= 0 else ""
    value = column.value(row)
    return ", ".join(names[one] for one in value) if names else str(value)
