"""Every touch of TFDS 4.9.10 beyond its documented interface, each with its reason.

`image_builder.py` and `by_name.py` call these; when TFDS changes, this is the file to look at.
setup.cfg pins the version.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from tensorflow_datasets.core import dataset_builder, dataset_info, naming, registered
from tensorflow_datasets.core import splits as splits_lib
from tensorflow_datasets.core.features import feature as feature_lib

from tfrds.declared import supervised_keys
from tfrds.disk.build_record import BuildRecord, read_build_record
from tfrds.disk.layout import FEATURES_FILE, INFO_FILE, RECORD_FILE, class_names_file, is_dataset
from tfrds.errors import ConfigError, DatasetError

# features.json names classes that TFDS imports, whatever module they are in: only these may be
# named.
_ALLOWED_FEATURES = frozenset(
    (
        "tensorflow_datasets.core.features.features_dict.FeaturesDict",
        "tensorflow_datasets.core.features.scalar.Scalar",
        "tensorflow_datasets.core.features.tensor_feature.Tensor",
        "tensorflow_datasets.core.features.text_feature.Text",
        "tfrds.features.BinaryLabel",
        "tfrds.features.Image",
        "tfrds.features.Label",
        "tfrds.features.MultiLabel",
    )
)
# How a class may be spelled there: protobuf's JSON takes a field by either name, the other two are
# TFDS's form before protobuf.
_CLASS_NAME_FIELDS = ("pythonClassName", "python_class_name", "type", "proto_cls")
_MAX_FEATURES_BYTES = 2**20
_MAX_INFO_BYTES = 64 * 2**20

# Fields of tfds.ReadConfig that the fast path honours, or that say nothing to it: it always knows
# its cardinality, caches nothing decoded, and fetches by index.
_HONOURED = frozenset(
    (
        "options",
        "input_context",
        "try_autocache",
        "add_tfds_id",
        "shuffle_seed",
        "shuffle_reshuffle_each_iteration",
        "skip_prefetch",
        "num_parallel_calls_for_decode",
        "num_parallel_calls_for_interleave_files",
        "enable_ordering_guard",
        "assert_cardinality",
        "override_buffer_size",
    )
)


def is_mocked() -> bool:
    """Whether `tfds.testing.mock_data` is active.

    It replaces the methods of the base class, and leaves those of subclasses: ours must step aside
    by themselves.
    """
    return bool(dataset_builder.DatasetBuilder.as_dataset.__module__ != dataset_builder.__name__)


def is_registered(name: str) -> bool:
    """Whether a class of this name is registered; imports none of TFDS's datasets to find out."""
    return name in registered._DATASET_REGISTRY


def registered_class(name: str) -> type[tfds.core.DatasetBuilder] | None:
    """Returns the registered builder class of this name."""
    cls: type[tfds.core.DatasetBuilder] | None = registered._DATASET_REGISTRY.get(name)
    return cls


def parse_name(name: str, **builder_kwargs: Any) -> tuple[str, dict[str, Any]]:
    """Returns (name, builder arguments) of "name/config:1.0.0/key=value", as in `tfds.load`."""
    parsed, kwargs = naming.parse_builder_name_kwargs(name, **builder_kwargs)
    return str(parsed), dict(kwargs)


def set_features(info: tfds.core.DatasetInfo, features: tfds.features.FeaturesDict) -> None:
    """Replaces an info's features.

    A builder declares them before its source is seen, and knows them after.
    """
    info._features = features


def set_supervised_keys(info: tfds.core.DatasetInfo, keys: tuple[str, ...] | None) -> None:
    """Replaces what an info says of `as_supervised`, for the same reason."""
    if keys is None:
        info.as_proto.ClearField("supervised_keys")
    else:
        # Not left to be read: with protobuf 6 TFDS fails to merge it into what is not set.
        proto = dataset_info._supervised_keys_to_proto(keys)
        info.as_proto.supervised_keys.CopyFrom(proto)


