"""What the user asked of every split, and which examples it means, in which order and steps.

Gets TFDS's arguments and our read options, gives the reader, the order and the steps;
`datasets.py` and `mixture.py` make datasets of them. No TensorFlow.
"""

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfrds.checks import check_int
from tfrds.disk.build_record import BuildRecord
from tfrds.errors import ConfigError
from tfrds.read.fetch import SplitReader
from tfrds.read.order import Order
from tfrds.read.permutation import block_sizes
from tfrds.read.selection import class_groups, is_by_class, select_examples
from tfrds.read.steps import Steps
from tfrds.read_options import ReadOptions
from tfrds.spec import CLASS_KINDS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What the user wants of every split.

    Attributes:
      batch_size: examples a batch; None: single examples; -1: all, as tensors.
      supervised: (image, label), or (image, label, weight), instead of a dict.
      shuffle: a permutation.
      seed: of the permutation and of augmentation.
      reshuffle: another permutation each epoch.
      worker: (index, count): which share of the split is read.
      class_names: of the dataset.
      with_tfds_id: add the feature "tfds_id".
      prefetch: finish the next batch while the current one is used.
      decode_calls: parallel decodes; None: by the processors.
      assert_cardinality: of streams.
      tf_options: the user's `tf.data.Options`.
      options: our own read options.
    """

    batch_size: int | None
    supervised: bool
    shuffle: bool
    seed: int
    reshuffle: bool
    worker: tuple[int, int]
    class_names: Sequence[str]
    with_tfds_id: bool
    prefetch: bool
    decode_calls: int | None
    assert_cardinality: bool
    tf_options: Any
    options: ReadOptions


def open_reader(record: BuildRecord, splits: Sequence[str], options: ReadOptions) -> SplitReader:
    """Returns the reader of some splits, as the options want it."""
    return SplitReader(
        record,
        splits,
        verify_records=options.verify_records,
        engine=None if options.engine == "stream" else options.engine,
        in_memory=options.cache == "memory" and options.engine != "stream",
    )


def make_order(
    record: BuildRecord,
    reader: SplitReader,
    ranges: Sequence[tuple[int, int]],
    request: Request,
) -> Order:
    """Returns the order in which a request's examples are read.

    Args:
      record: of the build.
      reader: of its splits.
      ranges: (first row, count) in the order of the split expression.
      request: what to yield.

    Raises:
      ConfigError: an option cannot be honoured, or chooses nothing.
    """
    options = request.options
    _check_classes(record, options)
    subset = groups = None
    if options.select is not None or options.balance:
        everything = Order(ranges, seed=None)
        rows = everything.rows(0, np.arange(everything.num_examples))
        labels = reader.class_numbers(rows)

        def keys() -> list[bytes]:
            reader.open_keys()
            return reader.keys(rows)

        if options.select is not None:
            subset = select_examples(options.select, labels, request.class_names, keys)
            labels = labels[subset]
        if options.balance:
            if not request.shuffle:
                raise ConfigError(
                    'balance: "classes" takes examples in a random order, got shuffle=False. Pass '
                    "shuffle=True."
                )
            members = class_groups(labels)
            quota = max(len(labels) // len(members), 1)
            groups = [(group, quota) for group in members]
    if options.shuffle == "blocks" and groups:
        raise ConfigError(
            'shuffle: "blocks" cannot be honoured together with balance="classes", which takes '
            "examples from everywhere. Pass shuffle=True."
        )
    return Order(
        ranges,
        seed=request.seed if request.shuffle else None,
        reshuffle=request.reshuffle,
        blocks=block_sizes(_mean_bytes(record)) if options.shuffle == "blocks" else None,
        subset=subset,
        groups=groups,
    )


def _check_classes(record: BuildRecord, options: ReadOptions) -> None:
    """Raises ConfigError where examples are chosen by a single class that they do not have."""
    by_class = {
        "balance": options.balance is not None,
        "select": is_by_class(options.select),
        "sample_weight": isinstance(options.sample_weight, Mapping),
    }
    for name, is_asked in by_class.items():
        if is_asked and record.label_kind not in CLASS_KINDS:
            raise ConfigError(
                f"{name}: examples of {record.name} have no single class: its labels are of the "
                f"kind {record.label_kind!r}. Choose by keys or by an array instead."
            )


def make_steps(num_examples: int, request: Request) -> Steps:
    """Returns the steps of an epoch of so many examples."""
    share = max(-(-num_examples // request.worker[1]), 1)
    batch_size = share if request.batch_size == -1 else request.batch_size
    if batch_size and not request.options.drop_remainder:
        # tf.data makes room for as many examples as it is told.
        batch_size = min(batch_size, share)
    return Steps(
        num_examples=num_examples,
        batch_size=batch_size,
        drop_remainder=request.options.drop_remainder,
        worker=request.worker,
    )


def checked_start(options: ReadOptions, steps: Steps, name: str) -> tuple[int, int]:
    """Returns the (epoch, step) to start at.

    Raises:
      ConfigError: an epoch has no such step.
    """
    epoch, step = options.start
    if step > max(steps.num_steps - 1, 0):
        raise ConfigError(
            f"start: an epoch of {name} has {steps.num_steps:,} steps here, so the last one is "
            f"{max(steps.num_steps - 1, 0):,}, got (epoch, step) = {options.start}. Begin the "
            f"next epoch, ({epoch + 1}, 0), or check batch_size."
        )
    return epoch, step


def _mean_bytes(record: BuildRecord) -> float:
    """Returns bytes of a record, over all splits: the order must not depend on what is read."""
    shards = [shard for split in record.splits for shard in record.shards(split)]
    num_bytes = sum(size for _, size, _ in shards)
    return max(num_bytes / max(sum(records for _, _, records in shards), 1), 1.0)


def choose_seed(seed: int | None, shuffle_seed: int | None) -> int:
    """Returns the seed of the permutation; a new one where none is given.

    Args:
      seed: our read option.
      shuffle_seed: TFDS's, of `read_config`.

    Raises:
      ConfigError: out of range, or both are given and differ.
    """
    if shuffle_seed is not None:
        check_int("read_config.shuffle_seed", shuffle_seed, 0, 2**63 - 1)
    given = [one for one in (seed, shuffle_seed) if one is not None]
    if len(set(given)) > 1:
        raise ConfigError(
            f"seed: got {seed}, and read_config.shuffle_seed={shuffle_seed}. Pass one of them."
        )
    return int(given[0]) if given else secrets.randbits(63)


def choose_worker(worker: tuple[int, int] | None, input_context: Any) -> tuple[int, int]:
    """Returns (index, count) of the share that is read; (0, 1), all, where none is given.

    Args:
      worker: our read option.
      input_context: TFDS's, of `read_config`: a `tf.distribute.InputContext`.

    Raises:
      ConfigError: both are given and differ.
    """
    if input_context is None:
        return worker or (0, 1)
    index, count = input_context.input_pipeline_id, input_context.num_input_pipelines
    if worker not in (None, (index, count)):
        raise ConfigError(
            f"worker: got {worker}, and read_config.input_context of ({index}, {count}). Pass one "
            "of them."
        )
    return int(index), int(count)
