import os
import unicodedata

import images
import numpy as np
import pandas as pd
import pytest

from tfrds.errors import SourceError
from tfrds.write.sources.manifest import Manifest

NAMES = ["cat/1.png", "cat/2.png", "dog/3.png"]


@pytest.fixture
def root(tmp_path):
    return images.put_images(tmp_path / "source", NAMES)


def manifest(root, paths, /, **arguments):
    """Writes the paths as a table into `root`."""
    table = pd.DataFrame({"path": paths, "label": "x"})
    table.to_csv(root / "t.csv", index=False)
    return Manifest(root / "t.csv", **arguments)


def keys_of(source):
    return [key.decode() for key in source.scan().keys]


def test_paths_are_keys_in_their_plain_form(root):
    paths = ["./cat/1.png", "cat//2.png", "cat/../dog/./3.png"]
    assert keys_of(manifest(root, paths)) == NAMES


def test_absolute_paths_below_the_root_become_relative(root):
    assert keys_of(manifest(root, [str(root / name) for name in NAMES])) == NAMES
    assert keys_of(manifest(root, [f"/{root}/cat/../{NAMES[2]}"])) == NAMES[2:]


def test_absolute_paths_may_have_the_real_path_of_the_root(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    for start, arguments in ((root, tmp_path / "link"), (tmp_path / "link", tmp_path / "link")):
        source = manifest(root, [str(start / name) for name in NAMES], root=arguments)
        assert keys_of(source) == NAMES


def test_paths_start_from_the_root_that_is_given(root, tmp_path, monkeypatch):
    other = images.put_images(tmp_path / "other", NAMES)
    (other / "1.png").write_bytes(b"other")
    source = manifest(root, ["1.png"], root=other)
    assert keys_of(source) == ["1.png"]
    monkeypatch.chdir(tmp_path)
    source = manifest(root, ["1.png"], root="other")
    assert keys_of(source) == ["1.png"]
    monkeypatch.chdir("/")
    assert source.inputs(np.array([0])).read(0) == b"other"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert keys_of(manifest(root, ["1.png"], root="~/other")) == ["1.png"]


@pytest.mark.parametrize("path", ["../source2/1.png", "cat/../../x.png", "/etc/passwd", "..", "."])
def test_paths_that_lead_out_of_the_root_are_refused(root, path):
    images.put_images(root.parent, ["x.png", "source2/1.png"])
    with pytest.raises(
        SourceError,
        match=rf"t\.csv line 3, column 'path': expected a path below {root}, got '{path}'\. Pass r",
    ):
        manifest(root, ["cat/1.png", path]).scan()


def test_links_are_followed_as_in_folders(root, tmp_path):
    outside = images.put(tmp_path / "outside.png", b"outside")
    (root / "link.png").symlink_to(outside)
    source = manifest(root, ["link.png"])
    assert keys_of(source) == ["link.png"]
    assert source.inputs(np.array([0])).read(0) == b"outside"


def test_missing_files_are_named_by_line_and_counted(root):
    paths = ["cat/1.png", *(f"fish/{number}.png" for number in range(7))]
    with pytest.raises(
        SourceError,
        match=rf"^t\.csv line 3, column 'path': expected a file below {root}, got 'fish/0\.png'\. "
        r"Correct the path, or pass root= with the folder that paths start from\. So are line 4 "
        r"\('fish/1\.png'\), line 5 \('fish/2\.png'\), line 6 \('fish/3\.png'\), line 7 "
        r"\('fish/4\.png'\), \.\.\.; 7 in all\.$",
    ):
        manifest(root, paths).scan()


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("cat/1", r"'cat/1'; did you mean 'cat/1\.png'\?\."),
        ("cat/1.jpg", r"'cat/1\.jpg'; did you mean 'cat/1\.png'\?\."),
        ("3.png", r"got '3\.png'\. Correct"),
        ("dog", r"'dog'; this is no file\."),
        ("https://example.org/1.png", r"; addresses must be downloaded first\."),
        ("a\0b", r"got 'a\\x00b'\. Correct"),
        ("x" * 300, r"got 'x{79}\.\.\.\. Correct"),
    ],
)
def test_what_may_be_meant_by_a_missing_file(root, path, hint):
    images.put(root / "t.csv", f"path,label\n{path},x\n")
    with pytest.raises(SourceError, match=hint):
        Manifest(root / "t.csv").scan()


@pytest.mark.parametrize(("on_disk", "in_table"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_accents_may_be_written_in_another_way_on_disk(root, on_disk, in_table):
    name = unicodedata.normalize(on_disk, "ä/é.png")
    images.put(root / name, b"image")
    source = manifest(root, [unicodedata.normalize(in_table, "ä/é.png")])
    assert keys_of(source) == [unicodedata.normalize("NFC", "ä/é.png")]
    assert source.inputs(np.array([0])).read(0) == b"image"


def test_separators_of_windows(root):
    source = manifest(root, [r"cat\1.png", r"dog\3.png"])
    assert keys_of(source) == ["cat/1.png", "dog/3.png"]
    with pytest.raises(SourceError, match=r"expected a file below"):
        manifest(root, [r"..\x.png"]).scan()


def test_two_spellings_of_one_path_are_one_image(root):
    with pytest.raises(SourceError, match=r"line 3, .*got 'cat/1\.png' again, as in line 2"):
        manifest(root, ["cat/1.png", r"cat\1.png"]).scan()


def test_pipes_and_sockets_are_no_files(root):
    os.mkfifo(root / "pipe.png")
    with pytest.raises(SourceError, match=r"'pipe\.png'; this is no file"):
        manifest(root, ["pipe.png"]).scan()


def test_file_that_went_away_is_an_error_of_that_image(root):
    source = manifest(root, NAMES)
    source.scan()
    inputs = source.inputs(np.array([2, 0]))
    (root / "dog/3.png").unlink()
    with pytest.raises(FileNotFoundError):
        inputs.read(0)
    assert inputs.read(1) == (root / "cat/1.png").read_bytes()


def test_stamps_change_with_size_and_time_of_change(root):
    for path in root.rglob("*.png"):
        os.utime(path, ns=(10**18, 10**18))
    before = manifest(root, NAMES).scan().stamps.tolist()
    assert manifest(root, NAMES).scan().stamps.tolist() == before
    os.utime(root / NAMES[1], ns=(10**18, 10**18 + 1))
    after = manifest(root, NAMES).scan().stamps.tolist()
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]
