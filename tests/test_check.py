import io
import pathlib
import re
import struct
import sys
import warnings

import numpy as np
import pytest
from datasets import run_script
from PIL import Image, ImageFile, PngImagePlugin, WebPImagePlugin

from tfrds.errors import EncodeError
from tfrds.write.check import (
    check_size,
    jpeg_fault,
    load_image,
    open_image,
    pillow_errors,
    read_orientation,
    read_size,
)

DUMMY_DATA = pathlib.Path(__file__).parent.parent / "dummy_data"


def read(name: str) -> bytes:
    return (DUMMY_DATA / name).read_bytes()


def saved(pillow_format: str, **options) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (16, 16)).save(file, pillow_format, **options)
    return file.getvalue()


def encoded_png(height: int, width: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGBA", (width, height)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    "pillow_format", ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM", "ICO"]
)
def test_open_image_reads_what_pillow_writes(pillow_format):
    assert open_image(saved(pillow_format)).format == pillow_format


def test_empty_file_says_so():
    with pytest.raises(EncodeError, match=r"^empty file\. Replace it or remove it\.$"):
        open_image(b"")


@pytest.mark.parametrize(
    ("data", "looks_like"),
    [
        (read("text.jpg"), "text, 'This is a text, whatever its nam'"),
        ("Größe ist kein Bild, schade, ähm".encode(), "text, 'Größe ist kein Bild, schade, '"),
        (b"%PDF-1.7", "a PDF document"),
        (b"PK\x03\x04\x14\0", "a zip archive"),
    ],
)
def test_no_image_says_what_it_looks_like(data, looks_like):
    with pytest.raises(EncodeError, match=re.escape(f"not an image: it looks like {looks_like}")):
        open_image(data)


def test_no_image_of_no_known_kind_shows_its_first_bytes():
    with pytest.raises(EncodeError, match="not an image: it begins with the bytes 00 01 fe ff"):
        open_image(b"\x00\x01\xfe\xff")


def test_image_that_pillow_cannot_read_is_named():
    with pytest.raises(EncodeError, match=r"heic images cannot be read by Pillow \d+\.\d+"):
        open_image(read("heic.heic"))


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("plain.jpg", (24, 40)),
        ("exif_orientation_4.jpg", (24, 40)),
        ("exif_orientation_5.jpg", (40, 24)),
        ("exif_rotated.jpg", (40, 24)),
        ("exif_rotated.png", (40, 24)),
        ("exif_rotated.tif", (40, 24)),
        ("exif_broken.jpg", (24, 40)),
        ("animated.gif", (24, 40)),
        # Damaged, but not in their headers.
        ("truncated.jpg", (24, 40)),
        ("truncated.png", (24, 40)),
    ],
)
def test_read_size_is_that_of_the_upright_image_by_its_header(name, size):
    assert read_size(read(name)) == size


@pytest.mark.parametrize("name", ["exif_orientation_5.jpg", "exif_rotated.png", "exif_rotated.tif"])
def test_read_size_is_that_of_the_pixels_as_they_are_without_exif_transpose(name):
    assert read_size(read(name), exif_transpose=False) == (24, 40)


# The other orientations undo themselves: mirrored, or half a turn.
@pytest.mark.parametrize(
    ("orientation", "undone"), [(1, 1), (2, 2), (5, 5), (6, 8), (7, 7), (8, 6)]
)
def test_tiff_that_pillow_turns_is_turned_back(orientation, undone):
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.new("RGB", (3, 2)).save(file, "TIFF", exif=exif)
    data = file.getvalue()
    assert read_orientation(open_image(data), data) == 1
    assert read_orientation(open_image(data), data, exif_transpose=False) == undone


def test_orientation_is_not_asked_for_where_nothing_is_turned():
    data = read("exif_orientation_6.jpg")
    assert read_orientation(open_image(data), data, exif_transpose=False) == 1


def test_read_size_of_no_image_is_refused():
    with pytest.raises(EncodeError, match="not an image: it looks like text, 'This is"):
        read_size(read("text.jpg"))


@pytest.mark.parametrize("name", ["exif_orientation_9.jpg", "exif_broken.jpg", "plain.png"])
def test_no_valid_orientation_means_upright_without_a_warning(name):
    data = read(name)
    assert read_orientation(open_image(data), data) == 1


def test_exif_that_makes_pillow_raise_means_upright():
    text = PngImagePlugin.PngInfo()
    text.add_text("Raw profile type exif", "\nexif\n4\nno hexadecimal digits")
    file = io.BytesIO()
    Image.new("L", (2, 2)).save(file, "PNG", pnginfo=text)
    data = file.getvalue()
    with pytest.raises(ValueError, match="fromhex"):
        Image.open(file).getexif()
    assert read_orientation(open_image(data), data) == 1


