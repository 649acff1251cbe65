"""A dict of sources, one for each split: `{"train": a, "test": b}`.

Gets sources, gives one: each key starts with its split's name, classes are the same by name or
number everywhere.
"""

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_split_name
from tfrds.disk.columns import Column, join_columns
from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources.base import (
    Image,
    Inputs,
    LabelLists,
    References,
    Source,
    with_label_kind,
)


def as_source(source: Any) -> Source:
    """Returns a source from what a user may pass: a path, a source, or a dict of them by split.

    What lies at a path is told by looking, see `recognise.py`.

    Raises:
      ConfigError: anything else, or a path that may be several things.
      SourceError: nothing is at the path, or nothing that can be read.
    """
    if isinstance(source, str | os.PathLike):
        # Here: some of the sources that it knows are made of several.
        from tfrds.write.sources.recognise import recognise

        return recognise(source).open()
    if isinstance(source, Mapping):
        return BySplit(source)
    if all(hasattr(source, member) for member in ("kind", "scan", "inputs")):
        return source  # type: ignore[no-any-return]
    raise ConfigError(
        "source: expected the path of a folder or file, a source such as "
        "tfrds.sources.Arrays(images, labels), or a dict of them by split, got "
        f"{type(source).__name__}."
    )


class BySplit:
    """One source made of several, each of them one split."""

    kind = "by_split"

    def __init__(self, sources: Mapping[str, Any]) -> None:
        if not sources:
            raise ConfigError("source: expected at least one split, got an empty dict.")
        self._sources = {
            check_split_name(name, "source"): as_source(source) for name, source in sources.items()
        }
        self.is_in_memory = all(source.is_in_memory for source in self._sources.values())
        self._starts = np.zeros(1, np.int64)  # filled by `scan`

    def scan(self) -> References:
        """Returns the references of all sources, one after the other.

        Raises:
          SourceError: a source is empty or has splits of its own, or some number their classes and
            some name them, or some have groups and some have none.
        """
        found = {name: source.scan() for name, source in self._sources.items()}
        for name, references in found.items():
            if not len(references.keys):
                raise SourceError(
                    f"split {name!r}: expected at least one labelled image, found none."
                )
            if references.split_names:
                raise SourceError(
                    f"split {name!r}: its source has splits of its own, "
                    f"{list(references.split_names)}. Pass the "
                    'source without a dict around it, or ImageFolder(path, layout="class").'
                )
        parts = list(found.values())
        _check_alike(found)
        if len({part.has_numbered_classes for part in parts}) > 1:
            raise SourceError(
                "labels: one split has class numbers and another class names. Use the same in all."
            )
        if len({part.groups is None for part in parts}) > 1:
            grouped = [name for name, part in found.items() if part.groups is not None]
            raise SourceError(
                f"groups: the sources of {grouped} have groups, the others have none. Give all of "
                "them groups, or none."
            )
        groups, group_names = _groups(parts)
        self._starts = np.cumsum([0, *(len(part.keys) for part in parts)])
        class_names = _union(parts)
        number = {name: position for position, name in enumerate(class_names)}
        return References(
            keys=Keys.from_iterable(
                name.encode() + b"/" + key for name, part in found.items() for key in part.keys
            ),
            label_kind=parts[0].label_kind,
            labels=_joined_labels(parts, number),
            class_names=class_names,
            has_numbered_classes=parts[0].has_numbered_classes,
            splits=np.repeat(np.arange(len(parts), dtype=np.int32), np.diff(self._starts)),
            split_names=tuple(found),
            groups=groups,
            group_names=group_names,
            weights=np.concatenate([part.weights for part in parts if part.weights is not None])
            if parts[0].weights is not None
            else None,
            columns=tuple(map(join_columns, zip(*(_by_name(part) for part in parts), strict=True))),
            sizes=np.concatenate([part.sizes for part in parts]),
            stamps=np.concatenate([part.stamps for part in parts]),
            shape=_common_shape(parts),
            left_out=sum((part.left_out for part in parts), Counter()),
            notes=tuple(note for part in parts for note in part.notes),
        )

    def with_label_kind(self, label_kind: Any) -> "BySplit":
        """Returns the same images with labels of this kind."""
        return BySplit(
            {name: with_label_kind(source, label_kind) for name, source in self._sources.items()}
        )

    def inputs(self, rows: NDArray[np.int64]) -> Inputs:
        """Returns the images at `rows`, which all lie in one split as every shard's rows do."""
        which = int(np.searchsorted(self._starts, rows[0], side="right")) - 1
        split, source = list(self._sources.items())[which]
        return _SplitInputs(split, source.inputs(rows - self._starts[which]))


