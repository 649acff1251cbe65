"""Reads the bytes of a `tf.train.Example` as `records.py` makes them, and no others.

Gets a record's data, gives where its image lies and its label; `tools/verify_shard.py` asks here,
so that what it finds owes nothing to the index. Strict: what a tolerant parser would accept (other
features, another order, longer varints) is not what a build wrote.

Source: tensorflow/core/example/example.proto, protobuf's encoding of messages.
"""

import dataclasses

_EXAMPLE_FEATURES = _FEATURES_FEATURE = 0x0A
_MAP_KEY, _MAP_VALUE = 0x0A, 0x12
_BYTES_LIST, _INT64_LIST = 0x0A, 0x1A
_LIST_VALUE = 0x0A

_MAX_VARINT_BYTES = 10


@dataclasses.dataclass(frozen=True, slots=True)
class StoredExample:
    """What a record holds.

    Attributes:
      image_offset: of the image's bytes in the record's data.
      image_length: of the image in bytes.
      label: the class's number.
    """

    image_offset: int
    image_length: int
    label: int


def parse_example(data: bytes, image_key: str, label_key: str) -> StoredExample:
    """Returns where the image lies, and the label.

    Raises:
      ValueError: other bytes than a build writes; the text says which.
    """
    start, end = _message(data, 0, len(data), _EXAMPLE_FEATURES)
    names: list[str] = []
    values: list[tuple[int, int]] = []
    while start < end and len(names) <= 2:
        entry, start = _field(data, start, end, _FEATURES_FEATURE)
        key, value = _field(data, *entry, _MAP_KEY)
        names.append(data[slice(*key)].decode(errors="backslashreplace"))
        values.append(_message(data, value, entry[1], _MAP_VALUE))
    expected = sorted((image_key, label_key), key=str.encode)
    if names != expected:
        raise ValueError(f"expected the features {expected}, found {names}")
    first, last = values if names[0] == image_key else reversed(values)
    image = _message(data, *_message(data, *first, _BYTES_LIST), _LIST_VALUE)
    label = _message(data, *_message(data, *last, _INT64_LIST), _LIST_VALUE)
    number, rest = _varint(data, *label)
    if rest != label[1]:
        raise ValueError(f"expected one label, found {label[1] - rest} more bytes")
    signed = number - 2**64 if number >= 2**63 else number  # int64 in two's complement
    return StoredExample(image[0], image[1] - image[0], signed)


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
