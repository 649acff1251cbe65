import io
import pathlib
import re
import struct
import warnings

import numpy as np
import PIL
import pytest
import tensorflow as tf
from datasets import run_script
from images import encoded, put
from PIL import Image, ImageOps

from tfrds.disk.index import JPEG, PNG, RAW
from tfrds.errors import EncodeError
from tfrds.spec import ImageSpec
from tfrds.write import encode as encode_module
from tfrds.write.encode import EncodedImage, encode_image, encoder_versions

DUMMY_DATA = pathlib.Path(__file__).parent.parent / "dummy_data"

REFUSED = {
    "bad_crc.png",
    "bomb.jpg",
    "bomb.png",
    "cut_60.jpg",
    "cut_60.png",
    "cut_99.jpg",
    "cut_99.png",
    "cut_header.jpg",
    "cut_iend.png",
    "empty.jpg",
    "float.tif",
    "heic.heic",
    "int32.tif",
    "no_eoi.jpg",
    "no_iend.png",
    "rgb48_trns.png",
    "text.jpg",
    "truncated.gif",
    "truncated.jpg",
    "truncated.png",
}
FILES = sorted(
    path.name
    for path in DUMMY_DATA.iterdir()
    if path.is_file() and path.suffix not in (".md", ".py")
)
# Pillow alone, the reference here, reads these otherwise, or AVIF not at all before 11.3:
# test_image_zoo.py has their pixels.
READ_OTHERWISE = {"avif.avif", "cmyk_no_adobe.jpg", "gray16.tif", "ycck_no_adobe.jpg"}
ACCEPTED = [name for name in FILES if name not in REFUSED | READ_OTHERWISE]
FLAWS = {
    "corrupt_scan.jpg": "Corrupt JPEG data: premature end of data segment",
    "extraneous_bytes.jpg": "Corrupt JPEG data: 1 extraneous bytes before marker 0xd9",
}

# Files whose bytes are stored unchanged in a dataset of three channels.
PASSED = {
    "animated.png",
    "exif_broken.jpg",
    "exif_orientation_1.jpg",
    "exif_orientation_9.jpg",
    "gray.jpg",
    "gray.png",
    "plain.jpg",
    "plain.png",
    "progressive.jpg",
    "trailing_garbage.jpg",
    "trailing_garbage.png",
}

# Neither black nor white nor gray, so that a wrong background shows.
BACKGROUND = (10, 200, 30)


def read(name: str) -> bytes:
    return (DUMMY_DATA / name).read_bytes()


def encode(image, encoding: str, channels: int = 3, **options) -> EncodedImage:
    return encode_image(image, ImageSpec(encoding=encoding, channels=channels, **options))


def reference(name: str, channels: int) -> np.ndarray:
    """The pixels of an accepted file: PNG by TensorFlow's libpng, others by Pillow alone."""
    data = read(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = Image.open(io.BytesIO(data))
        if image.format == "PNG":
            # TensorFlow's alpha is wrong below 8 bits in files that have none: 1 or 15 for 255.
            channels_found = 4 if image.has_transparency_data else 3
            decoded = tf.io.decode_png(data, channels=channels_found).numpy()
            rgba = Image.fromarray(decoded).convert("RGBA")
            if "exif_rotated" in name:
                rgba = rgba.transpose(Image.Transpose.ROTATE_270)
        else:
            rgba = ImageOps.exif_transpose(image).convert("RGBA")
    canvas = Image.new("RGBA", rgba.size, (*BACKGROUND, 255))
    rgb = Image.alpha_composite(canvas, rgba).convert("RGB")
    return np.asarray(rgb if channels == 3 else rgb.convert("L")).reshape(*rgb.size[::-1], channels)


def decode(image: EncodedImage) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(image.data)))


def test_dummy_data_has_every_file_named_here():
    assert set(FILES) >= REFUSED | PASSED | READ_OTHERWISE


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ACCEPTED)
def test_tensorflow_decodes_an_original_to_the_normalised_pixels(name, channels):
    stored = encode(read(name), "original", channels, background=BACKGROUND)
    expected = reference(name, channels)
    # The reader's one operation for JPEG and PNG; INTEGER_ACCURATE is what Pillow does.
    decoded = tf.io.decode_jpeg(stored.data, channels=channels, dct_method="INTEGER_ACCURATE")
    np.testing.assert_array_equal(decoded.numpy(), expected)
    assert (stored.height, stored.width) == expected.shape[:2]
    if stored.encoding == PNG:
        by_png = tf.io.decode_png(stored.data, channels=channels)
        np.testing.assert_array_equal(by_png.numpy(), expected)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ACCEPTED)
