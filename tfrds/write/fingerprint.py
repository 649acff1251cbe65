"""Whether a finished dataset was built from what a plan says, and what is different.

Gets a plan and the dataset. By default each input's stamp (size and time of change) is compared
with those that the build noted in a local cache beside the version; by content every image is
encoded again and its hash compared with the index, which needs no cache.
"""

import dataclasses
import json
import pathlib
import secrets
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from tfrds.disk.build_record import BuildRecord
from tfrds.disk.columns import Column, read_column
from tfrds.disk.index import open_index
from tfrds.disk.keys import Keys, join_keys, read_keys
from tfrds.disk.layout import inputs_file
from tfrds.disk.skipped import DUPLICATE, read_skipped
from tfrds.spec import BuildOptions
from tfrds.write.assemble import class_names_sha256
from tfrds.write.plan import Plan

_LISTED = 5

_COLUMNS = ("about", "blob", "offsets", "labels", "splits", "marks")

# Inputs that are not in the dataset: they cannot be stored, or hold the bytes of another one.
SKIPPED, DROPPED = -1, -2


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What is known of a dataset's inputs, in any order.

    Attributes:
      split_names: of the dataset.
      keys: of the inputs.
      labels: int64 [n], their class numbers, or numbers that are other ones where labels of
        another kind, or columns, differ.
      splits: int32 [n], positions in `split_names`; SKIPPED or DROPPED: not in the dataset.
      marks: [n], another one where the input changed; zeros where it cannot be stored.
    """

    split_names: tuple[str, ...]
    keys: Keys
    labels: NDArray[np.int64]
    splits: NDArray[np.int32]
    marks: NDArray[Any]


def planned_inputs(plan: Plan, marks: NDArray[Any] | None = None) -> Inputs:
    """Returns the inputs of a plan.

    Args:
      plan: of a build.
      marks: by the source's rows; None: the stamps.
    """
    parts = [part.rows for part in plan.splits.values()]
    rows = np.concatenate(parts)
    return Inputs(
        tuple(plan.splits),
        plan.keys.take(rows),
        _label_marks(plan.labels.numbers[rows], [c.take(rows) for c in plan.stored_columns]),
        np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts]),
        (plan.stamps if marks is None else marks)[rows],
    )


def _label_marks(numbers: NDArray[np.int32], columns: Sequence[Column]) -> NDArray[np.int64]:
    """Returns class numbers, where there are no columns; else hashes of all beside the images."""
    if not columns:
        return numbers.astype(np.int64)
    ordered = sorted(columns, key=lambda column: column.spec.name)
    marks = (
        xxhash.xxh3_64_intdigest(
            repr((number, [column.feature(row) for column in ordered])).encode()
        )
        for row, number in enumerate(numbers.tolist())
    )
    return np.fromiter(marks, np.uint64, len(numbers)).view(np.int64)


def save_inputs(target: pathlib.Path, digest: str, inputs: Inputs) -> None:
    """Notes the inputs of the dataset in `target`, whose digest is given, beside it."""
    about = json.dumps({"digest": digest, "splits": inputs.split_names}).encode()
    path = inputs_file(target)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("wb") as file:
            np.savez(
                file,
                about=np.frombuffer(about, np.uint8),
                blob=inputs.keys.blob,
                offsets=inputs.keys.offsets,
                labels=inputs.labels,
                splits=inputs.splits,
                marks=inputs.marks,
            )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def noted_inputs(record: BuildRecord) -> Inputs | None:
    """Returns what `save_inputs` noted for this very dataset; None where there is nothing."""
    path = inputs_file(record.directory)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        # What takes no more memory than disk: a small file cannot fill it.
        is_plain = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not is_plain or sum(member.file_size for member in members) > path.stat().st_size:
            return None
        with np.load(path, allow_pickle=False) as arrays:
            columns = [arrays[name] for name in _COLUMNS]
    except Exception:  # of a damaged file zipfile and numpy raise almost anything
        return None
    about, blob, offsets, labels, splits, marks = columns
    if any(column.ndim != 1 or column.dtype.kind not in "iu" for column in columns):
        return None
    if not len(offsets) - 1 == len(labels) == len(splits) == len(marks):
        return None
    if int(offsets[-1]) != len(blob) or (offsets[1:] < offsets[:-1]).any():
        return None
    try:
        content = json.loads(about.tobytes())
        if content["digest"] != record.digest:
            return None
        names = tuple(map(str, content["splits"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return Inputs(names, Keys(blob, offsets), labels, splits, marks)


def stored_inputs(record: BuildRecord) -> Inputs:
    """Returns what the dataset itself says of its inputs, marked by their content hashes.

    Raises:
      DatasetError: a file is missing or damaged.
    """
    keys, labels, splits, marks = [], [], [], []
    for number, split in enumerate(record.splits):
        files = record.split_files(split)
        rows = open_index(files.index, [records for _, _, records in record.shards(split)])
        keys.append(read_keys(files.keys, files.key_offsets, len(rows)))
        columns = [
            read_column(files, spec, len(rows), record.label_key, record.num_classes)
            for spec in record.columns
        ]
        labels.append(_label_marks(rows["label"], columns))
        splits.append(np.full(len(rows), number, np.int32))
        marks.append(np.array(rows["content"]))
    left_out = list(read_skipped(record.directory))
    is_copy = [one.reason == DUPLICATE for one in left_out]
    keys.append(Keys.from_iterable(one.key.encode() for one in left_out))
    labels.append(np.full(len(left_out), -1, np.int64))
    splits.append(np.where(is_copy, DROPPED, SKIPPED).astype(np.int32))
    marks.append(np.zeros(len(left_out), "V16"))
    return Inputs(
        tuple(record.splits),
        join_keys(keys),
        np.concatenate(labels),
        np.concatenate(splits),
        np.concatenate(marks),
    )


def differences(record: BuildRecord, plan: Plan, now: Inputs, then: Inputs) -> list[str]:
    """Returns what is different from a dataset's build, one sentence each; none: nothing.

    Args:
      record: of the dataset.
      plan: of a build that would be the same.
      now: the plan's inputs.
      then: the dataset's.
    """
    found = [
        f"{name} was {built!r}, is {given!r}"
        for name, built, given in option_differences(record, plan.options.to_dict())
    ]
    if (kind := plan.labels.kind) != record.label_kind:
        found.append(f"the kind of labels was {record.label_kind!r}, is {kind!r}")
    columns = tuple(column.spec for column in plan.stored_columns)
    if columns != record.columns:
        then_names, now_names = (
            [spec.name for spec in specs] for specs in (record.columns, columns)
        )
        found.append(f"the columns were {then_names}, are {now_names}")
    has_same_labels = kind == record.label_kind and columns == record.columns
    digest = class_names_sha256(plan.class_names)
    has_same_classes = digest == record.content["label"].get("class_names_sha256")
    if not has_same_classes:
        names = _few(plan.class_names) or "none"
        found.append(f"the classes are others than those that were built, now {names}")
    return found + _input_differences(
        now,
        then,
        compares_labels=has_same_classes and has_same_labels,
        beside="label or column" if columns else "class",
    )


def option_differences(record: BuildRecord, ours: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Returns (name, value then, value now) of the options that differ from a dataset's build."""
    # An option that the dataset's tfrds did not have yet was as it is by default.
    built = {**BuildOptions().to_dict(), **record.content["options"]}
    totals = record.content.get("totals")
    has_skipped = isinstance(totals, dict) and totals.get("skipped")
    # How many may be skipped decides nothing about a dataset, and whether, where none was.
    free = {"max_bad"} if has_skipped else {"max_bad", "on_error"}
    return [
        (name, built[name], ours[name])
        for name in sorted(ours)
        if name not in free and ours[name] != built[name]
    ]


