"""Class names and their numbers: one mapping for all splits of a dataset.

Gets the classes as a source names them, gives names in the order of their numbers, and the number
of each of the source's; `labels.py` is next.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import ConfigError, SourceError
from tfrds.user_warning import warn_user
from tfrds.write.choices import did_you_mean, list_choices
from tfrds.write.sources.base import (
    LabelLists,
    References,
    check_distinct,
    clean_class_name,
)

# How much of a long mapping a note shows: `tfrds info --json` has it all.
_MAPPED = 20

_FROM_0 = " Numbers count from 0 here: subtract 1 from all labels if yours count from 1."


def sort_class_names(names: Iterable[str]) -> list[str]:
    """Returns class names in the order of their numbers.

    Exactly "0" to "n-1" as numbers, all others by code point.
    """
    by_code_point = sorted(names)
    as_numbers = [str(number) for number in range(len(by_code_point))]
    return as_numbers if set(as_numbers) == set(by_code_point) else by_code_point


def number_classes(
    references: References, given: Sequence[str] | None, known: Sequence[str] = ()
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Returns (class names in the order of their numbers, the number of each of the source's).

    Args:
      references: of the source, whose labels are classes.
      given: the names in their order, from the options; None: by the source, sorted.
      known: classes of an earlier version, which keep their numbers; others get those behind them.

    Raises:
      ConfigError: a given name cannot be used.
      SourceError: an image's class is none of those given.

    Returns:
      The names, and int32 [k], by the positions that the source's labels are.
    """
    positions = _positions(references)
    if given is None:
        names = (
            references.class_names
            if references.has_numbered_classes
            else sort_class_names(references.class_names)
        )
    else:
        try:
            names = [clean_class_name(name, "class_names") for name in given]
            check_distinct(list(names), "class_names")
        except SourceError as error:
            raise ConfigError(str(error)) from error
    names = tuple(names)
    if known:
        names = _behind(known, names, is_numbered=references.has_numbered_classes)
    if references.has_numbered_classes:
        highest = int(positions.max(initial=-1))
        if highest >= len(names):
            counts_from_1 = highest == len(names) and 0 not in positions
            raise SourceError(
                f"{_name_row(references, highest)}: expected a class number from 0 to "
                f"{len(names) - 1} for the {len(names)} class_names, got {highest}."
                f"{_FROM_0 if counts_from_1 else ''}"
            )
        number_of = np.arange(highest + 1, dtype=np.int32)
    else:
        numbers = {name: number for number, name in enumerate(names)}
        unknown = sorted(set(references.class_names) - set(numbers))
        if unknown:
            raise SourceError(
                f"class_names: the source has the class {unknown[0]!r}, expected one of "
                f"{list_choices(names)}.{did_you_mean(unknown[0], names)} Add it, or remove its "
                "images."
            )
        number_of = np.array([numbers[name] for name in references.class_names], np.int32)
    if not known:
        _warn_of_classes(names, number_of[positions], is_numbered=references.has_numbered_classes)
    return names, number_of


def _positions(references: References) -> NDArray[np.int32]:
    """Returns all classes that the labels are, as positions in the source's class names."""
    labels = references.labels
    return labels.numbers if isinstance(labels, LabelLists) else np.asarray(labels, np.int32)


def _name_row(references: References, position: int) -> str:
    """Returns the key of the first row whose label is this one, or of arrays its number."""
    row = int(np.flatnonzero(_positions(references) == position)[0])
    if isinstance(references.labels, LabelLists):
        row = int(np.searchsorted(references.labels.offsets, row, side="right")) - 1
    key = references.keys[row].decode()
    return f"labels[{row}]" if key.isdecimal() and int(key) == row else key


def _behind(known: Sequence[str], names: tuple[str, ...], *, is_numbered: bool) -> tuple[str, ...]:
    """Returns the known names, and behind them those of `names` that are none of these."""
    if not is_numbered:
        return (*known, *(name for name in names if name not in set(known)))
    # Numbers mean the classes of the earlier version, whatever these are called; more of them
    # continue names that are numbers themselves.
    are_numbers = list(known) == [str(number) for number in range(len(known))]
    return (*known, *names[len(known) :]) if are_numbers else tuple(known)


def _warn_of_classes(names: Sequence[str], labels: NDArray[np.int32], *, is_numbered: bool) -> None:
    if len(names) == 1:
        warn_user(
            f"All images are of the single class {names[0]!r}: a classifier learns nothing from "
            "them.",
        )
    folded = Counter(name.casefold() for name in names)
    alike = [name for name in names if folded[name.casefold()] > 1]
    if alike:
        warn_user(f"Class names differ only in upper and lower case: {list_choices(alike)}.")
    missing = [
        name
        for name, count in zip(names, np.bincount(labels, minlength=len(names)), strict=True)
        if not count
    ]
    if missing:
        hint = _FROM_0 if is_numbered and missing == list(names[:1]) else ""
        warn_user(f"No image is of the classes {list_choices(missing)}.{hint}")


def describe_order(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the mapping, where the orders by number and by code point differ; else nothing."""
    if not all(name.isdecimal() for name in names) or sorted(names) == sorted(names, key=int):
        return ()
    listed = [f"{number}: {name!r}" for number, name in enumerate(names[:_MAPPED])]
    more = f", ... {len(names):,} in all" if len(names) > _MAPPED else ""
    return (f"Classes by number: {', '.join(listed)}{more}",)
