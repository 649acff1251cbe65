"""What the markers of a JPEG say that Pillow does not: how it is compressed, whether it ends.

Gets the bytes of a file whose header Pillow has read; `write/check.py` and `write/encode.py`, who
call this, decide by it whether and how the file is decoded.
"""

import dataclasses

_START_OF_SCAN = 0xDA
_END = b"\xff\xd9"
_LOSSLESS = (0xC3, 0xCB)  # starts of frames

# APP14 as Adobe writes it, but for its last byte: 0 says CMYK, 2 says YCCK.
_ADOBE = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00"
_YCCK = b"\x02"


@dataclasses.dataclass(frozen=True)
class JpegMarkers:
    """What is found by going from marker to marker.

    Attributes:
      is_lossless: compressed without DCT, as medical devices do. TensorFlow does not read that.
      has_end: whether an end marker follows the first scan; that of an embedded preview is none.
    """

    is_lossless: bool
    has_end: bool


def read_markers(data: bytes) -> JpegMarkers:
    """Returns what the markers up to the first scan say, without decoding anything.

    Source: ITU-T T.81, annex B.
    """
    place, is_lossless = 2, False
    while place + 4 <= len(data):
        marker = data[place + 1]
        if data[place] != 0xFF or marker == 0xFF:
            place += 1  # padding
        elif marker < 0xC0 or 0xD0 <= marker <= 0xD9:
            place += 2  # no length follows
        else:
            place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
            if marker == _START_OF_SCAN:
                return JpegMarkers(is_lossless, has_end=data.rfind(_END, place) >= 0)
            is_lossless |= marker in _LOSSLESS
    return JpegMarkers(is_lossless, has_end=False)


def as_ycck(data: bytes) -> bytes:
    """Returns a JPEG of four components with the marker of Adobe's that says YCCK."""
    return data[:2] + _ADOBE + _YCCK + data[2:]
