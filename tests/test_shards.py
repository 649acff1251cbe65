import hashlib
import os
import struct

import images
import numpy as np
import pytest
import tensorflow as tf
import xxhash
from PIL import Image

from tfrds.disk.index import JPEG, PNG, RAW
from tfrds.errors import EncodeError, SourceError
from tfrds.spec import ImageSpec
from tfrds.write import shards
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


def task(path, *values, labels=None, encoding="original", **spec):
    return ShardTask(
        path=path,
        inputs=Inputs(*values),
        labels=np.array(range(len(values)) if labels is None else labels, np.int32),
        spec=ImageSpec(encoding=encoding, channels=3, **spec),
        image_key="image",
        label_key="label",
    )


PIXELS = [images.noise(seed, 10 + seed, 20 - seed) for seed in range(4)]
MIXED = [
    images.encoded(PIXELS[0]),
    images.encoded(PIXELS[1], "JPEG", quality=80),
    images.encoded(PIXELS[2], "GIF"),
    PIXELS[3],
]


def test_rows_say_where_everything_lies_in_the_file(tmp_path):
    path = tmp_path / "shard"
    result = write_shard(task(path, *MIXED, labels=[0, 127, 128, 70_000]))
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
    result = write_shard(task(tmp_path / "ours", *MIXED))
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for _, data in images.frames(tmp_path / "ours"):
            writer.write(data)
    ours = (tmp_path / "ours").read_bytes()
    assert ours == (tmp_path / "theirs").read_bytes()
    assert result.num_bytes == len(ours)
    assert result.sha256 == hashlib.sha256(ours).hexdigest()


def test_original_files_keep_their_bytes_and_others_become_png(tmp_path):
    write_shard(task(tmp_path / "shard", *MIXED))
    stored = [
        tf.train.Example.FromString(data).features.feature["image"].bytes_list.value[0]
        for _, data in images.frames(tmp_path / "shard")
    ]
    assert stored[:2] == MIXED[:2]
    assert stored[2].startswith(b"\x89PNG")
    assert (tf.io.decode_png(stored[3]).numpy() == PIXELS[3]).all()


def test_result_says_whether_anything_was_encoded_again(tmp_path):
    assert not write_shard(task(tmp_path / "a", *MIXED[:2])).has_reencoded
    assert write_shard(task(tmp_path / "b", *MIXED[1:3])).has_reencoded
    assert not write_shard(task(tmp_path / "c", PIXELS[0], encoding="raw")).has_reencoded
    assert write_shard(task(tmp_path / "d", PIXELS[0], encoding="jpeg")).has_reencoded


def test_raw_pixels_are_stored_as_they_are(tmp_path):
    result = write_shard(task(tmp_path / "shard", PIXELS[0], PIXELS[0][::-1], encoding="raw"))
    content = (tmp_path / "shard").read_bytes()
    assert PIXELS[0].tobytes() in content
    assert PIXELS[0][::-1].tobytes() in content
    assert result.rows["encoding"].tolist() == [RAW, RAW]
    assert len(set(np.diff(result.rows["offset"]))) == 1


def test_more_than_one_block_is_written_in_order(tmp_path):
    pixels = [images.noise(seed, 300, 400) for seed in range(7)]  # 2.5 MB
    result = write_shard(task(tmp_path / "shard", *pixels, encoding="raw"))
    frames = images.frames(tmp_path / "shard")
    assert [offset for offset, _ in frames] == result.rows["offset"].tolist()
    for (_, data), each in zip(frames, pixels, strict=True):
        assert each.tobytes() in data


def test_writes_that_take_a_part_are_continued(tmp_path, monkeypatch):
    write_shard(task(tmp_path / "whole", *MIXED))

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

    write_shard(task(Path(tmp_path, "parts"), *MIXED))
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


