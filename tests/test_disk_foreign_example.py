import random
import tracemalloc

import foreign_files
import images
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from tfrds.disk.foreign_example import (
    bytes_spans,
    count_values,
    find_features,
    float_values,
    int64_values,
)
from tfrds.disk.window import Window, open_window

MANY = 2**20


def parsed(data, window=None, start=0, wanted=None):
    """Returns {key: (kind, values)} of what is found."""
    window = window or Window(data)
    found = {}
    for key, feature in find_features(window, start, start + len(data), wanted).items():
        if feature.kind == "bytes":
            spans = bytes_spans(window, feature, MANY)
            values = [window.take(first, last - first) for first, last in spans]
        elif feature.kind == "float":
            values = float_values(window, feature, MANY).tolist()
        else:
            values = int64_values(window, feature, MANY)
        assert count_values(window, feature) == len(values)
        found[key.decode()] = (feature.kind, values)
    return found


def by_protobuf(data):
    """Returns the same by protobuf."""
    found = {}
    for key, feature in tf.train.Example.FromString(data).features.feature.items():
        which = feature.WhichOneof("kind")
        kind = which.removesuffix("_list") if which else "empty"
        found[key] = (kind, list(getattr(feature, which).value) if which else [])
    return found


def varint(value, padding=0):
    """Returns a varint, `padding` bytes longer than it need be."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    for _ in range(padding):
        encoded[-1] |= 0x80
        encoded.append(0)
    return bytes(encoded)


def field(number, payload, padding=0):
    return varint(number << 3 | 2, padding) + varint(len(payload), padding) + payload


def entry(key, *values):
    return field(1, field(1, key) + b"".join(field(2, value) for value in values))


def as_example(*entries):
    return field(1, b"".join(entries))


INTS = field(3, field(1, varint(7) + varint(2**64 - 2)))  # 7 and -2, packed
BYTES = field(1, field(1, b"one") + field(1, b"two"))
FLOATS = field(2, field(1, np.array([0.5, -2], "<f4").tobytes()))


def random_value(chosen):
    match chosen.randrange(5):
        case 0:
            return [chosen.randbytes(chosen.choice((0, 1, 30, 200))) for _ in range(3)]
        case 1:
            return chosen.randbytes(chosen.choice((0, 5, 20_000)))
        case 2:
            return [chosen.randrange(-(2**63), 2**63) for _ in range(chosen.randrange(1, 5))]
        case 3:
            return chosen.randrange(300)
        case _:
            return [float(np.float32(chosen.random())) for _ in range(chosen.randrange(1, 50))]


@pytest.mark.parametrize("seed", range(10))
def test_random_examples_are_read_as_protobuf_reads_them(seed):
    chosen = random.Random(seed)
    for _ in range(10):
        keys = [f"key{number}" for number in range(chosen.randrange(8))]
        data = foreign_files.example({key: random_value(chosen) for key in keys})
        assert parsed(data) == by_protobuf(data)


def test_the_order_of_features_is_that_of_the_bytes():
    data = as_example(entry(b"z", INTS), entry(b"a", INTS), entry(b"m", INTS))
    assert list(parsed(data)) == ["z", "a", "m"]


def test_only_the_wanted_features_are_given():
    data = foreign_files.example({"a": 1, "b": b"x", "c": 2})
    assert parsed(data, wanted={b"c", b"a", b"none"}) == {"a": ("int64", [1]), "c": ("int64", [2])}


VALID = {
    "no bytes at all": b"",
    "no features": field(1, b""),
    "a feature without a kind": as_example(entry(b"a", b"")),
    "an entry without a value": as_example(field(1, field(1, b"a"))),
    "an entry without a key": as_example(field(1, field(2, INTS))),
    "the value before the key": as_example(field(1, field(2, INTS) + field(1, b"a"))),
    "a key twice in an entry": as_example(
        field(1, field(1, b"a") + field(1, b"b") + field(2, INTS))
    ),
    "a key in two entries": as_example(entry(b"a", INTS), entry(b"b", INTS), entry(b"a", BYTES)),
    "a value in two parts": as_example(entry(b"a", INTS, INTS)),
    "a value in two parts of other kinds": as_example(entry(b"a", INTS, BYTES, FLOATS)),
    "a list twice in a feature": as_example(entry(b"a", BYTES + BYTES)),
    "lists of other kinds in a feature": as_example(entry(b"a", BYTES + INTS + FLOATS + INTS)),
    "features twice": as_example(entry(b"a", INTS)) + as_example(entry(b"b", BYTES)),
    "empty lists": as_example(*(entry(bytes([97 + n]), field(n, b"")) for n in (1, 2, 3))),
    "an empty packed list": as_example(entry(b"a", field(3, field(1, b"")))),
    "whole numbers that are not packed": as_example(
        entry(b"a", field(3, b"\x08" + varint(300) + b"\x08" + varint(2**64 - 1)))
    ),
    "whole numbers of both forms": as_example(
        entry(b"a", field(3, b"\x08\x05" + field(1, varint(6) + varint(7)) + b"\x08\x08"))
    ),
    "floats of both forms": as_example(
        entry(b"a", field(2, b"\x0d\0\0\x80\x3f" + field(1, bytes(8)) + b"\x0d\0\0\0\x40"))
    ),
    "lengths and tags longer than they need be": field(
        1, field(1, field(1, b"a", 2) + field(2, field(1, field(1, b"x", 3), 4), 1), 2), 3
    ),
    "a number longer than it need be": as_example(
        entry(b"a", field(3, field(1, varint(5, 4) + varint(2**64 - 1))))
    ),
    "a number of more than 64 bits": as_example(
        entry(b"a", field(3, field(1, b"\xff" * 9 + b"\x7f")))
    ),
    "unknown fields": (
        field(9, b"bytes")
        + b"\x78\x96\x01"
        + field(1, b"\x55abcd" + entry(b"a", b"\x51abcdefgh" + INTS + b"\x40\x01"))
    ),
    "known fields of another type": field(
        1, b"\x08\x05" + entry(b"a", b"\x08\x01\x15abcd" + INTS + b"\x1dabcd")
    ),
    "values of another type": as_example(entry(b"a", field(3, b"\x0dabcd" + field(1, b"\x02")))),
    "an unknown group": b"\x4b\x08\x01\x53\x54\x12\x02ab\x4c" + as_example(entry(b"a", INTS)),
    "a long key": as_example(entry(b"k" * 4_000, INTS)),
}


@pytest.mark.parametrize("name", VALID)
def test_what_protobuf_accepts_is_read_as_it_does(name):
    assert parsed(VALID[name]) == by_protobuf(VALID[name])


INVALID = {
    "the end of a length is missing": b"\x0a\x80",
    "a length goes beyond the end": b"\x0a\x05abc",
    "a length beyond all": b"\x0a" + b"\xff" * 9 + b"\x01",
    "a number without an end": b"\x08" + b"\xff" * 11,
    "a field of number 0": b"\x02\x00",
    "an unknown wire type": b"\x0f\x00",
    "the end of a group without its start": b"\x0c",
    "a group without an end": b"\x0b\x10\x01",
    "a group with the end of another": b"\x0b\x14",
    "32 bits that are cut off": b"\x15abc",
    "64 bits that are cut off": b"\x11abcdefg",
    "an entry that goes beyond its map": field(1, b"\x0a\x09\x0a\x01a"),
    "a value that goes beyond its entry": field(1, field(1, b"\x0a\x01a\x12\x09\x0a")),
    "a list that goes beyond its feature": as_example(entry(b"a", b"\x0a\x44\x0a")),
    "bytes that go beyond their list": as_example(entry(b"a", field(1, b"\x0a\x05abc"))),
    "floats of three bytes": as_example(entry(b"a", field(2, field(1, b"abc")))),
    "a packed number that is cut off": as_example(entry(b"a", field(3, field(1, b"\x80")))),
    "groups in one another without end": b"\x0b" * 1_000,
}


@pytest.mark.parametrize("name", INVALID)
def test_what_protobuf_refuses_is_refused(name):
    with pytest.raises(DecodeError):
        tf.train.Example.FromString(INVALID[name])
    with pytest.raises(ValueError, match=r"expected .*(found|byte)"):
        parsed(INVALID[name])


def test_hostile_numbers_of_things_are_refused():
    with pytest.raises(ValueError, match=r"expected at most 10,000 features, found more"):
        parsed(as_example(*[entry(b"%d" % number) for number in range(10_001)]))
    with pytest.raises(ValueError, match=r"expected a key of at most 4,096 bytes .*found 5,000"):
        parsed(as_example(entry(b"k" * 5_000, INTS)))
    with pytest.raises(ValueError, match=r"expected at most 10,000 lists, found more"):
        parsed(as_example(entry(b"a", INTS * 10_001)))


@pytest.mark.parametrize(
    ("read", "value"),
    [(bytes_spans, [b"a", b"b", b"c"]), (int64_values, [1, 2, 3]), (float_values, [1.0, 2.0, 3.0])],
)
def test_more_values_than_asked_for_are_refused(read, value):
    data = foreign_files.example({"a": value})
    feature = find_features(Window(data), 0, len(data))[b"a"]
    assert len(read(Window(data), feature, 3)) == 3
    with pytest.raises(ValueError, match=r"expected at most 2 values, found more"):
        read(Window(data), feature, 2)
    with pytest.raises(ValueError, match=r"expected at most 1 value, found more"):
        read(Window(data), feature, 1)


def test_lengths_that_lie_take_no_memory():
    huge = varint(2**31 - 1)
    lies = [
        b"\x0a" + huge + b"\x0a\x01",
        field(1, b"\x0a" + huge + b"\x0a\x01a"),
        field(1, field(1, b"\x0a" + huge + b"a")),
        as_example(entry(b"a", b"\x0a" + huge)),
        as_example(entry(b"a", field(1, b"\x0a" + huge + b"abc"))),
        as_example(entry(b"a", field(2, b"\x0a" + huge + b"abc"))),
        as_example(entry(b"a", field(3, b"\x0a" + huge + b"abc"))),
    ]
    tracemalloc.start()
    try:
        for data in lies:
            with pytest.raises(
                ValueError, match=r"expected at most \d+ bytes .*found 2,147,483,647"
            ):
                parsed(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_an_example_in_a_file_is_read_without_its_large_bytes(tmp_path):
    data = foreign_files.example({"image": bytes(3_000_000), "label": 5, "more": [0.5] * 300_000})
    path = images.put(tmp_path / "file", b"before" + data + b"after")
    with open_window(str(path)) as window:
        features = find_features(window, 6, 6 + len(data))
        assert int64_values(window, features[b"label"], 1) == [5]
        assert count_values(window, features[b"more"]) == 300_000
        ((start, end),) = bytes_spans(window, features[b"image"], 1)
        assert (end - start, len(window.data) < 300_000) == (3_000_000, True)
        assert parsed(data, window, 6) == by_protobuf(data)


def test_any_bytes_are_read_as_protobuf_reads_them_or_refused():
    chosen = random.Random(7)
    seeds = [*VALID.values(), foreign_files.example({"image": bytes(300), "label": 3, "f": [1.5]})]
    accepted = 0
    for _ in range(6_000):
        data = mutated(chosen, chosen.choice(seeds))
        try:
            expected = by_protobuf(data)
        except (DecodeError, UnicodeDecodeError):
            expected = None
        try:
            found = parsed(data)
        except ValueError:
            # Keys are compared as text here; TensorFlow does not look whether they are.
            assert expected is None
            continue
        # Protobuf looks at more: whether keys are UTF-8, and what a later value replaces.
        if expected is not None and not has_unknown_entries(data):
            accepted += 1
            assert repr(sorted(found.items())) == repr(sorted(expected.items()))  # NaN too
    assert accepted > 1_000


def has_unknown_entries(data):
    """Whether protobuf keeps an entry as it is since it holds an unknown field, which we skip."""
    fields = UnknownFieldSet(tf.train.Example.FromString(data).features)
    return any(field.field_number == 1 for field in fields)


def mutated(chosen, data):
    data = bytearray(data)
    for _ in range(chosen.choice((1, 1, 2, 4))):
        place = chosen.randrange(len(data) + 1)
        if chosen.random() < 0.7 and place < len(data):
            data[place] = chosen.choice((chosen.randrange(256), data[place] ^ 1, 0x80, 0xFF, 0))
        elif chosen.random() < 0.5:
            del data[place : place + chosen.randrange(1, 4)]
        else:
            data[place:place] = chosen.randbytes(chosen.randrange(1, 4))
    return bytes(data)
