"""From a source to a finished dataset with TFDS's own metadata, in one rename.

Gets a builder, a source and options; `image_builder.py` calls it for a class, `no_code.py` for
`tfrds.build`. The bytes are made in `write/`.
"""

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow_datasets as tfds

from tfrds import tfds_compat
from tfrds.data_dirs import remember_data_dir
from tfrds.disk.build_record import BuildRecord
from tfrds.disk.commit import building
from tfrds.errors import DatasetError
from tfrds.features import Image, Label
from tfrds.spec import BuildOptions, background_values
from tfrds.write.dataset import IMAGE_KEY, LABEL_KEY, Progress, WrittenDataset, write_dataset
from tfrds.write.plan import Plan, make_plan
from tfrds.write.sources.base import Source


def prepare(
    builder: tfds.core.DatasetBuilder,
    source: Source,
    options: BuildOptions,
    *,
    overwrite: bool,
    num_workers: int | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    download_size: Callable[[], Any] = lambda: 0,
) -> bool:
    """Plans, writes and commits a dataset; afterwards `builder` reads it.

    Args:
      builder: says name, version, place and description.
      source: of labelled images.
      options: what is written.
      overwrite: replace a finished dataset in that place, once the new one is complete.
      num_workers: processes; None: by the processors.
      limit: examples of each split at most; None: all.
      progress: called with (examples done, all examples).
      download_size: asked for at the end, when all has been downloaded.

    Returns:
      False where another process finished the dataset meanwhile: it is used as it is.
    """
    target = pathlib.Path(builder.data_dir)
    plan = make_plan(source, options, limit=limit)
    with building(target, overwrite=overwrite) as directory:
        if directory is not None:
            written = write_dataset(
                plan,
                directory,
                name=builder.name,
                version=str(builder.version),
                num_workers=num_workers,
                progress=progress,
            )
            _write_metadata(builder, plan, written, directory, download_size())
    tfds_compat.read_info(builder, target)
    remember_data_dir(builder.data_dir_root)
    return directory is not None


def _write_metadata(
    builder: tfds.core.DatasetBuilder,
    plan: Plan,
    written: WrittenDataset,
    directory: pathlib.Path,
    download_size: Any,
) -> None:
    """Adds TFDS's own files: features, class names, splits, licence."""
    # A new one: where a dataset is overwritten, builder.info holds what was read from the old one.
    info = builder._info()
    height, width, channels = written.image_shape
    features = declared_features(
        plan.options, channels, (height, width), plan.class_names, plan.image.encoding
    )
    tfds_compat.set_features(info, features)
    info.download_size = download_size
    info.set_splits(
        tfds_compat.split_infos(
            builder.name,
            os.fspath(directory),
            {
                name: (split.shard_lengths, split.num_bytes)
                for name, split in written.splits.items()
            },
        )
    )
    info.write_to_directory(directory)


def declared_features(
    options: BuildOptions,
    channels: int,
    size: tuple[int | None, int | None] | None,
    class_names: Sequence[str] | None,
    encoding: str | None = None,
) -> tfds.features.FeaturesDict:
    """Returns the features of a dataset, open where the source has not been seen yet.

    Args:
      options: of the build.
      channels: of the images.
      size: (height, width) of the images as read; None: by the options.
      class_names: None where they are not known yet.
      encoding: as resolved; None: by the options.
    """
    encoding = encoding or ("original" if options.encoding == "auto" else options.encoding)
    is_resized = encoding != "raw" and options.image_size is not None
    return tfds.features.FeaturesDict(
        {
            IMAGE_KEY: Image(
                shape=(*(size or options.image_size or (None, None)), channels),
                encoding=encoding,
                resize=options.resize if is_resized else None,
                background=background_values(options.background, channels) if is_resized else (),
            ),
            LABEL_KEY: Label(names=class_names),
        }
    )


def check_same_options(record: BuildRecord, options: BuildOptions, class_name: str) -> None:
    """Raises DatasetError where a dataset was built with other options than its class has now.

    Args:
      record: of the build.
      options: of the class.
      class_name: for the message.
    """
    built, ours = record.content["options"], options.to_dict()
    # The number of shards changes no example, and download_config may have decided it.
    different = sorted(
        name for name in ours if name != "num_shards" and ours[name] != built.get(name, ours[name])
    )
    if different:
        name = different[0]
        raise DatasetError(
            f"{record.directory}: built with {name}={built[name]!r}, OPTIONS of {class_name} say "
            f"{name}={ours[name]!r}. Raise VERSION, or build with the download mode "
            "REUSE_CACHE_IF_EXISTS to overwrite it."
        )
