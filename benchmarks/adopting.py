"""Foreign TFRecord files used where they lie: how long the look at them takes, and reading.

The files are what plain TensorFlow writes: raw 224x224x3 as `image_raw`, an int64 `label`. They are
read in a new permutation as a dataset built from the same arrays is.
"""

import pathlib
import statistics
import time

import numpy as np
import tensorflow as tf

import tfrds
from measure import Baseline, compare, one_epoch
from rows import Bound, Row
from tfrds.write.adopt_scan import choose_adoption, scan_file
from tfrds.write.sources.record_arguments import RecordArguments

NUM_RECORDS = 4000
NUM_FILES = 8
SIZE = 224
CLASSES = [str(number) for number in range(10)]
BATCH = 128
READ_GOAL = 0.9
# 20,000 records a second.
SCAN_MICROSECONDS = 50
SCANS = 5


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Row | Bound]:
    """Returns the comparisons; `folder` takes 1.2 GB."""
    images = np.random.default_rng(1).integers(0, 256, (NUM_RECORDS, SIZE, SIZE, 3), np.uint8)
    labels = np.arange(NUM_RECORDS) % len(CLASSES)
    files = write_files(images, labels, folder / "foreign")
    root = folder / "adopting"
    adopted = tfrds.from_tfrecords(files, "adopted", data_dir=root, class_names=CLASSES)
    source = tfrds.sources.Arrays(images, labels)
    built = tfrds.build("built", source, data_dir=root, encoding="raw", num_shards=NUM_FILES)

    def epoch(builder: tfrds.ImageDatasetBuilder, dtype: str) -> float:
        dataset = builder.as_dataset(
            "train", batch_size=BATCH, shuffle_files=True, dtype=dtype, as_supervised=True
        )
        return one_epoch(dataset)()

    rows: list[Row | Bound] = [
        Bound(
            work="look at a foreign record of 150 kB",
            engine="",
            value=scan_microseconds(files),
            unit="us",
            limit=SCAN_MICROSECONDS,
        )
    ]
    for dtype in ("uint8", "float32"):
        rows += compare(
            f"foreign records, 224 raw, {dtype}",
            lambda dtype=dtype: epoch(adopted, dtype),
            [Baseline("a dataset built", lambda dtype=dtype: epoch(built, dtype), READ_GOAL)],
        )
    return rows


def write_files(images: np.ndarray, labels: np.ndarray, folder: pathlib.Path) -> list[pathlib.Path]:
    folder.mkdir()
    files = []
    for number, rows in enumerate(np.array_split(np.arange(len(images)), NUM_FILES)):
        files.append(folder / f"train{number}.tfrecord")
        with tf.io.TFRecordWriter(str(files[-1])) as writer:
            for row in rows:
                pixels = tf.train.BytesList(value=[images[row].tobytes()])
                label = tf.train.Int64List(value=[int(labels[row])])
                feature = {
                    "image_raw": tf.train.Feature(bytes_list=pixels),
                    "label": tf.train.Feature(int64_list=label),
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())
    return files


def scan_microseconds(files: list[pathlib.Path]) -> float:
    """Returns what one record takes; the median of several looks at all of them."""
    layout = choose_adoption(files, RecordArguments())
    times = []
    for _ in range(SCANS):
        start = time.perf_counter()
        count = sum(len(scan_file(path, layout).rows) for path in files)
        times.append((time.perf_counter() - start) / count * 1e6)
    return statistics.median(times)
