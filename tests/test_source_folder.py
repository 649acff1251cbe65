import os
import pickle
import re

import images
import numpy as np
import pytest

from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources import ImageFolder

PNG = images.encoded(images.noise(0, 2, 3))


def scan(folder, **arguments):
    return ImageFolder(folder, **arguments).scan()


def by_key(references):
    """Returns (split, class name) of each image, by key; split None where the source has none."""
    splits = references.splits
    return {
        key.decode(): (
            None if splits is None else references.split_names[splits[row]],
            references.class_names[references.labels[row]],
        )
        for row, key in enumerate(references.keys)
    }


def classes_by_key(references):
    return {key: class_name for key, (_, class_name) in by_key(references).items()}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "source"


def test_each_folder_is_a_class_and_nested_files_belong_to_it(folder):
    names = [
        "cat/1.png",
        "cat/far/below/train/2.png",
        "dog/1.png",
        "dog/cat/3.png",
        "a b/c d/e f.png",
    ]
    images.put_images(folder, names)
    references = scan(folder)
    assert classes_by_key(references) == {name: name.split("/")[0] for name in names}
    assert references.splits is None
    assert references.split_names == ()
    assert references.shape is None
    assert not references.has_numbered_classes
    assert references.notes == (f"{folder}: read as class/.../file.",)


def test_columns_have_their_types_and_file_sizes(folder):
    images.put_images(folder, ["b/2.png", "a/1.png"])
    references = scan(folder)
    assert [key.decode() for key in references.keys] == ["a/1.png", "b/2.png"]
    assert references.sizes.tolist() == [
        (folder / key.decode()).stat().st_size for key in references.keys
    ]
    assert (references.labels.dtype, references.sizes.dtype) == (np.int32, np.int64)


@pytest.mark.parametrize(
    "splits",
    [
        ("train", "test"),
        ("train", "validation", "test"),
        ("Training", "VAL"),
        ("dev",),
        ("valid", "eval", "testing"),
    ],
)
def test_folders_named_like_splits_with_classes_below_are_splits(folder, splits):
    names = [f"{split}/{name}/x/1.png" for split in splits for name in ("cat", "dog")]
    images.put_images(folder, names)
    references = scan(folder)
    assert by_key(references) == {name: tuple(name.split("/")[:2]) for name in names}
    assert sorted(references.split_names) == sorted(splits)
    assert references.notes == (f"{folder}: read as split/class/.../file.",)


@pytest.mark.parametrize(
    "names",
    [
        ["train/cat/1.png", "other/cat/2.png"],
        ["train/1.png", "other/2.png"],
    ],
)
def test_anything_else_is_read_as_classes(folder, names):
    images.put_images(folder, names)
    assert classes_by_key(scan(folder)) == {name: name.split("/")[0] for name in names}


@pytest.mark.parametrize(
    "names", [["train/1.png", "test/2.png"], ["train/cat/1.png", "test/2.png"], ["val/1.png"]]
)
def test_splits_without_class_folders_are_refused_unless_they_are_said_to_be_classes(folder, names):
    images.put_images(folder, names)
    with pytest.raises(SourceError, match=f"{folder}: .*named like splits.*layout="):
        scan(folder)
    found = classes_by_key(scan(folder, layout="class"))
    assert found == {name: name.split("/")[0] for name in names}


def test_a_split_without_images_is_named(folder):
    images.put_images(folder, ["train/cat/1.png"])
    images.put(folder / "test" / "cat" / "about.txt", "text")
    with pytest.raises(SourceError, match=f"{folder}: split 'test': expected at least one image"):
        scan(folder)


def test_files_that_are_no_images_do_not_decide_the_layout(folder):
    images.put_images(folder, ["train/cat/1.png", "test/cat/2.png"])
    images.put(folder / "README.txt", "about")
    images.put(folder / "docs" / "more.txt", "about")
    assert sorted(scan(folder).split_names) == ["test", "train"]


def test_argument_overrides_the_layout(folder):
    images.put_images(folder, ["train/cat/1.png", "test/dog/2.png"])
    references = scan(folder, layout="class")
    assert classes_by_key(references) == {"train/cat/1.png": "train", "test/dog/2.png": "test"}
    assert references.notes == ()
    images.put_images(folder, ["fold1/cat/1.png"])
    assert scan(folder, layout="split").split_names == ("fold1", "test", "train")


