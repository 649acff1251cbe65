"""Images that a COCO-style JSON file lists, classified by the categories of their annotations.

Gets the file, gives references; images are files that `table_paths.py` finds below a folder, as
those of a table are. Boxes, polygons and captions are left out: only which categories an image has
counts, each once.
"""

import copy
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources.base import Inputs, LabelLists, References
from tfrds.write.sources.coco_file import CocoFile, read_coco
from tfrds.write.sources.equal_keys import find_equal
from tfrds.write.sources.table_paths import PathImages
from tfrds.write.sources.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

_LISTED = 5


class Coco:
    """Images and their categories in a COCO-style JSON file.

    Args:
      annotations: path of the file: an object with "images" (id, file_name), "annotations"
        (image_id, category_id) and "categories" (id, name).
      root: folder that file names start from. None: that of the file.
      label_kind: "single": one category an image; "binary": one of two; "multi": any number of
        them; "none": images alone, of files without annotations too. None: "single" where every
        image has exactly one category, else "multi".

    Raises:
      ConfigError: no such kind of label.
    """

    kind = "coco"
    is_in_memory = False

    def __init__(
        self,
        annotations: os.PathLike[str] | str,
        *,
        root: os.PathLike[str] | str | None = None,
        label_kind: Literal["single", "binary", "multi", "none"] | None = None,
    ) -> None:
        self._path = pathlib.Path(annotations).expanduser()
        self._root = self._path.parent if root is None else pathlib.Path(root).expanduser()
        self._label_kind = _checked_kind(label_kind)
        self._images: PathImages | None = None  # by `scan`

    def with_label_kind(self, kind: Any) -> "Coco":
        """Returns the same images with labels of this kind.

        Raises:
          ConfigError: categories are no labels of this kind.
        """
        other = copy.copy(self)
        other._label_kind = _checked_kind(kind)
        other._images = None
        return other

    def scan(self) -> References:
        """Returns references in the order of the file's images.

        Raises:
          SourceError: the file cannot be read, an id is there twice or not at all, two categories
            have one name, an image is missing, listed twice or outside of the root, or has no or
            several categories where it must have one.
        """
        has_labels = self._label_kind != "none"
        file = read_coco(self._path, has_labels=has_labels)
        # Before a million files are looked for.
        labels = self._labels(file) if has_labels else {"label_kind": "none", "labels": None}
        images = _find_images(self._path, file.file_names, self._root)
        _check_listed_once(self._path, images.keys)
        self._images = images
        return References(
            keys=images.keys,
            sizes=images.sizes,
            stamps=images.stamps,
            **labels,
        )

    def inputs(self, rows: NDArray[np.int64]) -> Inputs:
        """Returns the images at `rows` of the last scan."""
        if self._images is None:
            raise ConfigError("Coco: expected scan() to be called before inputs().")
        return self._images.inputs(rows)

    def _labels(self, file: CocoFile) -> dict[str, Any]:
        """Returns the fields of the references that are about labels."""
        num_classes = len(file.class_names)
        pairs = np.unique(file.rows.astype(np.int64) * num_classes + file.classes)
        classes = (pairs % num_classes).astype(np.int32)
        counts = np.bincount(pairs // num_classes, minlength=len(file.file_names))
        without, several = np.flatnonzero(counts == 0), np.flatnonzero(counts > 1)
        is_single = self._label_kind in ("single", "binary")
        if self._label_kind is None:
            is_single = not len(without) and not len(several)
        notes = () if self._label_kind else (self._note(is_single, len(without), len(several)),)
        if is_single:
            self._check_one(file.file_names, without, "none")
            self._check_one(file.file_names, several, "several")
            return {"labels": classes, "class_names": file.class_names, "notes": notes}
        offsets = np.zeros(len(counts) + 1, np.uint64)
        offsets[1:] = np.cumsum(counts)
        return {
            "label_kind": "multi",
            "labels": LabelLists(classes, offsets),
            "class_names": file.class_names,
            "notes": notes,
        }

    def _note(self, is_single: bool, num_without: int, num_several: int) -> str:
        if is_single:
            return f"{self._path}: read as one class an image, the category of its annotations."
        return (
            f"{self._path}: read as any number of classes an image, the categories of its "
            f"annotations; images with several: {num_several:,}, without any: {num_without:,}."
        )

    def _check_one(self, names: Keys, rows: NDArray[np.int64], how_many: str) -> None:
        """Raises SourceError where images have another number of categories than one."""
        if not len(rows):
            return
        listed = ", ".join(repr(names[row].decode()) for row in rows[:_LISTED].tolist())
        raise SourceError(
            f"{self._path}: expected one category for each image, got {how_many} for {listed}"
            f"{', ...' if len(rows) > _LISTED else ''}; such images in all: {len(rows):,}. Correct "
            'them, leave them out, or pass label_kind="multi".'
        )


class _ImageEntries:
    """The images of a file as a part of a table, which knows the place of each for errors."""

    class_names: Mapping[str, tuple[str, ...]] = {}
    notes: tuple[str, ...] = ()
    written: frozenset[str] = frozenset()

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.names = ["file_name"]
        self._count = count

    def read(self, columns: Sequence[str]) -> "tuple[pa.Table, int]":
        """Returns no columns, and the number of images."""
        import pyarrow as pa

        return pa.table({}), self._count

    def holds_bytes(self, column: str) -> bool:
        """JSON has none."""
        return False

    def place(self, row: int) -> str:
        """Returns an image as the file has it."""
        return f"images[{row}]"


def _find_images(path: pathlib.Path, names: Keys, root: pathlib.Path) -> PathImages:
    import pyarrow as pa

    table = Table(str(path), [_ImageEntries(str(path), len(names))])
    table.read(())
    offsets = pa.py_buffer(names.offsets.astype(np.int64))
    column = pa.LargeStringArray.from_buffers(len(names), offsets, pa.py_buffer(names.blob))
    return PathImages(table, "file_name", pa.chunked_array([column]), root, has_own_root=True)


def _check_listed_once(path: pathlib.Path, keys: Keys) -> None:
    first, later = find_equal(keys)
    if len(first):
        one, other = int(first[0]), int(later[0])
        raise SourceError(
            f"{path} images[{other}]: expected a file of its own, got {keys[other].decode()!r} as "
            f"images[{one}] has; such images in all: {len(first):,}. Remove one of them."
        )


def _checked_kind(kind: Any) -> str | None:
    if kind not in (None, "single", "binary", "multi", "none"):
        raise ConfigError(
            "label_kind: categories are classes, expected one of "
            f"{['single', 'binary', 'multi', 'none']}, got {kind!r}."
        )
    return kind  # type: ignore[no-any-return]
