"""A build of a version that exists: reused if nothing changed, else refused with the difference."""

import os
import pathlib
import shutil
import zipfile

import images
import numpy as np
import pytest
from listed_source import ListedSource
from stored import examples_in, record_of, skipped_in

import tfrds
from tfrds import cli
from tfrds.errors import ConfigError, DatasetError
from tfrds.write import shards
from tfrds.write.executors import ThisProcess
from tfrds.write.run import Execution

NAMES = [f"{name}/{number}.png" for name in ("ant", "bee", "cat") for number in range(4)]
WAYS_ON = r"\. Choose another version, or pass overwrite=True to replace it\.$"
NOT_KNOWN = (
    r"^.*/pets/1\.0\.0: this version exists, and whether its images have changed since is not "
    r'known here\. Pass fingerprint="content" to compare what they hold, choose another version, '
    r"or pass overwrite=True to replace it\.$"
)


@pytest.fixture
def folder(tmp_path):
    """Twelve PNGs of three classes."""
    return images.put_images(tmp_path / "source", NAMES)


def build(source, root, **options):
    # In this process, unless a test is about workers: starting one takes longer than the rest.
    here = {} if "num_workers" in options else {"executor": ThisProcess()}
    return pathlib.Path(tfrds.build("pets", source, data_dir=root, **here, **options).data_dir)


def change(path):
    """Puts other pixels into a file; its size stays."""
    before = path.stat()
    data = images.encoded(images.noise(99, 4, 5))
    images.put(path, data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000))
    assert len(data) == before.st_size


class Works:
    """Counts what is read and encoded in this process."""

    def __init__(self, monkeypatch):
        self.encoded = 0
        encode_image = shards.encode_image

        def counting(*arguments):
            self.encoded += 1
            return encode_image(*arguments)

        monkeypatch.setattr(shards, "encode_image", counting)


class Unreadable:
    """Wraps a source: its images cannot be read."""

    def __init__(self, source):
        self.source, self.kind, self.is_in_memory = source, source.kind, source.is_in_memory

    def scan(self):
        return self.source.scan()

    def inputs(self, rows):
        raise AssertionError(rows)


def the_difference(source, root, fingerprint="stat", **options):
    """Returns what a second build says is different."""
    with pytest.raises(
        DatasetError, match=rf"(?s)^.*/pets/1\.0\.0: this version exists.*{WAYS_ON}"
    ) as error:
        build(source, root, fingerprint=fingerprint, **options)
    text = str(error.value).split("was built from something else: ")[1]
    return text.removesuffix(". Choose another version, or pass overwrite=True to replace it.")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"splits": {"train": 0.7, "test": 0.3}, "num_shards": 2},
        {"encoding": "raw", "image_size": 3},
        {"encoding": "jpeg", "class_names": ["cat", "ant", "bee"]},
        {"splits": 3, "group": r"\d"},
    ],
    ids=str,
)
@pytest.mark.parametrize("fingerprint", ["stat", "content"])
def test_same_inputs_and_options_are_reused(tmp_path, folder, caplog, options, fingerprint):
    caplog.set_level("INFO", "tfrds")
    directory = build(folder, tmp_path, **options)
    before = images.files_below(tmp_path / "pets")
    times = {path: path.stat().st_mtime_ns for path in directory.iterdir()}
    assert build(folder, tmp_path, fingerprint=fingerprint, **options) == directory
    assert images.files_below(tmp_path / "pets") == before
    assert {path: path.stat().st_mtime_ns for path in directory.iterdir()} == times
    assert caplog.messages[-1] == (
        f"{directory}: built from the same inputs with the same options, reused."
    )


def test_nothing_is_read_or_encoded_for_it(tmp_path, folder, monkeypatch):
    build(folder, tmp_path)
    monkeypatch.setattr("tfrds.write.run.LocalProcesses", None)
    build(Unreadable(tfrds.sources.ImageFolder(folder)), tmp_path)
    pixels = np.stack([images.noise(seed, 4, 5) for seed in range(6)])
    arrays = tfrds.sources.Arrays(pixels, np.arange(6) % 2)
    build(arrays, tmp_path / "arrays")
    works = Works(monkeypatch)
    build(Unreadable(arrays), tmp_path / "arrays")
    assert works.encoded == 0
    build(arrays, tmp_path / "arrays", fingerprint="content")
    assert works.encoded == 6


