"""Decodes a new image to the pixels that a build makes of it, before it resizes them.

Input:   data   string [], a JPEG or PNG file as its program wrote it
Output:  image  uint8 [height, width, channels], 0..255: upright (where builds turn), 8 bits,
                transparency on a ground
Source:  `write/pixels.py` and `write/check.py`, that is Pillow, in graph operations and to the bit.
         What they cannot do exactly is an error when the graph runs, whose text says so.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tfrds.checks import MAX_SIDE
from tfrds.read.stages import jpeg_header, png_header
from tfrds.read.stages.decode import decode_encoded, decode_smaller
from tfrds.read.stages.graph_errors import checked, first_fault, say
from tfrds.read.stages.jpeg_header import JpegHeader, read_jpeg_header
from tfrds.read.stages.orientation import (
    MISSING,
    UNKNOWN,
    exif_orientation,
    or_by_xmp,
    turn_upright,
)
from tfrds.read.stages.png_header import PngHeader, has_odd_transparency, read_png_header

_JPEG, _PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"

# Other formats by their first bytes, from the place given.
_OTHERS = (
    (0, b"GIF8", "a GIF"),
    (8, b"WEBP", "a WebP"),
    (0, b"II*\0", "a TIFF"),
    (0, b"MM\0*", "a TIFF"),
    (0, b"BM", "a BMP"),
    (4, b"ftyp", "an AVIF or HEIC"),
    (0, b"%PDF", "a PDF"),
)

_PYTHON = "Call preprocess on the bytes in Python, or convert the image to an RGB PNG."
_DAMAGED = "Replace the file."
_UNKNOWN_ORIENTATION = f"EXIF whose orientation is no whole number of at most 32 bits. {_PYTHON}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AsBuilt:
    """The stage.

    Attributes:
      channels: 1 or 3 of the result.
      background: (red, green, blue), 0..255, under transparent pixels.
      exif_transpose: whether builds turn images upright.
      max_pixels: height times width that an image may have at most.
      decode_ratio: by how much a JPEG may be decoded smaller that the build stores as it is, from
        its (height, width) as int64 []: int32 [], 1, 2, 4 or 8. None: never.
    """

    channels: int
    background: tuple[int, int, int]
    exif_transpose: bool = True
    max_pixels: int = MAX_SIDE**2
    decode_ratio: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None

    def __call__(self, data: tf.Tensor, where: tf.Tensor | str = "image") -> tf.Tensor:
        """Returns the image.

        Args:
          data: see the module.
          where: what errors call the image.
        """
        is_jpeg = tf.equal(tf.strings.substr(data, 0, len(_JPEG)), _JPEG)
        is_png = tf.equal(tf.strings.substr(data, 0, len(_PNG)), _PNG)
        fault = tf.cond(is_jpeg | is_png, lambda: tf.constant(""), lambda: _no_image(data))
        data = checked(data, fault, where)
        image = tf.cond(is_jpeg, lambda: self._jpeg(data, where), lambda: self._png(data, where))
        return tf.ensure_shape(image, (None, None, self.channels))

    def _jpeg(self, data: tf.Tensor, where: tf.Tensor | str) -> tf.Tensor:
        header = read_jpeg_header(data)
        if not self.exif_transpose:
            header = header._replace(exif=tf.constant(""), xmp=tf.constant(""))
        orientation = or_by_xmp(exif_orientation(header.exif), header.xmp)
        fault = first_fault(
            self._too_large(header.height * header.width),
            (tf.constant(True), _jpeg_fault(data, header, orientation)),
        )
        data = checked(data, fault, where)
        if self.decode_ratio is None:
            image = decode_encoded(data, 3)
        else:
            # One that is turned, or loses its colours, is stored as a PNG, which is decoded whole.
            is_kept = tf.equal(orientation, 1) & (header.components <= self.channels)
            ratio = tf.where(is_kept, self.decode_ratio(header.height, header.width), 1)
            image = decode_smaller(data, 3, ratio)
        return turn_upright(self._with_channels(image), orientation)

    def _png(self, data: tf.Tensor, where: tf.Tensor | str) -> tf.Tensor:
        header = read_png_header(data)
        if not self.exif_transpose:
            no = tf.constant(False)
            header = header._replace(
                exif=tf.constant(""), xmp=tf.constant(""), has_profile=no, has_packed_xmp=no
            )
        by_exif = exif_orientation(header.exif)
        fault = first_fault(
            self._too_large(png_header.num_pixels(data)),
            (tf.constant(True), _png_fault(data, header, by_exif)),
        )
        data = checked(data, fault, where)
        has_alpha = (header.colour_type >= 4) | tf.not_equal(header.transparent, "")
        image = tf.cond(
            has_alpha,
            lambda: _flatten(tf.io.decode_png(data, channels=4), self.background),
            lambda: tf.io.decode_png(data, channels=3),
        )
        return turn_upright(self._with_channels(image), or_by_xmp(by_exif, header.xmp))

    def _too_large(self, pixels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns whether an image is refused by what its header says, and with what text."""
        return pixels > self.max_pixels, say(
            f"too large: expected at most {self.max_pixels} pixels, as the dataset was built with "
            "max_pixels, got ",
            pixels,
            ".",
        )

    def _with_channels(self, image: tf.Tensor) -> tf.Tensor:
        return image if self.channels == 3 else _luma(image)


