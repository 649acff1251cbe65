"""Verifies one stored image: that it decodes completely, and what it is.

Gets the image's bytes as they lie in a record, and what the build record says of all images; gives
size, channels and encoding, which `verify_shard.py` compares with the index. No TensorFlow.
"""

import dataclasses

import simplejpeg

from tfrds.disk.index import JPEG, PNG, RAW
from tfrds.errors import EncodeError
from tfrds.write.check import check_png, jpeg_fault, png_kind
from tfrds.write.sniffing import SNIFF_BYTES, sniff

_JPEG_CHANNELS = {"Gray": 1, "CMYK": 4, "YCCK": 4}
_PNG_CHANNELS = {0: 1, 2: 3}

# TensorFlow decodes no more: no build stores more, and no header makes us take memory for it.
_MAX_PIXELS = 2**29 - 1

# What may be stored under each encoding of a dataset.
_KINDS = {"jpeg": ("jpeg",), "original": ("jpeg", "png")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageRule:
    """What every image of a dataset must be.

    Attributes:
      encoding: "raw", "jpeg" or "original".
      size: (height, width) that all have; None: each its own.
      channels: as read; an encoded image may be gray instead.
    """

    encoding: str
    size: tuple[int, int] | None
    channels: int


@dataclasses.dataclass(frozen=True, slots=True)
class FoundImage:
    """What an image is.

    Attributes:
      height, width: in pixels.
      channels: as stored.
      encoding: RAW, JPEG or PNG.
    """

    height: int
    width: int
    channels: int
    encoding: int


def found_image(data: bytes, rule: ImageRule) -> FoundImage:
    """Returns what an image is, once it has been decoded completely.

    Raises:
      ValueError: damaged, or other than `rule`; the text goes on after "its image".
    """
    if rule.encoding == "raw":
        return _raw(data, rule)
    kind = sniff(data[:SNIFF_BYTES])
    kinds = _KINDS[rule.encoding]
    if kind not in kinds:
        expected = " or ".join(name.upper() for name in kinds)
        found = kind.upper() if kind else f"bytes that begin with {data[:8].hex(' ')}"
        raise ValueError(f"is none: expected {expected}, found {found}")
    image = _jpeg(data) if kind == "jpeg" else _png(data)
    if image.channels not in (1, rule.channels):
        raise ValueError(f"has {image.channels} channels, expected {rule.channels}")
    if rule.size and (image.height, image.width) != rule.size:
        raise ValueError(
            f"has the size {(image.height, image.width)}, expected {rule.size} (height, width)"
        )
    return image


def _raw(data: bytes, rule: ImageRule) -> FoundImage:
    height, width = rule.size or (0, 0)  # a build record without a size is refused before
    if len(data) != height * width * rule.channels:
        raise ValueError(
            f"has {len(data):,} bytes of pixels, expected {height * width * rule.channels:,} "
            f"({height} x {width} x {rule.channels})"
        )
    return FoundImage(height, width, rule.channels, RAW)


def _jpeg(data: bytes) -> FoundImage:
    if fault := jpeg_fault(data):
        raise ValueError(f"does not decode completely: {fault}")
    height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
    return FoundImage(height, width, _JPEG_CHANNELS.get(colours, 3), JPEG)


def _png(data: bytes) -> FoundImage:
    try:
        image = check_png(data, _MAX_PIXELS)
    except EncodeError as error:
        # Its last sentence says what to do with a file of a source.
        text = str(error)
        raise ValueError(
            f"does not decode completely: {text.rpartition('. ')[0] or text}"
        ) from error
    depth, colour_type = png_kind(data)
    if depth != 8 or colour_type not in _PNG_CHANNELS:
        raise ValueError(
            f"is a PNG of {depth} bits and colour type {colour_type}, expected 8 bits and gray (0) "
            "or RGB (2)"
        )
    return FoundImage(image.height, image.width, _PNG_CHANNELS[colour_type], PNG)