class CheckedInfo(tfds.core.DatasetInfo):  # type: ignore[misc]
    """An info that says what is wrong with its file, and takes no other splits than were built."""

    def read_from_directory(self, directory: Any) -> None:
        """Reads what a build wrote; nothing where it is about to be replaced.

        Raises:
          DatasetError: dataset_info.json is damaged, or tells of another dataset than tfrds.json.
        """
        if getattr(self._builder_or_identity, "is_replaced", False):
            return
        path = pathlib.Path(directory, INFO_FILE)
        try:
            if path.stat().st_size > _MAX_INFO_BYTES:
                raise ValueError(f"larger than {_MAX_INFO_BYTES:,} bytes")
            super().read_from_directory(directory)
            found = {
                name: length
                for split in self.splits.values()
                for name, length in zip(split.filenames, split.shard_lengths, strict=True)
            }
        except (DatasetError, MemoryError):
            raise
        except Exception as error:  # protobuf, TFDS's own, and whatever wrong values make of them
            raise DatasetError(
                f"{path}: cannot be read: {error!r}. Copy or build the dataset again."
            ) from error
        if is_dataset(path.parent):
            self._check_record(read_build_record(path.parent), found)

    def _check_record(self, record: BuildRecord, shard_lengths: Mapping[str, int]) -> None:
        built = {
            path.name: count for split in record.splits for path, _, count in record.shards(split)
        }
        if record.adopted and record.adopted["is_split_by_index"]:
            built = {
                name.replace(".tfrecord-", ".only_tfrds_reads_this-"): count
                for name, count in built.items()
            }
        features = dict(self.features.items())
        image_shape = getattr(features.get(record.image_key), "shape", None)
        num_classes = getattr(features.get(record.label_key), "num_classes", 0)
        names = sorted((record.image_key, *(spec.name for spec in record.features)))
        columns = {
            spec.name: (spec.shape, spec.dtype)
            for spec in record.columns
            if spec.name != record.label_key or record.label_kind == "value"
        }
        for file, found, expected in (
            (INFO_FILE, shard_lengths, built),
            (FEATURES_FILE, image_shape, record.image_shape),
            (FEATURES_FILE, num_classes, record.num_classes),
            (FEATURES_FILE, sorted(features), names),
            (FEATURES_FILE, {name: _described(features.get(name)) for name in columns}, columns),
        ):
            if found != expected:
                raise DatasetError(
                    f"{record.directory}: {file} and {RECORD_FILE} tell of different datasets. "
                    "Copy or build the dataset again."
                )


def _described(feature: Any) -> tuple[Any, str] | None:
    """Returns (shape, dtype) of a feature of numbers or text."""
    if feature is None:
        return None
    info = feature.get_tensor_info()
    name = np.dtype(info.np_dtype).name
    return tuple(info.shape), "string" if name == "object" else name


def class_names(info: tfds.core.DatasetInfo) -> list[str]:
    """Returns the class names of a dataset of ours; none where its labels are no classes."""
    for feature in info.features.values():
        if isinstance(feature, tfds.features.ClassLabel):
            return list(feature.names or ())
    return []


def read_info(builder: tfds.core.DatasetBuilder, directory: pathlib.Path) -> None:
    """Lets a builder's info say what lies in `directory` now: TFDS reads it once, at the start."""
    builder.is_replaced = False
    set_features(builder.info, read_features(directory))
    # TFDS would keep what was declared before.
    set_supervised_keys(builder.info, supervised_keys(read_build_record(directory)))
    builder.info.read_from_directory(directory)


def read_features(directory: pathlib.Path) -> tfds.features.FeaturesDict:
    """Returns the features of a dataset, after a look at which classes its file would import.

    Raises:
      DatasetError: missing, damaged, or naming any other class than tfrds writes.
    """
    path = directory / FEATURES_FILE
    try:
        if path.stat().st_size > _MAX_FEATURES_BYTES:
            raise DatasetError(
                f"{path}: larger than {_MAX_FEATURES_BYTES:,} bytes, so not written by tfrds."
            )
        content = json.loads(path.read_bytes())
        unknown = _class_names(content) - _ALLOWED_FEATURES
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetError(
            f"{path}: cannot be read: {error}. Copy or build the dataset again."
        ) from error
    if unknown:
        raise DatasetError(
            f"{path}: names the class {sorted(unknown)[0]!r}, expected only those of tfrds. It was "
            "not imported. Load this dataset with tensorflow_datasets if you trust it."
        )
    try:
        features = feature_lib.FeatureConnector.from_json(content)
        counts = {
            key: feature.num_classes
            for key, feature in features.items()
            if isinstance(feature, tfds.features.ClassLabel)
        }
        features.load_metadata(str(directory), feature_name=None)
    except Exception as error:  # protobuf alone raises ParseError, SystemError and more
        raise DatasetError(
            f"{path}: incomplete: {error!r}. Copy or build the dataset again."
        ) from error
    for key, count in counts.items():
        _check_class_names(class_names_file(directory, key), count, len(features[key].names))
    return features


def _check_class_names(path: pathlib.Path, expected: int, found: int) -> None:
    """Without names TFDS would go on with numbers, and with fewer of them with fewer classes."""
    if not path.is_file() or found != expected:
        found = found if path.is_file() else 0
        raise DatasetError(
            f"{path}: expected the names of {expected:,} classes, found {found:,}. Copy or build "
            "the dataset again."
        )


