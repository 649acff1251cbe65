"""New versions out of old ones: `append` adds images, `edit` removes and relabels them.

Shards that stay as they are become hard links, so that a version costs what is new in it. The old
version is not touched.
"""

import dataclasses
import os
import pathlib
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_int, check_version
from tfrds.disk.build_record import BuildRecord, read_build_record
from tfrds.disk.commit import BuildDirectory
from tfrds.disk.keys import Keys, join_keys
from tfrds.disk.layout import find_versions, is_dataset, parse_version
from tfrds.errors import ConfigError, DatasetError, SourceError
from tfrds.image_builder import ImageDatasetBuilder
from tfrds.no_code import class_of, open_directory
from tfrds.prepare import Content, commit
from tfrds.spec import BuildOptions
from tfrds.tools.dataset_name import find_directory
from tfrds.write.base_version import Base, open_base
from tfrds.write.dataset import write_dataset
from tfrds.write.edit import write_edited
from tfrds.write.groups import check_whole, name_groups
from tfrds.write.plan import Plan, make_plan
from tfrds.write.run import Execution
from tfrds.write.sources.base import (
    Inputs,
    References,
    Source,
    clean_class_name,
    with_label_kind,
)
from tfrds.write.sources.by_split import as_source

# Options of a build that decide about each image alone: an addition is built with the same.
_OF_IMAGES = (
    "image_size",
    "resize",
    "background",
    "store_size",
    "jpeg_quality",
    "check",
    "exif_transpose",
    "max_pixels",
)


