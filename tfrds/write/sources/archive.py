"""Images in zip and tar files, read where they lie: class trees, and WebDataset shards.

Gets archives, gives references; workers read each image from its place in the file. What folders
mean is said by `class_tree.py`, what names of WebDataset mean by `webdataset.py`.
"""

import copy
import dataclasses
import os
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_choice, check_int
from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError, SourceError
from tfrds.spec import LABEL_KINDS
from tfrds.write.sources.archive_files import ArchiveFile, find_archives
from tfrds.write.sources.archive_images import ArchiveImages, FoundMembers
from tfrds.write.sources.archive_inputs import ArchiveInputs
from tfrds.write.sources.archive_members import PLACE, STORED
from tfrds.write.sources.archive_tree import ArchiveTree
from tfrds.write.sources.base import References, SourceLabelKind
from tfrds.write.sources.class_tree import TreeOptions, key_of, text_of, tree_references
from tfrds.write.sources.given_files import parse_given
from tfrds.write.sources.scratch_folder import parse_scratch_dir
from tfrds.write.sources.stamps import mix_stamps
from tfrds.write.sources.unpacked_tars import UnpackedTars
from tfrds.write.sources.webdataset import looks_like_webdataset, read_webdataset
from tfrds.write.sources.webdataset_labels import WebDatasetLabels, check_label

# Images hardly become smaller by packing, and text no more than twenty times; a bomb becomes a
# thousand times its size and more. Below a gigabyte there is no harm in either.
_MAX_RATIO = 100
_ALWAYS_ALLOWED_BYTES = 2**30


