"""Where the time of reading goes: one processor, one call at a time, step after step.

Each step is the difference between a pipeline that ends with it and one that ends before it, built
of tfrds's own stages. Processor time, which other processes disturb least; the pipeline itself is
faster by the number of processors, on which its steps overlap.
"""

import pathlib
import statistics
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import prepared
import tfrds
from rows import Step
from tfrds.disk.build_record import read_build_record
from tfrds.read.fetch import SplitReader
from tfrds.read.stages.decode import decode_encoded
from tfrds.read.stages.values import Values

BATCH = 128
SIZE = 224
ROUNDS = 5
# Images a round, enough for a tenth of a second and for one.
COUNT = {"raw": 2560, "jpeg": 640}


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Step]:
    """Returns the steps of raw pixels and of JPEG; `folder` takes the datasets."""
    return [
        *profile("224 raw, float32", raw_prefixes(prepared.raw_224(folder)), COUNT["raw"]),
        *profile(
            "JPEG to 224, bilinear, float32",
            jpeg_prefixes(prepared.photographs(data, folder)),
            COUNT["jpeg"],
        ),
    ]


def raw_prefixes(builder: tfrds.ImageDatasetBuilder) -> dict[str, tf.data.Dataset]:
    shape = (224, 224, 3)
    fetch, steps = fetching(builder, COUNT["raw"])

    def fetched(step):
        images, labels = tf.numpy_function(fetch, [step], [tf.uint8, tf.int32])
        return tf.ensure_shape(images, (BATCH, *shape)), tf.ensure_shape(labels, (BATCH,))

    values = values_stage(builder)
    prefixes = {"fetch": steps.map(fetched)}
    prefixes["values"] = prefixes["fetch"].map(values)
    return prefixes


def jpeg_prefixes(builder: tfrds.ImageDatasetBuilder) -> dict[str, tf.data.Dataset]:
    fetch, steps = fetching(builder, COUNT["jpeg"])

    def fetched(step):
        files, labels = tf.numpy_function(fetch, [step], [tf.string, tf.int32])
        return tf.ensure_shape(files, (BATCH,)), tf.ensure_shape(labels, (BATCH,))

    def resized(image, label):
        return tf.image.resize(image, (SIZE, SIZE)), label

    prefixes = {"fetch": steps.map(fetched)}
    prefixes["take apart"] = prefixes["fetch"].unbatch()
    prefixes["decode"] = prefixes["take apart"].map(
        lambda data, label: (decode_encoded(data, 3), label)
    )
    prefixes["resize"] = prefixes["decode"].map(resized)
    prefixes["batch"] = prefixes["resize"].batch(BATCH, drop_remainder=True)
    prefixes["values"] = prefixes["batch"].map(values_stage(builder))
    return prefixes


def fetching(
    builder: tfrds.ImageDatasetBuilder, count: int
) -> tuple[Callable[..., list], tf.data.Dataset]:
    """Returns what fetches a batch at random, and a dataset of as many steps as `count` gives."""
    reader = SplitReader(read_build_record(pathlib.Path(builder.data_dir)), ["train"])
    order = np.random.default_rng(0).permutation(builder.info.splits["train"].num_examples)

    def fetch(step: np.ndarray) -> list:
        batch = reader.fetch(order[int(step) * BATCH : (int(step) + 1) * BATCH])
        images = batch.images
        if isinstance(images, list):
            images = np.array(images, object)
        return [images, batch.labels]

    return fetch, tf.data.Dataset.range(count // BATCH)


def values_stage(builder: tfrds.ImageDatasetBuilder) -> Callable[..., tuple]:
    values = Values(num_classes=builder.info.features["label"].num_classes)
    return lambda images, labels: values(images, labels, is_one_shape=True)


def profile(work: str, prefixes: dict[str, tf.data.Dataset], count: int) -> list[Step]:
    options = tf.data.Options()
    # Otherwise tf.data parallelises what was written as sequential, and tunes while we measure.
    options.autotune.enabled = False
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    datasets = {name: dataset.with_options(options) for name, dataset in prefixes.items()}
    rounds = [
        {name: processor_seconds(dataset) for name, dataset in datasets.items()}
        for _ in range(ROUNDS + 1)
    ][1:]
    steps, before = [], 0.0
    for name in datasets:
        whole = statistics.median(one[name] for one in rounds) / count * 1e6
        # Noise can make a step that costs nothing negative.
        steps.append(Step(work=work, step=name, microseconds=max(whole - before, 0.0)))
        before = whole
    return steps


def processor_seconds(dataset: tf.data.Dataset) -> float:
    start = time.process_time()
    # Counts in the graph: a loop in Python takes 80 microseconds an element.
    dataset.reduce(np.int64(0), lambda count, *_: count + 1)
    return time.process_time() - start
