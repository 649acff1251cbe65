"""What lies in a dataset's directory, read without tfrds: by protobuf, numpy and JSON."""

import hashlib
import itertools
import json
import pathlib
import re

import images
import numpy as np
import tensorflow as tf


def record_of(directory):
    """Returns `tfrds.json`."""
    return json.loads(pathlib.Path(directory, "tfrds.json").read_bytes())


def skipped_in(directory):
    """Returns (key, reason, message) of each line of `skipped.jsonl`."""
    path = pathlib.Path(directory, "skipped.jsonl")
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    assert all(list(one) == ["key", "message", "reason"] for one in found)
    return [(one["key"], one["reason"], one["message"]) for one in found]


def shards_in(directory, split):
    """Returns the paths of a split's shards, whose numbers must be complete."""
    paths = sorted(pathlib.Path(directory).glob(f"*-{split}.tfrecord-*"))
    numbers = [re.search(r"-(\d{5})-of-(\d{5})$", path.name).groups() for path in paths]
    assert numbers == [(f"{at:05d}", f"{len(paths):05d}") for at in range(len(paths))]
    return paths


def keys_in(directory, split):
    """Returns the keys of a split."""
    (path,) = pathlib.Path(directory).glob(f"*-{split}.keys.npy")
    blob = np.load(path).tobytes()
    offsets = np.load(str(path).replace(".keys.", ".key_offsets.")).tolist()
    return [blob[start:end].decode() for start, end in itertools.pairwise(offsets)]


def examples_in(directory):
    """Returns {split: {key: (image bytes, label)}}, in the order of the records."""
    found = {}
    for split in record_of(directory)["splits"]:
        records = []
        for path in shards_in(directory, split):
            for _, data in images.frames(path):
                feature = tf.train.Example.FromString(data).features.feature
                (image,) = feature["image"].bytes_list.value
                (label,) = feature["label"].int64_list.value
                records.append((image, label))
        found[split] = dict(zip(keys_in(directory, split), records, strict=True))
    return found


def assert_is_whole(directory):
    """Compares all that the files say of one another: checksums, index, counts, hashes."""
    import xxhash

    record = record_of(directory)
    for split, part in record["splits"].items():
        index = np.load(next(pathlib.Path(directory).glob(f"*-{split}.index.npy")))
        paths = shards_in(directory, split)
        assert [shard["file"] for shard in part["shards"]] == [path.name for path in paths]
        rows = iter(index)
        for path, shard in zip(paths, part["shards"], strict=True):
            content, frames = path.read_bytes(), images.frames(path)
            assert shard["bytes"] == len(content)
            assert shard["sha256"] == hashlib.sha256(content).hexdigest()
            assert shard["records"] == len(frames) > 0
            # TensorFlow checks the checksums of every record.
            read = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
            assert read == [data for _, data in frames]
            for offset, data in frames:
                row = next(rows)
                feature = tf.train.Example.FromString(data).features.feature
                (image,) = feature["image"].bytes_list.value
                start = int(row["image_offset"])
                assert (row["offset"], row["length"]) == (offset, len(data))
                assert data[start : start + int(row["image_length"])] == image
                assert [row["label"]] == list(feature["label"].int64_list.value)
                assert bytes(row["content"]) == xxhash.xxh3_128(image).digest()
        assert next(rows, None) is None
        assert part["num_examples"] == len(index) == len(set(keys_in(directory, split)))
        assert (
            part["class_counts"]
            == np.bincount(index["label"], minlength=record["label"]["num_classes"]).tolist()
        )
        for what in ("index", "keys", "key_offsets"):
            (path,) = pathlib.Path(directory).glob(f"*-{split}.{what}.npy")
            assert part[f"{what}_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
