"""The labels in WebDataset shards, from the `.cls`, `.json` or `.txt` beside each image.

Gets these members one by one, gives the columns of `References` that say what labels are;
`webdataset.py` calls it for each example.
"""

import array
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import ConfigError, SourceError
from tfrds.write.choices import did_you_mean, list_choices
from tfrds.write.sources.archive_members import Place
from tfrds.write.sources.base import LabelLists, SourceLabelKind, check_distinct, clean_class_name
from tfrds.write.sources.class_numbers import MAX_CLASSES, make_lists, multi_hot_width

# Which member is the label, where several could be it: the first of these.
LABEL_ENDINGS = ("cls", "json", "txt")

# Fields of a `.json` that are labels, likewise.
_FIELDS = ("label", "cls")

# A label is small; more is something else, or meant to fill the memory.
_MAX_BYTES = 16 * 2**20

_MAX_FLOAT32 = float(np.finfo(np.float32).max)

# From so many texts on, of which most occur once, they are captions and no names of classes.
_MANY_TEXTS = 1_000


class WebDatasetLabels:
    """The labels of all examples.

    Args:
      label: a field of the `.json`, or ".cls", ".json" or ".txt" for that member; None: by the
        first example.
      label_kind: "single", "binary", "multi" or "value"; None: by the first example.
    """

    def __init__(self, label: str | None, label_kind: str | None) -> None:
        self._label = label
        self._ending: str | None = None
        self._field: str | None = None
        self._kind = "single" if label_kind == "binary" else label_kind
        self._is_given = label_kind is not None
        self._is_binary = label_kind == "binary"
        self._classes = _Classes()
        self._numbers = array.array("i")
        self._lengths = array.array("q")
        self._values = array.array("f")
        self._width: int | None = None

    @property
    def ending(self) -> str | None:
        """Of the member that is the label, without its dot; None before the first example."""
        return self._ending

    def add(self, where: str, members: Mapping[str, Place], read: Callable[[Place], bytes]) -> None:
        """Adds the label of the next example.

        Args:
          where: shard and key, for messages.
          members: those beside the image that may be a label, by their ending.
          read: reads one.

        Raises:
          SourceError: there is no label, or it is none of the kind of the others.
        """
        if self._ending is None:
            self._choose(where, members, read)
        ending = str(self._ending)
        if ending not in members:
            raise SourceError(
                f"{where}: expected its label in a member .{ending} beside the image, found "
                f"{_names(members)}. Members of one key must stand together. Add the label, or "
                'pass label_kind="none".'
            )
        value = self._value(where, _text(where, ending, members, read))
        if self._kind is None:
            self._kind = _kind_of(where, value)
        if self._kind == "value":
            self._add_value(where, value)
        else:
            self._add_classes(where, value)

    def _choose(
        self, where: str, members: Mapping[str, Place], read: Callable[[Place], bytes]
    ) -> None:
        """Decides by the first example where labels are."""
        if self._label is not None and self._label.startswith("."):
            self._ending = self._label[1:]
        elif self._label is not None:
            self._ending, self._field = "json", self._label
        else:
            self._ending = next((ending for ending in LABEL_ENDINGS if ending in members), "cls")
        if self._ending == "json" and self._field is None and "json" in members:
            fields = _fields(where, _text(where, "json", members, read))
            self._field = next((field for field in _FIELDS if field in fields), _FIELDS[0])
            if self._field not in fields and self._label is None and "txt" in members:
                self._ending = "txt"

    def _value(self, where: str, text: str) -> Any:
        """Returns what the member says: a number, a text, or a list of them."""
        if self._ending == "json":
            fields = _fields(where, text)
            if self._field not in fields:
                names = list(fields)
                raise SourceError(
                    f"{where}: its .json has no field {self._field!r}, it has "
                    f"{list_choices(names)}.{did_you_mean(str(self._field), names)} Pass the "
                    'label\'s field as label=, or label_kind="none".'
                )
            return fields[self._field]
        text = text.strip()
        if self._kind == "value" or self._ending == "cls":
            parse: Callable[[str], Any] = float if self._kind == "value" else int
            try:
                return parse(text)
            except ValueError:
                what, advice = "a number", ""
                if self._kind != "value":
                    what = "the whole number of a class"
                    advice = "Names of classes go into a .txt, or a field of the .json."
                _refuse(where, what, text, f"in its .{self._ending}", advice)
        return text

    def _add_classes(self, where: str, value: Any) -> None:
        if self._kind == "multi":
            if not isinstance(value, list):
                if not self._is_given:
                    _refuse(where, "a list of classes as in the other examples", value)
                value = [value]
            self._numbers.extend(self._classes.number(where, one) for one in value)
            self._lengths.append(len(value))
        else:
            if isinstance(value, list):
                _refuse(where, "one class", value, advice='Pass label_kind="multi" for lists.')
            self._numbers.append(self._classes.number(where, value))

    def _add_value(self, where: str, value: Any) -> None:
        values = value if isinstance(value, list) else [value]
        width = len(value) if isinstance(value, list) else 0
        if self._width is None:
            self._width = width
        if width != self._width or (isinstance(value, list) and not value):
            what = f"a list of {self._width} numbers" if self._width else "one number"
            _refuse(where, f"{what} as in the other examples" if len(self._values) else what, value)
        if not all(map(_is_float32, values)):
            _refuse(where, "finite numbers" if width else "a finite number", value)
        self._values.extend(values)

    def columns(self, where: str, order: NDArray[np.int64]) -> dict[str, Any]:
        """Returns the fields of `References` that say what labels are.

        Args:
          where: the archives, for messages.
          order: int64 [n], positions of the examples as they were added, in the order that they
            shall have.

        Raises:
          SourceError: class names that cannot be used.
        """
        kind: SourceLabelKind = "binary" if self._is_binary else "single"
        if self._kind == "value":
            values = np.array(self._values, np.float32)
            values = values.reshape(-1, self._width) if self._width else values
            return {"label_kind": "value", "labels": values[order]}
        names, number_of = self._classes.names_and_numbers(where)
        numbers = number_of[np.array(self._numbers, np.int32)]
        labels: NDArray[np.int32] | LabelLists = numbers
        if self._kind == "multi":
            lengths = np.array(self._lengths, np.int64)
            self._refuse_multi_hot(where, numbers, lengths)
            kind, labels = "multi", _in_order(numbers, lengths, order)
        else:
            self._check_no_captions(where, len(names), len(order))
            labels = numbers[order]
        return {
            "label_kind": kind,
            "labels": labels,
            "class_names": names,
            "has_numbered_classes": self._classes.is_numbered is True,
        }

    def note(self) -> str:
        """Returns where labels were found."""
        field = f", field {self._field!r}" if self._ending == "json" else ""
        kinds = {"multi": "lists of classes", "value": "numbers"}
        return f"{kinds.get(str(self._kind), 'classes')} from .{self._ending}{field}"

    def _refuse_multi_hot(
        self, where: str, numbers: NDArray[np.int32], lengths: NDArray[np.int64]
    ) -> None:
        is_possible = self._classes.is_numbered and len(numbers) > 0
        if width := multi_hot_width(lengths, int(numbers.max())) if is_possible else 0:
            raise SourceError(
                f"{where}: expected lists of class numbers in field {self._field!r}, got {width} "
                "values of 0 and 1 for each image, which looks like one for each class. Write the "
                'numbers of the classes that are 1, or pass label_kind="value" to keep them as '
                "numbers."
            )

    def _check_no_captions(self, where: str, num_texts: int, num_examples: int) -> None:
        is_chosen = self._ending == "txt" and self._label is None
        if is_chosen and num_texts >= _MANY_TEXTS and num_texts > num_examples // 2:
            raise SourceError(
                f"{where}: the .txt beside {num_examples:,} images hold {num_texts:,} different "
                "texts, as captions do and names of classes do not. Pass "
                'label_kind="none", or label=".txt" if they are classes.'
            )


