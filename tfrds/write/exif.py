"""Which way up EXIF says that an image is, read where it lies in a file.

Gets the window of a foreign file and where EXIF lies in it; `image_header.py` asks. Of whole images
in memory Pillow is asked, see `check.py`.
Source: TIFF 6.0, section 2: the header and the first directory.
"""

from typing import Literal

from tfrds.disk.window import Window

_ORIENTATION = b"\x01\x12"

_HEADER_BYTES, _ENTRY_BYTES = 8, 12

# A camera writes some twenty entries.
_MAX_ENTRIES = 500

# Both byte orders, and both with the magic number in the wrong one, which Pillow takes.
_HEADERS = (b"II*\0", b"MM\0*", b"MM*\0", b"II\0*")

# Bytes of a value of the types of whole numbers: SHORT, LONG, and those with a sign.
_SIZES = {3: 2, 4: 4, 6: 1, 8: 2, 9: 4}


def read_orientation(window: Window, start: int, end: int) -> int:
    """Returns the orientation, 1..8; 1, upright, where nothing or nonsense is said.

    Args:
      window: of the file.
      start: place of the TIFF header in it.
      end: place behind the last byte of EXIF.
    """
    if end - start < _HEADER_BYTES:
        return 1
    head = window.take(start, _HEADER_BYTES)
    order: Literal["little", "big"] = "big" if head[:1] == b"M" else "little"
    if head[:4] not in _HEADERS:
        return 1
    first = start + int.from_bytes(head[4:], order)
    room = (end - first - 2) // _ENTRY_BYTES
    if room < 1:
        return 1
    count = int.from_bytes(window.take(first, 2), order)
    entries = window.take(first + 2, min(count, room, _MAX_ENTRIES) * _ENTRY_BYTES)
    tag = _ORIENTATION if order == "big" else _ORIENTATION[::-1]
    for at in range(0, len(entries), _ENTRY_BYTES):
        if entries[at : at + 2] == tag:
            kind = int.from_bytes(entries[at + 2 : at + 4], order)
            value = entries[at + 8 : at + 8 + _SIZES.get(kind, 0)]
            found = int.from_bytes(value, order)
            return found if 1 <= found <= 8 else 1
    return 1
