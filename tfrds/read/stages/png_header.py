"""What stands in a PNG beside its pixels: its kind, its transparent colour and its EXIF.

Input:   data    string [], a file that begins as a PNG; anything may follow
Output:  header  `PngHeader`
Source:  PNG specification, third edition, read as Pillow's PngImagePlugin does: text and EXIF count
         where they come before the pixels, and after them only if EXIF is not found before.
"""

from typing import NamedTuple

import tensorflow as tf

# A PNG has about ten chunks before its pixels; those of the pixels themselves are only walked where
# EXIF may follow. A bound, as each step costs 30 microseconds.
_MAX_STEPS = 65_536

_FIRST_CHUNK = 8
_BIG_ENDIAN = (256**3, 256**2, 256, 1)
_FRAME_BYTES = 12  # of a chunk: its length, its type and its checksum

_TEXTS = ("tEXt", "zTXt", "iTXt")
_XMP = b"XML:com.adobe.xmp\0"
# EXIF as older programs write it, as text in hexadecimal digits.
_PROFILES = r"\A(?:Raw profile type exif|exif)\x00"
# An XMP packet that is compressed: always in zTXt, by its flag in iTXt.
_PACKED_XMP = r"\A(?:zTXtXML:com\.adobe\.xmp\x00|iTXtXML:com\.adobe\.xmp\x00[^\x00])"


class PngHeader(NamedTuple):
    """A PNG's header, each field a scalar.

    Attributes:
      bits: int64, of each channel.
      colour_type: int64; 0 is gray, 2 RGB, 3 a palette, 4 more with alpha.
      colours: int64, of the palette that stands before `transparent`.
      transparent: string, the chunk tRNS, all of them one after the other; empty without.
      exif: string, its EXIF; empty where there is none.
      xmp: string, its XMP packet, likewise.
      has_profile: bool, whether it holds EXIF as text, which is not read here.
      has_packed_xmp: bool, whether it holds compressed XMP, which is not read here.
    """

    bits: tf.Tensor
    colour_type: tf.Tensor
    colours: tf.Tensor
    transparent: tf.Tensor
    exif: tf.Tensor
    xmp: tf.Tensor
    has_profile: tf.Tensor
    has_packed_xmp: tf.Tensor


def read_png_header(data: tf.Tensor) -> PngHeader:
    """Returns the header of a file; see the module."""
    size = tf.strings.length(data)
    kind = _numbers(tf.strings.substr(data, tf.minimum(24, size), 2), 2)
    none, false = tf.constant(""), tf.constant(False)
    start = PngHeader(kind[0], kind[1], tf.constant(0, tf.int64), none, none, none, false, false)
    may_follow = tf.strings.regex_full_match(data, r"\C*eXIf\C*")

    def step(
        place: tf.Tensor, _: tf.Tensor, header: PngHeader
    ) -> tuple[tf.Tensor, tf.Tensor, PngHeader]:
        digits = _numbers(tf.strings.substr(data, place, 4), 4)
        length = tf.reduce_sum(digits * _BIG_ENDIAN)
        # What goes beyond the file is no chunk, and the walk ends there.
        length = tf.cast(tf.minimum(length, tf.cast(size, tf.int64)), tf.int32)
        name = tf.strings.substr(data, place + 4, 4)
        is_pixels = tf.equal(name, "IDAT")
        header = tf.cond(
            is_pixels,
            lambda: header,
            lambda: _with_chunk(header, name, tf.strings.substr(data, place + 8, length)),
        )
        is_last = is_pixels & ~(may_follow & tf.equal(header.exif, ""))
        return place + _FRAME_BYTES + length, is_last | tf.equal(name, "IEND"), header

    _, _, header = tf.while_loop(
        lambda place, is_done, _: (place <= size - _FRAME_BYTES) & ~is_done,
        step,
        (tf.constant(_FIRST_CHUNK), false, start),
        maximum_iterations=_MAX_STEPS,
    )
    return PngHeader(*header)


def num_pixels(data: tf.Tensor) -> tf.Tensor:
    """Returns height times width as the header says them, int64 []; 0 where it is cut off."""
    sides = _numbers(tf.strings.substr(data, tf.minimum(16, tf.strings.length(data)), 8), 8)
    width, height = tf.unstack(tf.reduce_sum(tf.reshape(sides, (2, 4)) * _BIG_ENDIAN, 1))
    return width * height


def is_complete(data: tf.Tensor) -> tf.Tensor:
    """Whether the last chunk is there; bytes may follow it."""
    return tf.strings.regex_full_match(data, r"\C*\x00\x00\x00\x00IEND\C{4}\C*")


def has_odd_transparency(header: PngHeader) -> tf.Tensor:
    """Whether a transparent colour is there that not all programs take for the same.

    One of the wrong length, before its palette, or beyond what below 8 bits can be.
    """
    length = tf.cast(tf.strings.length(header.transparent), tf.int64)
    value = tf.reduce_sum(_numbers(header.transparent, 2) * [256, 1])
    is_odd_gray = tf.not_equal(length, 2) | (
        (header.bits < 8) & (value >= tf.bitwise.left_shift(tf.ones_like(value), header.bits))
    )
    is_odd = tf.gather(
        [is_odd_gray, False, tf.not_equal(length, 6), length > header.colours, False],
        tf.minimum(header.colour_type, 4),
    )
    return (length > 0) & is_odd


def _numbers(text: tf.Tensor, count: int) -> tf.Tensor:
    """Returns its first bytes as int64 [count], zeros where there are fewer."""
    numbers = tf.cast(tf.io.decode_raw(text, tf.uint8), tf.int64)
    return tf.concat([numbers, tf.zeros(count, tf.int64)], 0)[:count]


def _with_chunk(header: PngHeader, name: tf.Tensor, content: tf.Tensor) -> PngHeader:
    """Returns the header with what a chunk says."""

    def is_named(*names: str) -> tf.Tensor:
        return tf.reduce_any(tf.equal(name, names))

    is_text = is_named(*_TEXTS)
    is_xmp = is_text & tf.equal(tf.strings.substr(content, 0, len(_XMP)), _XMP)
    head = tf.strings.join([name, tf.strings.substr(content, 0, 32)])
    is_palette = is_named("PLTE") & tf.equal(header.transparent, "")
    colours = tf.cast(tf.strings.length(content), tf.int64) // 3
    joined = tf.strings.join([header.transparent, content])
    return header._replace(
        colours=tf.where(is_palette, colours, header.colours),
        transparent=tf.where(is_named("tRNS"), joined, header.transparent),
        exif=tf.where(is_named("eXIf"), content, header.exif),
        xmp=tf.where(is_xmp, content, header.xmp),
        has_profile=header.has_profile | (is_text & _begins(content, _PROFILES)),
        has_packed_xmp=header.has_packed_xmp | _begins(head, _PACKED_XMP),
    )


def _begins(text: tf.Tensor, pattern: str) -> tf.Tensor:
    return tf.strings.regex_full_match(tf.strings.substr(text, 0, 40), pattern + r"\C*")
