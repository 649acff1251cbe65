"""Makes the files beside it: `python dummy_data/make.py`. README.md says what each one shows.

Deterministic: the same bytes with the same versions of Pillow and its libraries. The files in the
repository were made with Pillow 13.0.0; tests read those, and do not run this script.
"""

import io
import pathlib
import struct
import zlib

import numpy as np
from numpy.typing import NDArray
from PIL import Image

HERE = pathlib.Path(__file__).parent
HEIGHT, WIDTH = 24, 40

ORIENTATION = 0x0112  # the EXIF tag


def picture() -> NDArray[np.uint8]:
    """Returns uint8 [24, 40, 3]: smooth, but with a dark corner top left, so that turning shows."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    array = np.stack([60 + 4 * x, 220 - 6 * y, 80 + 2 * x + 3 * y], axis=-1).astype(np.uint8)
    array[:8, :8] = (200, 20, 20)
    return array


def encode(image: Image.Image, pillow_format: str, **options: object) -> bytes:
    """Returns the bytes of an image file."""
    file = io.BytesIO()
    image.save(file, pillow_format, **options)
    return file.getvalue()


def exif(orientation: int) -> bytes:
    """Returns the EXIF bytes that Pillow writes for an orientation."""
    tags = Image.Exif()
    tags[ORIENTATION] = orientation
    return tags.tobytes()


def chunk(kind: bytes, data: bytes) -> bytes:
    """Returns a PNG chunk: length, kind, data, checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, depth: int, color_type: int, rows: list[bytes], extra: bytes = b"") -> bytes:
    """Returns a PNG written by hand, for what Pillow does not write; `extra` are chunks."""
    header = struct.pack(">IIBBBBB", width, len(rows), depth, color_type, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    body = chunk(b"IHDR", header) + extra + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def jpegs() -> dict[str, bytes]:
    """Returns the JPEG files by name."""
    rgb = Image.fromarray(picture())
    gray = rgb.convert("L")
    plain = encode(rgb, "JPEG")
    cmyk = encode(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=100)
    # Adobe stores 255 - CMYK, red is (255, 0, 0, 255), and of its first three as if 255 - RGB the
    # Y, Cb, Cr: those of cyan, (179, 171, 1). Pillow stores 255 minus each value and calls it CMYK;
    # the byte after "Adobe", version and flags makes it YCCK.
    adobe = b"Adobe\0\x64\0\0\0\0"
    ycck = encode(
        Image.new("CMYK", (16, 16), (255 - 179, 255 - 171, 255 - 1, 0)), "JPEG", quality=100
    )
    at = ycck.index(adobe) + len(adobe)
    files = {
        "plain.jpg": plain,
        "gray.jpg": encode(gray, "JPEG"),
        "progressive.jpg": encode(rgb, "JPEG", progressive=True),
        "cmyk.jpg": cmyk,
        "ycck.jpg": ycck[:at] + b"\x02" + ycck[at + 1 :],
        "exif_rotated.jpg": encode(rgb, "JPEG", exif=exif(6)),
        "exif_broken.jpg": encode(rgb, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x09broken"),
        "truncated.jpg": plain[: len(plain) * 9 // 10],
        "cut_header.jpg": plain[:100],
        "no_eoi.jpg": plain[:-2],
        "trailing_garbage.jpg": plain + b"garbage after the image",
        "extraneous_bytes.jpg": plain[:-2] + b"\x12\x34\x56\x78" + plain[-2:],
    }
    # 1 to 8 are all that EXIF defines; 9 is not.
    for orientation in range(1, 10):
        files[f"exif_orientation_{orientation}.jpg"] = encode(rgb, "JPEG", exif=exif(orientation))
    return files


def pngs() -> dict[str, bytes]:
    """Returns the PNG files by name."""
    rgb = Image.fromarray(picture())
    gray = rgb.convert("L")
    alpha = Image.fromarray(np.tile(np.arange(WIDTH, dtype=np.uint8) * 6, (HEIGHT, 1)))
    rgba, gray_alpha = rgb.copy(), gray.copy()
    rgba.putalpha(alpha)
    gray_alpha.putalpha(alpha)
    palette = rgb.quantize(16)
    plain = encode(rgb, "PNG")
    at = plain.index(b"IDAT")
    # 0x00ff, 0x20ff, ... 0xe0ff: the top 8 bits are not what rounding would give.
    wide = (np.arange(8) * 0x2000 + 0xFF).astype(">u2")
    return {
        "plain.png": plain,
        "gray.png": encode(gray, "PNG"),
        "rgba.png": encode(rgba, "PNG"),
        "gray_alpha.png": encode(gray_alpha, "PNG"),
        "palette.png": encode(palette, "PNG"),
        "palette_transparent.png": encode(palette, "PNG", transparency=0),
        "rgb_trns.png": encode(rgb, "PNG", transparency=(200, 20, 20)),
        "gray_trns.png": encode(gray, "PNG", transparency=gray.getpixel((0, 0))),
        "gray2_trns.png": png(4, 2, 0, [b"\x1b", b"\x1b"], chunk(b"tRNS", b"\0\1")),
        "gray16.png": png(8, 16, 0, [wide.tobytes()] * 2),
        "gray16_trns.png": png(8, 16, 0, [wide.tobytes()] * 2, chunk(b"tRNS", wide[1:2].tobytes())),
        "rgb48.png": png(8, 16, 2, [np.repeat(wide, 3).tobytes()] * 2),
        "rgb48_trns.png": png(
            8, 16, 2, [np.repeat(wide, 3).tobytes()] * 2, chunk(b"tRNS", wide[[1, 1, 1]].tobytes())
        ),
        "one_bit.png": encode(gray.convert("1"), "PNG"),
        "exif_rotated.png": encode(rgb, "PNG", exif=exif(6)),
        "animated.png": encode(
            rgb, "PNG", save_all=True, append_images=[Image.new("RGB", rgb.size)]
        ),
        "truncated.png": plain[: len(plain) * 9 // 10],
        "bad_crc.png": plain[: at - 4 + 8 + 20] + b"\xff" + plain[at - 4 + 8 + 21 :],
        "no_iend.png": plain[:-12],
        "cut_iend.png": plain[:-2],
        "trailing_garbage.png": plain + b"garbage after the image",
    }


def others() -> dict[str, bytes]:
    """Returns the files of other formats, and those that are no images, by name."""
    rgb = Image.fromarray(picture())
    black = Image.new("RGB", rgb.size)
    return {
        "animated.gif": encode(rgb, "GIF", save_all=True, append_images=[black]),
        "webp.webp": encode(rgb, "WEBP", lossless=True),
        "bmp.bmp": encode(rgb, "BMP"),
        "tiff.tif": encode(rgb, "TIFF", compression="tiff_lzw"),
        "exif_rotated.tif": encode(rgb, "TIFF", compression="tiff_lzw", exif=exif(6)),
        "float.tif": encode(rgb.convert("F").crop((0, 0, 4, 4)), "TIFF"),
        "truncated.gif": encode(rgb, "GIF")[:-200],
        "heic.heic": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(16),
        "text.jpg": b"This is a text, whatever its name says.\n",
        "empty.jpg": b"",
    }


def main() -> None:
    """Writes all files."""
    for name, data in (jpegs() | pngs() | others()).items():
        (HERE / name).write_bytes(data)


if __name__ == "__main__":
    main()
