import copy
import gzip
import os
import pathlib
import pickle
import random
import subprocess
import sys

import binary_labels
import counting
import foreign_files
import images
import numpy as np
import pytest
import tensorflow as tf

import tfrds
from tfrds.errors import ConfigError, DatasetError, SourceError
from tfrds.write.sources import unpacked_records
from tfrds.write.sources.record_guess import inspect_records
from tfrds.write.sources.tfrecords import TFRecords

LABELS = [0, 1, 2, 1, 0, 2, 2]


def photos(count=7, height=6, width=6, channels=3):
    return [images.noise(seed, height, width, channels) for seed in range(count)]


def write_raw(path, pixels=None, labels=LABELS, **arguments):
    pixels = photos(len(labels)) if pixels is None else pixels
    return foreign_files.write(path, foreign_files.raw_records(pixels, labels), **arguments)


def read_all(source):
    """Returns (references, all images), through a pickle as a worker gets them."""
    references = source.scan()
    inputs = pickle.loads(pickle.dumps(source.inputs(np.arange(len(references.keys)))))
    return references, [inputs.read(position) for position in range(len(inputs))]


def check_pixels(found, expected):
    assert [image.dtype for image in found] == [np.uint8] * len(expected)
    for image, original in zip(found, expected, strict=True):
        np.testing.assert_array_equal(image, original.reshape(image.shape))


def keys(references):
    return [key.decode() for key in references.keys]


# What is read.


def test_raw_pixels_and_labels_are_those_that_tensorflow_wrote(tmp_path):
    pixels = photos(5, 224, 224)
    paths = [tmp_path / "train1.tfrecord", tmp_path / "train2.tfrecord"]
    write_raw(paths[0], pixels[:3], [4, 0, 1])
    write_raw(paths[1], pixels[3:], [0, 200])
    references, found = read_all(TFRecords(paths))
    check_pixels(found, pixels)
    assert found[0].shape == references.shape == (224, 224, 3)
    assert references.labels.tolist() == [4, 0, 1, 0, 200]
    assert (references.label_kind, references.labels.dtype) == ("single", np.int32)
    assert references.class_names == tuple(str(number) for number in range(201))
    assert references.has_numbered_classes
    assert references.splits is None
    assert references.sizes.tolist() == [150_528] * 5
    assert keys(references) == [
        *(f"train1.tfrecord/{number}" for number in range(3)),
        *(f"train2.tfrecord/{number}" for number in range(2)),
    ]
    where = f"{paths[0]} and 1 more: "
    assert references.notes == (
        f"{where}image: 'image_raw', uint8 pixels of 224x224x3 (height x width x channels), a "
        "square guessed from its 150,528 bytes.",
        f"{where}label: 'label', one class each.",
    )


def test_any_keys_can_be_given(tmp_path):
    pixels = photos(2, 17, 31)
    records = [
        {"a": image.tobytes(), "b": b"mask", "x": number, "y": 9, "z": [1, 2]}
        for number, image in enumerate(pixels)
    ]
    path = foreign_files.write(tmp_path / "a", records)
    source = TFRecords(path, image_key="a", label_key="x", image_size=(17, 31), channels=3)
    references, found = read_all(source)
    check_pixels(found, pixels)
    assert (found[0].shape, references.shape) == ((17, 31, 3), (17, 31, 3))
    assert references.labels.tolist() == [0, 1]


def test_the_channels_follow_from_the_size(tmp_path):
    path = write_raw(tmp_path / "a", photos(7, 17, 31, 1))
    assert TFRecords(path, image_size=(17, 31)).scan().shape == (17, 31, 1)
    path = write_raw(tmp_path / "b", photos(7, 17, 31))
    assert TFRecords(path, image_size=(17, 31)).scan().shape == (17, 31, 3)


@pytest.mark.parametrize(
    "names",
    [
        ("height", "width", "depth"),
        ("image/height", "image/width", "image/channels"),
        ("rows", "cols", None),
    ],
)
def test_the_shape_follows_from_features_of_each_record(tmp_path, names):
    pixels = [images.noise(seed, 3 + seed, 9, 3) for seed in range(4)]
    records = [
        {
            "image_raw": image.tobytes(),
            "label": 0,
            **{name: side for name, side in zip(names, image.shape, strict=True) if name},
        }
        for image in pixels
    ]
    references, found = read_all(TFRecords(foreign_files.write(tmp_path / "a", records)))
    check_pixels(found, pixels)
    assert [image.shape for image in found] == [image.shape for image in pixels]
    assert references.shape == (None, None, 3)
    assert repr(names[0]) in references.notes[0]
    assert references.sizes.tolist() == [image.size for image in pixels]


def test_sizes_of_another_image_do_not_tell_the_shape(tmp_path):
    records = [{**record, "height": 500, "width": 375} for record in raw_records(8)]
    path = foreign_files.write(tmp_path / "a", records)
    assert TFRecords(path, label_key="label").scan().shape == (6, 6, 3)


def raw_records(count):
    return foreign_files.raw_records(photos(count), [number % 3 for number in range(count)])


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_image_files_are_handed_on_as_they_are(tmp_path, kind):
    files = [images.encoded(images.noise(seed, 5 + seed, 7), kind) for seed in range(30)]
    records = [
        {
            "image/encoded": data,
            "image/class/label": 1 + number % 3,
            "image/class/text": ["tench", "hen", "ostrich"][number % 3],
            "image/class/synset": f"n0{number % 3}",
            "image/filename": f"n{number}.{kind}",
            "image/format": kind,
            "image/colorspace": "RGB",
            "image/height": 5 + number,
            "image/width": 7,
            "image/channels": 3,
            "image/object/bbox/xmin": [0.25] * (number % 3),
        }
        for number, data in enumerate(files)
    ]
    path = foreign_files.write(tmp_path / "train-00000-of-01024", records)
    with pytest.raises(
        SourceError,
        match=r"feature 'image/class/label': expected class numbers from 0, got 1 to 3 for 30 "
        r"labels without a 0. Pass label_offset=-1",
    ):
        TFRecords(path).scan()
    references, found = read_all(
        TFRecords(path, label_offset=-1, class_names=["tench", "hen", "ostrich"])
    )
    assert found == files
    assert references.labels.tolist() == [number % 3 for number in range(30)]
    assert references.class_names == ("tench", "hen", "ostrich")
    assert references.shape is None
    assert references.sizes.tolist() == [len(data) for data in files]
    by_text = TFRecords(path, label_key="image/class/text").scan()
    assert [by_text.class_names[label] for label in by_text.labels] == [
        ["tench", "hen", "ostrich"][number % 3] for number in range(30)
    ]
    assert not by_text.has_numbered_classes
    named = TFRecords(path, label_offset=0, key_key="image/filename").scan()
    assert keys(named) == [f"n{number}.{kind}" for number in range(30)]
    assert named.labels.max() == 3


