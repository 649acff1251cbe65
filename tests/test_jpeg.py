import io
import pathlib

import pytest
from image_bytes import with_segments
from PIL import Image

from tfrds.write.jpeg import as_ycck, read_markers

DUMMY_DATA = pathlib.Path(__file__).parent.parent / "dummy_data"


def read(name: str) -> bytes:
    return (DUMMY_DATA / name).read_bytes()


@pytest.mark.parametrize(
    ("data", "is_lossless", "has_end"),
    [
        (read("plain.jpg"), False, True),
        (read("progressive.jpg"), False, True),
        (read("cmyk.jpg"), False, True),
        (read("trailing_garbage.jpg"), False, True),
        (read("lossless.jpg"), True, True),
        (read("lossless.jpg")[:-1], True, False),
        (read("no_eoi.jpg"), False, False),
        (read("cut_60.jpg"), False, False),
        (read("cut_99.jpg"), False, False),
        (read("cut_header.jpg"), False, False),
        (b"\xff\xd8", False, False),
        (b"\xff\xd8\xff\xc3", False, False),
        (b"\xff\xd8\xff\xc3\xff\xff", True, False),
        # Padding, and markers of which no length follows.
        (b"\xff\xd8\xff\xff\xff\xcb\0\2\xff\xd0\xff\x01\0\0\xff\xda\0\2\xff\xd9", True, True),
        # An extension and tables are no frames.
        (b"\xff\xd8\xff\xc4\0\2\xff\xc8\0\2\xff\xcc\0\2\xff\xda\0\2", False, False),
    ],
)
def test_markers_tell_kind_and_end(data, is_lossless, has_end):
    markers = read_markers(data)
    assert (markers.is_lossless, markers.has_end) == (is_lossless, has_end)


def test_end_of_a_preview_is_not_that_of_the_image():
    data = with_segments(read("no_eoi.jpg"), (0xE1, b"Exif\0\0" + read("lossless.jpg")))
    assert not read_markers(data).has_end
    assert not read_markers(data).is_lossless
    assert read_markers(data + b"\xff\xd9" + bytes(5000)).has_end


def test_marker_of_adobe_makes_four_components_ycck():
    with Image.open(io.BytesIO(as_ycck(read("ycck_no_adobe.jpg")))) as image:
        assert image.info["adobe_transform"] == 2
        red, green, blue = image.convert("RGB").getpixel((3, 3))
    assert red >= 253
    assert max(green, blue) <= 2
