"""Makes the files beside it: `python dummy_data/make.py`. README.md says what each one shows.

Deterministic: the same bytes with the same versions of Pillow and its libraries. The files in the
repository were made with Pillow 13.0.0; tests read those, and do not run this script. heic.heic is
only made where pillow-heif is installed (1.8.1 made the one here).
"""

import importlib.util
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


def fields() -> NDArray[np.uint8]:
    """Returns uint8 [32, 48, 3]: red, green, blue and near white, which lossy encoders keep."""
    array = np.empty((32, 48, 3), np.uint8)
    array[:16, :24], array[:16, 24:] = (200, 20, 20), (20, 160, 40)
    array[16:, :24], array[16:, 24:] = (30, 60, 220), (240, 240, 240)
    return array


def noise() -> Image.Image:
    """Returns 24 x 24 pixels that no format compresses, so that a cut goes through pixels."""
    values = np.random.default_rng(0).integers(0, 256, (24, 24, 3), np.uint8)
    return Image.fromarray(values)


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


def tiff(pixels: NDArray[np.uint16]) -> bytes:
    """Returns a TIFF of 16 bits, big-endian, of uint16 [height, width, 3]."""
    height, width, channels = pixels.shape
    strip = pixels.astype(">u2").tobytes()
    # After the header of 8 bytes: the pixels, the bits of each channel, the directory.
    bits_at = 8 + len(strip)
    entries = [
        (256, 3, 1, width << 16),
        (257, 3, 1, height << 16),
        (258, 3, channels, bits_at),
        (259, 3, 1, 1 << 16),  # not compressed
        (262, 3, 1, 2 << 16),  # RGB
        (273, 4, 1, 8),
        (277, 3, 1, channels << 16),
        (278, 3, 1, height << 16),
        (279, 4, 1, len(strip)),
    ]
    directory = struct.pack(">H", len(entries))
    directory += b"".join(struct.pack(">HHII", *entry) for entry in entries) + bytes(4)
    head = b"MM\0*" + struct.pack(">I", bits_at + 2 * channels)
    return head + strip + struct.pack(f">{channels}H", *[16] * channels) + directory


def segment(marker: int, content: bytes) -> bytes:
    """Returns a segment of a JPEG: marker, length, content."""
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


def without_adobe(jpeg: bytes) -> bytes:
    """Returns a JPEG without its segment APP14."""
    at = jpeg.index(b"\xff\xee\0\x0eAdobe")
    return jpeg[:at] + jpeg[at + 16 :]


def lossless_jpeg(pixels: NDArray[np.uint8]) -> bytes:
    """Returns a gray JPEG without DCT, as medical devices write it (ITU-T T.81, annex H)."""
    values = pixels.astype(int)
    left = np.pad(values, ((0, 0), (1, 0)))[:, :-1]  # predictor 1: the pixel to the left ...
    left[1:, 0], left[0, 0] = values[:-1, 0], 128  # ... in the first column the one above
    bits = ""
    for difference in (values - left).flat:
        size = int(abs(difference)).bit_length()
        value = difference if difference > 0 else difference + 2**size - 1
        bits += f"{size:04b}" + (f"{value:0{size}b}" if size else "")
    bits += "1" * (-len(bits) % 8)
    scan = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    # Nine codes of four bits: the sizes from 0 to 8.
    table = bytes([0, 0, 0, 0, 9, *[0] * 12, *range(9)])
    frame = struct.pack(">BHHB", 8, *pixels.shape, 1) + bytes([1, 0x11, 0])
    head = segment(0xC3, frame) + segment(0xC4, table) + segment(0xDA, bytes([1, 1, 0, 1, 0, 0]))
    return b"\xff\xd8" + head + scan + b"\xff\xd9"


