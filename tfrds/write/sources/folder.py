"""Images in folders named after their classes: `class/.../file` or `split/class/.../file`.

Gets a folder, gives references whose keys are the paths below it. What a file holds decides whether
it is an image, never its ending; what is no image is left out and counted, unless its name claims
to be one. `class_tree.py` says what the folders mean.
"""

import array
import copy
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.keys import Keys
from tfrds.errors import SourceError
from tfrds.write.sniffing import SNIFF_BYTES, sniff
from tfrds.write.sources.base import References
from tfrds.write.sources.class_tree import (
    Found,
    TreeOptions,
    left_out_as,
    text_of,
    tree_references,
)
from tfrds.write.sources.file_inputs import FileInputs
from tfrds.write.sources.stamps import mix_stamps


class ImageFolder:
    """Images in a folder, one folder below it for each class.

    Args:
      path: the folder.
      layout: "class" for `class/.../file`, "split" for `split/class/.../file`. None: "split" if
        every folder at the top is named like a split (train, validation, test, ...) and holds class
        folders, else "class".
      class_level: "first" if the first folder is the class and those below it mean nothing, "all"
        if `a/b/file` is of the class "a/b".
      label_kind: "single" for the class, "binary" for one of two, "none" for images without labels:
        all below the folder, wherever they lie. None: "single".

    Raises:
      ConfigError: an argument is none of these.
    """

    kind = "folder"
    is_in_memory = False

    def __init__(
        self,
        path: os.PathLike[str] | str,
        *,
        layout: Literal["class", "split"] | None = None,
        class_level: Literal["first", "all"] = "first",
        label_kind: Literal["single", "binary", "none"] | None = None,
    ) -> None:
        self._options = TreeOptions(layout=layout, class_level=class_level, label_kind=label_kind)
        self._root = pathlib.Path(path).expanduser()
        self._paths = Keys.from_iterable(())  # filled by `scan`

    def with_label_kind(self, kind: str) -> "ImageFolder":
        """Returns the same folder with labels of this kind.

        Raises:
          ConfigError: folders do not say labels of this kind.
        """
        other = copy.copy(self)
        other._options = dataclasses.replace(self._options, label_kind=kind)
        return other

    def scan(self) -> References:
        """Returns references in order of the files' paths.

        Raises:
          SourceError: no such folder, no image in it, an image outside of a class folder, a file
            that is named like an image and holds none, or names that cannot be used.
        """
        if not self._root.is_dir():
            raise SourceError(
                f"{self._root}: expected a folder with one folder for each class, found none."
            )
        found = _FoundFiles()
        paths = self._paths = Keys.from_iterable(_images(os.fsencode(self._root), b"", found, ()))
        found.check_misnamed(str(self._root))
        if not len(paths):
            raise SourceError(
                f"{self._root}: no image found below it, left out: "
                f"{dict(found.left_out) or 'nothing'}."
            )
        sizes = np.array(found.sizes, np.int64)
        return tree_references(
            str(self._root),
            paths,
            self._options,
            sizes=sizes,
            stamps=mix_stamps(sizes, np.array(found.times, np.int64)),
            left_out=found.left_out,
            folders_at_top=self._folders_at_top,
        )

    def inputs(self, rows: NDArray[np.int64]) -> FileInputs:
        """Returns the files at `rows` of the last scan."""
        return FileInputs(os.fsencode(self._root.absolute()), list(self._paths.take(rows)))

    def _folders_at_top(self) -> Iterable[bytes]:
        with os.scandir(os.fsencode(self._root)) as entries:
            return [entry.name for entry in entries if entry.is_dir()]


class _FoundFiles(Found):
    """What a walk through the folder met besides the paths of the images."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = array.array("q")
        self.times = array.array("q")  # of the last change, in nanoseconds


def _images(
    root: bytes, folder: bytes, found: _FoundFiles, parents: tuple[tuple[int, int], ...]
) -> Iterator[bytes]:
    """Yields the paths of all images below `folder`, relative to `root`, by name."""
    try:
        here = os.stat(os.path.join(root, folder))
        with os.scandir(os.path.join(root, folder)) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise SourceError(
            f"{text_of(folder) or text_of(root)}: cannot be read: {error.strerror}. Remove it, or "
            "mend its access."
        ) from error
    if (here.st_dev, here.st_ino) in parents:
        raise SourceError(
            f"{text_of(root)}: {text_of(folder)} links to a folder above itself. Remove the link."
        )
    parents = (*parents, (here.st_dev, here.st_ino))
    for entry in children:
        path = folder + b"/" + entry.name if folder else entry.name
        if kind := left_out_as(entry.name):
            found.left_out[kind] += 1
        elif _is_folder(entry):
            yield from _images(root, path, found, parents)
        elif _is_image(root, path, found):
            yield path


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    # is_dir() raises for a link to itself; taken for a file, it gets that error with its name.
    return os.path.isdir(entry) if entry.is_symlink() else entry.is_dir()


def _is_image(root: bytes, path: bytes, found: _FoundFiles) -> bool:
    try:
        with open(os.path.join(root, path), "rb", buffering=0, opener=_open_at_once) as file:
            head = file.read(SNIFF_BYTES)
            status = os.fstat(file.fileno())
    except OSError as error:
        raise SourceError(
            f"{text_of(path)}: cannot be read: {error.strerror}. Remove it, or mend its access."
        ) from error
    if sniff(head):
        found.sizes.append(status.st_size)
        found.times.append(status.st_mtime_ns)
        return True
    found.no_image(path, head)
    return False


def _open_at_once(path: str, flags: int) -> int:
    # A pipe among the files would wait for a writer for ever.
    return os.open(path, flags | os.O_NONBLOCK)
