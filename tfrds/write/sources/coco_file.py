"""Images, categories and annotations of a COCO-style JSON file, as columns.

Gets the file, gives `CocoFile`; `coco.py` makes labels of it. Ids are whole numbers or text, as
camera traps have them, and are held as 64-bit numbers: text by its hash, which two of a million
share with a probability of 3e-8.

Source: cocodataset.org, "Data format".
"""

import array
import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from tfrds.disk.keys import Keys
from tfrds.errors import SourceError
from tfrds.write.sources.base import clean_class_name
from tfrds.write.sources.json_arrays import walk_lists

_KEYS = ("images", "annotations", "categories")

_MAX_CATEGORIES = 1_000_000
_MASK = 2**64 - 1
_SHOWN = 60


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class CocoFile:
    """What a file says.

    Attributes:
      file_names: of the images, as they are written, in UTF-8.
      class_names: of the categories, in the file's order.
      rows: int32 [m], of each annotation its image's position.
      classes: int32 [m], and its category's.
    """

    file_names: Keys
    class_names: tuple[str, ...]
    rows: NDArray[np.int32]
    classes: NDArray[np.int32]


def read_coco(path: pathlib.Path, *, has_labels: bool) -> CocoFile:
    """Reads a file.

    Args:
      path: of the file.
      has_labels: whether annotations and categories are wanted.

    Raises:
      SourceError: no such file or JSON, a key that is missing, an entry without what it needs, an
        id that is there twice or not at all, or two categories of one name; the text has the id.
    """
    keys = _KEYS if has_labels else _KEYS[:1]
    reader = _Reader(path)
    for key, position, entry in walk_lists(path, keys):
        reader.add(key, position, entry)
    for key in keys:
        if key not in reader.found:
            raise SourceError(
                f"{path}: expected entries under {key!r} as COCO has them, found none. Pass the "
                "file that has them."
            )
    images = _sorted_ids(reader.image_ids, lambda at: _duplicate(path, "images", at))
    if not has_labels:
        empty = np.zeros(0, np.int32)
        return CocoFile(file_names=reader.file_names(), class_names=(), rows=empty, classes=empty)
    categories = _sorted_ids(reader.category_ids, lambda at: _duplicate(path, "categories", at))
    return CocoFile(
        file_names=reader.file_names(),
        class_names=reader.check_names(),
        rows=_find(path, "image_id", reader.image_refs, images),
        classes=_find(path, "category_id", reader.category_refs, categories),
    )


class _Reader:
    """Takes entries, keeps columns."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self.found: set[str] = set()
        self.image_ids, self.category_ids = array.array("Q"), array.array("Q")
        self.image_refs, self.category_refs = array.array("Q"), array.array("Q")
        self._blob = bytearray()
        self._ends = array.array("Q", [0])
        self._names: dict[str, str] = {}  # of categories, and the id of each

    def add(self, key: str, position: int, entry: Any) -> None:
        """Takes one entry of a list."""
        self.found.add(key)
        where = f"{self._path} {key}[{position}]"
        if not isinstance(entry, dict):
            raise SourceError(f"{where}: expected an object, got {_shown(entry)}.")
        if key == "images":
            self.image_ids.append(_id(entry, "id", where))
            self._blob += _text(entry, "file_name", where).encode()
            self._ends.append(len(self._blob))
        elif key == "annotations":
            self.image_refs.append(_id(entry, "image_id", where))
            self.category_refs.append(_id(entry, "category_id", where))
        else:
            self._add_category(entry, where)

    def _add_category(self, entry: dict[str, Any], where: str) -> None:
        self.category_ids.append(_id(entry, "id", where))
        if len(self.category_ids) > _MAX_CATEGORIES:
            raise SourceError(f"{where}: expected at most {_MAX_CATEGORIES:,} categories.")
        name = clean_class_name(_text(entry, "name", where), where)
        own = repr(entry["id"])
        if self._names.setdefault(name, own) != own:
            raise SourceError(
                f"{where}: expected a name of its own for the category of id {own}, got {name!r} "
                f"as that of id {self._names[name]} has. Rename one, or give both one id."
            )

    def check_names(self) -> tuple[str, ...]:
        """Returns the names of the categories."""
        return tuple(self._names)

    def file_names(self) -> Keys:
        """Returns the file names of the images."""
        return Keys(np.frombuffer(bytes(self._blob), np.uint8), np.array(self._ends, "<u8"))


@dataclasses.dataclass(frozen=True, eq=False)
class _SortedIds:
    """Ids in their order, and the position of each."""

    ids: NDArray[np.uint64]
    positions: NDArray[np.int32]


def _sorted_ids(
    ids: "array.array[int]", duplicate: Callable[[tuple[int, int]], SourceError]
) -> _SortedIds:
    values = np.array(ids, np.uint64)
    order = np.argsort(values, kind="stable").astype(np.int32)
    ordered = values[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(again):
        first = int(again[np.argmin(order[again + 1])])
        raise duplicate((int(order[first]), int(order[first + 1])))
    return _SortedIds(ordered, order)


def _find(
    path: pathlib.Path, field: str, refs: "array.array[int]", known: _SortedIds
) -> NDArray[np.int32]:
    """Returns the position of what each annotation refers to."""
    values = np.array(refs, np.uint64)
    places = np.minimum(np.searchsorted(known.ids, values), len(known.ids) - 1)
    wrong = np.flatnonzero(known.ids[places] != values)
    if len(wrong):
        position = int(wrong[0])
        (entry,) = _entries(path, "annotations", [position])
        what = "image" if field == "image_id" else "category"
        raise SourceError(
            f"{path} annotations[{position}]: {field}: no {what} has the id {entry[field]!r}; such "
            f"annotations in all: {len(wrong):,}. Add it, or remove them."
        )
    return known.positions[places]


def _duplicate(path: pathlib.Path, key: str, at: tuple[int, int]) -> SourceError:
    _, second = _entries(path, key, at)
    return SourceError(
        f"{path} {key}[{at[1]}]: expected an id of its own, got {second['id']!r} as {key}[{at[0]}] "
        "has. Remove one of them, or number them anew."
    )


def _entries(path: pathlib.Path, key: str, positions: Iterable[int]) -> Iterator[Any]:
    """Yields entries by their rising positions: only errors need them again."""
    wanted = set(positions)
    for _, position, entry in walk_lists(path, (key,)):
        if position in wanted:
            yield entry
            wanted.discard(position)
            if not wanted:
                return


def _id(entry: dict[str, Any], field: str, where: str) -> int:
    value = entry.get(field)
    if isinstance(value, int) and not isinstance(value, bool):
        return value & _MASK
    if isinstance(value, str) and value:
        return xxhash.xxh3_64_intdigest(value.encode("utf-8", "surrogatepass"))
    raise SourceError(
        f"{where}: {field}: expected a whole number or text, got {_shown(value)}. Correct it."
    )


def _text(entry: dict[str, Any], field: str, where: str) -> str:
    value = entry.get(field)
    # JSON can hold half a character, which no file's name is.
    if not isinstance(value, str) or value != value.encode(errors="replace").decode():
        raise SourceError(f"{where}: {field}: expected text, got {_shown(value)}. Correct it.")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
