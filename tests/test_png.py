"""PNGs that Pillow takes, and libpng, with which TensorFlow decodes, refuses."""

import itertools
import random
import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf
from image_bytes import PNG_MAGIC, chunk, png
from images import encoded, noise

from tfrds.disk.index import PNG
from tfrds.errors import EncodeError
from tfrds.spec import ImageSpec
from tfrds.write.check import check_png, load_image
from tfrds.write.encode import encode_image
from tfrds.write.png import chunk_fault, has_all_rows, header_fault
from tfrds.write.sniffing import sniff

PIXELS = bytes(range(90, 126))
ROWS = b"".join(b"\0" + PIXELS[start : start + 12] for start in (0, 12, 24))
STREAM = zlib.compress(ROWS)
IHDR = (b"IHDR", struct.pack(">IIBBBBB", 4, 3, 8, 2, 0, 0, 0))
IDAT, IEND = (b"IDAT", STREAM), (b"IEND", b"")
PLTE = (b"PLTE", b"abc")
# The number of frames, of repeats; number, width, height, left, top, delays, two ways to draw.
ACTL = (b"acTL", struct.pack(">II", 1, 0))
FCTL = (b"fcTL", struct.pack(">IIIIIHHBB", 0, 4, 3, 0, 0, 1, 1, 0, 0))
SMALLER = (b"fcTL", struct.pack(">IIIIIHHBB", 0, 2, 3, 0, 0, 1, 1, 0, 0))
NEXT = (b"fcTL", b"\0\0\0\1" + SMALLER[1][4:])


def png_of(*chunks):
    return PNG_MAGIC + b"".join(chunk(*one) for one in chunks)


def pixels_by_tensorflow(data):
    """Returns the pixels, None where TensorFlow refuses the file."""
    try:
        return tf.io.decode_jpeg(data, channels=3).numpy().tobytes()
    except tf.errors.InvalidArgumentError:
        return None


def header(place, value):
    content = bytearray(IHDR[1])
    content[place] = value
    return (b"IHDR", bytes(content))


