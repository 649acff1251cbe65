"""Turns one image into the bytes that are stored: checked, normalised, encoded.

Gets the bytes of a file or an array, and the dataset's `ImageSpec`; gives `EncodedImage`, which
`write/shards.py` puts into a record. Reading knows only raw pixels, JPEG and 8-bit PNG, so a file
passes unchanged where it is one of these and TensorFlow decodes it to the very pixels that
`write/pixels.py` gives, as it does with `decode_jpeg(dct_method="INTEGER_ACCURATE")`.
"""

import dataclasses
import io
from typing import Any

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image, features

from tfrds.disk.index import JPEG, PNG, RAW
from tfrds.errors import EncodeError
from tfrds.geometry import shrink_size
from tfrds.spec import ImageSpec
from tfrds.write.check import (
    check_png,
    check_size,
    has_iend,
    jpeg_fault,
    load_image,
    open_image,
    pillow_errors,
    png_kind,
    read_orientation,
)
from tfrds.write.jpeg import JpegMarkers, read_markers
from tfrds.write.pixels import (
    array_image,
    normalise,
    resize_array,
    resize_image,
)
from tfrds.write.sniffing import SNIFF_BYTES, sniff

# TensorFlow's decoders refuse more, whatever the channels. (Raw pixels have no such limit.)
_MAX_DECODED_PIXELS = 2**29 - 1


@dataclasses.dataclass(frozen=True)
class EncodedImage:
    """One image as it is stored.

    Attributes:
      data: uint8 [height, width, channels] for RAW, else a JPEG or PNG file.
      height: of the stored pixels.
      width: of the stored pixels.
      channels: of the stored pixels: 1 for a gray file that passed unchanged, also where the
        dataset has 3.
      encoding: RAW, JPEG or PNG.
      repaired: libjpeg's complaint about a JPEG of which the pixels that Pillow decodes are stored
        instead; else None.
      reencoded: whether `data` depends on the version of our JPEG or PNG encoder.
    """

    data: bytes
    height: int
    width: int
    channels: int
    encoding: int
    repaired: str | None
    reencoded: bool


def encode_image(image: bytes | NDArray[Any], spec: ImageSpec) -> EncodedImage:
    """Returns what is stored of one image.

    Args:
      image: the bytes of a file, or an array: uint8 [height, width] or [height, width, channels].
      spec: of the dataset. Its channels are 1 or 3; any number for raw arrays that have it.

    Raises:
      EncodeError: cannot be stored as asked. The message gives the reason; the caller, who knows
        the file's name, adds it.
    """
    if isinstance(image, np.ndarray):
        return _encode_array(image, spec)
    if isinstance(image, bytes):
        return _encode_file(image, spec)
    raise EncodeError(
        f"expected the bytes of a file or a NumPy array, got {type(image).__name__}.",
        "not an image",
    )


def encoder_versions() -> dict[str, str]:
    """Returns the versions that decide the bytes of re-encoded images, by library.

    The pixels of a JPEG hang on libjpeg-turbo; those of a PNG do not, but its bytes hang on zlib or
    zlib-ng, whichever Pillow was built with.
    """
    versions = {name: features.version(name) for name in ("libjpeg_turbo", "zlib", "zlib_ng")}
    found = {name: version for name, version in versions.items() if version}
    return {"pillow": PIL.__version__, **found}


def _encode_file(data: bytes, spec: ImageSpec) -> EncodedImage:
    _check_channels(spec.channels, "images from files")
    opened = open_image(data, spec.max_pixels)
    kind = sniff(data[:SNIFF_BYTES])
    orientation = read_orientation(opened, data, spec.exif_transpose)
    markers = read_markers(data) if kind == "jpeg" else None
    is_checked = spec.check == "decode" or (spec.check == "header" and not _has_end(data, markers))
    fault = jpeg_fault(data) if markers and is_checked else None
    is_kept = (
        spec.encoding == "original"
        and orientation == 1
        and _has_mode(opened, spec.channels)
        and _is_readable(opened, data, markers)
        and fault is None
    )
    if is_kept:
        if is_checked and not markers:
            check_png(data, spec.max_pixels)
        return _pass_through(data, opened, JPEG if markers else PNG)
    decoded = load_image(data, fault, is_checked=is_checked, max_pixels=spec.max_pixels)
    pixels = normalise(decoded, spec.channels, spec.background, orientation)
    return _store(pixels, spec, repaired=fault)


def _has_end(data: bytes, markers: JpegMarkers | None) -> bool:
    # Other formats than these two are never stored as they are, and decoding finds them cut off.
    return markers.has_end if markers else has_iend(data)


