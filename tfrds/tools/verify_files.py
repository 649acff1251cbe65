"""Verifies the small files of a dataset: the build record, class names and TFDS's metadata.

Gets the build record, gives faults; `verify.py` asks here before it reads shards, and once more
when all records are counted. TFDS's files are read as the JSON that they are: no TFDS, and nothing
that they name is imported.
"""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfrds.disk.build_record import BuildRecord, canonical_json
from tfrds.disk.columns import WEIGHT_KEY, ColumnSpec
from tfrds.disk.layout import FEATURES_FILE, INFO_FILE, RECORD_FILE, class_names_file
from tfrds.errors import DatasetError
from tfrds.spec import background_values
from tfrds.tools.faults import Fault

# As for the build record: what is larger is none of ours, and fills nobody's memory.
_MAX_BYTES = 64 * 2**20

_BLOCK_BYTES = 1 << 20

# What a file of other content than ours makes Python raise.
_UNREADABLE = (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError)

# The names of classes and of files that TFDS writes; it imports, and looks for, what stands here.
_TFDS = "tensorflow_datasets.core.features"
_FEATURES_CLASS = f"{_TFDS}.features_dict.FeaturesDict"
_FILE_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_BY_INDEX_TEMPLATE = "{DATASET}-{SPLIT}.only_tfrds_reads_this-{SHARD_X_OF_Y}"
# The fields that TFDS writes of what tfrds says, and their types in JSON.
_INFO_FIELDS: dict[str, type] = {
    **dict.fromkeys(("name", "version", "description", "citation", "moduleName"), str),
    **dict.fromkeys(("configName", "configDescription", "downloadSize", "fileFormat"), str),
    **dict.fromkeys(("releaseNotes", "location", "redistributionInfo", "supervisedKeys"), dict),
    **dict.fromkeys(("configTags", "splits"), list),
}
_SPLIT_FIELDS = ("name", "filepathTemplate", "numBytes", "shardLengths")
_IMAGE_CLASS = "tfrds.features.Image"
_LABEL_CLASSES = {
    "single": "tfrds.features.Label",
    "binary": "tfrds.features.BinaryLabel",
    "multi": "tfrds.features.MultiLabel",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitRecord:
    """What the build record says of a split.

    Attributes:
      num_examples: of all shards.
      class_counts: examples by class number.
      sha256: of the split's files beside the shards, by "index", "keys" and "key_offsets".
      columns_sha256: of the files of its columns, by name.
      shard_files, shard_sha256: of each shard; the hash None where it was not computed.
    """

    num_examples: int
    class_counts: tuple[int, ...]
    sha256: Mapping[str, str]
    columns_sha256: Mapping[str, str]
    shard_files: tuple[str, ...]
    shard_sha256: tuple[str | None, ...]


def split_records(record: BuildRecord) -> dict[str, SplitRecord]:
    """Returns what the build record says, by split.

    Raises:
      DatasetError: it says less than a build writes.
    """
    try:
        return {name: _split_record(record.content["splits"][name]) for name in record.splits}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DatasetError(
            f"{record.directory / RECORD_FILE}: incomplete: {error!r}. Copy or build the dataset "
            "again."
        ) from error


def _split_record(content: Mapping[str, Any]) -> SplitRecord:
    return SplitRecord(
        num_examples=int(content["num_examples"]),
        class_counts=tuple(map(int, content["class_counts"])),
        sha256={name: str(content[f"{name}_sha256"]) for name in ("index", "keys", "key_offsets")},
        columns_sha256={
            str(name): str(digest) for name, digest in content["columns_sha256"].items()
        },
        shard_files=tuple(str(shard["file"]) for shard in content["shards"]),
        shard_sha256=tuple(
            None if shard["sha256"] is None else str(shard["sha256"]) for shard in content["shards"]
        ),
    )


def hash_fault(path: pathlib.Path, expected: str) -> tuple[Fault | None, bool]:
    """Returns what is wrong with a file of this sha256, and whether all of it could be read."""
    try:
        with path.open("rb") as file:
            digest = hashlib.sha256()
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except FileNotFoundError:
        return Fault(file=path.name, what="missing"), False
    except OSError as error:
        return Fault(file=path.name, what=f"cannot be read: {error.strerror}"), False
    found = digest.hexdigest()
    if found == expected:
        return None, True
    return Fault(file=path.name, what=f"expected the sha256 {expected}, found {found}"), True


def metadata_faults(record: BuildRecord, splits: Mapping[str, SplitRecord]) -> Iterator[Fault]:
    """Yields what is wrong with the small files, as far as the build record tells."""
    for what in _record_faults(record, splits):
        yield Fault(file=RECORD_FILE, what=what)
    checks: list[tuple[pathlib.Path, Any]] = [
        (record.directory / FEATURES_FILE, _features_faults),
        (record.directory / INFO_FILE, _info_faults),
    ]
    if record.num_classes:
        path = class_names_file(record.directory, record.label_key)
        checks.insert(0, (path, _class_names_faults))
    for file, check in checks:
        for what in _checked(file, check, record):
            yield Fault(file=file.name, what=what)


def _checked(path: pathlib.Path, check: Any, record: BuildRecord) -> Iterator[str]:
    """Yields what `check` says of the file's bytes, or why it cannot say anything."""
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            yield f"expected at most {_MAX_BYTES:,} bytes, found {size:,}"
            return
        yield from check(path.read_bytes(), record)
    except FileNotFoundError:
        yield "missing"
    except OSError as error:
        yield f"cannot be read: {error.strerror}"
    except _UNREADABLE as error:
        yield f"cannot be parsed: {error!r}"


def _record_faults(record: BuildRecord, splits: Mapping[str, SplitRecord]) -> Iterator[str]:
    directory = record.directory
    if (directory / RECORD_FILE).read_bytes() != canonical_json(record.content):
        yield "not the bytes that a build writes: its JSON was edited or formatted"
    if directory.name != record.version or record.name not in (
        directory.parent.name,
        directory.parents[1].name,
    ):
        place = "/".join(directory.parts[-3:])
        yield f"tells of version {record.version} of {record.name!r}, expected that of {place!r}"
    num_classes = record.content["label"]["num_classes"]
    for name, split in splits.items():
        where = f"split {name!r}"
        shards = record.shards(name)
        files = tuple(path.name for path, _, _ in shards)
        if split.shard_files != files:
            wrong = next(
                pair for pair in zip(split.shard_files, files, strict=True) if len({*pair}) > 1
            )
            yield f"{where}: expected a shard named {wrong[1]!r}, found {wrong[0]!r}"
        records = sum(count for _, _, count in shards)
        if split.num_examples != records:
            yield (
                f"{where}: num_examples: expected {records:,} as of its shards, found "
                f"{split.num_examples:,}"
            )
        if len(split.class_counts) != num_classes:
            yield (
                f"{where}: class_counts: expected {num_classes:,} classes, found "
                f"{len(split.class_counts):,}"
            )


def _class_names_faults(data: bytes, record: BuildRecord) -> Iterator[str]:
    # TFDS ends each name with a line break; the digest is over the names joined by them.
    names = data.removesuffix(b"\n")
    label = record.content["label"]
    found = hashlib.sha256(names).hexdigest()
    if found != label["class_names_sha256"]:
        yield f"expected names of the sha256 {label['class_names_sha256']}, found {found}"
    if names == data:
        yield f"expected a line break at its end, found {data[-1:]!r}"
    count = names.count(b"\n") + 1
    if count != label["num_classes"]:
        yield f"expected {label['num_classes']:,} names, found {count:,}"


def _features_faults(data: bytes, record: BuildRecord) -> Iterator[str]:
    content = json.loads(data)
    if content["pythonClassName"] != _FEATURES_CLASS:
        yield f"expected the class {_FEATURES_CLASS}, found {content['pythonClassName']}"
    features = content["featuresDict"]["features"]
    expected = _expected_features(record)
    if set(features) != set(expected):
        yield f"expected the features {sorted(expected)}, found {sorted(features)}"
        return
    for key, (name, field, arguments) in expected.items():
        if features[key]["pythonClassName"] != name:
            yield f"{key}: expected the class {name}, found {features[key]['pythonClassName']}"
        yield from _more(features[key], ("pythonClassName", field), key)
        found = features[key][field]
        if field == "jsonFeature":
            yield from _more(found, ("json",), key)
            found = json.loads(found["json"])
        if found != arguments:
            yield f"{key}: expected {json.dumps(arguments)}, found {json.dumps(found)}"
    yield from _more(content, ("pythonClassName", "featuresDict"), "the features")
    yield from _more(content["featuresDict"], ("features",), "the features")


def _more(content: Mapping[str, Any], expected: Iterable[str], where: str) -> Iterator[str]:
    """Yields which field there is besides the expected ones: TFDS refuses what it does not know."""
    if more := sorted(set(content).difference(expected)):
        yield f"{where}: expected no field {more[0]!r}"


def _expected_features(record: BuildRecord) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Returns (class, field, content) of each feature, as `declared.py` declares them."""
    image, options = (record.content[part] for part in ("image", "options"))
    is_resized = image["encoding"] != "raw" and options["image_size"] is not None
    background = background_values(options["background"], image["shape"][2])
    arguments = {
        "shape": image["shape"],
        "encoding": image["encoding"],
        "resize": options["resize"] if is_resized else None,
        "background": list(background) if is_resized else [],
    }
    expected = {record.image_key: (_IMAGE_CLASS, "jsonFeature", arguments)}
    if name := _LABEL_CLASSES.get(record.label_kind):
        number: dict[str, Any] = {"num_classes": record.num_classes}
        adopted = record.adopted or {}
        for argument, said in {"offset": "label_offset", "is_text": "has_text_labels"}.items():
            if adopted.get(said):
                number[argument] = adopted[said]
        expected[record.label_key] = (name, "jsonFeature", number)
    for spec in record.columns:
        if spec.name not in expected:
            expected[spec.name] = _column_feature(spec)
    return expected


def _column_feature(spec: ColumnSpec) -> tuple[str, str, dict[str, Any]]:
    if spec.dtype == "string":
        return f"{_TFDS}.text_feature.Text", "text", {}
    name = "tensor_feature.Tensor" if spec.shape else "scalar.Scalar"
    shape = {"dimensions": [str(side) for side in spec.shape]} if spec.shape else {}
    content = {"shape": shape, "dtype": spec.dtype, "encoding": "none"}
    return f"{_TFDS}.{name}", "tensor", content


def _info_faults(data: bytes, record: BuildRecord) -> Iterator[str]:
    content = json.loads(data)
    for field in ("name", "version"):
        if content[field] != record.content[field]:
            yield f"{field}: expected {record.content[field]!r}, found {content[field]!r}"
    expected = _expected_supervised_keys(record)
    if content.get("supervisedKeys") != expected:
        found = json.dumps(content.get("supervisedKeys"))
        yield f"supervisedKeys: expected {json.dumps(expected)}, found {found}"
    splits = {split["name"]: split for split in content["splits"]}
    if sorted(splits) != sorted(record.splits) or len(splits) != len(content["splits"]):
        names = sorted(split["name"] for split in content["splits"])
        yield f"expected the splits {sorted(record.splits)}, found {names}"
    by_index = bool(record.adopted and record.adopted["is_split_by_index"])
    template = _BY_INDEX_TEMPLATE if by_index else _FILE_TEMPLATE
    for name in sorted({*splits} & {*record.splits}):
        yield from _split_faults(splits[name], f"split {name!r}", record.shards(name), template)
    yield from _more(content, _INFO_FIELDS, "the info")
    for field, kind in _INFO_FIELDS.items():
        if not isinstance(content.get(field, kind()), kind):
            yield f"{field}: expected {kind.__name__}, found {content[field]!r}"


def _expected_supervised_keys(record: BuildRecord) -> dict[str, Any] | None:
    if record.label_kind == "none":
        return None
    has_weights = any(spec.name == WEIGHT_KEY for spec in record.columns)
    names = [record.image_key, record.label_key, *([WEIGHT_KEY] if has_weights else [])]
    return {"tuple": {"items": [{"featureKey": name} for name in names]}}


def _split_faults(
    found: Mapping[str, Any],
    where: str,
    shards: Sequence[tuple[pathlib.Path, int, int]],
    expected_template: str,
) -> Iterator[str]:
    yield from _more(found, _SPLIT_FIELDS, where)
    int(found["numBytes"])  # which number is told when all records are read
    template = found["filepathTemplate"]
    if template != expected_template:
        yield f"{where}: filepathTemplate: expected {expected_template!r}, found {template!r}"
    lengths = [int(length) for length in found["shardLengths"]]
    if len(lengths) != len(shards):
        yield f"{where}: expected {len(shards):,} shards, found {len(lengths):,}"
        return
    for shard, ((_, _, expected), length) in enumerate(zip(shards, lengths, strict=True)):
        if expected != length:
            yield f"{where}: shard {shard}: expected {expected:,} records, found {length:,}"


def count_faults(
    record: BuildRecord,
    splits: Mapping[str, SplitRecord],
    counted: Mapping[str, tuple[Mapping[int, int], int]],
) -> Iterator[Fault]:
    """Yields which counts in the small files are not those of the records.

    Args:
      record: of the build.
      splits: what it says of each split.
      counted: (records by label, bytes of their data) of the splits all of whose records were read.
    """
    for name, (labels, _) in counted.items():
        for label, found in enumerate(splits[name].class_counts):
            if found != labels.get(label, 0):
                yield Fault(
                    file=RECORD_FILE,
                    what=f"split {name!r}: class {label}: expected {labels.get(label, 0):,} "
                    f"examples, as there are records, found {found:,}",
                )
    for name, found in _tfds_num_bytes(record.directory / INFO_FILE).items():
        if name in counted and found != counted[name][1]:
            yield Fault(
                file=INFO_FILE,
                what=f"split {name!r}: numBytes: expected {counted[name][1]:,}, as the records "
                f"have, found {found:,}",
            )


def _tfds_num_bytes(path: pathlib.Path) -> dict[str, int]:
    """Returns the bytes of each split by TFDS's file; none where that was found damaged before."""
    with contextlib.suppress(*_UNREADABLE):
        if path.stat().st_size <= _MAX_BYTES:
            content = json.loads(path.read_bytes())
            return {split["name"]: int(split["numBytes"]) for split in content["splits"]}
    return {}
