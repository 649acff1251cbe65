"""A plan carried out: all shards, indexes, keys and `tfrds.json` in one directory.

Gets a `Plan` and a build's directory, fills it; `prepare.py` adds TFDS's own metadata and commits.
What an earlier build of the same plan has finished is not done again.
"""

import dataclasses
import logging
import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tfrds.disk.columns import column_paths
from tfrds.disk.journal import Journal, ShardEntry
from tfrds.disk.layout import SplitFiles
from tfrds.disk.skipped import Skipped
from tfrds.errors import ConfigError, DatasetError
from tfrds.write.assemble import FinalShard, Heading, WrittenDataset, assemble
from tfrds.write.base_version import Base, link_shards
from tfrds.write.drop import handle_duplicates
from tfrds.write.faults import Faults
from tfrds.write.given_columns import IMAGE_KEY, LABEL_KEY
from tfrds.write.key_hash import ORDER_HASH, SPLIT_HASH
from tfrds.write.plan import Plan
from tfrds.write.room import check_room, full_disk_explained
from tfrds.write.run import Execution, Slice, plan_slices, run_slices
from tfrds.write.shards import ShardReport, write_shard

_LISTED = 5
_MAX_FILE_NAME_BYTES = 255

_log = logging.getLogger("tfrds")


def write_dataset(
    plan: Plan,
    directory: pathlib.Path,
    journal: Journal,
    *,
    name: str,
    version: str,
    target: pathlib.Path,
    execution: Execution,
    base: Base | None = None,
) -> WrittenDataset:
    """Writes every file of the dataset but TFDS's own metadata.

    Args:
      plan: what to write.
      directory: on the file system of the dataset; empty, or of an earlier build. What is in it
        and does not belong to the plan is removed.
      journal: of this build.
      name: of the dataset.
      version: of the dataset.
      target: where the dataset will stand in the end, for messages.
      execution: how the build runs.
      base: a version to which the plan's images are added; None: there is nothing yet.

    Raises:
      EncodeError, SourceError: images cannot be read or stored; the message names them.
      DatasetError: there is not enough room, or worker processes died.
    """
    if base:
        base.check_new(plan.keys)
    _check_file_names(plan, directory, name)
    slices = list(plan_slices(plan, directory, name))
    num_finished = journal.keep_only([(part.path.name, part.digest) for part in slices], directory)
    journal.set_plan(len(slices))
    if num_finished:
        _log.info(
            "Going on with a build that has finished %d shards of %d.", num_finished, len(slices)
        )
    check_room(plan, directory, target)
    faults = Faults(plan.options, plan.num_examples)
    done = 0
    encoders: Mapping[str, str] = {}
    with full_disk_explained(plan, directory, target):
        for position, report in run_slices(write_shard, plan, slices, journal, faults, execution):
            encoders = _same_encoders(encoders, report)
            faults.add(report.faults)
            done += len(slices[position].rows)
            if execution.progress:
                execution.progress(done, plan.num_examples)
    faults.finish()
    entries = [_entry_of(journal, part) for part in slices]
    skipped = [
        Skipped(plan.keys[int(part.rows[position])].decode(), reason, message)
        for part, entry in zip(slices, entries, strict=True)
        for position, reason, message in entry.skipped
    ]
    repaired = sorted(pair for entry in entries for pair in entry.repaired)
    _report_skipped(skipped, plan.num_examples)
    _report_repaired(repaired)
    old = base.splits if base else {}
    splits = {
        split: link_shards(old.get(split, []), directory) for split in sorted({*old, *plan.splits})
    }
    for part, entry in zip(slices, entries, strict=True):
        splits[part.split].append(
            FinalShard(
                path=part.path,
                num_bytes=entry.num_bytes,
                sha256=entry.sha256,
                rows=entry.rows,
                keys=plan.keys.take(part.rows[entry.kept]),
                columns={
                    column.spec.name: column.take(part.rows[entry.kept])
                    for column in plan.stored_columns
                },
                generation=base.generation + 1 if base else 0,
            )
        )
    heading = _heading(plan, name, version, base)
    splits, dropped, counts = handle_duplicates(splits, plan.options.on_duplicate, heading)
    totals = {
        "left_out": plan.left_out,
        "skipped": len(skipped) + len(dropped),
        "repaired": len(repaired),
    }
    encoders = encoders if any(entry.has_reencoded for entry in entries) else {}
    heading = dataclasses.replace(
        heading,
        encoders={**heading.encoders, **encoders},
        totals={**_added_totals(heading.totals, totals), **counts},
    )
    written = assemble(
        directory, splits, heading, [*(base.skipped if base else ()), *skipped, *dropped]
    )
    return dataclasses.replace(written, repaired=repaired)