def _has_mode(image: Image.Image, channels: int) -> bool:
    # TensorFlow makes three channels of gray as Pillow does, but gray of three with other rounding.
    return image.mode == "L" or (image.mode == "RGB" and channels == 3)


def _is_readable(image: Image.Image, data: bytes, markers: JpegMarkers | None) -> bool:
    """Whether it is a JPEG or PNG that TensorFlow decodes to the pixels that Pillow makes of it."""
    if markers:
        return not markers.is_lossless
    is_plain = image.format == "PNG" and png_kind(data) in ((8, 0), (8, 2))
    return is_plain and "transparency" not in image.info


def _pass_through(data: bytes, opened: Image.Image, encoding: int) -> EncodedImage:
    _check_can_be_decoded(opened)
    return EncodedImage(
        data,
        opened.height,
        opened.width,
        channels=len(opened.getbands()),
        encoding=encoding,
        repaired=None,
        reencoded=False,
    )


def _encode_array(array: NDArray[Any], spec: ImageSpec) -> EncodedImage:
    if array.dtype != np.uint8 or array.ndim not in (2, 3):
        raise EncodeError(
            "expected an array of uint8 [height, width] or [height, width, channels], got "
            f"{array.dtype} {list(array.shape)}. Scale it to 0..255 and convert it to uint8.",
            "wrong array",
        )
    height, width = array.shape[:2]
    check_size(height, width)
    channels = 1 if array.ndim == 2 else array.shape[2]
    if spec.encoding == "raw" and channels == spec.channels:
        size = spec.image_size or (height, width)
        if size == (height, width):
            return _raw(array.tobytes(), height, width, spec)
        if channels not in (1, 3):
            array = resize_array(array, size, spec.resize, spec.background)
            return _raw(array.tobytes(), size[0], size[1], spec)
    _check_channels(spec.channels, f"an array of {channels} channels")
    if not 1 <= channels <= 4:
        raise EncodeError(
            f"expected an array of {spec.channels} channels, or of 1 to 4 to convert, got "
            f"{channels}.",
            "wrong array",
        )
    return _store(normalise(array_image(array), spec.channels, spec.background), spec)


def _store(image: Image.Image, spec: ImageSpec, repaired: str | None = None) -> EncodedImage:
    if spec.encoding == "raw":
        if spec.image_size is not None:
            image = resize_image(image, spec.image_size, spec.resize, spec.background)
        return _raw(image.tobytes(), image.height, image.width, spec, repaired)
    if spec.encoding == "jpeg" and spec.store_size is not None:
        image = resize_image(image, shrink_size(image.height, image.width, spec.store_size))
    _check_can_be_decoded(image)
    file = io.BytesIO()
    if spec.encoding == "jpeg":
        with pillow_errors("cannot be stored as JPEG"):
            image.save(file, "JPEG", quality=spec.jpeg_quality)
    else:
        with pillow_errors("cannot be stored as PNG"):
            image.save(file, "PNG")
    return EncodedImage(
        file.getvalue(),
        image.height,
        image.width,
        channels=spec.channels,
        encoding=JPEG if spec.encoding == "jpeg" else PNG,
        repaired=repaired,
        reencoded=True,
    )


def _raw(
    pixels: bytes, height: int, width: int, spec: ImageSpec, repaired: str | None = None
) -> EncodedImage:
    if spec.shape_from is not None and (height, width) != spec.shape_from:
        raise EncodeError(
            f"size (height, width): raw images need one, expected {spec.shape_from}, got "
            f'{(height, width)}. Pass image_size={spec.shape_from}, or encoding="original".',
            "wrong size",
        )
    return EncodedImage(pixels, height, width, spec.channels, RAW, repaired, reencoded=False)


def _check_channels(channels: int, what: str) -> None:
    if channels not in (1, 3):
        raise EncodeError(
            f"channels: {what} can be stored with 1 or 3 channels, got channels={channels}.",
            "wrong array",
        )


def _check_can_be_decoded(image: Image.Image) -> None:
    if image.height * image.width > _MAX_DECODED_PIXELS:
        raise EncodeError(
            f"too large: TensorFlow decodes JPEG and PNG of at most {_MAX_DECODED_PIXELS:,} "
            f"pixels, got {image.height * image.width:,}, size (height, width) "
            f'({image.height}, {image.width}). Pass store_size with encoding="jpeg", or image_size '
            'with encoding="raw".',
            "too large",
        )
