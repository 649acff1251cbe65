"""Class numbers and names as records of others hold them, and what is meant by them.

Gets the labels of all records, gives class names and their numbers; `record_labels.py` and
`../adopt.py` call it.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import SourceError
from tfrds.write.choices import did_you_mean, list_choices
from tfrds.write.sources.base import check_distinct, clean_class_name
from tfrds.write.sources.class_numbers import MAX_CLASSES
from tfrds.write.sources.record_arguments import RecordArguments

# With so many examples a class, the one without any is not missing by chance.
_MANY = 10


class ClassNumbers:
    """From what the records hold to class names and their numbers.

    Args:
      key: of the label's feature.
      row_of: returns the row of a label's position.
      name_row: returns the file and number of the record of a row.
    """

    def __init__(
        self, key: str, row_of: Callable[[int], int], name_row: Callable[[int], str]
    ) -> None:
        self._key = key
        self._row_of = row_of
        self._name_row = name_row

    def of_text(
        self,
        numbers: NDArray[np.int64],
        found: Mapping[bytes, tuple[int, int]],
        given: Sequence[str] | None,
    ) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """Returns (names, labels) where the records hold names."""
        names = []
        for data, (_, row) in found.items():
            where = f"{self._name_row(row)}: feature {self._key!r}"
            try:
                names.append(clean_class_name(data.decode(), where))
            except UnicodeDecodeError as error:
                raise SourceError(
                    f"{where}: expected the name of a class in UTF-8, got {data[:40]!r}. Pass "
                    "another label_key."
                ) from error
        check_distinct(names, f"feature {self._key!r}")
        if given is None:
            return tuple(names), numbers
        classes = _clean(given)
        number_of = {name: number for number, name in enumerate(classes)}
        for name, (_, row) in zip(names, found.values(), strict=True):
            if name not in number_of:
                raise SourceError(
                    f"{self._name_row(row)}: feature {self._key!r}: expected one of the "
                    f"class_names {list_choices(classes)}, got {name!r}."
                    f"{did_you_mean(name, classes)} Add it to class_names, or correct the records."
                )
        return classes, np.array([number_of[name] for name in names], np.int64)[numbers]

    def of_numbers(
        self, numbers: NDArray[np.int64], given: RecordArguments
    ) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """Returns (names, labels) where the records hold numbers."""
        names = None if given.class_names is None else _clean(given.class_names)
        offset = given.label_offset or 0
        if len(numbers) and given.label_offset is None:
            self._refuse_from_one(numbers, names)
        num_classes = MAX_CLASSES if names is None else len(names)
        # Without adding, which would wrap around.
        wrong = np.flatnonzero((numbers < -offset) | (numbers >= num_classes - offset))
        if len(wrong):
            position = int(wrong[0])
            added = f" with label_offset={offset:+}" if offset else ""
            which = "" if names is None else f" of the {num_classes:,} class_names"
            raise SourceError(
                f"{self._name_row(self._row_of(position))}: feature {self._key!r}: expected a "
                f"class number from 0 to {num_classes - 1:,}{which}, got "
                f"{int(numbers[position]) + offset}{added}; such labels in all: {len(wrong):,}. "
                "Correct the labels, label_offset or label_key."
            )
        numbers = numbers + offset
        if names is None:
            highest = int(numbers.max()) if len(numbers) else -1
            names = tuple(str(number) for number in range(highest + 1))
        return names, numbers

    def _refuse_from_one(self, numbers: NDArray[np.int64], names: Sequence[str] | None) -> None:
        low, high = int(numbers.min()), int(numbers.max())
        is_full = names is not None and high == len(names)
        if low == 1 and (is_full or len(numbers) >= _MANY * high):
            why = f"the {high:,} class_names" if is_full else f"{len(numbers):,} labels without a 0"
            raise SourceError(
                f"feature {self._key!r}: expected class numbers from 0, got 1 to {high:,} for "
                f"{why}. Pass label_offset=-1 if they count from 1, or label_offset=0 to keep them."
            )


def _clean(given: Sequence[str]) -> tuple[str, ...]:
    names = [clean_class_name(name, "class_names") for name in given]
    check_distinct(names, "class_names")
    return tuple(names)