@pytest.mark.parametrize(
    ("dtype", "pixel_range", "form"),
    [
        ("float32", (0, 1), "bytes"),
        ("float32", (-1, 1), "list"),
        ("float64", (0, 255), "bytes"),
        ("float64", (0, 1), "list"),
        ("int8", (-128, 127), "bytes"),
    ],
)
def test_pixels_of_other_types_become_uint8(tmp_path, dtype, pixel_range, form):
    pixels = photos(3, 8, 8)
    low, high = pixel_range
    stored = [(image / 255.0 * (high - low) + low) for image in pixels]
    if dtype == "int8":
        stored = [np.rint(values) for values in stored]
    stored = [values.astype(dtype) for values in stored]
    records = [
        {"image": values.tobytes() if form == "bytes" else values.reshape(-1), "label": number}
        for number, values in enumerate(stored)
    ]
    path = foreign_files.write(tmp_path / "a", records)
    source = TFRecords(path, pixel_dtype=dtype, pixel_range=pixel_range)
    references, found = read_all(source)
    check_pixels(found, pixels)
    assert references.shape == (8, 8, 3)
    assert references.sizes.tolist() == [192] * 3


def test_values_between_are_rounded_to_the_nearest(tmp_path):
    values = np.array([0, 0.49, 0.51, 1, 254.4, 254.6, 255, 7.2] * 2, "<f4")
    path = foreign_files.write(tmp_path / "a", [{"image": values.tobytes(), "label": 0}])
    source = TFRecords(
        path, image_size=(4, 4), channels=1, pixel_dtype="float32", pixel_range=(0, 255)
    )
    _, (found,) = read_all(source)
    assert found.reshape(-1).tolist() == [0, 0, 1, 1, 254, 255, 255, 7] * 2


def test_the_ends_of_a_range_are_those_of_the_pixels_precision(tmp_path):
    # 2.64 as float32 is a little more than 2.64 as Python has it.
    values = np.full(16, 2.64, "<f4")
    path = foreign_files.write(tmp_path / "a", [{"image": values.tobytes(), "label": 0}])
    source = TFRecords(path, pixel_dtype="float32", pixel_range=(-2.118, 2.64))
    assert (read_all(source)[1][0] == 255).all()


@pytest.mark.parametrize("bad", [1.5, -0.1, np.nan, np.inf])
def test_a_pixel_outside_of_its_range_names_record_and_value(tmp_path, bad):
    pixels = np.full((2, 4, 4), 0.5, "<f4")
    pixels[1, 2, 1] = bad
    records = [{"image": value.tobytes(), "label": 0} for value in pixels]
    path = foreign_files.write(tmp_path / "some.tfrecord", records)
    source = TFRecords(path, pixel_dtype="float32", pixel_range=(0, 1))
    source.scan()
    inputs = source.inputs(np.array([0, 1]))
    assert (inputs.read(0) == 128).all()
    message = (
        rf"some.tfrecord record 1: feature 'image': expected pixels of pixel_range=\(0, 1\), got "
        rf"{np.float32(bad)!s} at value 9"
    )
    with pytest.raises(SourceError, match=message):
        inputs.read(1)


# Labels.


def with_labels(path, labels, key="label"):
    image = photos(1)[0].tobytes()
    return foreign_files.write(path, [{"image": image, key: label} for label in labels])


def test_floats_that_hold_whole_numbers_are_class_numbers(tmp_path):
    references = TFRecords(with_labels(tmp_path / "a", [0.0, 2.0, 1.0])).scan()
    assert (references.labels.tolist(), references.label_kind) == ([0, 2, 1], "single")
    with pytest.raises(
        SourceError,
        match=r"a record 1: feature 'label': expected a whole number "
        r"as the class, got 0.5",
    ):
        TFRecords(with_labels(tmp_path / "a", [0.0, 0.5]), label_kind="single").scan()
    with pytest.raises(
        ConfigError,
        match=r"label_kind: 'label' holds floats that are no class "
        r'numbers, numbers from 0 to 0.5. Pass label_kind="value"',
    ):
        TFRecords(with_labels(tmp_path / "a", [0.0, 0.5])).scan()


def test_texts_are_class_names(tmp_path):
    path = with_labels(tmp_path / "a", ["dog", "cat", "dog", "e\u0301clair"])
    references = TFRecords(path).scan()
    assert [references.class_names[label] for label in references.labels] == [
        *("dog", "cat", "dog", "\u00e9clair")
    ]
    given = TFRecords(path, class_names=["\u00e9clair", "dog", "cat"]).scan()
    assert given.labels.tolist() == [1, 2, 1, 0]
    assert (given.class_names[0], given.has_numbered_classes) == ("\u00e9clair", True)
    with pytest.raises(
        SourceError,
        match=r"a record 1: feature 'label': expected one of the "
        r"class_names \['dog', 'cats', 'éclair'\], got 'cat'. "
        r"Did you mean 'cats'",
    ):
        TFRecords(path, class_names=["dog", "cats", "\u00e9clair"]).scan()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            b"caf\xe9",
            r"record 1: feature 'label': expected the name of a class in UTF-8, got b'caf",
        ),
        (b" dog", r"record 1: feature 'label': a class's name must not.*got ' dog'"),
        (b"x" * 5_000, r"record 1: feature 'label': expected the name of a class of at most 4,096"),
    ],
)
def test_a_text_that_is_no_class_name_names_its_record(tmp_path, bad, message):
    path = with_labels(tmp_path / "a", [b"dog", bad, b"dog"])
    with pytest.raises(SourceError, match=message):
        TFRecords(path, label_key="label").scan()