def test_path_of_the_source_and_order_of_listing_do_not_matter(tmp_path, folder):
    build(folder, tmp_path)
    folder.rename(tmp_path / "moved")
    build(tmp_path / "moved", tmp_path)


@pytest.mark.parametrize("fingerprint", ["stat", "content"])
@pytest.mark.parametrize("is_known", [True, False])
def test_added_and_removed_files_are_named(tmp_path, folder, fingerprint, is_known):
    directory = build(folder, tmp_path)
    if not is_known:
        (directory.parent / ".tfrds-inputs-1.0.0.npz").unlink()
    for number in range(7):
        images.put(
            folder / "bee" / f"new{number}.png", images.encoded(images.noise(50 + number, 4, 5))
        )
    (folder / "cat" / "2.png").unlink()
    assert the_difference(folder, tmp_path, fingerprint) == (
        "7 images added: bee/new0.png, bee/new1.png, bee/new2.png, bee/new3.png, bee/new4.png, "
        "...; 1 images removed: cat/2.png"
    )


@pytest.mark.parametrize("fingerprint", ["stat", "content"])
def test_changed_file_of_the_same_size_is_named(tmp_path, folder, fingerprint):
    build(folder, tmp_path)
    change(folder / "bee" / "2.png")
    assert the_difference(folder, tmp_path, fingerprint) == "1 images changed: bee/2.png"


def test_file_that_was_only_touched_is_told_apart_by_its_content(tmp_path, folder):
    build(folder, tmp_path)
    os.utime(folder / "bee" / "2.png", ns=(10**18, 10**18))
    assert the_difference(folder, tmp_path) == "1 images changed: bee/2.png"
    build(folder, tmp_path, fingerprint="content")
    build(folder, tmp_path)  # which was noted


@pytest.mark.parametrize("fingerprint", ["stat", "content"])
def test_file_in_the_folder_of_another_class_is_another_one(tmp_path, folder, fingerprint):
    build(folder, tmp_path)
    (folder / "bee" / "2.png").rename(folder / "ant" / "9.png")
    assert the_difference(folder, tmp_path, fingerprint) == (
        "1 images added: ant/9.png; 1 images removed: bee/2.png"
    )


@pytest.mark.parametrize("fingerprint", ["stat", "content"])
def test_labels_of_arrays_are_compared(tmp_path, fingerprint):
    pixels = np.stack([images.noise(seed, 4, 5) for seed in range(12)])
    build(tfrds.sources.Arrays(pixels, np.arange(12) % 3), tmp_path)
    other = (np.arange(12) % 3) - (np.arange(12) == 5)
    source = tfrds.sources.Arrays(pixels, other)
    assert the_difference(source, tmp_path, fingerprint) == "1 images with another class: 05"
    changed = pixels.copy()
    changed[7, 1, 1, 1] ^= 1
    source = tfrds.sources.Arrays(changed, np.arange(12) % 3)
    assert the_difference(source, tmp_path, fingerprint) == "1 images changed: 07"


def test_classes_of_other_names_are_told(tmp_path, folder):
    build(folder, tmp_path)
    (folder / "cat").rename(folder / "dog")
    assert the_difference(folder, tmp_path).startswith(
        "the classes are others than those that were built, now ant, bee, dog; 4 images added: dog"
    )


@pytest.mark.parametrize("fingerprint", ["stat", "content"])
def test_new_class_before_the_others_relabels_none_of_them(tmp_path, folder, fingerprint):
    build(folder, tmp_path)
    images.put_images(folder, ["aaa/0.png"])
    assert the_difference(folder, tmp_path, fingerprint) == (
        "the classes are others than those that were built, now aaa, ant, bee, cat; "
        "1 images added: aaa/0.png"
    )


