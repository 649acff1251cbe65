import gzip
import pickle
import shutil
import struct

import numpy as np
import pytest
from source_examples import class_folder, examples, random_images

from benchmarks.fashion_mnist import load_fashion_mnist
from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources import Idx

TRAIN = random_images(9, 6, 5)
TEST = random_images(4, 6, 5, seed=1)
TRAIN_LABELS, TEST_LABELS = np.array([3, 0, 1, 1, 0, 2, 2, 3, 3]), np.array([0, 1, 2, 3])
ARRAYS = {"train": (TRAIN, TRAIN_LABELS), "test": (TEST, TEST_LABELS)}


def idx(array, kind=8, dtype="u1"):
    """Returns an array as the bytes of an idx file."""
    head = bytes((0, 0, kind, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(dtype).tobytes()


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.fixture(params=["", ".gz"])
def ending(request):
    return request.param


def put_mnist(folder, ending="", prefix="", test="t10k", form="{}-{}-idx{}-ubyte"):
    for split, (pixels, labels) in ARRAYS.items():
        name = prefix + (test if split == "test" else split)
        put(folder / (form.format(name, "images", 3) + ending), idx(pixels))
        put(folder / (form.format(name, "labels", 1) + ending), idx(labels))
    return folder


@pytest.mark.parametrize(
    ("prefix", "test", "form"),
    [
        ("", "t10k", "{}-{}-idx{}-ubyte"),
        ("", "t10k", "{}-{}.idx{}-ubyte"),
        ("emnist-letters-", "test", "{}-{}-idx{}-ubyte"),
    ],
)
def test_a_folder_of_the_family_gives_what_class_folders_give(tmp_path, ending, prefix, test, form):
    source = Idx(put_mnist(tmp_path / "idx", ending, prefix, test, form))
    assert examples(source) == examples(class_folder(tmp_path / "folder", ARRAYS))
    references = source.scan()
    assert references.split_names == ("test", "train")
    assert references.class_names == ("0", "1", "2", "3")
    assert references.has_numbered_classes
    assert references.notes[0].startswith(f"{tmp_path / 'idx'}: files of images read: test: ")


def test_two_files_give_what_class_folders_give(tmp_path, ending):
    folder = put_mnist(tmp_path / "idx", ending)
    images = folder / f"train-images-idx3-ubyte{ending}"
    labels = folder / f"train-labels-idx1-ubyte{ending}"
    expected = examples(class_folder(tmp_path / "folder", {"": (TRAIN, TRAIN_LABELS)}))
    assert examples(Idx(images, labels)) == expected
    assert examples(Idx(images)) == expected  # found beside it


def test_plain_images_are_mapped(tmp_path):
    source = Idx(put_mnist(tmp_path / "idx") / "t10k-images-idx3-ubyte")
    stamps = source.scan().stamps
    assert isinstance(source._source._images, np.memmap)
    assert len(set(stamps.tolist())) == 1


def test_of_a_file_in_both_forms_the_plain_one_is_read(tmp_path):
    folder = put_mnist(put_mnist(tmp_path / "idx"), ".gz")
    for path in folder.glob("*.gz"):
        path.write_bytes(b"never read")
    assert len(Idx(folder).scan().keys) == 13


def test_colour_images_and_wide_labels_are_read(tmp_path):
    pixels = random_images(3, 4, 5, 3)
    put(tmp_path / "images", idx(pixels))
    put(tmp_path / "labels", idx(np.array([300, 0, 2]), 0x0C, ">i4"))
    references = Idx(tmp_path / "images", tmp_path / "labels").scan()
    assert references.shape == (4, 5, 3)
    assert references.labels.tolist() == [300, 0, 2]


def test_labels_may_be_left_out_when_asked_for(tmp_path):
    folder = put_mnist(tmp_path / "idx")
    for path in folder.glob("*labels*"):
        path.unlink()
    for source in (Idx(folder), Idx(folder / "t10k-images-idx3-ubyte")):
        with pytest.raises(
            SourceError,
            match=r"t10k-images-idx3-ubyte: expected its labels beside it, such as "
            r"t10k-labels-idx1-ubyte, found none",
        ):
            source.scan()
        assert source.with_label_kind("none").scan().label_kind == "none"
    assert Idx(folder, label_kind="none").scan().split_names == ("test", "train")


def test_labels_beside_files_of_other_names_are_not_guessed(tmp_path):
    images = put(tmp_path / "pictures", idx(TEST))
    put(tmp_path / "labels", idx(TEST_LABELS))
    with pytest.raises(SourceError, match=r"pictures: expected its labels beside it"):
        Idx(images).scan()
    put_mnist(tmp_path)
    assert len(Idx(tmp_path).scan().keys) == 13  # other files in the folder are left alone


def test_several_datasets_in_a_folder_need_a_prefix(tmp_path):
    folder = put_mnist(tmp_path / "idx", prefix="emnist-letters-", test="test")
    put_mnist(folder, prefix="emnist-digits-", test="test")
    with pytest.raises(
        ConfigError, match=r"holds several datasets, \['emnist-digits', 'emnist-letters'\]"
    ):
        Idx(folder).scan()
    assert len(Idx(folder, prefix="emnist-letters").scan().keys) == 13
    with pytest.raises(SourceError, match=r"files named as mnist-<split>-images-.*'emnist-digi"):
        Idx(folder, prefix="mnist").scan()


def test_sizes_that_do_not_fit_the_header_are_told(tmp_path, ending):
    path = put(tmp_path / f"images{ending}", idx(TRAIN)[:-7])
    with pytest.raises(
        SourceError, match=r"images.*: expected 286 bytes for uint8 9 x 6 x 5, found 279"
    ):
        Idx(path, path).scan()
    path = put(path, idx(TRAIN) + b"x")
    with pytest.raises(
        SourceError, match=r"expected 286 bytes for uint8 9 x 6 x 5, found (287|more)"
    ):
        Idx(path, path).scan()


def test_a_header_that_claims_too_much_is_refused_before_memory_is_taken(tmp_path):
    head = bytes((0, 0, 8, 3)) + struct.pack(">3I", 2**31, 2**16, 2**16)
    path = put(tmp_path / "images.gz", head + b"1234")
    with pytest.raises(
        SourceError,
        match=r"expected 9,223,372,036,854,775,808 bytes .* a gzip file of \d\d bytes can hold",
    ):
        Idx(path, path).scan()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no idx file: it is empty"),
        (b"\0\0", "no idx file: it begins with the bytes 00 00"),
        (b"\0\0\x08\x05" + bytes(40), "begins with the bytes 00 00 08 05"),
        (b"\0\0\x07\x01" + bytes(40), "begins with the bytes 00 00 07 01"),
        (b"text, not idx", "begins with the bytes 74 65 78 74"),
        (b"\0\0\x08\x03" + bytes(5), "cut off: expected a header of 16 bytes, found 9"),
    ],
)
def test_what_is_no_idx_file_is_named(tmp_path, ending, data, message):
    path = put(tmp_path / f"images{ending}", data)
    with pytest.raises(SourceError, match=f"images{ending}: (no idx file: it )?{message}"):
        Idx(path, path).scan()


