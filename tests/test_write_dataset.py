import hashlib
import itertools
import json
import pathlib
import shutil

import images
import numpy as np
import pytest
import tensorflow as tf
import xxhash

from tfrds.disk.journal import Journal
from tfrds.errors import DatasetError, EncodeError
from tfrds.spec import BuildOptions
from tfrds.write import run
from tfrds.write.dataset import write_dataset
from tfrds.write.plan import make_plan
from tfrds.write.run import Execution
from tfrds.write.sources import Arrays
from tfrds.write.sources.by_split import as_source


@pytest.fixture
def folder(tmp_path):
    """Twelve PNGs of three classes, one of them twice, and a text."""
    root = tmp_path / "source"
    images.put_images(
        root, [f"{name}/{number}.png" for name in ("ant", "bee", "cät") for number in range(4)]
    )
    images.put(root / "bee" / "3.png", (root / "ant" / "1.png").read_bytes())
    images.put(root / "ant" / "notes.txt", "text")
    return root


def write(directory, source, num_workers=1, progress=None, limit=None, **options):
    plan = make_plan(as_source(source), BuildOptions(**options), limit=limit)
    journal = Journal(directory.with_name(f"journal of {directory.name}"))
    for folder in (directory, journal.folder):
        folder.mkdir(parents=True)
    return write_dataset(
        plan,
        directory,
        journal,
        name="pets",
        version="1.2.3",
        target=directory.parent / "pets" / "1.2.3",
        execution=Execution(num_workers=num_workers, progress=progress),
    )


def record_of(directory):
    return json.loads((directory / "tfrds.json").read_bytes())


def shards_of(directory, split):
    return sorted(directory.glob(f"pets-{split}.tfrecord-*"))


def keys_of(directory, split):
    blob = np.load(directory / f"pets-{split}.keys.npy").tobytes()
    offsets = np.load(directory / f"pets-{split}.key_offsets.npy").tolist()
    return [blob[start:end].decode() for start, end in itertools.pairwise(offsets)]


def stored(directory, split):
    """Returns (image bytes, label) of each record, by protobuf."""
    records = []
    for path in shards_of(directory, split):
        for _, data in images.frames(path):
            feature = tf.train.Example.FromString(data).features.feature
            (image,), (label,) = (
                feature["image"].bytes_list.value,
                feature["label"].int64_list.value,
            )
            records.append((image, label))
    return records


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def test_directory_holds_the_files_of_the_format(tmp_path, folder):
    write(tmp_path / "out", folder, splits={"train": 0.5, "test": 0.5}, num_shards=2)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "tfrds.json",
        *(
            f"pets-{split}.{ending}"
            for split in ("train", "test")
            for ending in (
                "tfrecord-00000-of-00002",
                "tfrecord-00001-of-00002",
                "index.npy",
                "keys.npy",
                "key_offsets.npy",
            )
        ),
    }


def test_each_record_is_the_image_and_class_of_its_key(tmp_path, folder):
    write(tmp_path / "out", folder, splits={"train": 0.75, "test": 0.25}, num_shards=2)
    found = {}
    for split in ("train", "test"):
        records = stored(tmp_path / "out", split)
        for key, (image, label) in zip(keys_of(tmp_path / "out", split), records, strict=True):
            assert image == (folder / key).read_bytes()
            assert ["ant", "bee", "cät"][label] == key.split("/")[0]
            found[key] = split
    assert len(found) == 12
    assert list(found.values()).count("test") == 3


