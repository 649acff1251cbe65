"""Tells by their first bytes what files hold, whatever their names say.

`write/sources/folder.py` chooses the images of a folder by it, `write/check.py` how to open them.
"""

import re

SNIFF_BYTES = 32

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

# Files that are often found among images, by what they begin with.
_NO_IMAGES = (
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x93NUMPY", "a NumPy array"),
)


def sniff(head: bytes) -> str | None:
    """Returns the image format by content, such as "jpeg" or "png", or None for anything else.

    Args:
      head: the first `SNIFF_BYTES` bytes of a file, or more. Its name decides nothing.
    """
    return next((kind for kind, pattern in _MAGIC if pattern.match(head)), None)


def describe(head: bytes) -> str:
    """Returns what bytes seem to be that are no image, to go on after "not an image: "."""
    for magic, what in _NO_IMAGES:
        if head.startswith(magic):
            return f"it looks like {what}"
    # A character of several bytes may be cut at the end.
    text = head.decode("utf-8", errors="ignore")
    is_text = len(text.encode()) >= len(head) - 3
    if is_text and all(character.isprintable() or character.isspace() for character in text):
        return f"it looks like text, {text!r}"
    return f"it begins with the bytes {head[:8].hex(' ')}"
