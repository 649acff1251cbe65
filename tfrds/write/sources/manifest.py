"""Images that a table lists: a row for each, with its labels and what else is known of it.

Gets CSV, TSV, JSON Lines, Parquet, or a table of pandas or pyarrow, gives references. `tables.py`
opens the table, `table_roles.py` says what its columns are, `table_labels.py` and its neighbours
read them; images are files that a column names (`table_paths.py`) or bytes in the table
(`parquet_images.py`, `memory_images.py`).
"""

import codecs
import copy
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_choice, is_list_of_names
from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError, SourceError
from tfrds.spec import LABEL_KINDS
from tfrds.write.sources.base import Inputs, References, SourceLabelKind
from tfrds.write.sources.memory_images import MemoryImages
from tfrds.write.sources.parquet_images import ParquetImages
from tfrds.write.sources.scratch_folder import parse_scratch_dir
from tfrds.write.sources.table_columns import read_columns
from tfrds.write.sources.table_image_keys import key_images
from tfrds.write.sources.table_label_lists import read_labels
from tfrds.write.sources.table_numbers import read_numbers
from tfrds.write.sources.table_paths import PathImages
from tfrds.write.sources.table_repeats import check_repeats
from tfrds.write.sources.table_roles import Choice, Roles, Wanted, find_roles
from tfrds.write.sources.table_splits import (
    NO_SPLITS,
    Splits,
    read_groups,
    read_split_column,
    splits_by_place,
)
from tfrds.write.sources.tables import Table, open_table

if TYPE_CHECKING:
    import pyarrow as pa

_Images: TypeAlias = PathImages | ParquetImages | MemoryImages


