import pickle

import numpy as np
import pytest
from source_examples import class_folder, examples, random_images

import tfrds
from tfrds.errors import ConfigError, DatasetError, SourceError
from tfrds.write.sources import Cifar

NAMES10 = ["plane", "car", "bird"]
FINE, COARSE = ["apple", "bowl", "clock", "oak"], ["food", "thing"]
COUNTS = {**{f"data_batch_{number}": number + 1 for number in range(1, 6)}, "test_batch": 3}


def records(pixels, *labels):
    """Returns the bytes of a file: label bytes, then planes of red, green and blue."""
    rows = zip(pixels, *labels, strict=True)
    return b"".join(bytes(own) + image.transpose(2, 0, 1).tobytes() for image, *own in rows)


@pytest.fixture
def cifar10(tmp_path):
    """(folder, (images, labels) by split)."""
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    arrays = {"train": [], "test": []}
    for seed, (name, count) in enumerate(COUNTS.items()):
        pixels = random_images(count, 32, 32, 3, seed=seed)
        labels = (np.arange(count) * 2 + seed) % 3
        (folder / f"{name}.bin").write_bytes(records(pixels, labels))
        arrays["test" if name == "test_batch" else "train"].append((pixels, labels))
    (folder / "batches.meta.txt").write_text("\n".join([*NAMES10, "", ""]))
    (folder / "readme.html").write_text("about")
    return folder, {
        split: tuple(map(np.concatenate, zip(*parts, strict=True)))
        for split, parts in arrays.items()
    }


@pytest.fixture
def cifar100(tmp_path):
    """(folder, (images, fine, coarse) by split)."""
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    arrays = {}
    for seed, (split, count) in enumerate({"train": 8, "test": 5}.items()):
        pixels = random_images(count, 32, 32, 3, seed=seed)
        fine = (np.arange(count) + seed) % 4
        arrays[split] = (pixels, fine, fine // 3)
        (folder / f"{split}.bin").write_bytes(records(pixels, fine // 3, fine))
    (folder / "fine_label_names.txt").write_text("\n".join(FINE) + "\n")
    (folder / "coarse_label_names.txt").write_text("\n".join(COARSE) + "\n")
    return folder, arrays


def test_cifar_10_gives_what_class_folders_give(tmp_path, cifar10):
    folder, arrays = cifar10
    source = Cifar(folder)
    assert examples(source) == examples(class_folder(tmp_path / "folder", arrays, NAMES10))
    references = source.scan()
    assert references.class_names == tuple(NAMES10)
    assert references.has_numbered_classes
    assert references.shape == (32, 32, 3)
    assert references.split_names == ("train", "test")
    assert references.columns == ()
    assert references.notes == (f"{folder}: read as CIFAR-10.",)
    assert list(references.keys)[:3] == [b"data_batch_1/0", b"data_batch_1/1", b"data_batch_2/0"]


@pytest.mark.parametrize("label", [None, "fine", "coarse"])
def test_cifar_100_gives_the_label_that_is_asked_for(tmp_path, cifar100, label):
    folder, arrays = cifar100
    own = 2 if label == "coarse" else 1
    chosen = {split: (parts[0], parts[own]) for split, parts in arrays.items()}
    names = COARSE if label == "coarse" else FINE
    source = Cifar(folder, label=label)
    assert examples(source) == examples(class_folder(tmp_path / "folder", chosen, names))
    (column,) = source.scan().columns
    other = np.concatenate([parts[3 - own] for parts in arrays.values()])
    assert column.spec.name == ("fine_label" if label == "coarse" else "coarse_label")
    assert column.values.tolist() == other.tolist()
    assert source.scan().notes == (f"{folder}: read as CIFAR-100, {label or 'fine'} labels.",)


def test_images_alone_have_no_labels_and_no_columns(cifar100):
    references = Cifar(cifar100[0], label_kind="none").scan()
    assert (references.label_kind, references.labels, references.columns) == ("none", None, ())
    assert Cifar(cifar100[0]).with_label_kind("none").scan().label_kind == "none"


def test_a_dataset_is_built_of_it(cifar100, tmp_path):
    folder, arrays = cifar100
    built = tfrds.build("cifar", folder, data_dir=tmp_path / "data", num_workers=1)
    assert built.info.features["label"].names == FINE  # the numbers stay
    pixels, fine, coarse = arrays["test"]
    found = [
        (
            example["image"].astype(np.uint8).tobytes(),
            int(example["label"].argmax()),
            int(example["coarse_label"]),
        )
        for example in built.as_dataset(split="test").as_numpy_iterator()
    ]
    expected = zip(map(np.ndarray.tobytes, pixels), fine.tolist(), coarse.tolist(), strict=True)
    assert sorted(found) == sorted(expected)


def test_without_names_classes_are_numbers(cifar10):
    (cifar10[0] / "batches.meta.txt").unlink()
    references = Cifar(cifar10[0]).scan()
    assert references.class_names == ("0", "1", "2")
    assert "without class names: there is no batches.meta.txt" in references.notes[0]


def test_inputs_travel_light_and_files_are_not_read_whole(cifar10):
    source = Cifar(cifar10[0])
    source.scan()
    inputs = source.inputs(np.array([0, 4]))
    assert len(pickle.dumps(inputs)) < 2000
    assert [inputs.name(0), inputs.name(1)] == [
        "data_batch_1.bin record 0",
        "data_batch_2.bin record 2",
    ]


def test_stamps_change_with_the_file(cifar10):
    source = Cifar(cifar10[0])
    before = source.scan().stamps
    assert len(set(before.tolist())) == len(before)
    path = cifar10[0] / "data_batch_1.bin"
    path.write_bytes(path.read_bytes() * 2)
    after = source.scan().stamps
    assert after[0] != before[0]
    assert after[-3:].tolist() == before[-3:].tolist()


def test_sizes_that_no_records_have_are_told(cifar10):
    path = cifar10[0] / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        SourceError,
        match=r"data_batch_2\.bin: expected records of 3,073 bytes as CIFAR-10 has them, found "
        r"9,218 bytes, which are 2 records and 3,072 bytes",
    ):
        Cifar(cifar10[0]).scan()
    path.write_bytes(b"")
    with pytest.raises(SourceError, match=r"found 0 bytes, which are 0 records and 0 bytes"):
        Cifar(cifar10[0]).scan()


def test_labels_that_are_no_classes_are_told_with_their_record(cifar10, cifar100):
    path = cifar10[0] / "data_batch_3.bin"
    data = bytearray(path.read_bytes())
    data[3073 * 2] = 77
    path.write_bytes(data)
    with pytest.raises(
        SourceError,
        match=r"data_batch_3\.bin record 2: expected a class number from 0 to 2 as byte 0, got 77; "
        r"such records in all: 1",
    ):
        Cifar(cifar10[0]).scan()
    path = cifar100[0] / "test.bin"
    data = bytearray(path.read_bytes())
    data[1] = 4
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"test\.bin record 0: .* 0 to 3 as byte 1, got 4"):
        Cifar(cifar100[0]).scan()


def test_files_that_are_missing_are_named(cifar10):
    (cifar10[0] / "data_batch_4.bin").unlink()
    with pytest.raises(
        SourceError, match=r"all files of CIFAR-10, \['data_batch_4\.bin'\] are missing"
    ):
        Cifar(cifar10[0]).scan()


@pytest.mark.parametrize("names", [("batches.meta", "data_batch_1"), ("meta", "train", "test")])
def test_the_pickled_version_is_refused_with_the_right_download(tmp_path, names):
    for name in names:
        (tmp_path / name).write_bytes(pickle.dumps({b"data": []}))
    with pytest.raises(
        SourceError, match=r"pickled, and unpickling runs code\. Download the binary version, cifar"
    ):
        Cifar(tmp_path).scan()


def test_files_that_cannot_be_read_are_named(cifar10, monkeypatch):
    def refuse(path, *arguments, **options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(np, "memmap", refuse)
    with pytest.raises(SourceError, match=r"data_batch_1\.bin: cannot be read: Permission denied"):
        Cifar(cifar10[0]).scan()


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(SourceError, match=r"expected the folder of CIFAR's binary .*found nothing"):
        Cifar(tmp_path).scan()
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(SourceError, match=r"found \['a\.txt'\]"):
        Cifar(tmp_path).scan()
    with pytest.raises(SourceError, match=r"found nothing"):
        Cifar(tmp_path / "none").scan()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"caf\xe9\n", "batches.meta.txt: cannot be read: .*0xe9"),
        (b"a\nb\na\n", "batches.meta.txt: 2 class names are equal .* 'a'"),
        (b"x\n" * 40_000, "batches.meta.txt: expected class names, one a line, found a large file"),
    ],
)
def test_names_that_cannot_be_used_are_refused(cifar10, data, message):
    (cifar10[0] / "batches.meta.txt").write_bytes(data)
    with pytest.raises(SourceError, match=message):
        Cifar(cifar10[0]).scan()


def test_wrong_arguments_are_refused(cifar10):
    folder = cifar10[0]
    with pytest.raises(ConfigError, match=r"label: expected one of \['fine', 'coarse'\], got 'x'"):
        Cifar(folder, label="x")
    with pytest.raises(ConfigError, match=r"label: is for CIFAR-100, got 'fine' for .*CIFAR-10"):
        Cifar(folder, label="fine").scan()
    for make in (
        lambda: Cifar(folder, label_kind="multi"),
        lambda: Cifar(folder).with_label_kind("multi"),
    ):
        with pytest.raises(ConfigError, match=r"label_kind: an image .*got 'multi'"):
            make()


def test_files_that_are_gone_or_shorter_when_they_are_read_are_told(cifar10):
    source = Cifar(cifar10[0])
    source.scan()
    inputs = source.inputs(np.array([0, 1]))
    path = cifar10[0] / "data_batch_1.bin"
    path.write_bytes(path.read_bytes()[:4000])
    assert inputs.read(0).shape == (32, 32, 3)
    with pytest.raises(
        SourceError, match=r"data_batch_1\.bin record 1: expected 3,072 bytes of pixels, found 926"
    ):
        inputs.read(1)
    path.unlink()
    with pytest.raises(DatasetError, match=r"data_batch_1\.bin: expected this file on .*, found"):
        inputs.read(0)
