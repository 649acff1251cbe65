"""The dataset by TensorFlow's own reader, shard after shard: for the tf.data service.

Gets the shards, an order that is not shuffled and what the user wants, gives a `tf.data.Dataset` of
the same values as `pipeline.py`. Nothing in it is Python unless a stage needs what only the index
knows (random numbers by position, sizes), so another process can run it.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfrds.disk.build_record import BuildRecord
from tfrds.errors import ConfigError
from tfrds.read.host import Details, PipelineSpec, column_part
from tfrds.read.pipeline import (
    as_written,
    batch_examples,
    draw_steps,
    end,
    fetch_parts,
    make_values,
    new_root,
)
from tfrds.read.stages.class_numbers import check_class_numbers
from tfrds.read_options import ReadOptions

# TensorFlow reads as much of a shard at once, and waits for it: a few round trips' worth.
_BUFFER_BYTES = 8 * 2**20

# What needs the index, with what to do instead.
_REFUSED = {
    "start": "skip() what was seen",
    "worker": 'pass engine="mmap" or "pread", or let the tf.data service share the work',
    "select": 'pass engine="mmap" or "pread", or filter() the dataset',
    "balance": 'pass engine="mmap" or "pread"',
    "sample_weight": 'pass engine="mmap" or "pread", or class_weight in fit',
    "with_key": 'pass engine="mmap" or "pread"',
    "verify_records": "leave it out: TensorFlow checks each record's checksum anyway",
}


def check_stream(options: ReadOptions, *, shuffle: bool, with_tfds_id: bool) -> None:
    """Raises ConfigError for what shards read from front to end cannot give."""
    if shuffle:
        raise ConfigError(
            'shuffle: engine="stream" reads shards from front to end. Call shuffle(buffer_size) on '
            'the dataset, or pass engine="mmap" or "pread".'
        )
    if with_tfds_id:
        raise ConfigError(
            'read_config.add_tfds_id: engine="stream" does not know it. Pass engine="mmap".'
        )
    for name in options.changed():
        if name in _REFUSED:
            raise ConfigError(
                f'{name}: engine="stream" cannot honour it, as it reads shards from front to end '
                f"and without their index. To get it, {_REFUSED[name]}."
            )


def check_stored_in_order(record: BuildRecord) -> None:
    """Raises ConfigError where shards that others wrote cannot be read from front to end."""
    how = record.adopted or {}
    for name, reason in {
        "is_split_by_index": "records of other splits lie among those of each",
        "has_text_labels": "its labels are the names of classes",
    }.items():
        if how.get(name):
            raise ConfigError(
                f'engine: "stream" cannot read {record.name}, which was adopted: {reason}. Pass '
                '"mmap" or "pread", or leave it out.'
            )


def make_stream(
    record: BuildRecord,
    stretches: Sequence[tuple[str, int, int]],
    details: Details,
    spec: PipelineSpec,
) -> tf.data.Dataset:
    """Returns the dataset; see `pipeline.make_dataset` for its elements.

    Args:
      record: of the build.
      stretches: (split, first row, count) in the order of the split expression.
      details: the Python side, where stages need it.
      spec: what to yield.
    """
    records = _records(record, stretches)
    if spec.is_cached:
        records = records.cache()
    size = spec.steps.fetch_size
    if spec.steps.batch_size and spec.steps.drop_remainder:
        records = records.take(spec.steps.num_steps * size)
    parse = as_written(lambda serialized: _parse(serialized, spec))
    batches = records.batch(
        size, drop_remainder=spec.steps.has_full_batches and bool(spec.steps.batch_size)
    ).map(parse, num_parallel_calls=2)
    if spec.needs_details:
        batches = tf.data.Dataset.zip((batches, _details(details, spec)))
        batches = batches.map(as_written(lambda parts, said: {**parts, **said}))
    if spec.example.is_fetched_whole:
        values = as_written(lambda parts: make_values(_pixels(parts, spec), spec))
        dataset = batches.map(values, num_parallel_calls=2)
        dataset = dataset if spec.steps.batch_size else dataset.unbatch()
    else:
        dataset = batch_examples(batches, spec)
    if spec.assert_cardinality:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(spec.steps.num_steps))
    return end(dataset, spec)


def _records(record: BuildRecord, stretches: Sequence[tuple[str, int, int]]) -> tf.data.Dataset:
    """Returns serialized Examples, string [], in the order of the stretches."""
    parts = [
        part for split, first, count in stretches for part in _parts(record, split, first, count)
    ]
    paths, skips, takes = zip(*parts, strict=True) if parts else ((), (), ())
    files = tf.data.Dataset.from_tensor_slices(
        (
            tf.constant([str(path) for path in paths], tf.string),
            np.array(skips, np.int64),
            np.array(takes, np.int64),
        )
    )

    def read(path: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        return tf.data.TFRecordDataset(path, buffer_size=_BUFFER_BYTES).skip(skip).take(take)

    return files.interleave(
        as_written(read), cycle_length=1, num_parallel_calls=1, deterministic=True
    )


def _parts(
    record: BuildRecord, split: str, first: int, count: int
) -> list[tuple[pathlib.Path, int, int]]:
    """Returns (shard, records to skip, records to take) of a stretch of a split's records."""
    parts, start = [], 0
    for path, _, records in record.shards(split):
        skip, stop = max(first - start, 0), min(first + count - start, records)
        if skip < stop:
            parts.append((path, skip, stop - skip))
        start += records
    return parts


