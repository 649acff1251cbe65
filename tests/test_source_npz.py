import struct
import zipfile

import numpy as np
import pytest
from archives import zip_of
from source_examples import class_folder, examples, random_images

import tfrds
from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources import Npz
from tfrds.write.sources import npz_file as npz_file_module

GRAY = random_images(7, 6, 5)
COLOUR = random_images(4, 6, 5, 3, seed=1)
LABELS = np.array([2, 0, 1, 1, 0, 2, 2])
SAVERS = {"stored": np.savez, "packed": np.savez_compressed}


@pytest.fixture(params=SAVERS)
def save(request, tmp_path):
    def write(**arrays):
        SAVERS[request.param](tmp_path / "data.npz", **arrays)
        return tmp_path / "data.npz"

    return write


@pytest.mark.parametrize(
    "names",
    [
        ("images", "labels"),
        ("x", "y"),
        ("X", "Y"),
        ("data", "target"),
        ("image", "label"),
        ("imgs", "targets"),
    ],
)
def test_arrays_without_splits_give_what_class_folders_give(tmp_path, save, names):
    path = save(**dict(zip(names, (GRAY, LABELS), strict=True)))
    folder = class_folder(tmp_path / "folder", {"": (GRAY, LABELS)})
    assert examples(Npz(path)) == examples(folder)


@pytest.mark.parametrize(
    "form",
    ["x_{}|y_{}", "{}_images|{}_labels", "images_{}|labels_{}", "X.{}|Y.{}", "{}-x|{}-y"],
)
def test_splits_are_words_of_the_names(tmp_path, save, form):
    arrays = {"train": (GRAY, LABELS), "test": (GRAY[:3][::-1], LABELS[:3]), "val": (GRAY[:1], [1])}
    image_name, label_name = form.split("|")
    path = save(
        **{image_name.format(split): pixels for split, (pixels, _) in arrays.items()},
        **{label_name.format(split): labels for split, (_, labels) in arrays.items()},
    )
    source = Npz(path)
    assert examples(source) == examples(class_folder(tmp_path / "folder", arrays))
    references = source.scan()
    assert references.split_names == ("test", "train", "val")
    assert references.has_numbered_classes
    assert b"train/6" in list(references.keys)


def test_labels_of_one_column_are_flat_as_medmnist_has_them(save):
    path = save(train_images=COLOUR, train_labels=np.array([[0], [1], [1], [0]], np.uint8))
    references = Npz(path).scan()
    assert references.labels.tolist() == [0, 1, 1, 0]
    assert references.shape == (6, 5, 3)
    assert Npz(path, label_kind="value").scan().labels.tolist() == [0.0, 1.0, 1.0, 0.0]


def test_rows_of_labels_are_several_classes_or_values_when_asked_for(save):
    rows = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0], [1, 1, 1]], np.uint8)
    path = save(images=COLOUR, labels=rows)
    with pytest.raises(SourceError, match=r"data\.npz, images 'images', labels 'labels': .*multi"):
        Npz(path).scan()
    multi = Npz(path).with_label_kind("multi").scan()
    assert multi.label_kind == "multi"
    assert multi.labels.numbers.tolist() == [1, 2, 0, 0, 1, 2]
    assert multi.labels.offsets.tolist() == [0, 2, 2, 3, 6]
    assert Npz(path, label_kind="value").scan().labels.tolist() == rows.tolist()


def test_names_may_be_given(tmp_path, save):
    path = save(pixels_a=GRAY, pixels_b=GRAY[:2], a=LABELS, b=LABELS[:2])
    with pytest.raises(
        SourceError,
        match=r"which arrays are the images .* names \['pixels_a', 'pixels_b', 'a', 'b'\]",
    ):
        Npz(path).scan()
    folder = class_folder(tmp_path / "one", {"": (GRAY, LABELS)})
    assert examples(Npz(path, images="pixels_a", labels="a")) == examples(folder)
    arrays = {"one": (GRAY, LABELS), "two": (GRAY[:2], LABELS[:2])}
    source = Npz(
        path, images={"one": "pixels_a", "two": "pixels_b"}, labels={"one": "a", "two": "b"}
    )
    assert examples(source) == examples(class_folder(tmp_path / "two", arrays))