def test_damaged_gzip_files_are_named(tmp_path):
    path = put(tmp_path / "images.gz", idx(TRAIN))
    data = path.read_bytes()
    path.write_bytes(data[:-20])
    with pytest.raises(SourceError, match=r"images\.gz: (the gzip file is cut off|expected 286)"):
        Idx(path, path).scan()
    path.write_bytes(data[:40] + b"\xff\xff\xff" + data[43:])
    with pytest.raises(SourceError, match=r"images\.gz: (the gzip file|expected)"):
        Idx(path, path).scan()
    path.write_bytes(data[:-8] + bytes(8))
    with pytest.raises(SourceError, match=r"images\.gz: the gzip file is cut off or damaged: CRC"):
        Idx(path, path).scan()


def test_labels_that_do_not_go_with_the_images_are_named(tmp_path):
    images = put(tmp_path / "images", idx(TRAIN))
    labels = put(tmp_path / "labels", idx(TEST_LABELS))
    with pytest.raises(SourceError, match=r"images and labels: .* the 9 images, .* shape \[4\]"):
        Idx(images, labels).scan()
    with pytest.raises(SourceError, match=r"labels and images: images: expected uint8 \[n, height"):
        Idx(labels, images).scan()
    labels = put(tmp_path / "labels", idx(-TRAIN_LABELS, 9, "i1"))
    with pytest.raises(SourceError, match=r"images and labels: labels\[0\]: .* got -3"):
        Idx(images, labels).scan()


def test_missing_files_and_empty_ones_are_named(tmp_path):
    with pytest.raises(SourceError, match=r"none: cannot be read: No such file"):
        Idx(tmp_path / "none", tmp_path / "none").scan()
    with pytest.raises(SourceError, match=r"expected files named as <split>-images-idx3-ubyte"):
        Idx(tmp_path).scan()
    folder = put_mnist(tmp_path / "idx")
    put(folder / "t10k-images-idx3-ubyte", idx(TEST[:0]))
    put(folder / "t10k-labels-idx1-ubyte", idx(TEST_LABELS[:0]))
    with pytest.raises(SourceError, match="split 'test': expected at least one labelled image"):
        Idx(folder).scan()


def test_wrong_arguments_are_refused(tmp_path):
    folder = put_mnist(tmp_path / "idx")
    with pytest.raises(ConfigError, match=r"label_kind: expected one of .* got 'many'"):
        Idx(folder, label_kind="many")
    with pytest.raises(ConfigError, match=r"labels: expected None for the folder .*got 'x'"):
        Idx(folder, "x").scan()
    with pytest.raises(ConfigError, match=r"prefix: is for folders, got 'x' for the file"):
        Idx(folder / "t10k-images-idx3-ubyte", prefix="x").scan()
    with pytest.raises(ConfigError, match="expected scan"):
        Idx(folder).inputs(np.array([0]))


def test_fashion_mnist_is_read_as_an_independent_reader_reads_it(fashion_mnist, tmp_path):
    expected = load_fashion_mnist(fashion_mnist)
    shutil.copytree(fashion_mnist, tmp_path / "plain")
    for path in (tmp_path / "plain").glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    for folder in (fashion_mnist, tmp_path / "plain"):
        source = Idx(folder)
        references = source.scan()
        first = 0
        for split in references.split_names:
            images, labels = expected[split]
            rows = np.arange(first, first + len(images))
            assert (references.labels[rows] == labels).all()
            inputs = source.inputs(rows)
            some = range(0, len(images), 997)
            assert all((inputs.read(row) == images[row]).all() for row in some)
            sent = pickle.loads(pickle.dumps(source.inputs(rows[:50])))
            assert (sent.read(7) == images[7]).all()
            first += len(images)
        assert len(references.keys) == first == 70_000
