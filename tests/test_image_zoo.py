"""Every file of dummy_data: the pixels a build makes of it, or the error it gives.

Expected pixels are written down here or decoded by TensorFlow or libjpeg from the file itself,
never by tfrds.
"""

import dataclasses
import importlib
import pathlib
import re
import sys
from collections.abc import Callable

import numpy as np
import PIL
import pytest
import simplejpeg
import tensorflow as tf
from images import put
from PIL import Image

import tfrds
from tfrds.disk.index import JPEG, PNG
from tfrds.errors import EncodeError, SourceError
from tfrds.spec import ImageSpec
from tfrds.write.encode import EncodedImage, encode_image

DUMMY_DATA = pathlib.Path(__file__).parent.parent / "dummy_data"
NAMES = sorted(path.name for path in DUMMY_DATA.iterdir() if path.suffix not in (".md", ".py"))


def read(name: str) -> bytes:
    return (DUMMY_DATA / name).read_bytes()


# What dummy_data/README.md says that the files show.


def picture() -> np.ndarray:
    y, x = np.mgrid[0:24, 0:40]
    array = np.stack([60 + 4 * x, 220 - 6 * y, 80 + 2 * x + 3 * y], axis=-1)
    array[:8, :8] = (200, 20, 20)
    return array


def colour(gray: np.ndarray) -> np.ndarray:
    return np.repeat(np.asarray(gray)[..., np.newaxis], 3, axis=-1)


def luma(array: np.ndarray) -> np.ndarray:
    """ITU-R 601-2, in Pillow's integers."""
    return colour((array @ [19595, 38470, 7471] + 0x8000) >> 16)


