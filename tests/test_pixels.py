import io
import pathlib
import re
import struct

import numpy as np
import pytest
from PIL import Image

from tfrds.errors import EncodeError
from tfrds.write.check import load_image, open_image, read_orientation
from tfrds.write.pixels import (
    array_image,
    normalise,
    resize_array,
    resize_image,
)

DUMMY_DATA = pathlib.Path(__file__).parent.parent / "dummy_data"
WHITE = (255, 255, 255)


def read(name: str) -> bytes:
    return (DUMMY_DATA / name).read_bytes()


def pixels(image: Image.Image, channels: int, background=WHITE) -> list:
    return np.asarray(normalise(image, channels, background)).tolist()


def tiff(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "TIFF")
    return file.getvalue()


@pytest.mark.parametrize(
    ("mode", "color", "rgb", "gray"),
    [
        # Gray is (19595 red + 38470 green + 7471 blue + 32768) >> 16, Pillow's Rec. 601.
        ("RGB", (255, 0, 0), [255, 0, 0], 76),
        ("L", 77, [77, 77, 77], 77),
        ("1", 1, [255, 255, 255], 255),
        ("1", 0, [0, 0, 0], 0),
        # Half of red on white: 255 * 127 / 255 of the white remains.
        ("RGBA", (255, 0, 0, 128), [255, 127, 127], 165),
        ("RGBA", (1, 2, 3, 0), [255, 255, 255], 255),
        ("RGBA", (1, 2, 3, 255), [1, 2, 3], 2),
        ("RGBa", (128, 0, 0, 128), [255, 127, 127], 165),
        ("LA", (0, 128), [127, 127, 127], 127),
        ("La", (0, 128), [127, 127, 127], 127),
        ("RGBX", (255, 0, 0, 7), [255, 0, 0], 76),
        ("CMYK", (0, 255, 255, 0), [255, 0, 0], 76),
        ("CMYK", (0, 0, 0, 255), [0, 0, 0], 0),
        ("YCbCr", (77, 128, 128), [77, 77, 77], 77),
        ("HSV", (0, 255, 255), [255, 0, 0], 76),
        ("I;16", 0x12FF, [0x12, 0x12, 0x12], 0x12),
        ("I;16B", 0x12FF, [0x12, 0x12, 0x12], 0x12),
    ],
)
def test_every_mode_becomes_rgb_and_gray(mode, color, rgb, gray):
    assert pixels(Image.new(mode, (1, 1), color), 3) == [[rgb]]
    assert pixels(Image.new(mode, (1, 1), color), 1) == [[gray]]


def palette_image() -> Image.Image:
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putdata([0, 1])
    return image


def test_palette_becomes_its_colors():
    assert pixels(palette_image(), 3) == [[[255, 0, 0], [0, 0, 255]]]


def test_transparent_color_of_a_palette_shows_the_background():
    image = palette_image()
    image.info["transparency"] = 1
    assert pixels(image, 3, (9, 8, 7)) == [[[255, 0, 0], [9, 8, 7]]]


def test_palette_with_alpha_shows_the_background():
    image = palette_image().convert("PA")
    image.putalpha(Image.frombytes("L", (2, 1), b"\xff\x00"))
    assert pixels(image, 3, (9, 8, 7)) == [[[255, 0, 0], [9, 8, 7]]]


def test_background_of_gray_is_its_luma():
    # (19595 * 200 + 38470 * 100 + 7471 * 50 + 32768) >> 16
    assert pixels(Image.new("LA", (1, 1), (0, 0)), 1, (200, 100, 50)) == [[124]]


@pytest.mark.parametrize(
    ("name", "gray"),
    [
        ("gray16.png", [0x00, 0x20, 0x40, 0x60, 0x80, 0xA0, 0xC0, 0xE0]),
        ("rgb48.png", [0x00, 0x20, 0x40, 0x60, 0x80, 0xA0, 0xC0, 0xE0]),
        ("gray16_trns.png", [0x00, 255, 0x40, 0x60, 0x80, 0xA0, 0xC0, 0xE0]),
        ("gray2_trns.png", [0, 255, 170, 255]),
    ],
)
def test_png_of_other_depth_keeps_its_top_bits_and_its_transparent_gray(name, gray):
    assert pixels(load_image(read(name)), 1) == [gray, gray]


def test_transparent_color_of_a_48_bit_png_is_refused():
    with pytest.raises(EncodeError, match=r"transparent colour \(8447, 8447, 8447\)"):
        load_image(read("rgb48_trns.png"))


def test_16_bit_ppm_and_tiff_keep_their_top_bits():
    ppm = b"P5 2 1 65535\n\x12\x34\xff\xff"
    assert pixels(load_image(ppm), 1) == [[0x12, 0xFF]]
    wide = Image.fromarray(np.array([[0x1234, 0xFFFF]], np.uint16))
    assert pixels(load_image(tiff(wide)), 1) == [[0x12, 0xFF]]


@pytest.mark.parametrize(
    ("tag", "old", "new", "found"),
    [
        (262, 1, 0, "16 bits and photometric interpretation 0"),
        (258, 16, 12, "12 bits and photometric interpretation 1"),
    ],
)
def test_16_bit_tiff_that_pillow_does_not_scale_is_refused(tag, old, new, found):
    data = tiff(Image.new("I;16", (2, 2)))
    entry = struct.pack("<HHIH", tag, 3, 1, old)
    assert entry in data
    data = data.replace(entry, struct.pack("<HHIH", tag, 3, 1, new))
    with pytest.raises(EncodeError, match=found):
        normalise(load_image(data), 1, WHITE)


