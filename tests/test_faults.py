"""Images that cannot be stored: found, counted, skipped or refused, copied aside."""

import os
import pathlib
import re
import tempfile

import images
import numpy as np
import pytest
import tensorflow_datasets as tfds
from listed_source import ListedSource
from stored import assert_is_whole, examples_in, record_of, shards_in, skipped_in

import tfrds
from tfrds.disk.journal import Journal
from tfrds.errors import DatasetError, EncodeError, SourceError
from tfrds.spec import BuildOptions, ImageSpec
from tfrds.tools.info import dataset_info
from tfrds.write import faults
from tfrds.write.executors import ThisProcess
from tfrds.write.faults import Fault, Faults, quarantine
from tfrds.write.shards import ShardTask, write_shard

NAMES = [f"{name}/{number:02d}.png" for name in ("ant", "bee", "cat") for number in range(10)]
SKIP = {"on_error": "skip", "max_bad": 0.5}


@pytest.fixture
def folder(tmp_path):
    """Thirty PNGs of three classes."""
    return images.put_images(tmp_path / "source", NAMES)


def damage(folder, *names):
    """Cuts files off."""
    for name in names:
        images.put(folder / name, (folder / name).read_bytes()[:-15])


def build(source, root, **options):
    # In this process, unless a test is about workers: starting one takes longer than the rest.
    here = {} if "num_workers" in options else {"executor": ThisProcess()}
    given = {"splits": {"train": 0.8, "test": 0.2}, **here, **options}
    return pathlib.Path(tfrds.build("pets", source, data_dir=root, **given).data_dir)


def images_by_key(directory):
    parts = examples_in(directory).values()
    return {key: image for part in parts for key, (image, _) in part.items()}


class Changing(tfrds.sources.ImageFolder):
    """A folder in which something happens between the scan and the build."""

    def __init__(self, path, change):
        super().__init__(path)
        self.change = change

    def scan(self):
        references = super().scan()
        self.change()
        return references


# What stops a build.


def fault(number):
    return Fault(
        f"{number:03d}.png", "empty", f"{number:03d}.png: empty file. Replace it or remove it."
    )


def test_one_fault_is_its_own_error():
    found = Faults(BuildOptions(), 20)
    found.add((Fault("a.png", "cannot be read", "a.png: cannot be read: No.", SourceError),))
    with pytest.raises(SourceError, match=r"^a\.png: cannot be read: No\.$"):
        found.finish()


def test_many_faults_are_one_error_with_five_and_the_total():
    found = Faults(BuildOptions(), 1234)
    for number in (7, 3, 1, 9, 2, 4, 8):
        found.add((fault(number),))
    with pytest.raises(EncodeError) as error:
        found.finish()
    assert str(error.value) == (
        "7 of 1,234 images cannot be stored: 001.png: empty file; 002.png: empty file; "
        "003.png: empty file; 004.png: empty file; 007.png: empty file; .... "
        'Replace or remove them, or pass on_error="skip".'
    )


def test_two_faults_are_both_listed():
    found = Faults(BuildOptions(), 5)
    found.add((fault(2), fault(1)))
    with pytest.raises(
        EncodeError, match=r"^2 of 5 .*: 001\.png: empty file; 002\.png: empty file\. R"
    ):
        found.finish()


def test_first_fault_is_told_at_once(caplog):
    found = Faults(BuildOptions(), 5)
    found.add(())
    assert caplog.text == ""
    found.add((fault(2), fault(1)))
    found.add((fault(3),))
    assert [entry.getMessage() for entry in caplog.records] == [
        "002.png: empty file. Replace it or remove it. All images are looked at for more."
    ]


def test_a_build_of_nothing_but_faults_is_not_carried_on_to_its_end(monkeypatch):
    monkeypatch.setattr(faults, "_MAX_FOUND", 3)
    found = Faults(BuildOptions(), 100)
    found.add((fault(1), fault(2), fault(3)))
    with pytest.raises(EncodeError, match=r"^4 of 100 images cannot be stored, so far: 001"):
        found.add((fault(4),))


