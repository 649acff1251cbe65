"""Tells whether bytes are a complete image, and decodes them: every fault of a file is found here.

Gets the bytes of one file; gives what kind of image they are (`sniff`), what its header says
(`open_image`, `read_size`), its pixels (`load_image`), or `EncodeError`. `write/pixels.py` makes
those pixels alike, `write/encode.py` stores them. Nothing else opens a file with Pillow, so its
warnings and its many kinds of exception end here.
"""

import contextlib
import io
import re
import warnings
from collections.abc import Iterator
from typing import Any

import PIL
import simplejpeg
from PIL import Image, ImageFile

from tfrds.checks import MAX_SIDE
from tfrds.errors import EncodeError

SNIFF_BYTES = 32

_ADVICE = "Replace it or remove it."

# Pillow is only asked for formats found here: some of its others start programs (EPS) or have no
# mark by which a file could be known (TGA).
_MAGIC: tuple[tuple[str, re.Pattern[bytes]], ...] = tuple(
    (kind, re.compile(pattern, re.DOTALL))
    for kind, pattern in (
        ("jpeg", rb"\xff\xd8\xff"),
        ("png", rb"\x89PNG\r\n\x1a\n"),
        ("gif", rb"GIF8[79]a"),
        ("webp", rb"RIFF.{4}WEBP"),
        ("tiff", rb"II[*+]\x00|MM\x00[*+]"),
        # "BM" alone begins many a text: the header's size tells them apart.
        ("bmp", rb"BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\x00\x00\x00"),
        ("avif", rb".{4}ftyp(?:avi[fs]|(?:mif1|msf1).{4}.*avi[fs])"),
        ("heic", rb".{4}ftyp(?:he[iv][cxms]|mif1|msf1)"),
        ("jpeg2000", rb"\x00\x00\x00\x0cjP  \r\n\x87\n|\xff\x4f\xff\x51"),
        ("jpegxl", rb"\x00\x00\x00\x0cJXL \r\n\x87\n|\xff\x0a"),
        ("ppm", rb"P[1-6]\s+[0-9#]"),
        ("ico", rb"\x00\x00\x01\x00[^\x00]\x00.{3}\x00"),
        ("psd", rb"8BPS\x00\x01"),
        ("qoi", rb"qoif"),
    )
)

# Pillow's own names, where they are not the upper case of ours.
_PILLOW_NAMES = {"heic": "HEIF", "jpegxl": "JXL"}

# Files that are often found among images, by what they begin with.
_NO_IMAGES = (
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x93NUMPY", "a NumPy array"),
)

_ORIENTATION = 0x0112  # the EXIF tag

_IEND = bytes.fromhex("00000000 49454e44 ae426082")


def sniff(head: bytes) -> str | None:
    """Returns the image format by content, such as "jpeg" or "png", or None for anything else.

    Args:
      head: the first `SNIFF_BYTES` bytes of a file, or more. Its name decides nothing.
    """
    return next((kind for kind, pattern in _MAGIC if pattern.match(head)), None)


