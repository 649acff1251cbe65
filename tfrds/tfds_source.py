"""Datasets that TFDS has prepared, as a source: its metadata, and its TFRecord files as they lie.

Gets the name of a dataset or its directory, gives the references of its records. TFDS is imported
by `scan` alone: worker processes read the files as those of `TFRecords`, without TFDS and
TensorFlow.
"""

import copy
import dataclasses
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_choice, is_list_of_names
from tfrds.data_dirs import roots_of
from tfrds.errors import ConfigError, SourceError
from tfrds.spec import LABEL_KINDS
from tfrds.tfds_prepared import find_prepared, is_prepared, read_tfds_info
from tfrds.write.sources.base import Inputs, References
from tfrds.write.sources.tfrecords import TFRecords

_LISTED = 10


class TfdsDataset:
    """A dataset in TFDS that is prepared on this machine, such as `TfdsDataset("mnist")`.

    Args:
      name: `mnist`, `mnist:3.0.1`, `name/config` or `name/config:1.0.0`; without a version the
        highest one that is there. Or the path of its directory, with `features.json` in it.
      data_dir: root of all datasets; None: TFDS's own and those that were used or added.
      image_key: of the feature, "a/b" for one inside another. None: the only image.
      label_key: of the label. None: what TFDS has as `as_supervised`, else the only class, else
        "label".
      splits: that are read; None: all.
      label_kind: "single", "binary", "multi", "value" or "none". None: as the feature is.
      download: let TFDS download and prepare the dataset where it is not there yet.

    Raises:
      ConfigError: an argument that cannot be meant.
    """

    kind = "tfds"
    is_in_memory = False

    def __init__(
        self,
        name: os.PathLike[str] | str,
        *,
        data_dir: os.PathLike[str] | str | None = None,
        image_key: str | None = None,
        label_key: str | None = None,
        splits: Sequence[str] | None = None,
        label_kind: Literal["single", "binary", "multi", "value", "none"] | None = None,
        download: bool = False,
    ) -> None:
        if not os.fspath(name):
            raise ConfigError(
                f"name: expected that of a dataset in TFDS such as 'mnist:3.0.1', got {name!r}."
            )
        if label_kind is not None:
            check_choice("label_kind", label_kind, LABEL_KINDS)
        if splits is not None and not is_list_of_names(splits):
            raise ConfigError(f"splits: expected a list of names, or None, got {splits!r}.")
        self._name = name
        self._data_dir = data_dir
        self._image_key = image_key
        self._label_key = label_key
        self._splits = splits
        self._label_kind: str | None = label_kind
        self._download = download
        self._records: TFRecords | None = None  # by `scan`

    def with_label_kind(self, kind: Any) -> "TfdsDataset":
        """Returns the same dataset with labels of this kind."""
        check_choice("label_kind", kind, LABEL_KINDS)
        other = copy.copy(self)
        other._label_kind = kind
        other._records = None
        return other

    def scan(self) -> References:
        """Returns references in the order of the files' names and of the records in them.

        Raises:
          SourceError: the dataset is not there, damaged, or stored in a way that is not read.
          ConfigError: a feature or split that it does not have, or several that may be meant.
        """
        directory = self._find()
        info = read_tfds_info(directory)
        features = dict(_flatten(info.features))
        image_key, image = _find_image(directory, features, self._image_key)
        label = self._find_label(info, features, image_key)
        self._records = TFRecords(
            self._files(directory, info),
            image_key=image_key,
            **_pixel_arguments(image),
            **label.arguments,
        )
        references = self._records.scan()
        left_out = sorted(features.keys() - {image_key, label.key})
        note = f"{directory}: image {image_key!r}, label {label.key!r}" + (
            f"; features left out: {', '.join(left_out[:_LISTED])}"
            f"{', ...' if len(left_out) > _LISTED else ''}."
            if left_out
            else "."
        )
        return dataclasses.replace(references, notes=(note, *references.notes))

    def inputs(self, rows: NDArray[np.int64]) -> Inputs:
        """Returns the records at `rows` of the last scan."""
        if self._records is None:
            raise ConfigError("TfdsDataset: expected scan() to be called before inputs().")
        return self._records.inputs(rows)

    def _find(self) -> pathlib.Path:
        """Returns the dataset's directory; downloads and prepares it where that is asked for."""
        if _is_path(self._name):
            directory = pathlib.Path(self._name).expanduser().absolute()
            if not is_prepared(directory):
                raise SourceError(
                    f"{directory}: expected a dataset of TFDS, with dataset_info.json and "
                    "features.json, found none."
                )
            return directory
        name = str(self._name)
        roots = roots_of(self._data_dir)
        found = find_prepared(name, roots)
        if found is not None:
            return found
        if not self._download:
            raise SourceError(
                f"{name}: no prepared dataset of TFDS in {[str(root) for root in roots]}. Prepare "
                f'it by tfds.load("{name}"), or pass TfdsDataset("{name}", download=True) to let '
                "TFDS download it."
            )
        import tensorflow_datasets as tfds

        builder = tfds.builder(name, data_dir=self._data_dir)
        builder.download_and_prepare()
        return pathlib.Path(builder.data_dir)

    def _files(self, directory: pathlib.Path, info: Any) -> dict[str, list[str]]:
        """Returns the paths of the files of each split."""
        known = list(info.splits)
        for split in self._splits or ():
            if split not in known:
                raise ConfigError(
                    f"splits: expected some of {known}, which {directory} has, got {split!r}."
                )
        files = {
            name: [os.fspath(path) for path in info.splits[name].filepaths]
            for name in self._splits or known
        }
        for path in (path for paths in files.values() for path in paths):
            # The dataset says how its files are called.
            if pathlib.Path(path).parent != directory:
                raise SourceError(
                    f"{directory}: dataset_info.json names the file {path}, expected one in this "
                    "directory. Copy the dataset again."
                )
        return files

    def _find_label(self, info: Any, features: Mapping[str, Any], image_key: str) -> "_Label":
        if self._label_kind == "none":
            return _Label(None, {"label_kind": "none"})
        key = self._label_key or _guess_label(info, features)
        if key is None or key not in features or key == image_key:
            raise ConfigError(
                f"label_key: expected the label among {sorted(features)} of {info.name}, got "
                f'{key!r}. Pass it, or label_kind="none" for images alone.'
            )
        return _Label(key, _label_arguments(key, features[key], self._label_kind))