@pytest.mark.parametrize(
    ("max_bad", "num_inputs", "allowed"),
    # 0.29 * 100 is 28.999999999999996 in floating point.
    [(0.01, 99, 0), (0.01, 100, 1), (0.01, 250, 2), (0.29, 100, 29), (0, 50, 0), (1, 7, 7)],
)
def test_share_that_may_be_skipped(max_bad, num_inputs, allowed):
    found = Faults(BuildOptions(on_error="skip", max_bad=max_bad), num_inputs)
    for number in range(allowed):
        found.add((fault(number),))
    found.finish()
    with pytest.raises(
        EncodeError,
        match=rf"^{allowed + 1} of {num_inputs} images .*so far: .*max_bad={max_bad:g} lets a "
        rf"build skip {allowed} of them: replace or remove them, or raise max_bad\.$",
    ):
        found.add((fault(999),))


# Builds that skip.


@pytest.mark.parametrize("bad", [["bee/03.png"], ["ant/00.png", "bee/03.png", "cat/09.png"]])
def test_skipped_images_are_in_no_split_and_all_others_load(tmp_path, folder, bad, caplog):
    good = {name: (folder / name).read_bytes() for name in NAMES if name not in bad}
    damage(folder, *bad)
    directory = build(folder, tmp_path, **SKIP)
    assert_is_whole(directory)
    stored = examples_in(directory)
    assert images_by_key(directory) == good
    for part in stored.values():
        assert all(("ant", "bee", "cat")[label] == key[:3] for key, (_, label) in part.items())
    counts = {split: len(part) for split, part in stored.items()}
    for load in (tfds.load, tfrds.load):
        loaded = load("pets", data_dir=tmp_path)
        assert {split: len(list(part)) for split, part in loaded.items()} == counts
    assert record_of(directory)["totals"]["skipped"] == len(bad)
    assert [(key, reason) for key, reason, _ in skipped_in(directory)] == [
        (name, "cut off or damaged") for name in bad
    ]
    assert all(
        message.startswith(f"{key}: cut off or damaged")
        for key, _, message in skipped_in(directory)
    )
    assert dataset_info(directory).skipped == {"cut off or damaged": len(bad)}
    assert f"Skipped {len(bad)} of 30 images, see skipped.jsonl: {bad[0]}: cut off" in caplog.text


def test_no_list_where_nothing_is_skipped(tmp_path, folder):
    directory = build(folder, tmp_path, **SKIP)
    assert not (directory / "skipped.jsonl").exists()
    assert dataset_info(directory).skipped == {}


def test_inputs_of_every_kind_of_fault_are_counted_by_reason(tmp_path):
    pixels = [images.noise(seed, 6, 7) for seed in range(20)]
    bad = [
        pixels[0][:, :, :2].repeat(3, axis=2)[:, :, :5],
        np.zeros(3, np.uint8),
        np.zeros((6, 7), np.float32),
        "text",
        b"",
        b"text",
        PermissionError(13, "Permission denied"),
        SourceError("26: of its own"),
    ]
    directory = build(ListedSource([*pixels, *bad]), tmp_path, **SKIP)
    assert_is_whole(directory)
    assert dataset_info(directory).skipped == {
        "wrong array": 3,
        "not an image": 2,
        "empty": 1,
        "cannot be read": 2,
    }
    assert sum(len(part) for part in examples_in(directory).values()) == 20