def _check_file_names(plan: Plan, directory: pathlib.Path, name: str) -> None:
    """Raises ConfigError where a name would be too long: now, not when all images are written."""
    for split in plan.splits:
        files = SplitFiles(directory, name, split)
        paths = [files.shard(0, 1)]
        for column in plan.stored_columns:
            paths += column_paths(files, column.spec, LABEL_KEY)
        for path in paths:
            if (length := len(path.name.encode())) > _MAX_FILE_NAME_BYTES:
                raise ConfigError(
                    f"name: the file {path.name[:60]}... would have a name of {length} bytes, and "
                    f"file systems allow {_MAX_FILE_NAME_BYTES}. Shorten the names of the dataset, "
                    "of the split or of the column."
                )


def _heading(plan: Plan, name: str, version: str, base: Base | None) -> Heading:
    """Returns what `tfrds.json` says of the whole, with encoders and totals of `base` alone."""
    before: Mapping[str, Any] = base.record.content if base else {}
    return Heading(
        name=name,
        version=version,
        parent=base.record.digest if base else None,
        options=before.get("options", plan.options.to_dict()),
        encoding=plan.image.encoding,
        image_size=plan.options.image_size,
        channels=plan.image.channels,
        image_key=IMAGE_KEY,
        label_key=LABEL_KEY,
        label_kind=plan.labels.kind,
        class_names=plan.class_names,
        columns=tuple(column.spec for column in plan.stored_columns),
        order=ORDER_HASH,
        split_order=SPLIT_HASH,
        encoders=before.get("encoders", {}),
        source_kind=before.get("source", {}).get("kind", plan.source.kind),
        totals=before.get("totals", {}),
    )


def _added_totals(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "left_out": dict(Counter(old.get("left_out", {})) + Counter(new["left_out"])),
        "skipped": old.get("skipped", 0) + new["skipped"],
        "repaired": old.get("repaired", 0) + new["repaired"],
    }


def _same_encoders(encoders: Mapping[str, str], report: ShardReport) -> Mapping[str, str]:
    """Returns the versions of the libraries that all workers so far have encoded with.

    Asked for where images are encoded: in this process TensorFlow may have brought another zlib.
    """
    if encoders and report.encoders != encoders:
        raise DatasetError(
            f"{report.host}: expected the encoders {dict(encoders)} of the other workers, found "
            f"{dict(report.encoders)}. Install the same Pillow everywhere."
        )
    return report.encoders


def _entry_of(journal: Journal, part: Slice) -> ShardEntry:
    entry = journal.get(part.path.name, part.digest)
    if entry is None:
        raise DatasetError(
            f"{part.path}: was removed or replaced while the dataset was built. Build it again."
        )
    return entry


def _report_skipped(skipped: Sequence[Skipped], num_inputs: int) -> None:
    if skipped:
        _log.warning(
            "Skipped %d of %d images, see skipped.jsonl: %s%s",
            len(skipped),
            num_inputs,
            "; ".join(one.message for one in sorted(skipped)[:_LISTED]),
            "; ..." if len(skipped) > _LISTED else "",
        )


def _report_repaired(repaired: Sequence[tuple[str, str]]) -> None:
    if repaired:
        _log.warning(
            "Repaired %d damaged images, stored from the pixels that could be decoded: %s%s",
            len(repaired),
            "; ".join(f"{image} ({reason})" for image, reason in repaired[:_LISTED]),
            "; ..." if len(repaired) > _LISTED else "",
        )
