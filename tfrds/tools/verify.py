"""Verifies a dataset: every file against its hash, every record, every image, all counts.

Gets a name, gives a `VerifyResult` with all faults; it does not stop at the first. Shards are read
in worker processes (`verify_shard.py`), index, keys and small files here (`verify_keys.py`,
`verify_files.py`). Nothing needs TensorFlow or TFDS.
"""

import contextlib
import dataclasses
import os
import pathlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tfrds.checks import check_bool, check_int
from tfrds.cpus import available_cpus
from tfrds.data_dirs import find_dataset, not_found, roots_of
from tfrds.disk.adopted import check_adopted
from tfrds.disk.build_record import BuildRecord, check_complete, read_build_record
from tfrds.disk.layout import RECORD_FILE, class_names_file, parse_version
from tfrds.tools.dataset_name import DatasetName, parse_dataset_name
from tfrds.tools.faults import Fault
from tfrds.tools.verify_files import SplitRecord, count_faults, metadata_faults, split_records
from tfrds.tools.verify_image import ImageRule
from tfrds.tools.verify_keys import SplitCheck, check_split, key_faults
from tfrds.tools.verify_shard import ShardReport, ShardTask, verify_shard
from tfrds.write.executors import run_here, run_in_processes

# Of a thousand replaced shards nobody reads every record's fault; all are counted.
MAX_FAULTS = 10_000

