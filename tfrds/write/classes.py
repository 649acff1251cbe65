"""Class names and their numbers: one mapping for all splits of a dataset.

Gets the classes as a source names them, gives names in the order of their numbers, and each image's
number; the plan is next.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import ConfigError, SourceError
from tfrds.user_warning import warn_user
from tfrds.write.sources.base import References, check_distinct, clean_class_name

# How much of a long list an error shows, and how much of a mapping: `tfrds info --json` has it all.
_LISTED, _MAPPED = 10, 20


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
    """Returns (class names in the order of their numbers, int32 [n] labels as these numbers).

    Args:
      references: of the source.
      given: the names in their order, from the options; None: by the source, sorted.
      known: classes of an earlier version, which keep their numbers; others get those behind them.

    Raises:
      ConfigError: a given name cannot be used.
      SourceError: an image's class is none of those given.
    """
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
        highest = int(references.labels.max())
        if highest >= len(names):
            row = int(references.labels.argmax())
            raise SourceError(
                f"labels[{row}]: expected a class number from 0 to {len(names) - 1} for the "
                f"{len(names)} class_names, got {highest}."
            )
        labels = references.labels
    else:
        numbers = {name: number for number, name in enumerate(names)}
        unknown = sorted(set(references.class_names) - set(numbers))
        if unknown:
            raise SourceError(
                f"class_names: the source has the class {unknown[0]!r}, expected one of "
                f"{_shortened(names)}. Add it, or remove its images."
            )
        labels = np.array([numbers[name] for name in references.class_names], np.int32)[
            references.labels
        ]
    if not known:
        _warn_of_classes(names, labels)
    return names, labels


def _behind(known: Sequence[str], names: tuple[str, ...], *, is_numbered: bool) -> tuple[str, ...]:
    """Returns the known names, and behind them those of `names` that are none of these."""
    if not is_numbered:
        return (*known, *(name for name in names if name not in set(known)))
    # Numbers mean the classes of the earlier version, whatever these are called; more of them
    # continue names that are numbers themselves.
    are_numbers = list(known) == [str(number) for number in range(len(known))]
    return (*known, *names[len(known) :]) if are_numbers else tuple(known)


def _warn_of_classes(names: Sequence[str], labels: NDArray[np.int32]) -> None:
    if len(names) == 1:
        warn_user(
            f"All images are of the single class {names[0]!r}: a classifier learns nothing from "
            "them.",
        )
    folded = Counter(name.casefold() for name in names)
    alike = [name for name in names if folded[name.casefold()] > 1]
    if alike:
        warn_user(f"Class names differ only in upper and lower case: {_shortened(alike)}.")
    missing = [
        name
        for name, count in zip(names, np.bincount(labels, minlength=len(names)), strict=True)
        if not count
    ]
    if missing:
        warn_user(f"No image is of the classes {_shortened(missing)}.")


def describe_order(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the mapping, where the orders by number and by code point differ; else nothing."""
    if not all(name.isdecimal() for name in names) or sorted(names) == sorted(names, key=int):
        return ()
    listed = [f"{number}: {name!r}" for number, name in enumerate(names[:_MAPPED])]
    more = f", ... {len(names):,} in all" if len(names) > _MAPPED else ""
    return (f"Classes by number: {', '.join(listed)}{more}",)


def _shortened(names: Sequence[str]) -> str:
    listed = ", ".join(repr(name) for name in names[:_LISTED])
    return f"[{listed}{f', ... {len(names):,} in all' if len(names) > _LISTED else ''}]"