def _no_image(data: tf.Tensor) -> tf.Tensor:
    size = tf.strings.length(data)
    others = [
        (
            tf.equal(tf.strings.substr(data, tf.minimum(place, size), len(magic)), magic),
            f"expected a JPEG or PNG, which a graph decodes exactly, got {name}. {_PYTHON}",
        )
        for place, magic, name in _OTHERS
    ]
    # Made printable, as the text of an error must be.
    text = tf.strings.unicode_transcode(
        tf.strings.substr(data, 0, 24),
        "UTF-8",
        "UTF-8",
        replacement_char=ord("?"),
        replace_control_characters=True,
    )
    return first_fault(
        (tf.equal(size, 0), "expected the bytes of a JPEG or PNG, got an empty string."),
        *others,
        (
            tf.constant(True),
            say(
                "expected the bytes of a JPEG or PNG, got what begins with '",
                text,
                "'. Pass what the file holds (tf.io.read_file), not its name.",
            ),
        ),
    )


def _jpeg_fault(data: tf.Tensor, header: JpegHeader, orientation: tf.Tensor) -> tf.Tensor:
    is_usual = tf.equal(header.components, 1) | tf.equal(header.components, 3)
    return first_fault(
        (
            tf.equal(header.first_scan, 0) | tf.equal(header.width, 0),
            f"cut off or damaged: a JPEG whose header does not come to its pixels. {_DAMAGED}",
        ),
        (
            ~is_usual | tf.not_equal(header.bits, 8),
            say(
                "expected a JPEG of 1 or 3 components of 8 bits, got ",
                header.components,
                " of ",
                header.bits,
                f" bits; 4 are CMYK, which a graph does not convert exactly. {_PYTHON}",
            ),
        ),
        (
            ~jpeg_header.is_complete(data, header.first_scan),
            say("cut off: a JPEG of ", tf.strings.length(data), " bytes without its end marker. ")
            + _DAMAGED,
        ),
        (tf.equal(orientation, UNKNOWN), _UNKNOWN_ORIENTATION),
    )


def _png_fault(data: tf.Tensor, header: PngHeader, by_exif: tf.Tensor) -> tf.Tensor:
    is_deep = tf.equal(header.bits, 16) & tf.equal(header.colour_type, 2)
    has_exif = tf.not_equal(header.exif, "")
    return first_fault(
        (
            ~png_header.is_complete(data),
            say("cut off: a PNG of ", tf.strings.length(data), " bytes without its last chunk. ")
            + _DAMAGED,
        ),
        (
            is_deep & tf.not_equal(header.transparent, ""),
            "16-bit RGB with a transparent colour: builds read 8 bits, which do not tell it from "
            "its neighbours. Convert it to RGBA.",
        ),
        (
            has_odd_transparency(header),
            f"a PNG whose transparent colour (tRNS) is not as the standard has it. {_PYTHON}",
        ),
        (tf.equal(by_exif, UNKNOWN), _UNKNOWN_ORIENTATION),
        (
            (header.has_profile & ~has_exif) | (header.has_packed_xmp & tf.equal(by_exif, MISSING)),
            "a PNG whose EXIF or XMP is compressed or in hexadecimal digits, so a graph cannot "
            f"tell which way up it is. {_PYTHON}",
        ),
    )


def _flatten(image: tf.Tensor, background: tuple[int, int, int]) -> tf.Tensor:
    """Returns RGBA on a ground as RGB, by the integers of Pillow's AlphaComposite.c."""
    levels = tf.cast(image, tf.int32)
    alpha = levels[..., 3:]
    total = (levels[..., :3] * alpha + tf.constant(background) * (255 - alpha)) * 128 + 128 * 128
    total = tf.bitwise.right_shift(total, 8) + total
    return tf.cast(tf.bitwise.right_shift(total, 8 + 7), tf.uint8)


def _luma(image: tf.Tensor) -> tf.Tensor:
    """Returns RGB as gray, by Pillow's integers (ITU-R 601-2)."""
    total = tf.reduce_sum(tf.cast(image, tf.int32) * [19595, 38470, 7471], -1, keepdims=True)
    return tf.cast(tf.bitwise.right_shift(total + 0x8000, 16), tf.uint8)