def test_raw_holds_the_normalised_pixels(name, channels):
    stored = encode(read(name), "raw", channels, background=BACKGROUND)
    expected = reference(name, channels)
    assert stored.data == expected.tobytes()
    assert (stored.height, stored.width, stored.channels) == expected.shape
    assert (stored.encoding, stored.reencoded) == (RAW, False)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ACCEPTED)
def test_jpeg_is_pillows_jpeg_of_the_normalised_pixels(name, channels):
    stored = encode(read(name), "jpeg", channels, background=BACKGROUND, jpeg_quality=80)
    expected = reference(name, channels)
    file = io.BytesIO()
    array = expected if channels == 3 else expected[:, :, 0]
    Image.fromarray(np.ascontiguousarray(array)).save(file, "JPEG", quality=80)
    assert stored.data == file.getvalue()
    assert (stored.height, stored.width, stored.channels) == expected.shape
    assert (stored.encoding, stored.reencoded) == (JPEG, True)


@pytest.mark.parametrize("name", ACCEPTED)
def test_original_passes_a_file_only_where_the_reader_needs_no_change(name):
    stored = encode(read(name), "original")
    if name in PASSED:
        assert stored.data == read(name)
        assert stored.encoding == (JPEG if name.endswith(".jpg") else PNG)
        assert stored.channels == (1 if name.startswith("gray") else 3)
        assert not stored.reencoded
    else:
        assert (stored.encoding, stored.channels, stored.reencoded) == (PNG, 3, True)


@pytest.mark.parametrize("name", ACCEPTED)
def test_original_of_one_channel_passes_only_gray_files(name):
    stored = encode(read(name), "original", channels=1)
    assert (stored.data == read(name)) == (name in ("gray.jpg", "gray.png"))
    assert stored.channels == 1


@pytest.mark.parametrize("name", ACCEPTED)
def test_only_a_flawed_jpeg_is_repaired(name):
    stored = encode(read(name), "original")
    assert stored.repaired == FLAWS.get(name)
    assert encode(read(name), "raw").repaired == stored.repaired
    assert encode(read(name), "jpeg").repaired == stored.repaired


@pytest.mark.parametrize("encoding", ["raw", "jpeg", "original"])
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_unusable_file_is_refused_under_every_encoding(name, encoding):
    with pytest.raises(EncodeError):
        encode(read(name), encoding)


@pytest.mark.parametrize("name", ["truncated.jpg", "no_eoi.jpg"])
def test_damaged_jpeg_is_refused_with_libjpegs_text(name):
    with pytest.raises(
        EncodeError,
        match=r"^cut off or damaged: Premature end of JPEG file\. Replace it or remove it\.$",
    ):
        encode(read(name), "original")


@pytest.mark.parametrize("name", ["cmyk.jpg", "ycck.jpg"])
def test_red_of_four_components_is_red(name):
    stored = encode(read(name), "raw")
    array = np.frombuffer(stored.data, np.uint8).reshape(16, 16, 3)
    assert np.abs(array.astype(int) - [255, 0, 0]).max() <= 2


def test_metadata_of_a_file_is_not_stored_again():
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 3
    Image.new("RGB", (8, 8), (9, 9, 9)).save(
        file, "JPEG", comment=b"a comment", icc_profile=b"a profile", exif=exif
    )
    for encoding in ("original", "jpeg"):
        data = encode(file.getvalue(), encoding).data
        assert b"a comment" not in data
        assert b"a profile" not in data
        assert b"Exif" not in data
        assert b"eXIf" not in data


def picture(*shape: int) -> np.ndarray:
    return np.random.RandomState(0).randint(0, 256, shape, np.uint8)


@pytest.mark.parametrize("shape", [(8, 6), (8, 6, 1), (8, 6, 2), (8, 6, 3), (8, 6, 4), (8, 6, 9)])
def test_raw_array_of_the_datasets_channels_is_kept(shape):
    array = picture(*shape)
    channels = shape[2] if len(shape) == 3 else 1
    assert encode(array, "raw", channels) == EncodedImage(
        array.tobytes(), 8, 6, channels, RAW, repaired=None, reencoded=False
    )