class _SplitInputs:
    """Inputs of one source; a name says which, since two may have a file of the same path."""

    def __init__(self, split: str, inputs: Inputs) -> None:
        self._split = split
        self._inputs = inputs

    def __len__(self) -> int:
        return len(self._inputs)

    def name(self, position: int) -> str:
        return f"{self._split}/{self._inputs.name(position)}"

    def read(self, position: int) -> Image:
        return self._inputs.read(position)


def _check_alike(found: Mapping[str, References]) -> None:
    """Raises SourceError unless all sources have labels, weights and columns of one kind."""

    def traits(references: References) -> dict[str, Any]:
        values = references.labels
        return {
            "label_kind": references.label_kind,
            "shape of labels": values.shape[1:] if isinstance(values, np.ndarray) else (),
            "weights": references.weights is not None,
            "columns": [
                (column.spec.name, column.spec.dtype, column.spec.shape)
                for column in _by_name(references)
            ],
        }

    (first_name, first), *others = found.items()
    for name, references in others:
        for trait, value in traits(references).items():
            if value != traits(first)[trait]:
                raise SourceError(
                    f"split {name!r}: its source has {trait} {value}, that of {first_name!r} has "
                    f"{traits(first)[trait]}. Give all of them the same."
                )


def _by_name(references: References) -> list[Column]:
    return sorted(references.columns, key=lambda column: column.spec.name)


def _joined_labels(parts: list[References], number: Mapping[str, int]) -> Any:
    """Returns the labels of all sources, as positions in the names that `number` numbers."""
    if parts[0].label_kind == "none":
        return None
    if parts[0].label_kind == "value":
        return np.concatenate([np.asarray(part.labels) for part in parts])
    numbers = [np.array([number[name] for name in part.class_names], np.int32) for part in parts]
    if parts[0].label_kind != "multi":
        return np.concatenate(
            [own[part.labels] for own, part in zip(numbers, parts, strict=True)]  # type: ignore[index]
        )
    lists: list[Any] = [part.labels for part in parts]
    lengths = np.concatenate([np.diff(part.offsets) for part in lists])
    return LabelLists(
        np.concatenate([own[part.numbers] for own, part in zip(numbers, lists, strict=True)]),
        np.cumsum(np.concatenate([[0], lengths])).astype(np.uint64),
    )


def _union(parts: list[References]) -> tuple[str, ...]:
    """Returns all class names.

    Numbered ones are "0", "1", ..., so the longest list holds the others.
    """
    if parts[0].has_numbered_classes:
        return max((part.class_names for part in parts), key=len)
    return tuple(dict.fromkeys(name for part in parts for name in part.class_names))


def _groups(parts: list[References]) -> tuple[NDArray[np.int32] | None, Keys]:
    """Returns (groups, their names): of the same name in two sources, they are the same group."""
    number_of: dict[bytes, int] = {}
    columns = []
    for part in parts:
        own = [number_of.setdefault(name, len(number_of)) for name in part.group_names]
        if part.groups is not None:
            columns.append(np.array(own, np.int32)[part.groups])
    return np.concatenate(columns) if columns else None, Keys.from_iterable(number_of)


def _common_shape(parts: list[References]) -> tuple[int | None, int | None, int] | None:
    shapes = {part.shape for part in parts}
    channels = {shape and shape[2] for shape in shapes}
    if len(shapes) == 1:
        return shapes.pop()
    only = channels.pop() if len(channels) == 1 else None
    return (None, None, only) if only else None
