"""Groups: examples that stay together in one split, such as all images of one patient.

Gets references and what names the groups, gives each example's group, and for fractions and folds
the split of each; `splits.py` calls it.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError, TfrdsError
from tfrds.write.key_hash import SPLIT_HASH, hash_keys, sort_by_hash
from tfrds.write.sources.base import References

_LISTED = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Groups:
    """The group of each example.

    Attributes:
      numbers: int32 [n], positions in `names`.
      names: of the groups, each once.
    """

    numbers: NDArray[np.int32]
    names: Keys


def find_groups(references: References, group: str | Callable[[str], str] | None) -> Groups | None:
    """Returns the groups that `group` of `BuildOptions` names, or the source's own, or None.

    Raises:
      ConfigError: a key that the expression does not match, or a function that fails or gives no
        text.
    """
    if group is None:
        if references.groups is None:
            return None
        return Groups(numbers=references.groups, names=references.group_names)
    return name_groups(references.keys, group)


def name_groups(keys: Keys, group: str | Callable[[str], str]) -> Groups:
    """Returns the groups that an expression or a function names.

    Raises:
      ConfigError: a key that the expression does not match, or a function that fails or gives no
        text.
    """
    name_of = _by_pattern(group) if isinstance(group, str) else _by_function(group)
    number_of: dict[str, int] = {}
    numbers = np.empty(len(keys), np.int32)
    unnamed: list[str] = []
    for row, key in enumerate(keys):
        text = key.decode()
        if name := name_of(text):
            numbers[row] = number_of.setdefault(name, len(number_of))
        else:
            unnamed.append(text)
    if unnamed:
        what = f"the expression {group!r}" if isinstance(group, str) else "the function"
        raise ConfigError(
            f"group: {what} must name a group for every key, got none for {_shortened(unnamed)}. "
            "Give these keys a group too, for example the key itself."
        )
    names = (name.encode("utf-8", "surrogatepass") for name in number_of)
    return Groups(numbers=numbers, names=Keys.from_iterable(names))


def _by_pattern(pattern: str) -> Callable[[str], str | None]:
    compiled = re.compile(pattern)
    part = min(compiled.groups, 1)

    def name_of(key: str) -> str | None:
        match = compiled.search(key)
        return match[part] if match else None

    return name_of


def _by_function(function: Callable[[str], str]) -> Callable[[str], str]:
    def name_of(key: str) -> str:
        try:
            name = function(key)
        except Exception as error:
            raise ConfigError(f"group: the function fails for the key {key!r}: {error!r}.") from (
                error
            )
        if not isinstance(name, str):
            raise ConfigError(
                f"group: the function must give the group's name as text, got {name!r} for the key "
                f"{key!r}. Return str(...)."
            )
        return name

    return name_of


def check_whole(
    groups: Groups | None,
    splits: NDArray[np.int32],
    names: Sequence[str],
    keys: Keys,
    error: type[TfrdsError],
) -> None:
    """Raises `error` where a group lies in two splits.

    Args:
      groups: of the examples; None: nothing is checked.
      splits: int32 [n], positions in `names`.
      names: of the splits.
      keys: of the examples.
      error: what to raise: whoever made the splits is at fault.
    """
    if groups is None:
        return
    present, starts = np.unique(groups.numbers, return_index=True)
    first_rows = np.zeros(len(groups.names), np.int64)
    first_rows[present] = starts
    moved = np.flatnonzero(splits != splits[first_rows[groups.numbers]])
    if not len(moved):
        return
    row = int(moved[0])
    group = int(groups.numbers[row])
    places = " and in ".join(
        f"{names[splits[other]]!r} ({keys[other].decode()!r})"
        for other in (int(first_rows[group]), row)
    )
    raise error(
        f"splits: the group {groups.names[group].decode('utf-8', 'replace')!r} lies in {places}; "
        "groups in more than one split in all: "
        f"{len(np.unique(groups.numbers[moved])):,}. Move their examples into one split, or name "
        "other groups with group=."
    )


def assign_groups(
    groups: Groups, labels: NDArray[np.int32], num_classes: int, fractions: Sequence[float]
) -> NDArray[np.int32]:
    """Returns the split of each example: groups whole, the classes' shares about as asked.

    The largest groups first, equal ones by the hash of their names: each goes, of the splits that
    still have room for it, to the one that lacks most of its classes. Groups of one example come
    last and fill what is missing in each class.

    Args:
      groups: of the examples.
      labels: int32 [n], below `num_classes`.
      num_classes: of the labels.
      fractions: of the splits, with the sum 1; of equally good splits the first is taken.

    Returns:
      int32 [n], positions in `fractions`.
    """
    hashes = hash_keys(groups.names, SPLIT_HASH)
    sizes = np.bincount(groups.numbers, minlength=len(groups.names))
    by_size = sort_by_hash(hashes, -sizes)
    larger = by_size[sizes[by_size] > 1]
    shares = np.array(fractions)
    splits = np.zeros(len(groups.names), np.int32)
    splits[larger] = _assign_larger(groups, labels, num_classes, shares, sizes, larger)
    rows = np.flatnonzero(sizes[groups.numbers] == 1)
    rows = rows[sort_by_hash(hashes[groups.numbers[rows]], labels[rows])]
    kept = np.flatnonzero(sizes[groups.numbers] > 1)
    assigned = count_by_split(
        labels[kept], splits[groups.numbers[kept]], num_classes, len(fractions)
    )
    missing = np.bincount(labels, minlength=num_classes)[:, None] * shares - assigned
    splits[groups.numbers[rows]] = _fill(labels[rows], missing)
    return splits[groups.numbers]


def count_by_split(
    labels: NDArray[np.int32], splits: NDArray[np.int32], num_classes: int, num_splits: int
) -> NDArray[np.int64]:
    """Returns int64 [num_classes, num_splits], the examples of each class in each split."""
    cells = labels.astype(np.int64) * num_splits + splits
    return np.bincount(cells, minlength=num_classes * num_splits).reshape(num_classes, num_splits)


def _assign_larger(
    groups: Groups,
    labels: NDArray[np.int32],
    num_classes: int,
    shares: NDArray[np.float64],
    sizes: NDArray[np.int64],
    larger: NDArray[np.int64],
) -> list[int]:
    """Returns the split of each group in `larger`, taken in that order.

    Every sum goes along the outer axis, so numpy adds in one order on every machine.
    """
    # The classes of each group, and which part of all examples of the class it holds.
    cells, counts = np.unique(
        groups.numbers.astype(np.int64) * num_classes + labels, return_counts=True
    )
    starts = np.searchsorted(cells, np.arange(len(groups.names) + 1) * num_classes)
    classes = cells % num_classes
    parts = (counts / np.bincount(labels, minlength=num_classes)[classes])[:, None]
    lacking = np.ones((num_classes, len(shares)))  # the part of each class's share still to come
    room = len(labels) * shares
    is_empty = np.ones(len(shares), bool)
    num_groups = int((sizes > 0).sum())
    splits = []
    for position, group in enumerate(larger.tolist()):
        own = slice(starts[group], starts[group + 1])
        size = sizes[group]
        candidates = room + 0.5 >= size  # to the nearest example
        if num_groups - position <= is_empty.sum():
            candidates = is_empty  # the last groups there are
        elif not candidates.any():
            candidates = room == room.max()
        gain = (parts[own] * lacking[classes[own]]).sum(axis=0)
        split = int(np.where(candidates, gain, -np.inf).argmax())
        lacking[classes[own], split] -= parts[own, 0] / shares[split]
        room[split] -= size
        is_empty[split] = False
        splits.append(split)
    return splits


def _fill(labels: NDArray[np.int32], missing: NDArray[np.float64]) -> NDArray[np.int32]:
    """Returns the split of each single example so that each class gets what is missing of it.

    Args:
      labels: int32 [n], sorted.
      missing: float64 [num_classes, num_splits]; below 0 where a split has too many.
    """
    splits = np.empty(len(labels), np.int32)
    room = missing.sum(axis=0)
    classes, starts, counts = np.unique(labels, return_index=True, return_counts=True)
    for label, start, count in zip(classes, starts, counts, strict=True):
        wanted = np.maximum(missing[label], 0)
        wanted *= count / math.fsum(wanted)
        whole = np.floor(wanted + 1e-9).astype(np.int64)  # 28.999999999999996 means 29
        # Of equal remainders those of the emptiest splits, so that small classes do not all leave
        # the same one out.
        by_remainder = np.lexsort((-room.round(9), -(wanted - whole).round(9)))
        whole[by_remainder[: count - whole.sum()]] += 1
        room -= whole
        splits[start : start + count] = np.repeat(np.arange(len(whole)), whole)
    return splits


def _shortened(keys: Iterable[str]) -> str:
    keys = list(keys)
    listed = ", ".join(map(repr, keys[:_LISTED]))
    return listed if len(keys) <= _LISTED else f"{listed}, ...; {len(keys):,} in all"
