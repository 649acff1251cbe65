"""Reads the bytes of a `tf.train.Example` as `records.py` makes them, and no others.

Gets a record's data, gives where its image lies and the values beside it; `tools/verify_shard.py`
asks here,
so that what it finds owes nothing to the index. Strict: what a tolerant parser would accept (other
features, another order, longer varints) is not what a build wrote.

Source: tensorflow/core/example/example.proto, protobuf's encoding of messages.
"""

import dataclasses
import math
import struct
from collections.abc import Sequence
from typing import Any

from tfrds.disk.columns import ColumnSpec

_EXAMPLE_FEATURES = _FEATURES_FEATURE = 0x0A
_MAP_KEY, _MAP_VALUE = 0x0A, 0x12
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 0x0A, 0x12, 0x1A
_LIST_VALUE = 0x0A

_MAX_VARINT_BYTES = 10


@dataclasses.dataclass(frozen=True, slots=True)
class StoredExample:
    """What a record holds.

    Attributes:
      image_offset: of the image's bytes in the record's data.
      image_length: of the image in bytes.
      values: of the features beside it, by name: a list of whole numbers or floats, or bytes.
    """

    image_offset: int
    image_length: int
    values: dict[str, list[int] | list[float] | bytes]


def parse_example(data: bytes, image_key: str, features: Sequence[ColumnSpec]) -> StoredExample:
    """Returns where the image lies, and the values beside it.

    Args:
      data: of a record.
      image_key: name of the image's feature.
      features: all others.

    Raises:
      ValueError: other bytes than a build writes; the text says which.
    """
    specs = {spec.name: spec for spec in features}
    expected = sorted((image_key, *specs), key=str.encode)
    start, end = _message(data, 0, len(data), _EXAMPLE_FEATURES)
    found: dict[str, tuple[int, int]] = {}
    names: list[str] = []
    while start < end and len(names) <= len(expected):
        entry, start = _field(data, start, end, _FEATURES_FEATURE)
        key, value = _field(data, *entry, _MAP_KEY)
        names.append(data[slice(*key)].decode(errors="backslashreplace"))
        found[names[-1]] = _message(data, value, entry[1], _MAP_VALUE)
    if names != expected:
        raise ValueError(f"expected the features {expected}, found {names}")
    image = _message(data, *_message(data, *found[image_key], _BYTES_LIST), _LIST_VALUE)
    values = {name: _value(data, *found[name], spec) for name, spec in specs.items()}
    return StoredExample(image[0], image[1] - image[0], values)


def _value(
    data: bytes, start: int, end: int, spec: ColumnSpec
) -> "list[int] | list[float] | bytes":
    """Returns the value of one feature."""
    if spec.dtype == "string":
        text = _message(data, *_message(data, start, end, _BYTES_LIST), _LIST_VALUE)
        return data[slice(*text)]
    is_float = spec.dtype == "float32"
    numbers = _message(data, start, end, _FLOAT_LIST if is_float else _INT64_LIST)
    if numbers[0] < numbers[1]:
        numbers = _message(data, *numbers, _LIST_VALUE)
        if numbers[0] == numbers[1]:
            raise ValueError(f"{spec.name}: expected no list instead of an empty one")
    if is_float:
        if (numbers[1] - numbers[0]) % 4:
            raise ValueError(f"{spec.name}: expected floats of 4 bytes")
        floats = struct.unpack(f"<{(numbers[1] - numbers[0]) // 4}f", data[slice(*numbers)])
        return _counted(list(floats), spec)
    return _counted(_whole_numbers(data, *numbers), spec)


def _counted(values: list[Any], spec: ColumnSpec) -> list[Any]:
    if spec.shape is not None:
        expected = math.prod(spec.shape)
        if len(values) != expected:
            raise ValueError(f"{spec.name}: expected {expected:,} values, found {len(values):,}")
    return values


def _whole_numbers(data: bytes, start: int, end: int) -> list[int]:
    numbers = []
    while start < end:
        number, start = _varint(data, start, end)
        numbers.append(number - 2**64 if number >= 2**63 else number)  # two's complement
    return numbers


def _message(data: bytes, start: int, end: int, tag: int) -> tuple[int, int]:
    """Returns where the payload of the only field between `start` and `end` lies."""
    payload, rest = _field(data, start, end, tag)
    if rest != end:
        raise ValueError(f"expected the end at byte {rest}, found {end - rest} more bytes")
    return payload


def _field(data: bytes, start: int, end: int, tag: int) -> tuple[tuple[int, int], int]:
    """Returns (start, end) of a length-delimited field's payload, and where the field ends."""
    if start >= end or data[start] != tag:
        found = f"{data[start]:#04x}" if start < end else "the end"
        raise ValueError(f"expected the tag {tag:#04x} at byte {start}, found {found}")
    length, first = _varint(data, start + 1, end)
    if length > end - first:
        raise ValueError(f"expected at most {end - first} bytes at byte {first}, found {length}")
    return (first, first + length), first + length


def _varint(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Returns a number of up to 64 bits, and where it ends."""
    if start < end and data[start] < 0x80:
        return data[start], start + 1  # as nearly all are
    value = 0
    for place, byte in enumerate(data[start : min(end, start + _MAX_VARINT_BYTES)]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if value >= 2**64 or (place and not byte):
                break  # beyond 64 bits, or longer than it need be
            return value, start + place + 1
    raise ValueError(f"expected a minimal varint at byte {start}, found none")
