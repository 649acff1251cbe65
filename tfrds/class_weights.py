"""Weights that make the classes of a dataset count alike, for Keras.

Gets a prepared builder, gives `class_weight` as `fit` takes it; only the index is read.
"""

import pathlib
from typing import Any

import numpy as np

from tfrds import tfds_compat
from tfrds.disk.build_record import read_build_record
from tfrds.errors import ConfigError
from tfrds.read.fetch import SplitReader
from tfrds.spec import CLASS_KINDS


def class_weight(builder: Any, split: Any = "train") -> dict[int, float]:
    """Returns the weight of each class that occurs: examples / (classes * examples of the class).

    ```python
    model.fit(train, class_weight=tfrds.class_weight(tfrds.builder("flowers")))
    ```

    The sum of all examples' weights is their number, so the loss keeps its scale. Where the loss is
    to be weighted by the dataset itself, pass it as the read option `sample_weight`.

    Args:
      builder: of a prepared dataset.
      split: any one split expression of TFDS.

    Returns:
      Weights by class number.

    Raises:
      DatasetError: not prepared, or damaged.
      ConfigError: TFDS refuses the split, or labels are no single classes.

    Source: the "balanced" heuristic of scikit-learn's compute_class_weight.
    """
    record = read_build_record(pathlib.Path(builder.data_dir))
    if record.label_kind not in CLASS_KINDS:
        raise ConfigError(
            f"class_weight: examples of {record.name} have no single class: its labels are of the "
            f"kind {record.label_kind!r}."
        )
    stretches = tfds_compat.row_ranges(builder.info, split)
    reader = SplitReader(record, list(dict.fromkeys(name for name, _, _ in stretches)))
    labels = np.concatenate(
        [
            reader.class_numbers(np.arange(first, first + count) + reader.first_row(name))
            for name, first, count in stretches
        ]
    )
    classes, counts = np.unique(labels, return_counts=True)
    weights = len(labels) / (len(classes) * counts)
    return dict(zip(classes.tolist(), weights.tolist(), strict=True))
