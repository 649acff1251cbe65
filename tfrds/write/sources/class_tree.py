"""What folders say of the images in them: splits, classes and keys, from paths below a root.

`folder.py` finds such paths on a disk, `archive.py` in zip and tar files; both leave out and refuse
the same files and get the same references for the same tree.
"""

import dataclasses
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_choice, check_split_name
from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources.base import (
    References,
    SourceLabelKind,
    check_distinct,
    clean_class_name,
)

# A tree whose top level has these names only, with class folders below, is read as
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
IMAGE_ENDINGS = frozenset(
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

# What operating systems leave in folders and archives, beside names that start with a dot.
_SYSTEM_FILES = frozenset((b"thumbs.db", b"desktop.ini", b"__macosx"))

LISTED = 5

# How Python holds a byte of a file name that is not UTF-8.
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeOptions:
    """How folders are understood.

    Attributes:
      layout: "class" for `class/.../file`, "split" for `split/class/.../file`; None: by looking.
      class_level: "first": the first folder is the class, whatever is below it; "all": all folders
        together are one class such as "a/b".
      label_kind: "single": the class; "binary": likewise, of two; "none": no label; None: "single".
    """

    layout: str | None = None
    class_level: str = "first"
    label_kind: str | None = None

    def __post_init__(self) -> None:
        if self.layout is not None:
            check_choice("layout", self.layout, ("class", "split"))
        check_choice("class_level", self.class_level, ("first", "all"))
        if self.label_kind not in (None, "single", "binary", "none"):
            raise ConfigError(
                "label_kind: folders give an image one class or none, expected one of "
                f"{['single', 'binary', 'none']}, got {self.label_kind!r}."
            )

    @property
    def is_labelled(self) -> bool:
        """Whether images have a class."""
        return self.label_kind != "none"

    @property
    def found_kind(self) -> SourceLabelKind:
        """What `References` say that labels are."""
        if not self.is_labelled:
            return "none"
        return "binary" if self.label_kind == "binary" else "single"


class Found:
    """What a walk through a tree met besides the paths of the images."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self._misnamed: list[str] = []
        self._num_misnamed = 0

    def no_image(self, path: bytes, head: bytes) -> None:
        """Counts a file that holds no image.

        One that is named like an image is kept for the error.
        """
        ending = os.path.splitext(text_of(path))[1].lower()
        if ending not in IMAGE_ENDINGS:
            self.left_out[ending or "no ending"] += 1
            return
        self._num_misnamed += 1
        if len(self._misnamed) < LISTED:
            self._misnamed.append(f"{text_of(path)} ({'no image in it' if head else 'empty'})")

    def check_misnamed(self, where: str) -> None:
        """Raises SourceError with the first files that are named like images and hold none."""
        if self._misnamed:
            count = self._num_misnamed
            raise SourceError(
                f"{where}: {count:,} {'file is' if count == 1 else 'files are'} named like an "
                "image and "
                f"{'holds' if count == 1 else 'hold'} none: {', '.join(self._misnamed)}"
                f"{', ...' if count > LISTED else ''}. Replace or remove."
            )


def left_out_as(name: bytes) -> str | None:
    """Returns as what a file or folder of this name is left out; None: it is not."""
    if name.startswith(b"."):
        return "hidden"
    return "system file" if name.lower() in _SYSTEM_FILES else None


def is_split_word(name: bytes) -> bool:
    """Whether a folder is named as splits often are."""
    return text_of(name).lower() in _SPLIT_WORDS


def tree_references(
    where: str,
    paths: Keys,
    options: TreeOptions,
    *,
    sizes: NDArray[np.int64],
    stamps: NDArray[np.uint64],
    left_out: Counter[str],
    folders_at_top: Callable[[], Iterable[bytes]],
) -> References:
    """Returns the references of images, in the order of `paths`.

    Args:
      where: the tree, for messages.
      paths: native paths of all images below the root, at least one.
      options: how folders are understood.
      sizes: int64 [n], of the images in bytes.
      stamps: uint64 [n], likewise.
      left_out: how many files were left out, by kind.
      folders_at_top: gives the names of the root's folders, with and without images; asked only
        where they are splits.

    Raises:
      SourceError: an image outside of a class folder, a split without images, or class names that
        cannot be used.
      ConfigError: a folder's name cannot be that of a split.
    """
    layout = options.layout or (_guess_layout(where, paths) if options.is_labelled else "class")
    split_numbers: dict[bytes, int] = {}
    class_numbers: dict[bytes, int] = {}
    splits = np.zeros(len(paths), np.int32)
    labels = np.zeros(len(paths), np.int32)
    for row, path in enumerate(paths):
        split, class_name = _parts(where, path, layout, options)
        splits[row] = split_numbers.setdefault(split, len(split_numbers))
        labels[row] = class_numbers.setdefault(class_name, len(class_numbers))
    if layout == "split":
        _check_splits_hold_images(where, split_numbers, folders_at_top())
    classes: list[str] = []
    if options.is_labelled:
        classes = [clean_class_name(text_of(name), where) for name in class_numbers]
        check_distinct(classes, where)
    is_guessed = options.layout is None and options.is_labelled
    return References(
        # As a rule a key is the path itself, and a million of them take 60 MB.
        keys=paths if paths.is_ascii else Keys.from_iterable(key_of(path) for path in paths),
        label_kind=options.found_kind,
        labels=labels if options.is_labelled else None,
        class_names=tuple(classes),
        splits=splits if layout == "split" else None,
        split_names=tuple(check_split_name(text_of(name), where) for name in split_numbers)
        if layout == "split"
        else (),
        sizes=sizes,
        stamps=stamps,
        left_out=left_out,
        notes=(f"{where}: read as {_description(layout, options)}.",) if is_guessed else (),
    )


def _guess_layout(where: str, paths: Keys) -> str:
    has_class_folders = True
    for path in paths:
        folders = path.split(b"/")[:-1]
        if not folders or not is_split_word(folders[0]):
            return "class"
        has_class_folders = has_class_folders and len(folders) > 1
    if not has_class_folders:
        raise SourceError(
            f"{where}: its folders are named like splits, and images lie in them without "
            'a folder of their class. Add class folders, or pass layout="class" if these are '
            "the classes."
        )
    return "split"


def _parts(where: str, path: bytes, layout: str, options: TreeOptions) -> tuple[bytes, bytes]:
    """Returns (split, class) of an image's path; empty what it has not."""
    folders = path.split(b"/")[:-1]
    if len(folders) < (layout == "split") + options.is_labelled:
        advice = (
            'class, or pass label_kind="none" for images without labels.'
            if options.is_labelled
            else "split."
        )
        raise SourceError(
            f"{where}: expected every image inside {_description(layout, options)}, found "
            f"{text_of(path)!r}. Move such images into the folder of their {advice}"
        )
    split = folders.pop(0) if layout == "split" else b""
    if not options.is_labelled:
        return split, b""
    return split, folders[0] if options.class_level == "first" else b"/".join(folders)


def _check_splits_hold_images(
    where: str, split_numbers: dict[bytes, int], folders_at_top: Iterable[bytes]
) -> None:
    """A folder named like a split, beside others that are splits, is meant to be one."""
    for name in sorted(folders_at_top):
        if name not in split_numbers and is_split_word(name):
            raise SourceError(
                f"{where}: split {text_of(name)!r}: expected at least one image, found "
                "none. Add images, or remove the folder."
            )


def _description(layout: str, options: TreeOptions) -> str:
    levels = ("split", "class") if layout == "split" else ("class",)
    named = [level for level in levels if level == "split" or options.is_labelled]
    return "/".join((*named, "...", "file"))


def key_of(path: bytes) -> bytes:
    """Returns the key of a file by its native path."""
    return path if path.isascii() else unicodedata.normalize("NFC", text_of(path)).encode()


def text_of(path: bytes) -> str:
    """Returns a native path as text; bytes that are not UTF-8 are percent-escaped."""
    text = path.decode("utf-8", "surrogateescape")
    return _NOT_UTF8.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", text)