def test_repaired_images_are_listed(tmp_path, dummy_data):
    broken = (dummy_data / "extraneous_bytes.jpg").read_bytes()
    result = write_shard(task(tmp_path / "shard", MIXED[1], broken))
    ((name, reason),) = result.repaired
    assert name == "image 1"
    assert "extraneous bytes" in reason
    assert result.has_reencoded


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (MIXED[0][:60], EncodeError, "image 1: cut off or damaged"),
        (b"", EncodeError, "image 1: empty file"),
        (b"text", EncodeError, "image 1: not an image: it looks like text"),
        (
            FileNotFoundError(2, "No such file or directory"),
            SourceError,
            "image 1: cannot be read: No such file",
        ),
        (SourceError("image 1: of its own"), SourceError, "image 1: of its own"),
    ],
)
def test_image_that_cannot_be_stored_is_named_and_leaves_no_shard(tmp_path, value, error, message):
    with pytest.raises(error, match=message):
        write_shard(task(tmp_path / "shard", MIXED[0], value))
    assert not (tmp_path / "shard").exists()


def test_raw_images_of_two_sizes_are_refused_with_both(tmp_path):
    spec = {"encoding": "raw", "shape_from": (10, 20)}
    with pytest.raises(
        EncodeError,
        match=r"image 1: size .*expected \(10, 20\), got\s+\(11, 19\).*image_size=\(10, 20\)",
    ):
        write_shard(task(tmp_path / "shard", PIXELS[0], PIXELS[1], **spec))


def test_record_beyond_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "MAX_RECORD_BYTES", 638)
    write_shard(task(tmp_path / "shard", np.zeros((10, 20, 3), np.uint8), encoding="raw"))
    with pytest.raises(EncodeError, match="image 0: expected at most 638 bytes a record, got 639"):
        write_shard(
            task(tmp_path / "shard", np.zeros((10, 20, 3), np.uint8), labels=[128], encoding="raw")
        )


def test_shard_appears_under_its_name_only_when_complete(tmp_path):
    path = tmp_path / "shard"

    class Watching(Inputs):
        def read(self, position):
            assert not path.exists()
            return super().read(position)

    one = task(path, *MIXED)
    write_shard(ShardTask(**{**vars(one), "inputs": Watching(*MIXED)}))
    assert os.listdir(tmp_path) == ["shard"]


def test_shard_can_be_written_again(tmp_path):
    first = write_shard(task(tmp_path / "shard", *MIXED))
    again = write_shard(task(tmp_path / "shard", *MIXED))
    assert first.sha256 == again.sha256
    assert (first.rows == again.rows).all()


def test_full_disk_is_an_os_error_for_the_layer_that_commits(tiny_disk):
    with pytest.raises(OSError, match="No space left"):
        write_shard(task(tiny_disk / "shard", images.noise(0, 400, 400), encoding="raw"))


def test_every_frame_has_the_checksums_of_tfrecord(tmp_path):
    write_shard(task(tmp_path / "shard", *MIXED))
    records = list(tf.data.TFRecordDataset(str(tmp_path / "shard")).as_numpy_iterator())
    assert records == [data for _, data in images.frames(tmp_path / "shard")]
    damaged = bytearray((tmp_path / "shard").read_bytes())
    (length,) = struct.unpack_from("<Q", damaged)
    damaged[12 + length] ^= 1
    images.put(tmp_path / "damaged", bytes(damaged))
    with pytest.raises(tf.errors.DataLossError):
        list(tf.data.TFRecordDataset(str(tmp_path / "damaged")))


def test_gif_is_read_as_pillow_reads_it(tmp_path):
    write_shard(task(tmp_path / "shard", MIXED[2]))
    ((_, data),) = images.frames(tmp_path / "shard")
    (stored,) = tf.train.Example.FromString(data).features.feature["image"].bytes_list.value
    images.put(tmp_path / "a.gif", MIXED[2])
    with Image.open(tmp_path / "a.gif") as image:
        assert (tf.io.decode_png(stored).numpy() == np.asarray(image.convert("RGB"))).all()
