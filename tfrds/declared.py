"""Which TFDS features a dataset declares, and what TFDS's `as_supervised` takes of them.

`image_builder.py` asks before a source has been seen, `prepare.py` when all is known.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from tfrds.disk.build_record import BuildRecord
from tfrds.disk.columns import WEIGHT_KEY, ColumnSpec
from tfrds.features import BinaryLabel, Image, Label, MultiLabel
from tfrds.spec import BuildOptions, background_values
from tfrds.write.assemble import Heading
from tfrds.write.given_columns import IMAGE_KEY, LABEL_KEY

_CLASS_FEATURES = {"single": Label, "binary": BinaryLabel, "multi": MultiLabel}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Labelled:
    """What is known of labels and columns before the source has been seen.

    Attributes:
      label_kind: one of `tfrds.spec.LABEL_KINDS`.
      image_key, label_key: names of the features.
      columns: none yet.
      adopted: never.
    """

    label_kind: str
    image_key: str = IMAGE_KEY
    label_key: str = LABEL_KEY
    columns: tuple[ColumnSpec, ...] = ()
    adopted: None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declared:
    """What is known of a dataset beyond the options of its build.

    Attributes:
      channels: of the images.
      size: (height, width) of the images as read; None: by the options.
      class_names: None where they are not known yet, or labels are no classes.
      encoding: of the images, as resolved; None: by the options.
      heading: kind of labels, columns and names of features.
    """

    channels: int
    size: tuple[int | None, int | None] | None = None
    class_names: Sequence[str] | None = None
    encoding: str | None = None
    heading: Heading | Labelled


def declare(options: BuildOptions) -> tuple[tfds.features.FeaturesDict, tuple[str, ...] | None]:
    """Returns (features, what `as_supervised` takes) before the source has been seen."""
    heading = Labelled(label_kind=options.label_kind or "single")
    declared = Declared(
        channels=options.channels or 3, class_names=options.class_names, heading=heading
    )
    return declared_features(options, declared), supervised_keys(heading)


def declared_features(options: BuildOptions, declared: Declared) -> tfds.features.FeaturesDict:
    """Returns the features of a dataset, open where the source has not been seen yet."""
    heading = declared.heading
    encoding = declared.encoding or ("original" if options.encoding == "auto" else options.encoding)
    is_resized = encoding != "raw" and options.image_size is not None
    channels = declared.channels
    features: dict[str, Any] = {
        heading.image_key: Image(
            shape=(*(declared.size or options.image_size or (None, None)), channels),
            encoding=encoding,
            resize=options.resize if is_resized else None,
            background=background_values(options.background, channels) if is_resized else (),
        )
    }
    if heading.label_kind in _CLASS_FEATURES:
        features[heading.label_key] = _CLASS_FEATURES[heading.label_kind](
            names=declared.class_names,
            offset=heading.adopted.label_offset if heading.adopted else 0,
            is_text=bool(heading.adopted and heading.adopted.has_text_labels),
        )
    elif heading.label_kind == "value" and not heading.columns:
        features[heading.label_key] = tfds.features.Scalar(np.float32)  # its shape is not known yet
    for spec in heading.columns:
        if spec.name not in features:
            features[spec.name] = column_feature(spec)
    return tfds.features.FeaturesDict(features)


def column_feature(spec: ColumnSpec) -> tfds.features.FeatureConnector:
    """Returns the TFDS feature of a column."""
    if spec.dtype == "string":
        return tfds.features.Text()
    dtype = np.dtype(spec.dtype).type
    if spec.shape:
        return tfds.features.Tensor(shape=spec.shape, dtype=dtype)
    return tfds.features.Scalar(dtype)


def supervised_keys(heading: Heading | Labelled | BuildRecord) -> tuple[str, ...] | None:
    """Returns what `as_supervised` yields: (image, label), with weights where there are some.

    None where there are no labels.
    """
    if heading.label_kind == "none":
        return None
    has_weights = any(spec.name == WEIGHT_KEY for spec in heading.columns)
    return (heading.image_key, heading.label_key, *((WEIGHT_KEY,) if has_weights else ()))
