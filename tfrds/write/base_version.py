"""A finished version as the beginning of another one: its shards are linked, its records stay.

`dataset.py` appends to it, `edit.py` removes and relabels records of it.
"""

import contextlib
import dataclasses
import os
import pathlib
import shutil
from collections.abc import Iterator

import numpy as np

from tfrds.disk.adopted import check_own
from tfrds.disk.build_record import BuildRecord, check_complete
from tfrds.disk.columns import read_column
from tfrds.disk.index import open_labelled_index
from tfrds.disk.keys import Keys, join_keys, read_keys
from tfrds.disk.skipped import Skipped, read_skipped
from tfrds.errors import DatasetError, SourceError
from tfrds.write.assemble import FinalShard

_LISTED = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Base:
    """A finished version.

    Attributes:
      record: of its build.
      class_names: in the order of their numbers.
      splits: its shards, by split.
      skipped: the inputs that its builds left out.
    """

    record: BuildRecord
    class_names: tuple[str, ...]
    splits: dict[str, list[FinalShard]]
    skipped: list[Skipped]

    @property
    def generation(self) -> int:
        """The number of the last addition, 0 where there was none."""
        return max(shard.generation for shards in self.splits.values() for shard in shards)

    def keys(self) -> Keys:
        """Returns all keys, split by split."""
        return join_keys([shard.keys for shards in self.splits.values() for shard in shards])

    def check_new(self, keys: Keys) -> None:
        """Raises SourceError where some keys are there already."""
        known = set(self.keys())
        if double := sorted(key.decode() for key in keys if key in known):
            raise SourceError(
                f"{len(double):,} images have keys that the dataset has already: "
                f"{', '.join(double[:_LISTED])}{', ...' if len(double) > _LISTED else ''}. Pass a "
                'key_prefix such as "2/", or leave them out.'
            )


def open_base(record: BuildRecord, class_names: tuple[str, ...]) -> Base:
    """Opens a finished version.

    Raises:
      DatasetError: a file is missing or damaged.
    """
    check_own(record, "append, edit")
    check_complete(record)
    return Base(
        record=record,
        class_names=class_names,
        splits={split: list(_shards(record, split)) for split in record.splits},
        skipped=list(read_skipped(record.directory)),
    )


def _shards(record: BuildRecord, split: str) -> Iterator[FinalShard]:
    files, shards = record.split_files(split), record.shards(split)
    rows = open_labelled_index(
        files.index, [records for _, _, records in shards], record.index_labels
    )
    keys = read_keys(files.keys, files.key_offsets, len(rows))
    columns = {
        spec.name: read_column(files, spec, len(rows), record.label_key, record.num_classes)
        for spec in record.columns
    }
    start = 0
    for (path, num_bytes, records), said in zip(
        shards, record.content["splits"][split]["shards"], strict=True
    ):
        found = path.stat().st_size if path.exists() else None
        if found != num_bytes:
            raise DatasetError(
                f"{path}: expected {num_bytes:,} bytes, found "
                f"{'no such file' if found is None else f'{found:,}'}. Copy or build the dataset "
                "again."
            )
        part = np.arange(start, start + records)
        start += records
        yield FinalShard(
            path=path,
            num_bytes=num_bytes,
            sha256=str(said["sha256"]),
            rows=np.array(rows[part]),
            keys=keys.take(part),
            columns={name: column.take(part) for name, column in columns.items()},
            generation=int(said["generation"]),
        )


def link_shards(shards: list[FinalShard], directory: pathlib.Path) -> list[FinalShard]:
    """Makes shards part of another directory: by hard links, or copies where there are none."""
    linked = []
    for shard in shards:
        # Another name than any in a dataset; it is given its own in the end.
        path = directory / f"base-{shard.path.name}"
        link_or_copy(shard.path, path)
        linked.append(dataclasses.replace(shard, path=path))
    return linked


def link_or_copy(old: pathlib.Path, new: pathlib.Path) -> None:
    """Makes a file available under another name, which must be free."""
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    try:
        os.link(old.resolve(), new)
    except OSError:
        shutil.copyfile(old, new)
