import gzip
import json
import logging
import os
import pathlib
import pickle
import tarfile
import tempfile

import images
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from archives import compressed, pack, zip_of
from source_examples import random_images

from tfrds.errors import ConfigError, SourceError
from tfrds.sources import TfdsDataset
from tfrds.write.source_formats import FORMATS
from tfrds.write.sources import (
    Archive,
    Cifar,
    Coco,
    Idx,
    ImageFolder,
    Manifest,
    Npz,
    TFRecords,
)
from tfrds.write.sources.by_split import BySplit, as_source
from tfrds.write.sources.recognise import _openers, recognise

CLASSES = {
    "folder": ImageFolder,
    "manifest": Manifest,
    "archive": Archive,
    "tfrecords": TFRecords,
    "npz": Npz,
    "idx": Idx,
    "cifar": Cifar,
    "coco": Coco,
    "tfds": TfdsDataset,
}

PNG = images.encoded(images.noise(0, 4, 5))
NAMES = [f"{name}/{number}.png" for name in ("cat", "dog") for number in range(3)]


def photos(folder):
    return images.put_images(folder, NAMES)


def table(path, root="."):
    lines = [f"{root}/{name},{name[:3]}" for name in NAMES]
    return images.put(path, "\n".join(["file_name,label", *lines]) + "\n")


