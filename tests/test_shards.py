import hashlib
import os
import pathlib
import re
import struct

import images
import numpy as np
import pytest
import tensorflow as tf
import xxhash
from damaged import serialized
from PIL import Image

from tfrds.disk.columns import Column, ColumnSpec
from tfrds.disk.index import JPEG, PNG, RAW
from tfrds.disk.journal import Journal
from tfrds.errors import EncodeError, SourceError
from tfrds.spec import ImageSpec
from tfrds.write import shards
from tfrds.write.faults import Fault
from tfrds.write.shards import ShardTask, write_shard


class Inputs:
    """Images under the names "image 0", "image 1", ...; an exception is raised when it is read."""

    def __init__(self, *values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def name(self, position):
        return f"image {position}"

    def read(self, position):
        value = self.values[position]
        if isinstance(value, Exception):
            raise value
        return value


def label_column(labels):
    return Column(ColumnSpec(name="label", dtype="int64"), np.array(labels, np.int32))


def task(path, *values, labels=None, encoding="original", task=None, **spec):
    folder = pathlib.Path(path.parent, "journal")
    folder.mkdir(exist_ok=True)
    labels = np.array(range(len(values)) if labels is None else labels, np.int32)
    return ShardTask(
        path=path,
        journal=Journal(folder),
        inputs=Inputs(*values),
        labels=labels,
        features=(label_column(labels),),
        spec=ImageSpec(encoding=encoding, channels=3, **spec),
        image_key="image",
        **{"digest": "0123", "max_faults": 100, **(task or {})},
    )


def write(one):
    """Writes a shard without faults; returns its entry in the journal."""
    report = write_shard(one)
    assert report.faults == ()
    assert report.num_inputs == len(one.inputs)
    assert not report.was_there
    return one.journal.get(one.path.name, one.digest)


PIXELS = [images.noise(seed, 10 + seed, 20 - seed) for seed in range(4)]
MIXED = [
    images.encoded(PIXELS[0]),
    images.encoded(PIXELS[1], "JPEG", quality=80),
    images.encoded(PIXELS[2], "GIF"),
    PIXELS[3],
]


def test_rows_say_where_everything_lies_in_the_file(tmp_path):
    path = tmp_path / "shard"
    result = write(task(path, *MIXED, labels=[0, 127, 128, 70_000]))
    content = path.read_bytes()
    frames = images.frames(path)
    assert len(frames) == len(result.rows) == 4
    for row, (offset, data), label, seed in zip(
        result.rows, frames, [0, 127, 128, 70_000], range(4), strict=True
    ):
        feature = tf.train.Example.FromString(data).features.feature
        (image,) = feature["image"].bytes_list.value
        assert list(feature["label"].int64_list.value) == [label] == [row["label"]]
        assert (row["offset"], row["length"]) == (offset, len(data))
        start = offset + 12 + row["image_offset"]
        assert content[start : start + row["image_length"]] == image
        assert (row["height"], row["width"], row["channels"]) == (10 + seed, 20 - seed, 3)
        assert bytes(row["content"]) == xxhash.xxh3_128(image).digest()
        assert (row["flags"], bytes(row["reserved"])) == (0, bytes(12))
    assert result.rows["encoding"].tolist() == [PNG, JPEG, PNG, PNG]


def test_file_is_what_tensorflow_writes(tmp_path):
    result = write(task(tmp_path / "ours", *MIXED))
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for _, data in images.frames(tmp_path / "ours"):
            writer.write(data)
    ours = (tmp_path / "ours").read_bytes()
    assert ours == (tmp_path / "theirs").read_bytes()
    assert result.num_bytes == len(ours)
    assert result.sha256 == hashlib.sha256(ours).hexdigest()


def test_original_files_keep_their_bytes_and_others_become_png(tmp_path):
    write(task(tmp_path / "shard", *MIXED))
    stored = [
        tf.train.Example.FromString(data).features.feature["image"].bytes_list.value[0]
        for _, data in images.frames(tmp_path / "shard")
    ]
    assert stored[:2] == MIXED[:2]
    assert stored[2].startswith(b"\x89PNG")
    assert (tf.io.decode_png(stored[3]).numpy() == PIXELS[3]).all()


def test_result_says_whether_anything_was_encoded_again(tmp_path):
    assert not write(task(tmp_path / "a", *MIXED[:2])).has_reencoded
    assert write(task(tmp_path / "b", *MIXED[1:3])).has_reencoded
    assert not write(task(tmp_path / "c", PIXELS[0], encoding="raw")).has_reencoded
    assert write(task(tmp_path / "d", PIXELS[0], encoding="jpeg")).has_reencoded


def test_raw_pixels_are_stored_as_they_are(tmp_path):
    result = write(task(tmp_path / "shard", PIXELS[0], PIXELS[0][::-1], encoding="raw"))
    content = (tmp_path / "shard").read_bytes()
    assert PIXELS[0].tobytes() in content
    assert PIXELS[0][::-1].tobytes() in content
    assert result.rows["encoding"].tolist() == [RAW, RAW]
    assert len(set(np.diff(result.rows["offset"]))) == 1


def test_more_than_one_block_is_written_in_order(tmp_path):
    pixels = [images.noise(seed, 300, 400) for seed in range(7)]  # 2.5 MB
    result = write(task(tmp_path / "shard", *pixels, encoding="raw"))
    frames = images.frames(tmp_path / "shard")
    assert [offset for offset, _ in frames] == result.rows["offset"].tolist()
    for (_, data), each in zip(frames, pixels, strict=True):
        assert each.tobytes() in data


def test_writes_that_take_a_part_are_continued(tmp_path, monkeypatch):
    write(task(tmp_path / "whole", *MIXED))

    class Reluctant:
        """A file that takes at most 100 bytes at once."""

        def __init__(self, path):
            self.file = path.open("wb", buffering=0)

        def write(self, data):
            return self.file.write(data[:100])

        def close(self):
            self.file.close()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.close()

    class Path(type(tmp_path)):
        def open(self, *_, **__):
            return Reluctant(tmp_path / self.name)

    write(task(Path(tmp_path, "parts"), *MIXED))
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


def test_repaired_images_are_listed(tmp_path, dummy_data):
    broken = (dummy_data / "extraneous_bytes.jpg").read_bytes()
    result = write(task(tmp_path / "shard", MIXED[1], broken))
    ((name, reason),) = result.repaired
    assert name == "image 1"
    assert "extraneous bytes" in reason
    assert result.has_reencoded


BAD = [
    (MIXED[0][:60], EncodeError, "cut off or damaged", "image 1: cut off or damaged"),
    (b"", EncodeError, "empty", "image 1: empty file"),
    (b"text", EncodeError, "not an image", "image 1: not an image: it looks like text"),
    (
        FileNotFoundError(2, "No such file or directory"),
        SourceError,
        "cannot be read",
        "image 1: cannot be read: No such file",
    ),
    (OSError("no answer"), SourceError, "cannot be read", "image 1: cannot be read: no answer"),
    (SourceError("image 1: its own"), SourceError, "cannot be read", "image 1: its own"),
    (np.zeros((4, 5, 7), np.uint8), EncodeError, "wrong array", "image 1: .*7"),
    (np.zeros(4, np.uint8), EncodeError, "wrong array", "image 1: .*4"),
    (np.zeros((4, 5), np.int64), EncodeError, "wrong array", "image 1: .*int64"),
    ([[1]], EncodeError, "not an image", "image 1: expected the bytes of a file .* got list"),
]


@pytest.mark.parametrize(("value", "error", "reason", "message"), BAD)
def test_image_that_cannot_be_stored_is_named_and_leaves_no_shard(
    tmp_path, value, error, reason, message
):
    one = task(tmp_path / "shard", MIXED[0], value, MIXED[1], b"")
    report = write_shard(one)
    assert report.num_inputs == 4
    assert [(fault.name, fault.reason) for fault in report.faults] == [
        ("image 1", reason),
        ("image 3", "empty"),
    ]
    assert re.match(message, report.faults[0].message)
    assert report.faults[0].error_type is error
    assert images.files_below(tmp_path) == {}


@pytest.mark.parametrize(("value", "error", "reason", "message"), BAD)
def test_image_that_cannot_be_stored_is_skipped(tmp_path, value, error, reason, message):
    one = task(tmp_path / "shard", MIXED[0], value, MIXED[1], task={"skips": True})
    (fault,) = write_shard(one).faults
    assert re.match(message, fault.message)
    entry = one.journal.get("shard", one.digest)
    assert entry.skipped == ((1, reason, fault.message),)
    assert entry.kept.tolist() == [0, 2]
    without = write(task(tmp_path / "without", MIXED[0], MIXED[1], labels=[0, 2]))
    assert (entry.rows == without.rows).all()
    assert (tmp_path / "shard").read_bytes() == (tmp_path / "without").read_bytes()


def test_all_images_may_be_skipped(tmp_path):
    one = task(tmp_path / "shard", b"", b"text", task={"skips": True})
    assert len(write_shard(one).faults) == 2
    entry = one.journal.get("shard", one.digest)
    assert (len(entry.rows), entry.kept.tolist(), entry.num_bytes) == (0, [], 0)
    assert (tmp_path / "shard").read_bytes() == b""


@pytest.mark.parametrize("skips", [False, True])
def test_shard_with_too_many_faults_is_given_up_and_leaves_nothing(tmp_path, skips):
    one = task(tmp_path / "shard", *[b""] * 9, task={"skips": skips, "max_faults": 3})
    report = write_shard(one)
    assert (report.num_inputs, len(report.faults)) == (4, 4)
    assert images.files_below(tmp_path) == {}


def test_finished_shard_is_not_done_again(tmp_path):
    one = task(tmp_path / "shard", MIXED[0], b"", task={"skips": True})
    first = write_shard(one)
    before = images.files_below(tmp_path), (tmp_path / "shard").stat().st_mtime_ns

    class Unread(Inputs):
        def read(self, position):
            raise AssertionError(position)

    again = write_shard(ShardTask(**{**vars(one), "inputs": Unread(MIXED[0], b"")}))
    assert again.was_there
    assert (again.num_inputs, again.faults) == (2, first.faults)
    assert (images.files_below(tmp_path), (tmp_path / "shard").stat().st_mtime_ns) == before


@pytest.mark.parametrize("damage", ["gone", "cut", "changed", "other task"])
def test_shard_that_is_not_whole_is_done_again(tmp_path, damage):
    one = task(tmp_path / "shard", *MIXED)
    write(one)
    whole = (tmp_path / "shard").read_bytes()
    if damage == "gone":
        (tmp_path / "shard").unlink()
    elif damage == "cut":
        images.put(tmp_path / "shard", whole[:-1])
    elif damage == "changed":
        images.put(tmp_path / "shard", whole[:-1] + bytes([whole[-1] ^ 1]))
    else:
        one = task(tmp_path / "shard", *MIXED, task={"digest": "4567"})
    write(one)
    assert (tmp_path / "shard").read_bytes() == whole


@pytest.mark.parametrize("skips", [False, True])
def test_bad_inputs_are_copied_aside(tmp_path, skips):
    array = np.zeros((4, 5, 7), np.uint8)
    values = [MIXED[0], b"text", array, PermissionError(13, "Permission denied"), [[1]]]
    aside = tmp_path / "aside"
    write_shard(task(tmp_path / "shard", *values, task={"skips": skips, "quarantine": aside}))
    assert sorted(os.listdir(aside)) == ["image 1", "image 2.npy"]
    assert (aside / "image 1").read_bytes() == b"text"
    assert (np.load(aside / "image 2.npy") == array).all()


def test_quarantine_that_comes_later_gets_what_was_skipped_before(tmp_path):
    values = [MIXED[0], b"text", PermissionError(13, "Permission denied")]
    write_shard(task(tmp_path / "shard", *values, task={"skips": True}))
    later = {"skips": True, "quarantine": tmp_path / "aside"}
    assert write_shard(task(tmp_path / "shard", *values, task=later)).was_there
    assert images.files_below(tmp_path / "aside") == {"image 1": b"text"}


def test_input_that_is_worked_on_can_be_found(tmp_path):
    one = task(tmp_path / "shard", *MIXED, task={"is_marked": True})
    seen = []

    class Watching(Inputs):
        def read(self, position):
            seen.append((position, one.journal.marked("shard")))
            return super().read(position)

    write(ShardTask(**{**vars(one), "inputs": Watching(*MIXED)}))
    assert seen == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert one.journal.marked("shard") is None


def test_raw_images_of_two_sizes_are_refused_with_both(tmp_path):
    spec = {"encoding": "raw", "shape_from": (10, 20)}
    (fault,) = write_shard(task(tmp_path / "shard", PIXELS[0], PIXELS[1], **spec)).faults
    assert fault.reason == "wrong size"
    assert re.match(
        r"image 1: size .*expected \(10, 20\), got\s+\(11, 19\).*image_size=\(10, 20\)",
        fault.message,
    )


def test_record_beyond_the_limit_is_refused(tmp_path, monkeypatch):
    image = np.zeros((10, 20, 3), np.uint8)
    size = len(serialized(image.tobytes(), 0))
    monkeypatch.setattr(shards, "MAX_RECORD_BYTES", size)
    write(task(tmp_path / "shard", image, encoding="raw"))
    monkeypatch.setattr(shards, "MAX_RECORD_BYTES", size - 1)
    message = f"image 0: expected at most {size - 1} bytes a record, got {size}."
    assert write_shard(task(tmp_path / "other", image, encoding="raw")).faults == (
        Fault("image 0", "too large", message),
    )


def test_shard_appears_under_its_name_only_when_complete(tmp_path):
    path = tmp_path / "shard"

    class Watching(Inputs):
        def read(self, position):
            assert not path.exists()
            return super().read(position)

    one = task(path, *MIXED)
    write(ShardTask(**{**vars(one), "inputs": Watching(*MIXED)}))
    assert sorted(images.files_below(tmp_path)) == [
        "journal/shard.json",
        "journal/shard.npy",
        "shard",
    ]


def test_shard_can_be_written_again(tmp_path):
    first = write(task(tmp_path / "shard", *MIXED))
    again = write(task(tmp_path / "shard", *MIXED, task={"digest": "4567"}))
    assert first.sha256 == again.sha256
    assert (first.rows == again.rows).all()


def test_full_disk_is_an_os_error_for_the_layer_that_commits(tiny_disk):
    with pytest.raises(OSError, match="No space left"):
        write(task(tiny_disk / "shard", images.noise(0, 400, 400), encoding="raw"))


def test_every_frame_has_the_checksums_of_tfrecord(tmp_path):
    write(task(tmp_path / "shard", *MIXED))
    records = list(tf.data.TFRecordDataset(str(tmp_path / "shard")).as_numpy_iterator())
    assert records == [data for _, data in images.frames(tmp_path / "shard")]
    damaged = bytearray((tmp_path / "shard").read_bytes())
    (length,) = struct.unpack_from("<Q", damaged)
    damaged[12 + length] ^= 1
    images.put(tmp_path / "damaged", bytes(damaged))
    with pytest.raises(tf.errors.DataLossError):
        list(tf.data.TFRecordDataset(str(tmp_path / "damaged")))


def test_gif_is_read_as_pillow_reads_it(tmp_path):
    write(task(tmp_path / "shard", MIXED[2]))
    ((_, data),) = images.frames(tmp_path / "shard")
    (stored,) = tf.train.Example.FromString(data).features.feature["image"].bytes_list.value
    images.put(tmp_path / "a.gif", MIXED[2])
    with Image.open(tmp_path / "a.gif") as image:
        assert (tf.io.decode_png(stored).numpy() == np.asarray(image.convert("RGB"))).all()
