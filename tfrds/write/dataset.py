"""A plan carried out: all shards, indexes, keys and `tfrds.json` in one directory.

Gets a `Plan` and an empty directory, fills it; `prepare.py` adds TFDS's own metadata and
commits.
"""

import dataclasses
import hashlib
import itertools
import logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tfrds.cpus import available_cpus
from tfrds.disk.build_record import DECODE, FORMAT, READABLE_BY, write_build_record
from tfrds.disk.index import Rows, write_array
from tfrds.disk.keys import write_keys
from tfrds.disk.layout import SplitFiles
from tfrds.write.encode import encoder_versions
from tfrds.write.executors import run_here, run_in_processes
from tfrds.write.plan import ORDER_HASH, SPLIT_HASH, Plan
from tfrds.write.shards import ShardResult, ShardTask, write_shard

IMAGE_KEY, LABEL_KEY = "image", "label"

# Raw arrays are only copied: one process writes 225,000 of 28x28 a second, two processes fewer,
# since the pixels would travel through pipes. Above this many bytes the writing itself is worth
# sharing.
_MAX_BYTES_HERE = 2**30

_LISTED = 5

_log = logging.getLogger("tfrds")

Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenSplit:
    """One split as it lies in the directory.

    Attributes:
      shard_lengths: records of each shard.
      num_bytes: of the records' data, as TFDS counts: without the frames.
    """

    shard_lengths: list[int]
    num_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenDataset:
    """What was written.

    Attributes:
      image_shape: (height, width, channels) that all images have when read; height and width None
        where they vary.
      splits: by name.
      repaired: (name, reason) of the images that were damaged and re-encoded, sorted by name.
    """

    image_shape: tuple[int | None, int | None, int]
    splits: dict[str, WrittenSplit]
    repaired: list[tuple[str, str]]


def write_dataset(
    plan: Plan,
    directory: pathlib.Path,
    *,
    name: str,
    version: str,
    num_workers: int | None = None,
    progress: Progress | None = None,
) -> WrittenDataset:
    """Writes every file of the dataset but TFDS's own metadata.

    Args:
      plan: what to write.
      directory: empty, on the file system of the dataset.
      name: of the dataset.
      version: of the dataset.
      num_workers: processes; None: as many as this process may use processors. The bytes do not
        depend on it.
      progress: called with (examples done, all examples) as shards are finished.

    Raises:
      EncodeError, SourceError: an image cannot be read or stored; the message names it.
    """
    order = [
        (split, shard) for split, part in plan.splits.items() for shard in range(part.num_shards)
    ]
    tasks = (
        task for split in plan.splits for task in _tasks(plan, SplitFiles(directory, name, split))
    )
    results: dict[tuple[str, int], ShardResult] = {}
    done = 0
    for position, result in _run(plan, tasks, num_workers):
        results[order[position]] = result
        done += len(result.rows)
        if progress:
            progress(done, plan.num_examples)
    shards = {
        split: [results[split, shard] for shard in range(split_plan.num_shards)]
        for split, split_plan in plan.splits.items()
    }
    rows = {
        split: np.concatenate([result.rows for result in parts]) for split, parts in shards.items()
    }
    shape = _image_shape(plan, rows)
    splits = {
        split: _write_split(plan, SplitFiles(directory, name, split), parts, rows[split])
        for split, parts in shards.items()
    }
    repaired = sorted(
        pair for parts in shards.values() for result in parts for pair in result.repaired
    )
    if repaired:
        _log.warning(
            "Repaired %d damaged images, stored from the pixels that could be decoded: %s%s",
            len(repaired),
            "; ".join(f"{image} ({reason})" for image, reason in repaired[:_LISTED]),
            "; ..." if len(repaired) > _LISTED else "",
        )
    has_reencoded = any(result.has_reencoded for parts in shards.values() for result in parts)
    content: dict[str, Any] = {
        "format": FORMAT,
        "readable_by": READABLE_BY,
        "requires": [],
        "name": name,
        "version": version,
        "parent": None,
        "options": plan.options.to_dict(),
        "image": {
            "key": IMAGE_KEY,
            "encoding": plan.image.encoding,
            "shape": shape,
            "channels": plan.image.channels,
            "dtype": "uint8",
            "bit_depth": 8,
        },
        "label": {
            "key": LABEL_KEY,
            "kind": "class",
            "num_classes": len(plan.class_names),
            "class_names_sha256": _sha256("\n".join(plan.class_names).encode()),
        },
        "decode": DECODE,
        "order": ORDER_HASH,
        "split_order": SPLIT_HASH,
        "encoders": encoder_versions() if has_reencoded else {},
        "source": {"kind": plan.source.kind, "digest": _source_digest(plan, rows)},
        "splits": splits,
        "totals": {
            "left_out": dict(plan.left_out),
            "skipped": 0,
            "repaired": len(repaired),
            "duplicate": _count_duplicates(list(rows.values())),
        },
    }
    write_build_record(directory, content)
    return WrittenDataset(
        image_shape=shape,
        splits={
            split: WrittenSplit(
                shard_lengths=[len(result.rows) for result in parts],
                num_bytes=int(rows[split]["length"].sum()),
            )
            for split, parts in shards.items()
        },
        repaired=repaired,
    )