def test_raw_array_in_another_memory_order_is_stored_row_by_row():
    array = picture(8, 6, 3)
    stored = encode(np.asfortranarray(array)[::-1], "raw")
    assert stored.data == array[::-1].tobytes()


@pytest.mark.parametrize(
    ("pixel", "channels", "expected"),
    [
        ([77], 3, [77, 77, 77]),
        ([0, 128], 1, [127]),
        ([0, 128], 3, [127, 127, 127]),
        ([255, 0, 0], 1, [76]),
        ([255, 0, 0, 128], 3, [255, 127, 127]),
        ([255, 0, 0, 128], 1, [165]),
    ],
)
def test_array_of_other_channels_is_converted(pixel, channels, expected):
    array = np.array([[pixel]], np.uint8)
    assert list(encode(array, "raw", channels).data) == expected
    assert decode(encode(array, "original", channels)).reshape(-1).tolist() == expected


@pytest.mark.parametrize(("shape", "channels"), [((8, 6), 1), ((8, 6, 1), 1), ((8, 6, 3), 3)])
def test_array_is_stored_as_png_without_loss(shape, channels):
    array = picture(*shape)
    stored = encode(array, "original", channels)
    np.testing.assert_array_equal(decode(stored), array.reshape(8, 6) if channels == 1 else array)
    assert (stored.encoding, stored.channels, stored.reencoded) == (PNG, channels, True)


def test_array_is_stored_as_pillows_jpeg():
    array = picture(8, 6, 3)
    file = io.BytesIO()
    Image.fromarray(array).save(file, "JPEG", quality=50)
    assert encode(array, "jpeg", jpeg_quality=50).data == file.getvalue()


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_raw_array_is_resized_channel_by_channel(channels, resize):
    array = picture(8, 12, channels)
    stored = encode(array, "raw", channels, image_size=(4, 4), resize=resize, background=BACKGROUND)
    # (19595 * 10 + 38470 * 200 + 7471 * 30 + 32768) >> 16 = 124
    fill = BACKGROUND if channels == 3 else [124] * channels
    expected = np.empty((4, 4, channels), np.uint8)
    for channel in range(channels):
        plane = np.ascontiguousarray(array[:, :, channel])
        if resize == "crop":
            plane = np.ascontiguousarray(plane[:, 2:10])
        # 8 x 12 padded to 4 x 4: the inner image is 3 x 4 (2.67 rounded), no row above, one below.
        height = 3 if resize == "pad" else 4
        expected[:, :, channel] = fill[channel]
        expected[:height, :, channel] = Image.fromarray(plane).resize((4, height), 2)
    assert stored.data == expected.tobytes()
    assert (stored.height, stored.width, stored.channels) == (4, 4, channels)


def test_raw_file_is_turned_before_it_is_resized():
    stored = encode(read("exif_rotated.jpg"), "raw", image_size=(10, 6))
    with Image.open(DUMMY_DATA / "plain.jpg") as image:
        expected = image.transpose(Image.Transpose.ROTATE_270).resize((6, 10), 2)
    assert stored.data == expected.tobytes()


@pytest.mark.parametrize(
    ("store_size", "size"), [(12, (12, 20)), (10, (10, 17)), (24, (24, 40)), (500, (24, 40))]
)
def test_store_size_shrinks_the_shorter_side_and_never_enlarges(store_size, size):
    stored = encode(read("plain.png"), "jpeg", store_size=store_size)
    assert (stored.height, stored.width) == size
    file = io.BytesIO()
    with Image.open(DUMMY_DATA / "plain.png") as image:
        image.resize(size[::-1], Image.Resampling.BILINEAR).save(file, "JPEG", quality=95)
    assert stored.data == file.getvalue()


@pytest.mark.parametrize("image", [read("plain.png"), picture(24, 40, 3)])
def test_raw_image_of_another_size_names_both_and_the_way_out(image):
    with pytest.raises(
        EncodeError, match=re.escape("expected (28, 28), got (24, 40). Pass image_size=(28, 28)")
    ):
        encode(image, "raw", shape_from=(28, 28))
    assert encode(image, "raw", shape_from=(24, 40)).height == 24


