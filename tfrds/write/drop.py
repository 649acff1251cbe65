"""What a build does with images that are stored more than once: report, drop or refuse them.

`duplicates.py` finds them in the index rows; `dataset.py` calls this between the last shard and
the dataset's other files.
"""

import dataclasses
import itertools
import logging

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.skipped import DUPLICATE, Skipped
from tfrds.errors import SourceError
from tfrds.write.assemble import FinalShard, Heading
from tfrds.write.duplicates import find_duplicates
from tfrds.write.rewrite import rewrite_shard
from tfrds.write.shard_labels import describe_label, features_of, label_numbers

_log = logging.getLogger("tfrds")


def handle_duplicates(
    splits: dict[str, list[FinalShard]], policy: str, heading: Heading
) -> tuple[dict[str, list[FinalShard]], list[Skipped], dict[str, int]]:
    """Reports records with the same bytes, and does with them what `on_duplicate` says.

    Args:
      splits: shards in order, by split.
      policy: "keep", "drop" or "raise".
      heading: what is said of the whole dataset.

    Returns:
      The shards, the records that were dropped, and the totals of `tfrds.json`.

    Raises:
      SourceError: there are duplicates, and `policy` is "raise".
    """
    shards = [(split, shard) for split, parts in splits.items() for shard in parts]
    # Of an addition only the new ones are dropped; without one all are of the last generation.
    last = max(shard.generation for _, shard in shards)
    is_new = np.concatenate(
        [np.full(len(shard.rows), shard.generation == last) for _, shard in shards]
    )
    found = find_duplicates(
        {split: [shard.rows for shard in parts] for split, parts in splits.items()},
        is_new,
        label_numbers([shard for _, shard in shards], heading.label_key),
    )
    starts = np.cumsum([0, *(len(shard.rows) for _, shard in shards)])

    def place(record: int) -> tuple[str, FinalShard, int]:
        number = int(np.searchsorted(starts, record, side="right")) - 1
        return *shards[number], record - int(starts[number])

    def key(record: int) -> str:
        _, shard, row = place(record)
        return shard.keys[row].decode()

    def described(record: int) -> str:
        split, shard, row = place(record)
        label = describe_label(heading, shard, row)
        return f"{key(record)} ({split}{label and f', {label}'})"

    counts = found.counts()
    for count, chosen, what in (
        (counts["label_conflicts"], found.has_labels, "under two labels"),
        (counts["leaks"], found.has_splits, "in two splits"),
    ):
        if count:
            _log.warning(
                "Images that are there more than once, %s (%d): %s",
                what,
                count,
                found.listed(described, chosen),
            )
    if policy == "raise" and (num_extra := int(is_new[found.extra].sum())):
        raise SourceError(
            f"{num_extra:,} images hold the same bytes as another one: "
            f'{found.listed(described)}. Remove them, or pass on_duplicate="drop" or "keep".'
        )
    if policy != "drop" or not found.num_extra:
        return splits, [], counts
    dropped = {
        int(record): Skipped(key(int(record)), DUPLICATE, f"duplicate of {key(int(first))}")
        for record, first in zip(found.records, found.firsts, strict=True)
        if record != first and is_new[record]
    }
    doomed = np.array(sorted(dropped), np.int64)
    kept: dict[str, list[FinalShard]] = {split: [] for split in splits}
    for (split, shard), (start, stop) in zip(shards, itertools.pairwise(starts), strict=True):
        stays = np.setdiff1d(np.arange(start, stop), doomed) - start
        kept[split].append(_without(shard, stays, heading) if len(stays) < stop - start else shard)
    _check_not_empty(kept)
    return kept, list(dropped.values()), counts


def _check_not_empty(splits: dict[str, list[FinalShard]]) -> None:
    for split, shards in splits.items():
        if not any(len(shard.rows) for shard in shards):
            raise SourceError(
                f"split {split!r}: expected at least one image, but all of them are duplicates "
                'that on_duplicate="drop" leaves out. Pass on_duplicate="keep", or other splits.'
            )


def _without(shard: FinalShard, kept: NDArray[np.int64], heading: Heading) -> FinalShard:
    """Writes a shard again with the records that stay."""
    taken = shard.take(kept)
    labels = shard.rows["label"][kept]
    new = rewrite_shard(
        shard.path,
        shard.rows,
        shard.path,
        kept=kept,
        labels=labels,
        features=features_of(heading, labels, taken["columns"]),
        image_key=heading.image_key,
    )
    return dataclasses.replace(
        shard, num_bytes=new.num_bytes, sha256=new.sha256, rows=new.rows, **taken
    )
