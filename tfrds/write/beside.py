"""What a record holds around its image: the bytes of its label and columns, in their order.

Gets columns, gives the bytes of one Example before and after its image; `shards.py` and
`rewrite.py` put them into records.
"""

import functools
from collections.abc import Sequence

from tfrds.disk.columns import WHOLE_DTYPES, Column
from tfrds.disk.records import example_parts, feature_entry, int64_feature


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
        self._image_key = image_key
        self._number_key, self._numbers = "", None
        if len(ordered) == 1 and _is_number(ordered[0]):
            self._number_key = ordered[0].spec.name
            self._numbers = [int(number) for number in ordered[0].values]

    def around(self, row: int, image_length: int) -> tuple[bytes, bytes]:
        """Returns the bytes of an Example before and after its image of this many bytes."""
        if self._numbers is not None:
            return _parts(self._number_key, self._numbers[row], self._image_key, image_length)
        before, after = (
            b"".join([_entry(column, row) for column in columns])
            for columns in (self._before, self._after)
        )
        return example_parts(image_length, self._image_key, before, after)


def _is_number(column: Column) -> bool:
    return column.spec.shape == () and column.spec.dtype in WHOLE_DTYPES


def _entry(column: Column, row: int) -> bytes:
    if _is_number(column):
        return _number_entry(column.spec.name, int(column.value(row)))
    return feature_entry(column.spec.name, column.feature(row))


@functools.lru_cache(maxsize=4096)
def _number_entry(name: str, value: int) -> bytes:
    """Of numbers a few are there again and again, above all of classes."""
    return feature_entry(name, int64_feature([value]))


@functools.lru_cache(maxsize=4096)
def _parts(name: str, value: int, image_key: str, image_length: int) -> tuple[bytes, bytes]:
    """Returns what lies around an image with nothing but a number: most have a class alone.

    Raw images of one shape share a few such parts, one for each class.
    """
    entry = _number_entry(name, value)
    is_before = name.encode() < image_key.encode()
    return example_parts(image_length, image_key, *((entry, b"") if is_before else (b"", entry)))
