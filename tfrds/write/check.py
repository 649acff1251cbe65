"""Tells whether bytes are a complete image, and decodes them: every fault of a file is found here.

Gets the bytes of one file; gives what its header says (`open_image`, `read_size`), its pixels
(`load_image`), or `EncodeError`. `write/pixels.py` makes those pixels alike, `write/encode.py`
stores them. Nothing else opens a file with Pillow, so its warnings and its many kinds of exception
end here.
"""

import contextlib
import importlib
import io
import struct
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import PIL
import simplejpeg
from PIL import Image, ImageChops, ImageFile

from tfrds.checks import MAX_SIDE
from tfrds.errors import EncodeError
from tfrds.write.jpeg import as_ycck, read_markers
from tfrds.write.png import IEND, chunk_fault, has_all_rows, header_fault
from tfrds.write.sniffing import SNIFF_BYTES, describe, sniff

_ADVICE = "Replace it or remove it."

# Pillow's own names, where they are not the upper case of ours.
_PILLOW_NAMES = {"heic": "HEIF", "jpegxl": "JXL"}

_ORIENTATION = 0x0112  # the EXIF tag
_UNDONE = {6: 8, 8: 6}  # the other orientations undo themselves

# Above this many pixels Pillow warns, and in some formats refuses: its default.
_PILLOWS_LIMIT = 89_478_485
_limit_lock = threading.Lock()


