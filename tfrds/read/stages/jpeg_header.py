"""What stands in a JPEG before its pixels: its size, its components and its EXIF.

Input:   data    string [], a file that begins as a JPEG; anything may follow
Output:  header  `JpegHeader`; where the file is damaged, `first_scan` is 0
Source:  ITU-T T.81, annex B, read as Pillow's JpegImagePlugin does.
"""

from typing import NamedTuple

import tensorflow as tf

# A photograph has about 20 markers; depth maps and long colour profiles make hundreds. A bound, as
# each step costs 30 microseconds and a file of junk would have millions.
_MAX_STEPS = 4096

_START_OF_SCAN = 0xDA
_APP1 = 0xE1
_EXIF = b"Exif\0\0"
_XMP = b"http://ns.adobe.com/xap/1.0/\0"


class JpegHeader(NamedTuple):
    """A JPEG's header, each field a scalar.

    Attributes:
      height: int64, in pixels, as stored.
      width: likewise.
      components: int64; 1 is gray, 3 is colour, 4 is CMYK.
      bits: int64, of each component.
      exif: string, its EXIF; empty where there is none.
      xmp: string, its XMP packet, likewise.
      first_scan: int64, the place of the first byte of compressed pixels, 0 where none was found.
    """

    height: tf.Tensor
    width: tf.Tensor
    components: tf.Tensor
    bits: tf.Tensor
    exif: tf.Tensor
    xmp: tf.Tensor
    first_scan: tf.Tensor


def read_jpeg_header(data: tf.Tensor) -> JpegHeader:
    """Returns the header of a file; see the module."""
    content = tf.io.decode_raw(data, tf.uint8)
    size = tf.size(content, tf.int64)
    # Room for a marker, so that whatever place is read is there.
    padded = tf.cast(tf.concat([content, tf.zeros(16, tf.uint8)], 0), tf.int64)
    nothing = tf.constant(0, tf.int64)
    start = JpegHeader(
        nothing, nothing, nothing, nothing, tf.constant(""), tf.constant(""), nothing
    )

    def step(place: tf.Tensor, header: JpegHeader) -> tuple[tf.Tensor, JpegHeader]:
        head = padded[place : place + 10]
        marker = head[1]
        is_marker = tf.equal(head[0], 0xFF) & (marker >= 0xC0) & (marker < 0xFF)
        has_length = is_marker & ~_is_bare(marker)
        length = tf.maximum(head[2] * 256 + head[3], 2)
        header = tf.cond(
            has_length, lambda: _with_segment(header, data, place, head, length), lambda: header
        )
        # The second of two 0xFF may begin a marker; after anything but 0xFF, one may begin next.
        is_padding = tf.not_equal(head[0], 0xFF) | tf.equal(marker, 0xFF)
        bare = tf.where(is_padding, tf.constant(1, tf.int64), tf.constant(2, tf.int64))
        return place + tf.where(has_length, 2 + length, bare), header

    _, header = tf.while_loop(
        lambda place, header: (place + 4 <= size) & tf.equal(header.first_scan, 0),
        step,
        (tf.constant(2, tf.int64), start),
        maximum_iterations=_MAX_STEPS,
    )
    return JpegHeader(*header)


def is_complete(data: tf.Tensor, first_scan: tf.Tensor) -> tf.Tensor:
    """Whether an end marker follows the first scan; of an embedded preview's own it is none."""
    size = tf.cast(tf.strings.length(data), tf.int64)
    tail = tf.strings.substr(data, tf.minimum(first_scan, size), size)
    tail = tf.io.decode_raw(tail, tf.uint8)
    is_end = tf.equal(tail[:-1], 0xFF) & tf.equal(tail[1:], 0xD9)
    return tf.reduce_any(is_end)


def _is_bare(marker: tf.Tensor) -> tf.Tensor:
    """Whether no length follows a marker: restarts, starts and ends of images, extensions."""
    is_extension = tf.equal(marker, 0xC8) | ((marker >= 0xF0) & (marker <= 0xFD))
    return is_extension | ((marker >= 0xD0) & (marker <= 0xD9))


def _with_segment(
    header: JpegHeader, data: tf.Tensor, place: tf.Tensor, head: tf.Tensor, length: tf.Tensor
) -> JpegHeader:
    """Returns the header with what a segment says.

    Args:
      header: so far.
      data: the file.
      place: of the marker.
      head: int64 [10], the bytes from there.
      length: of the segment, without the marker.
    """
    marker = head[1]
    is_table = tf.equal(marker, 0xC4) | tf.equal(marker, 0xCC)
    is_frame = (marker <= 0xCF) & ~is_table | tf.equal(marker, 0xDE)
    is_scan = tf.equal(marker, _START_OF_SCAN)

    def texts() -> tuple[tf.Tensor, tf.Tensor]:
        text = tf.strings.substr(data, place + 4, length - 2)
        is_exif = tf.equal(tf.strings.substr(text, 0, len(_EXIF)), _EXIF)
        is_xmp = tf.equal(tf.strings.substr(text, 0, len(_XMP)), _XMP)
        # A long EXIF goes on in further segments, each with its own mark.
        is_more = is_exif & tf.not_equal(header.exif, "")
        first = tf.where(is_more, len(_EXIF), 0)
        part = tf.strings.substr(text, first, tf.strings.length(text))
        exif = tf.where(is_exif, tf.strings.join([header.exif, part]), header.exif)
        return exif, tf.where(is_xmp, text, header.xmp)

    exif, xmp = tf.cond(
        tf.equal(marker, _APP1) & (length > 8), texts, lambda: (header.exif, header.xmp)
    )
    return JpegHeader(
        height=tf.where(is_frame, head[5] * 256 + head[6], header.height),
        width=tf.where(is_frame, head[7] * 256 + head[8], header.width),
        components=tf.where(is_frame, head[9], header.components),
        bits=tf.where(is_frame, head[4], header.bits),
        exif=exif,
        xmp=xmp,
        first_scan=tf.where(is_scan, place + 2 + length, header.first_scan),
    )