# Up to here hashes and raw pixels are done before workers have started.
_MAX_BYTES_HERE = 2**25


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """What `verify` found.

    Attributes:
      directory: of the dataset's version.
      name, version: of the dataset.
      digest: sha256 of its build record, so equal for equal datasets.
      num_examples, num_shards, num_bytes: of all shards, as the build record tells.
      faults: what is wrong, shard by shard, what concerns other files around them; the first
        10,000, and of one shard the first 100.
      num_faults: all of them.
      is_fast: whether only hashes and small files were checked.
    """

    directory: pathlib.Path
    name: str
    version: str
    digest: str
    num_examples: int
    num_shards: int
    num_bytes: int
    faults: tuple[Fault, ...]
    num_faults: int
    is_fast: bool

    @property
    def ok(self) -> bool:
        """Whether the dataset is whole."""
        return self.num_faults == 0

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as JSON values."""
        content = dataclasses.asdict(self)
        return {**content, "directory": os.fspath(self.directory), "ok": self.ok}


def verify(
    name: str,
    *,
    data_dir: os.PathLike[str] | str | None = None,
    fast: bool = False,
    num_workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> VerifyResult:
    """Checks that a dataset is what a build wrote, and returns all that is wrong.

    Every file against its sha256; of every record both checksums, its `tf.train.Example`, its label
    and whether its image decodes completely; index, counts and TFDS's metadata against the records;
    the keys. It takes about as long as decoding all images once.

    Args:
      name: `name[/config][:version]`; without a version the highest one.
      data_dir: root of all datasets; None: TFDS's own, those added to it, and those this process
        used.
      fast: only hashes and the small files: every change since the build is found, a record that
        was written wrongly is not.
      num_workers: processes; None: as many as this process may use processors.
      progress: called with (images done, all images) as shards are finished.

    Raises:
      ConfigError: an argument is wrong.
      DatasetError: no such dataset, or its build record cannot be read.
    """
    check_bool("fast", fast)
    if num_workers is not None:
        check_int("num_workers", num_workers, 1)
    record = read_build_record(_find(parse_dataset_name(name), data_dir))
    check_complete(record)
    splits = split_records(record)
    checks = {split: check_split(record, split, said, fast=fast) for split, said in splits.items()}
    faults = _Faults()
    for split in splits:
        check_adopted(record, split)
    faults.add(metadata_faults(record, splits))
    faults.add(fault for check in checks.values() for fault in check.faults)
    faults.add(key_faults(record, checks))
    tasks = list(_tasks(record, splits, checks, fast))
    totals = {split: _Total() for split in splits}
    num_examples = sum(task.num_records for task in tasks)
    done = 0
    for position, report in _run(tasks, num_workers):
        task = tasks[position]
        faults.add_report(report, task, checks[task.split], place=position + 1)
        totals[task.split].add(report)
        done += task.num_records
        if progress:
            progress(done, num_examples)
    if not fast:
        counted = {
            split: (total.labels, total.num_bytes)
            for split, total in totals.items()
            if total.is_read
        }
        faults.add(count_faults(record, splits, counted), place=len(tasks) + 1)
    return VerifyResult(
        directory=record.directory,
        name=record.name,
        version=record.version,
        digest=record.digest,
        num_examples=num_examples,
        num_shards=len(tasks),
        num_bytes=sum(task.num_bytes for task in tasks),
        faults=faults.listed(),
        num_faults=faults.count,
        is_fast=fast,
    )


def _find(wanted: DatasetName, data_dir: os.PathLike[str] | str | None) -> pathlib.Path:
    """Returns the directory of a dataset, also where it lacks files that make it one for others."""
    found = find_dataset(
        wanted.name, config=wanted.config, version=wanted.version, data_dir=data_dir
    )
    if found:
        return found
    incomplete = [
        path.parent
        for root in roots_of(data_dir)
        for path in root.joinpath(wanted.name, wanted.config or "").glob(f"*/{RECORD_FILE}")
        if parse_version(path.parent.name) and wanted.version in (None, path.parent.name)
    ]
    if not incomplete:
        raise not_found(wanted.name, wanted.version, data_dir)
    return max(incomplete, key=lambda path: parse_version(path.name) or ())


def _tasks(
    record: BuildRecord,
    splits: Mapping[str, SplitRecord],
    checks: Mapping[str, SplitCheck],
    fast: bool,
) -> Iterator[ShardTask]:
    image = record.content["image"]
    height, width, channels = record.image_shape
    # With the option, encoded images keep their sizes and get this one while they are read.
    is_resized = image["encoding"] != "raw" and record.content["options"]["image_size"] is not None
    size = None if is_resized or height is None or width is None else (height, width)
    class_names = _class_names(record)
    for split, said in splits.items():
        first_row = 0
        for (path, num_bytes, num_records), sha256 in zip(
            record.shards(split), said.shard_sha256, strict=True
        ):
            yield ShardTask(
                path=path,
                split=split,
                num_bytes=num_bytes,
                num_records=num_records,
                sha256=sha256,
                index=checks[split].index,
                first_row=first_row,
                num_examples=sum(count for _, _, count in record.shards(split)),
                files=checks[split].files,
                columns=checks[split].columns,
                image_key=record.image_key,
                label_key=record.label_key,
                label_kind=record.label_kind,
                features=record.features,
                num_classes=record.num_classes,
                adopted=record.adopted,
                class_names=class_names,
                rule=ImageRule(encoding=image["encoding"], size=size, channels=channels),
                is_fast=fast,
            )
            first_row += num_records


def _class_names(record: BuildRecord) -> tuple[str, ...]:
    """Returns the class names where records hold them; `metadata_faults` tells what is wrong."""
    if not record.adopted or not record.adopted["has_text_labels"]:
        return ()
    with contextlib.suppress(OSError, UnicodeDecodeError):
        path = class_names_file(record.directory, record.label_key)
        return tuple(path.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    return ()


def _run(tasks: list[ShardTask], num_workers: int | None) -> Iterator[tuple[int, ShardReport]]:
    needs_no_decoding = tasks[0].is_fast or tasks[0].rule.encoding == "raw"
    if needs_no_decoding and sum(task.num_bytes for task in tasks) <= _MAX_BYTES_HERE:
        return run_here(verify_shard, tasks)
    # Never here: some package in this process may have told Pillow to make up what is missing.
    num_workers = num_workers or available_cpus()
    return run_in_processes(verify_shard, tasks, num_workers, lambda task: task.path.name)


@dataclasses.dataclass
class _Total:
    """What the shards of one split hold together."""

    labels: Counter[int] = dataclasses.field(default_factory=Counter)
    num_bytes: int = 0
    is_read: bool = True

    def add(self, report: ShardReport) -> None:
        self.labels.update(report.label_counts)
        self.num_bytes += report.data_bytes
        self.is_read &= report.is_read


class _Faults:
    """Faults in the order of what they were found in, while reports come in any order.

    Attributes:
      count: of all, also of those that are not kept.
    """

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[tuple[int, Fault]] = []

    def add(self, faults: Iterable[Fault], place: int = 0) -> None:
        """Adds faults; those of a lower place are listed before them."""
        for fault in faults:
            self.count += 1
            if len(self._kept) < MAX_FAULTS:
                self._kept.append((place, fault))

    def add_report(
        self, report: ShardReport, task: ShardTask, check: SplitCheck, place: int
    ) -> None:
        """Adds the faults of a shard, which knows no keys."""
        named = [
            fault
            if fault.record is None or fault.record >= task.num_records
            else dataclasses.replace(fault, key=check.key(task.first_row + fault.record))
            for fault in report.faults
        ]
        self.add(named, place)
        self.count += report.num_faults - len(named)

    def listed(self) -> tuple[Fault, ...]:
        """Returns those that are kept."""
        return tuple(fault for _, fault in sorted(self._kept, key=lambda pair: pair[0]))
