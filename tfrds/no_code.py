"""Datasets without a class of their own: `build` makes them, and what lies on disk is opened.

`by_name.py`, the provider and the command line call it.
"""

import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import tensorflow_datasets as tfds

from tfrds import tfds_compat
from tfrds.checks import check_choice, check_dataset_name, check_int, check_version
from tfrds.data_dirs import default_data_dir
from tfrds.disk.build_record import read_build_record
from tfrds.disk.layout import find_configs, find_versions, is_dataset
from tfrds.errors import DatasetError
from tfrds.image_builder import ImageDatasetBuilder
from tfrds.prepare import prepare
from tfrds.rebuild import FINGERPRINTS, check_unchanged
from tfrds.spec import MAX_PIXELS, BuildOptions
from tfrds.write.plan import make_plan
from tfrds.write.run import Execution
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
    check: Literal["decode", "header", "none"] = "decode",
    exif_transpose: bool = True,
    max_pixels: int = MAX_PIXELS,
    splits: int | Mapping[str, float] | Mapping[str, Iterable[str]] | None = None,
    split_by: Literal["class", "hash"] = "class",
    group: str | Callable[[str], str] | None = None,
    class_names: Sequence[str] | os.PathLike[str] | str | None = None,
    label_kind: Literal["single", "binary", "multi", "value", "none"] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    max_bad: float = 0.01,
    on_duplicate: Literal["keep", "drop", "raise"] = "keep",
    quarantine: os.PathLike[str] | str | None = None,
    overwrite: bool = False,
    fingerprint: Literal["stat", "content"] = "stat",
    num_workers: int | None = None,
    num_shards: int | None = None,
    executor: Any = None,
) -> ImageDatasetBuilder:
    """Builds a dataset without a class, and returns its builder.

    One that exists already is returned as it is if the same inputs and options made it; a build
    that was interrupted goes on where it stood.

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
      check: "decode" all of each image, look at its "header" and end mark, or "none".
      exif_transpose: whether images are turned upright as their EXIF says.
      max_pixels: height times width of the largest image that is accepted.
      splits: fractions by split name, a number of folds, or lists of keys by split name.
      split_by: "class" or "hash".
      group: a regular expression that finds the group's name in a key, or a function of the key.
      class_names: in the order of their numbers, or the path of a file with one a line.
      label_kind: "single", "binary", "multi", "value" or "none"; None: as the source has them.
      on_error: "raise" or "skip" images that cannot be stored.
      max_bad: share of all images that may be skipped, 0..1.
      on_duplicate: "keep", "drop" or "raise" for images that hold the same bytes.
      quarantine: folder to which images are copied that cannot be stored; None: nowhere.
      overwrite: replace a dataset of that name and version, once the new one is complete.
      fingerprint: how a finished dataset of that name and version is compared with the inputs:
        "stat", by the files' sizes and times of change, or "content", by encoding every image.
      num_workers: processes; None: by the processors this process may use. The bytes do not depend
        on it.
      num_shards: of each split.
      executor: runs the shards elsewhere than in processes of this machine: a
        `dask.distributed.Client`, or any `tfrds.write.executors.Executor`.

    Raises:
      ConfigError, SourceError, EncodeError: an argument or an input cannot be used.
      DatasetError: the dataset exists and was built from something else, the place cannot be
        written, or worker processes died.
    """
    options = BuildOptions(
        image_size=image_size,
        resize=resize,
        channels=channels,
        background=background,
        encoding=encoding,
        store_size=store_size,
        jpeg_quality=jpeg_quality,
        check=check,
        exif_transpose=exif_transpose,
        max_pixels=max_pixels,
        splits=splits,
        split_by=split_by,
        group=group,
        class_names=class_names,
        label_kind=label_kind,
        on_error=on_error,
        max_bad=max_bad,
        on_duplicate=on_duplicate,
        num_shards=num_shards,
    )
    check_choice("fingerprint", fingerprint, FINGERPRINTS)
    if num_workers is not None:
        check_int("num_workers", num_workers, 1)
    execution = Execution(
        num_workers=num_workers,
        executor=executor,
        quarantine=pathlib.Path(quarantine).expanduser() if quarantine else None,
    )
    builder, _ = build_dataset(
        name,
        source,
        options,
        data_dir=data_dir,
        version=version,
        overwrite=overwrite,
        fingerprint=fingerprint,
        execution=execution,
    )
    return builder


def build_dataset(
    name: str,
    source: Any,
    options: BuildOptions,
    *,
    data_dir: os.PathLike[str] | str | None,
    version: str,
    overwrite: bool,
    fingerprint: Literal["stat", "content"],
    execution: Execution,
    limit: int | None = None,
) -> tuple[ImageDatasetBuilder, bool]:
    """Does what `build` says; the command line calls it with `limit` too.

    Returns:
      The builder, and whether the dataset was built: False where the one that was there is reused.
    """
    check_dataset_name(name)
    check_version(version)
    root = pathlib.Path(os.path.abspath(os.path.expanduser(data_dir or default_data_dir())))
    target = root / name / version
    plan = make_plan(as_source(source), options, limit=limit)
    cls = class_of(name, version, root)
    cls.is_replaced = overwrite
    builder = cls(data_dir=root)
    was_there = is_dataset(target) and not overwrite
    if was_there or not prepare(builder, plan, overwrite=overwrite, execution=execution):
        # It was there before, or another process has built it meanwhile.
        check_unchanged(read_build_record(target), plan, fingerprint, execution)
        return builder, False
    return builder, True


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
