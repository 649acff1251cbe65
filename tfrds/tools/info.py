"""What a prepared dataset holds, told by its small files; no TensorFlow, no TFDS.

Gets the directory of a version, gives a `DatasetSummary`; `tfrds info` and the end of `tfrds build`
show it.
"""

import dataclasses
import json
import os
import pathlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tfrds.data_dirs import default_data_dir
from tfrds.disk.build_record import BuildRecord, read_build_record
from tfrds.disk.class_names import read_class_names
from tfrds.disk.layout import find_versions
from tfrds.disk.skipped import read_skipped
from tfrds.errors import DatasetError
from tfrds.spec import CLASS_KINDS

_BATCH_SIZE = 256  # of the line that loads the dataset, as in the README
_IMAGE_SIZE = (224, 224)  # in that line where the images have several sizes and a batch needs one


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitSummary:
    """One split.

    Attributes:
      num_examples: of all its shards.
      class_counts: examples of each class, in the order of the class numbers.
      num_shards: files.
      num_bytes: of its shards.
    """

    num_examples: int
    class_counts: tuple[int, ...]
    num_shards: int
    num_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetSummary:
    """One version of a dataset.

    Attributes:
      name, version: of the dataset.
      config: its configuration, None where it has none.
      directory: where it lies.
      digest: sha256 of its build record, so equal for equal datasets.
      encoding: "raw", "jpeg" or "original".
      image_shape: (height, width, channels) of each image when read; height and width None where
        they vary.
      dtype: of the images when read, unless asked for otherwise.
      channels: of the images.
      label_kind: "single", "binary", "multi", "value" or "none".
      num_classes: of the labels, 0 where they are no classes.
      class_names: in the order of their numbers.
      columns: dtype and shape of the values beside the images, by name.
      splits: by name.
      total_bytes: of all files in the directory.
      skipped: inputs that were left out by the build, by reason.
      repaired: images that were damaged and re-encoded from what could be decoded.
      duplicates: images that held the same bytes as another one, beyond the first of each.
      label_conflicts, leaks: groups of such images under two labels, in two splits.
      left_out: files of the source that are no images, by kind.
      source_kind: "folder", "arrays" or "by_split".
      load_line: the Python expression that loads the dataset on the fast path.
    """

    name: str
    version: str
    config: str | None
    directory: pathlib.Path
    digest: str
    encoding: str
    image_shape: tuple[int | None, int | None, int]
    dtype: str
    channels: int
    label_kind: str
    num_classes: int
    class_names: tuple[str, ...]
    columns: Mapping[str, str]
    splits: Mapping[str, SplitSummary]
    total_bytes: int
    skipped: Mapping[str, int]
    repaired: int
    duplicates: int
    label_conflicts: int
    leaks: int
    left_out: Mapping[str, int]
    source_kind: str
    load_line: str

    @property
    def num_examples(self) -> int:
        """Of all splits."""
        return sum(split.num_examples for split in self.splits.values())

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as JSON values."""
        return {**dataclasses.asdict(self), "directory": os.fspath(self.directory)}


def dataset_info(directory: os.PathLike[str] | str) -> DatasetSummary:
    """Returns what the dataset of `<data_dir>/<name>[/<config>]/<version>` holds.

    Raises:
      DatasetError: no dataset of tfrds, or its files are damaged or do not fit each other.
    """
    path = pathlib.Path(os.path.abspath(os.path.expanduser(directory)))
    record = read_build_record(path)
    try:
        return _summary(record, read_class_names(record))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DatasetError(
            f"{path}: incomplete: {error!r}. Copy or build the dataset again."
        ) from error


def _summary(record: BuildRecord, class_names: tuple[str, ...]) -> DatasetSummary:
    content = record.content
    totals = content["totals"]
    config = record.directory.parent.name
    return DatasetSummary(
        name=record.name,
        version=record.version,
        config=config if config != record.name else None,
        directory=record.directory,
        digest=record.digest,
        encoding=content["image"]["encoding"],
        image_shape=record.image_shape,
        dtype="float32",
        channels=record.image_shape[2],
        label_kind=record.label_kind,
        num_classes=len(class_names),
        class_names=class_names,
        columns={
            spec.name: f"{spec.dtype} {list(spec.shape or ())}"
            for spec in record.columns
            if spec.shape is not None
        },
        splits={name: _split(record, name, len(class_names)) for name in record.splits},
        total_bytes=_bytes_on_disk(record.directory),
        skipped=dict(Counter(one.reason for one in read_skipped(record.directory))),
        repaired=int(totals["repaired"]),
        duplicates=int(totals["duplicate"]),
        label_conflicts=int(totals.get("label_conflicts", 0)),
        leaks=int(totals.get("leaks", 0)),
        left_out={str(kind): int(count) for kind, count in totals["left_out"].items()},
        source_kind=str(content["source"]["kind"]),
        load_line=_load_line(record, config if config != record.name else None),
    )


def _split(record: BuildRecord, name: str, num_classes: int) -> SplitSummary:
    shards = record.shards(name)
    counts = tuple(int(count) for count in record.content["splits"][name]["class_counts"])
    num_examples = sum(records for _, _, records in shards)
    is_whole = record.label_kind not in CLASS_KINDS or sum(counts) == num_examples
    if len(counts) != num_classes or not is_whole:
        raise DatasetError(
            f"{record.directory}: split {name!r}: expected counts of {num_classes:,} classes with "
            f"the sum {num_examples:,}, found {len(counts):,} with the sum {sum(counts):,}. "
            "Copy or build the dataset again."
        )
    return SplitSummary(
        num_examples=num_examples,
        class_counts=counts,
        num_shards=len(shards),
        num_bytes=sum(num_bytes for _, num_bytes, _ in shards),
    )


def _bytes_on_disk(directory: pathlib.Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file())


def _load_line(record: BuildRecord, config: str | None) -> str:
    """Returns a line that works in any process, and always takes the fast path.

    `tfds.load` does for the newest version in TFDS's own data directory: with a version or another
    directory it leaves our class aside and reads with TFDS's own reader.
    """
    directory = record.directory
    root = directory.parents[2] if config else directory.parents[1]
    is_newest = find_versions(directory.parent)[-1:] == [directory.name]
    is_default = root == pathlib.Path(os.path.abspath(default_data_dir()))
    needs_size = None in record.image_shape
    name = (
        record.name + (f"/{config}" if config else "") + ("" if is_newest else f":{directory.name}")
    )
    splits = record.splits
    arguments = [
        _quoted(name),
        f"split={_quoted('train' if 'train' in splits else splits[0])}",
        f"batch_size={_BATCH_SIZE}",
        *([f"image_size={_IMAGE_SIZE}"] if needs_size else []),
        *([] if record.label_kind == "none" else ["as_supervised=True"]),
        *([] if is_default else [f"data_dir={_quoted(os.fspath(root))}"]),
    ]
    is_plain = is_newest and is_default and not needs_size and not config
    return f"{'tfds' if is_plain else 'tfrds'}.load({', '.join(arguments)})"


def _quoted(text: str) -> str:
    # JSON's escapes are Python's too, and its quotes are double.
    return json.dumps(text, ensure_ascii=False)