@pytest.mark.parametrize("encoding", ["raw", "original"])
def test_index_says_what_a_scan_of_the_shards_finds(tmp_path, encoding):
    pixels = np.random.default_rng(0).integers(0, 256, (200, 3, 4, 3), np.uint8)
    write(tmp_path / "out", Arrays(pixels, np.arange(200)), encoding=encoding, num_shards=3)
    index = np.load(tmp_path / "out" / "pets-train.index.npy")
    shards = shards_of(tmp_path / "out", "train")
    scanned = [(path, *frame) for path in shards for frame in images.frames(path)]
    assert len(index) == len(scanned) == 200
    # round(200 / 3), round(400 / 3)
    lengths = [len(images.frames(path)) for path in shards]
    assert lengths == [67, 66, 67]
    for row, (path, offset, data), (image, label) in zip(
        index, scanned, stored(tmp_path / "out", "train"), strict=True
    ):
        assert (row["offset"], row["length"], row["label"]) == (offset, len(data), label)
        start = offset + 12 + int(row["image_offset"])
        assert path.read_bytes()[start : start + int(row["image_length"])] == image
        assert (row["height"], row["width"], row["channels"]) == (3, 4, 3)
        assert row["encoding"] == {"raw": 1, "original": 3}[encoding]
        assert bytes(row["content"]) == xxhash.xxh3_128(image).digest()


def test_raw_records_hold_the_pixels_of_the_array(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 3, 4), np.uint8)
    write(tmp_path / "out", Arrays(pixels, np.arange(30) % 2))
    for key, (image, label) in zip(
        keys_of(tmp_path / "out", "train"), stored(tmp_path / "out", "train"), strict=True
    ):
        assert image == pixels[int(key)].tobytes()
        assert label == int(key) % 2


def test_record_of_the_build_is_canonical_json(tmp_path, folder):
    write(tmp_path / "out", folder)
    data = (tmp_path / "out" / "tfrds.json").read_bytes()
    again = json.dumps(json.loads(data), sort_keys=True, separators=(",", ":"))
    assert data == again.encode("ascii") + b"\n"
    assert str(tmp_path).encode() not in data


def test_record_of_the_build_says_what_was_built(tmp_path, folder):
    options = {"splits": {"train": 0.5, "test": 0.5}, "num_shards": 2, "image_size": (3, 4)}
    write(tmp_path / "out", folder, **options)
    in_train = [key in keys_of(tmp_path / "out", "train") for key in ("ant/1.png", "bee/3.png")]
    record = record_of(tmp_path / "out")
    assert record["format"] == "1.0"
    assert record["requires"] == []
    assert (record["name"], record["version"], record["parent"]) == ("pets", "1.2.3", None)
    assert record["options"]["image_size"] == [3, 4]
    assert record["options"]["splits"] == {"train": 0.5, "test": 0.5}
    assert record["image"] == {
        "key": "image",
        "encoding": "raw",
        "shape": [3, 4, 3],
        "channels": 3,
        "dtype": "uint8",
        "bit_depth": 8,
    }
    assert record["label"] == {
        "key": "label",
        "kind": "single",
        "num_classes": 3,
        "class_names_sha256": hashlib.sha256("ant\nbee\ncät".encode()).hexdigest(),
    }
    assert record["columns"] == []
    assert record["decode"] == 1
    assert record["order"] == "blake2b-128 tfrds-order-1"
    assert record["split_order"] == "blake2b-128 tfrds-split-1"
    assert record["encoders"] == {}
    assert record["source"]["kind"] == "folder"
    assert record["totals"] == {
        "left_out": {".txt": 1},
        "skipped": 0,
        "repaired": 0,
        "duplicate": 1,
        "label_conflicts": 1,
        "leaks": int(len(set(in_train)) == 2),
    }


def test_sums_and_counts_are_those_of_the_files(tmp_path, folder):
    written = write(tmp_path / "out", folder, splits={"train": 0.75, "test": 0.25}, num_shards=2)
    record = record_of(tmp_path / "out")
    assert list(record["splits"]) == ["test", "train"]
    for split, part in record["splits"].items():
        records = stored(tmp_path / "out", split)
        assert part["num_examples"] == len(records)
        assert (
            part["class_counts"]
            == np.bincount([label for _, label in records], minlength=3).tolist()
        )
        for what in ("index", "keys", "key_offsets"):
            assert part[f"{what}_sha256"] == sha256(tmp_path / "out" / f"pets-{split}.{what}.npy")
        paths = shards_of(tmp_path / "out", split)
        assert part["shards"] == [
            {
                "file": path.name,
                "bytes": path.stat().st_size,
                "records": len(images.frames(path)),
                "sha256": sha256(path),
                "generation": 0,
            }
            for path in paths
        ]
        frames = [images.frames(path) for path in paths]
        assert written.splits[split].shard_lengths == [len(each) for each in frames]
        data_bytes = sum(len(data) for each in frames for _, data in each)
        assert written.splits[split].num_bytes == data_bytes


