"""From a source to a finished dataset with TFDS's own metadata, in one rename.

Gets a builder, a source and options; `image_builder.py` calls it for a class, `no_code.py` for
`tfrds.build`. The bytes are made in `write/`.
"""

import dataclasses
import logging
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow_datasets as tfds

from tfrds import tfds_compat
from tfrds.data_dirs import remember_data_dir
from tfrds.declared import Declared, declared_features, supervised_keys
from tfrds.disk.build_record import BuildRecord, read_build_record
from tfrds.disk.commit import BuildDirectory, building
from tfrds.disk.layout import is_dataset
from tfrds.errors import DatasetError
from tfrds.spec import BuildOptions
from tfrds.write.assemble import WrittenDataset
from tfrds.write.dataset import write_dataset
from tfrds.write.fingerprint import option_differences, planned_inputs, save_inputs
from tfrds.write.plan import Plan
from tfrds.write.run import Execution

_log = logging.getLogger("tfrds")


def prepare(
    builder: tfds.core.DatasetBuilder,
    plan: Plan,
    *,
    overwrite: bool,
    execution: Execution,
    download_size: Callable[[], Any] = lambda: 0,
) -> bool:
    """Writes and commits a dataset; afterwards `builder` reads it.

    Args:
      builder: says name, version, place and description.
      plan: what is written.
      overwrite: replace a finished dataset in that place, once the new one is complete.
      execution: how the build runs.
      download_size: asked for at the end, when all has been downloaded.

    Returns:
      False where another process finished the dataset meanwhile: it is used as it is.
    """

    def write(build: BuildDirectory) -> Content:
        written = write_dataset(
            plan,
            build.files,
            build.journal,
            name=builder.name,
            version=str(builder.version),
            target=pathlib.Path(builder.data_dir),
            execution=execution,
        )
        # Before the rename: who waits for the lock will compare with it. Without working locks the
        # dataset of a faster builder may stand there already, with a note of its own.
        target = pathlib.Path(builder.data_dir)
        if overwrite or not is_dataset(target):
            note_inputs(target, read_build_record(build.files).digest, plan)
        return Content(plan.options, plan.image.encoding, plan.class_names, written)

    return commit(builder, write, overwrite=overwrite, download_size=download_size)


@dataclasses.dataclass(frozen=True)
class Content:
    """What TFDS's own metadata says of a dataset that was written.

    Attributes:
      options: of the build.
      encoding: of the images, as resolved.
      class_names: in the order of their numbers.
      written: shape and splits.
    """

    options: BuildOptions
    encoding: str
    class_names: Sequence[str]
    written: WrittenDataset


def commit(
    builder: tfds.core.DatasetBuilder,
    write: Callable[[BuildDirectory], Content],
    *,
    overwrite: bool,
    download_size: Callable[[], Any] = lambda: 0,
) -> bool:
    """Lets a dataset be written, and renames it to its place; afterwards `builder` reads it.

    Args:
      builder: says name, version, place and description.
      write: fills a directory with all but TFDS's own metadata.
      overwrite: replace a finished dataset in that place, once the new one is complete.
      download_size: asked for at the end, when all has been downloaded.

    Returns:
      False where another process finished the dataset meanwhile: it is used as it is.
    """
    target = pathlib.Path(builder.data_dir)
    with building(target, overwrite=overwrite) as build:
        if build is not None:
            _write_metadata(builder, write(build), build.files, download_size())
    tfds_compat.read_info(builder, target)
    remember_data_dir(builder.data_dir_root)
    return build is not None and build.is_committed


def note_inputs(target: pathlib.Path, digest: str, plan: Plan) -> None:
    """Notes beside a dataset of this digest what it is built from: then the next build knows it."""
    try:
        save_inputs(target, digest, planned_inputs(plan))
    except OSError as error:
        # The dataset is complete: a disk that is full by now makes the next build ask, no more.
        _log.warning("%s: its inputs could not be noted: %s.", target, error.strerror)


def _write_metadata(
    builder: tfds.core.DatasetBuilder,
    content: Content,
    directory: pathlib.Path,
    download_size: Any,
) -> None:
    """Adds TFDS's own files: features, class names, splits, licence."""
    # A new one: where a dataset is overwritten, builder.info holds what was read from the old one.
    info = builder._info()
    height, width, channels = content.written.image_shape
    features = declared_features(
        content.options,
        Declared(
            channels=channels,
            size=(height, width),
            class_names=content.class_names,
            encoding=content.encoding,
            heading=content.written.heading,
        ),
    )
    tfds_compat.set_features(info, features)
    heading = content.written.heading
    keys = supervised_keys(heading)
    tfds_compat.set_supervised_keys(info, keys)
    info.download_size = download_size
    info.set_splits(
        tfds_compat.split_infos(
            builder.name,
            os.fspath(directory),
            {
                name: (split.shard_lengths, split.num_bytes)
                for name, split in content.written.splits.items()
            },
            is_only_by_index=bool(heading.adopted and heading.adopted.is_split_by_index),
        )
    )
    info.write_to_directory(directory)


def check_same_options(record: BuildRecord, options: BuildOptions, class_name: str) -> None:
    """Raises DatasetError where a dataset was built with other options than its class has now.

    Args:
      record: of the build.
      options: of the class.
      class_name: for the message.
    """
    # The number of shards changes no example, and download_config may have decided it.
    ours = {name: value for name, value in options.to_dict().items() if name != "num_shards"}
    if different := option_differences(record, ours):
        then, now = (
            ", ".join(f"{name}={values[at]!r}" for name, *values in different) for at in (0, 1)
        )
        raise DatasetError(
            f"{record.directory}: built with {then}, OPTIONS of {class_name} say {now}. Raise "
            "VERSION, or build with the download mode REUSE_CACHE_IF_EXISTS to overwrite it."
        )