@pytest.mark.parametrize("mode", ["I", "F"])
def test_pixels_of_32_bits_are_refused(mode):
    with pytest.raises(EncodeError, match=f"pixels of 32 bits, Pillow's mode '{mode}'"):
        normalise(load_image(tiff(Image.new(mode, (2, 2)))), 3, WHITE)


def upright(stored: np.ndarray, orientation: int) -> np.ndarray:
    """What EXIF says: where row 0 and column 0 of the stored pixels are seen."""
    return {
        1: stored,
        2: stored[:, ::-1],  # top, right
        3: stored[::-1, ::-1],  # bottom, right
        4: stored[::-1],  # bottom, left
        5: stored.transpose(1, 0, 2),  # left, top
        6: np.rot90(stored, -1),  # right, top
        7: stored[::-1, ::-1].transpose(1, 0, 2),  # right, bottom
        8: np.rot90(stored, 1),  # left, bottom
    }[orientation]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_read_and_the_image_turned_upright(orientation):
    data = read(f"exif_orientation_{orientation}.jpg")
    assert read_orientation(open_image(data), data) == orientation
    image = normalise(load_image(data), 3, WHITE, orientation)
    stored = np.asarray(Image.open(DUMMY_DATA / "plain.jpg"))
    np.testing.assert_array_equal(np.asarray(image), upright(stored, orientation))


def test_tiff_is_turned_by_pillow_once():
    data = read("exif_rotated.tif")
    image = normalise(load_image(data), 3, WHITE, read_orientation(open_image(data), data))
    stored = np.asarray(Image.open(DUMMY_DATA / "plain.png"))
    np.testing.assert_array_equal(np.asarray(image), np.rot90(stored, -1))


def test_metadata_is_left_behind():
    image = Image.new("RGB", (2, 2))
    image.info.update(comment=b"c", icc_profile=b"i", exif=b"e")
    assert normalise(image, 3, WHITE).info == {}


@pytest.mark.parametrize(
    ("shape", "mode"),
    [
        ((2, 3), "L"),
        ((2, 3, 1), "L"),
        ((2, 3, 2), "LA"),
        ((2, 3, 3), "RGB"),
        ((2, 3, 4), "RGBA"),
    ],
)
def test_array_becomes_an_image_of_its_channels(shape, mode):
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    image = array_image(array)
    assert (image.mode, image.size) == (mode, (3, 2))
    np.testing.assert_array_equal(np.asarray(image).reshape(shape), array)


def test_array_that_is_not_contiguous_becomes_what_it_shows():
    array = np.arange(24, dtype=np.uint8).reshape(4, 6)
    np.testing.assert_array_equal(np.asarray(array_image(array[::2, ::-1])), array[::2, ::-1])


def gradient() -> Image.Image:
    y, x = np.mgrid[0:8, 0:12]
    return Image.fromarray(np.stack([20 * x, 30 * y, 10 * (x + y)], axis=-1).astype(np.uint8))


def test_stretch_is_pillows_antialiased_bilinear():
    expected = gradient().resize((5, 3), Image.Resampling.BILINEAR)
    assert resize_image(gradient(), (3, 5)).tobytes() == expected.tobytes()


def test_same_size_is_not_touched():
    image = gradient()
    assert resize_image(image, (8, 12), "pad") is image


def test_halves_of_two_pixels_are_averaged():
    image = Image.fromarray(np.array([[0, 0, 100, 100]], np.uint8))
    # Weights 1, 3, 3, 1 of 8 around the middle of pixels 0 and 1: (0 + 0 + 100 * 1) / 7, as the
    # first weight falls outside the image; the other side is symmetric.
    assert np.asarray(resize_image(image, (1, 2))).tolist() == [[14, 86]]


def test_crop_cuts_before_it_resizes():
    # 8 x 12 to a square: columns 2 to 10.
    expected = Image.fromarray(np.asarray(gradient())[:, 2:10]).resize((4, 4), 2)
    assert resize_image(gradient(), (4, 4), "crop").tobytes() == expected.tobytes()


@pytest.mark.parametrize(("channels", "fill"), [(3, [200, 100, 50]), (1, 124)])
def test_pad_fills_with_the_background(channels, fill):
    image = gradient() if channels == 3 else gradient().convert("L")
    # 8 x 12 into 6 x 6: the inner image is 4 x 6, one row of background above and one below.
    padded = np.asarray(resize_image(image, (6, 6), "pad", (200, 100, 50)))
    assert padded[[0, 5]].tolist() == [[fill] * 6] * 2
    inner = image.resize((6, 4), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(padded[1:5], np.asarray(inner))


@pytest.mark.parametrize("channels", [2, 4, 7])
def test_channels_of_arrays_are_resized_each_on_its_own(channels):
    array = np.random.RandomState(0).randint(0, 256, (8, 12, channels), np.uint8)
    resized = resize_array(array, (3, 5), "stretch", WHITE)
    for channel in range(channels):
        plane = Image.fromarray(np.ascontiguousarray(array[:, :, channel]))
        expected = plane.resize((5, 3), Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(resized[:, :, channel], np.asarray(expected))


def test_conversion_that_pillow_refuses_names_the_mode(monkeypatch):
    image = Image.new("HSV", (1, 1))
    monkeypatch.setattr(image, "convert", lambda mode: {}[mode])
    with pytest.raises(
        EncodeError, match=re.escape("cannot be converted from Pillow's mode 'HSV'")
    ):
        normalise(image, 3, WHITE)