def _class_names(content: Any) -> set[str]:
    """Returns all names in features.json that TFDS would import, at any depth."""
    if isinstance(content, list):
        return set().union(*map(_class_names, content))
    if not isinstance(content, Mapping):
        return set()
    # What is no text under such a key is the feature of a column of that name.
    found = [content.get(key) for key in _CLASS_NAME_FIELDS]
    names = {name for name in found if isinstance(name, str)}
    return names.union(*map(_class_names, content.values()))


# The names of shards in TFDS's metadata where records of a split lie among those of others: no such
# files exist, since TFDS would read them from the front.
_ONLY_BY_INDEX = "{DATASET}-{SPLIT}.only_tfrds_reads_this-{SHARD_X_OF_Y}"


def split_infos(
    name: str,
    directory: str,
    splits: Mapping[str, tuple[list[int], int]],
    *,
    is_only_by_index: bool = False,
) -> splits_lib.SplitDict:
    """Returns TFDS's description of splits that we wrote.

    Args:
      name: of the dataset.
      directory: where its files lie.
      splits: (shard lengths, bytes of all records) by split.
      is_only_by_index: whether TFDS's own reader cannot read them.
    """
    template = {"template": _ONLY_BY_INDEX} if is_only_by_index else {"filetype_suffix": "tfrecord"}
    return splits_lib.SplitDict(
        [
            splits_lib.SplitInfo(
                name=split,
                shard_lengths=shard_lengths,
                num_bytes=num_bytes,
                filename_template=naming.ShardedFileTemplate(
                    dataset_name=name, data_dir=directory, split=split, **template
                ),
            )
            for split, (shard_lengths, num_bytes) in splits.items()
        ]
    )


def save_default_config(builder: tfds.core.DatasetBuilder) -> None:
    """Notes the name of the default configuration beside them, for readers without the class."""
    config = builder.get_default_builder_config()
    if config is not None:
        dataset_builder._save_default_config_name(
            builder.data_path.parent.parent, default_config_name=config.name
        )


def default_config(directory: pathlib.Path, configs: Sequence[str | None]) -> str | None:
    """Returns which of `configs` was noted as the default one of the dataset in `directory`."""
    if not any(configs):
        return None
    try:
        name = dataset_builder.load_default_config_name(directory)
    except (OSError, ValueError, AttributeError):
        return None  # damaged: the first serves
    return name if name in configs else None


def reason_for_tfds_reader(decoders: Any, read_config: tfds.ReadConfig) -> str | None:
    """Returns which argument only TFDS's own reader can serve, None if the fast path can."""
    if decoders is not None:
        return "decoders"
    default = tfds.ReadConfig()
    for field in dataclasses.fields(read_config):
        value = getattr(read_config, field.name)
        if field.name not in _HONOURED and value != getattr(default, field.name):
            if field.name == "file_format" and value is tfds.core.FileFormat.TFRECORD:
                continue
            return f"read_config.{field.name}"
    return None


def row_ranges(info: tfds.core.DatasetInfo, split: Any) -> list[tuple[str, int, int]]:
    """Returns (split, first row, count) of each stretch of records that an expression selects.

    Source: `file_instructions`, which serve TFDS's own reader too, so every form of expression
    means the same.

    Raises:
      ConfigError: TFDS refuses the expression, or it selects nothing.
    """
    try:
        instructions = info.splits[split].file_instructions
    except (ValueError, KeyError, AssertionError) as error:
        raise ConfigError(f"split: {error}") from error
    except (AttributeError, TypeError) as error:
        raise ConfigError(
            'split: expected the name of a split, an expression such as "train[:80%]" or a '
            f"tfds.core.ReadInstruction, got {split!r}."
        ) from error
    place = {}
    for name in info.splits:
        first = 0
        for filename, length in zip(
            sorted(info.splits[name].filenames), info.splits[name].shard_lengths, strict=True
        ):
            place[filename] = (name, first)
            first += length
    ranges: list[tuple[str, int, int]] = []
    for instruction in instructions:
        name, first = place[instruction.basename()]
        first += instruction.skip
        if ranges and ranges[-1][0] == name and sum(ranges[-1][1:]) == first:
            ranges[-1] = (name, ranges[-1][1], ranges[-1][2] + instruction.take)
        else:
            ranges.append((name, first, instruction.take))
    if not ranges or min(count for _, _, count in ranges) <= 0:
        raise ConfigError(f"split: {split!r} selects no example.")
    return ranges


def check_file_format(file_format: Any) -> None:
    """Raises ConfigError unless a `file_format` argument of TFDS is TFRecord, or None."""
    if file_format is not None and str(getattr(file_format, "value", file_format)) != "tfrecord":
        hint = (
            " For random access use tfrds.data_source."
            if "array" in str(file_format).lower()
            else ""
        )
        raise ConfigError(f"file_format: tfrds knows 'tfrecord', got {file_format!r}.{hint}")
