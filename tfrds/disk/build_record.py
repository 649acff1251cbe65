"""`tfrds.json`, the record of a build: canonical JSON whose sha256 is the dataset's digest.

`write/dataset.py` makes it, everything that opens a dataset reads and checks it first.
docs/FORMAT.md lists its content.
"""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from tfrds.checks import check_background, check_choice, check_split_name, parse_image_size
from tfrds.disk.columns import ADDED_KEYS, MAX_KEY_BYTES, WEIGHT_KEY, ColumnSpec
from tfrds.disk.layout import RECORD_FILE, SplitFiles
from tfrds.errors import DatasetError
from tfrds.spec import CLASS_KINDS, LABEL_KINDS, RESIZES

FORMAT = "1.0"

# The first tfrds that reads this format: named to whoever opens a dataset that their tfrds does not
# know.
READABLE_BY = "0.1.0"

# How stored bytes become pixels: JPEG by DCT method INTEGER_ACCURATE with fancy upsampling, PNG as
# it is, resize by TensorFlow's bilinear without antialiasing. Pixels of an old dataset never
# change: another way gets another number.
DECODE = 1

# A record holds about 200 bytes a shard: 99,999 shards stay under this, and nobody's memory is
# filled by a file.
_MAX_BYTES = 64 * 2**20


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildRecord:
    """What a reader needs to know of `tfrds.json`, checked.

    Attributes:
      directory: where the dataset lies.
      content: the whole record, as parsed.
      digest: sha256 of the file, in hexadecimal digits.
    """

    directory: pathlib.Path
    content: Mapping[str, Any]
    digest: str

    @property
    def name(self) -> str:
        """The dataset's name."""
        return str(self.content["name"])

    @property
    def version(self) -> str:
        """The dataset's version, "major.minor.patch"."""
        return str(self.content["version"])

    @property
    def image_shape(self) -> tuple[int | None, int | None, int]:
        """(height, width, channels) of every image when read.

        Height and width None where they vary.
        """
        height, width, channels = self.content["image"]["shape"]
        return height, width, channels

    @property
    def image_key(self) -> str:
        """Name of the image's feature."""
        return str(self.content["image"]["key"])

    @property
    def label_key(self) -> str:
        """Name of the label's feature, also where there is none."""
        return str(self.content["label"]["key"])

    @property
    def label_kind(self) -> str:
        """One of `tfrds.spec.LABEL_KINDS`."""
        return str(self.content["label"]["kind"])

    @property
    def num_classes(self) -> int:
        """Number of classes, 0 where labels are none."""
        return int(self.content["label"]["num_classes"])

    @property
    def index_labels(self) -> range:
        """What the index says of labels: class numbers, or -1 for all."""
        return range(self.num_classes) if self.label_kind in CLASS_KINDS else range(-1, 0)

    @functools.cached_property
    def columns(self) -> tuple[ColumnSpec, ...]:
        """The columns that have files of their own; of other labels than classes one of them."""
        return tuple(map(ColumnSpec.from_dict, self.content["columns"]))

    @functools.cached_property
    def features(self) -> tuple[ColumnSpec, ...]:
        """All that records hold beside their images."""
        if self.label_kind not in CLASS_KINDS:
            return self.columns
        return (ColumnSpec(name=self.label_key, dtype="int64"), *self.columns)

    @property
    def adopted(self) -> Mapping[str, Any] | None:
        """How records that others wrote are read where they lie; None: a build wrote them."""
        adopted: Mapping[str, Any] | None = self.content.get("adopted")
        return adopted

    @property
    def splits(self) -> list[str]:
        """The splits' names, in TFDS's order."""
        return list(self.content["splits"])

    def split_files(self, split: str) -> SplitFiles:
        """Returns the paths of a split's files."""
        return SplitFiles(self.directory, self.name, split)

    def shards(self, split: str) -> list[tuple[pathlib.Path, int, int]]:
        """Returns (path, bytes, records) of each shard of `split`."""
        files, shards = self.split_files(split), self.content["splits"][split]["shards"]
        return [
            (files.shard(number, len(shards)), int(shard["bytes"]), int(shard["records"]))
            for number, shard in enumerate(shards)
        ]


def canonical_json(content: Mapping[str, Any]) -> bytes:
    """Returns `content` as the same bytes everywhere.

    Sorted keys, ASCII, no white space, one line break at the end.
    """
    text = json.dumps(
        content, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":")
    )
    return text.encode("ascii") + b"\n"


def write_build_record(directory: pathlib.Path, content: Mapping[str, Any]) -> None:
    """Writes `content` as `tfrds.json`."""
    (directory / RECORD_FILE).write_bytes(canonical_json(content))


