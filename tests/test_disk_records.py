import itertools
import struct
import tracemalloc

import images
import pytest
import tensorflow as tf

from tfrds.disk.records import (
    HEADER_BYTES,
    MAX_RECORD_BYTES,
    bytes_feature,
    example_parts,
    feature_entry,
    float_feature,
    frame_footer,
    frame_header,
    int64_feature,
    masked_crc,
)

# Written by hand from example.proto and record_writer.h: an image of six bytes and the label 3.
IMAGE = bytes.fromhex("000102030405")
GOLDEN_EXAMPLE = bytes.fromhex(
    "0a25"  # Example.features, 37 bytes
    "0a13 0a05 696d616765"  # an entry of its map, 19 bytes; its key "image"
    "120a 0a08 0a06 000102030405"  # its value: Feature.bytes_list, BytesList.value
    "0a0e 0a05 6c6162656c"  # an entry, 14 bytes; its key "label"
    "1205 1a03 0a01 03"  # its value: Feature.int64_list, a packed Int64List.value
)


def example(image, label, image_key="image", label_key="label"):
    entry = feature_entry(label_key, int64_feature([label]))
    is_first = image_key.encode() < label_key.encode()
    before, after = (b"", entry) if is_first else (entry, b"")
    head, tail = example_parts(len(image), image_key, before, after)
    return head + image + tail


def protobuf_example(image, label, image_key="image", label_key="label"):
    feature = {
        image_key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
        label_key: tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    message = tf.train.Example(features=tf.train.Features(feature=feature))
    return message.SerializeToString(deterministic=True)


def framed(data):
    return frame_header(len(data)) + data + frame_footer(data)


def test_example_has_the_golden_bytes():
    assert example(IMAGE, 3) == GOLDEN_EXAMPLE


def test_frame_has_the_golden_bytes():
    # The checksums come from TensorFlow's TFRecordWriter, once.
    assert framed(GOLDEN_EXAMPLE).hex() == (
        "2700000000000000bbe1b146" + GOLDEN_EXAMPLE.hex() + "5e21dd2c"
    )


def test_crc_is_that_of_the_standard_masked_as_tfrecord_does():
    # Source: RFC 3720 appendix B.4, CRC32C of 32 zero bytes is 0x8a9136aa.
    crc = 0x8A9136AA
    rotated = ((crc >> 15) | (crc << 17)) & 0xFFFFFFFF
    assert masked_crc(bytes(32)) == (rotated + 0xA282EAD8) % 2**32


@pytest.mark.parametrize("size", [0, 1, 100, 116, 127, 128, 129, 16_250, 16_383, 16_384, 16_385])
@pytest.mark.parametrize("label", [0, 1, 127, 128, 255, 16_383, 16_384, 2**31 - 1])
def test_example_equals_deterministic_protobuf(size, label):
    image = images.noise(size, 1, max(size, 1), 1).tobytes()[:size]
    assert example(image, label) == protobuf_example(image, label)


def test_example_equals_protobuf_at_every_size_around_the_borders_of_varints():
    # Each of the five nested lengths crosses its own border at another size.
    for size in itertools.chain(range(70, 140), range(16_330, 16_400), range(2_097_100, 2_097_160)):
        image = bytes(size)
        assert example(image, 7) == protobuf_example(image, 7), size


@pytest.mark.parametrize(
    ("image_key", "label_key"),
    [("image_raw", "label"), ("z", "a"), ("image", "größe"), ("zebra", "größe")],
)
@pytest.mark.parametrize("label", [5, 300])
def test_example_of_other_keys_equals_deterministic_protobuf(image_key, label_key, label):
    image = bytes(range(200))
    ours = example(image, label, image_key, label_key)
    assert ours == protobuf_example(image, label, image_key, label_key)


@pytest.mark.parametrize(
    ("image_key", "label_key"), [("imag", "image"), ("label2", "label"), ("a", "b"), ("b", "a")]
)
def test_features_stand_in_byte_order_where_a_key_begins_with_the_other(image_key, label_key):
    # There protobuf's deterministic order (upb, 7.36) has the longer key first, FORMAT.md has not.
    ours = example(b"1234", 300, image_key, label_key)
    theirs = protobuf_example(b"1234", 300, image_key, label_key)
    assert tf.train.Example.FromString(ours) == tf.train.Example.FromString(theirs)
    assert len(ours) == len(theirs)
    first = min(image_key.encode(), label_key.encode())
    assert ours[4:].startswith(bytes([0x0A, len(first)]) + first)


def test_tfrecord_writer_gives_the_same_file(tmp_path):
    records = [
        protobuf_example(bytes(size), label) for size, label in [(1, 0), (127, 128), (999, 5)]
    ]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in records:
            writer.write(record)
    ours = b"".join(
        framed(example(bytes(size), label)) for size, label in [(1, 0), (127, 128), (999, 5)]
    )
    assert (tmp_path / "theirs").read_bytes() == ours


def test_tensorflow_reads_and_parses_our_records(tmp_path):
    pairs = [(images.noise(label, 4, 5).tobytes(), label) for label in (0, 127, 128, 999)]
    path = images.put(tmp_path / "shard", b"".join(framed(example(*pair)) for pair in pairs))
    spec = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    read = [
        tf.io.parse_single_example(record, spec) for record in tf.data.TFRecordDataset(str(path))
    ]
    assert [(each["image"].numpy(), int(each["label"])) for each in read] == pairs


def test_header_and_footer_have_their_sizes():
    assert len(frame_header(5)) == HEADER_BYTES == 12
    assert len(frame_footer(b"12345")) == 4
    assert struct.unpack("<Q", frame_header(2**31)[:8]) == (2**31,)


def test_records_stay_under_two_gibibytes():
    assert MAX_RECORD_BYTES == 2_147_483_647


@pytest.mark.parametrize("values", [[], [0], [-1], [127, 128, -(2**63), 2**63 - 1]])
def test_whole_numbers_equal_protobuf(values):
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    assert int64_feature(values) == feature.SerializeToString(deterministic=True)


@pytest.mark.parametrize("values", [[], [0.0], [-1.5, 1e30, float("inf")]])
def test_floats_equal_protobuf(values):
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=values))
    assert float_feature(values) == feature.SerializeToString(deterministic=True)


@pytest.mark.parametrize("value", [b"", b"a", bytes(200)])
def test_byte_strings_equal_protobuf(value):
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    assert bytes_feature(value) == feature.SerializeToString(deterministic=True)


def test_nothing_is_kept_of_what_lies_beside_images():
    tracemalloc.start()
    try:
        for number in range(40):
            entry = feature_entry("text", bytes_feature(bytes((number,)) * 1_000_000))
            head, tail = example_parts(48, "image", b"", entry)
            assert len(head) < 40
            assert tail == entry
            del entry, head, tail
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2_000_000
