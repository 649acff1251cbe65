"""The columns that a source gives beside its images, checked: what is stored must be readable.

Gets a source's references, gives columns in the order of their names; `plan.py` is next. Sources of
ours give nothing else, those of others may.
"""

import itertools
from typing import Any

import numpy as np

from tfrds.disk.columns import ADDED_KEYS, DTYPES, MAX_VALUES, NAME, WEIGHT_KEY, Column
from tfrds.disk.keys import Keys
from tfrds.errors import SourceError
from tfrds.write.sources.base import References

# Names of the features of what is built; what others wrote may have other ones.
IMAGE_KEY, LABEL_KEY = "image", "label"

# No column can have these.
_TAKEN = frozenset((IMAGE_KEY, LABEL_KEY, *ADDED_KEYS))


def check_columns(references: References) -> tuple[Column, ...]:
    """Returns the source's weights and columns, in the order of their names.

    Raises:
      SourceError: a name cannot be a feature's, or two are equal; values of another number, dtype
        or shape than can be stored; weights that are none.
    """
    columns = list(references.columns)
    if references.weights is not None:
        columns.append(Column.of(WEIGHT_KEY, np.asarray(references.weights)))
    columns.sort(key=lambda column: column.spec.name)
    _check_names([column.spec.name for column in columns])
    for column in columns:
        check_values(column, len(references.keys))
        if isinstance(column.values, Keys):
            _check_text(column.spec.name, column.values)
        if column.spec.name == WEIGHT_KEY:
            _check_weights(column, references.keys)
    return tuple(columns)


def check_values(column: Column, num_examples: int) -> None:
    """Raises SourceError unless a column has a value for each example, of a kind that is stored."""
    spec = column.spec
    if len(column) != num_examples:
        raise SourceError(
            f"column {spec.name!r}: expected {num_examples:,} values, one for each image, got "
            f"{len(column):,}."
        )
    if spec.dtype not in DTYPES:
        raise SourceError(
            f"column {spec.name!r}: expected one of {list(DTYPES)}, got {spec.dtype}. Convert it."
        )
    shape: Any = spec.shape  # of any source
    if shape is None or len(shape) > 1 or (shape and not 0 < shape[0] <= MAX_VALUES):
        raise SourceError(
            f"column {spec.name!r}: expected one value for each image, or a vector of up to "
            f"{MAX_VALUES:,}, got values of the shape {list(shape or ('any',))}."
        )


def _check_names(names: list[str]) -> None:
    for name, after in itertools.zip_longest(names, names[1:]):
        if not NAME.fullmatch(name) or name in _TAKEN or name == after:
            raise SourceError(
                f"column {name!r}: expected a name of up to 64 letters, digits and underscores "
                f"that is there once and none of {sorted(_TAKEN)}. Rename it, or leave it "
                "out."
            )
    # They are parts of files' names, and some file systems know no upper and lower case.
    folded: dict[str, str] = {}
    for name in names:
        other = folded.setdefault(name.lower(), name)
        if other != name:
            raise SourceError(
                f"column {name!r}: {other!r} differs from it only in upper and lower case. Rename "
                "one of them."
            )


def _check_text(name: str, texts: Keys) -> None:
    if texts.is_ascii:
        return
    for row, text in enumerate(texts):
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise SourceError(
                f"column {name!r}, row {row:,}: expected text in UTF-8, got {text[:40]!r}."
            ) from error


def _check_weights(column: Column, keys: Keys) -> None:
    spec, weights = column.spec, column.values
    if (spec.dtype, spec.shape) != ("float32", ()):
        raise SourceError(
            f"column {spec.name!r}: expected the weight of each image as a float, got {spec.dtype}"
            f"{list(spec.shape or ())}."
        )
    weights = np.asarray(weights)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        row = int(wrong[0])
        raise SourceError(
            f"{keys[row].decode()}: expected a weight of at least 0, got {weights[row]:g}; such "
            f"weights in all: {len(wrong):,}."
        )