class Manifest:
    """Labelled images that a table lists, one a row.

    Args:
      table: path of a file ending in .csv, .tsv, .txt, .jsonl, .ndjson or .parquet; a pattern such
        as "data/*.csv", or a list of these; a folder of Parquet files, or of images with
        `metadata.csv`, `.jsonl` or `.parquet` in it or in the folders of its splits; or a table of
        pandas or pyarrow.
      image: column of paths, of the bytes of image files, or of structs of both as Hugging Face
        writes them. None: the first of path, file, file_name, filename, filepath, image,
        image_path.
      label: column of the labels, or several that make one label. None: the first of label, class,
        category, target, labels.
      split: column of the splits' names. None: the column "split", else what the names of Parquet
        files or the folders of metadata files say, if anything; False: no splits.
      group: column that names what must stay together in one split. None: the column "group", if
        there is one; False: no groups.
      weight: column of the examples' weights in the loss. None: the column "weight" or
        "sample_weight", if there is one; False: no weights.
      columns: further columns to keep as features beside the image, or a mapping from columns to
        the features' names. None: all that can be kept; (): none.
      root: folder that paths start from. None: the folder of the file that names them; for tables
        in memory the current folder.
      label_kind: "single": one class; "binary": one of two; "multi": any number of classes;
        "value": numbers; "none": images alone. None: by the cells: text and whole numbers are
        single, other numbers values, lists and several columns of 0 and 1 multi.
      separator: between the classes in one cell, such as ";"; makes labels multi.
      delimiter: between the cells of a text file. None: by its first line.
      encoding: of a text file.
      scratch_dir: folder in which the images of large Parquet files are unpacked while they are
        stored, which takes as much room as they do; None: they are not, and each row group is read
        for each shard that has images of it.

    Raises:
      ConfigError: an argument that does not fit.
    """

    kind = "manifest"
    # Encoded images are decoded to be checked: that is work for workers.
    is_in_memory = False

    def __init__(
        self,
        table: Any,
        *,
        image: str | None = None,
        label: str | Sequence[str] | None = None,
        split: Choice = None,
        group: Choice = None,
        weight: Choice = None,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        root: os.PathLike[str] | str | None = None,
        label_kind: SourceLabelKind | None = None,
        separator: str | None = None,
        delimiter: str | None = None,
        encoding: str = "utf-8",
        scratch_dir: os.PathLike[str] | str | None = None,
    ) -> None:
        _check_text_options(separator, delimiter, encoding)
        if root is not None and not isinstance(root, str | os.PathLike):
            raise ConfigError(f"root: expected the path of a folder, or None, got {root!r}.")
        self._table = table
        self._wanted = Wanted(
            image=_checked_name("image", image),
            label=_label_columns(label),
            split=_checked_name("split", split, may_be_false=True),
            group=_checked_name("group", group, may_be_false=True),
            weight=_checked_name("weight", weight, may_be_false=True),
            columns=_checked_columns(columns),
        )
        self._root = root
        self._separator = separator
        self._delimiter = delimiter
        self._encoding = encoding
        self._scratch_dir = parse_scratch_dir(scratch_dir)
        self._label_kind = _checked_kind(label_kind, separator)
        self._images: _Images | None = None  # by `scan`

    def with_label_kind(self, kind: SourceLabelKind) -> "Manifest":
        """Returns the same source with labels of this kind.

        Raises:
          ConfigError: no such kind, or one that `separator` does not allow.
        """
        other = copy.copy(self)
        other._label_kind = _checked_kind(kind, self._separator)
        other._images = None
        return other

    def scan(self) -> References:
        """Returns references in the order of the rows, of several files by their names.

        Raises:
          SourceError: the table cannot be read, lacks a column, or has rows that cannot be used:
            the first five are named, and how many there are.
        """
        table = open_table(self._table, self._delimiter, self._encoding)
        roles = find_roles(table, self._wanted, has_labels=self._label_kind != "none")
        has_bytes = table.holds_bytes(roles.image)
        data = table.read(_columns_to_read(table, roles, has_bytes=has_bytes))
        if not table.num_rows:
            raise SourceError(f"{table.name}: expected at least one row, found none.")
        labels = read_labels(table, data, roles.labels, self._kind(), self._separator)
        images, keys, key_notes = self._open_images(table, data, roles.image, has_bytes=has_bytes)
        splits, split_names, split_notes = self._read_splits(table, data, roles, keys)
        check_repeats(table, roles.image, keys, labels, splits, split_names)
        groups, group_names = (
            read_groups(table, data, roles.group) if roles.group else (None, Keys.from_iterable(()))
        )
        columns, column_notes = read_columns(table, data, roles.kept, are_asked=roles.are_asked)
        weight = roles.weight
        weights = read_numbers(table, weight, data.column(weight), lowest=0) if weight else None
        self._images = images
        del data
        _release_memory()
        return References(
            keys=keys,
            label_kind="binary" if self._label_kind == "binary" else labels.kind,
            labels=labels.values,
            class_names=labels.class_names,
            has_numbered_classes=labels.has_numbered_classes,
            splits=splits,
            split_names=split_names,
            groups=groups,
            group_names=group_names,
            weights=weights,
            columns=columns,
            sizes=images.sizes,
            stamps=images.stamps,
            notes=(
                *roles.notes,
                *table.notes,
                *labels.notes,
                *key_notes,
                *split_notes,
                *column_notes,
            ),
        )

    def inputs(self, rows: NDArray[np.int64]) -> Inputs:
        """Returns the images at `rows` of the last scan."""
        if self._images is None:
            raise ConfigError("Manifest: expected scan() to be called before inputs().")
        return self._images.inputs(rows)

    def _kind(self) -> SourceLabelKind | None:
        return "single" if self._label_kind == "binary" else self._label_kind

    def _open_images(
        self, table: Table, data: "pa.Table", name: str, *, has_bytes: bool
    ) -> tuple[_Images, Keys, tuple[str, ...]]:
        """Returns (the images, their keys, notes)."""
        import pyarrow as pa

        if has_bytes and table.files is None:
            memory = MemoryImages(table, name)
            return memory, *key_images(table, memory.paths)
        if has_bytes:
            parquet = ParquetImages(table, name, self._scratch_dir)
            keys, notes = key_images(table, _paths(data, name))
            return parquet, keys, (*notes, *parquet.notes)
        column = _paths(data, name)
        if column is None or not pa.types.is_large_string(column.type):
            found = data.column(name).type
            raise SourceError(
                f"{table.name}, column {name!r}: expected paths, or the bytes of image files, got "
                f"{found}. Pass image= with the column that has them."
            )
        root = self._root or (table.files.root if table.files else os.curdir)
        files = PathImages(table, name, column, root, has_own_root=self._root is not None)
        return files, files.keys, ()

    def _read_splits(self, table: Table, data: "pa.Table", roles: Roles, keys: Keys) -> Splits:
        if roles.split is not None:
            return read_split_column(table, data, roles.split)
        return NO_SPLITS if self._wanted.split is False else splits_by_place(table, keys)