class Archive:
    """Images in zip or tar files, of one of these layouts.

    - "class": `class/.../file`, and "split": `split/class/.../file`, as `ImageFolder` reads them. A
      single folder around everything, as zips of a folder have it, is stepped over. Several
      archives are read as if unpacked into one folder.
    - "webdataset": an image and its label share a key, the path up to the first dot of the file's
      name: `0001.jpg` with `0001.cls` (the number of the class), `0001.json` (its field "label" or
      "cls": a number or name, or a list of them for any number of classes) or `0001.txt` (the name
      of the class). Other members are left out and counted.

    Zips and plain tars are read in place. Tars packed by gzip, bzip2, xz or zstd are unpacked once
    by each scan, into a temporary folder that goes with this object or at exit; workers on other
    machines must see that folder under the same path.

    Members that would lie outside of the archive, links, devices and encrypted files are refused,
    and archives that unpack to far more than they hold.

    Args:
      files: path of an archive, or a list of paths. Patterns are "shards/*.tar" and
        "shard-{000000..000009}.tar".
      layout: one of those above; None: by the names of the first archive's first members.
      label: of WebDataset, the field of the `.json` that is the label, or ".cls", ".json" or ".txt"
        for that member. None: by the first example, in the order `.cls`, `.json`, `.txt`.
      label_kind: what labels are: "single" (one class), "binary" (one of two), "multi" (any number
        of classes), "value" (a number, or a list of as many for each image) or "none". "multi" and
        "value" are for WebDataset. None: by the first example, one class or a list of classes.
      class_level: of class trees, "first" if the first folder is the class and those below it mean
        nothing, "all" if `a/b/file` is of the class "a/b".
      max_unpacked_bytes: that all compressed tars, and the packed images of all zips, may unpack
        to. None: 100 times the size of the archives, and at least 1 GiB.
      scratch_dir: folder for unpacked tars. None: the system's folder for temporary files.

    Raises:
      ConfigError: an argument is none of these, or does not go with the layout.
    """

    kind = "archive"
    is_in_memory = False

    def __init__(
        self,
        files: os.PathLike[str] | str | Sequence[os.PathLike[str] | str],
        *,
        layout: Literal["class", "split", "webdataset"] | None = None,
        label: str | None = None,
        label_kind: SourceLabelKind | None = None,
        class_level: Literal["first", "all"] = "first",
        max_unpacked_bytes: int | None = None,
        scratch_dir: os.PathLike[str] | str | None = None,
    ) -> None:
        if layout is not None:
            check_choice("layout", layout, ("class", "split", "webdataset"))
        if label_kind is not None:
            check_choice("label_kind", label_kind, LABEL_KINDS)
        check_choice("class_level", class_level, ("first", "all"))
        check_label(label)
        if label is not None and label_kind == "none":
            raise ConfigError(
                f'label: is not read with label_kind="none", got {label!r}. Leave one of them out.'
            )
        if max_unpacked_bytes is not None:
            check_int("max_unpacked_bytes", max_unpacked_bytes, 0)
        self._files = parse_given("files", files)
        # Only WebDataset has labels beside images.
        self._layout = "webdataset" if layout is None and label is not None else layout
        self._label = label
        self._label_kind = label_kind
        self._class_level = class_level
        self._max_unpacked_bytes = max_unpacked_bytes
        self._scratch_dir = parse_scratch_dir(scratch_dir)
        if self._layout is not None:
            self._check_layout(self._layout)
        self._start()

    def _start(self) -> None:
        """Forgets the last scan."""
        self._unpacked = UnpackedTars(self._scratch_dir)
        self._archives: list[ArchiveFile] = []
        self._names = Keys.from_iterable(())
        self._places: NDArray[np.void] = np.zeros(0, PLACE)

    def with_label_kind(self, kind: SourceLabelKind) -> "Archive":
        """Returns the same archives with labels of this kind.

        Raises:
          ConfigError: labels are of no such kind, or not in this layout.
        """
        check_choice("label_kind", kind, LABEL_KINDS)
        other = copy.copy(self)
        other._label_kind = kind
        if other._layout is not None:
            other._check_layout(other._layout)
        other._start()
        return other

    def scan(self) -> References:
        """Returns references in order of the images' keys.

        Raises:
          SourceError: an archive is missing, damaged or refused, holds no image, or a file that is
            named like an image and holds none; or labels or class names cannot be used.
          ConfigError: an argument does not go with the layout that was found.
        """
        archives = find_archives(self._files)
        budget = self._max_unpacked_bytes
        if budget is None:
            size = sum(archive.size for archive in archives)
            budget = max(_MAX_RATIO * size, _ALWAYS_ALLOWED_BYTES)
        try:
            for number, archive in enumerate(archives):
                if archive.is_compressed_tar:
                    archives[number] = self._unpacked.unpack(archive, budget)
                    budget = max(budget - archives[number].size, 0)
            return self._references(archives, budget)
        except BaseException:
            self._unpacked.remove()
            raise

    def inputs(self, rows: NDArray[np.int64]) -> "ArchiveInputs":
        """Returns the images at `rows` of the last scan."""
        places = self._places[rows]
        used, numbers = np.unique(places["archive"], return_inverse=True)
        places["archive"] = numbers
        archives = [self._archives[number] for number in used]
        return ArchiveInputs(archives, self._names.take(rows), places, self._unpacked)

    def _references(self, archives: list[ArchiveFile], budget: int) -> References:
        where = str(archives[0].path)
        if len(archives) > 1:
            where += f" and {len(archives) - 1:,} more"
        is_webdataset = self._layout == "webdataset"
        if self._layout is None:
            is_labelled = self._label_kind != "none"
            is_webdataset = looks_like_webdataset(archives[0], is_labelled=is_labelled)
            self._check_layout("webdataset" if is_webdataset else "class")
        read = self._read_webdataset if is_webdataset else self._read_tree
        images, references = read(where, archives)
        _check_unpacked_size(where, images, budget)
        self._archives, self._names, self._places = archives, images.names, images.places
        return references

    def _read_tree(
        self, where: str, archives: list[ArchiveFile]
    ) -> tuple[ArchiveImages, References]:
        options = TreeOptions(
            layout=self._layout, class_level=self._class_level, label_kind=self._label_kind
        )
        found = FoundMembers(has_several_archives=len(archives) > 1)
        tree = ArchiveTree(archives, found, options)
        _check_found(where, found, tree.images)
        references = tree_references(
            where,
            tree.images.keys,
            options,
            sizes=_sizes(tree.images),
            stamps=_stamps(archives, tree.images),
            left_out=tree.images.left_out,
            folders_at_top=tree.folders_at_top,
        )
        if tree.top:
            note = f"{where}: stepped over the folder {text_of(tree.top[:-1])!r} around all images."
            references = dataclasses.replace(references, notes=(*references.notes, note))
        return tree.images, references

    def _read_webdataset(
        self, where: str, archives: list[ArchiveFile]
    ) -> tuple[ArchiveImages, References]:
        found = FoundMembers(has_several_archives=len(archives) > 1)
        is_labelled = self._label_kind != "none"
        labels = WebDatasetLabels(self._label, self._label_kind) if is_labelled else None
        images = read_webdataset(archives, found, labels)
        _check_found(where, found, images)
        notes = []
        if self._layout is None or (labels and self._label_kind is None):
            what = labels.note() if labels else "without labels"
            notes = [f"{where}: read as WebDataset, {what}."]
        none = {"label_kind": "none", "labels": None}
        return images, References(
            keys=Keys.from_iterable(map(key_of, images.keys)),
            sizes=_sizes(images),
            stamps=_stamps(archives, images),
            left_out=images.left_out,
            notes=tuple(notes),
            **(labels.columns(where, images.positions) if labels else none),
        )

    def _check_layout(self, layout: str) -> None:
        """Raises ConfigError where arguments do not go with it."""
        if layout == "webdataset":
            if self._class_level != "first":
                raise ConfigError(
                    "class_level: is for class trees, WebDataset shards have no class folders; got "
                    f"{self._class_level!r}. Leave it out, or pass another layout."
                )
        elif self._label is not None:
            raise ConfigError(
                f"label: is for WebDataset shards, got {self._label!r} for class folders. Leave it "
                'out, or pass layout="webdataset".'
            )
        else:
            TreeOptions(label_kind=self._label_kind)


def _check_found(where: str, found: FoundMembers, images: ArchiveImages) -> None:
    found.check_misnamed(where)
    if not len(images.keys):
        raise SourceError(
            f"{where}: no image found in it, left out: {dict(found.left_out) or 'nothing'}."
        )


def _check_unpacked_size(where: str, images: ArchiveImages, budget: int) -> None:
    """Raises SourceError before anything is unpacked that would become too much."""
    sizes = images.places["size"][images.places["method"] != STORED]
    total = int(sizes.sum())
    if total > budget:
        raise SourceError(
            f"{where}: {len(sizes):,} packed images would unpack to {total:,} bytes, more than the "
            f"{budget:,} that are left of max_unpacked_bytes. Pass a larger max_unpacked_bytes if "
            "you trust the archive."
        )


def _sizes(images: ArchiveImages) -> NDArray[np.int64]:
    return np.ascontiguousarray(images.places["size"])


def _stamps(archives: Sequence[ArchiveFile], images: ArchiveImages) -> NDArray[np.uint64]:
    """Returns a number for each image that is another one when its archive or place is."""
    of_archives = np.array([archive.stamp for archive in archives], np.uint64)
    places = images.places
    fields = (places[field] for field in ("offset", "size", "crc"))
    return mix_stamps(of_archives[places["archive"]], *fields)