def read_build_record(directory: pathlib.Path) -> BuildRecord:
    """Reads and checks `tfrds.json`.

    Raises:
      DatasetError: missing, not JSON, of an unknown format, or without what a reader needs.
    """
    path = directory / RECORD_FILE
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DatasetError(
                f"{path}: larger than {_MAX_BYTES:,} bytes, so not a record of tfrds."
            )
        data = path.read_bytes()
        content = json.loads(data)
    except FileNotFoundError as error:
        raise DatasetError(
            f"{directory}: no dataset of tfrds, {RECORD_FILE} is missing."
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetError(
            f"{path}: cannot be read: {error}. Copy or build the dataset again."
        ) from error
    _check(path, content)
    return BuildRecord(
        directory=directory, content=content, digest=hashlib.sha256(data).hexdigest()
    )


def check_complete(record: BuildRecord) -> None:
    """Raises DatasetError unless a record holds all that is taken into another version's."""
    content = record.content
    parts = (content.get(part) for part in ("source", "totals", "encoders"))
    image, source, totals, encoders = content["image"], *(part or {} for part in parts)
    shards = [shard for split in content["splits"].values() for shard in split["shards"]]
    try:
        counts = [count for name, count in totals.items() if name != "left_out"]
        is_complete = (
            image["channels"] == image["shape"][2]
            and all(isinstance(source[name], str) for name in ("kind", "digest"))
            and all(type(count) is int for count in (*counts, *totals.get("left_out", {}).values()))
            and all(isinstance(version, str) for version in encoders.values())
            and all(isinstance(shard["sha256"], str) or "adopted" in content for shard in shards)
            and all(0 <= shard["generation"] < 2**31 for shard in shards)
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _incomplete(record.directory / RECORD_FILE, error) from error
    if not is_complete:
        raise _never_written(record.directory / RECORD_FILE)


def _check(path: pathlib.Path, content: Any) -> None:
    if not isinstance(content, dict):
        raise DatasetError(f"{path}: expected a JSON object, found {type(content).__name__}.")
    major = str(content.get("format", "")).split(".")[0]
    requires = content.get("requires")
    if major != FORMAT.split(".")[0] or requires != []:
        raise DatasetError(
            f"{path}: expected format {FORMAT} without requirements, found format "
            f"{content.get('format')!r} that requires {requires!r}. Install tfrds "
            f"{content.get('readable_by', 'in a newer version')} or newer."
        )
    try:
        valid = (
            isinstance(content["name"], str)
            and "/" not in content["name"]
            and content["name"].isprintable()  # a NUL or half a surrogate is no part of a path
            and isinstance(content["version"], str)
            and content["decode"] == DECODE
            and content["image"]["encoding"] in ("raw", "jpeg", "original")
            and _is_shape(content["image"]["shape"], content["image"]["encoding"])
            and _has_read_options(content["options"])
            and _is_label(content["label"])
            and _are_columns(content)
            and all(_is_key(content[part]["key"]) for part in ("image", "label"))
            and len(content["splits"]) > 0
            and all(_is_split(name, split) for name, split in content["splits"].items())
            and ("adopted" not in content or _is_adopted(content))
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _incomplete(path, error) from error
    if not valid:
        raise _never_written(path)


def _incomplete(path: pathlib.Path, error: Exception) -> DatasetError:
    return DatasetError(f"{path}: incomplete: {error!r}. Copy or build the dataset again.")


def _never_written(path: pathlib.Path) -> DatasetError:
    return DatasetError(
        f"{path}: holds values that tfrds never writes. Copy or build the dataset again."
    )


def _is_key(key: Any) -> bool:
    # The label's key is part of a file's name, in which no "/" is left.
    return (
        isinstance(key, str)
        and key.isprintable()
        and 0 < len(key.encode()) <= MAX_KEY_BYTES
        and key not in (*ADDED_KEYS, WEIGHT_KEY)
    )


def _is_label(label: Mapping[str, Any]) -> bool:
    check_choice("label kind", label["kind"], LABEL_KINDS)
    least = 0 if label["kind"] in ("value", "none") else 1
    number = label["num_classes"]
    return type(number) is int and least <= number < (2**31 if least else 1)


def _are_columns(content: Mapping[str, Any]) -> bool:
    """Whether the columns are some that a build writes, the label among them where it must be."""
    specs = list(map(ColumnSpec.from_dict, content["columns"]))
    names = [spec.name for spec in specs]
    label = content["label"]
    forms = [(spec.dtype, spec.shape) for spec in specs if spec.name == label["key"]]
    if label["kind"] == "multi":
        is_label = forms == [("int32", None)]
    elif label["kind"] == "value":
        is_label = [dtype for dtype, _ in forms] == ["float32"] and forms[0][1] is not None
    else:
        is_label = not forms
    extras = [spec for spec in specs if spec.name != label["key"]]
    taken = {content["image"]["key"], label["key"], *ADDED_KEYS}
    return (
        is_label
        and len(set(names)) == len(names)
        and not taken & {spec.name for spec in extras}
        and all(spec.shape is not None for spec in extras)
        and all(
            (spec.dtype, spec.shape) == ("float32", ())
            for spec in extras
            if spec.name == WEIGHT_KEY
        )
    )


def _has_read_options(options: Mapping[str, Any]) -> bool:
    """Whether the options of the build that decide how it is read have values of their kind."""
    parse_image_size(options["image_size"])
    check_choice("resize", options["resize"], RESIZES)
    check_background(options["background"])
    return True


def _is_shape(shape: list[Any], encoding: str) -> bool:
    # Raw pixels are counted off by it, so it is whole there.
    return (
        len(shape) == 3
        and (encoding != "raw" or None not in shape)
        and all(side is None or (type(side) is int and side > 0) for side in shape[:2])
        and (type(shape[2]) is int and shape[2] > 0)
    )


def _is_adopted(content: Mapping[str, Any]) -> bool:
    how = content["adopted"]
    shards = [shard for split in content["splits"].values() for shard in split["shards"]]
    return (
        type(how["label_offset"]) is int
        and abs(how["label_offset"]) < 2**31  # it is added to int32
        and all(type(how[name]) is bool for name in ("has_text_labels", "is_split_by_index"))
        and all(os.path.isabs(shard["path"]) and type(shard["mtime_ns"]) is int for shard in shards)
        and not content["columns"]
    )


def _is_split(name: str, split: Mapping[str, Any]) -> bool:
    check_split_name(name)
    shards = split["shards"]
    return len(shards) > 0 and all(
        type(shard["bytes"]) is int and type(shard["records"]) is int and shard["records"] > 0
        for shard in shards
    )
