import random

import counting
import foreign_files
import image_bytes
import images
import numpy as np
import pytest
import tensorflow as tf

from tfrds.disk.index import JPEG, PNG, RAW, ROW
from tfrds.errors import ConfigError, SourceError
from tfrds.write.adopt_scan import choose_adoption, scan_file
from tfrds.write.sources.record_arguments import RecordArguments

BUILD = r"Build a dataset from it instead: tfrds.build\(name, tfrds.sources.TFRecords\("


def scan(path, **arguments):
    return scan_file(path, choose_adoption(path, RecordArguments(**arguments)))


def write_raw(path, pixels, labels):
    return foreign_files.write(path, foreign_files.raw_records(pixels, labels))


def stored(path, rows):
    """Returns the image bytes that the rows point at."""
    content = path.read_bytes()
    starts = rows["offset"] + 12 + rows["image_offset"]
    return [
        content[start : start + length]
        for start, length in zip(starts.tolist(), rows["image_length"].tolist(), strict=True)
    ]


@pytest.mark.parametrize("shape", [(224, 224, 3), (28, 28, 1), (17, 31, 3)])
def test_rows_point_at_the_raw_pixels_that_tensorflow_wrote(tmp_path, shape):
    pixels = [np.random.default_rng(seed).integers(0, 256, shape, np.uint8) for seed in range(4)]
    labels = [3, 0, 300, 2**40]
    path = write_raw(tmp_path / "train1.tfrecord", pixels, labels)
    known = {"image_size": shape[:2], "channels": shape[2]} if shape[0] == 17 else {}
    found = scan(path, **known)
    assert found.rows.dtype == ROW
    assert stored(path, found.rows) == [image.tobytes() for image in pixels]
    assert found.labels.tolist() == labels
    assert found.labels.dtype == np.int64
    frames = images.frames(path)
    assert found.rows["offset"].tolist() == [offset for offset, _ in frames]
    assert found.rows["length"].tolist() == [len(data) for _, data in frames]
    for name, value in zip(("height", "width", "channels"), shape, strict=True):
        assert (found.rows[name] == value).all()
    assert (found.rows["encoding"] == RAW).all()
    assert (found.rows["label"] == -1).all()
    assert found.rows["content"].tolist() == [bytes(16)] * 4
    assert (found.path, found.num_bytes) == (path, path.stat().st_size)
    assert found.mtime_ns == path.stat().st_mtime_ns


def test_rows_of_image_files_have_what_their_headers_say(tmp_path):
    files = [
        (images.encoded(images.noise(0, 5, 9), "JPEG"), (5, 9, JPEG, 3)),
        (images.encoded(images.noise(1, 7, 3, 1), "JPEG"), (7, 3, JPEG, 1)),
        (images.encoded(images.noise(2, 40, 30), "JPEG", progressive=True), (40, 30, JPEG, 3)),
        (images.encoded(images.noise(3, 6, 4)), (6, 4, PNG, 3)),
        (images.encoded(images.noise(4, 4, 6, 1)), (4, 6, PNG, 1)),
        (with_large_exif(images.noise(5, 11, 12)), (11, 12, JPEG, 3)),
    ]
    records = [
        {
            "image/encoded": data,
            "image/class/label": 1 + number,
            "image/height": 999,
            "image/filename": "x" * number,
            "image/class/text": f"class {number}",
        }
        for number, (data, _) in enumerate(files)
    ]
    path = foreign_files.write(tmp_path / "a", records)
    found = scan(path)
    assert stored(path, found.rows) == [data for data, _ in files]
    columns = zip(
        *(found.rows[n].tolist() for n in ("height", "width", "encoding", "channels")), strict=True
    )
    assert list(columns) == [about for _, about in files]
    assert found.labels.tolist() == [1, 2, 3, 4, 5, 6]
    by_text = scan(path, label_key="image/class/text")
    assert [name.decode() for name in by_text.labels] == [f"class {n}" for n in range(6)]
    for data, (height, width, _, channels) in files:
        assert tf.io.decode_image(data).shape == (height, width, channels)


def test_images_that_exif_turns_are_counted(tmp_path, dummy_data):
    names = ["plain.jpg", *(f"exif_orientation_{turn}.jpg" for turn in (1, 3, 6, 9))]
    names += ["exif_rotated.png", "plain.png"]
    records = [{"image": (dummy_data / name).read_bytes(), "label": 0} for name in names]
    path = foreign_files.write(tmp_path / "a", records)
    assert scan(path).num_turned == 3
    assert scan(foreign_files.write(tmp_path / "b", records[:2])).num_turned == 0
    raw = write_raw(tmp_path / "c", [images.noise(0, 8, 8)], [0])
    assert scan(raw).num_turned == 0


def with_large_exif(pixels):
    jpeg = images.encoded(pixels, "JPEG")
    segments = [(0xE1, b"Exif\0\0" + bytes(60_000)), (0xFE, b"\xff" * 9_000)]
    return image_bytes.with_segments(jpeg, *segments)


