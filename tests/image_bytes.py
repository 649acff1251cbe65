"""JPEG, PNG and EXIF byte by byte, for tests of what reads them without Pillow."""

import struct
import zlib

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


def chunk(name, content):
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


def png(width, bits, colour_type, pixels, *chunks, behind=()):
    """Returns a PNG of `pixels`, bytes in row order.

    Args:
      width: in pixels.
      bits: of each channel.
      colour_type: 0 gray, 2 RGB, 3 palette, 4 gray + alpha, 6 RGBA.
      pixels: whole bytes a row.
      *chunks: (name, content) before the pixels.
      behind: the same after them.
    """
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour_type]
    stride = width * bits * channels // 8
    rows = [pixels[start : start + stride] for start in range(0, len(pixels), stride)]
    header = struct.pack(">IIBBBBB", width, len(rows), bits, colour_type, 0, 0, 0)
    parts = [
        (b"IHDR", header),
        *chunks,
        (b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))),
        *behind,
        (b"IEND", b""),
    ]
    return PNG_MAGIC + b"".join(chunk(*part) for part in parts)


def tiff(*entries, order="<", head=None, first=8, count=None, tail=b"\0" * 4):
    """Returns the TIFF inside an EXIF.

    Args:
      *entries: (tag, type, count, value): a value of four bytes, or the number of SHORT or LONG.
      order: of the bytes, "<" or ">".
      head: the four bytes in front; None: as `order` has them.
      first: where it says that the entries begin.
      count: of entries, as it says; None: the right one.
      tail: what follows them.
    """
    head = head or (b"II*\0" if order == "<" else b"MM\0*")
    count = len(entries) if count is None else count
    content = head + struct.pack(f"{order}IH", first, count)
    for tag, kind, number, value in entries:
        if not isinstance(value, bytes):
            value = struct.pack(f"{order}{'H' if kind == 3 else 'I'}", value).ljust(4, b"\0")
        content += struct.pack(f"{order}HHI", tag, kind, number) + value
    return content + tail


def with_segments(jpeg, *segments):
    """Returns a JPEG with segments (marker, content) put behind its first two bytes."""
    put = b"".join(
        bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content
        for marker, content in segments
    )
    return jpeg[:2] + put + jpeg[2:]
