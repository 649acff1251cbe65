"""The fields of protobuf messages, found by going from one to the next; payloads are not read.

Gets a message as a `Window`, gives where each field's payload lies; `foreign_example.py` knows what
the fields mean. What protobuf would not parse is a ValueError.

Source: protobuf's encoding of messages.
"""

from collections.abc import Iterator

from tfrds.disk.window import Window

WIRE_VARINT, _FIXED64, WIRE_BYTES, _GROUP, _GROUP_END, WIRE_FIXED32 = range(6)

# A field's tag and length take up to 5 and 10 bytes.
_MAX_TAG_BYTES, _MAX_VARINT_BYTES = 5, 10
_HEAD_BYTES = _MAX_TAG_BYTES + _MAX_VARINT_BYTES
_MAX_FIELD_NUMBER = 2**29 - 1

_MAX_DEPTH = 100  # of groups in one another, protobuf's own limit


def lone_field(window: Window, start: int, end: int) -> tuple[int, int]:
    """Returns (tag, place of the payload) of a message that is one field with a length.

    The tag is 0 where it is anything else; nearly all messages of an Example are of this kind, and
    need no walk.

    Raises:
      ValueError: no message.
    """
    if end - start < 2:
        return 0, start
    at = start - window.start
    data = window.data
    if at < 0 or at + _HEAD_BYTES > len(data):
        at = window.hold(start, min(_HEAD_BYTES, end - start))
        data = window.data
    tag, length, first = data[at], data[at + 1], start + 2
    if tag & 0x87 != WIRE_BYTES:
        return 0, start
    if length >= 0x80:
        length, first = read_varint(window, start + 1, end)
    return (tag, first) if first + length == end else (0, start)


def walk_fields(window: Window, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields (number, wire type, first, last) of each field of a message.

    `first` and `last` are where its payload begins and ends; a varint is its own payload. Groups
    are stepped over.

    Args:
      window: of the message.
      start: place of its first byte.
      end: place behind its last.

    Raises:
      ValueError: no message; the text says where.
    """
    place = start
    while place < end:
        at = place - window.start
        data = window.data
        if at < 0 or at + _HEAD_BYTES > len(data):
            at = window.hold(place, min(_HEAD_BYTES, end - place))
            data = window.data
        tag = data[at]
        first = place + 1
        if tag >= 0x80:
            tag, first = read_varint(window, place, end)
            if first - place > _MAX_TAG_BYTES:
                raise ValueError(f"expected a field's tag at byte {place:,}, found none")
        number, wire = tag >> 3, tag & 7
        if not 0 < number <= _MAX_FIELD_NUMBER:
            raise ValueError(f"expected a field's number at byte {place:,}, found {number}")
        if wire == WIRE_BYTES:
            at += first - place
            if first < end and data[at] < 0x80:
                length = data[at]
                first += 1
            else:
                length, first = read_varint(window, first, end)
            place = first + length
            if place > end:
                raise ValueError(
                    f"expected at most {end - first:,} bytes at byte {first:,}, found {length:,}"
                )
        elif wire == _GROUP:
            place = _end_of_group(window, first, end, number)
            continue
        else:
            place = _end_of_number(window, first, end, wire)
        yield number, wire, first, place


def _end_of_number(window: Window, first: int, end: int, wire: int) -> int:
    """Returns where a payload ends that has no length in front of it."""
    if wire == WIRE_VARINT:
        return read_varint(window, first, end)[1]
    if wire not in (WIRE_FIXED32, _FIXED64):
        raise ValueError(f"expected a wire type at byte {first - 1:,}, found {wire}")
    last = first + (4 if wire == WIRE_FIXED32 else 8)
    if last > end:
        raise ValueError(f"expected {last - first} bytes at byte {first:,}, found {end - first}")
    return last


def _end_of_group(window: Window, first: int, end: int, number: int) -> int:
    """Returns where a group ends, with the groups in it."""
    open_groups = [number]
    place = first
    while open_groups:
        tag, place = read_varint(window, place, end)
        number, wire = tag >> 3, tag & 7
        if wire == _GROUP_END:
            if open_groups.pop() != number:
                raise ValueError(f"expected the end of another group before byte {place:,}")
        elif wire == _GROUP:
            open_groups.append(number)
            if len(open_groups) > _MAX_DEPTH:
                raise ValueError(f"expected at most {_MAX_DEPTH} groups in one another, found more")
        elif wire == WIRE_BYTES:
            length, place = read_varint(window, place, end)
            place += length
            if place > end:
                raise ValueError(f"expected the end of a group, found {length:,} bytes more")
        else:
            place = _end_of_number(window, place, end, wire)
    return place


def read_varint(window: Window, place: int, end: int) -> tuple[int, int]:
    """Returns a number of up to 64 bits, and the place behind it.

    Raises:
      ValueError: it does not end before `end`.
    """
    count = end - place
    if count > 0:
        at = window.hold(place, count if count < _MAX_VARINT_BYTES else _MAX_VARINT_BYTES)
        value = window.data[at]
        if value < 0x80:
            return value, place + 1
        value = shift = 0
        for byte in window.data[at : at + min(count, _MAX_VARINT_BYTES)]:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                # As protobuf does: what goes beyond 64 bits is dropped.
                return value & 0xFFFFFFFFFFFFFFFF, place + shift // 7
    raise ValueError(f"expected a number at byte {place:,}, found none")