def test_lists_of_numbers_or_texts_are_several_classes(tmp_path):
    path = with_labels(tmp_path / "a", [[2, 0], [1], [], [3, 3, 0]])
    references = TFRecords(path).scan()
    assert references.label_kind == "multi"
    assert references.labels.numbers.tolist() == [0, 2, 1, 0, 3]
    assert references.labels.offsets.tolist() == [0, 2, 3, 3, 5]
    assert (references.labels.numbers.dtype, references.labels.offsets.dtype) == ("i4", "u8")
    assert references.class_names == ("0", "1", "2", "3")
    assert references.notes[1] == f"{path}: label: 'label', lists of classes."
    path = with_labels(tmp_path / "b", [["cat", "dog"], ["dog"]])
    references = TFRecords(path).scan()
    assert references.class_names == ("cat", "dog")
    assert references.labels.numbers.tolist() == [0, 1, 1]


def test_single_numbers_can_be_lists_of_one(tmp_path):
    references = TFRecords(with_labels(tmp_path / "a", [2, 0, 1]), label_kind="multi").scan()
    assert references.labels.offsets.tolist() == [0, 1, 2, 3]


def test_values_are_kept_as_floats(tmp_path):
    path = with_labels(tmp_path / "a", [0.5, -2.0, 1e20])
    references = TFRecords(path, label_kind="value").scan()
    assert references.labels.dtype == np.float32
    assert references.labels.tolist() == np.float32([0.5, -2, 1e20]).tolist()
    assert (references.label_kind, references.class_names) == ("value", ())
    path = with_labels(tmp_path / "b", [[0.5, 1.0], [2.0, 3.0]])
    assert TFRecords(path, label_kind="value").scan().labels.tolist() == [[0.5, 1], [2, 3]]
    path = with_labels(tmp_path / "c", [[3, 1], [2, 3], [0, 0]])
    assert TFRecords(path, label_kind="value").scan().labels.tolist() == [[3, 1], [2, 3], [0, 0]]
    path = with_labels(tmp_path / "d", [[0.5, 1.0], [2.0]])
    with pytest.raises(
        SourceError,
        match=r"d record 1: feature 'label': expected as many values, 2 "
        r"as in the records before, got 1",
    ):
        TFRecords(path, label_kind="value").scan()


def test_no_labels_are_read_where_none_are_asked_for(tmp_path):
    path = foreign_files.write(tmp_path / "a", [{"image": image.tobytes()} for image in photos(2)])
    with pytest.raises(
        ConfigError, match=r'label_key: .*cannot be told. Pass it, or label_kind="none"'
    ):
        TFRecords(path).scan()
    references, found = read_all(TFRecords(path, label_kind="none"))
    assert (references.label_kind, references.labels, references.class_names) == ("none", None, ())
    check_pixels(found, photos(2))


@pytest.mark.parametrize("labels", [[1, 0, 1], [1.0, 0.0, 1.0], ["yes", "no", "yes"]])
def test_two_classes_are_read_as_0_and_1(tmp_path, labels):
    records = [
        {"image": image.tobytes(), "label": label}
        for image, label in zip(photos(3), labels, strict=True)
    ]
    source = TFRecords(foreign_files.write(tmp_path / "a", records), label_kind="binary")
    expected = {"a/0": 1, "a/1": 0, "a/2": 1}
    assert binary_labels.read_labels(source, tmp_path) == expected


def test_a_source_of_another_label_kind_is_a_copy(tmp_path):
    path = with_labels(tmp_path / "a", [1.0, 0.0])
    source = TFRecords(path)
    kinds = [source.with_label_kind(kind).scan().label_kind for kind in ("value", "none", "binary")]
    assert kinds == ["value", "none", "binary"]
    assert source.scan().label_kind == "single"
    with pytest.raises(ConfigError, match=r"label_kind: expected one of .*, got 'both'"):
        source.with_label_kind("both")


@pytest.mark.parametrize(
    ("labels", "arguments", "message"),
    [
        ([1, 2, 3] * 10, {}, "got 1 to 3 for 30 labels without a 0. Pass label_offset=-1"),
        ([1, 3], {"class_names": "abc"}, "got 1 to 3 for the 3 class_names. Pass label_offset=-1"),
        ([1.0] * 10, {}, "got 1 to 1 for 10 labels without a 0"),
        ([[1, 2], [2]] * 10, {}, "got 1 to 2 for 30 labels without a 0"),
    ],
)
def test_labels_that_count_from_one_are_refused_until_it_is_said(
    tmp_path, labels, arguments, message
):
    path = with_labels(tmp_path / "a", labels)
    names = {key: list(value) for key, value in arguments.items()}
    with pytest.raises(
        SourceError, match=rf"feature 'label': expected class numbers from 0, {message}"
    ):
        TFRecords(path, **names).scan()
    flat = np.hstack(labels)
    references = TFRecords(path, label_offset=-1, **names).scan()
    found = getattr(references.labels, "numbers", references.labels)
    assert found.tolist() == (flat - 1).tolist()
    if not names:
        kept = TFRecords(path, label_offset=0, **names).scan()
        assert kept.class_names == tuple(str(number) for number in range(int(flat.max()) + 1))


@pytest.mark.parametrize("labels", [[1, 2, 3], [1, 0, 3] * 20, [2, 3] * 50])
def test_other_labels_are_taken_as_they_are(tmp_path, labels):
    assert TFRecords(with_labels(tmp_path / "a", labels)).scan().labels.tolist() == labels


@pytest.mark.parametrize(
    ("labels", "arguments", "message"),
    [
        ([0, -1, -1], {}, r"a record 1: .*from 0 to 9,999,999, got -1; such labels in all: 2"),
        ([3, 0], {"label_offset": -1}, r"a record 1: .*got -1 with label_offset=-1"),
        ([0, 2**40], {}, r"a record 1: .*from 0 to 9,999,999, got 1099511627776"),
        ([0, -(2**63)], {}, r"a record 1: .*got -9223372036854775808"),
        (
            [0, 5],
            {"class_names": ["a", "b"]},
            r"a record 1: .*from 0 to 1 of the 2 class_names, got 5",
        ),
        ([[0], [1, 7]], {"class_names": ["a", "b"]}, r"a record 1: .*got 7"),
        (
            [[0, 1, 0], [0, 0, 1]],
            {},
            r"got 3 values of 0 and 1 in each record, .*one for each class",
        ),
        ([0, [1, 2], 0], {"label_kind": "single"}, r"a record 1: .*at most 1 value, found more"),
        ([0, b"cat"], {"label_key": "label"}, r"expected numbers or text in 'label', found mixed"),
        ([0, []], {}, r"a record 1: .*'label': expected int64 as in other records, got no values"),
    ],
)
def test_labels_that_cannot_be_meant_name_their_record(tmp_path, labels, arguments, message):
    path = with_labels(tmp_path / "a", labels)
    with pytest.raises((SourceError, ConfigError), match=message):
        TFRecords(path, **arguments).scan()