def _input_differences(
    now: Inputs, then: Inputs, *, compares_labels: bool, beside: str
) -> list[str]:
    now_hashes, then_hashes = (_hashes(inputs.keys) for inputs in (now, then))
    both, ours, theirs = np.intersect1d(now_hashes, then_hashes, return_indices=True)
    added = np.flatnonzero(~np.isin(now_hashes, both))
    removed = np.flatnonzero(~np.isin(then_hashes, both))
    was_used = then.splits[theirs] >= 0
    is_known = then.splits[theirs] != DROPPED
    changed = ours[is_known & (now.marks[ours] != then.marks[theirs])]
    # With other classes the same number means another one.
    has_other_label = compares_labels & (now.labels[ours] != then.labels[theirs])
    relabelled = ours[was_used & has_other_label]
    names = {name: number for number, name in enumerate(then.split_names)}
    numbers = np.array([names.get(name, -2) for name in now.split_names], np.int32)
    moved = ours[was_used & (numbers[now.splits[ours]] != then.splits[theirs])]
    return [
        f"{len(rows):,} images {what}: {_few(sorted(keys[int(row)].decode() for row in rows))}"
        for rows, keys, what in (
            (added, now.keys, "added"),
            (removed, then.keys, "removed"),
            (changed, now.keys, "changed"),
            (relabelled, now.keys, f"with another {beside}"),
            (moved, now.keys, "in another split"),
        )
        if len(rows)
    ]


def _few(names: "list[str] | tuple[str, ...]") -> str:
    return ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")


def _hashes(keys: Keys) -> NDArray[np.uint64]:
    return np.fromiter((xxhash.xxh3_64_intdigest(key) for key in keys), np.uint64, len(keys))