def on_white(array: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    opacity = alpha[..., np.newaxis] / 255
    return np.rint(array * opacity + 255 * (1 - opacity))


def fields() -> np.ndarray:
    top = [[(200, 20, 20)] * 24 + [(20, 160, 40)] * 24] * 16
    return np.array(top + [[(30, 60, 220)] * 24 + [(240, 240, 240)] * 24] * 16)


def upright(array: np.ndarray, orientation: int) -> np.ndarray:
    """EXIF 2.3: the sides of the image as seen where row 0 and column 0 of the file lie."""
    row, column = {
        1: ("top", "left"),
        2: ("top", "right"),
        3: ("bottom", "right"),
        4: ("bottom", "left"),
        5: ("left", "top"),
        6: ("right", "top"),
        7: ("right", "bottom"),
        8: ("left", "bottom"),
    }[orientation]
    if row in ("left", "right"):
        array = array.transpose(1, 0, 2)
    if "bottom" in (row, column):
        array = array[::-1]
    return array[:, ::-1] if "right" in (row, column) else array


def decoded_jpeg(name: str) -> np.ndarray:
    return tf.io.decode_jpeg(read(name), channels=3, dct_method="INTEGER_ACCURATE").numpy()


def decoded_png(name: str) -> np.ndarray:
    return tf.io.decode_png(read(name), channels=3).numpy()


def decoded_png_on_white(name: str) -> np.ndarray:
    rgba = tf.io.decode_png(read(name), channels=4).numpy()
    return on_white(rgba[..., :3], rgba[..., 3])


def decoded_whatever_is_wrong(name: str) -> np.ndarray:
    return simplejpeg.decode_jpeg(read(name), strict=False)


ALPHA = np.tile(np.arange(40) * 6, (24, 1))
SQUARE = np.zeros((24, 40), bool)
SQUARE[:8, :8] = True
# 0x00ff, 0x20ff, ... 0xe0ff of 16 bits: the top 8 are kept.
WIDE = np.tile(np.arange(8) * 0x20, (2, 1))
RED = np.tile(np.array([255, 0, 0]), (16, 16, 1))


@dataclasses.dataclass(frozen=True)
class Good:
    """A file that is accepted.

    Attributes:
      pixels: [height, width, 3], or what makes them of the file's name.
      tolerance: of lossy formats whose pixels are written down.
      is_kept: whether its bytes are stored as they are.
      repaired: libjpeg's complaint.
    """

    pixels: np.ndarray | Callable[[str], np.ndarray]
    tolerance: int = 0
    is_kept: bool = False
    repaired: str | None = None

    def expected(self, name: str) -> np.ndarray:
        return self.pixels(name) if callable(self.pixels) else self.pixels


@dataclasses.dataclass(frozen=True)
class Bad:
    """A file that is refused.

    Attributes:
      reason: of the error.
      message: its text, a regular expression for all of it.
    """

    reason: str
    message: str


def turned(orientation: int) -> Good:
    return Good(
        lambda name: upright(decoded_jpeg("plain.jpg"), orientation), is_kept=orientation == 1
    )


GOOD = {
    "plain.jpg": Good(decoded_jpeg, is_kept=True),
    "gray.jpg": Good(decoded_jpeg, is_kept=True),
    "progressive.jpg": Good(decoded_jpeg, is_kept=True),
    "trailing_garbage.jpg": Good(decoded_jpeg, is_kept=True),
    "exif_broken.jpg": Good(decoded_jpeg, is_kept=True),
    "exif_orientation_9.jpg": Good(decoded_jpeg, is_kept=True),
    **{f"exif_orientation_{number}.jpg": turned(number) for number in range(1, 9)},
    "exif_rotated.jpg": turned(6),
    "extraneous_bytes.jpg": Good(
        decoded_jpeg, repaired="Corrupt JPEG data: 1 extraneous bytes before marker 0xd9"
    ),
    "corrupt_scan.jpg": Good(
        decoded_whatever_is_wrong,
        repaired="Corrupt JPEG data: premature end of data segment",
    ),
    "cmyk.jpg": Good(RED, tolerance=2),
    "ycck.jpg": Good(RED, tolerance=2),
    "cmyk_no_adobe.jpg": Good(RED, tolerance=2),
    "ycck_no_adobe.jpg": Good(
        RED, tolerance=2, repaired="unusual chroma subsampling or a damaged header"
    ),
    "lossless.jpg": Good(luma(picture())),
    "plain.png": Good(picture(), is_kept=True),
    "gray.png": Good(luma(picture()), is_kept=True),
    "trailing_garbage.png": Good(picture(), is_kept=True),
    "animated.png": Good(picture(), is_kept=True),
    "exif_rotated.png": Good(upright(picture(), 6)),
    "one_bit.png": Good(decoded_png),
    "palette.png": Good(decoded_png),
    "palette_transparent.png": Good(decoded_png_on_white),
    "rgba.png": Good(on_white(picture(), ALPHA), tolerance=1),
    "gray_alpha.png": Good(on_white(luma(picture()), ALPHA), tolerance=1),
    "rgb_trns.png": Good(np.where(SQUARE[..., np.newaxis], 255, picture())),
    "gray_trns.png": Good(np.where(SQUARE[..., np.newaxis], 255, luma(picture()))),
    "gray2_trns.png": Good(colour([[0, 255, 170, 255]] * 2)),
    "gray16.png": Good(colour(WIDE)),
    "gray16_trns.png": Good(colour(np.where(WIDE == 0x20, 255, WIDE))),
    "rgb48.png": Good(colour(WIDE)),
    "rgba64.png": Good(on_white(colour(WIDE), WIDE[:, ::-1]), tolerance=1),
    "animated.gif": Good(lambda name: tf.io.decode_gif(read(name))[0].numpy()),
    "webp.webp": Good(picture()),
    "animated.webp": Good(picture()),
    "bmp.bmp": Good(picture()),
    "tiff.tif": Good(picture()),
    "exif_rotated.tif": Good(upright(picture(), 6)),
    "gray16.tif": Good(colour(WIDE)),
    "rgb48.tif": Good(colour(WIDE)),
    "avif.avif": Good(fields(), tolerance=2),
}
Image.init()
if "AVIF" not in Image.OPEN:  # Pillow has it since 11.3
    del GOOD["avif.avif"]

REMOVE = r"\. Replace it or remove it\."
CUT = "cut off or damaged"
TOO_LARGE = (
    r"too large: expected at most max_pixels=178956970 pixels, got 2,500,000,000, size "
    r"\(height, width\) \(50000, 50000\)\. Raise max_pixels if it is meant\."
)
WORD = r"expected 8 or 16 bits\. Their range is not guessed: convert it to 8 bits\."

BAD = {
    "no_eoi.jpg": Bad(CUT, f"{CUT}: Premature end of JPEG file{REMOVE}"),
    "truncated.jpg": Bad(CUT, f"{CUT}: Premature end of JPEG file{REMOVE}"),
    "cut_60.jpg": Bad(CUT, f"{CUT}: Premature end of JPEG file{REMOVE}"),
    "cut_99.jpg": Bad(CUT, f"{CUT}: Premature end of JPEG file{REMOVE}"),
    "cut_header.jpg": Bad(CUT, f"{CUT}: Truncated File Read{REMOVE}"),
    "truncated.png": Bad(CUT, rf"{CUT}: .*incomplete checksum in b'IDAT'\){REMOVE}"),
    "cut_60.png": Bad(CUT, f"{CUT}: Truncated File Read{REMOVE}"),
    "cut_99.png": Bad(CUT, f"{CUT}: Truncated File Read{REMOVE}"),
    "no_iend.png": Bad(CUT, rf"{CUT}: .*truncated PNG file.*{REMOVE}"),
    "cut_iend.png": Bad(CUT, f"{CUT}: no IEND chunk at its end{REMOVE}"),
    "bad_crc.png": Bad(CUT, rf"{CUT}: .*bad header checksum in b'IDAT'\){REMOVE}"),
    "truncated.gif": Bad(CUT, rf"{CUT}: image file is truncated \(\d+ bytes .*\){REMOVE}"),
    "bomb.jpg": Bad("too large", TOO_LARGE),
    "bomb.png": Bad("too large", TOO_LARGE),
    "rgb48_trns.png": Bad(
        "unsupported mode",
        r"16-bit RGB with the transparent colour \(8447, 8447, 8447\): Pillow reads 8 bits, which "
        r"do not tell it from its neighbours\. Convert it to RGBA\.",
    ),
    "float.tif": Bad("unsupported mode", f"pixels of 32 bits, Pillow's mode 'F': {WORD}"),
    "int32.tif": Bad("unsupported mode", f"pixels of 32 bits, Pillow's mode 'I': {WORD}"),
    "text.jpg": Bad(
        "not an image",
        f"not an image: it looks like text, 'This is a text, whatever its nam'{REMOVE}",
    ),
    "empty.jpg": Bad("empty", f"empty file{REMOVE}"),
}
NOT_READABLE = {
    "heic.heic": r"heic images cannot be read by Pillow [\d.]+ as installed here\. Install "
    r"pillow-heif, or convert it to JPEG or PNG\.",
    "avif.avif": r"avif images cannot be read by Pillow [\d.]+ as installed here\. Convert it to "
    r"JPEG or PNG\.",
}


def encode(name: str, encoding: str = "original", **options) -> EncodedImage:
    return encode_image(read(name), ImageSpec(encoding=encoding, channels=3, **options))


def decode(stored: EncodedImage) -> np.ndarray:
    """Decodes what is stored by the reader's operation, and a PNG by its own as well."""
    pixels = tf.io.decode_jpeg(stored.data, channels=3, dct_method="INTEGER_ACCURATE").numpy()
    if stored.encoding == PNG:
        np.testing.assert_array_equal(pixels, tf.io.decode_png(stored.data, channels=3))
    return pixels


def assert_close(pixels: np.ndarray, expected: np.ndarray, tolerance: int) -> None:
    assert pixels.shape == expected.shape
    assert np.abs(pixels.astype(int) - expected).max() <= tolerance


def test_every_file_has_its_place_here():
    assert set(NAMES) == set(GOOD) | set(BAD) | set(NOT_READABLE)


@pytest.mark.parametrize("name", sorted(name for name in GOOD if name.endswith(".jpg")))
def test_pixels_that_decoders_of_jpeg_agree_on_are_those_of_the_picture(name):
    expected = GOOD[name].expected(name).astype(int)
    if expected.shape == (16, 16, 3) or name == "corrupt_scan.jpg":
        return
    shown = luma(picture()) if name.startswith(("gray", "lossless")) else picture()
    orientation = re.search(r"orientation_([1-8])", name)
    if orientation or "rotated" in name:
        shown = upright(shown, int(orientation[1]) if orientation else 6)
    assert np.abs(expected - shown).mean() < 4


@pytest.mark.parametrize("name", sorted(GOOD))
def test_tensorflow_decodes_what_is_stored_to_the_expected_pixels(name):
    good, stored = GOOD[name], encode(name)
    assert_close(decode(stored), good.expected(name), good.tolerance)
    assert (stored.data == read(name)) == good.is_kept
    assert stored.encoding == (JPEG if good.is_kept and name.endswith(".jpg") else PNG)
    assert stored.repaired == good.repaired
    raw = encode(name, "raw")
    assert raw.data == decode(stored).tobytes()


@pytest.mark.parametrize("check", ["decode", "header", "none"])
@pytest.mark.parametrize("name", sorted(set(GOOD) - {"corrupt_scan.jpg", "extraneous_bytes.jpg"}))
def test_faultless_files_are_stored_alike_however_they_are_checked(name, check):
    stored, expected = encode(name, check=check), encode(name)
    assert stored == dataclasses.replace(expected, repaired=stored.repaired)
    assert stored.repaired == (expected.repaired if check == "decode" else None)


@pytest.mark.parametrize("encoding", ["original", "raw", "jpeg"])
@pytest.mark.parametrize("name", sorted(BAD))
def test_refused_file_says_why_under_every_encoding(name, encoding):
    with pytest.raises(EncodeError) as caught:
        encode(name, encoding)
    assert re.fullmatch(BAD[name].message, str(caught.value))
    assert caught.value.reason == BAD[name].reason


# What each check lets through as it is, beyond what the next stricter one does.
PASSED_BY_HEADER = {"corrupt_scan.jpg", "extraneous_bytes.jpg", "bad_crc.png"}
PASSED_BY_NONE = {
    "no_eoi.jpg",
    "truncated.jpg",
    "cut_60.jpg",
    "cut_99.jpg",
    "truncated.png",
    "cut_60.png",
    "cut_99.png",
    "no_iend.png",
    "cut_iend.png",
}


@pytest.mark.parametrize("check", ["header", "none"])
@pytest.mark.parametrize("name", sorted(set(BAD) | PASSED_BY_HEADER))
def test_each_check_lets_through_what_it_says(name, check):
    passed = PASSED_BY_HEADER | (PASSED_BY_NONE if check == "none" else set())
    if name in passed:
        stored = encode(name, check=check)
        assert (stored.data, stored.repaired) == (read(name), None)
    else:
        with pytest.raises(EncodeError, match=BAD[name].message):
            encode(name, check=check)


# Of these only what follows the pixels is missing: checksums and the last chunk.
WHOLE_PIXELS = {
    "truncated.png": picture(),
    "no_iend.png": picture(),
    "cut_iend.png": picture(),
    "cut_99.png": np.random.default_rng(0).integers(0, 256, (24, 24, 3), np.uint8),
}


@pytest.mark.parametrize("name", sorted(PASSED_BY_NONE | {"bad_crc.png"}))
def test_unchecked_file_that_is_decoded_anyway_is_refused_where_pixels_are_missing(name):
    if name in WHOLE_PIXELS:
        expected = WHOLE_PIXELS[name].astype(np.uint8).tobytes()
        assert encode(name, "raw", check="none").data == expected
    else:
        with pytest.raises(EncodeError, match=CUT):
            encode(name, "raw", check="none")
    with pytest.raises(EncodeError, match=CUT):
        encode(name, "raw", check="header")


TURNED = [f"exif_orientation_{number}.jpg" for number in range(1, 9)] + [
    "exif_rotated.jpg",
    "exif_rotated.png",
    "exif_rotated.tif",
]


@pytest.mark.parametrize("name", TURNED)
def test_pixels_stay_as_the_file_has_them_without_exif_transpose(name):
    expected = decoded_jpeg("plain.jpg") if name.endswith(".jpg") else picture()
    stored = encode(name, exif_transpose=False)
    np.testing.assert_array_equal(decode(stored), expected)
    assert (stored.height, stored.width) == (24, 40)
    assert (stored.data == read(name)) == (not name.endswith(".tif"))


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """A dataset of all accepted files, under their own names and all as JPEG."""
    root = tmp_path_factory.mktemp("zoo")
    for name in GOOD:
        put(root / "files" / "own_name" / name, read(name))
        put(root / "files" / "named_jpg" / f"{name}.jpg", read(name))
    return tfrds.build(
        "zoo", root / "files", data_dir=root / "data", encoding="original", num_workers=2
    )


def images_of(builder, **options):
    examples = builder.as_dataset(split="train", with_key=True, dtype="uint8", **options)
    return {example["key"].decode(): example["image"] for example in examples.as_numpy_iterator()}


def test_build_of_a_folder_stores_all_of_them_whatever_their_names_say(zoo):
    images = images_of(zoo)
    assert len(images) == 2 * len(GOOD)
    for name, good in GOOD.items():
        for key in (f"own_name/{name}", f"named_jpg/{name}.jpg"):
            assert_close(images[key], good.expected(name), good.tolerance)


@pytest.mark.parametrize("name", sorted(BAD))
def test_build_names_the_file_that_is_refused(name, tmp_path):
    put(tmp_path / "files" / "a" / f"{name}.jpg", read(name))
    put(tmp_path / "files" / "b" / "plain.png", read("plain.png"))
    if name in ("empty.jpg", "text.jpg"):  # found while the folder is listed
        expected = rf"a/{name}\.jpg \((empty|no image in it)\)"
    else:
        expected = rf"^a/{name}\.jpg: {BAD[name].message}$"
    with pytest.raises((EncodeError, SourceError), match=expected):
        tfrds.build("bad", tmp_path / "files", data_dir=tmp_path / "data", num_workers=1)


def test_build_without_exif_transpose_takes_its_size_from_the_pixels_as_they_are(tmp_path):
    for number, name in enumerate(TURNED):
        put(tmp_path / "files" / "ab"[number % 2] / name, read(name))
    builder = tfrds.build(
        "turned",
        tmp_path / "files",
        data_dir=tmp_path / "data",
        encoding="raw",
        exif_transpose=False,
        num_workers=1,
    )
    assert {image.shape for image in images_of(builder).values()} == {(24, 40, 3)}


@pytest.mark.skipif("HEIF" in Image.OPEN, reason="pillow-heif is registered in this process")
@pytest.mark.parametrize("name", sorted(NOT_READABLE))
def test_format_that_pillow_does_not_read_is_named_with_what_to_install(name, monkeypatch):
    Image.init()
    monkeypatch.delitem(Image.OPEN, "AVIF", raising=False)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(EncodeError) as caught:
        encode(name)
    assert re.fullmatch(NOT_READABLE[name], str(caught.value))
    assert PIL.__version__ in str(caught.value)
    assert caught.value.reason == "unreadable format"


@pytest.fixture
def pillow_as_it_is(monkeypatch):
    """Undoes what a plug-in registers."""
    monkeypatch.setattr(Image, "OPEN", dict(Image.OPEN))
    monkeypatch.setattr(Image, "ID", list(Image.ID))
    monkeypatch.setattr(Image, "MIME", dict(Image.MIME))
    monkeypatch.setattr(Image, "SAVE", dict(Image.SAVE))
    monkeypatch.setattr(Image, "SAVE_ALL", dict(Image.SAVE_ALL))
    monkeypatch.setattr(Image, "EXTENSION", dict(Image.EXTENSION))


@pytest.mark.usefixtures("pillow_as_it_is")
def test_heic_is_read_where_its_plugin_is_installed():
    pytest.importorskip("pillow_heif")
    np.testing.assert_array_equal(decode(encode("heic.heic")), fields())


# As pillow-heif does it, for a "format" of raw pixels behind the first bytes of a HEIC.
PLUGIN = """
from PIL import Image, ImageFile


class File(ImageFile.ImageFile):
    format = "HEIF"

    def _open(self):
        self._size, self._mode = (3, 2), "RGB"
        self.tile = [ImageFile._Tile("raw", (0, 0, 3, 2), 32, ("RGB", 0, 1))]


def register_heif_opener():
    Image.register_open("HEIF", File, lambda prefix: prefix[4:8] == b"ftyp")
"""


@pytest.mark.usefixtures("pillow_as_it_is")
def test_plugin_for_heic_is_found_in_workers_and_in_this_process(tmp_path, monkeypatch):
    put(tmp_path / "plugins" / "pillow_heif.py", PLUGIN)
    monkeypatch.syspath_prepend(tmp_path / "plugins")
    monkeypatch.delitem(sys.modules, "pillow_heif", raising=False)
    importlib.invalidate_caches()
    Image.OPEN.pop("HEIF", None)
    pixels = np.arange(36, dtype=np.uint8).reshape(2, 2, 3, 3)
    files = [read("heic.heic")[:32] + image.tobytes() for image in pixels]
    for number, data in enumerate(files):
        put(tmp_path / "files" / "ab"[number] / "photo.heic", data)
    # A size of each image's own, so that nothing is read before the workers do.
    builder = tfrds.build(
        "plugin",
        tmp_path / "files",
        data_dir=tmp_path / "data",
        encoding="original",
        num_workers=2,
        num_shards=2,
    )
    images = images_of(builder)
    np.testing.assert_array_equal([images["a/photo.heic"], images["b/photo.heic"]], pixels)
    assert "HEIF" not in Image.OPEN
    stored = encode_image(files[1], ImageSpec(encoding="raw", channels=3))
    assert stored.data == pixels[1].tobytes()
    sys.modules.pop("pillow_heif")