def test_a_label_missing_behind_the_first_records_names_its_record(tmp_path):
    image = photos(1)[0].tobytes()
    records = [{"image": image, "label": 0}] * 150
    for last, message in [
        ({"image": image, "labl": 1}, r"feature 'label': missing, .*\['image', 'labl'\].*'labl'"),
        (
            {"image": image, "label": b"x"},
            "feature 'label': expected int64 as in other records, got bytes",
        ),
        ({"label": 1}, r"feature 'image': missing, expected one of \['label'\]"),
        ({"image": b"abc", "label": 1}, "expected 108 bytes for 6x6x3 of uint8, got 3"),
        ({"image": 5, "label": 1}, "expected the image as bytes, got int64"),
        ({"image": [b"a", b"b"], "label": 1}, "expected at most 1 value, found more"),
    ]:
        path = foreign_files.write(tmp_path / "a", [*records, last])
        with pytest.raises(SourceError, match=rf"a record 150: .*{message}"):
            TFRecords(path).scan()


def test_lists_without_a_value_are_no_image_and_no_label(tmp_path):
    image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[photos(1)[0].tobytes()]))
    label = tf.train.Feature(int64_list=tf.train.Int64List(value=[0]))
    no_image = tf.train.Feature(bytes_list=tf.train.BytesList())
    no_label = tf.train.Feature(int64_list=tf.train.Int64List())
    for pair, message in (
        ((image, no_label), "feature 'label': expected one value, got none"),
        ((no_image, label), "feature 'image': expected one value, got none"),
    ):
        records = [
            tf.train.Example(features=tf.train.Features(feature={"image": first, "label": second}))
            for first, second in ((image, label), (image, label), pair)
        ]
        data = [record.SerializeToString() for record in records]
        path = foreign_files.write(tmp_path / "a", data)
        source = TFRecords(path, image_key="image", image_size=6, channels=3)
        with pytest.raises(SourceError, match=rf"a record 2: {message}"):
            source.scan()


# Keys and files.


def test_files_are_named_relative_to_the_folder_of_all(tmp_path):
    for name in ("x/a.tfrecord", "y/a.tfrecord", "y/z/b.tfrecord"):
        write_raw(tmp_path / name, labels=[0])
    references = TFRecords(str(tmp_path / "**" / "*.tfrecord")).scan()
    assert keys(references) == ["x/a.tfrecord/0", "y/a.tfrecord/0", "y/z/b.tfrecord/0"]


def test_the_order_and_the_keys_do_not_depend_on_how_files_are_listed(tmp_path, monkeypatch):
    for number, name in enumerate("cab"):
        write_raw(tmp_path / name, labels=[number, 0])
    first = TFRecords([tmp_path / "b", tmp_path / "c"]).scan()
    monkeypatch.chdir(tmp_path)
    second = TFRecords(["./c", "b"]).scan()
    assert keys(first) == keys(second) == ["b/0", "b/1", "c/0", "c/1"]
    assert first.stamps.tolist() == second.stamps.tolist()


def test_numbers_in_keys_are_padded_with_zeros(tmp_path):
    path = write_raw(tmp_path / "a", labels=[0] * 11)
    assert keys(TFRecords(path).scan())[::5] == ["a/00", "a/05", "a/10"]


def test_a_dict_of_files_gives_splits(tmp_path):
    for name, labels in {"t1": [0, 1], "t2": [1], "v": [0]}.items():
        write_raw(tmp_path / f"{name}.tfrecord", labels=labels)
    references = TFRecords(
        {"validation": tmp_path / "v.tfrecord", "train": str(tmp_path / "t*.tfrecord")}
    ).scan()
    assert references.split_names == ("validation", "train")
    assert references.splits.tolist() == [1, 1, 1, 0]
    assert keys(references)[-1] == "v.tfrecord/0"
    with pytest.raises(ConfigError, match=r"t1.tfrecord is in two splits, 'a' and 'b'"):
        TFRecords({"a": tmp_path / "t1.tfrecord", "b": str(tmp_path / "t*")}).scan()
    with pytest.raises(ConfigError, match=r"files: a split's name is letters.*got '0'"):
        TFRecords({"0": tmp_path / "t1.tfrecord"}).scan()


def test_braces_stand_for_numbered_files(tmp_path):
    for number in range(3):
        write_raw(tmp_path / f"train-0{number}.tfrecord", labels=[number])
    references = TFRecords(tmp_path / "train-{00..02}.tfrecord").scan()
    assert references.labels.tolist() == [0, 1, 2]
    with pytest.raises(SourceError, match=r"expected 5 files, 2 are missing: .*-03\.tf.*-04"):
        TFRecords(tmp_path / "train-{00..04}.tfrecord").scan()


def test_names_that_are_not_ascii_become_keys_in_nfc(tmp_path):
    path = write_raw(tmp_path / "e\u0301.tfrecord", labels=[0])
    assert keys(TFRecords(path).scan()) == ["\u00e9.tfrecord/0"]
    strange = os.fsencode(tmp_path) + b"/\xff.tfrecord"
    os.rename(path, strange)
    assert keys(TFRecords(os.fsdecode(strange)).scan()) == ["%FF.tfrecord/0"]


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        ("none*.tfrecord", SourceError, r"none\*.tfrecord: no file fits this pattern"),
        (".", ConfigError, r"files: . is a folder. Pass a pattern, such as './\*'"),
        ({}, ConfigError, r"files: expected at least one split, got an empty dict"),
        ({"train": []}, ConfigError, r"files: expected a path, .* got an empty list"),
    ],
)
def test_files_that_cannot_be_meant_are_named(tmp_path, monkeypatch, files, error, message):
    write_raw(tmp_path / "train.tfrecord")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        TFRecords(files).scan()


