"""The pixels of new images are those that builds store, and what cannot be so is an error."""

import io
import pathlib
import warnings
import zlib

import numpy as np
import pytest
import tensorflow as tf
from datasets import photo
from image_bytes import png, tiff, with_segments
from images import encoded
from PIL import Image

from tfrds.read.stages.as_built import AsBuilt
from tfrds.spec import MAX_PIXELS, ImageSpec
from tfrds.write.encode import encode_image

DUMMY_DATA = pathlib.Path(__file__).parent.parent / "dummy_data"
APP1 = 0xE1
# Neither black nor white nor gray, so that a wrong background shows.
BACKGROUND = (10, 200, 30)

# Of the files in dummy_data: what a graph says of those that it does not decode, but for damage
# that TensorFlow's own operations find.
CANNOT_BE_EXACT = {
    "animated.gif": "got a GIF. Call preprocess on the bytes in Python, or convert the image",
    "bmp.bmp": "got a BMP. Call",
    "animated.webp": "got a WebP. Call",
    "avif.avif": "got an AVIF or HEIC. Call",
    "cmyk.jpg": "expected a JPEG of 1 or 3 components of 8 bits, got 4 of 8 bits; 4 are CMYK",
    "cmyk_no_adobe.jpg": "expected a JPEG of 1 or 3 components of 8 bits, got 4 of 8 bits",
    "exif_rotated.tif": "got a TIFF. Call",
    "gray16.tif": "got a TIFF. Call",
    "lossless.jpg": "Invalid JPEG data",
    "rgb48.tif": "got a TIFF. Call",
    "tiff.tif": "got a TIFF. Call",
    "webp.webp": "got a WebP. Call",
    "ycck.jpg": "expected a JPEG of 1 or 3 components of 8 bits, got 4 of 8 bits; 4 are CMYK",
    "ycck_no_adobe.jpg": "expected a JPEG of 1 or 3 components of 8 bits, got 4 of 8 bits",
}
DAMAGED = {
    "bad_crc.png": "Invalid PNG data",
    "bomb.jpg": "too large: expected at most 178956970 pixels, .* max_pixels, got 2500000000",
    "bomb.png": "too large: expected at most 178956970 pixels, .* max_pixels, got 2500000000",
    "corrupt_scan.jpg": "Invalid JPEG data",
    "cut_60.jpg": "cut off: a JPEG of 850 bytes without its end marker",
    "cut_60.png": "cut off: a PNG of 1092 bytes without its last chunk",
    "cut_99.jpg": "cut off: a JPEG of 1402 bytes without its end marker",
    "cut_99.png": "cut off: a PNG of 1801 bytes without its last chunk",
    "cut_header.jpg": "cut off or damaged: a JPEG whose header does not come to its pixels. Replac",
    "cut_iend.png": "cut off: a PNG of 127 bytes without its last chunk. Replace the file",
    "empty.jpg": "expected the bytes of a JPEG or PNG, got an empty string",
    "float.tif": "got a TIFF. Call",
    "heic.heic": "got an AVIF or HEIC. Call",
    "int32.tif": "got a TIFF. Call",
    "no_eoi.jpg": "cut off: a JPEG of 748 bytes without its end marker. Replace the file",
    "no_iend.png": "cut off: a PNG of 117 bytes without its last chunk",
    "rgb48_trns.png": "16-bit RGB with a transparent colour: .* Convert it to RGBA",
    "text.jpg": "got what begins with .*This is a text, whatever.*not its name",
    "truncated.gif": "got a GIF. Call",
    "truncated.jpg": "cut off: a JPEG of 675 bytes without its end marker",
    "truncated.png": "cut off: a PNG of 116 bytes without its last chunk",
}
FILES = sorted(path.name for path in DUMMY_DATA.iterdir() if path.suffix not in (".md", ".py"))
EXACT = [name for name in FILES if name not in CANNOT_BE_EXACT | DAMAGED]


@pytest.fixture(scope="module")
def decode():
    """Decodes a file with one or three channels, each in one graph."""
    graphs = {
        channels: tf.function(
            AsBuilt(channels=channels, background=BACKGROUND, max_pixels=MAX_PIXELS),
            input_signature=[tf.TensorSpec((), tf.string)],
            autograph=False,
        )
        for channels in (1, 3)
    }
    return lambda data, channels=3: graphs[channels](data).numpy()


def built(data, channels=3):
    """What a build stores of a file; Pillow decodes it."""
    spec = ImageSpec(encoding="original", channels=channels, background=BACKGROUND)
    stored = encode_image(data, spec).data
    with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(stored)) as image:
        return np.asarray(image.convert("RGB" if channels == 3 else "L")).reshape(
            image.height, image.width, channels
        )


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", EXACT)
def test_pixels_of_each_kind_of_file_are_those_of_a_build(decode, name, channels):
    data = (DUMMY_DATA / name).read_bytes()
    np.testing.assert_array_equal(decode(data, channels), built(data, channels))


