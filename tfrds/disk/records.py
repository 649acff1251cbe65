"""TFRecord frames and `tf.train.Example` bytes: the same bytes for the same example, always.

Gets an image's stored bytes and its label, gives the framed record; `shards.py` writes it. Written
by hand because protobuf orders a map's entries differently in each process and promises no bytes
across versions.

Source: tensorflow/core/lib/io/record_writer.h (frame, masked CRC32C) and
tensorflow/core/example/example.proto.
"""

import functools
import struct

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


@functools.lru_cache(maxsize=4096)
def example_parts(
    image_length: int, label: int, image_key: str, label_key: str
) -> tuple[bytes, bytes]:
    """Returns the bytes of an Example before and after its image of `image_length` bytes.

    Features stand in byte order of their keys. Cached: raw images of one shape share a few parts,
    one for each class.
    """
    label_entry = _wrap(0x0A, _wrap(0x0A, label_key.encode()) + _wrap(0x12, _int64_feature(label)))
    image_first = image_key.encode() < label_key.encode()
    before, after = (b"", label_entry) if image_first else (label_entry, b"")
    head = _wrap(0x0A, b"", image_length)  # BytesList.value
    head = _wrap(0x0A, head, image_length)  # Feature.bytes_list
    head = _wrap(0x0A, image_key.encode()) + _wrap(
        0x12, head, image_length
    )  # the map's key and value
    head = _wrap(0x0A, head, image_length)  # Features.feature
    head = _wrap(0x0A, before + head, image_length + len(after))  # Example.features
    return head, after


def _int64_feature(value: int) -> bytes:
    return _wrap(0x1A, _wrap(0x0A, _varint(value)))  # Feature.int64_list, Int64List.value (packed)


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
