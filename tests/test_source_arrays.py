import os
import pickle
import re

import images
import numpy as np
import pytest
import xxhash

from tfrds.errors import SourceError
from tfrds.write.sources import Arrays

IMAGES = np.stack([images.noise(seed, 4, 5) for seed in range(6)])
GRAY = IMAGES[..., 0]


def test_integer_labels_number_the_classes():
    references = Arrays(IMAGES, [0, 3, 1, 0, 3, 1]).scan()
    assert references.labels.tolist() == [0, 3, 1, 0, 3, 1]
    assert references.labels.dtype == np.int32
    assert references.class_names == ("0", "1", "2", "3")
    assert references.has_numbered_classes
    assert references.shape == (4, 5, 3)
    assert references.sizes.tolist() == [60] * 6
    assert references.splits is None


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64, ">i4"])
def test_any_integer_type_will_do(dtype):
    references = Arrays(IMAGES, np.array([0, 1, 2, 2, 1, 0], dtype)).scan()
    assert references.labels.tolist() == [0, 1, 2, 2, 1, 0]


@pytest.mark.parametrize("dtype", [None, object])
def test_string_labels_name_the_classes(dtype):
    labels = np.array(["dog", "cat", "dog", "ant", "cat", "cat"], dtype)
    references = Arrays(IMAGES, labels).scan()
    assert [references.class_names[label] for label in references.labels] == labels.tolist()
    assert sorted(references.class_names) == ["ant", "cat", "dog"]
    assert not references.has_numbered_classes


def test_images_without_channels_have_one():
    references = Arrays(GRAY, [0] * 6).scan()
    assert references.shape == (4, 5, 1)
    assert references.sizes.tolist() == [20] * 6


@pytest.mark.parametrize(
    ("count", "first", "last"),
    [(1, b"0", b"0"), (10, b"0", b"9"), (11, b"00", b"10"), (1001, b"0000", b"1000")],
)
def test_keys_are_zero_padded_numbers(count, first, last):
    keys = Arrays(np.zeros((count, 1, 1), np.uint8), np.zeros(count, int)).scan().keys
    assert (len(keys), keys[0], keys[count - 1]) == (count, first, last)


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (IMAGES.astype(np.float32), "float32 [6, 4, 5, 3]"),
        (IMAGES.astype(np.int64), "int64 [6, 4, 5, 3]"),
        (IMAGES > 5, "bool [6, 4, 5, 3]"),
        (IMAGES[0, 0], "uint8 [5, 3]"),
        (IMAGES[None], "uint8 [1, 6, 4, 5, 3]"),
    ],
)
def test_images_of_other_type_or_shape_are_refused(array, found):
    with pytest.raises(SourceError, match=f"images: expected uint8 .* got {re.escape(found)}"):
        Arrays(array, np.zeros(len(array), int))


def test_images_without_pixels_are_refused():
    with pytest.raises(
        SourceError, match=r"images: expected sides of at least 1, got the shape \[3, 0, 5\]"
    ):
        Arrays(np.zeros((3, 0, 5), np.uint8), [0, 0, 0])


@pytest.mark.parametrize(
    ("labels", "shape"),
    [([0] * 5, "[5]"), ([0] * 7, "[7]"), ([], "[0]"), (np.eye(6, dtype=int), "[6, 6]"), (3, "[]")],
)
def test_labels_of_another_length_or_shape_are_refused(labels, shape):
    with pytest.raises(
        SourceError,
        match=f"labels: expected one label for each of the 6.*got the shape {re.escape(shape)}",
    ):
        Arrays(IMAGES, labels)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2, -1, 0, -5], r"labels\[5\]: expected a class number from 0 to 9,999,999, got -5"),
        ([0, 1, 20_000_000, 0, 0, 0], r"labels\[2\]: expected a class number .* got 20000000"),
        (np.array([0, 2**63, 0, 0, 0, 0], np.uint64), r"labels\[1\]: .* got 9223372036854775808"),
        (
            [0.0, 1.0, 2.0, 0.0, 0.0, 0.0],
            "labels: expected integers from 0 or strings, got float64",
        ),
        ([True, False] * 3, "labels: expected integers from 0 or strings, got bool"),
        ([b"cat"] * 6, r"labels: expected integers from 0 or strings, got \|S3"),
        (
            np.array(["a", "b", 3, "a", "b", "a"], object),
            r"labels\[2\]: expected a string .* got 3",
        ),
        (
            np.array(["a", None, "b", "a", "b", "a"], object),
            r"labels\[1\]: expected a string .* got None",
        ),
        (["a", "b ", "a", "a", "a", "a"], r"labels: a class's name must not .* got 'b '"),
        (["a", "", "a", "a", "a", "a"], r"labels: a class's name must not be empty.* got ''"),
        (["a", "b\nc", "a", "a", "a", "a"], r"labels: a class's name .* got 'b\\nc'"),
        (["é", "e\u0301"] * 3, "labels: 2 class names are equal after .*NFC.*'é'"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels, message):
    with pytest.raises(SourceError, match=message):
        Arrays(IMAGES, labels).scan()


