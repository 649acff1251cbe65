import io
import random
import warnings

import image_bytes
import images
import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from tfrds.disk.index import JPEG, PNG
from tfrds.disk.window import Window
from tfrds.write.image_header import ImageHeader, read_header


def header(data):
    return read_header(Window(b"before" + data + b"behind"), 6, 6 + len(data))


def test_sizes_and_channels_are_those_that_pillow_finds(dummy_data):
    accepted = {}
    for path in sorted(dummy_data.glob("*.*")):
        try:
            accepted[path.name] = header(path.read_bytes())
        except ValueError:
            continue
    for name, found in accepted.items():
        with warnings.catch_warnings(action="ignore"), PIL.Image.open(dummy_data / name) as image:
            expected = (image.height, image.width, {"L": 1, "RGB": 3}[image.mode], image.format)
            turned = image.getexif().get(0x0112) if image.info.get("exif") else 1
        kind = {JPEG: "JPEG", PNG: "PNG"}[found.encoding]
        assert (found.height, found.width, found.channels, kind) == expected, name
        assert found.orientation == (turned if turned in range(1, 9) else 1), name
    assert {found.orientation for found in accepted.values()} == set(range(1, 9))
    # Those that are cut off behind their header are among them: nothing else is looked at.
    assert {
        *("plain.jpg", "plain.png", "gray.jpg", "gray.png", "progressive.jpg", "cut_60.jpg"),
        *("exif_rotated.jpg", "trailing_garbage.png", "animated.png"),
    } <= set(accepted)


def test_whole_images_are_those_that_tensorflow_decodes_to_that_size(dummy_data):
    for name in ("plain.jpg", "gray.jpg", "progressive.jpg", "exif_rotated.jpg", "plain.png"):
        data = (dummy_data / name).read_bytes()
        found = header(data)
        assert tf.io.decode_image(data).shape == (found.height, found.width, found.channels)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("animated.gif", "expected a JPEG or PNG, got gif"),
        ("bmp.bmp", "expected a JPEG or PNG, got bmp"),
        ("tiff.tif", "expected a JPEG or PNG, got tiff"),
        ("text.jpg", "expected an image, got none: it looks like text"),
        ("empty.jpg", "expected an image, got none"),
        ("cmyk.jpg", "expected a JPEG of 1 or 3 channels, got 4"),
        ("ycck.jpg", "expected a JPEG of 1 or 3 channels, got 4"),
        ("lossless.jpg", "expected a baseline or progressive JPEG, got marker 0xc3"),
        ("cut_header.jpg", "cut off: expected"),
        ("gray16.png", "8 bits, gray or RGB .* got 16 bits of colour type 0"),
        ("rgb48.png", "got 16 bits of colour type 2"),
        ("one_bit.png", "got 1 bits of colour type 0"),
        ("palette.png", "got 4 bits of colour type 3"),
        ("gray_alpha.png", "got 8 bits of colour type 4"),
        ("rgba.png", "got 8 bits of colour type 6"),
        ("rgb_trns.png", "without transparency, got one with a tRNS chunk"),
        ("gray_trns.png", "without transparency, got one with a tRNS chunk"),
    ],
)
def test_what_tensorflow_would_decode_otherwise_or_not_at_all_is_refused(dummy_data, name, message):
    with pytest.raises(ValueError, match=message):
        header((dummy_data / name).read_bytes())


def test_the_frame_of_a_jpeg_stands_behind_any_segments():
    jpeg = images.encoded(images.noise(0, 11, 12), "JPEG")
    segments = [(0xE1, b"Exif\0\0" + bytes(60_000)), (0xFE, b"\xff\xc0" * 9_000)]
    many = image_bytes.with_segments(jpeg, *segments)
    padded = many[:2] + b"\xff\xff\x01\xff\xd0" + many[2:]
    assert header(many) == header(padded) == ImageHeader(JPEG, 11, 12, 3)