@pytest.mark.parametrize(
    ("option", "built", "given", "text"),
    [
        ("image_size", 3, (3, 4), "image_size was [3, 3], is [3, 4]"),
        ("resize", "pad", "crop", "resize was 'pad', is 'crop'"),
        ("channels", None, 1, "channels was None, is 1"),
        ("background", (1, 2, 3), (1, 2, 4), "background was [1, 2, 3], is [1, 2, 4]"),
        ("encoding", "auto", "original", "encoding was 'auto', is 'original'"),
        ("jpeg_quality", 95, 90, "jpeg_quality was 95, is 90"),
        ("check", "decode", "header", "check was 'decode', is 'header'"),
        ("exif_transpose", True, False, "exif_transpose was True, is False"),
        ("max_pixels", 100, 101, "max_pixels was 100, is 101"),
        (
            "class_names",
            None,
            ["ant", "bee", "cat"],
            "class_names was None, is ['ant', 'bee', 'cat']",
        ),
        ("on_duplicate", "keep", "drop", "on_duplicate was 'keep', is 'drop'"),
        ("num_shards", None, 2, "num_shards was None, is 2"),
    ],
)
@pytest.mark.parametrize("fingerprint", ["stat", "content"])
def test_every_option_that_decides_bytes_is_compared(
    tmp_path, folder, option, built, given, text, fingerprint
):
    build(folder, tmp_path, **{option: built})
    found = the_difference(folder, tmp_path, fingerprint, **{option: given})
    assert found.split("; ")[0].startswith(text)


def test_store_size_is_compared(tmp_path, folder):
    build(folder, tmp_path, encoding="jpeg", store_size=3)
    assert the_difference(folder, tmp_path, encoding="jpeg", store_size=2) == (
        "store_size was 3, is 2"
    )


@pytest.mark.parametrize("fingerprint", ["stat", "content"])
def test_other_splits_are_told_with_what_they_move(tmp_path, folder, fingerprint):
    directory = build(folder, tmp_path, splits={"train": 0.75, "test": 0.25})
    before = examples_in(directory)
    found = the_difference(folder, tmp_path, fingerprint, splits={"train": 0.5, "test": 0.5})
    after = examples_in(build(folder, tmp_path / "b", splits={"train": 0.5, "test": 0.5}))
    moved = sorted(set(after["test"]) ^ set(before["test"]))
    assert found == (
        "splits was {'test': 0.25, 'train': 0.75}, is {'train': 0.5, 'test': 0.5}; "
        f"{len(moved)} images in another split: {', '.join(moved[:5])}"
        f"{', ...' if len(moved) > 5 else ''}"
    )
    assert the_difference(
        folder, tmp_path, fingerprint, splits={"train": 0.75, "val": 0.25}
    ).endswith(f"; 3 images in another split: {', '.join(sorted(before['test']))}")


def test_another_function_for_groups_is_seen_by_its_splits(tmp_path, folder):
    options = {"splits": {"train": 0.5, "test": 0.5}, "split_by": "hash"}
    build(folder, tmp_path, group=lambda key: key, **options)
    build(folder, tmp_path, group=lambda key: key + "", **options)
    found = the_difference(folder, tmp_path, group=lambda key: "all" + key[:1], **options)
    assert found.split(":")[0].endswith(" images in another split")


def test_what_decides_no_byte_is_not_compared(tmp_path, folder):
    build(folder, tmp_path, max_bad=0.5, num_workers=2)
    build(folder, tmp_path, on_error="skip", max_bad=0.1, quarantine=tmp_path / "aside")


def test_other_fingerprints_are_refused(tmp_path, folder):
    with pytest.raises(
        ConfigError, match=r"^fingerprint: expected one of \['stat', 'content'\], got 'mtime'"
    ):
        build(folder, tmp_path, fingerprint="mtime")


