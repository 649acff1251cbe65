import pytest
import tensorflow as tf
from damaged import serialized

from tfrds.disk.example_bytes import StoredExample, parse_example
from tfrds.disk.records import example_parts

# The golden record of tests/test_disk_records.py: an image of six bytes and the label 3.
GOLDEN = bytes.fromhex(
    "0a250a130a05696d616765120a0a080a060001020304050a0e0a056c6162656c12051a030a0103"
)


def test_the_golden_record():
    assert parse_example(GOLDEN, "image", "label") == StoredExample(17, 6, 3)


@pytest.mark.parametrize("label", [0, 127, 128, 2**31 - 1, 2**63 - 1, -1, -(2**63)])
@pytest.mark.parametrize("length", [0, 1, 127, 128, 100_000])
def test_what_protobuf_serialises(label, length):
    image = bytes(range(256)) * (length // 256) + bytes(length % 256)
    data = serialized(image, label)
    example = parse_example(data, "image", "label")
    assert example.label == label
    assert data[example.image_offset : example.image_offset + example.image_length] == image


def test_keys_are_sorted_by_their_bytes():
    head, tail = example_parts(3, 7, "z_image", "label")
    assert parse_example(head + b"abc" + tail, "z_image", "label") == StoredExample(len(head), 3, 7)


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
            "expected one label, found 1 more bytes",
        ),
        (
            example(image=bytes_feature(b"a"), label=int_feature()),
            "expected the tag 0x0a at byte .*, found the end",
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
        parse_example(data, "image", "label")


def test_every_single_changed_byte_is_refused_or_told_by_the_values():
    for place in range(len(GOLDEN)):
        for bit in range(8):
            data = bytearray(GOLDEN)
            data[place] ^= 1 << bit
            try:
                parsed = parse_example(bytes(data), "image", "label")
            except ValueError:
                continue
            # Only a byte of the image, or of the label.
            assert parsed in (StoredExample(17, 6, 3), StoredExample(17, 6, data[-1]))
            assert 17 <= place < 23 or place == len(GOLDEN) - 1