def test_decomposed_names_are_composed():
    references = Arrays(IMAGES, ["e\u0301"] * 6).scan()
    assert references.class_names == ("é",)


def test_npy_files_are_mapped_and_not_read(tmp_path):
    np.save(tmp_path / "images.npy", IMAGES)
    np.save(tmp_path / "labels.npy", np.array(["a", "b"] * 3))
    source = Arrays(tmp_path / "images.npy", str(tmp_path / "labels.npy"))
    assert isinstance(source._images, np.memmap)
    assert source.scan().class_names == ("a", "b")
    inputs = source.inputs(np.array([5, 2]))
    assert (inputs.read(0) == IMAGES[5]).all()
    assert (inputs.read(1) == IMAGES[2]).all()


@pytest.mark.parametrize(
    "data",
    [None, b"", b"text", b"\x93NUMPY\x01\x00\x10\x00(               "],
    ids=["missing", "empty", "text", "broken header"],
)
def test_npy_file_that_cannot_be_mapped_is_named(tmp_path, data):
    if data is not None:
        images.put(tmp_path / "a.npy", data)
    with pytest.raises(SourceError, match=r"images: .*a\.npy cannot be mapped as a \.npy file"):
        Arrays(tmp_path / "a.npy", [0])
    with pytest.raises(SourceError, match=r"labels: .*cannot be mapped"):
        Arrays(IMAGES, tmp_path / "a.npy")


def test_pickled_npy_file_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(SourceError, match=r"labels: .*cannot be mapped"):
        Arrays(IMAGES[:1], tmp_path / "a.npy")


def test_pickled_inputs_hold_their_own_images_only(tmp_path):
    many = np.zeros((1000, 10, 10), np.uint8)
    many[7] = images.noise(0, 10, 10, 1)
    np.save(tmp_path / "images.npy", many)
    for source in (
        Arrays(many, np.zeros(1000, int)),
        Arrays(tmp_path / "images.npy", np.zeros(1000, int)),
    ):
        data = pickle.dumps(source.inputs(np.array([7, 3])))
        assert len(data) < 1000
        inputs = pickle.loads(pickle.dumps(pickle.loads(data)))
        assert len(inputs) == 2
        assert (inputs.read(0) == many[7]).all()
        assert inputs.name(0) == "images[7]"
        assert inputs.name(1) == "images[3]"


def test_no_images_scan_to_nothing():
    references = Arrays(np.zeros((0, 2, 2), np.uint8), np.zeros(0, int)).scan()
    assert len(references.keys) == 0
    assert references.class_names == ()


def test_arrays_need_no_workers():
    assert Arrays.is_in_memory
    assert Arrays.kind == "arrays"


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3), (1, 1), (700, 800, 3)])
def test_stamp_of_an_array_in_memory_is_its_content(shape):
    pixels = np.random.default_rng(0).integers(0, 256, (9, *shape), np.uint8)
    stamps = Arrays(pixels, np.arange(9)).scan().stamps
    expected = [xxhash.xxh3_64(image.tobytes()).intdigest() for image in pixels]
    assert (stamps.dtype, stamps.tolist()) == (np.uint64, expected)
    changed = pixels.copy()
    changed[(5, *(side - 1 for side in shape))] ^= 1
    again = Arrays(changed, np.arange(9)).scan().stamps
    assert np.flatnonzero(again != stamps).tolist() == [5]
    # However the array lies in memory.
    other = np.asfortranarray(pixels)[::-1]
    assert Arrays(other, np.arange(9)).scan().stamps.tolist() == expected[::-1]


def test_stamps_of_blocks_that_do_not_divide_the_array_are_complete():
    pixels = np.random.default_rng(0).integers(0, 256, (2_500, 20, 30), np.uint8)
    stamps = Arrays(pixels, np.zeros(2_500, int)).scan().stamps
    for row in (0, 1_746, 1_747, 1_748, 2_499):
        assert stamps[row] == xxhash.xxh3_64(pixels[row].tobytes()).intdigest()


def test_stamp_of_a_mapped_array_is_its_files_size_and_time_of_change(tmp_path):
    np.save(tmp_path / "images.npy", np.zeros((5, 2, 3), np.uint8))

    def stamps():
        return set(Arrays(tmp_path / "images.npy", np.arange(5)).scan().stamps.tolist())

    before = stamps()
    assert len(before) == 1
    assert stamps() == before
    status = (tmp_path / "images.npy").stat()
    os.utime(tmp_path / "images.npy", ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert stamps() != before
    os.utime(tmp_path / "images.npy", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert stamps() == before


def test_no_images_have_no_stamps():
    assert Arrays(np.zeros((0, 2, 2), np.uint8), np.zeros(0, int)).scan().stamps.shape == (0,)