@pytest.mark.parametrize("channels", [2, 4])
def test_file_of_other_channels_is_refused(channels):
    with pytest.raises(EncodeError, match=f"files .* 1 or 3 channels, got channels={channels}"):
        encode(read("rgba.png"), "raw", channels)


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.zeros((4, 5, 3), np.float32), "float32 [4, 5, 3]"),
        (np.zeros((4, 5), bool), "bool [4, 5]"),
        (np.zeros(4, np.uint8), "uint8 [4]"),
        (np.zeros((1, 4, 5, 3), np.uint8), "uint8 [1, 4, 5, 3]"),
    ],
)
def test_array_of_another_type_or_rank_is_refused(array, found):
    with pytest.raises(EncodeError, match=re.escape(f"got {found}. Scale it to 0..255")):
        encode(array, "raw")


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0), (65_536, 1)])
def test_array_with_an_impossible_side_is_refused(shape):
    with pytest.raises(
        EncodeError, match=re.escape(f"1 to 65,535 pixels, got ({shape[0]}, {shape[1]})")
    ):
        encode(np.zeros(shape, np.uint8), "raw")


@pytest.mark.parametrize(("found", "channels"), [(3, 4), (5, 2), (1, 9)])
def test_array_cannot_be_converted_to_channels_without_a_meaning(found, channels):
    with pytest.raises(
        EncodeError, match=f"an array of {found} channels .*1 or 3.*, got channels={channels}"
    ):
        encode(picture(4, 4, found), "raw", channels)


@pytest.mark.parametrize("encoding", ["jpeg", "original"])
def test_array_of_four_channels_cannot_be_kept_but_raw(encoding):
    with pytest.raises(EncodeError, match=r"an array of 4 channels .*, got channels=4"):
        encode(picture(4, 4, 4), encoding, channels=4)


@pytest.mark.parametrize("found", [0, 5])
def test_array_of_channels_without_a_meaning_cannot_be_converted(found):
    with pytest.raises(EncodeError, match=f"of 3 channels, or of 1 to 4 to convert, got {found}"):
        encode(picture(4, 4, found), "raw", channels=3)


def test_side_that_jpeg_cannot_hold_is_refused():
    # libjpeg's own limit is 65,500.
    with pytest.raises(EncodeError, match="cannot be stored as JPEG: "):
        encode(np.zeros((1, 65_535), np.uint8), "jpeg", channels=1)


def test_encoder_versions_name_pillow_and_the_libraries_it_has():
    versions = encoder_versions()
    assert versions["pillow"] == PIL.__version__
    assert set(versions) <= {"pillow", "libjpeg_turbo", "zlib", "zlib_ng"}
    assert versions["zlib"][0].isdecimal()


def test_other_objects_are_refused():
    with pytest.raises(EncodeError, match="bytes of a file or a NumPy array, got str"):
        encode("cat.jpg", "raw")


@pytest.mark.parametrize("name", ["plain.jpg", "plain.png", "bmp.bmp", "rgba.png", "lossless.jpg"])
def test_number_of_pixels_is_limited_by_an_option(name):
    assert encode(read(name), "original", max_pixels=24 * 40).height == 24
    message = (
        "too large: expected at most max_pixels=959 pixels, got 960, size (height, width) "
        "(24, 40). Raise max_pixels if it is meant."
    )
    for check in ("decode", "header", "none"):
        with pytest.raises(EncodeError, match=f"^{re.escape(message)}$") as caught:
            encode(read(name), "original", max_pixels=24 * 40 - 1, check=check)
        assert caught.value.reason == "too large"


def test_image_that_tensorflow_cannot_decode_for_its_size_is_only_stored_raw(monkeypatch):
    # In the place of 2**29 - 1, whose images take seconds.
    monkeypatch.setattr(encode_module, "_MAX_DECODED_PIXELS", 24 * 40 - 1)
    for name in ("plain.jpg", "plain.png", "bmp.bmp"):
        for encoding in ("original", "jpeg"):
            with pytest.raises(
                EncodeError,
                match=r'^too large: TensorFlow decodes .* at most 959 .*got 960.*"raw"\.$',
            ) as caught:
                encode(read(name), encoding)
            assert caught.value.reason == "too large"
        assert encode(read(name), "raw").height == 24
        assert encode(read(name), "jpeg", store_size=23).height == 23