def test_orientation_of_a_png_is_read_without_decoding_it():
    # Cut inside the pixels, which Pillow would notice while decoding.
    data = read("exif_rotated.png")
    data = data[: data.index(b"IDAT") + 20]
    assert read_orientation(open_image(data), data) == 6
    data = read("truncated.png")
    assert read_orientation(open_image(data), data) == 1


def test_exif_behind_the_pixels_of_a_png_is_found():
    data = read("exif_rotated.png")
    start = data.index(b"eXIf") - 4
    end = data.index(b"IDAT") - 4
    data = data[:start] + data[end:-12] + data[start:end] + data[-12:]
    assert read_orientation(open_image(data), data) == 6


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cut_header.jpg", "Truncated File Read"),
        ("truncated.png", "incomplete checksum in b'IDAT'"),
        ("bad_crc.png", "bad header checksum in b'IDAT'"),
        ("no_iend.png", "truncated PNG file"),
        ("cut_iend.png", "no IEND chunk at its end"),
        ("truncated.gif", r"image file is truncated \(\d+ bytes not processed\)"),
        ("truncated.jpg", r"image file is truncated \(\d+ bytes not processed\)"),
    ],
)
def test_damaged_image_is_refused_with_pillows_reason(name, reason):
    with pytest.raises(EncodeError, match=f"^cut off or damaged: .*{reason}.* Replace it"):
        load_image(read(name))


def test_damaged_header_is_refused_without_a_memory_address():
    with pytest.raises(
        EncodeError, match=r"^cut off or damaged: its header cannot be read\. Replace"
    ):
        open_image(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize("name", ["trailing_garbage.jpg", "trailing_garbage.png", "cmyk.jpg"])
def test_complete_image_is_loaded_whatever_follows_it(name):
    image = load_image(read(name))
    assert image.getpixel((0, 0)) is not None


@pytest.mark.parametrize(
    "name",
    [
        "plain.jpg",
        "gray.jpg",
        "progressive.jpg",
        "cmyk.jpg",
        "ycck.jpg",
        "trailing_garbage.jpg",
        "exif_broken.jpg",
    ],
)
def test_complete_jpeg_has_no_fault(name):
    assert jpeg_fault(read(name)) is None


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (read("truncated.jpg"), "Premature end of JPEG file"),
        (read("no_eoi.jpg"), "Premature end of JPEG file"),
        (read("cmyk.jpg")[:-2], "Premature end of JPEG file"),
        (read("ycck.jpg")[:-2], "Premature end of JPEG file"),
        (
            read("extraneous_bytes.jpg"),
            "Corrupt JPEG data: 1 extraneous bytes before marker 0xd9",
        ),
        (read("cut_header.jpg"), "unusual chroma subsampling or a damaged header"),
    ],
)
def test_flawed_jpeg_has_libjpegs_complaint(data, fault):
    assert jpeg_fault(data) == fault


def test_fault_of_a_jpeg_replaces_pillows_vaguer_text():
    with pytest.raises(EncodeError, match=r"^cut off or damaged: Premature end\. Replace it"):
        load_image(read("truncated.jpg"), fault="Premature end")


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (1, 65_536), (70_000, 1)])
def test_size_outside_the_limits_is_refused(size):
    with pytest.raises(
        EncodeError, match=re.escape(f"sides from 1 to 65,535 pixels, got ({size[0]}, {size[1]})")
    ):
        check_size(*size)


def test_file_with_a_side_beyond_the_limit_is_refused_by_its_header():
    file = io.BytesIO()
    Image.new("L", (70_000, 1)).save(file, "PNG")
    with pytest.raises(EncodeError, match=re.escape("got (1, 70000)")):
        open_image(file.getvalue())


def test_file_that_pillows_reader_does_not_accept_is_refused(monkeypatch):
    factory, _ = Image.OPEN["GIF"]
    # What readers return that were built without their library.
    monkeypatch.setitem(Image.OPEN, "GIF", (factory, lambda prefix: "no GIF support"))
    with pytest.raises(EncodeError, match=r"^cut off or damaged: its header cannot be read\. "):
        open_image(read("animated.gif"))


def test_number_of_pixels_is_limited_with_every_number_in_the_error():
    check_size(24, 40, max_pixels=960)
    message = (
        "too large: expected at most max_pixels=959 pixels, got 960, size (height, width) "
        "(24, 40). Raise max_pixels if it is meant."
    )
    for call in (
        lambda: check_size(24, 40, max_pixels=959),
        lambda: open_image(read("plain.png"), max_pixels=959),
        lambda: read_size(read("exif_orientation_3.jpg"), max_pixels=959),
        lambda: load_image(read("plain.jpg"), max_pixels=959),
    ):
        with pytest.raises(EncodeError, match=f"^{re.escape(message)}$"):
            call()


