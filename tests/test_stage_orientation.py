import warnings

import numpy as np
import pytest
import tensorflow as tf
from datasets import photo
from image_bytes import tiff
from PIL import Image

from tfrds.read.stages.orientation import (
    MISSING,
    UNKNOWN,
    exif_orientation,
    or_by_xmp,
    turn_upright,
)

ORIENTATION = 0x0112
MAKER = (0x010F, 2, 20, (8).to_bytes(4, "little"))  # text of 20 bytes, from the 8th
SHORT, LONG, SIGNED_BYTE = 3, 4, 6


@pytest.fixture(scope="module")
def read():
    """Reads an EXIF in one graph."""
    return tf.function(
        exif_orientation, input_signature=[tf.TensorSpec((), tf.string)], autograph=False
    )


def by_pillow(exif, xmp=b""):
    """What write/check.py makes of it, from Pillow alone."""
    image = Image.new("L", (1, 1))
    image.info = {"exif": exif, "xmp": xmp}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = image.getexif().get(ORIENTATION)
        except Exception:
            value = None
    return int(value) if value in range(1, 9) else 1


@pytest.mark.parametrize("prefix", [b"", b"Exif\0\0", b"Exif\0\0Exif\0\0"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_found_in_both_byte_orders(read, orientation, order, prefix):
    exif = prefix + tiff((ORIENTATION, SHORT, 1, orientation), order=order)
    assert by_pillow(exif) == orientation
    assert read(exif) == orientation


# What each holds, and what Pillow and we make of it.
CASES = {
    "long": (tiff((ORIENTATION, LONG, 1, 6)), 6),
    "signed byte": (tiff((ORIENTATION, SIGNED_BYTE, 1, b"\6\0\0\0")), 6),
    "byte": (tiff((ORIENTATION, 1, 1, b"\6\0\0\0")), 1),
    "text": (tiff((ORIENTATION, 2, 2, b"6\0\0\0")), 1),
    "two numbers": (tiff((ORIENTATION, SHORT, 2, b"\3\0\6\0")), 3),
    # Eight bytes from the 22nd on, which is where the entries end.
    "numbers elsewhere": (tiff((ORIENTATION, SHORT, 4, b"\x16\0\0\0"), tail=b"\5" + b"\0" * 7), 5),
    "too large": (tiff((ORIENTATION, SHORT, 1, 9)), 1),
    "zero": (tiff((ORIENTATION, SHORT, 1, 0)), 1),
    "other tags": (tiff(MAKER, (ORIENTATION, SHORT, 1, 8), (0x0131, SHORT, 1, 2)), 8),
    "the first of two": (tiff((ORIENTATION, SHORT, 1, 3), (ORIENTATION, SHORT, 1, 5)), 3),
    "unknown type before": (tiff((0x0100, 99, 1, 7), (ORIENTATION, SHORT, 1, 2)), 2),
    "swapped magic number": (tiff((ORIENTATION, SHORT, 1, 6), head=b"II\0*"), 6),
    "no magic number": (tiff((ORIENTATION, SHORT, 1, 6), head=b"XXXX"), 1),
    "64 bits": (tiff((ORIENTATION, SHORT, 1, 6), head=b"II+\0"), 1),
    "cut in its entry": (tiff((ORIENTATION, SHORT, 1, 6), tail=b"")[:-5], 1),
    "cut behind its entry": (tiff((ORIENTATION, SHORT, 1, 6), tail=b"", count=9), 6),
    "fewer entries": (tiff(MAKER, (ORIENTATION, SHORT, 1, 6), count=1), 1),
    "entries beyond the end": (tiff((ORIENTATION, SHORT, 1, 6), first=2**32 - 1), 1),
    "text beyond the end": (
        tiff((0x010F, 2, 5, b"\xff\xff\xff\xff"), (ORIENTATION, SHORT, 1, 6)),
        1,
    ),
    "text longer than all": (
        tiff((0x010F, 2, 10**6, b"\x08\0\0\0"), (ORIENTATION, SHORT, 1, 6), tail=b""),
        6,
    ),
    "nothing": (b"", 1),
    "no entries": (tiff(), 1),
    "a few bytes": (b"II*", 1),
}


@pytest.mark.parametrize("name", CASES)
def test_unusual_exif_is_read_as_pillow_reads_it(read, name):
    exif, expected = CASES[name]
    assert by_pillow(exif) == expected
    assert int(or_by_xmp(read(exif), tf.constant(""))) == expected


@pytest.mark.parametrize("kind", [5, 10, 11, 12, 16])
def test_numbers_of_rare_types_are_told_apart(read, kind):
    exif = tiff((ORIENTATION, kind, 1, 8), tail=b"\0" * 30)
    assert read(exif) == UNKNOWN


def test_exif_never_read_beyond_its_end(read):
    random = np.random.default_rng(0)
    exif = tiff(MAKER, (ORIENTATION, SHORT, 1, 6), (0x0131, LONG, 2, 20), order=">", tail=b"")
    for _ in range(300):
        broken = bytearray(exif[: random.integers(0, len(exif) + 1)])
        for place in random.integers(0, max(len(broken), 1), 2):
            broken[place : place + 1] = bytes([random.choice([0, 1, 18, 255])])
        found = int(or_by_xmp(read(bytes(broken)), tf.constant("")))
        assert found in (by_pillow(bytes(broken)), UNKNOWN), bytes(broken)


@pytest.mark.parametrize(
    ("xmp", "expected"),
    [
        (b'<x:xmpmeta tiff:Orientation="6" tiff:Orientation="3">', 6),
        (b"\xff\x80\n<tiff:Orientation>8</tiff:Orientation>\0", 8),
        (b'tiff:Orientation="0"', 1),
        (b'tiff:Orientation="9"', 1),
        (b"tiff:Orientation=6", 1),
        (b"6", 1),
        (b"", 1),
    ],
)
def test_xmp_counts_where_exif_says_nothing(read, xmp, expected):
    silent = tiff((0x0131, SHORT, 1, 2))
    assert by_pillow(silent, xmp) == by_pillow(b"", xmp) == expected
    for exif in (silent, b""):
        assert read(exif) == MISSING
        assert or_by_xmp(read(exif), tf.constant(xmp)) == expected
    assert or_by_xmp(read(tiff((ORIENTATION, SHORT, 1, 2))), tf.constant(xmp)) == 2
    # A number that makes no sense, and an EXIF that is none, leave nothing to ask.
    assert or_by_xmp(read(tiff((ORIENTATION, SHORT, 1, 9))), tf.constant(xmp)) == 1
    assert by_pillow(b"no EXIF at all", xmp) == 1
    assert or_by_xmp(read(b"no EXIF at all"), tf.constant(xmp)) == 1


TURNS = {
    1: lambda image: image,
    2: np.fliplr,
    3: lambda image: np.rot90(image, 2),
    4: np.flipud,
    5: lambda image: image.transpose(1, 0, 2),
    6: lambda image: np.rot90(image, -1),
    7: lambda image: np.rot90(image, 2).transpose(1, 0, 2),
    8: np.rot90,
}


@pytest.mark.parametrize("orientation", TURNS)
def test_image_is_turned_upright(orientation):
    image = photo(1, 4, 7)
    turned = turn_upright(tf.constant(image), tf.constant(orientation))
    np.testing.assert_array_equal(turned, TURNS[orientation](image))
    in_graph = tf.function(
        turn_upright,
        input_signature=[tf.TensorSpec((None, None, 3), tf.uint8), tf.TensorSpec((), tf.int32)],
    )
    np.testing.assert_array_equal(in_graph(image, orientation), TURNS[orientation](image))