def test_digest_of_the_source_covers_keys_sizes_and_contents(tmp_path, folder):
    write(tmp_path / "out", folder, splits={"train": 0.75, "test": 0.25})
    digest = hashlib.sha256()
    for split in ("test", "train"):
        for key, (image, _) in zip(
            keys_of(tmp_path / "out", split), stored(tmp_path / "out", split), strict=True
        ):
            name, content = key.encode(), xxhash.xxh3_128(image).digest()
            digest.update(b"%d %s %d %s" % (len(name), name, len(image), content))
    assert record_of(tmp_path / "out")["source"]["digest"] == digest.hexdigest()
    (folder / "ant" / "0.png").rename(folder / "ant" / "new.png")
    write(tmp_path / "renamed", folder, splits={"train": 0.75, "test": 0.25})
    assert record_of(tmp_path / "renamed")["source"] != record_of(tmp_path / "out")["source"]


def test_encoders_are_named_where_images_were_encoded_again(tmp_path, folder):
    write(tmp_path / "out", folder, encoding="jpeg")
    encoders = record_of(tmp_path / "out")["encoders"]
    assert encoders["pillow"] == images.PIL.__version__
    assert "libjpeg_turbo" in encoders


def test_repaired_images_are_counted_and_listed(tmp_path, folder, dummy_data):
    for name in ("ant/z.jpg", "ant/a.jpg"):
        images.put(folder / name, (dummy_data / "extraneous_bytes.jpg").read_bytes())
    written = write(tmp_path / "out", folder)
    assert [name for name, _ in written.repaired] == ["ant/a.jpg", "ant/z.jpg"]
    totals = record_of(tmp_path / "out")["totals"]
    assert (totals["repaired"], totals["duplicate"]) == (2, 2)


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, (4, 5, 3)),
        ({"channels": 1}, (4, 5, 1)),
        ({"image_size": 70}, (70, 70, 3)),
        ({"image_size": (6, 7), "encoding": "raw"}, (6, 7, 3)),
        ({"encoding": "jpeg", "store_size": 2}, (2, 3, 3)),
    ],
)
def test_shape_is_known_where_all_images_have_it(tmp_path, folder, options, shape):
    assert write(tmp_path / "out", folder, **options).image_shape == shape
    assert record_of(tmp_path / "out")["image"]["shape"] == list(shape)


def test_shape_is_open_where_sizes_differ(tmp_path, folder):
    images.put(folder / "ant" / "wide.png", images.encoded(images.noise(9, 4, 6)))
    assert write(tmp_path / "out", folder).image_shape == (None, None, 3)
    assert record_of(tmp_path / "out")["image"]["shape"] == [None, None, 3]


def test_raw_files_of_different_sizes_are_refused(tmp_path, folder):
    images.put(folder / "ant" / "wide.png", images.encoded(images.noise(9, 4, 6)))
    with pytest.raises(EncodeError, match=r"\w+/\w+\.png: size .*raw images need one.*image_size="):
        write(tmp_path / "out", folder, encoding="raw")


@pytest.mark.parametrize("num_workers", [2, 5])
@pytest.mark.parametrize("encoding", ["original", "jpeg"])
def test_number_of_workers_does_not_matter(tmp_path, folder, num_workers, encoding):
    for count in (1, num_workers):
        write(tmp_path / str(count), folder, num_workers=count, num_shards=4, encoding=encoding)
    assert images.files_below(tmp_path / "1") == images.files_below(tmp_path / str(num_workers))