def test_icon_that_holds_more_pixels_than_its_header_says_is_refused():
    inner = encoded_png(64, 64)
    header = struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(inner), 22)
    assert load_image(header + inner).size == (64, 64)
    with pytest.raises(EncodeError, match=re.escape("max_pixels=4095 pixels, got 4,096")):
        load_image(header + inner, max_pixels=4095)


@pytest.mark.parametrize("name", ["plain.png", "tiff.tif", "animated.gif", "plain.jpg"])
@pytest.mark.parametrize("limit", [300, 959, None])
def test_pillows_own_limit_decides_nothing_and_stays(monkeypatch, name, limit):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    filters = list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_image(read(name)).size == (40, 24)
    assert warnings.filters == filters
    assert Image.MAX_IMAGE_PIXELS == limit


def test_pillows_own_limit_stays_after_an_error(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 300)
    with pytest.raises(EncodeError, match="cut off or damaged"):
        load_image(read("truncated.gif"))
    assert Image.MAX_IMAGE_PIXELS == 300


@pytest.mark.skipif(
    not hasattr(WebPImagePlugin, "_get_size"), reason="this Pillow opens it to see its size"
)
def test_webp_beyond_pillows_own_limit_is_refused_by_pillow(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 300)
    with pytest.raises(EncodeError, match=r"^too large: .*960 pixels.* limit of 600 pix") as caught:
        open_image(read("webp.webp"))
    assert caught.value.reason == "too large"


def test_warnings_of_others_are_not_silenced():
    with pytest.warns(UserWarning, match="mine"), pillow_errors("nothing"):
        warnings.warn("mine", stacklevel=1)


def test_whatever_pillow_raises_is_named_even_without_a_text():
    with (
        pytest.raises(EncodeError, match=r"^reason: KeyError\. Replace it"),
        pillow_errors("reason"),
    ):
        raise KeyError


def test_lack_of_memory_is_not_taken_for_a_damaged_image():
    with pytest.raises(MemoryError), pillow_errors("reason"):
        raise MemoryError


@pytest.mark.parametrize("name", ["plain.png", "animated.gif"])
def test_pillow_told_to_make_up_missing_pixels_is_refused(name, monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(EncodeError, match="LOAD_TRUNCATED_IMAGES is True"):
        load_image(read(name))


def test_pillow_told_to_make_up_missing_pixels_matters_not_for_a_faultless_jpeg(monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert load_image(read("plain.jpg")).size == (40, 24)
    with pytest.raises(EncodeError, match="LOAD_TRUNCATED_IMAGES is True"):
        load_image(read("truncated.jpg"), fault="Premature end")


def test_pillow_told_to_make_up_missing_pixels_is_refused_for_an_unchecked_jpeg(monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(EncodeError, match="LOAD_TRUNCATED_IMAGES is True") as caught:
        load_image(read("plain.jpg"), is_checked=False)
    assert caught.value.reason == "not checked"


def test_unchecked_png_is_decoded_without_its_end():
    with pytest.raises(EncodeError, match="no IEND chunk"):
        load_image(read("cut_iend.png"))
    assert load_image(read("cut_iend.png"), is_checked=False).getpixel((0, 0)) == (200, 20, 20)


@pytest.mark.parametrize(
    ("name", "pixel"),
    [("cmyk.jpg", (0, 255, 255, 0)), ("cmyk_no_adobe.jpg", (0, 255, 255, 0))],
)
def test_ink_is_what_the_marker_of_adobe_says(name, pixel):
    image = load_image(read(name))
    assert image.mode == "CMYK"
    assert np.abs(np.subtract(image.getpixel((3, 3)), pixel)).max() <= 2


CHECK_LOSSLESS = """
import sys
from tfrds.write.check import jpeg_fault
data = open(sys.argv[1], "rb").read()
print({jpeg_fault(data) for _ in range(300)}, jpeg_fault(data[:-2]), jpeg_fault(data[:500]))
"""


def test_lossless_jpeg_is_checked_within_its_memory():
    # Scaled down, simplejpeg 1.9 wrote beyond its buffer, and the process died sooner or later.
    process = run_script(CHECK_LOSSLESS, DUMMY_DATA / "lossless.jpg")
    assert process.returncode == 0, process.stderr
    cut = "Premature end of JPEG file"
    assert process.stdout == f"{{None}} {cut} {cut}\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (read("text.jpg"), "not an image"),
        (read("heic.heic"), "unreadable format"),
        (b"\x89PNG\r\n\x1a\n", "cut off or damaged"),
        (read("truncated.gif"), "cut off or damaged"),
        (read("bad_crc.png"), "cut off or damaged"),
        (read("cut_iend.png"), "cut off or damaged"),
        (read("rgb48_trns.png"), "unsupported mode"),
    ],
)
def test_each_fault_has_its_reason(data, reason, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(EncodeError) as caught:
        load_image(data)
    assert caught.value.reason == reason