def test_labels_are_those_that_go_with_the_images_that_are_named(save):
    path = save(x_train=GRAY, y_train=LABELS, x_test=GRAY[:2], y_test=LABELS[:2])
    assert Npz(path, images="x_test").scan().labels.tolist() == [2, 0]


def test_images_without_labels_are_read_when_asked_for(save):
    path = save(x=GRAY, more=LABELS)
    with pytest.raises(
        SourceError, match=r"expected labels beside 'x', found the arrays \['x', 'more'\]"
    ):
        Npz(path).scan()
    references = Npz(path, label_kind="none").scan()
    assert (references.label_kind, references.labels, len(references.keys)) == ("none", None, 7)


def test_what_was_read_is_noted(save):
    path = save(x_train=GRAY, y_train=LABELS, x_test=GRAY, y_test=LABELS, extra=LABELS)
    assert Npz(path).scan().notes == (
        f"{path}: arrays read: test: images 'x_test', labels 'y_test'; train: images 'x_train', "
        "labels 'y_train'.",
    )


def test_stored_images_are_mapped_and_stamped_by_their_file(tmp_path):
    np.savez(tmp_path / "data.npz", images=COLOUR, labels=LABELS[:4])
    source = Npz(tmp_path / "data.npz")
    stamps = source.scan().stamps
    assert len(set(stamps.tolist())) == 1
    assert isinstance(source._source._images, np.memmap)
    np.savez(tmp_path / "data.npz", images=COLOUR, labels=LABELS[:4], more=LABELS)
    assert source.scan().stamps[0] != stamps[0]


def test_arrays_in_the_order_of_fortran_are_read_right(tmp_path, save):
    path = save(images=np.asfortranarray(COLOUR), labels=LABELS[:4])
    folder = class_folder(tmp_path / "folder", {"": (COLOUR, LABELS[:4])})
    assert examples(Npz(path)) == examples(folder)


def test_a_dataset_is_built_of_it(save, tmp_path):
    path = save(x_train=GRAY, y_train=LABELS, x_test=GRAY[:3], y_test=LABELS[:3])
    built = tfrds.build("digits", path, data_dir=tmp_path / "data", num_workers=1)
    found = [
        (example["image"].astype(np.uint8)[..., 0].tobytes(), int(example["label"].argmax()))
        for example in built.as_dataset(split="train").as_numpy_iterator()
    ]
    expected = [(image.tobytes(), label) for image, label in zip(GRAY, LABELS, strict=True)]
    assert sorted(found) == sorted(expected)
    assert built.info.splits["test"].num_examples == 3


def test_python_objects_are_refused_and_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return pytest.fail, ("unpickled",)

    path = tmp_path / "data.npz"
    np.savez(path, images=GRAY, labels=np.array([Trap()] * 7, object))
    with pytest.raises(
        SourceError, match=r"array 'labels': holds Python objects, .*unpickling them runs code"
    ):
        Npz(path).scan()
    references = Npz(path, label_kind="none").scan()
    assert len(references.keys) == 7


def test_damaged_files_are_named(tmp_path, save):
    path = save(images=GRAY, labels=LABELS)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(SourceError, match=r"data\.npz: damaged: the directory at its end"):
        Npz(path).scan()
    path.write_bytes(b"")
    with pytest.raises(SourceError, match=r"data\.npz: damaged"):
        Npz(path).scan()
    with pytest.raises(SourceError, match=r"none\.npz: cannot be read: No such file"):
        Npz(tmp_path / "none.npz").scan()


def test_packed_bytes_that_are_damaged_are_named(tmp_path):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, images=GRAY, labels=LABELS)
    with zipfile.ZipFile(path) as file:
        start = file.getinfo("images.npy").header_offset + 80
    data = bytearray(path.read_bytes())
    data[start + 100] ^= 255
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"array 'images': .*(damaged|checksum|unpacks)"):
        Npz(path).scan()