@pytest.mark.parametrize("fingerprint", ["stat", "content"])
def test_sample_is_not_the_whole(tmp_path, folder, capsys, fingerprint):
    arguments = ["build", str(folder), "--name", "pets", "--data-dir", str(tmp_path)]
    arguments += ["--fingerprint", fingerprint]
    assert cli.main([*arguments, "--limit", "7"]) == 0
    assert cli.main([*arguments, "--limit", "7"]) == 0
    assert cli.main(arguments) == 1
    assert ": 5 images added: " in capsys.readouterr().err


# Where nothing was noted.


def damage(path, kind):
    data = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif kind == "changed":
        at = data.index(b"ant/0.png")
        path.write_bytes(data[:at] + b"b" + data[at + 1 :])
    elif kind == "text":
        path.write_text("text")
    elif kind == "a folder":
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize("kind", ["missing", "empty", "cut", "changed", "text", "a folder"])
def test_without_what_was_noted_nobody_can_tell(tmp_path, folder, kind):
    directory = build(folder, tmp_path)
    damage(directory.parent / ".tfrds-inputs-1.0.0.npz", kind)
    with pytest.raises(DatasetError, match=NOT_KNOWN):
        build(folder, tmp_path)
    if kind != "a folder":
        build(folder, tmp_path, fingerprint="content")
        build(folder, tmp_path)  # which was noted


def test_inputs_that_cannot_be_noted_are_a_warning(tmp_path, folder, caplog):
    directory = build(folder, tmp_path)
    path = directory.parent / ".tfrds-inputs-1.0.0.npz"
    path.unlink()
    path.mkdir()
    build(folder, tmp_path, fingerprint="content")
    assert f"{directory}: its inputs could not be noted: Is a directory." in caplog.text
    assert list(path.parent.glob(".*.tmp")) == []


def test_what_was_noted_of_another_dataset_is_not_believed(tmp_path, folder):
    directory = build(folder, tmp_path, encoding="raw")
    other = build(folder, tmp_path / "other", encoding="jpeg")
    shutil.copy(other.parent / ".tfrds-inputs-1.0.0.npz", directory.parent)
    with pytest.raises(DatasetError, match=NOT_KNOWN):
        build(folder, tmp_path, encoding="raw")


def test_copy_of_the_version_is_not_known_and_one_of_the_folder_is(tmp_path, folder):
    directory = build(folder, tmp_path / "a")
    shutil.copytree(directory, tmp_path / "b" / "pets" / "1.0.0")
    with pytest.raises(DatasetError, match=NOT_KNOWN):
        build(folder, tmp_path / "b")
    build(folder, tmp_path / "b", fingerprint="content")
    shutil.copytree(tmp_path / "a", tmp_path / "c")
    build(folder, tmp_path / "c")
    shutil.copytree(folder, tmp_path / "copy", copy_function=shutil.copyfile)
    assert the_difference(tmp_path / "copy", tmp_path / "c").startswith("12 images changed: ant/0")
    build(tmp_path / "copy", tmp_path / "c", fingerprint="content")


def write_zip(path, digest, compression=zipfile.ZIP_STORED, **changed):
    """Writes what `save_inputs` would, with some columns of another kind."""
    import io
    import json

    with np.load(path) as columns:
        arrays = {**columns}
    about = json.dumps({"digest": digest, "splits": ["train"]}).encode()
    arrays["about"] = np.frombuffer(about, np.uint8)
    arrays.update(changed)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, array in arrays.items():
            file = io.BytesIO()
            np.save(file, array, allow_pickle=True)
            archive.writestr(f"{name}.npy", file.getvalue())


@pytest.mark.parametrize(
    "changed",
    [
        {"compression": zipfile.ZIP_DEFLATED},
        {"blob": np.zeros(10**8, np.uint8), "compression": zipfile.ZIP_DEFLATED},
        {"about": np.frombuffer(b"[]", np.uint8)},
        {"about": np.frombuffer(b"{}", np.uint8)},
        {"about": np.frombuffer(b'{"digest": ', np.uint8)},
        {"labels": np.zeros(11, np.int32)},
        {"labels": np.zeros((12, 1), np.int32)},
        {"offsets": np.zeros(13)},
        {"marks": np.array([None] * 12, object)},
        {"splits": np.array(["train"] * 12)},
        {"offsets": np.arange(13, dtype=np.uint64) * 10**9},
        {"offsets": np.array([0, 9, 5, *[108] * 10], np.int64)},
    ],
    ids=lambda changed: f"{next(iter(changed))}",
)
def test_what_was_not_written_by_us_is_not_believed(tmp_path, folder, changed):
    directory = build(folder, tmp_path)
    path = directory.parent / ".tfrds-inputs-1.0.0.npz"
    digest = tfrds.disk.build_record.read_build_record(directory).digest
    write_zip(path, digest)
    build(folder, tmp_path)  # as it is, it is believed
    write_zip(path, digest, **changed)
    with pytest.raises(DatasetError, match=NOT_KNOWN):
        build(folder, tmp_path)


