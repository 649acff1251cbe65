import struct
import zlib

import pytest
import tensorflow as tf
from image_bytes import PNG_MAGIC, chunk, png, tiff

from tfrds.read.stages.png_header import (
    PngHeader,
    has_odd_transparency,
    is_complete,
    num_pixels,
    read_png_header,
)

EXIF = (b"eXIf", tiff((0x0112, 3, 1, 6)))
XMP = b'<x tiff:Orientation="6"/>'
PIXELS = bytes(range(24))


@pytest.fixture(scope="module")
def read():
    """Reads a header in one graph, as numbers and bytes."""
    in_graph = tf.function(
        read_png_header, input_signature=[tf.TensorSpec((), tf.string)], autograph=False
    )
    return lambda data: PngHeader(*(field.numpy() for field in in_graph(tf.constant(data))))


@pytest.mark.parametrize(
    ("bits", "colour_type"), [(1, 0), (16, 0), (8, 2), (16, 2), (4, 3), (8, 4), (8, 6)]
)
def test_kind_is_that_of_the_first_chunk(read, bits, colour_type):
    header = read(png(8, bits, colour_type, PIXELS * 4, (b"PLTE", bytes(48))))
    assert (header.bits, header.colour_type, header.colours) == (bits, colour_type, 16)
    assert (header.transparent, header.exif, header.xmp) == (b"", b"", b"")
    assert not header.has_profile
    assert not header.has_packed_xmp


@pytest.mark.parametrize(
    ("data", "pixels"),
    [
        (png(8, 8, 0, PIXELS), 24),
        (png(65_536, 8, 0, bytes(65_536)), 65_536),
        (PNG_MAGIC + struct.pack(">I4sII", 13, b"IHDR", 50_000, 40_000), 2_000_000_000),
        (PNG_MAGIC, 0),
        (b"", 0),
    ],
)
def test_number_of_pixels_is_as_the_header_says(data, pixels):
    assert num_pixels(tf.constant(data)) == pixels


def test_transparent_colour_and_exif_are_found(read):
    header = read(png(8, 8, 0, PIXELS, (b"tRNS", b"\0\1"), EXIF))
    assert (header.transparent, header.exif) == (b"\0\1", EXIF[1])


def test_exif_behind_the_pixels_counts_where_none_is_before(read):
    other = (b"eXIf", b"other")
    assert read(png(8, 8, 0, PIXELS, behind=[EXIF])).exif == EXIF[1]
    assert read(png(8, 8, 0, PIXELS, other, behind=[EXIF])).exif == b"other"


def test_xmp_behind_the_pixels_counts_only_on_the_way_to_exif(read):
    packet = (b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP)
    assert read(png(8, 8, 0, PIXELS, packet)).xmp.endswith(XMP)
    assert read(png(8, 8, 0, PIXELS, behind=[packet])).xmp == b""
    assert read(png(8, 8, 0, PIXELS, behind=[packet, EXIF])).xmp.endswith(XMP)


@pytest.mark.parametrize("kind", [b"tEXt", b"zTXt", b"iTXt"])
def test_exif_as_text_is_noticed(read, kind):
    assert read(png(8, 8, 0, PIXELS, (kind, b"Raw profile type exif\0\0\nexif\n"))).has_profile
    assert not read(png(8, 8, 0, PIXELS, (kind, b"Raw profile type iptc\0\0"))).has_profile


def test_packed_xmp_is_noticed(read):
    packed = zlib.compress(XMP)
    for kind, content in (
        (b"zTXt", b"XML:com.adobe.xmp\0\0" + packed),
        (b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + packed),
    ):
        assert read(png(8, 8, 0, PIXELS, (kind, content))).has_packed_xmp
    for kind, content in (
        (b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP),
        (b"tEXt", b"XML:com.adobe.xmp\0" + XMP),
        (b"zTXt", b"Comment\0\0" + packed),
    ):
        assert not read(png(8, 8, 0, PIXELS, (kind, content))).has_packed_xmp


@pytest.mark.parametrize(
    ("bits", "colour_type", "chunks", "is_odd"),
    [
        (8, 0, [], False),
        (8, 0, [(b"tRNS", b"\0\1")], False),
        (8, 0, [(b"tRNS", b"\1\1")], False),  # the upper byte is left out by all
        (2, 0, [(b"tRNS", b"\0\3")], False),
        (2, 0, [(b"tRNS", b"\0\4")], True),
        (8, 0, [(b"tRNS", b"\1")], True),
        (8, 0, [(b"tRNS", b"\0\1"), (b"tRNS", b"\0\2")], True),
        (8, 2, [(b"tRNS", bytes(6))], False),
        (8, 2, [(b"tRNS", bytes(2))], True),
        (8, 3, [(b"PLTE", bytes(6)), (b"tRNS", b"\0\0")], False),
        (8, 3, [(b"PLTE", bytes(6)), (b"tRNS", b"\0\0\0")], True),
        (8, 3, [(b"tRNS", b"\0\0"), (b"PLTE", bytes(6))], True),
        (8, 4, [(b"tRNS", b"\0")], False),
        (8, 6, [(b"tRNS", b"\0")], False),
    ],
)
def test_transparency_is_odd_where_programs_differ(read, bits, colour_type, chunks, is_odd):
    header = read(png(8, bits, colour_type, PIXELS * 4, *chunks))
    assert has_odd_transparency(header) == is_odd


def test_wrong_lengths_never_leave_the_file(read):
    whole = png(8, 8, 0, PIXELS, EXIF)
    for end in range(8, len(whole)):
        read(whole[:end])
    for length in (0, 5, 2**31, 2**32 - 1):
        broken = struct.pack(">I", length) + b"eXIf"
        read(PNG_MAGIC + broken)
        read(whole[:33] + broken + whole[33:])


def test_a_file_of_empty_chunks_ends_soon(read):
    assert read(PNG_MAGIC + chunk(b"junk", b"") * 100_000).exif == b""


def test_complete_is_a_file_with_its_last_chunk():
    whole = png(8, 8, 0, PIXELS)
    assert is_complete(tf.constant(whole))
    assert is_complete(tf.constant(whole + b"\xff\0 more"))
    for missing in (1, 4, 12):
        assert not is_complete(tf.constant(whole[:-missing]))