def test_arrays_of_another_shape_among_raw_ones_are_skipped(tmp_path):
    pixels = [images.noise(seed, 6, 7) for seed in range(20)]
    values = [*pixels[:5], images.noise(9, 6, 8), *pixels[5:], images.noise(9, 5, 7)]
    directory = build(ListedSource(values), tmp_path, encoding="raw", **SKIP)
    assert dataset_info(directory).image_shape == (6, 7, 3)
    assert [(key, reason) for key, reason, _ in skipped_in(directory)] == [
        ("21", "wrong size"),
        ("5", "wrong size"),
    ]
    found = {
        key: image for part in examples_in(directory).values() for key, (image, _) in part.items()
    }
    assert found == {
        str(number): value.tobytes() for number, value in enumerate(values) if number not in (5, 21)
    }


@pytest.mark.parametrize("what", ["vanished", "a folder", "a link to itself"])
@pytest.mark.parametrize("on_error", ["skip", "raise"])
def test_file_that_changed_after_the_scan(tmp_path, folder, what, on_error):
    path = folder / "bee" / "03.png"

    def change():
        path.unlink()
        if what == "a folder":
            path.mkdir()
        elif what == "a link to itself":
            path.symlink_to(path)

    reason = {
        "vanished": "No such file or directory",
        "a folder": "Is a directory",
        "a link to itself": "Too many levels of symbolic links",
    }[what]
    source = Changing(folder, change)
    if on_error == "raise":
        with pytest.raises(SourceError, match=rf"^bee/03\.png: cannot be read: {reason}\.$"):
            build(source, tmp_path)
        return
    directory = build(source, tmp_path, **SKIP)
    assert skipped_in(directory) == [
        ("bee/03.png", "cannot be read", f"bee/03.png: cannot be read: {reason}.")
    ]
    assert "bee/03.png" not in {key for part in examples_in(directory).values() for key in part}


def test_file_that_may_not_be_read_any_more():
    with tempfile.TemporaryDirectory() as place:  # tmp_path lets only its owner in
        os.chmod(place, 0o777)
        folder = images.put_images(pathlib.Path(place, "source"), ["cat/1.png", "cat/2.png"])
        source = tfrds.sources.ImageFolder(folder)
        source.scan()
        (folder / "cat" / "2.png").chmod(0)
        journal = Journal(pathlib.Path(place, "journal"))
        with images.without_root():
            journal.folder.mkdir()
            task = ShardTask(
                path=pathlib.Path(place, "shard"),
                journal=journal,
                digest="0",
                inputs=source.inputs(np.arange(2)),
                labels=np.zeros(2, np.int32),
                features=(),
                spec=ImageSpec(encoding="original", channels=3),
                image_key="image",
            )
            (found,) = write_shard(task).faults
        assert found.message == "cat/2.png: cannot be read: Permission denied."
        assert (found.reason, found.error_type) == ("cannot be read", SourceError)


def keys_of_shards(directory, split):
    """Returns the keys of each shard."""
    keys = iter(examples_in(directory)[split])
    return [[next(keys) for _ in images.frames(path)] for path in shards_in(directory, split)]


@pytest.mark.parametrize("number", [0, 1, 3])
def test_shard_without_an_image_disappears_and_the_numbers_close_up(tmp_path, folder, number):
    options = {"splits": None, "num_shards": 4}
    before = keys_of_shards(build(folder, tmp_path / "whole", **options), "train")
    damage(folder, *before[number])
    directory = build(folder, tmp_path / "skipped", **options, **SKIP)
    assert_is_whole(directory)
    del before[number]
    assert keys_of_shards(directory, "train") == before
    by_tfds = tfds.builder_from_directory(str(directory))
    assert by_tfds.info.splits["train"].shard_lengths == [len(keys) for keys in before]
    assert len(list(by_tfds.as_dataset(split="train"))) == 30 - sum(
        key not in {key for keys in before for key in keys} for key in NAMES
    )
    assert len(list(tfrds.load("pets", split="train", data_dir=tmp_path / "skipped"))) == sum(
        map(len, before)
    )


def test_split_without_an_image_is_an_error(tmp_path, folder):
    test = list(examples_in(build(folder, tmp_path / "whole"))["test"])
    damage(folder, *test)
    with pytest.raises(SourceError, match=r"^split 'test': .*but all of them were skipped"):
        build(folder, tmp_path / "skipped", **SKIP)
    assert not (tmp_path / "skipped" / "pets" / "1.0.0").exists()