def _tasks(plan: Plan, files: SplitFiles) -> Iterator[ShardTask]:
    split = plan.splits[files.split]
    edges = split.edges()
    for shard_index, (start, end) in enumerate(itertools.pairwise(edges)):
        rows = split.rows[start:end]
        yield ShardTask(
            path=files.shard(shard_index, split.num_shards),
            inputs=plan.source.inputs(rows),
            labels=plan.labels[rows],
            spec=plan.image,
            image_key=IMAGE_KEY,
            label_key=LABEL_KEY,
        )


def _run(
    plan: Plan, tasks: Iterator[ShardTask], num_workers: int | None
) -> Iterator[tuple[int, ShardResult]]:
    total = sum(split.estimated_bytes for split in plan.splits.values())
    only_copies = plan.source.is_in_memory and plan.image.encoding == "raw"
    if only_copies and total <= _MAX_BYTES_HERE:
        return run_here(write_shard, tasks)
    num_shards = sum(split.num_shards for split in plan.splits.values())
    num_workers = min(num_workers or available_cpus(), num_shards)
    return run_in_processes(write_shard, tasks, num_workers, lambda task: task.path.name)


def _write_split(
    plan: Plan, files: SplitFiles, results: list[ShardResult], rows: Rows
) -> dict[str, Any]:
    """Writes index and keys of one split; returns its part of `tfrds.json`."""
    write_array(files.index, rows)
    write_keys(plan.keys.take(plan.splits[files.split].rows), files.keys, files.key_offsets)
    return {
        "num_examples": len(rows),
        "class_counts": plan.class_counts(files.split),
        "index_sha256": _file_sha256(files.index),
        "keys_sha256": _file_sha256(files.keys),
        "key_offsets_sha256": _file_sha256(files.key_offsets),
        "shards": [
            {
                "file": files.shard(shard_index, len(results)).name,
                "bytes": result.num_bytes,
                "records": len(result.rows),
                "sha256": result.sha256,
                "generation": 0,
            }
            for shard_index, result in enumerate(results)
        ],
    }


def _image_shape(plan: Plan, rows: dict[str, Rows]) -> tuple[int | None, int | None, int]:
    """Returns the shape every image has when read: as asked for, or as it turned out to be."""
    if plan.options.image_size:
        return (*plan.options.image_size, plan.image.channels)
    heights = np.unique(np.concatenate([part["height"] for part in rows.values()]))
    widths = np.unique(np.concatenate([part["width"] for part in rows.values()]))
    if len(heights) == len(widths) == 1:
        return int(heights[0]), int(widths[0]), plan.image.channels
    return None, None, plan.image.channels


def _source_digest(plan: Plan, rows: dict[str, Rows]) -> str:
    """Returns the sha256 over (key, bytes stored, content hash) of all records, split by split."""
    digest = hashlib.sha256()
    for split, split_rows in rows.items():
        keys = plan.keys.take(plan.splits[split].rows)
        content = split_rows["content"].tobytes()
        for row, (key, length) in enumerate(
            zip(keys, split_rows["image_length"].tolist(), strict=True)
        ):
            digest.update(
                b"%d %s %d %s" % (len(key), key, length, content[16 * row : 16 * row + 16])
            )
    return digest.hexdigest()


def _count_duplicates(rows: list[Rows]) -> int:
    halves = np.concatenate([part["content"] for part in rows]).view("<u8").reshape(-1, 2)
    ordered = halves[np.lexsort(halves.T)]
    return int((ordered[1:] == ordered[:-1]).all(axis=1).sum())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _file_sha256(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