def test_small_arrays_are_written_here_and_the_same_as_in_workers(tmp_path, monkeypatch):
    source = Arrays(
        np.random.default_rng(0).integers(0, 256, (99, 3, 4), np.uint8), np.arange(99) % 5
    )

    def no_processes(*_):
        raise AssertionError("started a process")

    with monkeypatch.context() as patch:
        patch.setattr(run, "LocalProcesses", no_processes)
        write(tmp_path / "here", source, num_workers=2, num_shards=3)
    monkeypatch.setattr(run, "_MAX_BYTES_HERE", 0)
    write(tmp_path / "workers", source, num_workers=2, num_shards=3)
    assert images.files_below(tmp_path / "here") == images.files_below(tmp_path / "workers")


def test_sources_of_several_kinds_make_one_dataset(tmp_path, folder):
    array = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), np.uint8)
    write(
        tmp_path / "out",
        {"train": folder, "test": Arrays(array, ["bee", "dog", "ant"])},
        image_size=(4, 5),
    )
    assert sorted(keys_of(tmp_path / "out", "test")) == ["test/0", "test/1", "test/2"]
    assert all(key.startswith("train/") for key in keys_of(tmp_path / "out", "train"))
    labels = {
        key: label
        for key, (_, label) in zip(
            keys_of(tmp_path / "out", "test"), stored(tmp_path / "out", "test"), strict=True
        )
    }
    assert labels == {"test/0": 1, "test/1": 3, "test/2": 0}  # ant, bee, cät, dog: by code point


def test_progress_counts_examples_up_to_all(tmp_path, folder):
    calls = []
    write(tmp_path / "out", folder, num_shards=3, progress=lambda *counts: calls.append(counts))
    assert calls == [(4, 12), (8, 12), (12, 12)]


def test_limit_writes_that_many_of_each_split(tmp_path, folder):
    write(tmp_path / "out", folder, limit=2, splits={"train": 0.5, "test": 0.5})
    assert [len(stored(tmp_path / "out", split)) for split in ("train", "test")] == [2, 2]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_damaged_image_is_named(tmp_path, folder, num_workers):
    images.put(folder / "bee" / "cut.png", (folder / "bee" / "0.png").read_bytes()[:-20])
    with pytest.raises(EncodeError, match=r"bee/cut\.png: cut off or damaged"):
        write(tmp_path / "out", folder, num_workers=num_workers, num_shards=3)
    assert not (tmp_path / "out" / "tfrds.json").exists()


@pytest.mark.parametrize(
    ("encoding", "free", "is_refused"),
    # 30 arrays of 40 * 50 pixels: 60,000 bytes as raw, 18,000 estimated as JPEG.
    [
        ("raw", 60_000, None),
        ("raw", 59_999, True),
        ("original", 59_999, False),
        ("original", 29_999, True),
        ("jpeg", 18_000, None),
        ("jpeg", 100, False),
    ],
)
def test_room_is_asked_for_before_the_work(
    tmp_path, monkeypatch, caplog, encoding, free, is_refused
):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=free))
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 50), np.uint8)
    source = Arrays(pixels, np.arange(30) % 2)
    needed = 18_000 if encoding == "jpeg" else 60_000
    text = f"the images take about {needed:,} bytes more, {free:,} are free"
    if is_refused:
        with pytest.raises(DatasetError, match=rf"{text}\. Free space, or choose another data_dir"):
            write(tmp_path / "a" / "b" / "c" / "out", source, encoding=encoding)
        assert list((tmp_path / "a" / "b" / "c" / "out").iterdir()) == []
    else:
        write(tmp_path / "a" / "b" / "c" / "out", source, encoding=encoding)
    assert (text in caplog.text) is (is_refused is False)


def test_shard_that_vanishes_while_others_are_written_is_named(tmp_path, folder):
    def remove(done, total):
        if done == total:
            for path in tmp_path.glob("journal of out/*-00001-of-00003.json"):
                path.unlink()

    with pytest.raises(
        DatasetError, match=r"pets-train\.tfrecord-00001-of-00003: was removed or replaced while"
    ):
        write(tmp_path / "out", folder, num_shards=3, progress=remove)