def test_unknown_layout_is_refused(folder):
    with pytest.raises(
        ConfigError, match=r"layout: expected one of \['class', 'split'\], got 'flat'"
    ):
        ImageFolder(folder, layout="flat")


def test_folder_that_is_no_split_name_is_refused_as_one(folder):
    images.put_images(folder, ["fold-1/cat/1.png"])
    with pytest.raises(ConfigError, match=f"{folder}: a split's name is .*got 'fold-1'"):
        scan(folder, layout="split")


def test_other_files_are_left_out_and_counted_by_kind(folder):
    images.put_images(folder, ["cat/1.png"])
    for name in ("cat/.hidden.png", "cat/._1.png", ".git/a/1.png", "cat/.DS_Store"):
        images.put(folder / name, PNG)
    for name in ("cat/Thumbs.db", "THUMBS.DB", "cat/desktop.ini"):
        images.put(folder / name, PNG)
    for name in (
        "cat/a.txt",
        "cat/B.TXT",
        "c.svg",
        "cat/noise.wav",
        "cat/Makefile",
        "cat/1.png.bak",
    ):
        images.put(folder / name, f"text of {name}")
    images.put(folder / "cat" / "empty.txt", "")
    references = scan(folder)
    assert [key.decode() for key in references.keys] == ["cat/1.png"]
    assert references.left_out == {
        "hidden": 4,
        "system file": 3,
        ".txt": 3,
        ".svg": 1,
        ".wav": 1,
        "no ending": 1,
        ".bak": 1,
    }


def test_content_decides_and_the_ending_does_not(folder):
    images.put(folder / "cat" / "really_png.txt", PNG)
    images.put(folder / "cat" / "no_ending", images.encoded(images.noise(1, 3, 3), "JPEG"))
    images.put(folder / "cat" / "really_gif.jpg", images.encoded(images.noise(1, 3, 3), "GIF"))
    assert len(scan(folder).keys) == 3


def test_files_that_only_claim_to_be_images_are_named(folder):
    images.put_images(folder, ["cat/ok.png"])
    for number in range(7):
        images.put(folder / "cat" / f"bad{number}.jpg", f"text {number}")
    images.put(folder / "a" / "empty.JPEG", b"")
    first = r"a/empty.JPEG \(empty\), cat/bad0.jpg \(no image in it\).*cat/bad3.jpg .*\), \.\.\."
    with pytest.raises(
        SourceError, match=rf"{folder}: 8 files are named like an image and\s+hold none: {first}"
    ) as raised:
        scan(folder)
    assert "bad4" not in str(raised.value)


def test_one_file_that_claims_to_be_an_image_is_named(folder):
    images.put(folder / "cat" / "empty.png", b"")
    with pytest.raises(
        SourceError,
        match=r"1 file is named like an image and\s+holds none: cat/empty\.png \(empty\)\. ",
    ):
        scan(folder)


def test_image_outside_of_a_class_folder_is_named(folder):
    images.put_images(folder, ["cat/1.png", "lost.png"])
    with pytest.raises(
        SourceError,
        match=rf"{folder}: expected every image inside class/\.\.\./file, found 'lost.png'",
    ):
        scan(folder)
    with pytest.raises(SourceError, match=r"inside split/class/\.\.\./file, found 'cat/1.png'"):
        scan(folder, layout="split")


def test_missing_folder_and_file_are_named(folder):
    with pytest.raises(
        SourceError, match=f"{folder}: expected a folder with one folder for each class"
    ):
        scan(folder)
    images.put(folder, "a file")
    with pytest.raises(SourceError, match=f"{folder}: expected a folder"):
        scan(folder)


@pytest.mark.parametrize(
    ("names", "left_out"),
    [((), "nothing"), (("cat/a.txt", "b.txt", ".x"), "{'hidden': 1, '.txt': 2}")],
)
def test_folder_without_images_says_what_was_left_out(folder, names, left_out):
    (folder / "cat").mkdir(parents=True)
    for name in names:
        images.put(folder / name, "text")
    with pytest.raises(
        SourceError, match=f"{folder}: no image found below it, left out: {re.escape(left_out)}"
    ):
        scan(folder)