def test_keys_of_the_records_must_be_names_and_differ(tmp_path):
    image = photos(1)[0].tobytes()

    def scan(*names):
        records = [{"image": image, "label": 0, "name": name} for name in names]
        path = foreign_files.write(tmp_path / "a", records)
        return TFRecords(path, label_key="label", key_key="name").scan()

    assert keys(scan("b.jpg", "a/e\u0301.jpg")) == ["b.jpg", "a/\u00e9.jpg"]
    with pytest.raises(
        SourceError,
        match=r"a record 2: feature 'name': expected a key of its own, "
        r"got 'x', which .*a record 0 has too",
    ):
        scan("x", "y", "x")
    for bad, got in [
        ("/etc/x", "got '/etc/x'"),
        ("a/../b", r"got 'a/\.\./b'"),
        ("a\nb", r"got 'a\\nb'"),
        (b"\xff", r"in UTF-8, got b'\\xff'"),
        ("", "got 0 bytes"),
        (["a", "b"], "at most 1 value"),
        (7, "got none"),
    ]:
        with pytest.raises(SourceError, match=rf"a record 1: .*{got}"):
            scan("x", bad)


def test_stamps_change_where_an_image_may_have_changed(tmp_path):
    path = write_raw(tmp_path / "a")
    os.utime(path, ns=(10**18, 10**18))
    before = TFRecords(path).scan().stamps
    assert len(set(before.tolist())) == len(before)
    assert TFRecords(path).scan().stamps.tolist() == before.tolist()
    assert (TFRecords(path, pixel_range=(0, 200)).scan().stamps != before).all()
    os.utime(path, ns=(10**18, 10**18 + 1))
    assert (TFRecords(path).scan().stamps != before).all()


# GZIP.


def test_gzip_files_give_what_plain_ones_give(tmp_path):
    pixels = photos(8)
    write_raw(tmp_path / "a.tfrecord", pixels[:3], [0, 1, 2], compression="GZIP")
    write_raw(tmp_path / "b.tfrecord", pixels[3:5], [2, 1])
    write_raw(tmp_path / "c.tfrecord", pixels[5:], [0, 0, 1], compression="GZIP")
    scratch = tmp_path / "scratch"
    source = TFRecords(str(tmp_path / "*.tfrecord"), scratch_dir=scratch)
    references, found = read_all(source)
    check_pixels(found, pixels)
    assert references.labels.tolist() == [0, 1, 2, 2, 1, 0, 0, 1]
    inputs = source.inputs(np.array([7, 0, 4]))
    assert [inputs.name(position) for position in range(3)] == [
        *("c.tfrecord record 2", "a.tfrecord record 0", "b.tfrecord record 1")
    ]
    check_pixels([inputs.read(0)], [pixels[7]])
    assert len(list(scratch.iterdir())) == 1
    del source, inputs
    assert list(scratch.iterdir()) == []


def test_a_worker_that_does_not_see_the_unpacked_files_unpacks_each_once(tmp_path, monkeypatch):
    path = write_raw(tmp_path / "a", compression="GZIP")
    scratch = tmp_path / "scratch"
    source = TFRecords(path, scratch_dir=scratch)
    source.scan()
    inputs = source.inputs(np.arange(7))
    del source
    assert list(scratch.iterdir()) == []
    monkeypatch.setattr(unpacked_records, "_own", {})
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    calls, unpack = [], unpacked_records.unpack
    monkeypatch.setattr(
        unpacked_records, "unpack", lambda *given: calls.append(given[0]) or unpack(*given)
    )
    check_pixels(
        [inputs.read(position) for position in (3, 0, 6)], [photos(7)[n] for n in (3, 0, 6)]
    )
    assert calls == [str(path)]
    unpacked_records._own.clear()
    assert not list(tmp_path.glob("tfrds-unpacked-*"))


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    path = write_raw(tmp_path / "a", compression="GZIP")
    scratch = tmp_path / "scratch"
    code = (
        "import os, sys; from tfrds.write.sources.tfrecords import TFRecords\n"
        f"source = TFRecords({str(path)!r}, scratch_dir={str(scratch)!r})\n"
        "source.scan()\n"
    )

    def scan_and(then):
        root = pathlib.Path(__file__).resolve().parents[1]
        subprocess.run([sys.executable, "-c", code + then], cwd=root, check=True)

    scan_and("os._exit(0)")
    (left,) = scratch.iterdir()
    source = TFRecords(path, scratch_dir=scratch)
    source.scan()
    (mine,) = scratch.iterdir()
    assert mine != left
    # One that lives is left alone, and at a normal end nothing stays.
    scan_and("")
    assert list(scratch.iterdir()) == [mine]


def test_a_full_disk_is_named(tmp_path, tiny_disk):
    path = write_raw(tmp_path / "a", photos(7, 150, 150), compression="GZIP")
    with pytest.raises(
        SourceError, match=rf"a: cannot be unpacked into {tiny_disk}: No space left"
    ):
        TFRecords(path, scratch_dir=tiny_disk).scan()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    path = write_raw(tmp_path / "a", compression="GZIP")
    with pytest.raises(
        SourceError, match=r"a: cannot be unpacked into .*/a/b: (Not a|File exists)"
    ):
        TFRecords(path, scratch_dir=path / "b").scan()


def test_a_second_scan_removes_what_the_first_has_unpacked(tmp_path):
    path = write_raw(tmp_path / "a", compression="GZIP")
    source = TFRecords(iter([path]), scratch_dir=tmp_path / "scratch")
    for _ in range(2):
        assert len(source.scan().keys) == 7
    assert len(list((tmp_path / "scratch").iterdir())) == 1


def test_folders_of_others_are_left_alone(tmp_path):
    scratch = tmp_path / "scratch"
    others = [scratch / f"tfrds-unpacked-{name}" for name in ("new", "link")]
    others[0].mkdir(parents=True)  # without a lock, as one that is being made
    others[1].symlink_to(tmp_path)
    source = TFRecords(write_raw(tmp_path / "a", compression="GZIP"), scratch_dir=scratch)
    source.scan()
    assert set(others) < set(scratch.iterdir())


def test_a_worker_that_cannot_unpack_says_so(tmp_path, monkeypatch):
    path = write_raw(tmp_path / "a", compression="GZIP")
    source = TFRecords(path, scratch_dir=tmp_path / "scratch")
    source.scan()
    inputs = source.inputs(np.arange(2))
    del source
    monkeypatch.setattr(unpacked_records, "_own", {})
    path.unlink()
    with pytest.raises(DatasetError, match=r"a: expected the source's files on .*, found none"):
        inputs.read(0)