@pytest.mark.parametrize(
    ("image", "options", "reason"),
    [
        (read("plain.png"), {"shape_from": (28, 28)}, "wrong size"),
        (picture(8, 6, 3), {"shape_from": (28, 28)}, "wrong size"),
        (np.zeros((0, 5), np.uint8), {}, "wrong size"),
        (np.zeros((65_536, 1), np.uint8), {}, "too large"),
        (np.zeros((4, 5, 3), np.float32), {}, "wrong array"),
        (picture(4, 4, 5), {}, "wrong array"),
        (picture(4, 4, 3), {"channels": 2}, "wrong array"),
        ("cat.jpg", {}, "not an image"),
        (np.zeros((1, 65_535, 3), np.uint8), {"encoding": "jpeg"}, "cannot be stored"),
    ],
)
def test_each_fault_of_an_image_has_its_reason(image, options, reason):
    with pytest.raises(EncodeError) as caught:
        encode(image, **{"encoding": "raw", **options})
    assert caught.value.reason == reason


# Prints by how many MB the memory of a process grows while files are refused.
REFUSE_BOMBS = """
import pathlib, resource, sys
from PIL import Image
from tfrds.errors import EncodeError
from tfrds.spec import ImageSpec
from tfrds.write.encode import encode_image

def peak():
    units_per_mb = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / units_per_mb

def refuse(path, check, encoding):
    try:
        encode_image(path.read_bytes(), ImageSpec(encoding=encoding, channels=3, check=check))
    except EncodeError as error:
        return error.reason

files = sorted(pathlib.Path(sys.argv[1]).iterdir())
encode_image(pathlib.Path(sys.argv[2]).read_bytes(), ImageSpec(encoding="raw", channels=3))
limit = Image.MAX_IMAGE_PIXELS
Image.init()
before = peak()
for path in files:
    for check in ("decode", "header", "none"):
        for encoding in ("original", "raw"):
            print(path.name, refuse(path, check, encoding))
assert Image.MAX_IMAGE_PIXELS == limit
print("MB", round(peak() - before))
"""


def test_small_files_that_claim_to_be_huge_are_refused_before_memory_is_taken(tmp_path):
    """Each says 50,000 x 50,000, which would take 7.5 GB."""
    side = 50_000
    short, long = struct.pack("<H", side), struct.pack("<I", side)
    small = {kind: encoded(picture(8, 6, 3), kind) for kind in ("GIF", "BMP", "TIFF")}
    vp8x = b"VP8X" + struct.pack("<II", 10, 0) + 2 * (side - 1).to_bytes(3, "little")
    tiff = small["TIFF"]
    for tag, old in ((256, 6), (257, 8)):
        entry = struct.pack("<HHII", tag, 4, 1, old)
        assert entry in tiff
        tiff = tiff.replace(entry, entry[:8] + long)
    files = {
        "bomb.png": read("bomb.png"),
        "bomb.jpg": read("bomb.jpg"),
        "bomb.gif": small["GIF"][:6] + short + short + small["GIF"][10:],
        "bomb.bmp": small["BMP"][:18] + long + long + small["BMP"][26:],
        "bomb.tif": tiff,
        "bomb.webp": b"RIFF" + struct.pack("<I", 4 + len(vp8x)) + b"WEBP" + vp8x,
        "bomb.ppm": b"P6 50000 50000 255\n" + bytes(30),
    }
    for name, data in files.items():
        put(tmp_path / name, data)
    process = run_script(REFUSE_BOMBS, tmp_path, DUMMY_DATA / "plain.jpg")
    assert process.returncode == 0, process.stderr
    *reasons, memory = process.stdout.splitlines()
    assert set(reasons) == {f"{name} too large" for name in files}
    assert int(memory.split()[1]) < 20


@pytest.mark.parametrize("limit", [100, None])
@pytest.mark.filterwarnings("error")
def test_callers_limit_of_pillow_decides_nothing_and_stays(monkeypatch, limit):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    for name in ACCEPTED:
        if not name.endswith("webp"):  # Pillow cannot open one to see its size
            encode(read(name), "raw", image_size=(20, 20), resize="crop")
            encode(read(name), "original")
    for name in ("bomb.png", "truncated.gif", "float.tif"):
        with pytest.raises(EncodeError):
            encode(read(name), "original")
    assert Image.MAX_IMAGE_PIXELS == limit