@contextlib.contextmanager
def pillow_errors(
    problem: str, detail: str | None = None, reason: str = "cannot be stored"
) -> Iterator[None]:
    """Turns whatever Pillow raises inside the block into EncodeError, and silences its warnings.

    Pillow warns of broken EXIF and of large images, and raises almost anything (SyntaxError,
    KeyError, struct.error).

    Raises:
      EncodeError: `problem` and `detail`, by default Pillow's text, for `reason`.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\b")
        try:
            yield
        except (EncodeError, MemoryError):
            raise
        except Image.DecompressionBombError as error:
            raise EncodeError(f"too large: {error} {_ADVICE}", "too large") from error
        except Exception as error:
            raise EncodeError(f"{problem}: {detail or _text(error)}. {_ADVICE}", reason) from error


def open_image(data: bytes, max_pixels: int | None = None) -> ImageFile.ImageFile:
    """Returns the image with its header read and its pixels not.

    Args:
      data: the bytes of a file.
      max_pixels: height times width at most; None: any, of what a build has let through before.

    Raises:
      EncodeError: empty, not an image, of a format that Pillow cannot read, too large, or without
        a whole header.
    """
    if not data:
        raise EncodeError(f"empty file. {_ADVICE}", "empty")
    kind = sniff(data[:SNIFF_BYTES])
    if kind is None:
        raise EncodeError(
            f"not an image: {describe(data[:SNIFF_BYTES])}. {_ADVICE}", "not an image"
        )
    name = _PILLOW_NAMES.get(kind, kind.upper())
    if not _has_format(name):
        advice = "Install pillow-heif, or convert" if kind == "heic" else "Convert"
        raise EncodeError(
            f"{kind} images cannot be read by Pillow {PIL.__version__} as installed here. "
            f"{advice} it to JPEG or PNG.",
            "unreadable format",
        )
    with pillow_errors("cut off or damaged", reason="cut off or damaged"):
        image = _open(data, name)
    if kind == "png":
        _raise_damaged(header_fault(data))
    check_size(image.height, image.width, max_pixels)
    return image


def read_size(
    data: bytes, *, exif_transpose: bool = True, max_pixels: int | None = None
) -> tuple[int, int]:
    """Returns (height, width) in pixels of a file's image as it is stored, from its header only.

    Args:
      data: the bytes of a file.
      exif_transpose: whether it is stored upright.
      max_pixels: as for `open_image`.

    Raises:
      EncodeError: not an image, too large, or without a whole header.
    """
    image = open_image(data, max_pixels)
    if read_orientation(image, data, exif_transpose) >= 5:
        return image.width, image.height
    return image.height, image.width


def read_orientation(image: Image.Image, data: bytes, exif_transpose: bool = True) -> int:
    """Returns the EXIF orientation, 1..8, by which the pixels that Pillow decodes must be turned.

    It is 1 where EXIF is missing, broken or says anything else.

    Args:
      image: as `open_image` gave it.
      data: the bytes it was opened from.
      exif_transpose: whether the image shall come out upright, or as the file has its pixels.
    """
    # Pillow turns a TIFF upright by itself, and nothing else.
    is_turned = image.format == "TIFF"
    if is_turned == exif_transpose:
        return 1
    # For a PNG without EXIF in front, its getexif() decodes all pixels to look behind them.
    has_no_exif = image.format == "PNG" and b"eXIf" not in data
    try:
        with pillow_errors("broken EXIF"):
            exif = Image.Image.getexif(image) if has_no_exif else image.getexif()
            value: Any = exif.get(_ORIENTATION)
            found = int(value) if value in range(1, 9) else 1
    except EncodeError:
        return 1
    return _UNDONE.get(found, found) if is_turned else found


def load_image(
    data: bytes,
    fault: str | None = None,
    *,
    is_checked: bool = True,
    max_pixels: int | None = None,
) -> Image.Image:
    """Returns the first frame of an image, decoded and found complete, in Pillow's own mode.

    A JPEG is only checked as far as Pillow does, which is not far: see `jpeg_fault`.

    Args:
      data: the bytes of a file.
      fault: what `jpeg_fault` said; it stands in the message, as it says more than Pillow.
      is_checked: False leaves out what Pillow does not need to decode a PNG: its checksums, its
        end, and chunks that it does not know.
      max_pixels: as for `open_image`.

    Raises:
      EncodeError: as `open_image`, or cut off, or damaged.
    """
    kind = sniff(data[:SNIFF_BYTES])
    if kind != "jpeg" or fault or not is_checked:
        _check_strictness()
    with pillow_errors("cut off or damaged", fault, "cut off or damaged"):
        if kind == "png" and is_checked:
            _check_chunks(data, max_pixels)
        image = _load(data, max_pixels)
        if kind == "png":
            _check_rows(image, image.height, data)
            _mend_transparency(image, depth=png_kind(data)[0])
    return image


def check_png(data: bytes, max_pixels: int | None = None) -> ImageFile.ImageFile:
    """Returns a PNG with its header read, once TensorFlow is known to decode all of it.

    Args:
      data: the bytes of a file.
      max_pixels: as for `open_image`.

    Raises:
      EncodeError: as `load_image`.
    """
    _check_strictness()
    with pillow_errors("cut off or damaged", reason="cut off or damaged"):
        _check_chunks(data, max_pixels)
        opened, image = (open_image(data, max_pixels) for _ in range(2))
        if not image.info.get("interlace"):
            # Behind the last row Pillow stops, and misses what libpng wants: the end of the stream
            # and its checksum. Asked for one row more it looks, and leaves that row empty.
            image._size = (image.width, image.height + 1)
            image.tile = [tile._replace(extents=(0, 0, *image.size)) for tile in image.tile]
        try:
            with _pillows_limit_lifted(image):
                image.load()
        except OSError:
            # A stream that goes on for less than a row is harmless.
            if not has_all_rows(data):
                raise
            _load(data, max_pixels)
        else:
            _check_rows(image, opened.height, data)
    return opened


def has_iend(data: bytes) -> bool:
    """Whether a PNG has its last chunk, which TensorFlow misses and Pillow does not.

    Bytes may follow it.
    """
    return data.rfind(IEND) >= 0


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
    # A lossless JPEG has no smaller scale: simplejpeg 1.9 writes beyond its memory when asked.
    is_lossless = read_markers(data).is_lossless
    scale = {} if is_lossless else {"min_height": 1, "min_width": 1, "min_factor": 8}
    try:
        simplejpeg.decode_jpeg(data, colorspace="GRAY", strict=True, **scale)
    except ValueError as error:
        text = str(error)
        # Said of any header that it cannot use: broken, or merely of unusual sampling factors.
        if "subsampling level" in text:
            return "unusual chroma subsampling or a damaged header"
        return text
    return None


def check_size(height: int, width: int, max_pixels: int | None = None) -> None:
    """Raises EncodeError unless both sides are from 1 to 65,535 pixels, and all not too many."""
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise EncodeError(
            f"size (height, width): expected sides from 1 to {MAX_SIDE:,} pixels, got "
            f"({height}, {width}).",
            "too large" if max(height, width) > MAX_SIDE else "wrong size",
        )
    if max_pixels is not None and height * width > max_pixels:
        raise EncodeError(
            f"too large: expected at most max_pixels={max_pixels} pixels, got {height * width:,}, "
            f"size (height, width) ({height}, {width}). Raise max_pixels if it is meant.",
            "too large",
        )


def _open(data: bytes, name: str) -> ImageFile.ImageFile:
    """Does what `Image.open` does, but for its limit of pixels, which is the caller's."""
    factory, accepts = Image.OPEN[name]
    try:
        if accepts and accepts(data[:16]) is not True:
            raise SyntaxError
        return factory(io.BytesIO(data), "")
    except (SyntaxError, IndexError, TypeError, struct.error) as error:
        raise PIL.UnidentifiedImageError from error