class _Classes:
    """Classes by their names or numbers, whichever the first one is."""

    def __init__(self) -> None:
        self.is_numbered: bool | None = None
        self._position_of: dict[str, int] = {}
        self._names: list[str] = []
        self._highest = -1

    def number(self, where: str, value: Any) -> int:
        """Returns the class's number, or the position of its name in the order of appearance."""
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number and not isinstance(value, str):
            advice = 'Pass label_kind="value" for numbers.' if isinstance(value, float) else ""
            _refuse(where, "a class's name or whole number", value, advice=advice)
        if self.is_numbered is None:
            self.is_numbered = is_number
        if self.is_numbered != is_number:
            what = "number" if self.is_numbered else "name"
            _refuse(where, f"a class's {what} as in the other examples", value)
        if is_number:
            if not 0 <= value < MAX_CLASSES:
                _refuse(where, f"a class number from 0 to {MAX_CLASSES - 1:,}", value)
            self._highest = max(self._highest, value)
            return int(value)
        position = self._position_of.get(value)
        if position is None:
            if not _is_unicode(value):
                _refuse(where, "a class's name in Unicode", value)
            self._names.append(clean_class_name(value, where))
            position = self._position_of[value] = len(self._position_of)
        return position

    def names_and_numbers(self, where: str) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """Returns (names, the final number of each so far), in an order by the names alone."""
        if self.is_numbered:
            count = self._highest + 1
            return tuple(map(str, range(count))), np.arange(count, dtype=np.int32)
        names = self._names
        check_distinct(names, where)
        number_of = np.zeros(len(names), np.int32)
        order = sorted(range(len(names)), key=names.__getitem__)
        number_of[order] = np.arange(len(names))
        return tuple(names[position] for position in order), number_of


