"""Several datasets as one, in fixed proportions: `mix`.

Gets names with weights, gives one dataset; which example comes from which is drawn by index, before
anything is decoded.
"""

import os
from collections.abc import Mapping
from typing import Any, Unpack

import tensorflow_datasets as tfds

from tfrds import tfds_compat
from tfrds.by_name import builder
from tfrds.checks import check_int, is_number
from tfrds.errors import ConfigError
from tfrds.read_options import ReadKeywords, accepts_read_options, parse_read_options


@accepts_read_options
def mix(
    weights: Any,
    *,
    split: Any = "train",
    data_dir: os.PathLike[str] | str | None = None,
    batch_size: int | None = None,
    as_supervised: bool = False,
    read_config: tfds.ReadConfig | None = None,
    num_examples: int | None = None,
    **read_options: Unpack[ReadKeywords],
) -> Any:
    """Returns one dataset that takes its examples from several, always shuffled.

    ```python
    train = tfrds.mix({"flowers": 0.7, "herbarium": 0.3}, batch_size=256, as_supervised=True)
    ```

    Each epoch has the same number of examples of each dataset, by weight, all of them mixed; those
    of each are seen equally often in the course of epochs. Cardinality is known; `seed`, `start`,
    `worker` and `augment` mean what they do for one dataset.

    Args:
      weights: a mapping, of each dataset by its name, as for `tfrds.load`; above 0, of any sum.
      split: one split expression, for each dataset.
      data_dir: root of all datasets.
      batch_size: examples a batch; None: single examples; -1: all as tensors.
      as_supervised: (image, label) instead of a dict.
      read_config: see `ImageDatasetBuilder.as_dataset`.
      num_examples: of an epoch. None: as many as the datasets have together.
      **read_options: the fields of `tfrds.ReadOptions`, but for `select`, `balance` and a
        `sample_weight` by example.

    Raises:
      ConfigError: the datasets differ in classes, shape or encoding, or an option cannot be
        honoured.
      DatasetError: a dataset is missing or damaged.
    """
    if not isinstance(weights, Mapping) or not weights:
        raise ConfigError(
            f'mix: expected weights by name such as {{"a": 0.7, "b": 0.3}}, got {weights!r}.'
        )
    for name, weight in weights.items():
        if not is_number(weight) or weight <= 0:
            raise ConfigError(f"mix: expected a weight above 0 for {name!r}, got {weight!r}.")
    if num_examples is not None:
        check_int("num_examples", num_examples, len(weights))
    options = parse_read_options(read_options)
    read_config = read_config or tfds.ReadConfig()
    reason = tfds_compat.reason_for_tfds_reader(None, read_config)
    if reason:
        raise ConfigError(f"{reason}: only TFDS's own reader serves it, which mixes nothing.")
    builders = {name: builder(name, data_dir=data_dir) for name in weights}
    parts = [
        (one._checked_record(), tfds_compat.row_ranges(one.info, split))
        for one in builders.values()
    ]
    first = next(iter(builders.values()))
    names = {name: tfds_compat.class_names(one.info) for name, one in builders.items()}
    first_name, first_classes = next(iter(names.items()))
    for name, class_names in names.items():
        if class_names != first_classes:
            raise ConfigError(
                f"mix: {name!r} has the classes {class_names[:5]}, {first_name!r} has "
                f"{first_classes[:5]}. Build them with the same class_names."
            )
    from tfrds.read.mixture import read_mixture

    request = first._request(batch_size, True, read_config, as_supervised, options)
    return read_mixture(parts, list(map(float, weights.values())), num_examples, request)
