"""Files that others wrote as a dataset by name: `from_tfrecords` uses them where they lie.

Nothing is rewritten: the dataset holds links to them, a record index, and TFDS's metadata.
"""

import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from tfrds.checks import check_dataset_name, check_version
from tfrds.class_names import parse_class_names
from tfrds.data_dirs import default_data_dir
from tfrds.disk.commit import BuildDirectory
from tfrds.disk.layout import is_dataset
from tfrds.errors import DatasetError
from tfrds.image_builder import ImageDatasetBuilder
from tfrds.no_code import class_of
from tfrds.prepare import Content, commit
from tfrds.spec import BuildOptions
from tfrds.write.adopt import scan, write_adopted
from tfrds.write.sources.record_arguments import RecordArguments


def from_tfrecords(
    files: Any,
    name: str,
    *,
    data_dir: os.PathLike[str] | str | None = None,
    version: str = "1.0.0",
    image_key: str | None = None,
    label_key: str | None = None,
    image_size: Any = None,
    channels: int | None = None,
    label_offset: int | None = None,
    class_names: Sequence[str] | os.PathLike[str] | str | None = None,
    label_kind: Literal["single", "binary", "none"] | None = None,
    splits: Mapping[str, float] | Mapping[str, str | Sequence[str]] | int | None = None,
    split_by: Literal["class", "hash"] = "class",
    resize: Literal["stretch", "crop", "pad"] = "stretch",
    hashes: bool = False,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ImageDatasetBuilder:
    """Makes a dataset of TFRecord files that others wrote, and returns its builder.

    The files are looked through once, headers only, and stay where and as they are: the dataset
    holds links to them. Who changes one makes the dataset refuse to open.

    ```python
    tfrds.from_tfrecords(["/data/train1.tfrecord", "/data/train2.tfrecord"], "flowers")
    ```

    Args:
      files: a path, a pattern such as "data/*.tfrecord", a list of these, or a dict of them by
        split. Plain TFRecord of `tf.train.Example`s: no GZIP.
      name: lower case letters, digits and underscores; `tfds.load(name)` finds it.
      data_dir: root of all datasets; None: TFDS's own.
      version: "major.minor.patch".
      image_key: of the feature that holds uint8 pixels as bytes, or a JPEG or PNG file. None: found
        by looking. It is the feature's name when the dataset is read, too.
      label_key: of the feature that holds one class, its number as int64 or its name. None: found.
      image_size: (height, width) in pixels: of raw pixels what they have (None: by features of the
        records, or a square), of files what they are resized to while reading.
      channels: of raw pixels. None: found.
      label_offset: is added to class numbers; -1 where they count from 1.
      class_names: in the order of their numbers, or the path of a file with one a line. None:
        numbers up to the highest, or the names that the records hold, sorted.
      label_kind: "single", "binary" or "none". None: found.
      splits: patterns of file names by split, such as {"train": "train*", "test": "test*"}; or, as
        in `tfrds.build`, fractions or a number of folds, drawn among all records: then only tfrds
        reads the dataset, and TFDS's own reader finds no files. None: all are "train".
      split_by: "class" or "hash", as in `tfrds.build`.
      resize: how `image_size` of files is reached.
      hashes: also read every file and note its sha256, for `tfrds verify`.
      overwrite: replace a dataset of that name and version, once the new one is complete.
      progress: called with (files done, all files) as they are looked through.

    Raises:
      ConfigError: an argument is wrong, or what the records hold cannot be told.
      SourceError: a file is damaged, or cannot be used where it lies: build from
        `tfrds.sources.TFRecords` then.
      DatasetError: the dataset exists, or the place cannot be written.
    """
    check_dataset_name(name)
    check_version(version)
    root = pathlib.Path(os.path.abspath(os.path.expanduser(data_dir or default_data_dir())))
    if is_dataset(root / name / version) and not overwrite:
        raise DatasetError(
            f"{root / name / version}: this version exists. Choose another version, or pass "
            "overwrite=True to replace it."
        )
    if isinstance(splits, Mapping):
        splits = {
            split: [given] if isinstance(given, str) else given for split, given in splits.items()
        }  # type: ignore[assignment]
    options = BuildOptions(
        image_size=image_size, resize=resize, splits=splits, split_by=split_by, check="header"
    )
    given = RecordArguments(
        image_key=image_key,
        label_key=label_key,
        image_size=image_size,
        channels=channels,
        label_offset=label_offset,
        class_names=parse_class_names(class_names),
        label_kind=label_kind,
    )
    adoption = scan(files, given, options, progress)
    cls = class_of(name, version, root)
    cls.is_replaced = overwrite
    builder = cls(data_dir=root)

    def write(build: BuildDirectory) -> Content:
        build.journal.keep_only([], build.files)  # what an interrupted build has left there
        written = write_adopted(adoption, build.files, name=name, version=version, hashes=hashes)
        return Content(adoption.options, written.heading.encoding, adoption.class_names, written)

    if not commit(builder, write, overwrite=overwrite):
        raise DatasetError(
            f"{builder.data_dir}: another process has made this version meanwhile. Choose another "
            "version."
        )
    return builder