def _parse(serialized: tf.Tensor, spec: PipelineSpec) -> dict[str, tf.Tensor]:
    mode = spec.values.label_mode
    features: dict[str, Any] = {spec.image_key: tf.io.FixedLenFeature([], tf.string)}
    for column in spec.columns:
        dtype = {"float32": tf.float32, "string": tf.string}.get(column.dtype, tf.int64)
        features[column.name] = tf.io.FixedLenFeature(column.shape, dtype)
    if mode == "multi_hot":
        features[spec.label_key] = tf.io.RaggedFeature(tf.int64)
    elif mode == "value":
        features[spec.label_key] = tf.io.FixedLenFeature(spec.values.label_shape, tf.float32)
    elif mode != "none":
        features[spec.label_key] = tf.io.FixedLenFeature([], tf.int64)
    parsed = tf.io.parse_example(serialized, features)
    parts = {"images": parsed[spec.image_key]}
    for column in spec.columns:
        parts[column_part(column)] = tf.cast(parsed[column.name], column.dtype)
    num_classes = spec.values.num_classes
    if mode == "multi_hot":
        lists = parsed[spec.label_key]
        lists = lists.with_flat_values(check_class_numbers(lists.flat_values, num_classes))
        rows = tf.one_hot(lists, num_classes)
        parts["labels"] = tf.ensure_shape(tf.reduce_sum(rows, axis=1), (None, num_classes))
    elif mode == "value":
        parts["labels"] = parsed[spec.label_key]
    elif mode != "none":
        numbers = parsed[spec.label_key] + spec.label_offset
        parts["labels"] = tf.cast(check_class_numbers(numbers, num_classes), tf.int32)
    if not (spec.example.is_fetched_whole or spec.needs_details):
        # Nothing has to be said of any image.
        plain = tf.constant(spec.example.plain_instructions, tf.int32)
        parts["instructions"] = tf.tile(plain[tf.newaxis], [tf.size(parts["images"]), 1])
    return parts


def _pixels(parts: dict[str, tf.Tensor], spec: PipelineSpec) -> dict[str, tf.Tensor]:
    """Returns the parts with raw pixels, uint8 [n, height, width, channels]."""
    pixels = tf.io.decode_raw(parts["images"], tf.uint8)
    return {**parts, "images": tf.reshape(pixels, (-1, *spec.example.image_shape))}


def _details(details: Details, spec: PipelineSpec) -> tf.data.Dataset:
    """Returns what the index and the random numbers say of each batch."""
    root, handle = new_root(details)
    steps = draw_steps(root, handle, spec.steps)
    return steps.map(as_written(lambda step: fetch_parts(handle, step, details)))