def parquet(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [{"bytes": PNG, "path": name} for name in NAMES]
    pq.write_table(pa.table({"image": cells, "label": [0, 0, 0, 1, 1, 1]}), path)
    return path


def records(path, compression=""):
    """A TFRecord file of one image for each name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for row in range(len(NAMES)):
            features = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[PNG])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[row % 2])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    return path


def arrays(path):
    np.savez(path, images=random_images(6, 4, 5), labels=np.arange(6) % 2)
    return path


def idx(path, array=None):
    array = random_images(6, 4, 5) if array is None else array
    head = bytes((0, 0, 8, array.ndim))
    data = head + b"".join(side.to_bytes(4, "big") for side in array.shape) + array.tobytes()
    return images.put(path, gzip.compress(data) if path.suffix == ".gz" else data)


def mnist(folder, ending=""):
    for split, labels in (("train", [0, 1, 0, 1, 0, 1]), ("t10k", [1, 0, 1, 0, 1, 0])):
        idx(folder / f"{split}-images-idx3-ubyte{ending}")
        idx(folder / f"{split}-labels-idx1-ubyte{ending}", np.array(labels, np.uint8))
    return folder


def cifar(folder):
    for seed, name in enumerate(("train", "test")):
        rows = random_images(6, 3074, seed=seed)
        rows[:, :2] = [[row % 2, row % 2] for row in range(6)]
        images.put(folder / f"{name}.bin", rows.tobytes())
    return folder


def coco(path):
    photos(path.parent)
    parts = {
        "images": [{"id": row, "file_name": name} for row, name in enumerate(NAMES)],
        "annotations": [{"image_id": row, "category_id": row // 3} for row in range(6)],
        "categories": [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}],
    }
    return images.put(path, json.dumps(parts))


def zipped(path, root):
    return pack(photos(root), path)


# By what it is: (its format, what makes it in a folder).
SOURCES = {
    "folder": ("folder", lambda root: photos(root / "photos")),
    "folder of splits": (
        "folder",
        lambda root: images.put_images(root / "p", ["train/cat/1.png", "test/cat/2.png"]),
    ),
    "csv": ("manifest", lambda root: table(photos(root / "p") / "list.csv")),
    "tsv": (
        "manifest",
        lambda root: images.put(photos(root / "p") / "a.tsv", f"path\tlabel\n{NAMES[0]}\tcat\n"),
    ),
    "jsonl": (
        "manifest",
        lambda root: images.put(
            photos(root / "p") / "a.jsonl", json.dumps({"path": NAMES[0], "label": "cat"}) + "\n"
        ),
    ),
    "parquet": ("manifest", lambda root: parquet(root / "any.parquet")),
    "folder of parquet": (
        "manifest",
        lambda root: parquet(root / "p" / "data" / "train-00000-of-00001.parquet").parents[1],
    ),
    "imagefolder": ("manifest", lambda root: table(photos(root / "p") / "metadata.csv").parent),
    "imagefolder of splits": (
        "manifest",
        lambda root: table(photos(root / "p" / "train") / "metadata.csv").parents[1],
    ),
    "zip": ("archive", lambda root: zipped(root / "stored.zip", root / "p")),
    "tar": ("archive", lambda root: zipped(root / "pax.tar", root / "p")),
    "tar.gz": ("archive", lambda root: zipped(root / "gzip.tar.gz", root / "p")),
    "tar.bz2": ("archive", lambda root: zipped(root / "bzip2.tar.bz2", root / "p")),
    "tar.xz": ("archive", lambda root: zipped(root / "xz.tar.xz", root / "p")),
    "tar.zst": ("archive", lambda root: zipped(root / "zstd.tar.zst", root / "p")),
    "folder of tars": (
        "archive",
        lambda root: zipped((root / "shards/pax.tar"), root / "shards" / ".hidden").parent,
    ),
    "tfrecord": ("tfrecords", lambda root: records(root / "a.tfrecord")),
    "tfrecord of another name": ("tfrecords", lambda root: records(root / "images.bin")),
    "gzip tfrecord": ("tfrecords", lambda root: records(root / "data.gz", "GZIP")),
    "folder of tfrecords": (
        "tfrecords",
        lambda root: records(root / "r" / "part-00000-of-00001").parent,
    ),
    "npz": ("npz", lambda root: arrays(root / "a.npz")),
    "npz of another name": (
        "npz",
        lambda root: arrays(root / "a.npz").rename(root / "arrays.zip"),
    ),
    "idx": ("idx", lambda root: mnist(root / "m") / "train-images-idx3-ubyte"),
    "idx.gz": ("idx", lambda root: mnist(root / "m", ".gz") / "t10k-images-idx3-ubyte.gz"),
    "folder of idx": ("idx", lambda root: mnist(root / "m", ".gz")),
    "cifar": ("cifar", lambda root: cifar(root / "c")),
    "coco": ("coco", lambda root: coco(root / "p" / "annotations.json")),
}


@pytest.mark.parametrize("name", SOURCES)
def test_each_format_is_told_by_looking_and_can_be_read(tmp_path, name, caplog):
    caplog.set_level(logging.INFO, "tfrds")
    format, make = SOURCES[name]
    path = make(tmp_path)
    found = recognise(path)
    assert found.format == format
    source = found.open()
    assert type(source) is CLASSES[format]
    references = source.scan()
    assert 1 <= len(references.keys) <= 12
    assert source.inputs(np.array([0])).read(0) is not None
    said = [record.message for record in caplog.records if "taken for" in record.message]
    expected = [] if format == "folder" else [f"{path}: taken for {found.description} ({format})."]
    assert said == expected


@pytest.mark.parametrize("name", SOURCES)
def test_a_format_that_is_given_is_not_guessed_and_not_said(tmp_path, name, caplog):
    caplog.set_level(logging.INFO, "tfrds")
    format, make = SOURCES[name]
    source = recognise(make(tmp_path), format).open()
    assert len(source.scan().keys) >= 1
    assert "taken for" not in caplog.text


def test_every_format_has_a_source():
    assert set(FORMATS) == set(CLASSES)
    assert {format for format, _ in SOURCES.values()} == set(FORMATS) - {"tfds"}


def test_content_counts_more_than_names(tmp_path):
    archive = zipped(tmp_path / "pax.tar", tmp_path / "p").rename(tmp_path / "table.csv")
    assert recognise(archive).format == "archive"
    assert recognise(arrays(tmp_path / "a.npz").rename(tmp_path / "a.tfr")).format == "npz"
    path = parquet(tmp_path / "a.parquet").rename(tmp_path / "numbers.txt")
    assert recognise(path).format == "manifest"


def test_damaged_tfrecords_of_that_name_are_still_taken_for_some(tmp_path):
    path = records(tmp_path / "a.tfrecord-00000-of-00001")
    path.write_bytes(b"damaged" + path.read_bytes()[7:])
    with pytest.raises(SourceError, match=r"no TFRecord file, or damaged"):
        as_source(path).scan()


def test_a_damaged_zip_is_told_by_who_reads_it(tmp_path):
    path = zipped(tmp_path / "stored.zip", tmp_path / "p")
    path.write_bytes(path.read_bytes()[:-30])
    assert recognise(path).format == "archive"
    with pytest.raises(SourceError, match=r"stored\.zip: damaged: the directory at its end"):
        as_source(path).scan()


def test_patterns_stand_for_archives_tables_and_tfrecords(tmp_path):
    for number in range(3):
        records(tmp_path / f"r/part-{number}.tfrecord")
        parquet(tmp_path / f"t/{number}.parquet")
        zip_of(tmp_path / f"{number}.zip", [(f"cat/{number}.png", PNG)])
    counts = {"r/part-*.tfrecord": 18, "t/*.parquet": 18, "[01].zip": 2, "{0..2}.zip": 3}
    for pattern, count in counts.items():
        assert len(as_source(tmp_path / pattern).scan().keys) == count
    with pytest.raises(SourceError, match=r"\{0\.\.3\}\.zip: expected 4 files, 1 are missing"):
        as_source(tmp_path / "{0..3}.zip").scan()
    arrays(tmp_path / "0.npz")
    with pytest.raises(
        ConfigError,
        match=r"a pattern is for archives, tables and TFRecord files, but .*\*\.npz stands for nu",
    ):
        recognise(tmp_path / "*.npz")
    with pytest.raises(ConfigError, match=r"\*.* may be archives .* \(archive\) or numpy arrays"):
        recognise(tmp_path / "0.*")


@pytest.mark.parametrize("form", ["{}-00000-of-00001.tfrecord", "{}/a.tfrecord", "x_{}.tfrecord"])
def test_tfrecords_named_after_splits_are_these_splits(tmp_path, form):
    for split in ("train", "test", "val"):
        records(tmp_path / "r" / form.format(split))
    for source in (tmp_path / "r", tmp_path / "r" / pathlib.Path(form.format("*")).name):
        if "/" in form and source.name != "r":
            continue
        references = as_source(source).scan()
        assert references.split_names == ("test", "train", "val")
        assert np.bincount(references.splits).tolist() == [6, 6, 6]
    assert as_source(tmp_path / "r" / form.format("train")).scan().split_names == ()


def test_archives_named_after_splits_are_these_splits(tmp_path):
    for split in ("train", "test"):
        zip_of(tmp_path / f"{split}.zip", [(f"cat/{split}.png", PNG)])
    source = as_source(tmp_path)
    assert isinstance(source, BySplit)
    assert [key.decode() for key in source.scan().keys] == [
        "test/cat/test.png",
        "train/cat/train.png",
    ]


def test_files_of_which_only_some_are_named_after_splits_are_refused(tmp_path):
    for name in ("train-0", "test-0", "more-0"):
        records(tmp_path / f"{name}.tfrecord")
    with pytest.raises(
        ConfigError,
        match=r"some files are named after the splits \['test', 'train'\], others such as .*more-0",
    ):
        as_source(tmp_path)


def test_what_may_be_two_things_is_an_error_with_both(tmp_path):
    folder = photos(tmp_path / "p")
    records(folder / "a.tfrecord")
    with pytest.raises(
        ConfigError,
        match=r"source: .*p may be a folder of images \(folder\) or TFRecord files \(tfrecords\)\. "
        r"Pass --format",
    ):
        as_source(folder)
    assert len(recognise(folder, "folder").open().scan().keys) == 6
    assert len(recognise(folder, "tfrecords").open().scan().keys) == 6
    folder = photos(tmp_path / "q")
    parquet(folder / "data.parquet")
    with pytest.raises(ConfigError, match=r"\(folder\) or a table of images \(manifest\)"):
        as_source(folder)
    folder = photos(tmp_path / "notes")
    images.put(folder / "cat" / "metadata.csv", "about,cats\n")
    with pytest.raises(ConfigError, match=r"\(folder\) or a table of images \(manifest\)"):
        as_source(folder)


def test_the_archive_that_a_folder_was_unpacked_from_may_lie_in_it(tmp_path):
    folder = photos(tmp_path / "p")
    zip_of(folder / "all.zip", [("cat/1.png", PNG)])
    images.put(folder / "broken.zip", b"PK\3\4 cut")
    images.put(folder / "labels.csv", "notes")
    assert recognise(folder).format == "folder"


def test_links_and_hidden_files_are_not_followed_for_looks(tmp_path):
    folder = photos(tmp_path / "p")
    (folder / "loop").symlink_to(folder)
    records(folder / ".cache" / "a.tfrecord")
    assert recognise(folder).format == "folder"


def test_a_folder_of_tfds_is_taken_for_its_dataset(raw):
    source = as_source(raw.directory)
    assert isinstance(source, TfdsDataset)
    assert len(source.scan().keys) == len(raw.labels)
    assert recognise(raw.directory).format == "tfds"


def test_a_name_in_tfds_is_told_by_its_prefix(raw):
    found = recognise("tfds:raw_images")
    assert (found.format, found.is_guess) == ("tfds", False)
    assert len(found.open(data_dir=raw.root).scan().keys) == len(raw.labels)
    assert isinstance(recognise("mnist", "tfds").open(), TfdsDataset)
    assert isinstance(as_source({"train": "tfds:mnist"}), BySplit)


def test_without_the_face_of_tfds_the_error_says_what_opens_it(monkeypatch):
    monkeypatch.delitem(_openers, "tfds")
    with pytest.raises(
        ConfigError, match=r"source: 'tfds:mnist' is opened by .*Pass TfdsDataset\('mnist'\)"
    ):
        as_source("tfds:mnist")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.png", PNG, r"a\.png: is a single image\. Pass the folder that holds the folders"),
        ("a.npy", b"\x93NUMPY\x01\x00", r"is a single array\. Pass tfrds\.sources\.Arrays\(imag"),
        ("a.pkl", pickle.dumps([1], 4), "is pickled, and unpickling runs code"),
        (
            "a.h5",
            b"\x89HDF\r\n\x1a\n",
            r"cannot be told what it is, it begins with the bytes 89 48",
        ),
        ("a.md", b"some text", r"told what it is, it looks like text, 'some text'\. Pass --format"),
        ("a.bin", b"", r"a\.bin: is empty\. Pass --format with one of \['folder', 'man"),
        (
            "a.csv.gz",
            gzip.compress(b"path,label\n" * 9, mtime=0),
            "cannot be told what it is, .*gzip archive",
        ),
        ("a.gz", b"\x1f\x8bdamaged", "cannot be told what it is"),
        ("a.bz2", b"BZh9damaged", "cannot be told what it is"),
        ("a.xz", b"\xfd7zXZ\0damaged", "cannot be told what it is"),
        ("a.json", b'{"a": 1}\n{"a": 2}\n', r"an object on each line\. Name it a\.jsonl to read"),
    ],
)
def test_files_that_no_source_reads_are_told_what_they_are(tmp_path, name, data, message):
    with pytest.raises(SourceError, match=rf"{name}.*{message}|{message}"):
        recognise(images.put(tmp_path / name, data))


def test_json_on_several_lines_is_no_table(tmp_path):
    for data in (b'{\n{"a": 1}', b'{"images":\n{}}', b'  {"a": 1}'):
        assert recognise(images.put(tmp_path / "a.json", data)).format == "coco"


def test_compressed_files_need_the_content_of_a_tar(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(images.put(tmp_path / "1.png", PNG), "cat/1.png")
    for kind in ("gzip.tar.gz", "bzip2.tar.bz2", "xz.tar.xz"):
        path = tmp_path / "packed"
        path.write_bytes(compressed((tmp_path / "a.tar").read_bytes(), kind))
        assert recognise(path).format == "archive"


def test_what_is_not_there_is_told_with_what_is_near(tmp_path):
    photos(tmp_path / "photos")
    with pytest.raises(
        SourceError,
        match=r"photo: expected a folder, a file, a pattern of files or tfds:NAME, found nothing\. "
        r"Did you mean '.*/photos'\?",
    ):
        recognise(tmp_path / "photo")
    with pytest.raises(SourceError, match=r"found nothing\. There is no folder '.*/nowhere'\."):
        recognise(tmp_path / "nowhere" / "a.csv")
    with pytest.raises(SourceError, match=r"x\*: expected .* found nothing\.$"):
        recognise(tmp_path / "x*")
    with pytest.raises(SourceError, match="expected TFRecord files below it, found none"):
        recognise(tmp_path / "photos", "tfrecords")


def test_what_cannot_be_read_is_told(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="pipe: expected a file or a folder, found neither"):
        recognise(tmp_path / "pipe")
    with tempfile.TemporaryDirectory() as place:
        pathlib.Path(place).chmod(0o755)
        path = images.put(pathlib.Path(place, "photos", "a.csv"), "path,label\n")
        path.chmod(0)
        with (
            images.without_root(),
            pytest.raises(SourceError, match=r"a\.csv: cannot be .* denied"),
        ):
            recognise(path)
        (path.parent / "locked").mkdir(0)
        with images.without_root():
            with pytest.raises(SourceError, match=r"a\.csv: cannot be read: Permission denied"):
                recognise(path.parent)
        path.unlink()
        with (
            images.without_root(),
            pytest.raises(SourceError, match=r"locked: cannot be read: Per"),
        ):
            recognise(path.parent)


def test_a_format_must_be_one(tmp_path):
    with pytest.raises(ConfigError, match=r"format: expected one of \['folder', .* got 'photo'"):
        recognise(tmp_path, "photo")