def test_files_without_labels_are_scanned(tmp_path):
    path = foreign_files.write(tmp_path / "a", [{"image": images.encoded(images.noise(0, 5, 9))}])
    assert scan(path, label_kind="none").labels is None


def test_one_layout_serves_all_files(tmp_path):
    for number in range(3):
        pixels = [images.noise(number, 8, 8)] * (number + 1)
        write_raw(tmp_path / f"{number}", pixels, [number] * (number + 1))
    layout = choose_adoption(str(tmp_path / "*"), RecordArguments())
    found = [scan_file(tmp_path / f"{number}", layout) for number in range(3)]
    assert [file.labels.tolist() for file in found] == [[0], [1, 1], [2, 2, 2]]


def test_the_shape_may_stand_in_each_record(tmp_path):
    shape = {"height": 17, "width": 31, "depth": 3}
    records = [
        {**record, **shape}
        for record in foreign_files.raw_records([images.noise(n, 17, 31) for n in range(3)], "012")
    ]
    path = foreign_files.write(tmp_path / "a", records)
    rows = scan(path, label_key="label").rows
    assert [rows[name][2] for name in ("height", "width", "channels")] == [17, 31, 3]
    # Of as many bytes, but turned.
    turned = [*records[:2], {**records[2], "height": 31, "width": 17}]
    path = foreign_files.write(tmp_path / "b", turned)
    with pytest.raises(
        SourceError,
        match=r"b record 2: cannot be used where it lies: raw pixels "
        r"must have one shape, 17x31x3 .*got 31x17x3. " + BUILD,
    ):
        scan(path, label_key="label")


def test_raw_pixels_of_several_sizes_must_be_built_from(tmp_path):
    pixels = [images.noise(0, 8, 8), images.noise(1, 8, 8, 1)]
    path = write_raw(tmp_path / "a", pixels, [0, 1])
    with pytest.raises(SourceError, match=r"raw pixels must have one shape, their number differs"):
        scan(path, image_size=8)


# What must be built from instead.


def test_a_gzip_file_must_be_built_from(tmp_path):
    records = foreign_files.raw_records([images.noise(0, 8, 8)], [0])
    path = foreign_files.write(tmp_path / "a.tfrecord", records, "GZIP")
    message = r"a.tfrecord: cannot be used where it lies: images in a GZIP file cannot be reached.*"
    with pytest.raises(SourceError, match=message + BUILD):
        scan(path)
    plain = foreign_files.write(tmp_path / "b.tfrecord", records)
    with pytest.raises(SourceError, match=message):
        scan_file(path, choose_adoption(plain, RecordArguments()))


@pytest.mark.parametrize(
    ("image", "arguments", "what"),
    [
        ([0.5] * 48, {}, "a list of floats"),
        (np.full(48, 0.5, "<f4").tobytes(), {}, "what looks like float32 pixels"),
        (np.full(48, 0.5, "<f8").tobytes(), {"pixel_dtype": "float64"}, "float64 pixels"),
        (bytes(range(48)), {"pixel_dtype": "int8"}, "int8 pixels"),
        (bytes(48), {"pixel_range": (0, 1)}, r"pixels of pixel_range=\(0.0, 1.0\)"),
    ],
)
def test_other_pixels_must_be_built_from(tmp_path, image, arguments, what):
    path = foreign_files.write(tmp_path / "a", [{"image": image, "label": 0}])
    message = rf"a: cannot be used where it lies: raw pixels must be uint8 .*'image' holds {what}. "
    with pytest.raises(SourceError, match=message + BUILD):
        scan(path, **arguments)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("webp.webp", "expected a JPEG or PNG, got webp"),
        ("cmyk.jpg", "expected a JPEG of 1 or 3 channels, got 4"),
        ("rgba.png", "gray or RGB .* got 8 bits of colour type 6"),
        ("rgb_trns.png", "expected a PNG without transparency"),
    ],
)
def test_other_images_must_be_built_from(tmp_path, dummy_data, name, what):
    png, other = images.encoded(images.noise(0, 8, 8)), (dummy_data / name).read_bytes()
    records = [{"image": data, "label": 0} for data in (png, png, png, other)]
    path = foreign_files.write(tmp_path / "a", records)
    message = rf"a record 3: cannot be used where it lies: feature 'image': .*{what}.*"
    with pytest.raises(SourceError, match=message + BUILD):
        scan(path)


@pytest.mark.parametrize(
    ("label", "arguments", "what"),
    [
        ([1, 2], {}, r"'label' holds int64 \('multi'\)"),
        (1.0, {}, r"'label' holds float \('single'\)"),
        (0.5, {"label_kind": "value"}, r"'label' holds float \('value'\)"),
    ],
)
def test_other_labels_must_be_built_from(tmp_path, label, arguments, what):
    path = foreign_files.write(tmp_path / "a", [{"image": bytes(48), "label": label}])
    message = (
        rf"a: cannot be used where it lies: a label must be one class as int64 or text, {what}. "
    )
    with pytest.raises(SourceError, match=message + BUILD):
        scan(path, **arguments)


