"""Images in folders named after their classes: `class/.../file` or `split/class/.../file`.

Gets a folder, gives references whose keys are the paths below it. What a file holds decides whether
it is an image, never its ending; what is no image is left out and counted, unless its name claims
to be one.
"""

import array
import os
import pathlib
import re
import socket
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_choice, check_split_name
from tfrds.disk.keys import Keys
from tfrds.errors import DatasetError, SourceError
from tfrds.write.sniffing import SNIFF_BYTES, sniff
from tfrds.write.sources.base import References, check_distinct, clean_class_name

# A folder whose top level has these names only, with class folders below, is read as
# split/class/file.
_SPLIT_WORDS = frozenset(
    (
        "train",
        "training",
        "val",
        "valid",
        "validation",
        "dev",
        "test",
        "testing",
        "eval",
        "evaluation",
    )
)

# Files that claim to be images: one that holds none is a loss the user must hear of, not something
# to leave out.
_IMAGE_ENDINGS = frozenset(
    (
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jfif",
        ".png",
        ".gif",
        ".bmp",
        ".webp",
        ".tif",
        ".tiff",
        ".avif",
        ".heic",
        ".heif",
    )
)

# What operating systems leave in folders, beside names that start with a dot.
_SYSTEM_FILES = frozenset((b"thumbs.db", b"desktop.ini"))

_LISTED = 5

# How Python holds a byte of a file name that is not UTF-8.
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


class ImageFolder:
    """Labelled images in a folder, one folder below it for each class.

    Args:
      path: the folder.
      layout: "class" for `class/.../file`, "split" for `split/class/.../file`. None: "split" if
        every folder at the top is named like a split (train, validation, test, ...) and holds class
        folders, else "class".
    """

    kind = "folder"
    is_in_memory = False

    def __init__(
        self, path: os.PathLike[str] | str, *, layout: Literal["class", "split"] | None = None
    ) -> None:
        if layout is not None:
            check_choice("layout", layout, ("class", "split"))
        self._root = pathlib.Path(path).expanduser()
        self._layout = layout
        self._paths = Keys.from_iterable(())  # filled by `scan`

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
        found = _Found()
        paths = self._paths = Keys.from_iterable(_images(os.fsencode(self._root), b"", found, ()))
        found.check_misnamed(self._root)
        if not len(paths):
            raise SourceError(
                f"{self._root}: no image found below it, left out: "
                f"{dict(found.left_out) or 'nothing'}."
            )
        layout = self._layout or self._guess_layout(paths)
        split_names: dict[bytes, int] = {}
        class_names: dict[bytes, int] = {}
        splits = np.zeros(len(paths), np.int32)
        labels = np.zeros(len(paths), np.int32)
        for row, path in enumerate(paths):
            split, class_name = self._parts(path, layout)
            splits[row] = split_names.setdefault(split, len(split_names))
            labels[row] = class_names.setdefault(class_name, len(class_names))
        if layout == "split":
            self._check_splits_hold_images(split_names)
        classes = [clean_class_name(_text(name), str(self._root)) for name in class_names]
        check_distinct(classes, str(self._root))
        return References(
            # As a rule a key is the path itself, and a million of them take 60 MB.
            keys=paths if paths.is_ascii else Keys.from_iterable(_key(path) for path in paths),
            labels=labels,
            class_names=tuple(classes),
            splits=splits if layout == "split" else None,
            split_names=tuple(
                check_split_name(_text(name), str(self._root)) for name in split_names
            )
            if layout == "split"
            else (),
            sizes=np.array(found.sizes, np.int64),
            stamps=_stamps(found),
            left_out=found.left_out,
            notes=() if self._layout else (f"{self._root}: read as {_DESCRIPTIONS[layout]}.",),
        )

    def inputs(self, rows: NDArray[np.int64]) -> "_FolderInputs":
        """Returns the files at `rows` of the last scan."""
        return _FolderInputs(os.fsencode(self._root.absolute()), list(self._paths.take(rows)))

    def _guess_layout(self, paths: Keys) -> Literal["class", "split"]:
        has_class_folders = True
        for path in paths:
            folders = path.split(b"/")[:-1]
            if not folders or _text(folders[0]).lower() not in _SPLIT_WORDS:
                return "class"
            has_class_folders = has_class_folders and len(folders) > 1
        if not has_class_folders:
            raise SourceError(
                f"{self._root}: its folders are named like splits, and images lie in them without "
                'a folder of their class. Add class folders, or pass layout="class" if these are '
                "the classes."
            )
        return "split"

    def _check_splits_hold_images(self, split_names: dict[bytes, int]) -> None:
        """A folder named like a split, beside others that are splits, is meant to be one."""
        with os.scandir(os.fsencode(self._root)) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
        for name in names:
            if name not in split_names and _text(name).lower() in _SPLIT_WORDS:
                raise SourceError(
                    f"{self._root}: split {_text(name)!r}: expected at least one image, found "
                    "none. Add images, or remove the folder."
                )

    def _parts(self, path: bytes, layout: str) -> tuple[bytes, bytes]:
        """Returns (split, class) of an image's path."""
        folders = path.split(b"/")[:-1]
        needed = 2 if layout == "split" else 1
        if len(folders) < needed:
            raise SourceError(
                f"{self._root}: expected every image inside {_DESCRIPTIONS[layout]}, found "
                f"{_text(path)!r}. "
                "Move such images into the folder of their class."
            )
        return (folders[0], folders[1]) if layout == "split" else (b"", folders[0])