def test_a_header_that_claims_another_size_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "data.npz"
    np.save(tmp_path / "a.npy", GRAY)
    header = (tmp_path / "a.npy").read_bytes()[:128].replace(b"(7, 6, 5)", b"(7777777, 6, 5)")
    zip_of(path, [("images.npy", header[:128] + GRAY.tobytes()), ("labels.npy", b"")])
    with pytest.raises(
        SourceError, match=r"array 'images': expected 233,333,4\d\d bytes for uint8"
    ):
        Npz(path).scan()


def test_what_unpacks_to_far_more_than_it_holds_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(npz_file_module, "_ALWAYS_ALLOWED_BYTES", 1000)
    path = tmp_path / "data.npz"
    np.savez_compressed(path, images=np.zeros((5000, 20, 20), np.uint8), labels=np.arange(5000))
    with pytest.raises(
        SourceError, match=r"array 'images': unpacks from [\d,]+ to 2,000,128 bytes, expected at mo"
    ):
        Npz(path).scan()


@pytest.mark.parametrize("header", [b"\x93NUMPY\x01\x00\x10\x00{'descr': garbage", b"text", b""])
def test_headers_that_are_none_are_named(tmp_path, header):
    path = tmp_path / "data.npz"
    zip_of(path, [("images.npy", header), ("labels.npy", header)])
    with pytest.raises(SourceError, match=r"array 'images': its header cannot be read"):
        Npz(path).scan()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": GRAY / 255, "labels": LABELS}, "expected uint8 .* got float64"),
        ({"images": GRAY, "labels": LABELS[:5]}, r"each of the 7 images, got the shape \[5\]"),
        ({"images": GRAY, "labels": LABELS - 1}, r"labels\[1\]: expected a class number .* got -1"),
        ({"images": GRAY[:0], "labels": LABELS[:0]}, None),
        ({"labels": LABELS}, r"which arrays are the images cannot be told .*\['labels'\]"),
        ({"images": GRAY, "x": GRAY, "y": LABELS}, "both 'images' and 'x' may be the images"),
        (
            {"x": GRAY, "y": LABELS, "x_test": GRAY, "y_test": LABELS},
            "which arrays are the images cannot be told",
        ),
        ({"x_train": GRAY, "x_test": GRAY, "y_train": LABELS}, "expected labels beside 'x_test'"),
        ({"x_train": GRAY, "y_train": LABELS - 1, "x_test": GRAY, "y_test": LABELS}, "'y_train': "),
    ],
)
def test_arrays_that_cannot_be_used_are_named(save, arrays, message):
    path = save(**arrays)
    if message is None:
        assert len(Npz(path).scan().keys) == 0
        return
    with pytest.raises(SourceError, match=rf"data\.npz.*{message}"):
        Npz(path).scan()


def test_other_files_in_the_zip_are_no_arrays(tmp_path):
    zip_of(tmp_path / "data.npz", [("readme.txt", b"text")])
    with pytest.raises(SourceError, match=r"expected arrays as numpy\.savez writes them, found no"):
        Npz(tmp_path / "data.npz").scan()


def test_wrong_arguments_are_refused(tmp_path, save):
    path = save(images=GRAY, labels=LABELS)
    with pytest.raises(ConfigError, match=r"label_kind: expected one of .* got 'many'"):
        Npz(path, label_kind="many")
    with pytest.raises(ConfigError, match=r"images: expected the name of an array.*got \{\}"):
        Npz(path, images={})
    with pytest.raises(ConfigError, match=r"labels: expected those of the same splits.*\['a'\]"):
        Npz(path, images={"a": "images"}, labels={"b": "labels"})
    with pytest.raises(SourceError, match=r"no array 'imgs', expected one of \['images', 'lab"):
        Npz(path, images="imgs", labels="labels").scan()
    with pytest.raises(ConfigError, match="expected scan"):
        Npz(path).inputs(np.array([0]))


def test_sizes_of_the_directory_are_checked_too(tmp_path):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, images=GRAY, labels=LABELS)
    data = path.read_bytes()
    entry = data.index(b"PK\1\2")
    (size,) = struct.unpack_from("<I", data, entry + 24)
    changed = bytearray(data)
    struct.pack_into("<I", changed, entry + 24, size + 40)
    path.write_bytes(changed)
    with pytest.raises(SourceError, match=r"expected 338 bytes for uint8 \[7, 6, 5\], found 378"):
        Npz(path).scan()