def append(
    name: str,
    source: Any,
    *,
    data_dir: os.PathLike[str] | str | None = None,
    version: str | None = None,
    key_prefix: str = "",
    splits: Any = None,
    split_by: Literal["class", "hash"] | None = None,
    group: str | Callable[[str], str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    max_bad: float = 0.01,
    on_duplicate: Literal["keep", "drop", "raise"] = "keep",
    quarantine: os.PathLike[str] | str | None = None,
    num_workers: int | None = None,
    num_shards: int | None = None,
    executor: Any = None,
) -> ImageDatasetBuilder:
    """Makes a new version of a dataset that holds more images, and returns its builder.

    Old examples keep their keys, splits and class numbers; new classes get the numbers behind them.

    Args:
      name: of the dataset, `name` or `name:1.0.0`; without a version the highest one.
      source: of the new images, as in `tfrds.build`.
      data_dir: root of all datasets; None: TFDS's own.
      version: of the new one; None: the next minor version.
      key_prefix: before the keys of the new images, such as "2024/", where they would be equal to
        old ones.
      splits: of the new images, as in `tfrds.build`. None: the source's own, or drawn as the
        dataset's were.
      split_by: as in `tfrds.build`; None: as the dataset was built.
      group: as in `tfrds.build`; None: as the dataset was built.
      on_error: "raise" or "skip" new images that cannot be stored.
      max_bad: share of the new images that may be skipped, 0..1.
      on_duplicate: "keep", "drop" or "raise" for new images that hold the same bytes as another
        one; old ones always stay.
      quarantine: folder to which images are copied that cannot be stored; None: nowhere.
      num_workers: processes; None: by the processors this process may use.
      num_shards: of the new images, in each split.
      executor: runs the shards elsewhere, as in `tfrds.build`.

    Raises:
      ConfigError, SourceError, EncodeError: an argument or an input cannot be used.
      DatasetError: there is no such dataset, it is damaged, or the new version exists.
    """
    if num_workers is not None:
        check_int("num_workers", num_workers, 1)
    execution = Execution(
        num_workers=num_workers,
        executor=executor,
        quarantine=pathlib.Path(quarantine).expanduser() if quarantine else None,
    )
    return append_images(
        name,
        source,
        data_dir=data_dir,
        version=version,
        key_prefix=key_prefix,
        splits=splits,
        split_by=split_by,
        group=group,
        on_error=on_error,
        max_bad=max_bad,
        on_duplicate=on_duplicate,
        num_shards=num_shards,
        execution=execution,
    )


def append_images(
    name: str,
    source: Any,
    *,
    data_dir: os.PathLike[str] | str | None,
    version: str | None,
    key_prefix: str,
    splits: Any,
    on_error: Literal["raise", "skip"],
    max_bad: float,
    on_duplicate: Literal["keep", "drop", "raise"],
    execution: Execution,
    split_by: Literal["class", "hash"] | None = None,
    group: str | Callable[[str], str] | None = None,
    num_shards: int | None = None,
) -> ImageDatasetBuilder:
    """Does what `append` says; the command line calls it with an execution that shows progress."""
    old = open_directory(find_directory(name, data_dir))
    base = _open(old)
    kind: Any = base.record.label_kind
    scanned = _Scanned(with_label_kind(as_source(source), kind), key_prefix)
    content = base.record.content
    settings = _split_settings(base, scanned, splits, split_by, group)
    options = dataclasses.replace(
        _image_options(base.record),
        **settings,
        label_kind=kind,
        on_error=on_error,
        max_bad=max_bad,
        on_duplicate=on_duplicate,
        num_shards=num_shards,
    )
    plan = make_plan(scanned, options, known_classes=base.class_names)
    _check_columns(base, plan)
    if content["image"]["encoding"] == "raw":
        height, width, _ = base.record.image_shape
        if height is None or width is None:  # the record was checked: raw images have one shape
            raise DatasetError(f"{base.record.directory}: raw images without a shape.")
        shape_from = None if options.image_size else (height, width)
        plan = dataclasses.replace(
            plan, image=dataclasses.replace(plan.image, shape_from=shape_from)
        )

    if options.group is not None:
        _check_groups(base, plan, options.group)

    def write(build: BuildDirectory) -> Content:
        written = write_dataset(
            plan,
            build.files,
            build.journal,
            name=base.record.name,
            version=str(new.version),
            target=pathlib.Path(new.data_dir),
            execution=execution,
            base=base,
        )
        return Content(plan.options, plan.image.encoding, plan.class_names, written)

    new = _new_version(old, base, version)
    return _finished(new, commit(new, write, overwrite=False))


def edit(
    name: str,
    *,
    remove: Iterable[str] = (),
    relabel: Mapping[str, str] | None = None,
    data_dir: os.PathLike[str] | str | None = None,
    version: str | None = None,
) -> ImageDatasetBuilder:
    """Makes a new version of a dataset without some examples, or with other labels.

    Args:
      name: of the dataset, `name` or `name:1.0.0`; without a version the highest one.
      remove: keys of the examples that go.
      relabel: names of classes by the keys of the examples that get them; unknown ones become new
        classes behind the old ones.
      data_dir: root of all datasets; None: TFDS's own.
      version: of the new one; None: the next minor version.

    Raises:
      ConfigError: nothing to do, or a key to remove and to relabel.
      SourceError: a key is not in the dataset, or a split would be empty.
      DatasetError: there is no such dataset, it is damaged, or the new version exists.
    """
    removed = {unicodedata.normalize("NFC", key) for key in remove}
    relabelled = {
        unicodedata.normalize("NFC", key): clean_class_name(label, "relabel")
        for key, label in (relabel or {}).items()
    }
    if not removed and not relabelled:
        raise ConfigError("edit: expected keys to remove or to relabel, got none.")
    if both := sorted(removed & set(relabelled)):
        raise ConfigError(f"edit: {both[0]!r} is to be removed and relabelled. Choose one.")
    old = open_directory(find_directory(name, data_dir))
    base = _open(old)

    def write(build: BuildDirectory) -> Content:
        build.journal.keep_only([], build.files)  # what an interrupted build has left there
        written, class_names = write_edited(
            base,
            build.files,
            version=str(new.version),
            removed=removed,
            relabelled=relabelled,
        )
        encoding = base.record.content["image"]["encoding"]
        return Content(_image_options(base.record), encoding, class_names, written)

    new = _new_version(old, base, version)
    return _finished(new, commit(new, write, overwrite=False))


def _check_columns(base: Base, plan: Plan) -> None:
    """Raises ConfigError unless new images have what the old ones have beside them."""
    old, new = (
        {spec.name: f"{spec.dtype}{list(spec.shape or ())}" for spec in specs}
        for specs in (base.record.columns, [column.spec for column in plan.stored_columns])
    )
    if old != new:
        raise ConfigError(
            f"append: {base.record.name} has the columns {old or 'none'}, the source gives "
            f"{new or 'none'}. Give the new images the same."
        )


class _Scanned:
    """A source that was looked at once already, with keys of its own.

    Args:
      source: of labelled images.
      key_prefix: before each key.
    """

    def __init__(self, source: Source, key_prefix: str) -> None:
        self._source = source
        self.kind = source.kind
        self.is_in_memory = source.is_in_memory
        prefix = unicodedata.normalize("NFC", key_prefix).encode()
        references = source.scan()
        keys = Keys.from_iterable(prefix + key for key in references.keys)
        self.references = dataclasses.replace(references, keys=keys)

    def scan(self) -> References:
        return self.references

    def inputs(self, rows: NDArray[np.int64]) -> Inputs:
        return self._source.inputs(rows)


def _open(old: ImageDatasetBuilder) -> Base:
    record = read_build_record(pathlib.Path(old.data_dir))
    names = old.info.features[record.label_key].names if record.num_classes else ()
    return open_base(record, tuple(names))


def _image_options(record: BuildRecord) -> BuildOptions:
    """Returns the options that decide about each image, as a dataset was built with them."""
    stored = record.content["options"]
    try:
        return BuildOptions(
            encoding=record.content["image"]["encoding"],
            channels=record.content["image"]["channels"],
            **{name: stored[name] for name in _OF_IMAGES if name in stored},
        )
    except (ConfigError, TypeError) as error:
        raise DatasetError(
            f"{record.directory}: its record holds an option that cannot be used: {error}"
        ) from error


def _split_settings(
    base: Base, scanned: _Scanned, splits: Any, split_by: Any, group: Any
) -> dict[str, Any]:
    """Returns how the new images are split: as asked for, by their source, or as the old ones."""
    stored = base.record.content["options"]
    if group is None and stored.get("group") is not None:
        if stored["group"] == "function":
            raise ConfigError(
                "group: the dataset was built with a function that names groups. Pass it again."
            )
        group = stored["group"]
    if splits is not None:
        return {"splits": splits, "split_by": split_by or "class", "group": group}
    if scanned.references.splits is not None:
        return {"group": group}
    drawn = stored.get("splits")
    is_drawn = isinstance(drawn, int) or (
        isinstance(drawn, dict) and all(isinstance(share, float) for share in drawn.values())
    )
    if is_drawn:
        return {
            "splits": drawn,
            "split_by": split_by or stored.get("split_by", "class"),
            "group": group,
        }
    if len(base.splits) == 1:
        return {"splits": {next(iter(base.splits)): 1.0}, "group": group}
    raise ConfigError(
        f"splits: the dataset has {sorted(base.splits)}, and which of them the new images belong "
        'to is not known. Pass a dict of sources such as {"train": source}, or splits=.'
    )


def _check_groups(base: Base, plan: Plan, group: str | Callable[[str], str]) -> None:
    """Raises SourceError where new images of an old group would lie in another split than it."""
    names = sorted({*base.splits, *plan.splits})
    keys, splits = [], []
    for number, name in enumerate(names):
        for part in (*(shard.keys for shard in base.splits.get(name, [])), _keys_of(plan, name)):
            keys.append(part)
            splits.append(np.full(len(part), number, np.int32))
    all_keys = join_keys(keys)
    groups = name_groups(all_keys, group)
    check_whole(groups, np.concatenate(splits), names, all_keys, SourceError)


def _keys_of(plan: Plan, split: str) -> Keys:
    part = plan.splits.get(split)
    return plan.keys.take(part.rows if part else np.zeros(0, np.int64))


def _new_version(old: ImageDatasetBuilder, base: Base, version: str | None) -> ImageDatasetBuilder:
    """Returns the builder of a version that does not exist yet, described as the old one."""
    folder = base.record.directory.parent
    if version is None:
        major, minor, _ = parse_version(find_versions(folder)[-1]) or (1, 0, 0)
        version = f"{major}.{minor + 1}.0"
    check_version(version)
    if is_dataset(folder / version):
        raise DatasetError(f"{folder / version}: this version exists. Choose another version.")
    root = pathlib.Path(old.data_dir_root)
    config = old.builder_config.name if old.builder_config else None
    cls = class_of(base.record.name, version, root, config)
    cls.DESCRIPTION = old.info.description or ""
    cls.CITATION = old.info.citation or ""
    cls.HOMEPAGE = old.info.homepage or ""
    cls.LICENSE = old.info.redistribution_info.license or ""
    return cls(data_dir=root, config=config, version=version)


def _finished(new: ImageDatasetBuilder, is_ours: bool) -> ImageDatasetBuilder:
    if not is_ours:
        raise DatasetError(
            f"{new.data_dir}: another process has made this version meanwhile. Choose another "
            "version."
        )
    return new
