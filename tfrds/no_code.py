"""Datasets without a class of their own: `build` makes them, and what lies on disk is opened.

`by_name.py`, the provider and the command line call it.
"""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import tensorflow_datasets as tfds

from tfrds import tfds_compat
from tfrds.checks import check_dataset_name, check_int, check_version
from tfrds.data_dirs import default_data_dir
from tfrds.disk.build_record import read_build_record
from tfrds.disk.layout import find_configs, find_versions, is_dataset
from tfrds.errors import DatasetError
from tfrds.image_builder import ImageDatasetBuilder
from tfrds.prepare import prepare
from tfrds.spec import BuildOptions
from tfrds.write.dataset import Progress
from tfrds.write.sources.by_split import as_source


def build(
    name: str,
    source: Any,
    *,
    data_dir: os.PathLike[str] | str | None = None,
    version: str = "1.0.0",
    image_size: Any = None,
    resize: Literal["stretch", "crop", "pad"] = "stretch",
    channels: int | None = None,
    background: tuple[int, int, int] = (255, 255, 255),
    encoding: Literal["auto", "raw", "jpeg", "original"] = "auto",
    store_size: int | None = None,
    jpeg_quality: int = 95,
    splits: Mapping[str, float] | None = None,
    class_names: Sequence[str] | None = None,
    overwrite: bool = False,
    num_workers: int | None = None,
    num_shards: int | None = None,
) -> ImageDatasetBuilder:
    """Builds a dataset without a class, and returns its builder.

    Args:
      name: lower case letters, digits and underscores; `tfds.load(name)` finds it.
      source: the path of a folder of class folders, a source of `tfrds.sources`, or a dict of them
        by split.
      data_dir: root of all datasets; None: TFDS's own.
      version: "major.minor.patch".
      image_size: (height, width) in pixels; this and those below as in `tfrds.BuildOptions`.
      resize: "stretch", "crop" or "pad".
      channels: of the stored images.
      background: (red, green, blue) under transparent pixels.
      encoding: "auto", "raw", "jpeg" or "original".
      store_size: pixels of the shorter side of a re-encoded JPEG.
      jpeg_quality: 1..100.
      splits: fractions by split name.
      class_names: in the order of their numbers.
      overwrite: replace a dataset of that name and version, once the new one is complete.
      num_workers: processes; None: by the processors this process may use. The bytes do not depend
        on it.
      num_shards: of each split.

    Raises:
      ConfigError, SourceError, EncodeError: an argument or an input cannot be used.
      DatasetError: the dataset exists, or the place cannot be written.
    """
    options = BuildOptions(
        image_size=image_size,
        resize=resize,
        channels=channels,
        background=background,
        encoding=encoding,
        store_size=store_size,
        jpeg_quality=jpeg_quality,
        splits=splits,
        class_names=class_names,
        num_shards=num_shards,
    )
    return build_dataset(
        name,
        source,
        options,
        data_dir=data_dir,
        version=version,
        overwrite=overwrite,
        num_workers=num_workers,
    )


def build_dataset(
    name: str,
    source: Any,
    options: BuildOptions,
    *,
    data_dir: os.PathLike[str] | str | None,
    version: str,
    overwrite: bool,
    num_workers: int | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> ImageDatasetBuilder:
    """Does what `build` says; the command line calls it with `limit` and `progress` too."""
    check_dataset_name(name)
    check_version(version)
    if num_workers is not None:
        check_int("num_workers", num_workers, 1)
    root = pathlib.Path(os.path.abspath(os.path.expanduser(data_dir or default_data_dir())))
    target = root / name / version
    if is_dataset(target) and not overwrite:
        raise DatasetError(
            f"{target}: this version exists. Choose another version, or pass overwrite=True to "
            "replace it."
        )
    builder = class_of(name, version, root)(data_dir=root)
    is_ours = prepare(
        builder,
        as_source(source),
        options,
        overwrite=overwrite,
        num_workers=num_workers,
        limit=limit,
        progress=progress,
    )
    if not is_ours:
        raise DatasetError(
            f"{target}: another process has built this version meanwhile, perhaps from another "
            "source. Load that one, or pass overwrite=True to replace it."
        )
    return builder


def open_directory(directory: pathlib.Path) -> ImageDatasetBuilder:
    """Returns the builder of the prepared dataset in `<data_dir>/<name>[/<config>]/<version>`."""
    record = read_build_record(directory)
    if directory.name != record.version or record.name not in (
        directory.parent.name,
        directory.parents[1].name,
    ):
        raise DatasetError(
            f"{directory}: holds version {record.version} of {record.name!r}. Folders are named "
            "after what they hold: rename it back."
        )
    config = directory.parent.name if directory.parent.name != record.name else None
    root = directory.parents[2] if config else directory.parents[1]
    return class_of(record.name, record.version, root, config)(data_dir=root, config=config)


def class_of_name(name: str, root: pathlib.Path) -> type[ImageDatasetBuilder]:
    """Returns a class for all versions and configurations of a dataset that lies in `root`."""
    directory = root / name
    configs = [] if find_versions(directory) else find_configs(directory)
    version = find_versions(directory / configs[0] if configs else directory)[-1]
    return class_of(name, version, root, *configs)


def class_of(
    name: str, version: str, root: pathlib.Path, *configs: str | None
) -> type[ImageDatasetBuilder]:
    """Returns a builder class for a dataset without code.

    Its instances pickle by what they open, not by class.
    """
    return type(
        name,
        (_NoCodeBuilder,),
        {
            "name": name,
            "VERSION": version,
            "BUILDER_CONFIGS": [tfds.core.BuilderConfig(name=name) for name in configs if name],
            "DEFAULT_BUILDER_CONFIG_NAME": tfds_compat.default_config(root / name, configs),
            "_HOME": os.fspath(root),
            "__module__": __name__,
            "__doc__": "",
        },
        skip_registration=True,
    )


class _NoCodeBuilder(ImageDatasetBuilder, skip_registration=True):  # type: ignore[call-arg]
    """A dataset that `build` made; its source is not known any more."""

    def _source(self, dl_manager: tfds.download.DownloadManager) -> Any:
        raise DatasetError(
            f"{self.data_dir}: no dataset of that name and version. Build it with tfrds.build."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        config = self.builder_config_name
        return _reopen, (self.name, str(self.version), os.fspath(self.data_dir_root), config)


def _reopen(name: str, version: str, root: str, config: str | None) -> ImageDatasetBuilder:
    home = pathlib.Path(root)
    return class_of(name, version, home, config)(data_dir=root, config=config, version=version)