def _release_memory() -> None:
    """Gives back what pyarrow keeps for later: of a million rows more than the references need."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def _columns_to_read(table: Table, roles: Roles, *, has_bytes: bool) -> list[str]:
    """Returns the columns that are read at once: bytes of images are none of them."""
    used = [*roles.labels, roles.split, roles.group, roles.weight, *roles.kept]
    has_paths = all(getattr(part, "has_paths", _never)(roles.image) for part in table.parts)
    if not has_bytes or (table.files is not None and has_paths):
        used.append(roles.image)
    return list(dict.fromkeys(name for name in used if name is not None))


def _never(_: str) -> bool:
    return False


def _paths(data: "pa.Table", name: str) -> "pa.ChunkedArray | None":
    """Returns the column as paths; of structs as Hugging Face writes them, those in them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name not in data.column_names:
        return None
    column = data.column(name)
    if pa.types.is_struct(column.type) and column.type.get_field_index("path") >= 0:
        return pc.struct_field(column, "path").cast(pa.large_string())
    return column


def _checked_name(field: str, value: Any, *, may_be_false: bool = False) -> Any:
    if value is None or (may_be_false and value is False) or (isinstance(value, str) and value):
        return value
    choices = "None or False" if may_be_false else "or None"
    raise ConfigError(f"{field}: expected the name of a column, {choices}, got {value!r}.")


def _label_columns(label: Any) -> tuple[str, ...] | None:
    if label is None:
        return None
    names = (label,) if isinstance(label, str) else label
    if not is_list_of_names(names) or not all(names) or len(set(names)) < len(names):
        raise ConfigError(
            f"label: expected the name of a column, or a list of them, each once, got {label!r}."
        )
    return tuple(names)


def _checked_columns(columns: Any) -> Any:
    is_empty = isinstance(columns, Sequence | Mapping) and not columns and columns != ""
    if columns is None or is_empty or is_list_of_names(columns):
        return columns
    if isinstance(columns, Mapping) and is_list_of_names(tuple(columns)):
        return dict(columns)
    raise ConfigError(
        "columns: expected a list of names, a mapping from columns to the names of features, or "
        f"None, got {columns!r}."
    )


def _checked_kind(kind: Any, separator: str | None) -> Any:
    if kind is not None:
        check_choice("label_kind", kind, LABEL_KINDS)
    if separator is not None and kind not in (None, "multi"):
        raise ConfigError(
            f'separator: expected None for label_kind={kind!r}; it is for "multi", got '
            f"{separator!r}."
        )
    return kind


def _check_text_options(separator: Any, delimiter: Any, encoding: Any) -> None:
    if separator is not None and not (isinstance(separator, str) and separator):
        raise ConfigError(f"separator: expected text such as ';', or None, got {separator!r}.")
    if delimiter is not None and not (
        isinstance(delimiter, str) and len(delimiter) == 1 and delimiter not in '"\r\n '
    ):
        raise ConfigError(
            f"delimiter: expected one character such as ';', or None, got {delimiter!r}."
        )
    try:
        codecs.lookup(encoding)
    except (LookupError, TypeError) as error:
        raise ConfigError(
            f'encoding: expected one that Python knows such as "utf-8", got {encoding!r}.'
        ) from error
