"""Links, pipes, rights and names in a folder of images."""

import os
import pathlib
import pickle
import re
import sys
import tempfile
import unicodedata

import images
import numpy as np
import pytest

from tfrds.errors import SourceError
from tfrds.write.sources import ImageFolder

PNG = images.encoded(images.noise(0, 2, 3))
NFC = unicodedata.normalize("NFC", "größe é")
NFD = unicodedata.normalize("NFD", NFC)

only_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="macOS normalises names and refuses bytes that are not UTF-8"
)


def scan(folder):
    return ImageFolder(folder).scan()


def classes_by_key(references):
    """Returns the class name of each image by its key."""
    names = [references.class_names[label] for label in references.labels]
    return {key.decode(): name for key, name in zip(references.keys, names, strict=True)}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "source"


def test_linked_class_folder_and_file_are_followed(folder, tmp_path):
    images.put_images(tmp_path / "elsewhere", ["1.png", "deep/2.png"])
    images.put_images(folder, ["dog/1.png"])
    (folder / "cat").symlink_to(tmp_path / "elsewhere")
    (folder / "dog" / "linked.png").symlink_to(tmp_path / "elsewhere" / "1.png")
    assert classes_by_key(scan(folder)) == {
        "cat/1.png": "cat",
        "cat/deep/2.png": "cat",
        "dog/1.png": "dog",
        "dog/linked.png": "dog",
    }


@pytest.mark.parametrize("target", [".", "..", "../.."])
def test_link_to_a_folder_above_is_named(folder, target):
    images.put_images(folder, ["cat/in/1.png"])
    (folder / "cat" / "in" / "up").symlink_to(target)
    with pytest.raises(SourceError, match=f"{folder}: cat/in/up links to a folder above itself"):
        scan(folder)


@pytest.mark.parametrize(
    ("link", "reason"), [("gone", "No such file"), ("link.png", "Too many levels")]
)
def test_link_that_leads_nowhere_is_named(folder, link, reason):
    images.put_images(folder, ["cat/1.png"])
    (folder / "cat" / "link.png").symlink_to(link)
    with pytest.raises(SourceError, match=f"cat/link.png: cannot be read: {reason}"):
        scan(folder)


def test_pipe_among_the_files_does_not_stop_the_scan(folder):
    images.put_images(folder, ["cat/1.png"])
    os.mkfifo(folder / "cat" / "pipe")
    references = scan(folder)
    assert len(references.keys) == 1
    assert references.left_out == {"no ending": 1}


@pytest.mark.parametrize("name", ["cat/1.png", "cat"])
def test_unreadable_file_or_folder_is_named(name):
    with tempfile.TemporaryDirectory() as folder:  # tmp_path lets only its owner in
        os.chmod(folder, 0o755)
        images.put_images(folder, ["cat/1.png"])
        os.chmod(os.path.join(folder, name), 0)
        with images.without_root():
            with pytest.raises(SourceError, match=f"{name}: cannot be read: Permission denied"):
                scan(folder)
        os.chmod(os.path.join(folder, name), 0o755)


@only_linux
def test_keys_and_class_names_are_nfc_and_files_are_still_read(folder):
    images.put(folder / NFD / f"{NFD}.png", PNG)
    source = ImageFolder(folder)
    references = source.scan()
    assert classes_by_key(references) == {f"{NFC}/{NFC}.png": NFC}
    assert source.inputs(np.array([0])).read(0) == PNG


@only_linux
def test_bytes_that_are_not_utf8_are_percent_escaped_and_files_are_still_read(folder):
    path = os.path.join(os.fsencode(folder), b"caf\xe9", b"\xff%.png")
    os.makedirs(os.path.dirname(path))
    pathlib.Path(os.fsdecode(path)).write_bytes(PNG)
    source = ImageFolder(folder)
    references = source.scan()
    assert classes_by_key(references) == {"caf%E9/%FF%.png": "caf%E9"}
    inputs = pickle.loads(pickle.dumps(source.inputs(np.array([0]))))
    assert inputs.read(0) == PNG
    assert inputs.name(0) == "caf%E9/%FF%.png"


@only_linux
def test_class_names_equal_after_nfc_are_refused(folder):
    images.put_images(folder, [f"{NFC}/1.png", f"{NFD}/2.png"])
    with pytest.raises(SourceError, match=f"{folder}: 2 class names are equal after .*NFC.*{NFC}"):
        scan(folder)


@pytest.mark.parametrize(
    "name", [" cat", "cat ", "ca\nt", "ca\rt", "cat\u2028x", "\u00a0cat", "cat\x0b"]
)
def test_class_name_that_tfds_would_change_is_refused(folder, name):
    images.put_images(folder, [f"{name}/1.png"])
    with pytest.raises(
        SourceError, match=f"{folder}: a class's name must not.*got {re.escape(repr(name))}"
    ):
        scan(folder)