@pytest.mark.parametrize("name", sorted(CANNOT_BE_EXACT | DAMAGED))
def test_what_a_graph_does_not_decode_is_named(decode, name):
    message = (CANNOT_BE_EXACT | DAMAGED)[name]
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        decode((DUMMY_DATA / name).read_bytes())
    if name in CANNOT_BE_EXACT and name != "avif.avif":  # which not every Pillow reads
        assert built((DUMMY_DATA / name).read_bytes()).ndim == 3


def test_pixels_are_the_same_eagerly_and_in_tf_data():
    names = ["exif_orientation_7.jpg", "rgba.png", "gray16_trns.png", "exif_rotated.png"]
    files = [(DUMMY_DATA / name).read_bytes() for name in names]
    stage = AsBuilt(channels=3, background=BACKGROUND)
    dataset = tf.data.Dataset.from_tensor_slices(files).map(stage)
    assert dataset.element_spec == tf.TensorSpec((None, None, 3), tf.uint8)
    for image, data in zip(dataset, files, strict=True):
        np.testing.assert_array_equal(image, built(data))
        np.testing.assert_array_equal(stage(tf.constant(data)), built(data))


PNG_KINDS = [
    (bits, colour_type)
    for colour_type, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)))
    for bits in depths
] + [(8, 4), (16, 4), (8, 6), (16, 6)]


@pytest.mark.parametrize(("bits", "colour_type"), PNG_KINDS)
@pytest.mark.parametrize("is_transparent", [False, True])
def test_png_of_every_kind_is_flattened_as_a_build_does(decode, bits, colour_type, is_transparent):
    random = np.random.default_rng(bits)
    pixels = random.bytes(16 * 2 * bits * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour_type] // 8)
    chunks = []
    if colour_type == 3:
        chunks = [(b"PLTE", random.bytes(3 * 2**bits))]
    if is_transparent and colour_type == 3:
        chunks += [(b"tRNS", random.bytes(2 ** (bits - 1)))]
    if is_transparent and colour_type == 0:
        # The value of the first pixel, whatever is behind it in its byte.
        value = int.from_bytes(pixels[:2], "big") if bits == 16 else pixels[0] >> (8 - bits)
        chunks = [(b"tRNS", value.to_bytes(2, "big"))]
    if is_transparent and colour_type == 2:
        chunks = [(b"tRNS", b"".join(bytes([0, value]) for value in pixels[:3]))]
    data = png(16, bits, colour_type, pixels, *chunks)
    if (bits, colour_type, is_transparent) == (16, 2, True):
        with pytest.raises(tf.errors.InvalidArgumentError, match="16-bit RGB with a transparent"):
            decode(data)
        return
    for channels in (1, 3):
        np.testing.assert_array_equal(decode(data, channels), built(data, channels))


def test_every_alpha_over_every_level_is_pillows(decode):
    alpha, level = np.mgrid[0:256, 0:256].astype(np.uint8)
    data = encoded(np.dstack([level, level, level, alpha]))
    np.testing.assert_array_equal(decode(data), built(data))


def test_gray_of_all_colours_is_pillows(decode):
    data = encoded(np.random.default_rng(0).integers(0, 256, (300, 400, 3), np.uint8))
    np.testing.assert_array_equal(decode(data, 1), built(data, 1))


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("size", [(1, 1), (33, 47), (64, 48)])
def test_jpeg_of_every_kind_is_decoded_as_a_build_does(decode, size, subsampling):
    for progressive in (False, True):
        data = encoded(
            photo(3, *size), "JPEG", subsampling=subsampling, progressive=progressive, quality=80
        )
        for channels in (1, 3):
            np.testing.assert_array_equal(decode(data, channels), built(data, channels))


def test_exif_of_long_jpegs_and_xmp_turn_the_image(decode):
    plain = encoded(photo(1, 20, 30), "JPEG")
    exif, filler = tiff((0x0112, 3, 1, 6)), b"\0" * 40_000
    xmp = b'http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="8"/>'
    preview = encoded(photo(2, 8, 8), "JPEG")
    for segments in (
        [(APP1, b"Exif\0\0" + exif + preview)],
        [(APP1, b"Exif\0\0" + exif + filler), (APP1, b"Exif\0\0" + filler)],
        [(APP1, xmp)],
        [(0xE2, filler), (APP1, b"Exif\0\0" + exif), (APP1, xmp)],
    ):
        data = with_segments(plain, *segments)
        image = decode(data)
        assert image.shape == (30, 20, 3)
        np.testing.assert_array_equal(image, built(data))