def test_the_compression_that_is_said_must_be_that_of_the_files(tmp_path):
    plain = write_raw(tmp_path / "plain")
    packed = write_raw(tmp_path / "packed", compression="GZIP")
    assert len(TFRecords(plain, compression="none").scan().keys) == 7
    assert len(TFRecords(packed, compression="GZIP").scan().keys) == 7
    with pytest.raises(SourceError, match=r"plain: expected compression='GZIP', found 'none'"):
        TFRecords(plain, compression="GZIP").scan()
    with pytest.raises(SourceError, match=r"packed: expected compression='none', found 'GZIP'"):
        TFRecords(packed, compression="none").scan()
    with pytest.raises(ConfigError, match=r"compression: expected one of .*, got 'ZLIB'"):
        TFRecords(packed, compression="ZLIB")


# Damage.


def test_damage_is_found_when_a_record_is_read_and_names_it(tmp_path):
    path = write_raw(tmp_path / "a.tfrecord")
    source = TFRecords(path)
    source.scan()
    offset, data = images.frames(path)[3]
    content = bytearray(path.read_bytes())
    content[offset + 60] ^= 1
    images.put(path, bytes(content))
    inputs = source.inputs(np.array([3, 2]))
    with pytest.raises(SourceError, match=r"^a.tfrecord record 3: damaged: expected the checksum"):
        inputs.read(0)
    check_pixels([inputs.read(1)], [photos(7)[2]])
    images.put(path, path.read_bytes()[: offset + 50])
    with pytest.raises(
        SourceError, match=rf"a.tfrecord record 3: cut off: expected {len(data)} bytes"
    ):
        inputs.read(0)
    write_raw(path, photos(7, 5, 5))
    with pytest.raises(SourceError, match=r"a.tfrecord record 3: .*changed since it was scanned"):
        inputs.read(0)


def test_a_file_that_became_a_folder_is_named(tmp_path):
    source = TFRecords(write_raw(tmp_path / "a"))
    source.scan()
    inputs = source.inputs(np.arange(2))
    (tmp_path / "a").unlink()
    (tmp_path / "a").mkdir()
    with pytest.raises(SourceError, match=r"a: expected a TFRecord file, found no regular file"):
        inputs.read(0)


def test_files_that_are_not_there_are_told_from_workers_that_see_none(tmp_path):
    for name in ("a", "b"):
        write_raw(tmp_path / name, labels=[0])
    source = TFRecords([tmp_path / "a", tmp_path / "b"])
    source.scan()
    inputs = source.inputs(np.arange(2))
    (tmp_path / "b").unlink()
    with pytest.raises(FileNotFoundError):
        inputs.read(1)
    (tmp_path / "a").unlink()
    with pytest.raises(DatasetError, match=r"a: expected the source's files on .*, found none"):
        inputs.read(0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"bad: empty file, expected at least one record"),
        (b"label,image\n0,a.png\n", r"bad: no TFRecord file, or damaged"),
        (gzip.compress(b"", mtime=0), r"bad: expected at least one record, found none"),
        (foreign_files.framed(b"no example"), r"bad record 0: no tf.train.Example: expected"),
        (foreign_files.framed(b"") + b"more", r"bad record 1: cut off: expected 12 bytes, found 4"),
        (
            foreign_files.lying_frame(500, b"abc"),
            r"bad record 0: cut off: expected 516 bytes, found",
        ),
    ],
)
@pytest.mark.parametrize("place", ["first", "behind others"])
def test_a_bad_file_is_named(tmp_path, content, message, place):
    bad = images.put(tmp_path / "bad", content)
    files = [bad]
    if place == "behind others":
        files.append(write_raw(tmp_path / "a", labels=[0] * 120))
    with pytest.raises((SourceError, ConfigError), match=message):
        TFRecords(files, image_key="image_raw" if len(files) > 1 else None).scan()


def test_mutated_files_give_documented_errors_only(tmp_path):
    records = foreign_files.raw_records(photos(3, 4, 4), [0, 1, 2])
    whole = foreign_files.write(tmp_path / "a", records).read_bytes()
    outcomes = set()
    for seed in range(300):
        chosen, content = random.Random(seed), bytearray(whole)
        frames = images.frames(tmp_path / "a")
        if seed % 2:  # inside the data, where the scan verifies no checksum
            offset, data = chosen.choice(frames)
            content[offset + 12 + chosen.randrange(len(data))] = chosen.randrange(256)
        else:
            del content[chosen.randrange(len(content)) :][: chosen.randrange(1, 60)]
            content[chosen.randrange(len(content)) % max(len(content), 1)] ^= 128
        path = images.put(tmp_path / "b", bytes(content))
        try:
            source = TFRecords(path, image_key="image_raw", label_key="label", image_size=4)
            count = len(source.scan().keys)
            inputs = source.inputs(np.arange(count))
        except (SourceError, ConfigError):
            outcomes.add("refused")
            continue
        for position in range(count):
            try:
                inputs.read(position)
                outcomes.add("read")
            except SourceError:
                outcomes.add("damaged record")
    assert outcomes == {"refused", "read", "damaged record"}


# What is said of files.


def test_what_was_found_is_told_key_by_key(tmp_path):
    records = [
        {
            "photo": images.encoded(images.noise(number, 8, 8), "JPEG"),
            "mask": images.encoded(images.noise(number, 8, 8, 1)),
            "pixels": images.noise(number, 6, 6).tobytes(),
            "floats": [0.5, 0.25] * 24,
            "name": ["cat", "dog"][number % 2],
            "id": number,
            "score": 0.5,
            "boxes": [0.5] * number,
        }
        for number in range(3)
    ]
    found = inspect_records(foreign_files.write(tmp_path / "a", records))
    size = [len(record["photo"]) for record in records]
    masks = [len(record["mask"]) for record in records]
    assert found.to_text().splitlines() == [
        "boxes: float, 0 to 2 values; numbers from 0.5 to 0.5",
        "floats: float, 48 values; float32 pixels from 0.25 to 0.5, perhaps 4x4x3",
        "id: int64, 1 value; whole numbers from 0 to 2",
        f"mask: bytes, 1 value of {sized(masks)} bytes; png images",
        "name: bytes, 1 value of 3 bytes; text such as 'cat', 'dog'",
        f"photo: bytes, 1 value of {sized(size)} bytes; jpeg images",
        "pixels: bytes, 1 value of 108 bytes; uint8 pixels, perhaps 6x6x3",
        "score: float, 1 value; numbers from 0.5 to 0.5",
    ]
    told = found.to_dict()
    assert (told["num_files"], told["num_records"]) == (1, 3)
    assert told["features"][5]["image_formats"] == ["jpeg"]
    assert told["features"][2]["values"] == [0, 2]


