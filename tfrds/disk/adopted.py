"""Shards that others wrote, used where they lie: whether they are still those that were adopted.

Gets the record of the build, and looks at each file's link, size and time of change; everything
that opens an adopted dataset asks here first. What their records hold is parsed tolerantly.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tfrds.disk.build_record import BuildRecord
from tfrds.disk.columns import ColumnSpec
from tfrds.disk.example_bytes import StoredExample, parse_example
from tfrds.disk.foreign_example import bytes_spans, find_features, int64_values
from tfrds.disk.journal import file_sha256
from tfrds.disk.window import Window
from tfrds.errors import ConfigError, DatasetError

_MAX_TEXT_BYTES = 4096


def check_adopted(record: BuildRecord, split: str) -> None:
    """Returns if a split's shards are the files that were adopted, unchanged; or none are.

    Raises:
      DatasetError: one is missing, was changed or replaced, or its link leads elsewhere.
    """
    if record.adopted is None:
        return
    shards = record.content["splits"][split]["shards"]
    for (link, num_bytes, _), said in zip(record.shards(split), shards, strict=True):
        try:
            target = os.readlink(link)
            status = os.stat(link)
        except OSError as error:
            raise DatasetError(
                f"{link}: expected a link to {said['path']}, found none that can be followed: "
                f"{error.strerror}. Bring the file back, or adopt it again."
            ) from error
        if target != said["path"]:
            raise DatasetError(
                f"{link}: expected a link to {said['path']}, found one to {target}. Adopt the "
                "files again."
            )
        if (status.st_size, status.st_mtime_ns) != (num_bytes, said["mtime_ns"]):
            raise DatasetError(
                f"{target}: changed since it was adopted as {link.name}: expected {num_bytes:,} "
                f"bytes last changed at {said['mtime_ns']} ns, found {status.st_size:,} bytes "
                f"changed at {status.st_mtime_ns} ns. Adopt the files again, as another version."
            )


def check_adopted_index(record: BuildRecord, split: str) -> None:
    """Returns if the index of an adopted split is unchanged, or the split is none.

    It does not hold hashes of images that would tell one record from another.

    Raises:
      DatasetError: it was changed.
    """
    if record.adopted is None:
        return
    path, said = (
        record.split_files(split).index,
        record.content["splits"][split].get("index_sha256"),
    )
    found = file_sha256(path)
    if found != said:
        raise DatasetError(
            f"{path}: expected the sha256 {said}, found {found}. Copy it again, or adopt the files "
            "again."
        )


def check_own(record: BuildRecord, what: str) -> None:
    """Raises ConfigError where a dataset's shards were adopted: they cannot become others."""
    if record.adopted is not None:
        raise ConfigError(
            f"{what}: the shards of {record.name} {record.version} belong to others and are used "
            "where they lie. Build a dataset from them with tfrds.sources.TFRecords instead."
        )


def parse_stored(
    data: bytes,
    image_key: str,
    features: tuple[ColumnSpec, ...],
    adopted: Mapping[str, Any] | None,
    class_names: Sequence[str],
) -> StoredExample:
    """Returns where the image lies in a record's data, and the values beside it.

    Args:
      data: of the record.
      image_key: name of the image's feature.
      features: all others; of adopted records the label alone.
      adopted: how records that others wrote are read; None: a build wrote them.
      class_names: of adopted text labels, which become class numbers, -1 where they are none.

    Raises:
      ValueError: other bytes than a build writes; of adopted ones, no Example with image and label.
    """
    if adopted is None:
        return parse_example(data, image_key, features)
    window = Window(data)
    wanted = {image_key.encode(), *(spec.name.encode() for spec in features)}
    found = find_features(window, 0, len(data), wanted)
    if missing := sorted(wanted - set(found)):
        raise ValueError(f"expected the feature {missing[0].decode()!r}, found none")
    ((start, end),) = bytes_spans(window, found[image_key.encode()], 1)
    values: dict[str, list[int] | list[float] | bytes] = {}
    for spec in features:
        feature = found[spec.name.encode()]
        if adopted["has_text_labels"]:
            ((first, last),) = bytes_spans(window, feature, 1)
            name = data[first : min(last, first + _MAX_TEXT_BYTES)].decode(errors="replace")
            values[spec.name] = [class_names.index(name) if name in class_names else -1]
        else:
            (number,) = int64_values(window, feature, 1)
            values[spec.name] = [number + int(adopted["label_offset"])]
    return StoredExample(start, end - start, values)