# What is wrong.


def test_what_cannot_be_decided_lists_the_keys(tmp_path):
    path = foreign_files.write(tmp_path / "a", [{"x": bytes(range(100)) * 2, "label": 0}])
    with pytest.raises(
        ConfigError, match=r"image_key: .*cannot be told(.|\n)*\nx: bytes, 1 value of 200"
    ):
        scan(path)
    with pytest.raises(ConfigError, match=r"image_key: feature 'y': missing, expected one of"):
        scan(path, image_key="y")


def test_each_fault_names_file_record_and_numbers(tmp_path):
    image = bytes(range(192))
    good = [{"image_raw": image, "label": 0}] * 120
    for bad, message in [
        ({"image_raw": image[:-1], "label": 0}, "expected 192 bytes for 8x8x3 of uint8, got 191"),
        ({"image_raw": image}, r"feature 'label': missing, expected one of \['image_raw'\]"),
        ({"label": 0}, r"feature 'image_raw': missing, expected one of \['label'\]"),
        (
            {"image_raw": image, "label": 0.5},
            "'label': expected int64 as in other records, got float",
        ),
        ({"image_raw": image, "label": [1, 2]}, "feature 'label': expected at most 1 value, found"),
        ({"image_raw": [0.5], "label": 0}, "expected the image as bytes, got float"),
        (b"no example", "no tf.train.Example: expected"),
    ]:
        path = foreign_files.write(tmp_path / "some.tfrecord", [*good, bad])
        with pytest.raises(SourceError, match=rf"some.tfrecord record 120: .*{message}"):
            scan(path)
    path = foreign_files.write(path, good)
    images.put(path, path.read_bytes()[:-7])
    with pytest.raises(
        SourceError,
        match=r"some.tfrecord record 119: cut off: expected 2\d\d bytes, "
        r"found 2\d\d",
    ):
        scan(path)
    content = bytearray(path.read_bytes())
    content[images.frames(foreign_files.write(path, good))[110][0] + 9] ^= 1
    images.put(path, bytes(content))
    with pytest.raises(
        SourceError, match=r"record 110: damaged: expected the checksum \w{8} of its"
    ):
        scan(path)
    images.put(path, b"")
    with pytest.raises(SourceError, match=r"some.tfrecord: empty file"):
        scan(path)
    images.put(path, "label,file\n")
    with pytest.raises(SourceError, match=r"some.tfrecord: no TFRecord file"):
        scan(path)


def test_a_long_text_as_label_is_refused(tmp_path):
    records = [{"image": bytes(48), "label": "x"}] * 101 + [
        {"image": bytes(48), "label": "x" * 5_000}
    ]
    path = foreign_files.write(tmp_path / "a", records)
    with pytest.raises(SourceError, match=r"a record 101: .*at most 4,096 bytes, got 5,000"):
        scan(path)


# Amounts.


def test_headers_only_are_read(tmp_path, monkeypatch):
    pixels = [images.noise(0, 224, 224)] * 60
    path = write_raw(tmp_path / "a", pixels, range(60))
    layout = choose_adoption(path, RecordArguments())
    counted = counting.CountingPread(monkeypatch)
    assert len(scan_file(path, layout).rows) == 60
    assert sum(counted.sizes) < 60 * 10_000


def test_ten_thousand_files_of_one_record_are_scanned(tmp_path):
    record = foreign_files.framed(foreign_files.example({"image_raw": bytes(48), "label": 1}))
    for number in range(10_000):
        (tmp_path / f"{number:05}").write_bytes(record)
    layout = choose_adoption(str(tmp_path / "*"), RecordArguments())
    found = [scan_file(tmp_path / f"{number:05}", layout) for number in range(10_000)]
    assert sum(len(file.rows) for file in found) == 10_000


def test_mutated_files_give_source_errors_or_rows_inside_of_the_file(tmp_path):
    files = [images.encoded(images.noise(n, 8, 8), kind) for n, kind in enumerate(("JPEG", "PNG"))]
    records = [{"image": data, "label": 3, "more": [0.5, 1]} for data in files]
    path = foreign_files.write(tmp_path / "a", records)
    layout = choose_adoption(path, RecordArguments())
    whole, outcomes = path.read_bytes(), set()
    frames = images.frames(path)
    for seed in range(800):
        chosen, content = random.Random(seed), bytearray(whole)
        for _ in range(chosen.choice((1, 2))):
            offset, data = chosen.choice(frames)
            content[offset + 12 + chosen.randrange(len(data))] = chosen.randrange(256)
        if seed % 10 == 0:
            del content[chosen.randrange(len(content)) :]
        damaged = images.put(tmp_path / "b", bytes(content))
        try:
            rows = scan_file(damaged, layout).rows
        except SourceError:
            outcomes.add("refused")
            continue
        outcomes.add("scanned")
        ends = rows["offset"] + 12 + rows["image_offset"] + rows["image_length"]
        assert (ends <= rows["offset"] + 12 + rows["length"]).all()
    assert outcomes == {"refused", "scanned"}