# Inputs that are not in the dataset.


def skipping_and_dropping(tmp_path):
    folder = images.put_images(tmp_path / "source", NAMES)
    images.put(folder / "ant" / "bad.png", (folder / "ant" / "0.png").read_bytes()[:-15])
    images.put(folder / "bee" / "copy.png", (folder / "ant" / "1.png").read_bytes())
    return folder, {"on_error": "skip", "max_bad": 0.5, "on_duplicate": "drop"}


@pytest.mark.parametrize("fingerprint", ["stat", "content"])
def test_inputs_that_were_left_out_are_compared_too(tmp_path, fingerprint):
    folder, options = skipping_and_dropping(tmp_path)
    directory = build(folder, tmp_path, **options)
    reasons = {reason: key for key, reason, _ in skipped_in(directory)}
    copy = reasons.pop("duplicate")
    assert reasons == {"cut off or damaged": "ant/bad.png"}
    # Of two copies in one split the first record stays.
    assert copy in ("ant/1.png", "bee/copy.png")
    build(folder, tmp_path, fingerprint=fingerprint, **options)
    assert (
        the_difference(folder, tmp_path, fingerprint, on_error="raise", on_duplicate="drop")
        == "on_error was 'skip', is 'raise'"
    )
    images.put(folder / "ant" / "bad.png", images.encoded(images.noise(77, 4, 5)))
    found = the_difference(folder, tmp_path, fingerprint, **options)
    assert found == "1 images changed: ant/bad.png"
    (folder / "ant" / "bad.png").unlink()
    (folder / copy).unlink()
    found = the_difference(folder, tmp_path, fingerprint, **options)
    assert found == f"2 images removed: {', '.join(sorted(('ant/bad.png', copy)))}"


def test_left_out_inputs_are_known_without_what_was_noted(tmp_path):
    folder, options = skipping_and_dropping(tmp_path)
    directory = build(folder, tmp_path, **options)
    (directory.parent / ".tfrds-inputs-1.0.0.npz").unlink()
    with pytest.raises(DatasetError, match=NOT_KNOWN):
        build(folder, tmp_path, **options)
    (directory / "skipped.jsonl").write_text("{")
    for fingerprint in ("stat", "content"):
        with pytest.raises(DatasetError, match=r"skipped\.jsonl: cannot be read"):
            build(folder, tmp_path, fingerprint=fingerprint, **options)


@pytest.mark.parametrize("fingerprint", ["stat", "content"])
def test_image_that_cannot_be_read_any_more_has_changed(tmp_path, folder, fingerprint):
    build(folder, tmp_path)
    images.put(folder / "ant" / "0.png", (folder / "ant" / "0.png").read_bytes()[:-15])
    assert the_difference(folder, tmp_path, fingerprint) == "1 images changed: ant/0.png"


def test_record_without_totals_is_compared_all_the_same(tmp_path, folder):
    from tfrds.disk.build_record import write_build_record

    directory = build(folder, tmp_path)
    for totals in ({}, [], None):
        write_build_record(directory, {**record_of(directory), "totals": totals})
        with pytest.raises(DatasetError, match=NOT_KNOWN):
            build(folder, tmp_path)


# The ways on, and the command line.


