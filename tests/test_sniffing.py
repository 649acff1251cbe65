import io
import pathlib

import pytest
from PIL import Image

from tfrds.write.sniffing import SNIFF_BYTES, describe, sniff

DUMMY_DATA = pathlib.Path(__file__).parent.parent / "dummy_data"


def saved(pillow_format: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (16, 16)).save(file, pillow_format)
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "pillow_format"),
    [
        ("jpeg", "JPEG"),
        ("png", "PNG"),
        ("gif", "GIF"),
        ("bmp", "BMP"),
        ("webp", "WEBP"),
        ("tiff", "TIFF"),
        ("ppm", "PPM"),
        ("ico", "ICO"),
    ],
)
def test_sniff_knows_what_pillow_writes(kind, pillow_format):
    assert sniff(saved(pillow_format)[:SNIFF_BYTES]) == kind


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf", "avif"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf", "avif"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "heic"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "heic"),
        (b"II*\0", "tiff"),
        (b"MM\0*", "tiff"),
        (b"MM\0+\0\x08\0\0", "tiff"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "jpeg2000"),
        (b"\xff\x4f\xff\x51", "jpeg2000"),
        (b"\xff\x0a", "jpegxl"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "jpegxl"),
        (b"8BPS\0\1", "psd"),
        (b"qoif", "qoi"),
        (b"P5\n# made by hand\n", "ppm"),
        (b"", None),
        (b"\xff\xd8", None),
        (b"BMW and other cars are on these photos", None),
        (b"P1 is the first photo", None),
        (b"RIFF\x24\0\0\0WAVEfmt ", None),
        (b"\0\0\0\x20ftypisom\0\0\2\0isomiso2avc1mp41", None),
        (b"%!PS-Adobe-3.0 EPSF-3.0", None),
        (bytes(32), None),
    ],
)
def test_sniff_goes_by_the_first_bytes(head, kind):
    assert sniff(head) == kind


def test_sniff_does_not_believe_the_name_of_a_text():
    assert sniff((DUMMY_DATA / "text.jpg").read_bytes()[:SNIFF_BYTES]) is None


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"%PDF-1.7", "it looks like a PDF document"),
        (b"PK\x03\x04\x14\0", "it looks like a zip archive"),
        (b"a note\n", r"it looks like text, 'a note\n'"),
        (b"\x00\x01\xfe\xff", "it begins with the bytes 00 01 fe ff"),
    ],
)
def test_no_image_is_described(head, what):
    assert describe(head) == what