def sized(sizes):
    low, high = min(sizes), max(sizes)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def test_where_it_cannot_be_decided_the_error_lists_the_keys(tmp_path):
    jpeg = images.encoded(images.noise(0, 8, 8), "JPEG")
    records = [{"left": jpeg, "right": jpeg, "number": 1, "age": 30}]
    path = foreign_files.write(tmp_path / "a", records)
    listed = (
        r"\nage: int64, 1 value; whole numbers from 30 to 30"
        r"\nleft: bytes, 1 value of [\d,]+ bytes; jpeg images"
        r"\nnumber: int64, 1 value; whole numbers from 1 to 1"
        r"\nright: bytes, 1 value of [\d,]+ bytes; jpeg images$"
    )
    with pytest.raises(
        ConfigError, match=r"image_key: .*cannot be told.*first 1 records:" + listed
    ):
        TFRecords(path).scan()
    with pytest.raises(ConfigError, match=r"label_key: .*cannot be told.*" + listed):
        TFRecords(path, image_key="left").scan()
    with pytest.raises(
        ConfigError,
        match=r"label_key: feature 'nmber': missing, .*'number'\?"
        r"[^$]*" + listed,
    ):
        TFRecords(path, image_key="left", label_key="nmber").scan()
    assert len(TFRecords(path, image_key="left", label_key="number").scan().keys) == 1


def test_records_are_looked_at_in_several_files_and_a_hundred_in_all(tmp_path):
    for number in range(20):
        write_raw(tmp_path / f"{number:02}", labels=[0] * 30)
    found = inspect_records(str(tmp_path / "*"))
    assert (found.num_files, found.num_records) == (10, 100)
    packed = write_raw(tmp_path / "packed", labels=[0] * 150, compression="GZIP")
    assert inspect_records(packed).num_records == 100


@pytest.mark.parametrize(
    ("records", "lines"),
    [
        (
            [{"x": b"abc", "y": []}, {"x": b"\0"}],
            [
                "x: bytes, 1 value of 1 to 3 bytes; bytes",
                "y: empty, 0 values, in 1 of 2; no values",
            ],
        ),
        (
            [{"x": [0.5] * 20}, {"x": [0.5] * 16}],
            ["x: float, 16 to 20 values; float32 pixels from 0.5 to 0.5"],
        ),
        ([{"x": 1}, {"x": 0.5}], ["x: mixed, 1 value; several kinds"]),
        ([{"x": [b"a"] * 70_000}], ["x: bytes, 70,000 values of 0 bytes; bytes"]),
        ([{"x": list(range(70_000))}], ["x: int64, 70,000 values; numbers"]),
        ([{"x": bytes(64)}], ["x: bytes, 1 value of 64 bytes; uint8 pixels, perhaps 8x8x1"]),
        ([{}], []),
    ],
)
def test_odd_features_are_told_too(tmp_path, records, lines):
    found = inspect_records(foreign_files.write(tmp_path / "a", records))
    assert found.to_text().splitlines() == lines


def test_sizes_that_cannot_be_are_named(tmp_path):
    image = {"image_raw": photos(1, 6, 6)[0].tobytes(), "label": 0}
    good = [{**image, "height": 6, "width": 6}] * 110
    for bad, got in [
        ({"height": 0}, "0"),
        ({"height": 0.5}, "float"),
        ({"height": 70_000}, "70000"),
    ]:
        path = foreign_files.write(tmp_path / "a", [*good, {**good[0], **bad}])
        with pytest.raises(
            SourceError,
            match=rf"a record 110: feature 'height': expected a whole "
            rf"number from 1 to 65,535, got {got}",
        ):
            TFRecords(path, label_key="label").scan()


def test_sizes_tell_bytes_from_floats(tmp_path):
    # Bytes that look like float32, of which the sizes say that they are uint8.
    image = np.full(48, 0.5, "<f4").tobytes()
    records = [{"image": image, "label": 0, "height": 8, "width": 8, "depth": 3}] * 2
    path = foreign_files.write(tmp_path / "a", records)
    assert TFRecords(path, label_key="label").scan().shape == (8, 8, 3)
    assert TFRecords(path, label_key="label", image_size=8).scan().shape == (8, 8, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bytes_that_look_like_floats_are_not_taken_for_uint8(tmp_path, dtype):
    # 4x4x3 float32 are as many bytes as 8x8x3 uint8, float64 are 384, no square.
    pixels = [np.random.default_rng(seed).random((4, 4, 3)).astype(dtype) for seed in range(5)]
    records = [{"image": value.tobytes(), "label": 0} for value in pixels]
    path = foreign_files.write(tmp_path / "a", records)
    with pytest.raises(
        ConfigError, match=rf"pixel_dtype: the bytes of 'image' look like {dtype} from"
    ):
        TFRecords(path).scan()
    message = (
        rf"pixel_range: .*for the {dtype} pixels of 'image'; those looked at run from 0\.\d+ to 0"
    )
    with pytest.raises(ConfigError, match=message):
        TFRecords(path, pixel_dtype=dtype).scan()
    said = {"pixel_dtype": "uint8", "image_size": (8, 8 if dtype == "float32" else 16)}
    assert TFRecords(path, **said).scan().shape[:2] == said["image_size"]


def test_float64_of_whole_numbers_is_not_taken_for_float32(tmp_path):
    records = [{"image": image.astype("<f8").tobytes(), "label": 0} for image in photos(3, 4, 4)]
    with pytest.raises(ConfigError, match=r"look like float64 from \d+ to 2\d\d"):
        TFRecords(foreign_files.write(tmp_path / "a", records)).scan()


def test_int8_needs_its_range(tmp_path):
    path = write_raw(tmp_path / "a")
    with pytest.raises(
        ConfigError,
        match=r"pixel_range: .*int8 pixels of 'image_raw'. Pass "
        r"pixel_range=\(-128, 127\)",
    ):
        TFRecords(path, pixel_dtype="int8").scan()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"image_size": (5, 5)},
            r"image_size: 108 bytes of uint8 are not 5x5 times 1 to 4 channels, "
            r"which are 25 values each",
        ),
        ({"channels": 2}, r"image_size: the shape of 'image_raw' cannot be told, 108 bytes"),
        (
            {"label_key": "image_raw", "image_key": "image_raw"},
            r"expected another feature than the",
        ),
        ({"image_key": "label"}, r"image_key: expected an image as bytes .* found int64"),
        ({"label_key": "image_raw"}, r"which feature is the image cannot be told"),
        ({"label_kind": "value", "label_offset": 1}, r"label_offset: .*holds values, got 1"),
        (
            {"label_kind": "value", "class_names": ["a"]},
            r"class_names: .*have no classes, got 1 names",
        ),
    ],
)
def test_arguments_that_do_not_fit_the_records_are_refused(tmp_path, arguments, message):
    path = write_raw(tmp_path / "a")
    with pytest.raises(ConfigError, match=message):
        TFRecords(path, **arguments).scan()