def jpegs() -> dict[str, bytes]:
    """Returns the JPEG files by name."""
    rgb = Image.fromarray(picture())
    gray = rgb.convert("L")
    plain, grainy = encode(rgb, "JPEG"), encode(noise(), "JPEG", quality=95)
    cmyk = encode(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=100)
    # Adobe stores 255 - CMYK, red is (255, 0, 0, 255), and of its first three as if 255 - RGB the
    # Y, Cb, Cr: those of cyan, (179, 171, 1). Pillow stores 255 minus each value and calls it CMYK;
    # the byte after "Adobe", version and flags makes it YCCK.
    adobe = b"Adobe\0\x64\0\0\0\0"
    ycck = encode(
        Image.new("CMYK", (16, 16), (255 - 179, 255 - 171, 255 - 1, 0)), "JPEG", quality=100
    )
    at = ycck.index(adobe) + len(adobe)
    # Without the marker the values are ink itself; only coarser chroma tells YCCK from CMYK.
    straight = encode(Image.new("CMYK", (16, 16), (255, 0, 0, 255)), "JPEG", quality=100)
    coarse = encode(
        Image.new("CMYK", (16, 16), (255 - 179, 255 - 171, 255 - 1, 0)),
        "JPEG",
        quality=100,
        subsampling="4:2:0",
    )
    frame = plain.index(b"\xff\xc0") + 5  # of its height
    scan = plain.index(b"\xff\xda") + 62
    files = {
        "plain.jpg": plain,
        "gray.jpg": encode(gray, "JPEG"),
        "progressive.jpg": encode(rgb, "JPEG", progressive=True),
        "cmyk.jpg": cmyk,
        "ycck.jpg": ycck[:at] + b"\x02" + ycck[at + 1 :],
        "cmyk_no_adobe.jpg": without_adobe(straight),
        "ycck_no_adobe.jpg": without_adobe(coarse),
        "lossless.jpg": lossless_jpeg(np.asarray(gray)),
        "exif_rotated.jpg": encode(rgb, "JPEG", exif=exif(6)),
        "exif_broken.jpg": encode(rgb, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x09broken"),
        "truncated.jpg": plain[: len(plain) * 9 // 10],
        "cut_60.jpg": grainy[: len(grainy) * 6 // 10],
        "cut_99.jpg": grainy[: len(grainy) * 99 // 100],
        "corrupt_scan.jpg": plain[:scan] + b"\xff\xe3" + plain[scan + 2 :],
        "bomb.jpg": plain[:frame] + struct.pack(">HH", 50_000, 50_000) + plain[frame + 4 :],
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
    plain, grainy = encode(rgb, "PNG"), encode(noise(), "PNG")
    at = plain.index(b"IDAT")
    bomb = png(50_000, 8, 2, [bytes(30)] * 10).replace(
        chunk(b"IHDR", struct.pack(">IIBBBBB", 50_000, 10, 8, 2, 0, 0, 0)),
        chunk(b"IHDR", struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)),
    )
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
        "rgba64.png": png(
            8, 16, 6, [np.stack([wide] * 3 + [wide[::-1]], -1).astype(">u2").tobytes()] * 2
        ),
        "one_bit.png": encode(gray.convert("1"), "PNG"),
        "exif_rotated.png": encode(rgb, "PNG", exif=exif(6)),
        "animated.png": encode(
            rgb, "PNG", save_all=True, append_images=[Image.new("RGB", rgb.size)]
        ),
        "truncated.png": plain[: len(plain) * 9 // 10],
        "cut_60.png": grainy[: len(grainy) * 6 // 10],
        "cut_99.png": grainy[: len(grainy) * 99 // 100],
        "bomb.png": bomb,
        "bad_crc.png": plain[: at - 4 + 8 + 20] + b"\xff" + plain[at - 4 + 8 + 21 :],
        "no_iend.png": plain[:-12],
        "cut_iend.png": plain[:-2],
        "trailing_garbage.png": plain + b"garbage after the image",
    }


def others() -> dict[str, bytes]:
    """Returns the files of other formats, and those that are no images, by name."""
    rgb = Image.fromarray(picture())
    black = Image.new("RGB", rgb.size)
    wide = (np.arange(8, dtype=np.uint16) * 0x2000 + 0xFF).reshape(1, 8)
    files = {
        "animated.gif": encode(rgb, "GIF", save_all=True, append_images=[black]),
        "webp.webp": encode(rgb, "WEBP", lossless=True),
        "animated.webp": encode(rgb, "WEBP", lossless=True, save_all=True, append_images=[black]),
        "avif.avif": encode(Image.fromarray(fields()), "AVIF", quality=100, subsampling="4:4:4"),
        "bmp.bmp": encode(rgb, "BMP"),
        "tiff.tif": encode(rgb, "TIFF", compression="tiff_lzw"),
        "exif_rotated.tif": encode(rgb, "TIFF", compression="tiff_lzw", exif=exif(6)),
        "gray16.tif": encode(Image.fromarray(np.repeat(wide, 2, 0)), "TIFF"),
        "rgb48.tif": tiff(np.repeat(np.repeat(wide, 2, 0)[..., None], 3, -1)),
        "float.tif": encode(rgb.convert("F").crop((0, 0, 4, 4)), "TIFF"),
        "int32.tif": encode(rgb.convert("I").crop((0, 0, 4, 4)), "TIFF"),
        "truncated.gif": encode(rgb, "GIF")[:-200],
        "text.jpg": b"This is a text, whatever its name says.\n",
        "empty.jpg": b"",
    }
    if importlib.util.find_spec("pillow_heif"):
        importlib.import_module("pillow_heif").register_heif_opener()
        exact = {"quality": -1, "chroma": 444, "matrix_coefficients": 0}
        files["heic.heic"] = encode(Image.fromarray(fields()), "HEIF", **exact)
    return files


def main() -> None:
    """Writes all files."""
    for name, data in (jpegs() | pngs() | others()).items():
        (HERE / name).write_bytes(data)


if __name__ == "__main__":
    main()