def test_headers_that_no_decoder_takes_are_refused():
    jpeg = images.encoded(images.noise(0, 8, 9), "JPEG")
    frame = jpeg.index(b"\xff\xc0\x00\x11")
    for place, value, message in (
        (frame + 1, 0xC9, "got marker 0xc9"),
        (frame + 4, 12, "a JPEG of 8 bits, got 12"),
        (frame + 6, 0, "sides from 1 to 65,535 pixels, got 0x9"),
        (frame + 1, 0xDA, "expected a JPEG with a size, found none"),
    ):
        with pytest.raises(ValueError, match=message):
            header(jpeg[:place] + bytes([value]) + jpeg[place + 1 :])
    png = images.encoded(images.noise(0, 8, 9))
    with pytest.raises(ValueError, match="expected a PNG: its header is none of a PNG"):
        header(png[:12] + b"IHDX" + png[16:])
    for place, size, got in ((16, 2**17, "8x131072"), (20, 0, "0x9")):
        with pytest.raises(ValueError, match=f"sides from 1 to 65,535 pixels, got {got}"):
            header(png[:place] + size.to_bytes(4, "big") + png[place + 4 :])
    wide = png[:16] + (60_000).to_bytes(4, "big") * 2 + png[24:]
    with pytest.raises(ValueError, match="at most 536,870,911 pixels, got 3,600,000,000"):
        header(wide)
    for data in (jpeg, png):
        with pytest.raises(ValueError, match="cut off: expected"):
            header(data[:33])


def test_the_orientation_is_that_of_the_first_exif():
    jpeg, png = (images.encoded(images.noise(0, 8, 9), kind) for kind in ("JPEG", "PNG"))
    xmp = (0xE1, b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta/>")
    exif = [(0xE1, b"Exif\0\0" + image_bytes.tiff((0x0112, 3, 1, turn))) for turn in (6, 3)]
    short = (0xE1, b"Exif\0\0")
    for segments, orientation in (
        ([xmp], 1), ([xmp, exif[0]], 6), (exif, 6), ([short, exif[1]], 1), ([(0xE1, b"Ex")], 1)
    ):  # fmt: skip
        found = header(image_bytes.with_segments(jpeg, *segments))
        assert (found.height, found.width, found.orientation) == (8, 9, orientation)
    chunk = image_bytes.chunk(b"eXIf", image_bytes.tiff((0x0112, 3, 1, 8), order=">"))
    assert header(png[:33] + chunk + png[33:]).orientation == 8
    assert header(png[:33] + image_bytes.chunk(b"eXIf", b"") + png[33:]).orientation == 1


def test_exif_that_says_it_is_longer_than_the_image_is_cut_off():
    jpeg = images.encoded(images.noise(0, 8, 9), "JPEG")
    exif = b"\xff\xe1\xff\xffExif\0\0" + image_bytes.tiff((0x0112, 3, 1, 6))
    with pytest.raises(ValueError, match="cut off: expected"):
        header(jpeg[:2] + exif + jpeg[2:])


def test_hostile_headers_end():
    with pytest.raises(ValueError, match="expected a JPEG with a size, found none"):
        header(b"\xff\xd8" + b"\xff" * 200_000)
    chunks = image_bytes.PNG_MAGIC + image_bytes.chunk(
        b"IHDR", bytes(3) + b"\1" * 5 + b"\x08\2\0\0\0"
    )
    with pytest.raises(ValueError, match=r"expected a PNG|cut off"):
        header(chunks + image_bytes.chunk(b"tEXt", b"") * 101_000)


def test_mutated_headers_are_read_or_refused():
    originals = [
        images.encoded(images.noise(n, 8, 9), kind) for n, kind in ((0, "JPEG"), (1, "PNG"))
    ]
    outcomes = set()
    for seed in range(2_000):
        chosen = random.Random(seed)
        data = bytearray(originals[seed % 2])
        for _ in range(3):
            data[chosen.randrange(min(len(data), 700))] = chosen.choice(
                (0, 255, chosen.randrange(256))
            )
        try:
            found = header(bytes(data))
        except ValueError:
            outcomes.add("refused")
        else:
            outcomes.add("read")
            assert np.prod((found.height, found.width), dtype=np.int64) < 2**29
    assert outcomes == {"read", "refused"}


def test_gray_and_progressive_images_are_read():
    for arguments, channels in (({"progressive": True}, 3), ({}, 1)):
        data = images.encoded(images.noise(0, 20, 30, channels), "JPEG", **arguments)
        assert header(data) == ImageHeader(JPEG, 20, 30, channels)
        with PIL.Image.open(io.BytesIO(data)) as image:
            assert image.size == (30, 20)
