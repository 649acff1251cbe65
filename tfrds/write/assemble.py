"""All files of a dataset from its finished shards: names, indexes, keys, columns, `tfrds.json`.

`dataset.py` calls it when all shards of a build are written.
"""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.build_record import DECODE, FORMAT, READABLE_BY, write_build_record
from tfrds.disk.columns import Column, ColumnSpec, write_columns
from tfrds.disk.index import Rows, write_parts
from tfrds.disk.journal import file_sha256
from tfrds.disk.keys import Keys, write_keys
from tfrds.disk.layout import SplitFiles
from tfrds.disk.skipped import Skipped, write_skipped
from tfrds.errors import SourceError
from tfrds.write.labels import count_classes


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinalShard:
    """A shard as it will be part of a dataset.

    Attributes:
      path: where it lies, in the dataset's directory; the name may still be another.
      num_bytes: of the file.
      sha256: of the file, in hexadecimal digits; None: not computed, of a file of others.
      rows: the index rows of its records.
      keys: of its records.
      columns: of its records, those that have files of their own, by name.
      generation: 0, or the number of the addition that it came with.
      mtime_ns: of a file of others, when it was looked through.
    """

    path: pathlib.Path
    num_bytes: int
    sha256: str | None
    rows: Rows
    keys: Keys
    columns: Mapping[str, Column] = dataclasses.field(default_factory=dict)
    generation: int = 0
    mtime_ns: int | None = None

    def take(self, kept: NDArray[np.int64]) -> dict[str, Any]:
        """Returns `keys` and `columns` of the records that stay, for `dataclasses.replace`."""
        columns = {name: column.take(kept) for name, column in self.columns.items()}
        return {"keys": self.keys.take(kept), "columns": columns}


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
      heading: what `tfrds.json` says of the whole.
      splits: by name.
      repaired: (name, reason) of the images that were damaged and re-encoded, sorted by name.
    """

    image_shape: tuple[int | None, int | None, int]
    heading: "Heading"
    splits: dict[str, WrittenSplit]
    repaired: list[tuple[str, str]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adopted:
    """How records that others wrote are read where they lie.

    Attributes:
      label_offset: is added to the numbers that records hold.
      has_text_labels: records hold the names of classes.
      is_split_by_index: a shard holds records of other splits, too.
    """

    label_offset: int = 0
    has_text_labels: bool = False
    is_split_by_index: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Heading:
    """What `tfrds.json` says of the whole dataset.

    Attributes:
      name: of the dataset.
      version: of the dataset.
      parent: digest of the version that it was made from; None: none.
      options: of the build, as JSON values.
      encoding: of the images: "raw", "jpeg" or "original".
      image_size: (height, width) of all images when read; None: as they turn out to be.
      channels: of the images.
      image_key, label_key: names of the features.
      label_kind: one of `tfrds.spec.LABEL_KINDS`.
      class_names: in the order of their numbers; none where labels are no classes.
      columns: those that have files of their own; the label may be one of them.
      adopted: how records that others wrote are read; None: a build wrote them.
      order, split_order: names of the hashes.
      encoders: versions of the libraries that re-encoded images, by name.
      source_kind: what the images came from.
      totals: numbers about the whole build, by name.
    """

    name: str
    version: str
    parent: str | None
    options: Mapping[str, Any]
    encoding: str
    image_size: tuple[int, int] | None
    channels: int
    image_key: str
    label_key: str
    label_kind: str
    class_names: Sequence[str]
    columns: Sequence[ColumnSpec]
    order: str
    split_order: str
    encoders: Mapping[str, str]
    source_kind: str
    totals: Mapping[str, Any]
    adopted: Adopted | None = None


def assemble(
    directory: pathlib.Path,
    splits: Mapping[str, Sequence[FinalShard]],
    heading: Heading,
    skipped: Sequence[Skipped],
) -> WrittenDataset:
    """Names the shards and writes everything else of the dataset but TFDS's own metadata.

    Args:
      directory: of the dataset, in which the shards lie.
      splits: shards in order, by split. Those without a record are removed.
      heading: what is said of the whole.
      skipped: the inputs that were left out.

    Raises:
      SourceError: a split has no record.
    """
    named = {
        split: _name_shards(SplitFiles(directory, heading.name, split), shards)
        for split, shards in splits.items()
    }
    # Never put together in memory: the rows and keys of a million take 120 MB.
    everything = [shard for shards in named.values() for shard in shards]
    write_skipped(directory, skipped)
    shape = _image_shape(heading, everything)
    content: dict[str, Any] = {
        "format": FORMAT,
        "readable_by": READABLE_BY,
        "requires": [],
        "name": heading.name,
        "version": heading.version,
        "parent": heading.parent,
        "options": heading.options,
        "image": {
            "key": heading.image_key,
            "encoding": heading.encoding,
            "shape": shape,
            "channels": heading.channels,
            "dtype": "uint8",
            "bit_depth": 8,
        },
        "label": {
            "key": heading.label_key,
            "kind": heading.label_kind,
            "num_classes": len(heading.class_names),
            "class_names_sha256": class_names_sha256(heading.class_names),
        },
        "columns": [spec.to_dict() for spec in heading.columns],
        "decode": DECODE,
        "order": heading.order,
        "split_order": heading.split_order,
        "encoders": dict(heading.encoders),
        "source": {"kind": heading.source_kind, "digest": _source_digest(everything)},
        "splits": {
            split: _write_split(SplitFiles(directory, heading.name, split), shards, heading)
            for split, shards in named.items()
        },
        "totals": dict(heading.totals),
    }
    if heading.adopted:
        content["adopted"] = dataclasses.asdict(heading.adopted)
    write_build_record(directory, content)
    return WrittenDataset(
        image_shape=shape,
        heading=heading,
        splits={
            split: WrittenSplit(
                shard_lengths=[len(shard.rows) for shard in shards],
                num_bytes=sum(int(shard.rows["length"].sum()) for shard in shards),
            )
            for split, shards in named.items()
        },
    )


def _name_shards(files: SplitFiles, shards: Sequence[FinalShard]) -> list[FinalShard]:
    """Removes shards without records, and renames those whose number is another one now."""
    full = [shard for shard in shards if len(shard.rows)]
    if not full:
        raise SourceError(
            f"split {files.split!r}: expected at least one image, but all of them were skipped. "
            "Replace them."
        )
    for shard in shards:
        if not len(shard.rows):
            shard.path.unlink()
    named = []
    for number, shard in enumerate(full):
        path = files.shard(number, len(full))
        if shard.path != path:
            shard.path.rename(path)
        named.append(dataclasses.replace(shard, path=path))
    return named


def class_names_sha256(class_names: Sequence[str]) -> str:
    """Returns the digest of class names, as `tfrds.json` has it."""
    return hashlib.sha256("\n".join(class_names).encode()).hexdigest()


def _write_split(
    files: SplitFiles, shards: Sequence[FinalShard], heading: Heading
) -> dict[str, Any]:
    """Writes index, keys and columns of one split; returns its part of `tfrds.json`."""
    write_parts(files.index, [shard.rows for shard in shards])
    write_keys([shard.keys for shard in shards], files.keys, files.key_offsets)
    columns = []
    for spec in heading.columns:
        parts = [shard.columns[spec.name] for shard in shards]
        columns += write_columns(files, parts, heading.label_key)
    counts = np.zeros(len(heading.class_names), np.int64)
    for shard in shards:
        lists = shard.columns.get(heading.label_key)
        counts += np.array(
            count_classes(shard.rows["label"], lists, len(heading.class_names)), np.int64
        )
    return {
        "num_examples": sum(len(shard.rows) for shard in shards),
        "class_counts": [int(count) for count in counts],
        "columns_sha256": {path.name: file_sha256(path) for path in columns},
        "index_sha256": file_sha256(files.index),
        "keys_sha256": file_sha256(files.keys),
        "key_offsets_sha256": file_sha256(files.key_offsets),
        "shards": [
            {
                "file": shard.path.name,
                "bytes": shard.num_bytes,
                "records": len(shard.rows),
                "sha256": shard.sha256,
                "generation": shard.generation,
                **_origin(shard, heading),
            }
            for shard in shards
        ],
    }


def _origin(shard: FinalShard, heading: Heading) -> dict[str, Any]:
    """Returns where a shard that others wrote lies, and when it was changed last."""
    if heading.adopted is None:
        return {}
    return {"path": os.readlink(shard.path), "mtime_ns": shard.mtime_ns}


def _image_shape(
    heading: Heading, shards: Sequence[FinalShard]
) -> tuple[int | None, int | None, int]:
    """Returns the shape every image has when read: as asked for, or as it turned out to be."""
    if heading.image_size:
        return (*heading.image_size, heading.channels)
    heights, widths = (
        np.unique(np.concatenate([np.unique(shard.rows[side]) for shard in shards]))
        for side in ("height", "width")
    )
    if len(heights) == len(widths) == 1:
        return int(heights[0]), int(widths[0]), heading.channels
    return None, None, heading.channels


def _source_digest(shards: Sequence[FinalShard]) -> str:
    """Returns the sha256 over (key, bytes stored, content hash) of all records in order."""
    digest = hashlib.sha256()
    for shard in shards:
        content = shard.rows["content"].tobytes()
        lengths = shard.rows["image_length"].tolist()
        for row, (key, length) in enumerate(zip(shard.keys, lengths, strict=True)):
            digest.update(
                b"%d %s %d %s" % (len(key), key, length, content[16 * row : 16 * row + 16])
            )
    return digest.hexdigest()
