import hashlib
import io
import os
import pathlib

import keras
import numpy as np
import PIL.Image
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from foreign_files import framed
from images import files_below, frames, noise

import tfrds
from tfrds.errors import ConfigError, DatasetError, SourceError

SIZE = 224
PIXELS = [noise(seed, SIZE, SIZE) for seed in range(7)]
LABELS = [0, 2, 1, 2, 0, 1, 2]
NAMES = ["ant", "bee", "cat"]


def example(**features):
    """Returns an Example of lists of numbers, and of bytes, serialised by TensorFlow."""
    made = {}
    for name, value in features.items():
        if isinstance(value, bytes):
            made[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        elif isinstance(value, float):
            made[name] = tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
        else:
            made[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def write(path, examples):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for one in examples:
            writer.write(one)
    return path


def seed_files(folder, pixels=PIXELS, labels=LABELS, **more):
    """Writes the two files of the layout that the project was asked for."""
    examples = [
        example(image_raw=image.tobytes(), label=label, **more)
        for image, label in zip(pixels, labels, strict=True)
    ]
    return [
        write(folder / "train1.tfrecord", examples[:4]),
        write(folder / "train2.tfrecord", examples[4:]),
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return seed_files(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def adopted(files, tmp_path_factory):
    root = tmp_path_factory.mktemp("adopted")
    return tfrds.from_tfrecords(files, "flowers", data_dir=root, class_names=NAMES)


def by_key(dataset):
    return {one["key"].decode(): one for one in dataset.as_numpy_iterator()}


KEYS = [f"train1.tfrecord/{n}" for n in range(4)] + [f"train2.tfrecord/{n}" for n in range(3)]


def test_the_files_of_the_seed_give_gpu_ready_batches(files, adopted):
    batches = list(
        adopted.as_dataset("train", batch_size=4, as_supervised=True).as_numpy_iterator()
    )
    assert [image.shape for image, _ in batches] == [(4, SIZE, SIZE, 3), (3, SIZE, SIZE, 3)]
    images = np.concatenate([image for image, _ in batches])
    labels = np.concatenate([label for _, label in batches])
    assert (images.dtype, labels.dtype) == (np.float32, np.float32)
    np.testing.assert_array_equal(images, np.stack(PIXELS).astype(np.float32))
    np.testing.assert_array_equal(labels, np.eye(3)[LABELS])


def test_it_is_loaded_by_name_with_the_keys_of_the_files(files, adopted):
    root = adopted.data_dir_root
    dataset = tfrds.load("flowers", split="train", data_dir=root)
    assert set(dataset.element_spec) == {"image_raw", "label"}
    info = adopted.info
    assert info.supervised_keys == ("image_raw", "label")
    assert info.features["image_raw"].shape == (SIZE, SIZE, 3)
    assert info.features["label"].names == NAMES
    assert info.splits["train"].num_examples == 7
    found = by_key(adopted.as_dataset("train", with_key=True))
    assert list(found) == KEYS
    for key, image, label in zip(KEYS, PIXELS, LABELS, strict=True):
        np.testing.assert_array_equal(found[key]["image_raw"], image)
        np.testing.assert_array_equal(found[key]["label"], np.eye(3)[label])


def test_tfds_own_reader_agrees(adopted):
    plain = tfds.builder_from_directory(str(adopted.data_dir))
    theirs = list(plain.as_dataset("train").as_numpy_iterator())
    ours = list(adopted.as_dataset("train").as_numpy_iterator())
    assert len(theirs) == len(ours) == 7
    for mine, other in zip(ours, theirs, strict=True):
        for name in ("image_raw", "label"):
            np.testing.assert_array_equal(mine[name], other[name])


def test_shuffled_streamed_and_at_random_they_are_the_same(adopted):
    expected = [one["label"].argmax() for one in adopted.as_dataset("train").as_numpy_iterator()]
    assert expected == LABELS
    shuffled = by_key(adopted.as_dataset("train", shuffle_files=True, seed=3, with_key=True))
    assert sorted(shuffled) == KEYS
    assert list(shuffled) != KEYS
    streamed = adopted.as_dataset("train", engine="stream", label_mode="int")
    assert [int(one["label"]) for one in streamed.as_numpy_iterator()] == LABELS
    source = adopted.as_data_source("train", label_mode="int", with_key=True)
    assert [(one["key"], int(one["label"])) for one in source] == list(
        zip(KEYS, LABELS, strict=True)
    )


def test_keras_trains_on_it(adopted):
    model = keras.Sequential(
        [keras.Input((SIZE, SIZE, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3)]
    )
    model.compile(loss=keras.losses.CategoricalCrossentropy(from_logits=True))
    train = adopted.as_dataset("train", batch_size=4, as_supervised=True, value_range=(0, 1))
    history = model.fit(train, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_files_and_their_times_are_untouched(tmp_path):
    files = seed_files(tmp_path / "data")
    before = files_below(tmp_path / "data")
    times = [path.stat().st_mtime_ns for path in files]
    one = tfrds.from_tfrecords(
        files, "flowers", data_dir=tmp_path / "root", class_names=NAMES, hashes=True
    )
    list(one.as_dataset("train").as_numpy_iterator())
    assert files_below(tmp_path / "data") == before
    assert [path.stat().st_mtime_ns for path in files] == times
    # Links of TFDS's names, and less than one file's bytes beside them.
    links = sorted(one.data_path.glob("*.tfrecord-*"))
    assert [link.name for link in links] == [
        f"flowers-train.tfrecord-{n:05d}-of-00002" for n in range(2)
    ]
    assert [os.readlink(link) for link in links] == [str(path) for path in files]
    own = [path for path in pathlib.Path(one.data_dir).iterdir() if not path.is_symlink()]
    assert sum(path.stat().st_size for path in own) < 20_000


def test_paths_sizes_times_and_hashes_are_recorded(tmp_path):
    import json

    files = seed_files(tmp_path / "data")
    for hashes in (False, True):
        one = tfrds.from_tfrecords(
            [os.path.relpath(path) for path in files],
            f"hashes_{hashes}".lower(),
            data_dir=tmp_path / "root",
            class_names=NAMES,
            hashes=hashes,
        )
        record = json.loads((one.data_path / "tfrds.json").read_bytes())
        for shard, path in zip(record["splits"]["train"]["shards"], files, strict=True):
            assert shard["path"] == str(path)
            assert shard["bytes"] == path.stat().st_size
            assert shard["mtime_ns"] == path.stat().st_mtime_ns
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if hashes else None
            assert shard["sha256"] == digest


def test_verify_reads_all_of_it(tmp_path):
    files = seed_files(tmp_path / "data")
    tfrds.from_tfrecords(
        files, "flowers", data_dir=tmp_path / "root", class_names=NAMES, hashes=True
    )
    assert tfrds.verify("flowers", data_dir=tmp_path / "root").faults == ()
    status = files[1].stat()
    data = bytearray(files[1].read_bytes())
    data[len(data) // 2] ^= 1
    files[1].write_bytes(bytes(data))
    os.utime(files[1], ns=(status.st_atime_ns, status.st_mtime_ns))
    faults = [fault.what for fault in tfrds.verify("flowers", data_dir=tmp_path / "root").faults]
    assert any("checksum is wrong" in what for what in faults)
    assert any("expected the sha256" in what for what in faults)
    with pytest.raises(tf.errors.OpError, match=r"checksum is wrong"):
        list(tfrds.load("flowers", split="train", data_dir=tmp_path / "root", verify_records=True))


@pytest.mark.parametrize("change", ["grown", "touched", "replaced", "gone"])
def test_a_changed_file_is_noticed_when_it_is_opened(change, tmp_path):
    files = seed_files(tmp_path / "data")
    one = tfrds.from_tfrecords(files, "flowers", data_dir=tmp_path / "root", class_names=NAMES)
    if change == "grown":
        with files[0].open("ab") as file:
            file.write(b"more")
    elif change == "touched":
        os.utime(files[0])
    elif change == "replaced":
        data = files[0].read_bytes()
        files[0].unlink()
        files[0].write_bytes(data)
    else:
        files[0].unlink()
    expected = r"link to .*train1.tfrecord" if change == "gone" else r"train1.*: changed since"
    with pytest.raises(DatasetError, match=expected):
        one.as_dataset("train")
    with pytest.raises(DatasetError, match=expected):
        tfrds.verify("flowers", data_dir=tmp_path / "root")


def test_a_link_that_leads_elsewhere_is_refused(tmp_path):
    files = seed_files(tmp_path / "data")
    one = tfrds.from_tfrecords(files, "flowers", data_dir=tmp_path / "root", class_names=NAMES)
    link = next(pathlib.Path(one.data_dir).glob("*.tfrecord-00000*"))
    link.unlink()
    link.symlink_to(files[1])
    with pytest.raises(DatasetError, match=r"expected a link to .*train1.*, found one to .*train2"):
        one.as_dataset("train")


def test_labels_that_count_from_one_need_an_offset(tmp_path):
    labels = [label + 1 for label in LABELS]
    files = seed_files(tmp_path / "data", labels=labels)
    with pytest.raises(SourceError, match=r"got 1 to 3 .*Pass label_offset=-1"):
        tfrds.from_tfrecords(files, "flowers", data_dir=tmp_path / "root", class_names=NAMES)
    one = tfrds.from_tfrecords(
        files, "flowers", data_dir=tmp_path / "root", class_names=NAMES, label_offset=-1
    )
    expected = np.eye(3)[LABELS]
    plain = tfds.builder_from_directory(str(one.data_dir))
    for dataset in (
        one.as_dataset("train"),
        one.as_dataset("train", engine="stream"),
        plain.as_dataset("train"),
        one.as_dataset("train", verify_records=True),
    ):
        found = np.stack([example["label"] for example in dataset.as_numpy_iterator()])
        np.testing.assert_array_equal(found, expected)
    assert tfrds.verify("flowers", data_dir=tmp_path / "root").faults == ()


@pytest.mark.parametrize("names", [None, ["cat", "bee", "ant"]])
def test_labels_may_be_names(names, tmp_path):
    examples = [
        example(**{"image_raw": noise(n, 8, 8).tobytes(), "label": NAMES[label].encode()})
        for n, label in enumerate(LABELS)
    ]
    path = write(tmp_path / "data" / "all.tfrecord", examples)
    one = tfrds.from_tfrecords(path, "named", data_dir=tmp_path / "root", class_names=names)
    ordered = names or NAMES
    assert one.info.features["label"].names == ordered
    expected = np.eye(3)[[ordered.index(NAMES[label]) for label in LABELS]]
    plain = tfds.builder_from_directory(str(one.data_dir))
    for dataset in (one.as_dataset("train"), plain.as_dataset("train")):
        found = np.stack([example["label"] for example in dataset.as_numpy_iterator()])
        np.testing.assert_array_equal(found, expected)
    assert tfrds.verify("named", data_dir=tmp_path / "root").faults == ()
    with pytest.raises(ConfigError, match=r"\"stream\" cannot read named.*names of classes"):
        one.as_dataset("train", engine="stream")


def jpeg(seed, height=12, width=9):
    file = io.BytesIO()
    PIL.Image.fromarray(noise(seed, height, width)).save(file, "JPEG")
    return file.getvalue()


def test_image_files_in_records_are_decoded_and_resized_while_reading(tmp_path):
    files = [jpeg(n, 12 + n, 9) for n in range(5)]
    examples = [
        example(**{"image/encoded": data, "image/class/label": n % 2, "image/filename": b"x"})
        for n, data in enumerate(files)
    ]
    path = write(tmp_path / "data" / "all.tfrecord", examples)
    one = tfrds.from_tfrecords(path, "encoded", data_dir=tmp_path / "root", class_names=["a", "b"])
    found = list(one.as_dataset("train").as_numpy_iterator())
    for data, example_ in zip(files, found, strict=True):
        expected = np.asarray(PIL.Image.open(io.BytesIO(data)))
        np.testing.assert_array_equal(example_["image/encoded"], expected)
    sized = tfrds.from_tfrecords(
        path,
        "sized",
        data_dir=tmp_path / "root",
        class_names=["a", "b"],
        image_size=(8, 8),
    )
    (batch,) = sized.as_dataset("train", batch_size=5).as_numpy_iterator()
    assert batch["image/encoded"].shape == (5, 8, 8, 3)
    plain = tfds.builder_from_directory(str(sized.data_dir))
    for mine, other in zip(batch["image/encoded"], plain.as_dataset("train"), strict=True):
        np.testing.assert_array_equal(mine, other["image/encoded"])
    assert tfrds.verify("sized", data_dir=tmp_path / "root").faults == ()


def test_odd_shapes(tmp_path):
    pixels = [noise(n, 17, 31) for n in range(7)]
    files = seed_files(tmp_path / "data", pixels=pixels)
    with pytest.raises(ConfigError, match=r"image_raw.*1,?581"):
        tfrds.from_tfrecords(files, "odd", data_dir=tmp_path / "root", class_names=NAMES)
    one = tfrds.from_tfrecords(
        files,
        "odd",
        data_dir=tmp_path / "root",
        class_names=NAMES,
        image_key="image_raw",
        label_key="label",
        image_size=(17, 31),
        channels=3,
    )
    found = [example["image_raw"] for example in one.as_dataset("train").as_numpy_iterator()]
    np.testing.assert_array_equal(np.stack(found), np.stack(pixels))


def test_splits_by_file_pattern_are_read_by_tfds_too(tmp_path):
    files = seed_files(tmp_path / "data")
    one = tfrds.from_tfrecords(
        files,
        "flowers",
        data_dir=tmp_path / "root",
        class_names=NAMES,
        splits={"train": "train1*", "test": ["*2.tfrecord"]},
    )
    assert {name: split.num_examples for name, split in one.info.splits.items()} == {
        "test": 3,
        "train": 4,
    }
    plain = tfds.builder_from_directory(str(one.data_dir))
    for split, labels in {"train": LABELS[:4], "test": LABELS[4:]}.items():
        for dataset in (one.as_dataset(split), plain.as_dataset(split)):
            found = [int(e["label"].argmax()) for e in dataset.as_numpy_iterator()]
            assert found == labels


def test_a_dict_gives_splits(tmp_path):
    first, second = seed_files(tmp_path / "data")
    one = tfrds.from_tfrecords(
        {"train": first, "test": second}, "flowers", data_dir=tmp_path / "root", class_names=NAMES
    )
    assert len(list(one.as_dataset("test"))) == 3


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"train": "train1*"}, r"'train2.tfrecord' matches those of none"),
        ({"train": "train*", "test": "*2*"}, r"train2.tfrecord' matches .*\['train', 'test'\]"),
        ({"train": "train*", "test": "nothing"}, r"no file matches \['nothing'\] of 'test'"),
    ],
)
def test_patterns_name_each_file_once(splits, message, tmp_path):
    files = seed_files(tmp_path / "data")
    with pytest.raises(ConfigError, match=message):
        tfrds.from_tfrecords(
            files, "flowers", data_dir=tmp_path / "root", class_names=NAMES, splits=splits
        )


def test_splits_by_index_are_stratified_and_read_by_tfrds_only(tmp_path):
    labels = [n % 3 for n in range(60)]
    pixels = [noise(n, 6, 6) for n in range(60)]
    files = seed_files(tmp_path / "data", pixels=pixels, labels=labels)
    one = tfrds.from_tfrecords(
        files,
        "divided",
        data_dir=tmp_path / "root",
        class_names=NAMES,
        splits={"train": 0.8, "test": 0.2},
    )
    seen = {}
    for split, count in {"train": 48, "test": 12}.items():
        found = by_key(one.as_dataset(split, with_key=True, verify_records=True))
        assert len(found) == count
        classes = [int(example["label"].argmax()) for example in found.values()]
        assert np.bincount(classes).tolist() == [count // 3] * 3
        seen.update(found)
    assert len(seen) == 60
    for key, example_ in seen.items():
        file, number = key.split("/")
        row = int(number) + (4 if file == "train2.tfrecord" else 0)
        np.testing.assert_array_equal(example_["image_raw"], pixels[row])
        assert example_["label"].argmax() == labels[row]
    assert tfrds.verify("divided", data_dir=tmp_path / "root").faults == ()
    plain = tfds.builder_from_directory(str(one.data_dir))
    with pytest.raises(Exception, match=r"only_tfrds_reads_this"):
        list(plain.as_dataset("train"))
    with pytest.raises(ConfigError, match=r"\"stream\" cannot read divided.*lie among those"):
        one.as_dataset("train", engine="stream")


def test_numbers_without_names_are_told(tmp_path):
    files = seed_files(tmp_path / "data")
    with pytest.warns(tfrds.TfrdsWarning, match=r"'label' has class numbers up to 2, so .*3 class"):
        one = tfrds.from_tfrecords(files, "flowers", data_dir=tmp_path / "root")
    assert one.info.features["label"].names == ["0", "1", "2"]


def test_images_alone(tmp_path):
    examples = [example(image_raw=noise(n, 8, 8).tobytes()) for n in range(3)]
    path = write(tmp_path / "data" / "a.tfrecord", examples)
    one = tfrds.from_tfrecords(path, "alone", data_dir=tmp_path / "root", label_kind="none")
    assert set(one.as_dataset("train").element_spec) == {"image_raw"}
    assert one.as_dataset("train", as_supervised=True).element_spec.shape == (8, 8, 3)


@pytest.mark.parametrize("kind", ["gzip", "float", "label"])
def test_what_cannot_be_used_where_it_lies_says_to_build(kind, tmp_path):
    path = tmp_path / "data" / "a.tfrecord"
    path.parent.mkdir()
    pixels = noise(1, 8, 8)
    if kind == "gzip":
        with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
            writer.write(example(image_raw=pixels.tobytes(), label=1))
    elif kind == "float":
        write(path, [example(image_raw=(pixels / 255).astype(np.float32).tobytes(), label=0)] * 2)
    else:
        write(path, [example(image_raw=pixels.tobytes(), label=1.0)])
    arguments = {"image_size": (8, 8), "channels": 3} if kind == "float" else {}
    with pytest.raises(SourceError, match=r"tfrds.sources.TFRecords\("):
        tfrds.from_tfrecords(
            path, "flowers", data_dir=tmp_path / "root", image_key="image_raw", **arguments
        )
    assert not (tmp_path / "root" / "flowers" / "1.0.0").exists()


@pytest.mark.parametrize("damage", ["cut", "header", "text", "empty"])
def test_damaged_files_are_named_with_their_record(damage, tmp_path):
    files = seed_files(tmp_path / "data", pixels=[noise(n, 8, 8) for n in range(7)])
    data = files[1].read_bytes()
    changed = {
        "cut": data[:-20],
        "header": data[: len(data) // 3]
        + bytes([data[len(data) // 3] ^ 255])
        + data[len(data) // 3 + 1 :],
        "text": b"this is no TFRecord file at all, but some text",
        "empty": b"",
    }[damage]
    files[1].write_bytes(changed)
    options = {"data_dir": tmp_path / "root", "class_names": NAMES}
    message = "empty file" if damage == "empty" else ""
    with pytest.raises(SourceError, match=rf"train2.tfrecord.*{message}"):
        tfrds.from_tfrecords(files, "flowers", **options)
    assert not (tmp_path / "root" / "flowers" / "1.0.0").exists()


def test_an_existing_version_is_kept_unless_it_is_to_be_replaced(tmp_path):
    files = seed_files(tmp_path / "data", pixels=[noise(n, 8, 8) for n in range(7)])
    options = {"data_dir": tmp_path / "root", "class_names": NAMES}
    tfrds.from_tfrecords(files, "flowers", **options)
    with pytest.raises(DatasetError, match=r"this version exists"):
        tfrds.from_tfrecords(files[:1], "flowers", **options)
    one = tfrds.from_tfrecords(files[:1], "flowers", overwrite=True, **options)
    assert len(list(one.as_dataset("train"))) == 4


def test_adopted_shards_become_no_others(tmp_path):
    files = seed_files(tmp_path / "data", pixels=[noise(n, 8, 8) for n in range(7)])
    tfrds.from_tfrecords(files, "flowers", data_dir=tmp_path / "root", class_names=NAMES)
    with pytest.raises(ConfigError, match=r"the shards of flowers 1.0.0 belong to others"):
        tfrds.edit("flowers", remove=[KEYS[0]], data_dir=tmp_path / "root")


def test_rm_removes_links_and_leaves_files(tmp_path, capsys):
    from tfrds.cli import main

    files = seed_files(tmp_path / "data", pixels=[noise(n, 8, 8) for n in range(7)])
    tfrds.from_tfrecords(files, "flowers", data_dir=tmp_path / "root", class_names=NAMES)
    assert main(["rm", "flowers", "--yes", "--data-dir", str(tmp_path / "root")]) == 0
    assert not (tmp_path / "root" / "flowers").exists()
    assert all(path.exists() for path in files)


def test_the_command_adopts(tmp_path, capsys):
    from tfrds.cli import main

    files = seed_files(tmp_path / "data", pixels=[noise(n, 8, 8) for n in range(7)])
    names = tmp_path / "names.txt"
    names.write_text("\n".join(NAMES))
    code = main(
        [
            "adopt",
            *map(str, files),
            *("--name", "flowers", "--class-names", str(names), "--hashes"),
            *("--splits", "train=train1*,test=train2*", "--data-dir", str(tmp_path / "root")),
        ]
    )
    out = capsys.readouterr().out
    assert code == 0
    assert "7" in out
    one = tfrds.builder("flowers", data_dir=tmp_path / "root")
    assert sorted(one.info.splits) == ["test", "train"]
    assert pathlib.Path(one.data_dir, "label.labels.txt").read_text() == "ant\nbee\ncat\n"


def test_ten_thousand_files_of_one_record(tmp_path):
    pixels = noise(0, 4, 4).tobytes()
    folder = tmp_path / "data"
    folder.mkdir()
    record = tf.io.TFRecordWriter(str(folder / "one"))
    record.write(example(image_raw=pixels, label=0))
    record.close()
    data = (folder / "one").read_bytes()
    (folder / "one").unlink()
    for number in range(10_000):
        (folder / f"{number:05d}.tfrecord").write_bytes(data)
    one = tfrds.from_tfrecords(
        str(folder / "*.tfrecord"), "many", data_dir=tmp_path / "root", class_names=["only"]
    )
    (batch,) = one.as_dataset(
        "train[:100]", batch_size=100, shuffle_files=True, seed=1
    ).as_numpy_iterator()
    expected = np.frombuffer(pixels, np.uint8).reshape(4, 4, 3)
    np.testing.assert_array_equal(batch["image_raw"], np.stack([expected] * 100))
    total = sum(
        len(b["label"]) for b in one.as_dataset("train", batch_size=1000).as_numpy_iterator()
    )
    assert total == 10_000


def test_images_that_would_be_turned_are_told(tmp_path, caplog):
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    PIL.Image.fromarray(noise(1, 12, 9)).save(file, "JPEG", exif=exif)
    examples = [example(image=data, label=0) for data in (file.getvalue(), jpeg(2))]
    path = write(tmp_path / "data" / "a.tfrecord", examples)
    one = tfrds.from_tfrecords(path, "turned", data_dir=tmp_path / "root", class_names=["a"])
    assert "1 of 2 images say in their EXIF that they are to be turned." in caplog.text
    (first, _) = one.as_dataset("train").as_numpy_iterator()
    assert first["image"].shape == (12, 9, 3)


def change_text(path, old, new):
    """Writes other text of the same length into every record of a file, with right checksums."""
    status = path.stat()
    data = [record.replace(old, new) for _, record in frames(path)]
    path.write_bytes(b"".join(framed(one) for one in data))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def text_files(folder, names=("ant", "bee", "cat")):
    """Writes records of two rows of pixels each, whose labels are the names of classes."""
    examples = [
        example(image_raw=noise(n, 8, 8).tobytes(), label=names[label].encode())
        for n, label in enumerate(LABELS)
    ]
    return write(folder / "all.tfrecord", examples)


@pytest.mark.parametrize(
    ("new", "message"),
    [(b"bee", r"its label is 1, the index says 0"), (b"anx", r"its label is -1, the index says 0")],
)
def test_names_in_records_are_checked_against_the_index(new, message, tmp_path):
    path = text_files(tmp_path / "data")
    one = tfrds.from_tfrecords(path, "named", data_dir=tmp_path / "root")
    change_text(path, b"ant", new)
    with pytest.raises(tf.errors.OpError, match=message):
        list(one.as_dataset("train", verify_records=True))
    with pytest.raises(DatasetError, match=message):
        list(one.as_data_source("train", verify_records=True))
    faults = [fault.what for fault in tfrds.verify("named", data_dir=tmp_path / "root").faults]
    expected = "label 0 instead of 1" if new == b"bee" else "label: expected 0 to 2, found -1"
    assert any(expected in what for what in faults)


def test_tfds_own_reader_takes_no_unknown_name_for_the_first_class(tmp_path):
    path = text_files(tmp_path / "data")
    one = tfrds.from_tfrecords(path, "named", data_dir=tmp_path / "root")
    change_text(path, b"cat", b"cow")
    plain = tfds.builder_from_directory(str(one.data_dir))
    with pytest.raises(tf.errors.OpError, match=r"expected the name of a class, found"):
        list(plain.as_dataset("train"))


def test_names_that_are_not_composed_are_not_adopted(tmp_path):
    decomposed = "cafe\u0301"
    path = text_files(tmp_path / "data", (decomposed, "bee", "cat"))
    message = r"all.tfrecord record 0: feature 'label': the class 'cafe\u0301' .*'s NFC form"
    with pytest.raises(SourceError, match=message):
        tfrds.from_tfrecords(path, "named", data_dir=tmp_path / "root")


def small(tmp_path, count=30, **options):
    files = seed_files(
        tmp_path / "data", [noise(n, 6, 6) for n in range(count)], [n % 3 for n in range(count)]
    )
    options = {"class_names": NAMES, **options}
    return files, tfrds.from_tfrecords(files, "small", data_dir=tmp_path / "root", **options)


def test_pixels_are_normalised_by_their_own_mean_and_deviation(tmp_path):
    _, one = small(tmp_path)
    pixels = np.stack([noise(n, 6, 6) for n in range(30)]).astype(np.float64)
    mean, std = pixels.mean(axis=(0, 1, 2)), pixels.std(axis=(0, 1, 2))
    found = one.as_dataset("train", batch_size=-1, normalize="dataset")["image_raw"].numpy()
    np.testing.assert_allclose(found, (pixels - mean) / std, atol=1e-5)


@pytest.mark.parametrize("divided", [False, True])
def test_checked_reads_notice_another_index(divided, tmp_path):
    splits = {"train": 0.8, "test": 0.2} if divided else None
    _, one = small(tmp_path, splits=splits)
    path = one.data_path / "small-train.index.npy"
    rows = np.load(path)
    # The record before it, which has no hash that would tell.
    rows["offset"][5], rows["label"][5] = rows["offset"][4], rows["label"][4]
    np.save(path, rows)
    with pytest.raises(DatasetError, match=r"small-train.index.npy: expected the sha256"):
        one.as_dataset("train", verify_records=True)


def test_a_damaged_record_of_a_divided_file_is_named_by_its_own_key(tmp_path):
    files, one = small(tmp_path, splits={"train": 0.7, "test": 0.3})
    places = {}  # of each record's data, by key
    for path in files:
        digits = 1 if path.name.startswith("train1") else 2
        for number, (offset, _) in enumerate(frames(path)):
            places[f"{path.name}/{number:0{digits}d}"] = path, offset
    for split in ("train", "test"):
        keys = [e["key"].decode() for e in one.as_dataset(split, with_key=True).as_numpy_iterator()]
        key = keys[-2]
        path, offset = places[key]
        status, data = path.stat(), path.read_bytes()
        for place, what in ((offset + 30, "its checksum is wrong"), (offset, "wrong checksum")):
            changed = bytearray(data)
            changed[place] ^= 1
            path.write_bytes(bytes(changed))
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            faults = tfrds.verify("small", data_dir=tmp_path / "root").faults
            (fault,) = (fault for fault in faults if what in fault.what)
            assert (fault.key, f"-{split}." in fault.file) == (key, True)
            path.write_bytes(data)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert tfrds.verify("small", data_dir=tmp_path / "root").faults == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_kind": "none", "class_names": NAMES}, r"class_names: images without labels"),
        ({"label_kind": "none", "label_offset": 1}, r"label_offset: images without labels .*got 1"),
    ],
)
def test_labels_that_are_not_there_have_no_options(options, message, tmp_path):
    files = seed_files(tmp_path / "data", pixels=[noise(n, 6, 6) for n in range(7)])
    with pytest.raises(ConfigError, match=message):
        tfrds.from_tfrecords(files, "alone", data_dir=tmp_path / "root", **options)


def test_splits_are_given_once(tmp_path):
    first, second = seed_files(tmp_path / "data", pixels=[noise(n, 6, 6) for n in range(7)])
    with pytest.raises(ConfigError, match=r"splits: .* by split, \['train', 'test'\], got \{'tr"):
        tfrds.from_tfrecords(
            {"train": first, "test": second},
            "twice",
            data_dir=tmp_path / "root",
            class_names=NAMES,
            splits={"train": 0.5, "test": 0.5},
        )


@pytest.mark.parametrize("key", ["key", "tfds_id", "sample_weight", "a\nb"])
def test_features_that_reading_adds_are_no_labels(key, tmp_path):
    examples = [example(**{"image_raw": noise(n, 8, 8).tobytes(), key: n % 2}) for n in range(4)]
    path = write(tmp_path / "data" / "a.tfrecord", examples)
    with pytest.raises(ConfigError, match=r"the feature .* cannot be named so in a dataset"):
        tfrds.from_tfrecords(
            path, "named", data_dir=tmp_path / "root", label_key=key, class_names=["a", "b"]
        )


def test_a_label_may_be_called_type(tmp_path):
    examples = [example(image=noise(n, 8, 8).tobytes(), type=n % 2) for n in range(4)]
    path = write(tmp_path / "data" / "a.tfrecord", examples)
    one = tfrds.from_tfrecords(
        path, "typed", data_dir=tmp_path / "root", label_key="type", class_names=["a", "b"]
    )
    found = [example_["type"].argmax() for example_ in one.as_dataset("train").as_numpy_iterator()]
    assert found == [0, 1, 0, 1]


def test_more_files_than_shards_can_be_numbered_are_refused(tmp_path, monkeypatch):
    from tfrds.write import adopt

    monkeypatch.setattr(adopt, "MAX_SHARDS", 1)
    files = seed_files(tmp_path / "data", pixels=[noise(n, 6, 6) for n in range(7)])
    with pytest.raises(ConfigError, match=r"files: expected at most 1 files, got 2"):
        tfrds.from_tfrecords(files, "many", data_dir=tmp_path / "root", class_names=NAMES)


def test_duplicates_of_adopted_images_are_not_known(tmp_path):
    from tfrds.tools.duplicates import dataset_duplicates

    _, one = small(tmp_path)
    with pytest.raises(ConfigError, match=r"duplicates: the shards of small .* belong to others"):
        dataset_duplicates(one.data_dir)


@pytest.mark.parametrize("offset", [2**31, -(2**31), 10**30])
def test_offsets_beyond_class_numbers_are_refused(offset, tmp_path):
    import json

    _, one = small(tmp_path)
    path = one.data_path / "tfrds.json"
    content = json.loads(path.read_bytes())
    content["adopted"]["label_offset"] = offset
    path.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=r"holds values that tfrds never writes"):
        tfrds.builder("small", data_dir=tmp_path / "root")


def test_it_gives_way_to_a_dataset_of_another_kind_and_back(tmp_path):
    files, _ = small(tmp_path)
    values = np.linspace(0, 1, 5, dtype=np.float32)
    source = tfrds.sources.Arrays(np.zeros((5, 4, 4, 3), np.uint8), values, label_kind="value")
    root = tmp_path / "root"
    with pytest.raises(DatasetError, match=r"kind of labels was 'single', is 'value'.*now none"):
        tfrds.build("small", source, data_dir=root)
    built = tfrds.build("small", source, data_dir=root, overwrite=True)
    found = sorted(e["label"].item() for e in built.as_dataset("train").as_numpy_iterator())
    assert found == values.tolist()
    assert all(path.exists() for path in files)
    again = tfrds.from_tfrecords(
        files, "small", data_dir=root, class_names=NAMES, label_offset=0, overwrite=True
    )
    assert again.info.supervised_keys == ("image_raw", "label")
    assert len(list(again.as_dataset("train", as_supervised=True))) == 30