def test_a_byte_count_that_does_not_fit_names_both_numbers(tmp_path):
    path = write_raw(tmp_path / "a")
    with pytest.raises(
        SourceError,
        match=r"a record 0: feature 'image_raw': expected 75 bytes for "
        r"5x5x3 of uint8, got 108",
    ):
        TFRecords(path, image_size=5, channels=3).scan()
    with pytest.raises(SourceError, match=r"expected 432 bytes for 6x6x3 of float32, got 108"):
        TFRecords(path, image_size=6, channels=3, pixel_dtype="float32", pixel_range=(0, 1)).scan()


def test_options_of_raw_pixels_are_refused_for_image_files(tmp_path):
    jpeg = images.encoded(images.noise(0, 8, 8), "JPEG")
    path = foreign_files.write(tmp_path / "a", [{"image": jpeg, "label": 0}])
    with pytest.raises(ConfigError, match=r"image_size: is for raw pixels, but 'image' holds jpeg"):
        TFRecords(path, image_size=8).scan()


def test_a_list_of_floats_is_no_uint8(tmp_path):
    path = foreign_files.write(tmp_path / "a", [{"image": [0.5] * 48, "label": 0}])
    with pytest.raises(
        ConfigError, match=r"pixel_dtype: 'image' is a list of floats, .*got 'uint8'"
    ):
        TFRecords(path, pixel_dtype="uint8").scan()


def test_options_about_numbers_are_refused_for_names(tmp_path):
    path = with_labels(tmp_path / "a", ["cat", "dog"])
    with pytest.raises(ConfigError, match=r"label_offset: .*'label' holds names, got -1"):
        TFRecords(path, label_offset=-1).scan()
    with pytest.raises(
        ConfigError,
        match=r"label_kind: 'value' needs numbers, but 'label' holds "
        r"bytes, text such as 'cat', 'dog'",
    ):
        TFRecords(path, label_kind="value").scan()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image_key": ""}, r"image_key: expected the key of a feature as text, got ''"),
        ({"label_key": 5}, r"label_key: expected the key of a feature as text, got 5"),
        ({"image_size": (0, 4)}, r"image_size: expected \(height, width\).* got \(0, 4\)"),
        ({"channels": 0}, r"channels: expected an integer from 1 to 65,535, got 0"),
        ({"pixel_dtype": "int16"}, r"pixel_dtype: expected one of .*, got 'int16'"),
        ({"pixel_range": (1, 0)}, r"pixel_range: expected \(low, high\).* got \(1, 0\)"),
        ({"pixel_range": 1}, r"pixel_range: expected \(low, high\).* got 1"),
        ({"label_offset": 0.5}, r"label_offset: expected an integer .*, got 0.5"),
        (
            {"class_names": "abc"},
            r"class_names: expected a list of names in their order, got 'abc'",
        ),
        ({"label_kind": "many"}, r"label_kind: expected one of .*, got 'many'"),
    ],
)
def test_wrong_arguments_are_refused_where_they_are_given(arguments, message):
    with pytest.raises(ConfigError, match=message):
        TFRecords("any", **arguments)


# Amounts.


def test_ten_thousand_files_of_one_record_are_scanned(tmp_path):
    record = foreign_files.example({"image_raw": bytes(48), "label": 1})
    for number in range(10_000):
        (tmp_path / f"{number:05}").write_bytes(foreign_files.framed(record))
    source = TFRecords(str(tmp_path / "*"), label_offset=0)
    references = source.scan()
    assert len(references.keys) == 10_000
    assert keys(references)[9_999] == "09999/0"
    inputs = source.inputs(np.array([9_999, 5]))
    assert inputs.name(0) == "09999 record 0"
    assert inputs.read(1).shape == (4, 4, 3)
    assert len(pickle.dumps(inputs)) < 2_000


def test_a_scan_reads_little_of_the_images(tmp_path, monkeypatch):
    path = write_raw(tmp_path / "a", photos(40, 224, 224), [0] * 40)
    found = inspect_records(path)
    monkeypatch.setattr("tfrds.write.sources.tfrecords.look_at", lambda *_: found)
    counted = counting.CountingPread(monkeypatch)
    TFRecords(path, image_key="image_raw", label_key="label").scan()
    assert sum(counted.sizes) < 40 * 10_000


def test_the_source_can_be_copied(tmp_path):
    source = copy.copy(TFRecords(write_raw(tmp_path / "a")))
    assert len(source.inputs(np.array([2]))) == 1
    assert (source.kind, source.is_in_memory) == ("tfrecords", False)


def test_tensorflow_reads_the_same_pixels(tmp_path):
    path = write_raw(tmp_path / "a")
    schema = {
        "image_raw": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    _, found = read_all(TFRecords(path))
    for image, record in zip(found, tf.data.TFRecordDataset(str(path)), strict=True):
        parsed = tf.io.parse_single_example(record, schema)
        expected = tf.io.decode_raw(parsed["image_raw"], tf.uint8).numpy()
        assert image.reshape(-1).tolist() == expected.tolist()


def test_a_build_holds_the_pixels_and_labels_of_the_files(tmp_path, data_dir):
    pixels = photos(12, 70, 70)
    labels = [number % 3 for number in range(12)]
    write_raw(tmp_path / "train.tfrecord", pixels[:6], labels[:6], compression="GZIP")
    write_raw(tmp_path / "test.tfrecord", pixels[6:], labels[6:])
    files = {name: tmp_path / f"{name}.tfrecord" for name in ("train", "test")}
    builder = tfrds.build("foreign", TFRecords(files), num_workers=1)
    expected = {image.tobytes(): label for image, label in zip(pixels, labels, strict=True)}
    found = {
        np.asarray(example["image"]).astype(np.uint8).tobytes(): int(np.argmax(example["label"]))
        for split in files
        for example in builder.as_dataset(split=split).as_numpy_iterator()
    }
    assert found == expected
    assert {split: builder.info.splits[split].num_examples for split in files} == {
        **{"train": 6, "test": 6}
    }