def test_order_of_making_does_not_matter(folder, tmp_path):
    names = [f"{name}/{number}.png" for name in "bcaBé" for number in (3, 1, 2)]
    images.put_images(folder, names)
    for name in reversed(names):
        images.put(tmp_path / "copy" / name, (folder / name).read_bytes())
    one, other = scan(folder), scan(tmp_path / "copy")
    assert list(one.keys) == list(other.keys)
    assert one.class_names == other.class_names
    assert (one.labels == other.labels).all()


def test_inputs_travel_light_and_read_the_files(folder, monkeypatch):
    names = [f"cat/{number}.png" for number in range(5)]
    images.put_images(folder, names)
    monkeypatch.chdir(folder.parent)
    source = ImageFolder(folder.name)  # a relative path
    source.scan()
    inputs = source.inputs(np.array([4, 0]))
    monkeypatch.chdir("/")
    data = pickle.dumps(inputs)
    assert len(data) < 500
    inputs = pickle.loads(data)
    assert len(inputs) == 2
    assert [inputs.name(0), inputs.name(1)] == ["cat/4.png", "cat/0.png"]
    assert inputs.read(0) == (folder / "cat/4.png").read_bytes()
    (folder / "cat/0.png").unlink()
    with pytest.raises(FileNotFoundError):
        inputs.read(1)


def test_home_folder_may_be_a_tilde(folder, monkeypatch):
    images.put_images(folder, ["cat/1.png"])
    monkeypatch.setenv("HOME", str(folder.parent))
    assert len(scan("~/source").keys) == 1


def test_deep_folders_are_walked(folder):
    name = "cat/" + "d/" * 150 + "1.png"
    images.put_images(folder, [name])
    assert classes_by_key(scan(folder)) == {name: "cat"}


def stamps_of(root):
    references = ImageFolder(root).scan()
    return dict(zip(references.keys, references.stamps.tolist(), strict=True))


def test_stamp_of_a_file_is_another_one_when_its_size_or_time_of_change_is(tmp_path):
    images.put_images(tmp_path, ["cat/1.png", "cat/2.png", "dog/3.png", "dog/4.png"])
    for path in tmp_path.rglob("*.png"):
        os.utime(path, ns=(10**18, 10**18))
    before = stamps_of(tmp_path)
    assert ImageFolder(tmp_path).scan().stamps.dtype == np.uint64
    assert stamps_of(tmp_path) == before
    # One nanosecond later, of the same size; one byte longer, of the same time; only renamed.
    os.utime(tmp_path / "cat" / "1.png", ns=(10**18, 10**18 + 1))
    images.put(tmp_path / "dog" / "3.png", (tmp_path / "dog" / "3.png").read_bytes() + b"\0")
    os.utime(tmp_path / "dog" / "3.png", ns=(10**18, 10**18))
    (tmp_path / "dog" / "4.png").rename(tmp_path / "dog" / "5.png")
    after = stamps_of(tmp_path)
    assert after[b"cat/2.png"] == before[b"cat/2.png"]
    assert after[b"dog/5.png"] == before[b"dog/4.png"]
    assert after[b"cat/1.png"] != before[b"cat/1.png"]
    assert after[b"dog/3.png"] != before[b"dog/3.png"]


def test_stamps_of_sizes_and_times_that_change_together_differ(tmp_path):
    path = images.put_images(tmp_path, ["cat/1.png"]) / "cat" / "1.png"
    data, seen = path.read_bytes(), set()
    for more in range(8):
        for later in range(8):
            images.put(path, data + bytes(more))
            os.utime(path, ns=(10**18, 10**18 + later))
            seen.add(stamps_of(tmp_path)[b"cat/1.png"])
    assert len(seen) == 64


def test_stamp_of_a_link_is_that_of_its_file(tmp_path):
    images.put_images(tmp_path / "a", ["cat/1.png"])
    (tmp_path / "b" / "cat").mkdir(parents=True)
    (tmp_path / "b" / "cat" / "1.png").symlink_to(tmp_path / "a" / "cat" / "1.png")
    assert stamps_of(tmp_path / "b") == stamps_of(tmp_path / "a")
