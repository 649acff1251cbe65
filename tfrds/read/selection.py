"""Which examples of a split are read, and with which weights: by class, key or example.

Gets what the user asked for, and the labels and keys from the index; gives positions in the split
and weights, before anything is decoded. No TensorFlow.
"""

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import is_int, is_number
from tfrds.errors import ConfigError

_SHOWN = 5


def select_examples(
    select: Any,
    labels: NDArray[np.int32],
    class_names: Sequence[str],
    keys: Callable[[], list[bytes]],
) -> NDArray[np.int64]:
    """Returns int64 [m], the chosen examples by their number in the split, in its order.

    Args:
      select: as `tfrds.ReadOptions` describes it.
      labels: int32 [n], of the examples of the split.
      class_names: of the dataset.
      keys: gives the n keys.

    Raises:
      ConfigError: it is none of the forms, names what is not there, or chooses nothing.
    """
    if isinstance(select, np.ndarray) and select.dtype == np.bool_:
        if select.shape != labels.shape:
            raise ConfigError(
                f"select: expected a boolean for each of the {len(labels):,} examples of the split,"
                f" got an array of {list(select.shape)}."
            )
        chosen = select
    elif isinstance(select, Mapping) and len(select) == 1 and set(select) <= {"classes", "keys"}:
        ((kind, values),) = select.items()
        chosen = (
            np.isin(labels, _class_numbers("select", list(values), class_names))
            if kind == "classes"
            else _by_keys(list(values), keys())
        )
    elif isinstance(select, list | tuple) and select:
        chosen = np.isin(labels, _class_numbers("select", select, class_names))
    else:
        raise ConfigError(
            'select: expected a list of classes, {"classes": [...]}, {"keys": [...]} or a boolean '
            f"array, got {_short(select)}."
        )
    if not chosen.any():
        raise ConfigError(
            f"select: none of the {len(labels):,} examples of the split is chosen by "
            f"{_short(select)}."
        )
    return np.flatnonzero(chosen)


def is_by_class(select: Any) -> bool:
    """Whether a selection names classes."""
    is_mapping = isinstance(select, Mapping)
    return isinstance(select, list | tuple) or (is_mapping and "classes" in select)


def class_groups(labels: NDArray[np.int32]) -> list[NDArray[np.int64]]:
    """Returns the examples of each class that has any, by their places in `labels`."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    return np.split(order, starts[1:])


@dataclasses.dataclass(frozen=True, eq=False)
class SampleWeights:
    """The weight of each example in the loss.

    Attributes:
      by_class: float32 [num_classes]; None: by example.
      by_example: float32 [n], in the order of the split; None: by class.
    """

    by_class: NDArray[np.float32] | None = None
    by_example: NDArray[np.float32] | None = None

    def of(
        self, examples: NDArray[np.int64], labels: NDArray[np.int32] | None
    ) -> NDArray[np.float32]:
        """Returns float32 [m], the weights of examples by their numbers or labels."""
        if self.by_class is not None and labels is not None:
            return self.by_class[labels]
        if self.by_example is None:
            return np.ones(len(examples), np.float32)
        return self.by_example[examples]


def parse_sample_weight(
    sample_weight: Any, num_examples: int, class_names: Sequence[str]
) -> SampleWeights:
    """Returns the weights of a mapping by class, or of an array by example.

    Args:
      sample_weight: as `tfrds.ReadOptions` describes it.
      num_examples: of the split.
      class_names: of the dataset.

    Raises:
      ConfigError: it is neither, or a weight is no number of at least 0.
    """
    if isinstance(sample_weight, Mapping):
        numbers = _class_numbers("sample_weight", list(sample_weight), class_names)
        weights = np.ones(len(class_names), np.float32)
        for number, weight in zip(numbers, sample_weight.values(), strict=True):
            if not is_number(weight) or weight < 0:
                raise ConfigError(
                    "sample_weight: expected a number of at least 0 for class "
                    f"{class_names[number]!r}, got {weight!r}."
                )
            weights[number] = weight
        return SampleWeights(by_class=weights)
    array = sample_weight if isinstance(sample_weight, np.ndarray) else np.empty(0, object)
    if array.shape != (num_examples,) or array.dtype.kind not in "fiu":
        raise ConfigError(
            f"sample_weight: expected a mapping by class, or an array of a number for each of the "
            f"{num_examples:,} examples of the split, got {_short(sample_weight)}."
        )
    if not np.isfinite(array).all() or array.min() < 0:
        raise ConfigError(
            f"sample_weight: expected numbers of at least 0, got {array.min():g} at example "
            f"{int(array.argmin())}."
        )
    return SampleWeights(by_example=array.astype(np.float32))


def _class_numbers(option: str, given: Sequence[Any], class_names: Sequence[str]) -> list[int]:
    numbers = []
    for value in given:
        if isinstance(value, str) and value in class_names:
            numbers.append(class_names.index(value))
        elif is_int(value) and 0 <= value < len(class_names):
            numbers.append(int(value))
        else:
            near = difflib.get_close_matches(str(value), class_names, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"{option}: unknown class {value!r}. Expected one of "
                f"{_short(list(class_names))}, or a number below {len(class_names)}.{hint}"
            )
    return numbers


def _by_keys(given: Sequence[Any], keys: Sequence[bytes]) -> NDArray[np.bool_]:
    wanted = {key.encode() if isinstance(key, str) else key for key in given}
    chosen = np.fromiter((key in wanted for key in keys), np.bool_, len(keys))
    if chosen.sum() < len(wanted):
        missing = sorted(map(str, given), key=str)
        present = {key.decode(errors="replace") for key in keys}
        missing = [key for key in missing if key not in present]
        raise ConfigError(
            f"select: {len(missing)} of {len(wanted)} keys are not in the split: "
            f"{_short(missing)}. Its keys look like {_short(sorted(present)[:1])}."
        )
    return chosen


def _short(value: Any) -> str:
    """Returns how a value looks in a message; long lists stop after some."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {list(value.shape)}"
    if isinstance(value, list | tuple) and len(value) > _SHOWN:
        return f"{list(value[:_SHOWN])} and {len(value) - _SHOWN} more"
    return repr(value)
