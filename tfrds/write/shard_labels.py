"""The labels of finished shards, of any kind: for messages, to be compared, and as features.

`drop.py` and `edit.py`, which look at records again that were written already, call it.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.columns import Column, ColumnSpec
from tfrds.spec import CLASS_KINDS
from tfrds.write.assemble import FinalShard, Heading


def describe_label(heading: Heading, shard: FinalShard, row: int) -> str:
    """Returns the label of a record, for messages; nothing where there is none."""
    names = heading.class_names
    column = shard.columns.get(heading.label_key)
    if column is None:
        return repr(names[shard.rows["label"][row]]) if names else ""
    value = column.value(row)
    return repr([names[number] for number in value]) if names else f"{value}"


def label_numbers(shards: Sequence[FinalShard], label_key: str) -> NDArray[np.int64]:
    """Returns int64 [records], equal for equal labels of any kind."""
    columns = [shard.columns[label_key] for shard in shards if label_key in shard.columns]
    if not columns:
        return np.concatenate([shard.rows["label"] for shard in shards]).astype(np.int64)
    return value_numbers(columns)


def value_numbers(columns: Iterable[Column]) -> NDArray[np.int64]:
    """Returns int64 [values of all], equal for equal values."""
    number_of: dict[bytes, int] = {}
    values = (column.feature(row) for column in columns for row in range(len(column)))
    return np.array([number_of.setdefault(value, len(number_of)) for value in values], np.int64)


def features_of(
    heading: Heading, labels: NDArray[np.int32], columns: Mapping[str, Column]
) -> list[Column]:
    """Returns all that records hold beside their images: the columns, and a class number."""
    features = list(columns.values())
    if heading.label_kind in CLASS_KINDS:
        spec = ColumnSpec(name=heading.label_key, dtype="int64")
        features.append(Column(spec, labels))
    return features
