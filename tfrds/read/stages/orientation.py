"""Which way up an image is, by its EXIF and XMP, and turning it upright.

Input:   exif   string [], what a JPEG's APP1 or a PNG's eXIf says; xmp string [], its XMP packet
         image  uint8 [height, width, channels]
Output:  orientation  int32 [], 1..8; image, upright
Source:  EXIF 2.3, TIFF 6.0, and what Pillow makes of broken files: `write/check.py` asks it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

_TAG = 0x0112
_ENTRY_BYTES = 12

# Bytes of a value of each TIFF type; 0: there is no such type.
_TYPE_BYTES = np.zeros(17, np.int64)
_TYPE_BYTES[1:14] = (1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4)
_TYPE_BYTES[16] = 8

# Types whose values Pillow gives as bytes or text, which are no orientation.
_NO_NUMBERS = (1, 2, 7)
# Rationals, floats and 64 bits: no program is known to write an orientation so.
_RARE_TYPES = (5, 10, 11, 12, 16)

# Both byte orders, and both with the magic number in the wrong one, which Pillow takes.
_HEADERS = (b"II*\0", b"MM\0*", b"MM*\0", b"II\0*")

_XMP = r'(?s)\A\C*?tiff:Orientation(?:="|>)([0-9])\C*\z'

# What `exif_orientation` gives beside 1..8.
MISSING, UNKNOWN = 0, -1


def exif_orientation(exif: tf.Tensor) -> tf.Tensor:
    r"""Returns 1..8, MISSING without a word on it, UNKNOWN where its number is of a rare type.

    Args:
      exif: with or without "Exif\0\0" in front.
    """
    exif = tf.strings.regex_replace(exif, r"\A(?:Exif\x00\x00){1,2}", "", replace_global=False)
    content = tf.io.decode_raw(exif, tf.uint8)
    size = tf.size(content, tf.int64)
    is_big = tf.equal(tf.strings.substr(exif, 0, 1), "M")
    is_valid = (size >= 8) & _is_any(tf.strings.substr(exif, 0, 4), _HEADERS)
    # Room for one entry, so that whatever place is asked for is there.
    padded = tf.cast(tf.concat([content, tf.zeros(_ENTRY_BYTES, tf.uint8)], 0), tf.int64)

    def number(places: tf.Tensor, count: int) -> tf.Tensor:
        places = tf.clip_by_value(places, 0, size)[..., tf.newaxis]
        digits = tf.gather(padded, places + tf.range(count, dtype=tf.int64))
        digits = tf.where(is_big, digits, digits[..., ::-1])
        return tf.reduce_sum(digits * [256**power for power in reversed(range(count))], -1)

    first = number(tf.constant(4, tf.int64), 4)
    room = tf.maximum(size - first - 2, 0)
    count = tf.minimum(number(first, 2), room // _ENTRY_BYTES)
    count = tf.where(is_valid & (room > 0), count, 0)
    places = first + 2 + _ENTRY_BYTES * tf.range(count)
    types, offsets = number(places + 2, 2), number(places + 8, 4)
    lengths = number(places + 4, 4) * tf.gather(_TYPE_BYTES, tf.where(types <= 16, types, 0))
    is_far = lengths > 4
    # Pillow leaves out what would be more than the file holds, and stops at a value beyond its end.
    is_too_much = is_far & (tf.cumsum(tf.where(is_far, lengths, 0)) > size)
    is_beyond = is_far & ~is_too_much & (offsets + lengths > size)
    is_reached = tf.equal(tf.cumsum(tf.cast(is_beyond, tf.int32)), 0)
    is_found = is_reached & ~is_too_much & (lengths > 0) & tf.equal(number(places, 2), _TAG)

    def found() -> tf.Tensor:
        entry = tf.argmax(is_found)
        kind, place = types[entry], tf.where(is_far[entry], offsets[entry], places[entry] + 8)
        length = tf.gather(_TYPE_BYTES, kind)
        value = tf.where(tf.equal(length, 1), number(place, 1), number(place, 2))
        value = tf.where(tf.equal(length, 4), number(place, 4), value)
        value = _valid_or_upright(tf.where(_is_any(kind, _NO_NUMBERS), tf.ones_like(value), value))
        return tf.where(_is_any(kind, _RARE_TYPES), UNKNOWN, value)

    # Without a header nothing is asked any more; without any EXIF, its XMP is.
    missing = tf.where(is_valid | tf.equal(size, 0), MISSING, 1)
    return tf.cond(tf.reduce_any(is_found), found, lambda: missing)


def or_by_xmp(by_exif: tf.Tensor, xmp: tf.Tensor) -> tf.Tensor:
    """Returns the orientation by EXIF, that of an XMP packet where EXIF has none; 1 without both.

    Args:
      by_exif: as `exif_orientation` gave it.
      xmp: string [], the packet, also with other text around it.
    """
    digit = tf.strings.regex_replace(xmp, _XMP, r"\1")
    is_found = tf.not_equal(digit, xmp)
    value = tf.strings.to_number(tf.where(is_found, digit, "1"), tf.int64)
    return tf.where(tf.equal(by_exif, MISSING), _valid_or_upright(value), by_exif)


def turn_upright(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """Returns the image as it is to be seen.

    Args:
      image: [height, width, channels] as stored.
      orientation: int32 [], 1..8.
    """
    image = tf.cond(orientation >= 5, lambda: tf.transpose(image, [1, 0, 2]), lambda: image)
    return tf.switch_case(
        (orientation - 1) % 4,
        [
            lambda: image,
            lambda: tf.reverse(image, [1]),
            lambda: tf.reverse(image, [0, 1]),
            lambda: tf.reverse(image, [0]),
        ],
    )


def _valid_or_upright(value: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.where((value >= 1) & (value <= 8), value, 1), tf.int32)


def _is_any(value: tf.Tensor, choices: Sequence[Any]) -> tf.Tensor:
    return tf.reduce_any(tf.equal(value, tf.constant(choices, value.dtype)))
