"""Reads any valid `tf.train.Example`: the kind of each feature, and where its values lie.

Gets a record as a `Window`, in memory or in a file; large bytes are stepped over, not read.
Tolerant where `example_bytes.py` is strict: features in any order and twice, unknown fields, lists
packed or not, varints longer than they need be. What protobuf would not parse is a ValueError.

Source: tensorflow/core/example/example.proto and feature.proto, protobuf's encoding of messages
(the last value of a field and of a key counts, messages given twice are merged).
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.window import Window
from tfrds.disk.wire_format import (
    WIRE_BYTES,
    WIRE_FIXED32,
    WIRE_VARINT,
    lone_field,
    read_varint,
    walk_fields,
)

Kind: TypeAlias = Literal["bytes", "float", "int64", "empty"]

Span: TypeAlias = tuple[int, int]  # place of the first byte, and of the one behind the last

_KINDS: dict[int, Kind] = {1: "bytes", 2: "float", 3: "int64"}  # fields of Feature


# Tags of fields with a length: an entry of a map, its key and value, the values of a list; and the
# lists.
_ENTRY_TAG, _KEY_TAG, _VALUE_TAG, _LIST_VALUE_TAG = 0x0A, 0x0A, 0x12, 0x0A
_LIST_TAGS: dict[int, Kind] = {0x0A: "bytes", 0x12: "float", 0x1A: "int64"}

# What is held of an entry at least: its tags and lengths, and its key.
_ENTRY_BYTES = 64

# A key is a word, and a record of an image has a dozen of them: these bound what hostile bytes
# take.
_MAX_KEY_BYTES = 1 << 12
_MAX_FEATURES = 10_000
_MAX_LOOSE_VALUES = 2**24  # of one feature, that are not packed


class Feature(NamedTuple):
    """What a feature holds.

    Attributes:
      kind: of its values; "empty": it holds none, and no list of any kind.
      lists: where its lists lie, `BytesList` and so on: one as a rule, several count as one.
    """

    kind: Kind
    lists: tuple[Span, ...]


def find_features(
    window: Window, start: int, end: int, wanted: Collection[bytes] | None = None
) -> dict[bytes, Feature]:
    """Returns the features of an Example by key, in the order of its bytes.

    Args:
      window: of the record.
      start: place of the Example's first byte.
      end: place behind its last.
      wanted: keys that are asked for; None: all.

    Raises:
      ValueError: no Example; the text says where.
    """
    found: dict[bytes, list[Span]] = {}
    num_features = 0
    for number, kind, first, last in walk_fields(window, start, end):
        if number != 1 or kind != WIRE_BYTES:  # Example.features
            continue
        place = first
        while place < last:
            num_features += 1
            if num_features > _MAX_FEATURES:
                raise ValueError(f"expected at most {_MAX_FEATURES:,} features, found more")
            # Inlined, as a scan comes by here some ten times a record.
            at = place - window.start
            if at < 0 or at + _ENTRY_BYTES > len(window.data):
                at = window.hold(place, min(_ENTRY_BYTES, last - place))
            usual = _usual_entry(window.data, at)
            if usual is not None and window.start + usual[2] <= last:
                key, value, value_end = usual
                place = window.start + value_end
                values = [(window.start + value, place)]
            else:
                inner, inner_kind, entry, place = next(walk_fields(window, place, last))
                if inner != 1 or inner_kind != WIRE_BYTES:  # Features.feature
                    continue
                key, values = _unusual_entry(window, entry, place)
            if wanted is None or key in wanted:
                found[key] = values
    return {key: _feature(window, values) for key, values in found.items()}


def count_values(window: Window, feature: Feature) -> int:
    """Returns how many values a feature has.

    Raises:
      ValueError: no valid list.
    """
    total = 0
    for _, kind, first, last in _values(window, feature):
        if kind != WIRE_BYTES or feature.kind == "bytes":
            total += 1
        elif feature.kind == "float":
            total += (last - first) // 4
        else:
            total += sum(
                int((_array(window, block, block_end) < 0x80).sum())
                for block, block_end in _blocks(first, last)
            )
    return total


def bytes_spans(window: Window, feature: Feature, most: int) -> list[Span]:
    """Returns where the values of a feature of bytes lie.

    Raises:
      ValueError: no valid list, or more than `most` values.
    """
    spans = []
    for _, _, first, last in _values(window, feature):
        spans.append((first, last))
        _check_count(len(spans), most)
    return spans


def int64_values(window: Window, feature: Feature, most: int) -> list[int]:
    """Returns the values of a feature of whole numbers.

    Raises:
      ValueError: no valid list, or more than `most` values.
    """
    values: list[int] = []
    for _, _, first, last in _values(window, feature):
        place = first
        while place < last:
            number, place = read_varint(window, place, last)
            values.append(number - 2**64 if number >= 2**63 else number)
            if len(values) > most:
                _check_count(len(values), most)
    return values


def float_values(window: Window, feature: Feature, most: int) -> NDArray[np.float32]:
    """Returns the values of a feature of floats.

    Raises:
      ValueError: no valid list, or more than `most` values.
    """
    parts: list[bytes] = []
    total = 0
    for _, _, first, last in _values(window, feature):
        total += (last - first) // 4
        _check_count(total, most)
        parts.append(window.take(first, last - first))
    return np.frombuffer(b"".join(parts), "<f4")


# The wire type of one value of each kind that is not packed with others.
_SINGLE = {"bytes": WIRE_BYTES, "float": WIRE_FIXED32, "int64": WIRE_VARINT}


def _values(window: Window, feature: Feature) -> Iterator[tuple[int, int, int, int]]:
    """Yields the fields of a feature's lists that hold values: one each, or many packed."""
    num_values = 0
    for start, end in feature.lists:
        tag, place = lone_field(window, start, end)
        if tag == _LIST_VALUE_TAG:
            fields: Iterable[tuple[int, int, int, int]] = ((1, WIRE_BYTES, place, end),)
        else:
            fields = walk_fields(window, start, end)
        for field in fields:
            number, kind, first, last = field
            if number != 1 or kind not in (WIRE_BYTES, _SINGLE[feature.kind]):
                continue  # protobuf takes them for unknown fields
            if feature.kind == "float" and (last - first) % 4:
                raise ValueError(
                    f"expected floats of 4 bytes each at byte {first:,}, found {last - first:,} "
                    "bytes"
                )
            num_values += 1
            _check_count(num_values, _MAX_LOOSE_VALUES)
            yield field


