"""TFRecord frames and `tf.train.Example` bytes: the same bytes for the same example, always.

Gets an image's length and the features beside it, gives what stands around the image in the framed
record; `shards.py` writes it. Written
by hand because protobuf orders a map's entries differently in each process and promises no bytes
across versions.

Source: tensorflow/core/lib/io/record_writer.h (frame, masked CRC32C) and
tensorflow/core/example/example.proto.
"""

import functools
import struct
from collections.abc import Sequence

import google_crc32c

# The frame around a record's data: u64 length, u32 masked CRC of the length; after the data, its
# u32 masked CRC.
HEADER_BYTES = 12

# A reader allocates what the length says: beyond this, a record is damaged or not ours (FORMAT:
# under 2 GiB).
MAX_RECORD_BYTES = 2**31 - 1

_MASK_DELTA = 0xA282EAD8


def masked_crc(data: bytes) -> int:
    """Returns TFRecord's checksum of `data`.

    CRC32C, rotated right by 15 bits, plus a constant, modulo 2^32.
    """
    return _mask(google_crc32c.value(data))


@functools.lru_cache(maxsize=4096)
def frame_header(length: int) -> bytes:
    """Returns the 12 bytes before a record's data of `length` bytes."""
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked_crc(packed))


def frame_footer(data: bytes) -> bytes:
    """Returns the 4 bytes after a record's data."""
    return struct.pack("<I", masked_crc(data))


def example_parts(
    image_length: int, image_key: str, before: bytes, after: bytes
) -> tuple[bytes, bytes]:
    """Returns the bytes of an Example before and after its image of `image_length` bytes.

    Args:
      image_length: bytes.
      image_key: name of the image's feature.
      before: entries of the features whose keys stand before it in byte order, by
        `feature_entry`.
      after: entries of those behind it.
    """
    first, head = _image_heads(image_length, image_key, len(before), len(after))
    return first + before + head, after


@functools.lru_cache(maxsize=4096)
def _image_heads(
    image_length: int, image_key: str, bytes_before: int, bytes_after: int
) -> tuple[bytes, bytes]:
    """Returns the first bytes of an Example, and those just before its image.

    Cached: raw images of one shape share a few. Never by what lies beside them, which may be large.
    """
    head = _wrap(0x0A, b"", image_length)  # BytesList.value
    head = _wrap(0x0A, head, image_length)  # Feature.bytes_list
    # The map's key and value, then Features.feature.
    head = _wrap(0x0A, image_key.encode()) + _wrap(0x12, head, image_length)
    head = _wrap(0x0A, head, image_length)
    inner = bytes_before + len(head) + image_length + bytes_after
    return _wrap(0x0A, b"", inner), head  # Example.features


def feature_entry(key: str, feature: bytes) -> bytes:
    """Returns a feature with its key, as an entry of Features.feature."""
    return _wrap(0x0A, _wrap(0x0A, key.encode()) + _wrap(0x12, feature))


def int64_feature(values: Sequence[int]) -> bytes:
    """Returns a `tf.train.Feature` of whole numbers; an empty list stays one of whole numbers."""
    packed = b"".join(map(_signed_varint, values))
    return _wrap(0x1A, _wrap(0x0A, packed) if values else b"")  # int64_list, its value (packed)


def float_feature(values: Sequence[float]) -> bytes:
    """Returns a `tf.train.Feature` of float32 numbers."""
    packed = struct.pack(f"<{len(values)}f", *values)
    return _wrap(0x12, _wrap(0x0A, packed) if values else b"")  # float_list, its value (packed)


def bytes_feature(value: bytes) -> bytes:
    """Returns a `tf.train.Feature` of one byte string."""
    return _wrap(0x0A, _wrap(0x0A, value))  # bytes_list, its value


def _signed_varint(value: int) -> bytes:
    return _varint(value + 2**64 if value < 0 else value)  # int64 in two's complement


def _wrap(tag: int, payload: bytes, bytes_to_come: int = 0) -> bytes:
    """Returns a length-delimited field.

    Its payload ends with `bytes_to_come` more bytes, written later.
    """
    return bytes((tag,)) + _varint(len(payload) + bytes_to_come) + payload


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _mask(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF
