"""What folders mean, on a disk and in archives alike."""

import archives
import binary_labels
import images
import numpy as np
import pytest

from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources import ImageFolder
from tfrds.write.sources.archive import Archive

PNG = images.encoded(images.noise(0, 2, 3))


@pytest.fixture
def folder(tmp_path):
    return images.put_images(tmp_path / "source", ["cat/1.png", "cat/2.png", "dog/1.png"])


def test_nested_folders_are_one_class_by_choice(tmp_path):
    names = ["a/b/1.png", "a/c/2.png", "a/3.png", "d/b/4.png"]
    folder = images.put_images(tmp_path / "source", names)
    archive = archives.pack(folder, tmp_path / "stored.zip")
    for source in (ImageFolder, Archive):
        found = archives.by_key(
            source(folder if source is ImageFolder else archive, class_level="all")
        )
        assert {key: values[1] for key, values in found.items()} == {
            "a/3.png": "a",
            "a/b/1.png": "a/b",
            "a/c/2.png": "a/c",
            "d/b/4.png": "d/b",
        }
    archives.assert_same_as_folder(archive, folder, class_level="all")


def test_images_alone_lie_anywhere(tmp_path):
    folder = images.put_images(tmp_path / "source", ["1.png", "train/2.png", "a/b/3.png"])
    archive = archives.pack(folder, tmp_path / "pax.tar")
    for source in (ImageFolder(folder, label_kind="none"), Archive(archive, label_kind="none")):
        for one in (source, source.with_label_kind("none")):
            references = one.scan()
            assert list(references.keys) == [b"1.png", b"a/b/3.png", b"train/2.png"]
            assert (references.label_kind, references.labels) == ("none", None)
            assert (references.class_names, references.splits) == ((), None)
            inputs = one.inputs(np.arange(3))
            expected = [(folder / key.decode()).read_bytes() for key in references.keys]
            assert [inputs.read(row) for row in range(3)] == expected


def test_images_outside_of_class_folders_are_named_with_the_remedies(tmp_path):
    folder = images.put_images(tmp_path / "source", ["a/1.png", "2.png"])
    archive = archives.pack(folder, tmp_path / "pax.tar")
    message = (
        r"inside class/\.\.\./file, found '2\.png'\. Move such images into the folder of their "
        r"class, or pass label_kind=\"none\" for images without labels\.$"
    )
    for source in (ImageFolder(folder), Archive(archive)):
        with pytest.raises(SourceError, match=message):
            source.scan()


def test_images_alone_may_have_splits_by_asking(tmp_path):
    folder = images.put_images(tmp_path / "source", ["train/2.png", "test/b/3.png"])
    archive = archives.pack(folder, tmp_path / "pax.tar")
    source = ImageFolder(folder, label_kind="none", layout="split")
    for one in (source, Archive(archive, label_kind="none", layout="split")):
        references = one.scan()
        assert [references.split_names[split] for split in references.splits] == ["test", "train"]
        assert (references.label_kind, references.labels) == ("none", None)
    images.put(folder / "4.png", PNG)
    with pytest.raises(
        SourceError, match=r"inside split/\.\.\./file, found '4\.png'\. Move .*split"
    ):
        source.scan()


def test_other_kind_of_label_is_a_copy(tmp_path, folder):
    archive = archives.pack(folder, tmp_path / "gzip.tar.gz")
    for source in (ImageFolder(folder), Archive(archive)):
        other = source.with_label_kind("none")
        assert other.scan().label_kind == "none"
        assert source.scan().label_kind == "single"
        assert source.with_label_kind("binary").scan().label_kind == "binary"
        assert other.inputs(np.array([0])).read(0) == source.inputs(np.array([0])).read(0)


@pytest.mark.parametrize("make", [ImageFolder, Archive])
def test_two_classes_are_read_as_0_and_1(make, tmp_path, folder):
    where = folder if make is ImageFolder else archives.pack(folder, tmp_path / "stored.zip")
    source = make(where, label_kind="binary")
    assert source.scan().label_kind == "binary"
    expected = {"cat/1.png": 0, "cat/2.png": 0, "dog/1.png": 1}
    assert binary_labels.read_labels(source, tmp_path) == expected


@pytest.mark.parametrize("kind", ["multi", "value"])
def test_folders_give_no_other_kind_of_label(tmp_path, folder, kind):
    expected = rf"label_kind: folders give an image one class or none, .*got '{kind}'"
    archive = archives.pack(folder, tmp_path / "stored.zip")
    with pytest.raises(ConfigError, match=expected):
        ImageFolder(folder, label_kind=kind)
    with pytest.raises(ConfigError, match=expected):
        ImageFolder(folder).with_label_kind(kind)
    with pytest.raises(ConfigError, match=expected):
        Archive(archive, label_kind=kind).scan()
    with pytest.raises(ConfigError, match=expected):
        Archive(archive, layout="class").with_label_kind(kind)


def test_unknown_class_level_of_a_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"class_level: expected one of .*got 'last'"):
        ImageFolder(tmp_path, class_level="last")


def test_system_files_are_left_out_of_folders_too(folder):
    images.put(folder / "__MACOSX" / "cat" / "1.png", PNG)
    assert ImageFolder(folder).scan().left_out == {"system file": 1}