def _check_count(count: int, most: int) -> None:
    if count > most:
        raise ValueError(f"expected at most {most:,} value{'s' if most > 1 else ''}, found more")


def _usual_entry(data: bytes, at: int) -> tuple[bytes, int, int] | None:
    """Returns (key, start of the value, its end) of an entry of a map as nearly all are.

    That is a short key, then one value, then nothing. None where it is anything else, or `data`
    ends too soon to tell.

    Args:
      data: of which some bytes are the entry's first, its tag included.
      at: place of the first of them.
    """
    try:
        if data[at] != _ENTRY_TAG:
            return None
        length, entry = _short_varint(data, at + 1)
        key_length = data[entry + 1]
        value = entry + 2 + key_length
        if data[entry] != _KEY_TAG or key_length >= 0x80 or data[value] != _VALUE_TAG:
            return None
        value_length, first = _short_varint(data, value + 1)
    except IndexError:
        return None
    end = first + value_length
    return (data[entry + 2 : value], first, end) if end == entry + length else None


def _short_varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns a number of up to 35 bits, and the place behind it; IndexError: it is longer."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while shift < 35:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
    raise IndexError


def _unusual_entry(window: Window, start: int, end: int) -> tuple[bytes, list[Span]]:
    key: Span = (start, start)
    values: list[Span] = []
    for number, kind, first, last in walk_fields(window, start, end):
        if kind != WIRE_BYTES:
            continue
        if number == 1:
            key = (first, last)
        elif number == 2:
            values.append((first, last))
    length = key[1] - key[0]
    if length > _MAX_KEY_BYTES:
        raise ValueError(
            f"expected a key of at most {_MAX_KEY_BYTES:,} bytes at byte {key[0]:,}, found "
            f"{length:,}"
        )
    return window.take(key[0], length), values


def _feature(window: Window, parts: list[Span]) -> Feature:
    """Returns the feature whose message lies in these parts: of its lists the last kind counts."""
    if len(parts) == 1:
        start, end = parts[0]
        tag, first = lone_field(window, start, end)
        if tag in _LIST_TAGS:
            return Feature(_LIST_TAGS[tag], ((first, end),))
    kind: Kind = "empty"
    lists: list[Span] = []
    for start, end in parts:
        for number, wire, first, last in walk_fields(window, start, end):
            if wire != WIRE_BYTES or number not in _KINDS:
                continue
            if _KINDS[number] != kind:
                kind = _KINDS[number]
                lists = []
            lists.append((first, last))
            if len(lists) > _MAX_FEATURES:
                raise ValueError(f"expected at most {_MAX_FEATURES:,} lists, found more")
    return Feature(kind, tuple(lists))


_BLOCK_BYTES = 1 << 16


def _blocks(first: int, last: int) -> Iterator[Span]:
    for start in range(first, last, _BLOCK_BYTES):
        yield start, min(start + _BLOCK_BYTES, last)


def _array(window: Window, first: int, last: int) -> NDArray[np.uint8]:
    return np.frombuffer(window.take(first, last - first), np.uint8)