@pytest.mark.parametrize("order", ["<", ">"])
def test_exif_and_xmp_of_pngs_turn_the_image(decode, order):
    exif = (b"eXIf", tiff((0x0112, 3, 1, 6), order=order))
    xmp = (b"iTXt", b'XML:com.adobe.xmp\0\0\0\0\0<x tiff:Orientation="8"/>')
    pixels = bytes(range(96))
    for before, behind in (([exif], []), ([], [exif]), ([xmp], []), ([xmp, exif], [])):
        data = png(8, 8, 0, pixels, *before, behind=behind)
        image = decode(data)
        assert image.shape == (8, 12, 3)
        np.testing.assert_array_equal(image, built(data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            with_segments(
                encoded(photo(1, 8, 8), "JPEG"),
                (APP1, b"Exif\0\0" + tiff((0x0112, 12, 1, 8), tail=bytes(20))),
            ),
            "EXIF whose orientation is no whole number of at most 32 bits. Call preprocess on",
        ),
        (
            png(8, 8, 0, bytes(64), (b"tEXt", b"Raw profile type exif\0\nexif\n")),
            "a PNG whose EXIF or XMP is compressed or in hexadecimal digits, .* Call preprocess",
        ),
        (
            png(8, 8, 0, bytes(64), (b"zTXt", b"XML:com.adobe.xmp\0\0" + zlib.compress(b"<x/>"))),
            "a PNG whose EXIF or XMP is compressed",
        ),
        (
            png(8, 2, 0, bytes(64), (b"tRNS", b"\0\x09")),
            r"a PNG whose transparent colour \(tRNS\) is not as the standard has it. Call",
        ),
        (
            b"photos/cats/07.jpg",
            r"begins with .*photos/cats/07.jpg.* Pass what the file holds \(tf.io.read_file\), not",
        ),
        (b"\xff\xd8\xfe\x00 junk", r"begins with .*\?\?\?\? junk"),
    ],
)
def test_each_error_says_what_and_what_to_do(decode, data, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"image: .*{message}"):
        decode(data)


def test_a_stored_jpeg_is_decoded_smaller_where_it_is_kept():
    stage = AsBuilt(
        channels=3, background=BACKGROUND, decode_ratio=lambda height, width: tf.constant(4)
    )
    plain, gray = (encoded(photo(1, 40, 41, n).squeeze(), "JPEG") for n in (3, 1))
    for data in (plain, gray):
        smaller = tf.io.decode_jpeg(data, channels=3, ratio=4, dct_method="INTEGER_ACCURATE")
        np.testing.assert_array_equal(stage(tf.constant(data)), smaller)
    turned = with_segments(plain, (APP1, b"Exif\0\0" + tiff((0x0112, 3, 1, 6))))
    assert stage(tf.constant(turned)).shape == (41, 40, 3)  # a build stores it as PNG
    assert stage(tf.constant(encoded(photo(1, 40, 41)))).shape == (40, 41, 3)
    one = AsBuilt(channels=1, background=BACKGROUND, decode_ratio=stage.decode_ratio)
    assert one(tf.constant(plain)).shape == (40, 41, 1)  # so it does where colours are lost
    assert one(tf.constant(gray)).shape == (10, 11, 1)


def test_nothing_is_turned_where_builds_do_not():
    exif = tiff((0x0112, 3, 1, 6))
    pixels, unknown = photo(1, 8, 12), tiff((0x0112, 12, 1, 8), tail=bytes(20))
    jpeg = encoded(pixels, "JPEG")
    xmp = b'http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="8"/>'
    stage = AsBuilt(
        channels=3,
        background=BACKGROUND,
        exif_transpose=False,
        decode_ratio=lambda height, width: tf.constant(2),
    )
    half = tf.io.decode_jpeg(jpeg, channels=3, ratio=2, dct_method="INTEGER_ACCURATE")
    for segment in (b"Exif\0\0" + exif, b"Exif\0\0" + unknown, xmp):
        # Builds keep it as it is, so it is decoded smaller.
        data = with_segments(jpeg, (APP1, segment))
        np.testing.assert_array_equal(stage(tf.constant(data)), half)
    gray = np.arange(96, dtype=np.uint8).reshape(8, 12)
    for name, content in (
        (b"eXIf", exif),
        (b"eXIf", unknown),
        (b"tEXt", b"Raw profile type exif\0\nexif\n"),
        (b"zTXt", b"XML:com.adobe.xmp\0\0" + zlib.compress(b"<x/>")),
    ):
        data = png(12, 8, 0, gray.tobytes(), (name, content))
        np.testing.assert_array_equal(stage(tf.constant(data)), np.dstack([gray] * 3))


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_number_of_pixels_is_limited(kind):
    data = tf.constant(encoded(photo(1, 8, 12), kind))
    assert AsBuilt(channels=3, background=BACKGROUND, max_pixels=96)(data).shape == (8, 12, 3)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"image: too large: .* at most 95 pixels.* got 96"
    ):
        AsBuilt(channels=3, background=BACKGROUND, max_pixels=95)(data)
