"""`tfrds_demo`, the dataset as code that comes with the package, and the run that shows it off."""

import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from images import files_below
from PIL import Image

import tfrds
from tfrds import demo_data
from tfrds.demo import TfrdsDemo
from tfrds.errors import DatasetError, SourceError

ROOT = pathlib.Path(__file__).resolve().parent.parent


class TestTfrdsDemo(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = TfrdsDemo
    SPLITS = {"train": 1000, "test": 200}  # noqa: RUF012
    # Its images come with the package: nothing is downloaded, so nothing has to be made up.
    EXAMPLE_DIR = os.fspath(ROOT / "tfrds" / "data")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The builder, prepared."""
    builder = TfrdsDemo(data_dir=tmp_path_factory.mktemp("data"))
    builder.download_and_prepare()
    return builder


def sample(split, class_name):
    """Returns the pixels of one class's images from the archive, decoded by Pillow."""
    with zipfile.ZipFile(demo_data.ARCHIVE) as archive:
        names = sorted(
            name for name in archive.namelist() if name.startswith(f"{split}/{class_name}/")
        )
        return np.stack([np.asarray(Image.open(archive.open(name))) for name in names])


def test_loads_by_name_after_importing_tfrds(data_dir):
    train = tfds.load("tfrds_demo", split="train", batch_size=64, as_supervised=True)
    images, labels = next(iter(train))
    assert (images.dtype, images.shape) == (tf.float32, (64, 28, 28, 1))
    assert (labels.dtype, labels.shape) == (tf.float32, (64, 10))
    assert len(train) == 16
    assert (data_dir / "tfrds_demo" / "1.0.0" / "tfrds.json").is_file()


def test_holds_the_pixels_of_the_archive(prepared):
    label = prepared.info.features["label"]
    for split, count in (("train", 100), ("test", 20)):
        images, labels = prepared.as_dataset(split=split, batch_size=-1, as_supervised=True)
        for name in ("t-shirt", "ankle-boot"):
            found = images.numpy()[labels.numpy().argmax(1) == label.str2int(name), ..., 0]
            expected = sample(split, name)
            assert len(found) == len(expected) == count
            assert sorted(map(bytes, found.astype(np.uint8))) == sorted(map(bytes, expected))


def test_info_names_where_the_images_come_from(prepared):
    assert prepared.info.features["label"].names == [
        *("ankle-boot", "bag", "coat", "dress", "pullover"),
        *("sandal", "shirt", "sneaker", "t-shirt", "trouser"),
    ]
    assert prepared.info.features["image"].shape == (28, 28, 1)
    assert "xiao2017fashion" in prepared.info.citation
    assert "Copyright (c) 2017 Zalando SE" in prepared.info.redistribution_info.license
    assert (
        "Permission is hereby granted, free of charge" in prepared.info.redistribution_info.license
    )
    assert prepared.info.homepage == "https://github.com/zalandoresearch/fashion-mnist"
    assert prepared.info.description.startswith("Clothes in ten classes")
    assert "1.0.0" in prepared.RELEASE_NOTES


def test_mock_data_serves_made_up_examples(data_dir):
    with tfds.testing.mock_data(num_examples=5):
        examples = list(tfds.load("tfrds_demo", split="train"))
    assert len(examples) == 5
    assert examples[0]["image"].shape == (28, 28, 1)
    assert not data_dir.exists()


def test_as_dataframe_as_numpy_and_show_examples_work(prepared):
    dataset = prepared.as_dataset(split="test").take(9)
    frame = tfds.as_dataframe(dataset, prepared.info)
    assert frame["image"][0].shape == (28, 28, 1)
    assert "<img" in frame._repr_html_()
    assert next(iter(tfds.as_numpy(dataset)))["label"].shape == (10,)
    figure = tfds.show_examples(dataset, prepared.info)
    assert len(figure.axes) == 9


def test_pickles_by_what_it_opens(prepared):
    copy = pickle.loads(pickle.dumps(prepared))
    assert isinstance(copy, TfrdsDemo)
    assert copy.data_dir == prepared.data_dir
    assert len(list(copy.as_dataset(split="test"))) == 200


def test_is_opened_by_tfrds_too(prepared):
    assert len(tfrds.load("tfrds_demo", split="test", data_dir=prepared.data_dir_root)) == 200


def test_nothing_stays_unpacked_after_a_build(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "data").mkdir()
    TfrdsDemo(data_dir=tmp_path / "data").download_and_prepare()
    # TFDS itself leaves an empty tmp*tfds for each builder that is not prepared yet.
    assert not list(tmp_path.glob("tfrds-demo-*"))
    assert not [path for path in files_below(tmp_path) if not path.startswith("data/tfrds_demo/")]


def test_the_folder_goes_with_the_source(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = demo_data.sample_folder()
    (folder,) = tmp_path.iterdir()
    assert len(files_below(folder)) == 1201
    assert len(source.scan().keys) == 1200
    del source
    assert list(tmp_path.iterdir()) == []


def packed(path, **members):
    """Writes a ZIP archive of `members`: content by name, or (mode, content)."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            mode, content = content if isinstance(content, tuple) else (0o100644, content)
            member = zipfile.ZipInfo(name)
            member.external_attr = mode << 16
            archive.writestr(member, content)
    return path


@pytest.mark.parametrize("name", ["../out.png", "a/../../out.png", "/out.png"])
def test_no_file_is_unpacked_outside_of_its_folder(tmp_path, name):
    archive = packed(tmp_path / "bad.zip", **{name: "x"})
    folder = tmp_path / "deep" / "folder"
    folder.mkdir(parents=True)
    with pytest.raises(SourceError, match=rf"bad\.zip: '{re.escape(name)}' .* outside"):
        demo_data.unpack(archive, folder)
    assert list(files_below(tmp_path)) == ["bad.zip"]
    assert not pathlib.Path("/out.png").exists()


def test_only_regular_files_are_unpacked(tmp_path):
    archive = packed(
        tmp_path / "mixed.zip",
        **{
            "a/b.png": "image",
            "link": (0o120777, "/etc/passwd"),
            "pipe": (0o010644, ""),
            "dir/": "",
        },
    )
    (tmp_path / "folder").mkdir()
    demo_data.unpack(archive, tmp_path / "folder")
    assert files_below(tmp_path / "folder") == {"a/b.png": b"image"}
    assert not (tmp_path / "folder" / "link").is_symlink()


def test_a_damaged_or_missing_archive_is_an_error(tmp_path):
    path = packed(tmp_path / "cut.zip", a="x" * 100)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(SourceError, match=r"cut\.zip: cannot be unpacked: .*Install tfrds again"):
        demo_data.unpack(path, tmp_path)
    with pytest.raises(SourceError, match=r"none\.zip: cannot be unpacked: .*No such file"):
        demo_data.unpack(tmp_path / "none.zip", tmp_path)


def test_another_dataset_of_the_name_is_not_overwritten(tmp_path):
    from images import put_images

    folder = put_images(tmp_path / "pets", ["cat/a.png", "dog/b.png"])
    tfrds.build("tfrds_demo", folder, data_dir=tmp_path / "data", num_workers=1)
    with pytest.raises(DatasetError, match=r"built with .*=None, OPTIONS of TfrdsDemo say"):
        TfrdsDemo(data_dir=tmp_path / "data").download_and_prepare()


def test_the_demo_trains_to_its_accuracy_quietly_and_reuses_what_it_built(data_dir):
    def run(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        environment.pop("TF_CPP_MIN_LOG_LEVEL")
        environment.pop("CUDA_VISIBLE_DEVICES")
        return subprocess.run(
            [sys.executable, "-m", "tfrds.cli", "demo", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    first = run()
    assert first.returncode == 0, first.stderr
    directory = data_dir / "tfrds_demo" / "1.0.0"
    told = first.stderr.splitlines()
    assert told[0] == f"Building {directory}"
    assert len(told) == 16
    for number, line in enumerate(told[1:], 1):
        assert re.fullmatch(rf"epoch {number} of 15: accuracy \d\.\d+, loss \d\.\d+", line)
    assert re.search(r"built      1,200 images, [\d,]+ per second\n", first.stdout)
    accuracy = re.search(r"accuracy   ([\d.]+)% of the test images\n", first.stdout)
    assert float(accuracy[1]) >= 70
    assert first.stdout.endswith(
        "Load it:\n  import tensorflow_datasets as tfds\n  import tfrds\n"
        '  dataset = tfds.load("tfrds_demo", split="train", batch_size=256, as_supervised=True)\n'
    )

    again = run("--epochs", "1")
    assert "built      already built\n" in again.stdout
    assert again.stderr.startswith(
        f"Reusing the dataset tfrds_demo in {directory}.\nepoch 1 of 1: "
    )