@pytest.mark.parametrize("kind", ["cut", "empty", "gone"])
def test_first_image_of_raw_ones_may_be_bad(tmp_path, folder, kind):
    options = {"encoding": "raw", "splits": None}
    first = next(iter(examples_in(build(folder, tmp_path / "whole", **options))["train"]))
    source = folder
    if kind == "cut":
        images.put(folder / first, (folder / first).read_bytes()[:20])
    else:
        change = {
            "empty": lambda: (folder / first).write_bytes(b""),
            "gone": lambda: (folder / first).unlink(),
        }[kind]
        source = Changing(folder, change)
    directory = build(source, tmp_path / "skipped", **options, **SKIP)
    assert_is_whole(directory)
    assert dataset_info(directory).image_shape == (4, 5, 3)
    assert [key for key, *_ in skipped_in(directory)] == [first]


def test_size_of_raw_images_is_not_looked_for_beyond_what_may_be_skipped(tmp_path):
    source = ListedSource([b""] * 30)
    with pytest.raises(EncodeError, match=r"^\d+: empty file"):
        build(source, tmp_path, encoding="raw", on_error="skip", max_bad=0.1)
    read = []
    source.inputs = lambda rows: read.append(len(rows)) or ListedSource.inputs(source, rows)
    with pytest.raises(EncodeError):
        build(source, tmp_path, encoding="raw", on_error="skip", max_bad=0.1)
    assert read == [1, 1, 1, 1]


def test_bytes_do_not_depend_on_the_number_of_workers(tmp_path, folder):
    damage(folder, "ant/00.png", "bee/03.png", "cat/09.png")
    found = []
    for num_workers in (1, 2, 5):
        root, aside = tmp_path / str(num_workers), tmp_path / f"{num_workers} aside"
        options = {"num_shards": 5, "quarantine": aside, "num_workers": num_workers, **SKIP}
        found.append(
            (images.files_below(build(folder, root, **options)), images.files_below(aside))
        )
    assert found[0] == found[1] == found[2]
    assert found[0][1] == {
        name: (folder / name).read_bytes() for name in ("ant/00.png", "bee/03.png", "cat/09.png")
    }


# Builds that stop.


@pytest.mark.parametrize("num_workers", [1, 2])
def test_all_bad_images_of_a_build_are_one_error(tmp_path, folder, num_workers):
    bad = [f"{name}/{number:02d}.png" for name in ("ant", "cat") for number in (1, 3, 5, 7)]
    damage(folder, *bad)
    aside = tmp_path / "aside"
    options = {"num_shards": 4, "num_workers": num_workers, "quarantine": aside}
    with pytest.raises(EncodeError) as error:
        build(folder, tmp_path / "data", **options)
    text = str(error.value)
    assert text.startswith("8 of 30 images cannot be stored: ant/01.png: cut off or damaged")
    assert re.findall(r"(\w+/\d\d\.png): ", text) == bad[:5]
    assert text.endswith('; .... Replace or remove them, or pass on_error="skip".')
    assert images.files_below(aside) == {name: (folder / name).read_bytes() for name in bad}
    assert not (tmp_path / "data" / "pets" / "1.0.0").exists()
    for name in bad:
        images.put(folder / name, images.encoded(images.noise(99, 4, 5)))
    assert_is_whole(build(folder, tmp_path / "data", num_shards=4))