_DESCRIPTIONS = {"class": "class/.../file", "split": "split/class/.../file"}


class _FolderInputs:
    """The files of one shard."""

    def __init__(self, root: bytes, paths: list[bytes]) -> None:
        self._root = root
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def name(self, position: int) -> str:
        return _text(self._paths[position])

    def read(self, position: int) -> bytes:
        try:
            with open(os.path.join(self._root, self._paths[position]), "rb") as file:
                return file.read()
        except FileNotFoundError:
            if os.path.isdir(self._root):
                raise
            # No fault of this image: on a worker that sees none of them, all would be skipped.
            raise DatasetError(
                f"{_text(self._root)}: expected the source's folder on {socket.gethostname()}, "
                "found none. Every worker must see it under the same path."
            ) from None


class _Found:
    """What a walk through the folder met besides the paths of the images."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self.sizes = array.array("q")
        self.times = array.array("q")  # of the last change, in nanoseconds
        self._misnamed: list[str] = []
        self._num_misnamed = 0

    def no_image(self, path: bytes, ending: str, head: bytes) -> None:
        """Counts a file that holds no image.

        One that is named like an image is kept for the error.
        """
        if ending not in _IMAGE_ENDINGS:
            self.left_out[ending or "no ending"] += 1
            return
        self._num_misnamed += 1
        if len(self._misnamed) < _LISTED:
            self._misnamed.append(f"{_text(path)} ({'no image in it' if head else 'empty'})")

    def check_misnamed(self, root: pathlib.Path) -> None:
        """Raises SourceError with the first files that are named like images and hold none."""
        if self._misnamed:
            count = self._num_misnamed
            raise SourceError(
                f"{root}: {count:,} {'file is' if count == 1 else 'files are'} named like an image "
                "and "
                f"{'holds' if count == 1 else 'hold'} none: {', '.join(self._misnamed)}"
                f"{', ...' if count > _LISTED else ''}. Replace or remove."
            )


def _images(
    root: bytes, folder: bytes, found: _Found, parents: tuple[tuple[int, int], ...]
) -> Iterator[bytes]:
    """Yields the paths of all images below `folder`, relative to `root`, by name."""
    try:
        here = os.stat(os.path.join(root, folder))
        with os.scandir(os.path.join(root, folder)) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise SourceError(
            f"{_text(folder) or _text(root)}: cannot be read: {error.strerror}. Remove it, or mend "
            "its access."
        ) from error
    if (here.st_dev, here.st_ino) in parents:
        raise SourceError(
            f"{_text(root)}: {_text(folder)} links to a folder above itself. Remove the link."
        )
    parents = (*parents, (here.st_dev, here.st_ino))
    for entry in children:
        path = folder + b"/" + entry.name if folder else entry.name
        if entry.name.startswith(b"."):
            found.left_out["hidden"] += 1
        elif entry.name.lower() in _SYSTEM_FILES:
            found.left_out["system file"] += 1
        elif _is_folder(entry):
            yield from _images(root, path, found, parents)
        elif _is_image(root, path, found):
            yield path


def _is_folder(entry: os.DirEntry[bytes]) -> bool:
    # is_dir() raises for a link to itself; taken for a file, it gets that error with its name.
    return os.path.isdir(entry) if entry.is_symlink() else entry.is_dir()


def _is_image(root: bytes, path: bytes, found: _Found) -> bool:
    try:
        with open(os.path.join(root, path), "rb", buffering=0, opener=_open_at_once) as file:
            head = file.read(SNIFF_BYTES)
            status = os.fstat(file.fileno())
    except OSError as error:
        raise SourceError(
            f"{_text(path)}: cannot be read: {error.strerror}. Remove it, or mend its access."
        ) from error
    if sniff(head):
        found.sizes.append(status.st_size)
        found.times.append(status.st_mtime_ns)
        return True
    found.no_image(path, os.path.splitext(_text(path))[1].lower(), head)
    return False


def _stamps(found: _Found) -> NDArray[np.uint64]:
    """Returns a number for each file that is another one when its size or time of change is."""
    sizes, times = (
        np.array(values, np.int64).view(np.uint64) for values in (found.sizes, found.times)
    )
    return sizes * np.uint64(0x9E3779B97F4A7C15) ^ times


def _open_at_once(path: str, flags: int) -> int:
    # A pipe among the files would wait for a writer for ever.
    return os.open(path, flags | os.O_NONBLOCK)


def _key(path: bytes) -> bytes:
    return path if path.isascii() else unicodedata.normalize("NFC", _text(path)).encode()


def _text(path: bytes) -> str:
    """Returns a native path as text; bytes that are not UTF-8 are percent-escaped."""
    text = path.decode("utf-8", "surrogateescape")
    return _NOT_UTF8.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", text)