# What is wrong, and the file.
REFUSED = {
    "a longer header": ("its header is none", [(b"IHDR", IHDR[1] + b"more"), IDAT, IEND]),
    "another compression": ("its header is none", [header(10, 1), IDAT, IEND]),
    "another interlacing": ("its header is none", [header(12, 2), IDAT, IEND]),
    "text before it": ("its header is none", [(b"tEXt", b"a\0b"), IHDR, IDAT, IEND]),
    "two headers": ("second or an empty chunk b'IHDR'", [IHDR, IHDR, IDAT, IEND]),
    "a header at the end": ("second or an empty chunk b'IHDR'", [IHDR, IDAT, IHDR, IEND]),
    "an empty palette": ("second or an empty chunk b'PLTE'", [IHDR, (b"PLTE", b""), IDAT, IEND]),
    "two palettes": ("second or an empty chunk b'PLTE'", [IHDR, PLTE, PLTE, IDAT, IEND]),
    "a critical chunk": ("chunk b'ABCD', which no", [IHDR, (b"ABCD", b""), IDAT, IEND]),
    "one behind the pixels": ("chunk b'ABCD', which no", [IHDR, IDAT, (b"ABCD", b""), IEND]),
    "a name of no letters": ("chunk b'a1Cd', which no", [IHDR, IDAT, (b"a1Cd", b""), IEND]),
    "fewer rows": ("its pixels end before", [IHDR, (b"IDAT", zlib.compress(ROWS[:13])), IEND]),
    "no rows": ("truncated", [IHDR, (b"IDAT", zlib.compress(b"")), IEND]),
    "a part of a row": ("truncated", [IHDR, (b"IDAT", zlib.compress(ROWS[:-1])), IEND]),
    "no checksum": ("truncated", [IHDR, (b"IDAT", STREAM[:-4]), IEND]),
    "a wrong checksum": ("broken", [IHDR, (b"IDAT", STREAM[:-1] + b"x"), IEND]),
}
KEPT = {
    "nothing more": [IHDR, IDAT, IEND],
    "a palette to draw with": [IHDR, PLTE, IDAT, IEND],
    "an unknown chunk": [IHDR, (b"abCd", b"x"), IDAT, IEND],
    "two parts": [IHDR, (b"IDAT", STREAM[:5]), (b"IDAT", STREAM[5:]), IEND],
    "more rows": [IHDR, (b"IDAT", zlib.compress(ROWS * 2)), IEND],
    "a byte more": [IHDR, (b"IDAT", zlib.compress(ROWS + b"\0")), IEND],
    "bytes at the end": [IHDR, IDAT, IEND, (b"ABCD", b"")],
    "one frame": [IHDR, ACTL, FCTL, IDAT, IEND],
    "another frame": [IHDR, ACTL, FCTL, IDAT, NEXT, (b"fdAT", b"\0\0\0\2" + STREAM), IEND],
}
NO_FIRST_FRAME = {
    "a smaller one": [IHDR, ACTL, SMALLER, IDAT, IEND],
    "none at all": [IHDR, (b"acTL", bytes(8)), IDAT, IEND],
    "two lists": [IHDR, ACTL, ACTL, FCTL, IDAT, IEND],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_tensorflow_refuses_is_not_stored_as_it_is(name):
    said, chunks = REFUSED[name]
    data = png_of(*chunks)
    assert pixels_by_tensorflow(data) is None
    with pytest.raises(EncodeError, match=said) as caught:
        encode_image(data, ImageSpec(encoding="original", channels=3))
    assert caught.value.reason == "cut off or damaged"


def test_transparent_colour_behind_the_pixels_is_refused():
    data = png_of(IHDR, IDAT, (b"tRNS", b"\0\132\0\133\0\134"), IEND)
    for encoding in ("original", "raw"):
        with pytest.raises(EncodeError, match="chunk b'tRNS' behind its pixels, where decoders di"):
            encode_image(data, ImageSpec(encoding=encoding, channels=3))


@pytest.mark.parametrize("name", NO_FIRST_FRAME)
def test_animation_of_which_pillow_would_decode_something_else_is_refused(name):
    data = png_of(*NO_FIRST_FRAME[name])
    assert chunk_fault(data) == "its animation has no first frame of the whole image"
    for encoding in ("original", "raw"):
        with pytest.raises(EncodeError, match="no first frame of the whole image"):
            encode_image(data, ImageSpec(encoding=encoding, channels=3))


@pytest.mark.parametrize("name", KEPT)
def test_what_tensorflow_decodes_is_stored_as_it_is(name):
    data = png_of(*KEPT[name])
    assert pixels_by_tensorflow(data) == PIXELS
    stored = encode_image(data, ImageSpec(encoding="original", channels=3))
    assert (stored.data, stored.encoding) == (data, PNG)
    assert header_fault(data) is chunk_fault(data) is None
    assert encode_image(data, ImageSpec(encoding="raw", channels=3)).data == PIXELS


@pytest.mark.parametrize("check", ["decode", "header", "none"])
def test_rows_that_lack_are_missed_in_pixels_too_however_they_are_checked(check):
    data = png_of(*REFUSED["fewer rows"][1])
    with pytest.raises(EncodeError, match=r"damaged: its pixels end before its last row\. Replace"):
        encode_image(data, ImageSpec(encoding="raw", channels=3, check=check))


def test_last_chunk_is_the_first_of_its_name_and_not_one_in_what_follows():
    data = png_of(IHDR, IDAT, IEND)
    broken = data[:-1] + b"\0"
    assert chunk_fault(broken + data) == chunk_fault(data[:-12]) == "no IEND chunk at its end"
    assert pixels_by_tensorflow(broken + data) is None


def sizes():
    """Widths and heights around the steps of the passes, of all kinds of pixels."""
    chance = random.Random(0)
    kinds = [(1, 0), (2, 0), (4, 3), (8, 2), (8, 6), (16, 4)]
    numbers = (1, 2, 3, 4, 5, 8, 9, 17)
    return [(*chance.choice(kinds), *size) for size in itertools.product(numbers, numbers)]


@pytest.mark.parametrize("interlacing", [0, 1])
def test_number_of_bytes_is_the_smallest_that_libpng_takes(interlacing):
    for bits, colour_type, width, height in sizes():
        kind = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, interlacing)

        def zeros(count, kind=kind):
            content = zlib.compress(bytes(count))
            return png_of((b"IHDR", kind), (b"PLTE", b"abc"), (b"IDAT", content), IEND)

        count = next(count for count in itertools.count() if has_all_rows(zeros(count)))
        assert pixels_by_tensorflow(zeros(count)) is not None
        assert pixels_by_tensorflow(zeros(count - 1)) is None


def test_interlaced_png_is_checked_by_its_number_of_bytes():
    kind = (b"IHDR", struct.pack(">IIBBBBB", 3, 3, 8, 0, 0, 0, 1))
    # A byte for the filter and the pixels of each row of the passes 1, 4, 5, 6 and 7.
    rows = b"\0\1" + b"\0\2" + b"\0\3\4" + b"\0\5" * 2 + b"\0\6\7\10"
    whole, cut = (
        png_of(kind, (b"IDAT", zlib.compress(content)), IEND) for content in (rows, rows[:-4])
    )
    assert pixels_by_tensorflow(whole) is not None
    assert check_png(whole).size == (3, 3)
    with pytest.raises(EncodeError, match="its pixels end before its last row"):
        check_png(cut)


def test_png_that_ends_with_a_black_row_is_whole():
    pixels = noise(1, 5, 7)
    pixels[-1] = 0
    data = encoded(pixels)
    np.testing.assert_array_equal(load_image(data), pixels)
    assert check_png(data).size == (7, 5)


def test_stream_that_is_damaged_has_no_rows():
    data = png(1, 8, 0, b"a")
    assert sniff(data) == "png"
    assert has_all_rows(data)
    assert not has_all_rows(png_of((b"IHDR", data[16:29]), (b"IDAT", b"no stream"), IEND))
