import random
import warnings

import pytest
from image_bytes import tiff
from PIL import Image

from tfrds.disk.window import Window
from tfrds.write.exif import read_orientation

ORIENTATION = 0x0112
MAKER = (0x010F, 2, 20, (8).to_bytes(4, "little"))  # text of 20 bytes, from the 8th
SHORT, LONG = 3, 4


def read(exif):
    return read_orientation(Window(b"before" + exif + b"behind"), 6, 6 + len(exif))


def by_pillow(exif):
    image = Image.new("L", (1, 1))
    image.info = {"exif": exif}
    with warnings.catch_warnings(action="ignore"):
        value = image.getexif().get(ORIENTATION)
    return int(value) if value in range(1, 9) else 1


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_found_in_both_byte_orders(orientation, order):
    exif = tiff((ORIENTATION, SHORT, 1, orientation), order=order)
    assert read(exif) == by_pillow(exif) == orientation


@pytest.mark.parametrize(
    ("exif", "expected"),
    [
        (tiff(MAKER, (ORIENTATION, SHORT, 1, 6)), 6),
        (tiff((ORIENTATION, LONG, 1, 6)), 6),
        (tiff((ORIENTATION, 6, 1, b"\6\0\0\0")), 6),
        (tiff((ORIENTATION, SHORT, 1, 6), head=b"II\0*"), 6),
        (tiff((ORIENTATION, SHORT, 1, 3), order=">", head=b"MM*\0"), 3),
        (tiff((ORIENTATION, 1, 1, b"\6\0\0\0")), 1),
        (tiff((ORIENTATION, 2, 2, b"6\0\0\0")), 1),
        (tiff((ORIENTATION, SHORT, 1, 9)), 1),
        (tiff((ORIENTATION, SHORT, 1, 0)), 1),
        (tiff(MAKER), 1),
        (tiff(), 1),
        (b"", 1),
    ],
)
def test_unusual_exif_is_read_as_pillow_reads_it(exif, expected):
    assert read(exif) == by_pillow(exif) == expected


@pytest.mark.parametrize(
    "exif",
    [
        b"II*",
        b"JJ*\0\x08\0\0\0" + bytes(20),
        tiff((ORIENTATION, SHORT, 1, 6), first=2**32 - 1),
        tiff((ORIENTATION, SHORT, 1, 6), first=900),
        tiff((ORIENTATION, SHORT, 1, 6), tail=b"")[:-1],
    ],
)
def test_what_lies_beyond_the_end_is_not_there(exif):
    assert read(exif) == 1


def test_a_lying_count_of_entries_ends():
    assert read(tiff((ORIENTATION, SHORT, 1, 6), count=65_535)) == 6
    many = [(0x010F, SHORT, 1, 0)] * 5_000
    assert read(tiff(*many, (ORIENTATION, SHORT, 1, 6))) == 1


def test_mutated_exif_gives_an_orientation():
    whole = tiff(MAKER, (ORIENTATION, SHORT, 1, 6), tail=bytes(30))
    found = set()
    for seed in range(3_000):
        chosen, exif = random.Random(seed), bytearray(whole)
        for _ in range(chosen.choice((1, 2, 3))):
            exif[chosen.randrange(len(exif))] = chosen.randrange(256)
        found.add(read(bytes(exif[: chosen.randrange(len(exif) + 1)])))
    assert {1, 6} <= found <= set(range(1, 9))
