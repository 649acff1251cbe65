import io
import pathlib
import re
import warnings

import pytest
from PIL import Image, ImageFile, PngImagePlugin

from tfrds.errors import EncodeError
from tfrds.write.check import (
    SNIFF_BYTES,
    check_size,
    jpeg_fault,
    load_image,
    open_image,
    pillow_errors,
    read_orientation,
    read_size,
    sniff,
)

DUMMY_DATA = pathlib.Path(__file__).parent.parent / "dummy_data"


def read(name: str) -> bytes:
    return (DUMMY_DATA / name).read_bytes()


def saved(pillow_format: str, **options) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (16, 16)).save(file, pillow_format, **options)
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
def test_sniff_knows_what_pillow_writes_and_open_image_reads_it(kind, pillow_format):
    data = saved(pillow_format)
    assert sniff(data[:SNIFF_BYTES]) == kind
    assert open_image(data).format == pillow_format


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
    assert sniff(read("text.jpg")[:SNIFF_BYTES]) is None


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


def test_pillows_limit_of_pixels_is_an_error_that_names_both_numbers(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400)
    with pytest.raises(EncodeError, match=r"^too large: .*960 pixels.* limit of 800 pixels"):
        open_image(read("plain.png"))


def test_pillows_warning_of_many_pixels_is_silent_and_its_settings_stay(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    filters = list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_image(read("plain.png")).size == (40, 24)
    assert warnings.filters == filters
    assert Image.MAX_IMAGE_PIXELS == 500


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