def check_label(label: object) -> None:
    """Raises ConfigError where `label` is neither a field's name nor a member's ending."""
    endings = [f".{ending}" for ending in LABEL_ENDINGS]
    is_field = isinstance(label, str) and label != "" and not label.startswith(".")
    if label is not None and not is_field and label not in endings:
        raise ConfigError(
            f"label: expected the name of a field of the .json, or one of {endings}, got {label!r}."
        )


def _text(
    where: str, ending: str, members: Mapping[str, Place], read: Callable[[Place], bytes]
) -> str:
    place = members[ending]
    # Both: what a packed member says of its size is not what it takes to read it.
    if max(place.size, place.packed) > _MAX_BYTES:
        raise SourceError(
            f"{where}: expected a label of at most {_MAX_BYTES:,} bytes, its .{ending} has "
            f"{max(place.size, place.packed):,}."
        )
    try:
        return read(place).decode("utf-8-sig")
    except ValueError as error:
        raise SourceError(f"{where}: its .{ending} cannot be read as text: {error}.") from error


def _fields(where: str, text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{where}: its .json cannot be read: {error}.") from error
    if not isinstance(fields, dict):
        _refuse(where, "a JSON object with the label as a field", fields, "in its .json")
    return fields


def _kind_of(where: str, value: Any) -> str:
    if isinstance(value, list):
        return "multi"
    if isinstance(value, float):
        _refuse(where, "a class", value, advice='Pass label_kind="value" for numbers.')
    return "single"


def _in_order(
    numbers: NDArray[np.int32], lengths: NDArray[np.int64], order: NDArray[np.int64]
) -> LabelLists:
    """Returns the lists in that order."""
    new_row = np.zeros(len(order), np.int64)
    new_row[order] = np.arange(len(order))
    return make_lists(np.repeat(new_row, lengths), numbers, len(order))


def _is_float32(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value) and abs(value) <= _MAX_FLOAT32
    except OverflowError:  # of an integer
        return False


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(where: str, expected: str, got: Any, place: str = "", advice: str = "") -> NoReturn:
    shown = repr(got)
    shown = shown if len(shown) <= 100 else f"{shown[:100]}..."
    raise SourceError(
        f"{where}: expected {expected}{f' {place}' if place else ''}, got {shown}."
        + (f" {advice}" if advice else "")
    )


def _names(members: Mapping[str, Place]) -> str:
    return ", ".join(f".{ending}" for ending in members) or "none"
