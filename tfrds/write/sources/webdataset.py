"""The examples of WebDataset shards: members that share a key, such as `0001.jpg` and `0001.cls`.

Gets archives, gives images by their keys and the labels beside them. A key is the path up to the
first dot of the file's name, and its members stand together, as the webdataset package has it.
Source: github.com/webdataset/webdataset, "The WebDataset Format".
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from tfrds.disk.keys import Keys
from tfrds.errors import SourceError
from tfrds.write.sources.archive_files import ArchiveFile
from tfrds.write.sources.archive_images import ArchiveImages, FoundMembers
from tfrds.write.sources.archive_members import Member, Place, read_member
from tfrds.write.sources.class_tree import IMAGE_ENDINGS, left_out_as, text_of
from tfrds.write.sources.webdataset_labels import LABEL_ENDINGS, WebDatasetLabels

# The package writes arrays as these.
_IMAGE_ENDINGS = IMAGE_ENDINGS | {".ppm", ".pgm", ".pbm", ".pnm"}

# How many members are looked at to tell what an archive is.
_LOOKED_AT = 1_000


class _Example:
    """The members of one key."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.image: tuple[bytes, Place] | None = None
        self.labels: dict[str, Place] = {}
        self.others: list[str] = []

    def add(self, where: str, name: bytes, place: Place, ending: str) -> None:
        """Adds a file; `ending` is what its name has behind the key's dot."""
        if _is_image_ending(ending):
            if self.image is not None:
                raise SourceError(
                    f"{where}, key {text_of(self.key)!r}: expected one image, found "
                    f"{text_of(self.image[0])!r} and {text_of(name)!r}. Leave one out."
                )
            self.image = name, place
        elif ending in LABEL_ENDINGS:
            if ending in self.labels:
                raise SourceError(
                    f"{where}, key {text_of(self.key)!r}: has two members .{ending}. Leave one out."
                )
            self.labels[ending] = place
        else:
            self.others.append("." + ending.rpartition(".")[2])


def read_webdataset(
    archives: Sequence[ArchiveFile], found: FoundMembers, labels: WebDatasetLabels | None
) -> ArchiveImages:
    """Returns the images in the order of their keys.

    Args:
      archives: the shards.
      found: takes what is found.
      labels: take the label of each image; None: images have none.

    Raises:
      SourceError: a shard is damaged or holds what it must not, or a key has no image or no label,
        or more than one of them, or is there twice.
    """
    keys = Keys.from_iterable(
        key
        for number, archive in enumerate(archives)
        for key in _images(number, archive, found, labels)
    )
    return found.images(archives, found.names(), keys, "key")


def _images(
    number: int, archive: ArchiveFile, found: FoundMembers, labels: WebDatasetLabels | None
) -> Iterator[bytes]:
    """Yields the key of each image that it adds to what was found."""
    where = str(archive.path)
    with archive.data_path.open("rb") as file:
        descriptor = file.fileno()
        for example in _examples(archive.members(file), where, found):
            found.left_out.update(example.others)
            if example.image is None:
                _check_no_label(where, example)
                continue
            is_image = found.add_image(number, where, descriptor, *example.image)
            if labels is not None and is_image:
                there = f"{where}, key {text_of(example.key)!r}"
                labels.add(there, example.labels, lambda place: read_member(descriptor, place))
            used = labels and labels.ending
            found.left_out.update(f".{ending}" for ending in example.labels if ending != used)
            if is_image:
                yield example.key


def _check_no_label(where: str, example: _Example) -> None:
    if example.labels:
        raise SourceError(
            f"{where}, key {text_of(example.key)!r}: expected an image beside its "
            f".{next(iter(example.labels))}, found none. Members of one key must stand together. "
            "Add the image, or leave the key out."
        )


def _examples(members: Iterable[Member], where: str, found: FoundMembers) -> Iterator[_Example]:
    """Yields the members that stand together under one key; notes what has none."""
    example: _Example | None = None
    for name, place in members:
        if place is None:
            continue
        key, ending, kind = _split_name(name)
        if kind:
            found.left_out[kind] += 1
            continue
        if example is None or key != example.key:
            if example is not None:
                yield example
            example = _Example(key)
        example.add(where, name, place, ending)
    if example is not None:
        yield example


def _split_name(name: bytes) -> tuple[bytes, str, str | None]:
    """Returns (key, what follows its dot in lower case, as what the file is left out or None)."""
    folders, slash, base = name.rpartition(b"/")
    stem, dot, ending = base.partition(b".")
    kind = next(filter(None, map(left_out_as, name.split(b"/"))), None)
    # The package keeps notes about a shard under such names.
    if not kind and base.startswith(b"__") and base.endswith(b"__"):
        kind = "system file"
    if not kind and not dot:
        kind = "no ending"
    return folders + slash + stem, text_of(ending).lower(), kind


def looks_like_webdataset(archive: ArchiveFile, *, is_labelled: bool) -> bool:
    """Whether the names of an archive's first members are those of a WebDataset shard.

    They are where an image has a `.cls` of its name beside it, or a `.json` or `.txt` and both lie
    outside of any folder.

    Args:
      archive: the first one.
      is_labelled: whether it matters what the labels are.

    Raises:
      SourceError: the archive is damaged, or holds what it must not, or all images have a `.json`
        or `.txt` beside them in folders, so that either may be the labels.
    """
    images: set[bytes] = set()
    labels: dict[bytes, str] = {}
    with archive.data_path.open("rb") as file:
        for name, place in itertools.islice(archive.members(file), _LOOKED_AT):
            key, ending, kind = _split_name(name)
            if kind or place is None:
                continue
            if _is_image_ending(ending):
                images.add(key)
            elif ending in LABEL_ENDINGS and labels.get(key) != "cls":
                labels[key] = ending
    pairs = images & labels.keys()
    if any(labels[key] == "cls" or b"/" not in key for key in pairs):
        return True
    # The members of the last key may not all have been looked at.
    if is_labelled and pairs and len(images - pairs) <= (len(images) > 1):
        key = min(pairs)
        raise SourceError(
            f"{archive.path}: images have a member .{labels[key]} beside them, as "
            f"{text_of(key)!r} has, and lie in folders: either may be the labels. Pass "
            'layout="webdataset" or layout="class".'
        )
    return False


def _is_image_ending(ending: str) -> bool:
    return "." + ending.rpartition(".")[2] in _IMAGE_ENDINGS