def _load(data: bytes, max_pixels: int | None) -> Image.Image:
    """Returns a decoded image; the caller turns Pillow's errors into ours."""
    image = open_image(data, max_pixels)
    is_unmarked = (image.format, image.mode) == ("JPEG", "CMYK") and "adobe" not in image.info
    if is_unmarked and _has_coarse_colours(image):
        # Nobody stores two inks coarser than the others: these are chroma, whose marker was lost.
        image, is_unmarked = open_image(as_ycck(data), max_pixels), False
    with _pillows_limit_lifted(image):
        image.load()
    check_size(image.height, image.width, max_pixels)  # an icon's header does not tell
    # Only Adobe stores 255 less ink. Pillow takes all for Adobe's, TensorFlow and libjpeg do not.
    return ImageChops.invert(image) if is_unmarked else image


def _has_coarse_colours(image: ImageFile.ImageFile) -> bool:
    # Of each component: its name, samples across and down, and table.
    first, second, third, _ = (layer[1:3] for layer in getattr(image, "layer", ()))
    return bool(second == third != first)


@contextlib.contextmanager
def _pillows_limit_lifted(image: Image.Image) -> Iterator[None]:
    """Lets Pillow decode an image above its own limit, as `max_pixels` has been looked at.

    Pillow has one limit for the whole process, and it is the caller's: few images come to touch it,
    one at a time, and it is put back.
    """
    limit = Image.MAX_IMAGE_PIXELS
    if image.height * image.width <= (_PILLOWS_LIMIT if limit is None else limit):
        yield
        return
    with _limit_lock:
        limit = Image.MAX_IMAGE_PIXELS
        Image.MAX_IMAGE_PIXELS = None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _check_strictness() -> None:
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise EncodeError(
            "cannot be checked: PIL.ImageFile.LOAD_TRUNCATED_IMAGES is True, so Pillow would make "
            "up missing pixels. Set it to False.",
            "not checked",
        )


def _raise_damaged(fault: str | None) -> None:
    if fault:
        raise EncodeError(f"cut off or damaged: {fault}. {_ADVICE}", "cut off or damaged")


def _check_chunks(data: bytes, max_pixels: int | None) -> None:
    # Decoding alone accepts pixels whose checksum is wrong; verify() closes the image.
    open_image(data, max_pixels).verify()
    _raise_damaged(chunk_fault(data))


def _check_rows(image: Image.Image, height: int, data: bytes) -> None:
    """Raises EncodeError where a PNG holds less rows than its header says: Pillow makes up black.

    Few images end with a black row, so that hardly any is decompressed once more.
    """
    last = image.crop((0, height - 1, image.width, height))
    is_interlaced = data[28] == 1
    if (is_interlaced or not any(last.tobytes())) and not has_all_rows(data):
        _raise_damaged("its pixels end before its last row")


def _mend_transparency(image: Image.Image, depth: int) -> None:
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
            "not tell it from its neighbours. Convert it to RGBA.",
            "unsupported mode",
        )


def _has_format(name: str) -> bool:
    # Importing all plug-ins takes 30 ms, so only for what the five common ones do not read.
    Image.preinit()
    if name not in Image.OPEN:
        Image.init()
    if name == "HEIF" and name not in Image.OPEN:
        # Asked for here, as worker processes know nothing of what the caller has registered.
        with contextlib.suppress(ImportError):
            importlib.import_module("pillow_heif").register_heif_opener()
    return name in Image.OPEN


def _text(error: Exception) -> str:
    if isinstance(error, PIL.UnidentifiedImageError):
        return "its header cannot be read"  # Pillow's own text holds a memory address
    return str(error).rstrip(".") or type(error).__name__