@contextlib.contextmanager
def pillow_errors(reason: str, detail: str | None = None) -> Iterator[None]:
    """Turns whatever Pillow raises inside the block into EncodeError, and silences its warnings.

    Pillow warns of broken EXIF and of large images, and raises almost anything (SyntaxError,
    KeyError, struct.error).

    Raises:
      EncodeError: with `reason` and `detail`, by default Pillow's text.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\b")
        try:
            yield
        except (EncodeError, MemoryError):
            raise
        except Image.DecompressionBombError as error:
            raise EncodeError(f"too large: {error} {_ADVICE}") from error
        except Exception as error:
            raise EncodeError(f"{reason}: {detail or _text(error)}. {_ADVICE}") from error


def open_image(data: bytes) -> ImageFile.ImageFile:
    """Returns the image with its header read and its pixels not.

    Raises:
      EncodeError: empty, not an image, of a format that Pillow cannot read, too large, or without
        a whole header.
    """
    if not data:
        raise EncodeError(f"empty file. {_ADVICE}")
    kind = sniff(data[:SNIFF_BYTES])
    if kind is None:
        raise EncodeError(f"not an image: {_describe(data[:SNIFF_BYTES])}. {_ADVICE}")
    name = _PILLOW_NAMES.get(kind, kind.upper())
    if not _has_format(name):
        raise EncodeError(
            f"{kind} images cannot be read by Pillow {PIL.__version__} as installed here. "
            "Convert it to JPEG or PNG."
        )
    with pillow_errors("cut off or damaged"):
        image = Image.open(io.BytesIO(data), formats=[name])
    check_size(image.height, image.width)
    return image


def read_size(data: bytes) -> tuple[int, int]:
    """Returns (height, width) in pixels of a file's upright image, from its header only.

    Raises:
      EncodeError: not an image, or without a whole header.
    """
    image = open_image(data)
    if read_orientation(image, data) >= 5:
        return image.width, image.height
    return image.height, image.width


def read_orientation(image: Image.Image, data: bytes) -> int:
    """Returns the EXIF orientation, 1..8; 1 where EXIF is missing, broken or says anything else.

    Args:
      image: as `open_image` gave it.
      data: the bytes it was opened from.
    """
    if image.format == "TIFF":
        return 1  # Pillow turns a TIFF upright by itself
    # For a PNG without EXIF in front, its getexif() decodes all pixels to look behind them.
    has_no_exif = image.format == "PNG" and b"eXIf" not in data
    try:
        with pillow_errors("broken EXIF"):
            exif = Image.Image.getexif(image) if has_no_exif else image.getexif()
            value: Any = exif.get(_ORIENTATION)
            return int(value) if value in range(1, 9) else 1
    except EncodeError:
        return 1


def load_image(data: bytes, fault: str | None = None) -> ImageFile.ImageFile:
    """Returns the first frame of an image, decoded and found complete, in Pillow's own mode.

    A JPEG is only checked as far as Pillow does, which is not far: see `jpeg_fault`.

    Args:
      data: the bytes of a file.
      fault: what `jpeg_fault` said; it stands in the message, as it says more than Pillow.

    Raises:
      EncodeError: as `open_image`, or cut off, or damaged.
    """
    kind = sniff(data[:SNIFF_BYTES])
    if ImageFile.LOAD_TRUNCATED_IMAGES and (fault or kind != "jpeg"):
        raise EncodeError(
            "cannot be checked: PIL.ImageFile.LOAD_TRUNCATED_IMAGES is True, so Pillow would make "
            "up missing pixels. Set it to False."
        )
    with pillow_errors("cut off or damaged", fault):
        if kind == "png":
            # load() alone accepts pixels whose checksum is wrong; verify() closes the image.
            open_image(data).verify()
        image = open_image(data)
        image.load()
    if kind == "png":
        # Neither verify() nor load() misses the last chunk, TensorFlow does. Bytes may follow it.
        if _IEND not in data:
            raise EncodeError(f"cut off or damaged: no IEND chunk at its end. {_ADVICE}")
        _mend_transparency(image, depth=png_kind(data)[0])
    return image


def png_kind(data: bytes) -> tuple[int, int]:
    """Returns (bits per channel, colour type) of an opened PNG: 0 gray, 2 RGB, 3 palette, +4 alpha.

    Source: PNG specification, section 11.2.1: the IHDR chunk, which is always the first.
    """
    return data[24], data[25]


def jpeg_fault(data: bytes) -> str | None:
    """Returns libjpeg's complaint about a JPEG, None where it is complete and without a flaw.

    Decodes in gray at 1/8 scale, which reads all compressed data at half the cost of a full decode.
    Of 3,800 damaged files it never accepted one that TensorFlow refuses; Pillow accepted 29. Files
    of four components (CMYK, YCCK) are checked the same way.
    """
    try:
        simplejpeg.decode_jpeg(
            data, colorspace="GRAY", min_height=1, min_width=1, min_factor=8, strict=True
        )
    except ValueError as error:
        text = str(error)
        # Said of any header that it cannot use: broken, or merely of unusual sampling factors.
        if "subsampling level" in text:
            return "unusual chroma subsampling or a damaged header"
        return text
    return None


def check_size(height: int, width: int) -> None:
    """Raises EncodeError unless both sides are from 1 to 65,535 pixels."""
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise EncodeError(
            f"size (height, width): expected sides from 1 to {MAX_SIDE:,} pixels, got "
            f"({height}, {width})."
        )


def _mend_transparency(image: ImageFile.ImageFile, depth: int) -> None:
    # A PNG may name one gray or colour as transparent (tRNS), in the file's own bit depth. Pillow
    # keeps that number but widens 2 and 4 bits to 8 and cuts colours of 16 bits to 8, so that it
    # would name the wrong pixels or none.
    transparent = image.info.get("transparency")
    if transparent is None:
        return
    if image.mode == "L" and depth in (2, 4):
        image.info["transparency"] = transparent * 255 // (2**depth - 1)
    if image.mode == "RGB" and depth == 16:
        raise EncodeError(
            f"16-bit RGB with the transparent colour {transparent}: Pillow reads 8 bits, which do "
            "not tell it from its neighbours. Convert it to RGBA."
        )


def _has_format(name: str) -> bool:
    # Importing all plug-ins takes 30 ms, so only for what the five common ones do not read.
    Image.preinit()
    if name not in Image.OPEN:
        Image.init()
    return name in Image.OPEN


def _text(error: Exception) -> str:
    if isinstance(error, PIL.UnidentifiedImageError):
        return "its header cannot be read"  # Pillow's own text holds a memory address
    return str(error).rstrip(".") or type(error).__name__


def _describe(head: bytes) -> str:
    for magic, what in _NO_IMAGES:
        if head.startswith(magic):
            return f"it looks like {what}"
    # A character of several bytes may be cut at the end.
    text = head.decode("utf-8", errors="ignore")
    is_text = len(text.encode()) >= len(head) - 3
    if is_text and all(character.isprintable() or character.isspace() for character in text):
        return f"it looks like text, {text!r}"
    return f"it begins with the bytes {head[:8].hex(' ')}"
