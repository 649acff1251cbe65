"""What the labels of a dataset are, and each example's: by the options and what the source gives.

Gets a source's references and the options, gives class names, the class numbers of the index and
the column that records hold as their label; the plan is next. `classes.py` numbers the classes.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.columns import Column, ColumnSpec
from tfrds.errors import ConfigError, SourceError
from tfrds.spec import CLASS_KINDS, BuildOptions
from tfrds.write.classes import number_classes
from tfrds.write.given_columns import check_values
from tfrds.write.sources.base import LabelLists, References

# What the index says of an example that has no single class.
NO_CLASS = -1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels of all examples, by the source's rows.

    Attributes:
      kind: one of `tfrds.spec.LABEL_KINDS`.
      class_names: in the order of their numbers; none where there are no classes.
      numbers: int32 [n], class numbers; `NO_CLASS` where an example has no single class.
      column: what each record holds as its label; None where it holds none.
    """

    kind: str
    class_names: tuple[str, ...]
    numbers: NDArray[np.int32]
    column: Column | None

    def take(self, rows: NDArray[np.int64]) -> "Labels":
        """Returns the labels of these rows, in that order."""
        column = self.column and self.column.take(rows)
        return dataclasses.replace(self, numbers=self.numbers[rows], column=column)

    def class_counts(self) -> list[int]:
        """Returns how many examples each class has, by class number."""
        return count_classes(self.numbers, self.column, len(self.class_names))

    @property
    def strata(self) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """(int32 [n], names) of what splits shall have equal shares of: classes, or nothing."""
        if self.numbers.size and self.numbers[0] == NO_CLASS:
            return np.zeros(len(self.numbers), np.int32), ("",)
        return self.numbers, self.class_names


def count_classes(numbers: NDArray[np.int32], column: Column | None, num_classes: int) -> list[int]:
    """Returns how many examples each class has.

    Args:
      numbers: int32 [n], as the index has them.
      column: of the labels.
      num_classes: 0 where labels are no classes.
    """
    if not num_classes:
        return []
    has_lists = column is not None and column.offsets is not None
    classes = np.asarray(column.values) if column and has_lists else numbers
    return [int(count) for count in np.bincount(classes, minlength=num_classes)]


def choose_labels(
    references: References,
    options: BuildOptions,
    label_key: str,
    known_classes: Sequence[str] = (),
) -> Labels:
    """Returns the labels that a build stores.

    Args:
      references: of the source.
      options: of the build.
      label_key: name of the label's feature.
      known_classes: of an earlier version, which keep their numbers.

    Raises:
      ConfigError: the source gives labels of another kind than is asked for, or class names are
        given for what has no classes.
      SourceError: an example's class is none of those given, or a value is no number.
    """
    found = references.label_kind
    kind = options.label_kind or found
    if kind not in ("none", found) and not {kind, found} <= set(CLASS_KINDS):
        raise ConfigError(
            f"label_kind: the source gives {_DESCRIPTIONS[found]}, got {kind!r}. Leave it out, or "
            'pass label_kind="none" to store images alone.'
        )
    if kind in ("none", "value"):
        if options.class_names is not None:
            raise ConfigError(
                f"class_names: {_DESCRIPTIONS[kind]} have no classes, got "
                f"{len(options.class_names)} names. Leave them out."
            )
        column = None if kind == "none" else _value_column(references, label_key)
        numbers = np.full(len(references.keys), NO_CLASS, np.int32)
        return Labels(kind=kind, class_names=(), numbers=numbers, column=column)
    names, number_of = number_classes(references, options.class_names, known_classes)
    if not names:
        raise SourceError(
            f"labels: expected at least one class, none of the {len(references.keys):,}"
            ' images has any. Pass class_names, or label_kind="none" to store images alone.'
        )
    labels = references.labels
    if isinstance(labels, LabelLists):
        return Labels(
            kind=kind,
            class_names=names,
            numbers=np.full(len(references.keys), NO_CLASS, np.int32),
            column=_list_column(labels, number_of, label_key),
        )
    if kind == "binary" and len(names) != 2:
        listed = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
        raise ConfigError(
            f"label_kind: 'binary' is for two classes, the source has {len(names)}: {listed}. "
            'Leave it out, or pass label_kind="single".'
        )
    numbers = number_of[labels]
    spec = ColumnSpec(name=label_key, dtype="int64")
    return Labels(kind=kind, class_names=names, numbers=numbers, column=Column(spec, numbers))


_DESCRIPTIONS = {
    "single": "one class for each image ('single')",
    "binary": "one of two classes for each image ('binary')",
    "multi": "any number of classes for each image ('multi')",
    "value": "numbers ('value')",
    "none": "images without labels ('none')",
}


def _value_column(references: References, label_key: str) -> Column:
    with np.errstate(over="ignore"):  # beyond float32 lies infinity
        values = np.asarray(references.labels, np.float32)
    column = Column.of(label_key, values)
    check_values(column, len(references.keys))
    wrong = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if len(wrong):
        row = int(wrong[0])
        raise SourceError(
            f"{references.keys[row].decode()}: expected finite numbers as its label, got "
            f"{values[row].tolist()}; such labels in all: {len(wrong):,}. Correct them, or leave "
            "these images out."
        )
    return column


def _list_column(labels: LabelLists, number_of: NDArray[np.int32], label_key: str) -> Column:
    numbers = number_of[labels.numbers]
    examples = np.repeat(np.arange(len(labels.offsets) - 1), np.diff(labels.offsets).astype(int))
    numbers = numbers[np.lexsort((numbers, examples))]
    return Column.of_lists(label_key, numbers, np.asarray(labels.offsets, "<u8"))
