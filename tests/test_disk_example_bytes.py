import pytest
import tensorflow as tf
from damaged import serialized

from tfrds.disk.columns import ColumnSpec
from tfrds.disk.example_bytes import StoredExample, parse_example
from tfrds.disk.records import example_parts, feature_entry, int64_feature

LABEL = (ColumnSpec(name="label", dtype="int64"),)

# The golden record of tests/test_disk_records.py: an image of six bytes and the label 3.
GOLDEN = bytes.fromhex(
    "0a250a130a05696d616765120a0a080a060001020304050a0e0a056c6162656c12051a030a0103"
)


def test_the_golden_record():
    assert parse_example(GOLDEN, "image", LABEL) == StoredExample(17, 6, {"label": [3]})


@pytest.mark.parametrize("label", [0, 127, 128, 2**31 - 1, 2**63 - 1, -1, -(2**63)])
@pytest.mark.parametrize("length", [0, 1, 127, 128, 100_000])
def test_what_protobuf_serialises(label, length):
    image = bytes(range(256)) * (length // 256) + bytes(length % 256)
    data = serialized(image, label)
    example = parse_example(data, "image", LABEL)
    assert example.values == {"label": [label]}
    assert data[example.image_offset : example.image_offset + example.image_length] == image


def test_keys_are_sorted_by_their_bytes():
    entry = feature_entry("label", int64_feature([7]))
    head, tail = example_parts(3, "z_image", entry, b"")
    expected = StoredExample(len(head), 3, {"label": [7]})
    assert parse_example(head + b"abc" + tail, "z_image", LABEL) == expected


def bytes_feature(*values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def int_feature(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**features):
    message = tf.train.Example(features=tf.train.Features(feature=features))
    return message.SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (GOLDEN + b"\x0a", "expected the end at byte 39, found 1 more bytes"),
        (GOLDEN[:-1], "expected at most 36 bytes at byte 2, found 37"),
        (GOLDEN[:1], "expected a minimal varint at byte 1, found none"),
        (b"\x0a\x80\x00", "expected a minimal varint at byte 1, found none"),
        (b"\x0a" + b"\xff" * 20, "expected a minimal varint at byte 1, found none"),
        (b"\x0a" + b"\xff" * 9 + b"\x7f", "expected a minimal varint at byte 1, found none"),
        (b"\x12" + GOLDEN[1:], "expected the tag 0x0a at byte 0, found 0x12"),
        (b"\x0a\x00", r"expected the features \['image', 'label'\], found \[\]"),
        (GOLDEN[:6] + b"I" + GOLDEN[7:], r"expected .*, found \['Image', 'label'\]"),
        (GOLDEN[:6] + b"\xff" + GOLDEN[7:], r"found \['..xffmage', 'label'\]"),
        (example(label=int_feature(1)), r"found \['label'\]"),
        (
            b"\x0a\x25" + GOLDEN[23:] + GOLDEN[2:23],
            r"expected the features \['image', 'label'\], found \['label', 'image'\]",
        ),
        (
            b"\x0a\x35" + GOLDEN[2:] + GOLDEN[23:],
            "expected the features .*, found .*'image', 'label', 'label'",
        ),
        (
            example(image=bytes_feature(b"a", b"b"), label=int_feature(1)),
            "expected the end at byte 18, found 3 more bytes",
        ),
        (
            example(image=bytes_feature(b"a"), label=int_feature(1, 2)),
            "label: expected 1 values, found 2",
        ),
        (
            example(image=bytes_feature(b"a"), label=int_feature()),
            "label: expected 1 values, found 0",
        ),
        (
            example(image=bytes_feature(b"a"), label=bytes_feature(b"1")),
            "expected the tag 0x1a at byte .*, found 0x0a",
        ),
        (
            example(image=int_feature(1), label=int_feature(1)),
            "expected the tag 0x0a at byte .*, found 0x1a",
        ),
    ],
)
def test_other_bytes_are_refused(data, what):
    with pytest.raises(ValueError, match=what):
        parse_example(data, "image", LABEL)


def test_every_single_changed_byte_is_refused_or_told_by_the_values():
    for place in range(len(GOLDEN)):
        for bit in range(8):
            data = bytearray(GOLDEN)
            data[place] ^= 1 << bit
            try:
                parsed = parse_example(bytes(data), "image", LABEL)
            except ValueError:
                continue
            # Only a byte of the image, or of the label.
            assert parsed == StoredExample(17, 6, {"label": [data[-1]]})
            assert 17 <= place < 23 or place == len(GOLDEN) - 1


COLUMNS = (
    ColumnSpec(name="age", dtype="int16"),
    ColumnSpec(name="label", dtype="int32", shape=None),
    ColumnSpec(name="place", dtype="string"),
    ColumnSpec(name="vector", dtype="float32", shape=(2,)),
)


def float_feature(*values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


@pytest.mark.parametrize("classes", [(), (3,), (1, 5, 300)])
def test_values_of_every_kind(classes):
    data = example(
        image=bytes_feature(b"abc"),
        age=int_feature(-7),
        label=int_feature(*classes),
        place=bytes_feature("à".encode()),
        vector=float_feature(1.5, -2),
    )
    assert parse_example(data, "image", COLUMNS).values == {
        "age": [-7],
        "label": list(classes),
        "place": "à".encode(),
        "vector": [1.5, -2.0],
    }


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"vector": float_feature(1)}, "vector: expected 2 values, found 1"),
        ({"vector": int_feature(1, 2)}, "expected the tag 0x12"),
        ({"age": int_feature(1, 2)}, "age: expected 1 values, found 2"),
        ({"place": bytes_feature()}, "expected the tag 0x0a at byte .*, found the end"),
        ({"place": bytes_feature(b"a", b"b")}, "found 3 more bytes"),
        (
            {"more": int_feature(1)},
            r"expected the features .*, found \['age', 'image', 'label', 'mo",
        ),
    ],
)
def test_values_of_another_form_are_refused(changes, what):
    features = {
        "image": bytes_feature(b"abc"),
        "age": int_feature(-7),
        "label": int_feature(1),
        "place": bytes_feature(b"a"),
        "vector": float_feature(1.5, -2),
    }
    with pytest.raises(ValueError, match=what):
        parse_example(example(**{**features, **changes}), "image", COLUMNS)