@dataclasses.dataclass(frozen=True)
class _Label:
    """The label of a dataset.

    Attributes:
      key: of its feature; None: none.
      arguments: of `TFRecords` that are about it.
    """

    key: str | None
    arguments: dict[str, Any]


def _is_path(name: os.PathLike[str] | str) -> bool:
    return not isinstance(name, str) or name.startswith(("/", "./", "../", "~"))


def _flatten(features: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (key in the records, feature); TFDS joins keys of nested ones by "/"."""
    import tensorflow_datasets as tfds

    for key, feature in features.items():
        if isinstance(feature, tfds.features.FeaturesDict):
            yield from _flatten(feature, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", feature


def _find_image(
    directory: pathlib.Path, features: Mapping[str, Any], given: str | None
) -> tuple[str, Any]:
    """Returns (key, feature) of the image.

    Raises:
      ConfigError: there is none of this key, or not one alone.
      SourceError: it is not stored as an encoded image of 8 bits.
    """
    import tensorflow_datasets as tfds

    images = sorted(
        key for key, value in features.items() if isinstance(value, tfds.features.Image)
    )
    key = given or (images[0] if len(images) == 1 else None)
    if key is None or key not in features:
        raise ConfigError(
            f"image_key: expected one of the images {images} of {directory}, got {key!r}. Pass it."
        )
    feature = features[key]
    is_ours = type(feature).__module__ == "tfrds.features"
    if key not in images or (not is_ours and np.dtype(feature.np_dtype) != np.uint8):
        raise SourceError(
            f"{directory}: expected {key!r} to be stored as PNG or JPEG of uint8, found "
            f"{feature!r}. Read it with tfds.load and pass tfrds.sources.Arrays."
        )
    return key, feature


def _pixel_arguments(image: Any) -> dict[str, Any]:
    """Returns the shape of raw pixels, as datasets of tfrds may have them."""
    if type(image).__module__ != "tfrds.features":
        return {}
    content = image.to_json_content()
    height, width, channels = content["shape"]
    return (
        {"image_size": (height, width), "channels": channels}
        if content["encoding"] == "raw"
        else {}
    )


def _guess_label(info: Any, features: Mapping[str, Any]) -> str | None:
    import tensorflow_datasets as tfds

    target = info.supervised_keys and info.supervised_keys[1]
    if isinstance(target, str) and target in features:
        return target
    classes = [
        key for key, value in features.items() if isinstance(value, tfds.features.ClassLabel)
    ]
    if len(classes) == 1:
        return classes[0]
    return "label" if "label" in features else None


def _label_arguments(key: str, feature: Any, label_kind: str | None) -> dict[str, Any]:
    """Returns how `TFRecords` shall read a label.

    Raises:
      SourceError: it is nothing that can be one.
    """
    import tensorflow_datasets as tfds

    stored = feature.get_serialized_info()
    one = feature.feature if isinstance(feature, tfds.features.Sequence) else feature
    is_text = isinstance(one, tfds.features.Text)
    is_plain = isinstance(stored, tfds.features.TensorInfo) and len(stored.shape) < 2
    dtype = np.dtype(stored.np_dtype).kind if is_plain else ""
    if not is_plain or not (is_text or dtype in ("i", "u", "f", "b")):
        raise SourceError(
            f"label_key: expected numbers, classes or text in {key!r}, found {feature!r}. Pass "
            "another one."
        )
    if label_kind == "value" or (label_kind is None and dtype == "f"):
        return {"label_key": key, "label_kind": "value"}
    arguments: dict[str, Any] = {
        "label_key": key,
        "label_kind": label_kind or ("multi" if stored.shape else "single"),
    }
    if not is_text:
        # They count from 0 as TFDS has them, whether any image is of class 0 or not.
        arguments["label_offset"] = 0
    if isinstance(one, tfds.features.ClassLabel) and one.num_classes:
        arguments["class_names"] = one.names or [str(number) for number in range(one.num_classes)]
    return arguments
