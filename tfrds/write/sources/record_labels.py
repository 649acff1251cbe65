"""The labels of records that others wrote: numbers, text, one or many, with or without a 0.

Gets the label's feature of each record, gives what `References` want. Class numbers that begin at 1
are a mistake that shifts every class: they are refused until the user has said what is meant.
"""

import array
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.foreign_example import (
    Feature,
    bytes_spans,
    count_values,
    float_values,
    int64_values,
)
from tfrds.disk.window import Window
from tfrds.errors import SourceError
from tfrds.write.sources.base import LabelLists
from tfrds.write.sources.class_numbers import MAX_CLASSES, make_lists, multi_hot_width
from tfrds.write.sources.record_arguments import RecordArguments
from tfrds.write.sources.record_class_numbers import ClassNumbers
from tfrds.write.sources.record_image import get_feature, name_kind
from tfrds.write.sources.record_layout import RecordLayout

# Of one example.
_MAX_VALUES = 1 << 20
_MAX_NAME_BYTES = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelsFound:
    """The labels of all examples, as `References` have them.

    Attributes:
      labels: by the label kind.
      class_names: in the order of the numbers.
      has_numbered_classes: whether that order must stay.
    """

    labels: NDArray[np.int32] | LabelLists | NDArray[np.float32] | None
    class_names: tuple[str, ...] = ()
    has_numbered_classes: bool = False


class RecordLabels:
    """Labels, record by record.

    Args:
      layout: of the records; it has a label.
      given: what the user says of labels.
    """

    def __init__(self, layout: RecordLayout, given: RecordArguments) -> None:
        self._key = layout.label_key or ""
        self._feature = layout.label_feature
        self._kind = layout.label_kind
        self._given = given
        self._numbers = array.array("q")
        self._floats = array.array("f")
        self._ends = array.array("q", [0])
        # Of text: its number and the first row that has it.
        self._names: dict[bytes, tuple[int, int]] = {}

    def add(self, window: Window, features: Mapping[bytes, Feature]) -> None:
        """Adds a record's label.

        Raises:
          ValueError: it has none, or another than it should.
        """
        feature = get_feature(features, self._key)
        most = 1 if self._kind == "single" else _MAX_VALUES
        try:
            values = self._values(window, feature, most)
        except ValueError as error:
            raise ValueError(f"feature {self._key!r}: {error}") from error
        if self._kind == "value":
            self._add_floats(values)
            return
        if self._kind == "single" and not values:
            raise ValueError(f"feature {self._key!r}: expected one value, got none")
        self._numbers.extend(values)
        if self._kind == "multi":
            self._ends.append(len(self._numbers))

    def finish(self, name_row: Callable[[int], str]) -> LabelsFound:
        """Returns all labels.

        Args:
          name_row: returns the file and number of the record of a row.

        Raises:
          SourceError: class numbers or names that cannot be meant.
        """
        if self._kind == "value":
            values = np.array(self._floats, np.float32)
            width = len(values) // max(len(self._ends) - 1, 1)
            return LabelsFound(labels=values if width == 1 else values.reshape(-1, width))
        numbers, lengths = np.array(self._numbers, np.int64), np.diff(np.array(self._ends))
        if self._kind == "multi" and self._feature != "bytes":
            _refuse_multi_hot(numbers, lengths, self._key)
        names = ClassNumbers(self._key, self._row_of, name_row)
        if self._feature == "bytes":
            classes, numbers = names.of_text(numbers, self._names, self._given.class_names)
        else:
            classes, numbers = names.of_numbers(numbers, self._given)
        labels: Any = numbers.astype(np.int32)
        if self._kind == "multi":
            rows = np.repeat(np.arange(len(lengths)), lengths)
            labels = make_lists(rows, labels, len(lengths))
        return LabelsFound(
            labels=labels,
            class_names=classes,
            has_numbered_classes=self._feature != "bytes" or self._given.class_names is not None,
        )

    def _values(self, window: Window, feature: Feature, most: int) -> list[Any]:
        if feature.kind != self._feature:
            if self._kind == "multi" and not count_values(window, feature):
                return []
            raise ValueError(
                f"expected {self._feature} as in other records, got {name_kind(feature)}"
            )
        if feature.kind == "int64":
            return int64_values(window, feature, most)
        if feature.kind == "bytes":
            spans = bytes_spans(window, feature, most)
            return [self._name_number(window, start, end) for start, end in spans]
        floats = float_values(window, feature, most).tolist()
        return floats if self._kind == "value" else [_as_class(value) for value in floats]

    def _add_floats(self, values: Sequence[float]) -> None:
        width = self._ends[1] if len(self._ends) > 1 else len(values)
        if len(values) != width or not values:
            expected = f"{width} as in the records before" if width else "at least one"
            raise ValueError(
                f"feature {self._key!r}: expected as many values, {expected}, got {len(values)}"
            )
        self._floats.extend(values)
        self._ends.append(len(self._floats))

    def _name_number(self, window: Window, start: int, end: int) -> int:
        if end - start > _MAX_NAME_BYTES:
            raise ValueError(
                f"expected the name of a class of at most {_MAX_NAME_BYTES:,} bytes, got "
                f"{end - start:,}"
            )
        name = window.take(start, end - start)
        known = self._names.get(name)
        if known is None:
            if len(self._names) >= MAX_CLASSES:
                raise ValueError(f"expected at most {MAX_CLASSES:,} different names, found more")
            row = len(self._numbers) if self._kind == "single" else len(self._ends) - 1
            known = self._names[name] = (len(self._names), row)
        return known[0]

    def _row_of(self, position: int) -> int:
        """Returns the row of the label at a position among all labels."""
        if self._kind == "single":
            return position
        return int(np.searchsorted(np.array(self._ends), position, side="right")) - 1


def _as_class(value: float) -> int:
    if not value.is_integer():
        raise ValueError(
            f'expected a whole number as the class, got {value:g}; label_kind="value" keeps numbers'
        )
    return int(value)


def _refuse_multi_hot(numbers: NDArray[np.int64], lengths: NDArray[np.int64], key: str) -> None:
    is_possible = len(numbers) > 0 and int(numbers.min()) >= 0
    width = multi_hot_width(lengths, int(numbers.max())) if is_possible else 0
    if width:
        raise SourceError(
            f"feature {key!r}: expected lists of class numbers, got {width} values of 0 and 1 in "
            'each record, which looks like one for each class. Pass label_kind="value" to keep '
            "them as numbers."
        )
