"""Datasets by name: `load` and `builder`.

Gets a name as TFDS writes it, gives datasets or the builder; always the fast path.
"""

import os
from typing import Any, Unpack

import tensorflow_datasets as tfds

from tfrds import tfds_compat
from tfrds.data_dirs import find_dataset, not_found, remember_data_dir
from tfrds.errors import ConfigError
from tfrds.image_builder import ImageDatasetBuilder
from tfrds.no_code import open_directory
from tfrds.read_options import ReadKeywords, accepts_read_options


@accepts_read_options
def load(
    name: str,
    *,
    split: Any = None,
    data_dir: os.PathLike[str] | str | None = None,
    batch_size: int | None = None,
    shuffle_files: bool = False,
    download: bool = True,
    as_supervised: bool = False,
    decoders: Any = None,
    read_config: tfds.ReadConfig | None = None,
    with_info: bool = False,
    builder_kwargs: dict[str, Any] | None = None,
    download_and_prepare_kwargs: dict[str, Any] | None = None,
    as_dataset_kwargs: dict[str, Any] | None = None,
    try_gcs: bool = False,
    file_format: Any = None,
    **read_options: Unpack[ReadKeywords],
) -> Any:
    """Returns GPU-ready batches of a dataset by name, always on the fast path.

    Args:
      name: "name", "name:1.0.0", "name/config:1.*.*": as for `tfds.load`.
      split: this and all others down to `file_format` as for `tfds.load`.
      data_dir: root of all datasets.
      batch_size: examples a batch; -1: the whole split as tensors.
      shuffle_files: a new permutation of the whole split each epoch.
      download: prepare the dataset where it is not prepared.
      as_supervised: (image, label) instead of a dict.
      decoders: served by TFDS's own reader.
      read_config: see `ImageDatasetBuilder.as_dataset`.
      with_info: return a pair of the dataset and its `tfds.core.DatasetInfo`.
      builder_kwargs: for a registered class.
      download_and_prepare_kwargs: for a registered class.
      as_dataset_kwargs: win over the arguments here.
      try_gcs: only False: tfrds reads from data directories.
      file_format: only TFRecord.
      **read_options: the fields of `tfrds.ReadOptions`.

    Returns:
      What `ImageDatasetBuilder.as_dataset` returns; with `with_info` a pair of it and the
      `tfds.core.DatasetInfo`.

    Raises:
      DatasetError: no such dataset; the message says where it was looked for and what is near.
      ConfigError: an argument is wrong or cannot be honoured.
    """
    if try_gcs:
        raise ConfigError("try_gcs: tfrds reads from data directories only, got True.")
    if file_format is not None:
        builder_kwargs = {**(builder_kwargs or {}), "file_format": file_format}
    dataset_builder = builder(name, data_dir=data_dir, **(builder_kwargs or {}))
    if download:
        dataset_builder.download_and_prepare(**(download_and_prepare_kwargs or {}))
    arguments = {
        "split": split,
        "batch_size": batch_size,
        "shuffle_files": shuffle_files,
        "decoders": decoders,
        "read_config": read_config,
        "as_supervised": as_supervised,
        **read_options,
    }
    dataset = dataset_builder.as_dataset(**{**arguments, **(as_dataset_kwargs or {})})
    return (dataset, dataset_builder.info) if with_info else dataset


@accepts_read_options
def data_source(
    name: str,
    *,
    split: Any = None,
    data_dir: os.PathLike[str] | str | None = None,
    **read_options: Unpack[ReadKeywords],
) -> Any:
    """Returns random access to a dataset by name, for PyTorch, JAX and Grain.

    ```python
    train = tfrds.data_source("flowers", split="train", image_size=224)
    loader = torch.utils.data.DataLoader(train, batch_size=32, shuffle=True, num_workers=4)
    ```

    Args:
      name: "name", "name:1.0.0", "name/config:1.*.*": as for `tfds.load`.
      split: any split expression of TFDS, or a nested structure of them; None: a dict of all.
      data_dir: root of all datasets.
      **read_options: see `ImageDatasetBuilder.as_data_source`.

    Raises:
      DatasetError: no such dataset, or a damaged one.
      ConfigError: an argument is wrong or cannot be honoured.
    """
    return builder(name, data_dir=data_dir).as_data_source(split, **read_options)


def builder(
    name: str, *, data_dir: os.PathLike[str] | str | None = None, **builder_kwargs: Any
) -> ImageDatasetBuilder:
    """Returns the builder of a dataset by name: the registered class, or what lies on disk.

    Args:
      name: "name", "name:1.0.0", "name/config:1.*.*": as for `tfds.builder`.
      data_dir: root of all datasets; None: TFDS's own, those added to it, and those this process
        used.
      **builder_kwargs: for a registered class.

    Raises:
      DatasetError: no such dataset; the message says where it was looked for and what is near.
      ConfigError: a registered class of that name is not one of tfrds.
    """
    parsed, kwargs = tfds_compat.parse_name(name, **builder_kwargs)
    cls = tfds_compat.registered_class(parsed)
    if cls is not None:
        if not issubclass(cls, ImageDatasetBuilder):
            raise ConfigError(
                f"name: {parsed!r} is registered by {cls.__module__}, not a dataset of tfrds."
            )
        return cls(data_dir=data_dir, **{"fast": True, **kwargs})
    kwargs.pop("fast", None)
    tfds_compat.check_file_format(kwargs.pop("file_format", None))
    config, version = kwargs.pop("config", None), kwargs.pop("version", None)
    if kwargs:
        raise ConfigError(
            f"{next(iter(kwargs))}: {parsed!r} has no builder class that could take it."
        )
    directory = find_dataset(
        parsed,
        config=getattr(config, "name", config),
        version=None if version is None else str(version),
        data_dir=data_dir,
    )
    if directory is None:
        raise not_found(parsed, version, data_dir)
    if data_dir:
        remember_data_dir(data_dir)
    return open_directory(directory)