@pytest.mark.parametrize("file", ["features.json", "dataset_info.json", "tfrds.json"])
def test_damaged_dataset_can_be_overwritten(tmp_path, folder, file):
    directory = build(folder, tmp_path)
    before = images.files_below(directory)
    (directory / file).write_text("{")
    with pytest.raises(DatasetError, match=f"{file}: cannot be read"):
        build(folder, tmp_path)
    build(folder, tmp_path, overwrite=True)
    assert images.files_below(directory) == before


def test_ways_on(tmp_path, folder):
    before = images.files_below(build(folder, tmp_path))
    images.put(folder / "ant" / "new.png", images.encoded(images.noise(77, 4, 5)))
    the_difference(folder, tmp_path)
    assert images.files_below(tmp_path / "pets" / "1.0.0") == before
    other = build(folder, tmp_path, version="1.1.0")
    replaced = build(folder, tmp_path, overwrite=True)
    for directory in (other, replaced):
        assert sum(map(len, examples_in(directory).values())) == 13
    for version in ("1.0.0", "1.1.0"):
        build(folder, tmp_path, version=version)


def test_command_line_reuses_and_refuses(tmp_path, folder, capsys):
    arguments = ["build", str(folder), "--name", "pets", "--data-dir", str(tmp_path)]
    directory = tmp_path / "pets" / "1.0.0"
    assert cli.main(arguments) == 0
    first = capsys.readouterr()
    assert first.out.startswith("Built 12 examples in ")
    assert cli.main(arguments) == 0
    again = capsys.readouterr()
    assert again.out == first.out.split("\n\n", 1)[1]
    assert again.err.splitlines()[-1] == (
        f"{directory}: built from the same inputs with the same options, reused."
    )
    os.utime(folder / "bee" / "2.png", ns=(10**18, 10**18))
    assert cli.main(arguments) == 1
    error = capsys.readouterr()
    assert error.out == ""
    assert error.err.splitlines()[-1] == (
        f"tfrds: error: {directory}: this version exists and was built from something else: 1 "
        "images changed: bee/2.png. Choose another version, or pass overwrite=True to replace it."
    )
    assert cli.main([*arguments, "--fingerprint", "content"]) == 0
    assert cli.main(arguments) == 0
    assert cli.main([*arguments, "--image-size", "3"]) == 1
    assert "image_size was None, is [3, 3]" in capsys.readouterr().err
    assert cli.main([*arguments, "--image-size", "3", "--overwrite"]) == 0
    assert cli.main(arguments) == 1


def test_removed_version_leaves_nothing_that_was_noted(tmp_path, folder):
    build(folder, tmp_path)
    assert cli.main(["rm", "pets", "--yes", "--data-dir", str(tmp_path)]) == 0
    assert not (tmp_path / "pets").exists()


def test_inputs_are_noted_before_the_dataset_can_be_seen(tmp_path, folder, monkeypatch):
    """Another process that waits for the lock compares with them at once."""
    from tfrds.disk import commit

    replace, seen = commit._replace, []

    def watching(files, target, **options):
        seen.append((target.parent / ".tfrds-inputs-1.0.0.npz").exists())
        return replace(files, target, **options)

    monkeypatch.setattr(commit, "_replace", watching)
    build(folder, tmp_path)
    assert seen == [True]


def test_sources_of_one_s_own_are_compared_by_their_stamps(tmp_path):
    values = [images.encoded(images.noise(seed, 4, 5)) for seed in range(6)]
    build(ListedSource(values), tmp_path)
    values[3] = images.encoded(images.noise(66, 4, 5))
    build(ListedSource(values), tmp_path)  # whose stamps say that nothing changes
    assert the_difference(ListedSource(values), tmp_path, "content") == "1 images changed: 3"


@pytest.mark.parametrize("num_workers", [1, 3])
def test_content_is_compared_in_any_number_of_processes(tmp_path, folder, num_workers):
    build(folder, tmp_path, num_shards=4)
    change(folder / "cat" / "3.png")
    options = {"num_shards": 4, "num_workers": num_workers}
    assert the_difference(folder, tmp_path, "content", **options) == "1 images changed: cat/3.png"
    assert Execution(num_workers=num_workers).progress is None