@pytest.mark.parametrize("num_workers", [1, 2])
def test_more_than_max_bad_stops_a_build_that_skips(tmp_path, folder, num_workers):
    bad = ["ant/00.png", "bee/03.png", "cat/09.png"]
    damage(folder, *bad)
    options = {"on_error": "skip", "num_shards": 3, "num_workers": num_workers}
    with pytest.raises(
        EncodeError, match=r"^3 of 30 .*so far: ant/00.* max_bad=0\.07 lets a build skip 2 of them"
    ):
        build(folder, tmp_path / "a", max_bad=0.07, **options)
    assert not (tmp_path / "a" / "pets" / "1.0.0").exists()
    with pytest.raises(EncodeError, match=r"^1 of 30 .*max_bad=0\.01 lets a build skip 0 of them"):
        build(folder, tmp_path / "b", **options)
    again = build(folder, tmp_path / "a", max_bad=0.1, **options)
    fresh = build(folder, tmp_path / "c", max_bad=0.1, **options)
    assert images.files_below(again) == images.files_below(fresh)


def test_image_of_one_of_several_sources_is_named_with_its_split(tmp_path):
    for split in ("train", "test"):
        images.put_images(tmp_path / split, ["ant/1.png", "bee/1.png", "bee/2.png"])
    damage(tmp_path, "train/bee/1.png", "test/bee/1.png")
    images.put(tmp_path / "test" / "bee" / "1.png", b"\x89PNG\r\n\x1a\n")
    source = {"train": tmp_path / "train", "test": tmp_path / "test"}
    aside = tmp_path / "aside"
    options = {"splits": None, "quarantine": aside}
    with pytest.raises(EncodeError, match=r"^2 of 6 .*: test/bee/1\.png: .*; train/bee/1\.png: "):
        build(source, tmp_path / "data", **options)
    assert images.files_below(aside) == {
        name: (tmp_path / name).read_bytes() for name in ("test/bee/1.png", "train/bee/1.png")
    }


# The quarantine.

HOSTILE = [
    "../x",
    "../../x",
    "/x",
    "//x",
    "a/../x",
    "a/../../x",
    "./x",
    "..",
    ".",
    "",
    "/",
    "a//x",
    "a/",
    "x\0y",
    "x\ny",
    "\ud800",
    "x" * 300,
]


@pytest.mark.parametrize("value", [b"bytes", np.arange(6, dtype=np.uint8)], ids=["file", "array"])
def test_quarantine_keeps_every_name_inside_and_apart(tmp_path, value):
    names = [*HOSTILE, "x", "a/x", "a.x", ".._x", "_.x", "...x", "cät/ü x.png"]
    folder = tmp_path / "deep" / "aside"
    for name in names:
        quarantine(folder, name, value)
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["aside"]
    found = images.files_below(folder)
    assert len(found) == len(names)
    ending = "" if isinstance(value, bytes) else ".npy"
    assert {f"{name}{ending}" for name in names[len(HOSTILE) :]} <= set(found)
    for path in found:
        if ending:
            assert (np.load(folder / path) == value).all()
        else:
            assert found[path] == value


def test_quarantine_of_a_name_that_is_no_path_still_shows_it(tmp_path):
    quarantine(tmp_path, "../cat/1.png", b"x")
    ((name, data),) = images.files_below(tmp_path).items()
    assert re.fullmatch(r"[0-9a-f]{16}-\.\._cat_1\.png", name)
    assert data == b"x"


def test_longest_name_of_a_file_has_room(tmp_path):
    quarantine(tmp_path, "x" * 255, b"x")
    assert images.files_below(tmp_path) == {"x" * 255: b"x"}


def test_what_is_neither_bytes_nor_numbers_is_not_copied(tmp_path):
    for value in ([1], None, np.array([None, [1]], object)):
        quarantine(tmp_path / "aside", "x", value)
    assert not (tmp_path / "aside").exists()


def test_quarantine_that_cannot_be_written_is_named(tmp_path, folder):
    damage(folder, "bee/03.png")
    aside = images.put(tmp_path / "aside", "a file")
    with pytest.raises(
        DatasetError,
        match=rf"^{aside}: bee/03\.png cannot be copied there: Not a directory\. Choose another "
        "folder for quarantine",
    ):
        build(folder, tmp_path / "data", quarantine=aside)
