"""Damages copies of datasets, and makes wrong ones whose hashes are all right, without tfrds."""

import hashlib
import itertools
import json
import pathlib
import shutil

import numpy as np
import tensorflow as tf
import xxhash
from images import frames

from tfrds.disk.records import frame_footer, frame_header

ROW = 20  # record 3 of the second shard of "train", which has 17, 16 and 17
SHARD_OF_ROW, RECORD, FIRST_ROW = 1, 3, 17


class Copy:
    """A dataset that may be damaged.

    Args:
      built: tests/datasets.py made it.
      root: takes the copy.
    """

    def __init__(self, built, root):
        self.name, self.root = built.name, root
        self.directory = root / built.name / "1.0.0"
        shutil.copytree(built.directory, self.directory)

    def path(self, ending):
        return self.directory / f"{self.name}-{ending}"

    def shard(self, number=SHARD_OF_ROW, split="train"):
        return self.path(f"{split}.tfrecord-{number:05d}-of-00003")

    @property
    def record(self):
        return json.loads((self.directory / "tfrds.json").read_bytes())

    def change_record(self, change):
        """Writes tfrds.json anew after `change` of its content."""
        content = self.record
        change(content)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        (self.directory / "tfrds.json").write_text(text + "\n")

    def index(self, split="train"):
        return np.load(self.path(f"{split}.index.npy"))

    def change_index(self, field, value, row=ROW):
        """Writes another value into one row of the index, and the hash of the new index."""
        rows = self.index()
        rows[field][row] = value
        np.save(self.path("train.index.npy"), rows)
        self.fix()

    def keys(self, split="train"):
        blob = np.load(self.path(f"{split}.keys.npy")).tobytes()
        offsets = np.load(self.path(f"{split}.key_offsets.npy")).tolist()
        return [blob[start:end] for start, end in itertools.pairwise(offsets)]

    def change_keys(self, keys, split="train"):
        blob = np.frombuffer(b"".join(keys), np.uint8)
        np.save(self.path(f"{split}.keys.npy"), blob)
        offsets = np.cumsum([0, *map(len, keys)]).astype("<u8")
        np.save(self.path(f"{split}.key_offsets.npy"), offsets)

    def key(self, row=ROW):
        return self.keys()[row].decode()

    def example(self, row=ROW):
        """Returns (image, label) of a record of the second shard, by protobuf."""
        _, data = frames(self.shard())[row - FIRST_ROW]
        feature = tf.train.Example.FromString(data).features.feature
        return feature["image"].bytes_list.value[0], feature["label"].int64_list.value[0]

    def change_example(self, image=None, label=None, **columns):
        """Writes another image or label, with right checksums, index, counts and hashes.

        Args:
          image: bytes.
          label: number.
          columns: of the index, such as height.
        """
        old_image, old_label = self.example()
        image, label = image or old_image, old_label if label is None else label
        data = serialized(image, label)
        self.change_data(data)
        rows = self.index()
        values = {
            "length": len(data),
            "image_offset": data.index(image),
            "image_length": len(image),
            "label": min(label, 2**31 - 1),
            "content": np.void(xxhash.xxh3_128_digest(image)),
            **columns,
        }
        for field, value in values.items():
            rows[field][ROW] = value
        np.save(self.path("train.index.npy"), rows)

        def count(content):
            counts = content["splits"]["train"]["class_counts"]
            counts[old_label] -= 1
            if 0 <= label < len(counts):
                counts[label] += 1

        self.change_record(count)
        self.fix()

    def change_data(self, data):
        """Writes other data of the record, in frames with right checksums."""
        all_data = [old for _, old in frames(self.shard())]
        all_data[RECORD] = data
        self.write_shard(all_data)

    def write_shard(self, all_data):
        """Writes the second shard, and where its frames begin into the index."""
        parts = [frame_header(len(data)) + data + frame_footer(data) for data in all_data]
        self.shard().write_bytes(b"".join(parts))
        rows = self.index()
        stop = FIRST_ROW + len(parts)
        rows["offset"][FIRST_ROW:stop] = np.cumsum([0, *map(len, parts)])[:-1]
        np.save(self.path("train.index.npy"), rows)
        self.fix()

    def fix_hashes(self):
        """Makes tfrds.json tell the sizes and hashes of the files as they are now."""

        def fix(content):
            for split, part in content["splits"].items():
                for name in ("index", "keys", "key_offsets"):
                    part[f"{name}_sha256"] = sha256(self.path(f"{split}.{name}.npy"))
                for name in part["columns_sha256"]:
                    part["columns_sha256"][name] = sha256(self.directory / name)
                for number, shard in enumerate(part["shards"]):
                    path = self.shard(number, split)
                    shard["bytes"], shard["sha256"] = path.stat().st_size, sha256(path)
                    if "mtime_ns" in shard:
                        shard["mtime_ns"] = path.stat().st_mtime_ns

        self.change_record(fix)

    def fix(self):
        """Makes tfrds.json and dataset_info.json tell of the files as they are now."""

        self.fix_hashes()

        def fix(content):
            source = hashlib.sha256()
            for split in content["splits"]:
                for key, row in zip(self.keys(split), self.index(split), strict=True):
                    source.update(b"%d %s %d " % (len(key), key, row["image_length"]))
                    source.update(row["content"].tobytes())
            content["source"]["digest"] = source.hexdigest()

        self.change_record(fix)
        path = self.directory / "dataset_info.json"
        info = json.loads(path.read_bytes())
        for split in info["splits"]:
            shards = [self.shard(number, split["name"]) for number in range(3)]
            sizes = [len(data) for shard in shards for _, data in frames(shard)]
            split["numBytes"] = str(sum(sizes))
        path.write_text(json.dumps(info))


def serialized(image, label, **more):
    """Returns the bytes of an Example, by protobuf."""
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        **more,
    }
    message = tf.train.Example(features=tf.train.Features(feature=feature))
    return message.SerializeToString(deterministic=True)


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def overwrite(path, place, data):
    """Writes bytes into the middle of a file, as a bad disk or a bad program does."""
    with path.open("r+b") as file:
        file.seek(place)
        file.write(data)
