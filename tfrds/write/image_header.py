"""What the header of a JPEG or PNG says, read where it lies in a file: a few bytes of an image.

Gets the window of a foreign TFRecord file and where an image lies in it; `adopt_scan.py` asks
whether TensorFlow decodes that image as it is, and to which size.
"""

import dataclasses
from collections.abc import Iterator

from tfrds.checks import MAX_SIDE
from tfrds.disk.index import JPEG, PNG
from tfrds.disk.window import Window
from tfrds.write.exif import read_orientation
from tfrds.write.png import header_fault
from tfrds.write.sniffing import SNIFF_BYTES, describe, sniff

# TensorFlow's decoders refuse more.
_MAX_DECODED_PIXELS = 2**29 - 1

# An image has some ten segments or chunks before its pixels; hostile bytes may have more.
_MAX_PARTS = 100_000

_BASELINE, _EXTENDED, _PROGRESSIVE = 0xC0, 0xC1, 0xC2
_START_OF_SCAN = 0xDA
_APP1, _EXIF = 0xE1, b"Exif\0\0"
# Starts of frames: lossless, arithmetic, hierarchical.
_OTHER_FRAMES = frozenset(range(0xC3, 0xD0)) - {0xC4, 0xC8, 0xCC}

_PNG_HEAD_BYTES = 33
_PNG_CHANNELS = {0: 1, 2: 3}  # of the colour types that are stored as they are


@dataclasses.dataclass(frozen=True)
class ImageHeader:
    """What is known of an image without its pixels.

    Attributes:
      encoding: JPEG or PNG.
      height: in pixels.
      width: in pixels.
      channels: 1 or 3.
      orientation: by its EXIF, 1..8; 1: upright, or nothing is said in front of the pixels.
    """

    encoding: int
    height: int
    width: int
    channels: int
    orientation: int = 1


def read_header(window: Window, start: int, end: int) -> ImageHeader:
    """Returns what the header of an image says that TensorFlow decodes as it is.

    Nothing behind the header is looked at: an image that is cut off passes.

    Args:
      window: of the file.
      start: place of the image's first byte.
      end: place behind its last.

    Raises:
      ValueError: any other image, or none; the text says what.
    """
    head = window.take(start, min(SNIFF_BYTES, end - start))
    kind = sniff(head)
    if kind == "jpeg":
        header = _read_jpeg(window, start, end)
    elif kind == "png":
        header = _read_png(window, start, end)
    elif kind:
        raise ValueError(f"expected a JPEG or PNG, got {kind}")
    else:
        raise ValueError(f"expected an image, got none: {describe(head)}")
    height, width = header.height, header.width
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise ValueError(f"expected sides from 1 to {MAX_SIDE:,} pixels, got {height}x{width}")
    if height * width > _MAX_DECODED_PIXELS:
        raise ValueError(f"expected at most {_MAX_DECODED_PIXELS:,} pixels, got {height * width:,}")
    return header


def _read_jpeg(window: Window, start: int, end: int) -> ImageHeader:
    orientation: int | None = None
    for marker, place, behind in _markers(window, start, end):
        if marker == _APP1 and orientation is None:
            orientation = _jpeg_orientation(window, place, min(behind, end))
        elif marker in (_BASELINE, _EXTENDED, _PROGRESSIVE):
            # Length, bits a sample, height, width, number of components.
            frame = _take(window, place + 2, 8, end)
            height, width = (int.from_bytes(frame[at : at + 2], "big") for at in (3, 5))
            if frame[2] != 8:
                raise ValueError(f"expected a JPEG of 8 bits, got {frame[2]}")
            if frame[7] not in (1, 3):
                raise ValueError(f"expected a JPEG of 1 or 3 channels, got {frame[7]}")
            return ImageHeader(JPEG, height, width, frame[7], orientation or 1)
        elif marker in _OTHER_FRAMES:
            raise ValueError(f"expected a baseline or progressive JPEG, got marker {marker:#x}")
        elif marker == _START_OF_SCAN:
            break
    raise ValueError("expected a JPEG with a size, found none before its pixels")


def _jpeg_orientation(window: Window, place: int, end: int) -> int | None:
    """Returns the orientation that an APP1 segment says; None: it holds no EXIF."""
    start = place + 4 + len(_EXIF)  # marker and length
    if start > end or window.take(place + 4, len(_EXIF)) != _EXIF:
        return None
    return read_orientation(window, start, end)


def _markers(window: Window, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yields (marker, its place, the place behind) of each segment of a JPEG.

    Source: ITU-T T.81, annex B.
    """
    place = start + 2
    for _ in range(_MAX_PARTS):
        at = window.hold(place, _available(place, 4, end))
        first, marker, high, low = window.data[at : at + 4]
        if first != 0xFF or marker == 0xFF:
            place += 1  # padding
            continue
        # After 2 bytes, where no length follows.
        has_length = marker >= 0xC0 and not 0xD0 <= marker <= 0xD9
        behind = place + 2 + ((high << 8 | low) if has_length else 0)
        yield marker, place, behind
        place = behind


def _read_png(window: Window, start: int, end: int) -> ImageHeader:
    head = _take(window, start, _PNG_HEAD_BYTES, end)
    fault = header_fault(head)
    if fault:
        raise ValueError(f"expected a PNG: {fault}")
    height, width = (int.from_bytes(head[at : at + 4], "big") for at in (20, 16))
    bits, colour_type = head[24], head[25]
    if bits != 8 or colour_type not in _PNG_CHANNELS:
        raise ValueError(
            "expected a PNG of 8 bits, gray or RGB (colour type 0 or 2), got "
            f"{bits} bits of colour type {colour_type}"
        )
    place, orientation = start + _PNG_HEAD_BYTES, 1
    for _ in range(_MAX_PARTS):
        chunk = _take(window, place, 8, end)
        length = int.from_bytes(chunk[:4], "big")
        if chunk[4:] == b"tRNS":
            raise ValueError("expected a PNG without transparency, got one with a tRNS chunk")
        if chunk[4:] == b"IDAT":
            return ImageHeader(PNG, height, width, _PNG_CHANNELS[colour_type], orientation)
        if chunk[4:] == b"eXIf":
            orientation = read_orientation(window, place + 8, min(place + 8 + length, end))
        place += 12 + length
    raise ValueError("expected a PNG with pixels, found none behind its header")


def _take(window: Window, start: int, count: int, end: int) -> bytes:
    return window.take(start, _available(start, count, end))


def _available(start: int, count: int, end: int) -> int:
    """Returns `count`, where the image has so many bytes."""
    if start + count > end:
        raise ValueError(f"cut off: expected {count} bytes of its header, found {end - start}")
    return count
