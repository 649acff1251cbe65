import numpy as np
import pytest
import tensorflow as tf
from datasets import photo
from image_bytes import tiff, with_segments
from images import encoded

from tfrds.read.stages.jpeg_header import JpegHeader, is_complete, read_jpeg_header

APP1, APP2, COMMENT = 0xE1, 0xE2, 0xFE
XMP = b"http://ns.adobe.com/xap/1.0/\0"
PLAIN = encoded(photo(1, 19, 33), "JPEG")


@pytest.fixture(scope="module")
def read():
    """Reads a header in one graph, as numbers and bytes."""
    in_graph = tf.function(
        read_jpeg_header, input_signature=[tf.TensorSpec((), tf.string)], autograph=False
    )
    return lambda data: JpegHeader(*(field.numpy() for field in in_graph(tf.constant(data))))


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize(("channels", "components"), [(1, 1), (3, 3)])
def test_size_components_and_bits_are_those_of_the_frame(read, channels, components, progressive):
    image = photo(2, 19, 300, channels)
    data = encoded(image[..., 0] if channels == 1 else image, "JPEG", progressive=progressive)
    header = read(data)
    assert (header.height, header.width) == (19, 300)
    assert (header.components, header.bits) == (components, 8)
    assert (header.exif, header.xmp) == (b"", b"")
    # The scan's own header has 6 bytes and 2 for each component.
    assert header.first_scan == data.index(b"\xff\xda") + 2 + 6 + 2 * components


def test_four_components_are_cmyk(read, dummy_data):
    for name in ("cmyk.jpg", "ycck.jpg"):
        assert read((dummy_data / name).read_bytes()).components == 4


def test_exif_and_xmp_are_found_among_other_segments(read):
    exif, xmp = b"Exif\0\0" + tiff((0x0112, 3, 1, 6)), XMP + b"<x:xmpmeta/>"
    data = with_segments(
        PLAIN,
        (COMMENT, b"\xff\xd8\xff\xda"),
        (APP1, exif),
        (APP2, b"ICC"),
        (APP1, xmp),
        (APP1, b""),
    )
    header = read(data)
    assert (header.exif, header.xmp) == (exif, xmp)
    assert (header.height, header.width) == (19, 33)


def test_long_exif_is_joined_from_its_segments(read):
    first, second = b"Exif\0\0MM" + b"a" * 100, b"Exif\0\0" + b"b" * 9
    assert read(with_segments(PLAIN, (APP1, first), (APP1, second))).exif == first + b"b" * 9


def test_padding_junk_and_bare_markers_are_skipped(read):
    for junk in (b"\xff\xff\xff", b"\0\1\2", b"\xff\0", b"\xff\xd3\xff\xf5"):
        assert read(PLAIN[:2] + junk + PLAIN[2:]).height == 19


def test_end_marker_of_an_embedded_preview_is_none():
    preview = with_segments(PLAIN, (APP1, b"Exif\0\0" + PLAIN))
    scan = tf.constant(preview.index(b"\xff\xda", len(PLAIN)), tf.int64)
    assert is_complete(tf.constant(preview), scan)
    assert not is_complete(tf.constant(preview[:-2]), scan)
    assert not is_complete(tf.constant(preview), tf.constant(10**9, tf.int64))


@pytest.mark.parametrize("length", [0, 1, 2, 3, 10, 0xFFFF])
def test_wrong_lengths_never_leave_the_file(read, length):
    for marker in (0xE1, 0xC0, 0xDA, 0xDB, 0xFE):
        broken = bytes([0xFF, 0xD8, 0xFF, marker, *length.to_bytes(2, "big")])
        for rest in (b"", b"\xff", b"\xff\xe1", PLAIN[2:]):
            read(broken + rest)


def test_cut_headers_announce_no_pixels(read):
    for end in range(3, PLAIN.index(b"\xff\xda")):
        assert read(PLAIN[:end]).first_scan == 0


def test_a_file_of_junk_ends_soon(read):
    for junk in (b"\0" * 10**6, b"\xff\0\1" * 10**6, b"\xff\xd0" * 10**6):
        assert read(b"\xff\xd8\xff" + junk).first_scan == 0
    random = np.random.default_rng(0)
    for _ in range(30):
        read(b"\xff\xd8\xff" + random.bytes(2000))
