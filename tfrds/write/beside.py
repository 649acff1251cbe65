"""What a record holds beside its image: the bytes of its label and columns, in their order.

Gets columns, gives the entries of one example that stand before and after the image;
`shards.py` and `rewrite.py` put them into records.
"""

import functools
from collections.abc import Sequence

from tfrds.disk.columns import WHOLE_DTYPES, Column
from tfrds.disk.records import feature_entry, int64_feature


class Beside:
    """The features beside the images of one shard.

    Args:
      columns: of its records, in their order.
      image_key: name of the image's feature. Features stand in byte order of their names.
    """

    def __init__(self, columns: Sequence[Column], image_key: str) -> None:
        ordered = sorted(columns, key=lambda column: column.spec.name.encode())
        split = image_key.encode()
        self._before = [column for column in ordered if column.spec.name.encode() < split]
        self._after = [column for column in ordered if column.spec.name.encode() > split]

    def at(self, row: int) -> tuple[bytes, bytes]:
        """Returns the entries of one example before and after its image."""
        return (
            b"".join(_entry(column, row) for column in self._before),
            b"".join(_entry(column, row) for column in self._after),
        )


def _entry(column: Column, row: int) -> bytes:
    spec = column.spec
    if spec.shape == () and spec.dtype in WHOLE_DTYPES:
        return _number_entry(spec.name, int(column.value(row)))
    return feature_entry(spec.name, column.feature(row))


@functools.lru_cache(maxsize=4096)
def _number_entry(name: str, value: int) -> bytes:
    """Of numbers a few are there again and again, above all of classes."""
    return feature_entry(name, int64_feature([value]))
