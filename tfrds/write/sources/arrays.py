"""Images and labels as arrays: numpy in memory, or memory-mapped `.npy` files.

Gets uint8 images and labels of any kind, or none, gives references whose keys are zero-padded row
numbers.
"""

import array
import copy
import os
from typing import Any, Literal

import numpy as np
import xxhash
from numpy.typing import ArrayLike, NDArray

from tfrds.checks import check_choice
from tfrds.disk.keys import Keys
from tfrds.errors import SourceError
from tfrds.spec import LABEL_KINDS
from tfrds.write.sources.base import (
    LabelLists,
    References,
    check_distinct,
    clean_class_name,
)

# Labels are int32 in the index; more classes than this are a mistake such as labels that are
# identifiers.
_MAX_CLASSES = 10_000_000


# Images are copied out in blocks of about this size to be hashed.
_HASHED_BYTES = 1 << 20


class Arrays:
    """Labelled images in arrays of the same length.

    Args:
      images: uint8 [n, height, width] or [n, height, width, channels], 0..255, or the path of a
        `.npy` file of such an array, which is mapped and not read whole.
      labels: [n], integers from 0 (the numbers of the classes) or strings (the names of the
        classes); for "multi" [n, num_classes], 0 and 1; for "value" numbers [n] or [n, k]; or the
        path of a `.npy` file; None: images alone.
      label_kind: "single", "binary", "multi", "value" or "none". None: "single", or "none" without
        labels.

    Raises:
      SourceError: wrong type, shape or length, or a label that is negative or no whole number.
    """

    kind = "arrays"
    is_in_memory = True

    def __init__(
        self,
        images: ArrayLike | os.PathLike[str] | str,
        labels: ArrayLike | os.PathLike[str] | str | None = None,
        *,
        label_kind: Literal["single", "binary", "multi", "value", "none"] | None = None,
    ) -> None:
        if label_kind is not None:
            check_choice("label_kind", label_kind, LABEL_KINDS)
        self._kind = label_kind or ("none" if labels is None else "single")
        self._images = _open(images, "images")
        self._labels = None if labels is None else _open(labels, "labels")
        if self._images.dtype != np.uint8 or self._images.ndim not in (3, 4):
            raise SourceError(
                "images: expected uint8 [n, height, width] or [n, height, width, channels], got "
                f"{self._images.dtype} {list(self._images.shape)}. Scale and cast to 0..255 first."
            )
        if 0 in self._images.shape[1:]:
            raise SourceError(
                f"images: expected sides of at least 1, got the shape {list(self._images.shape)}."
            )
        self._check_labels()

    def _check_labels(self) -> None:
        if self._labels is None:
            if self._kind != "none":
                raise SourceError(f"labels: expected some for label_kind={self._kind!r}, got None.")
            return
        ranks = {"multi": (2,), "value": (1, 2), "none": (0, 1, 2)}.get(self._kind, (1,))
        if self._labels.ndim not in ranks or len(self._labels) != len(self._images):
            rows = self._labels.ndim == 2 and len(self._labels) == len(self._images)
            raise SourceError(
                f"labels: expected one label for each of the {len(self._images):,} images, got the "
                f"shape {list(self._labels.shape)}."
                + (' Pass label_kind="multi" or "value" for rows of them.' if rows else "")
            )

    def with_label_kind(self, label_kind: Any) -> "Arrays":
        """Returns the same images with labels of this kind."""
        changed = copy.copy(self)
        changed._kind = label_kind
        changed._check_labels()
        return changed

    def scan(self) -> References:
        """Returns references in the order of the arrays."""
        count = len(self._images)
        shape = self._images.shape[1:]
        height, width, channels = shape if len(shape) == 3 else (*shape, 1)
        return References(
            keys=_numbers(count),
            **self._label_columns(),
            sizes=np.full(count, height * width * channels, np.int64),
            stamps=_stamps(self._images),
            shape=(height, width, channels),
        )

    def _label_columns(self) -> dict[str, Any]:
        """Returns the fields of the references that are about labels."""
        if self._labels is None or self._kind == "none":
            return {"label_kind": "none", "labels": None}
        if self._kind == "value":
            return {"label_kind": "value", "labels": _numbers_of(self._labels)}
        if self._kind == "multi":
            names = tuple(str(number) for number in range(self._labels.shape[1]))
            classes = {"class_names": names, "has_numbered_classes": True}
            return {"label_kind": "multi", "labels": _lists(self._labels), **classes}
        labels, class_names, numbered = _classes(self._labels)
        return {
            "label_kind": self._kind,
            "labels": labels,
            "class_names": class_names,
            "has_numbered_classes": numbered,
        }

    def inputs(self, rows: NDArray[np.int64]) -> "_ArrayInputs":
        """Returns the images at `rows`; copied out when the object is pickled, not before."""
        return _ArrayInputs(self._images, rows, rows)


class _ArrayInputs:
    """Images at `positions` of an array; `rows` are their numbers as the user knows them."""

    def __init__(
        self, images: NDArray[np.uint8], positions: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> None:
        self._images = images
        self._positions = positions
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker needs the shard's own images only; a mapped file would otherwise travel whole.
        own = np.asarray(self._images[self._positions])
        return _ArrayInputs, (own, np.arange(len(own)), self._rows)

    def name(self, position: int) -> str:
        return f"images[{self._rows[position]}]"

    def read(self, position: int) -> NDArray[np.uint8]:
        image: NDArray[np.uint8] = self._images[self._positions[position]]
        return image


def _open(values: Any, field: str) -> NDArray[Any]:
    if isinstance(values, str | os.PathLike):
        try:
            return np.lib.format.open_memmap(os.fspath(values), mode="r")
        except Exception as error:  # of a damaged header numpy raises almost anything
            raise SourceError(
                f"{field}: {os.fspath(values)} cannot be mapped as a .npy file: {error}."
            ) from error
    return np.asarray(values)


def _stamps(images: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Returns a hash of each image, or of a mapped file's size and time of change."""
    if isinstance(images, np.memmap) and images.filename:
        status = os.stat(images.filename)
        text = f"{status.st_size} {status.st_mtime_ns}".encode()
        return np.full(len(images), xxhash.xxh3_64_intdigest(text), np.uint64)
    size = int(np.prod(images.shape[1:]))
    together = max(_HASHED_BYTES // size, 1)
    hashes = array.array("Q")
    for first in range(0, len(images), together):
        block = memoryview(images[first : first + together].tobytes())
        hashes.extend(
            xxhash.xxh3_64_intdigest(block[start : start + size])
            for start in range(0, len(block), size)
        )
    return np.array(hashes, np.uint64)


def _numbers(count: int) -> Keys:
    digits = len(str(max(count - 1, 0)))
    return Keys.from_iterable(b"%0*d" % (digits, number) for number in range(count))


def _numbers_of(labels: NDArray[Any]) -> NDArray[np.float32]:
    if labels.dtype.kind not in "biuf":
        raise SourceError(f'labels: label_kind="value" takes numbers, got {labels.dtype}.')
    return labels.astype(np.float32)


def _lists(labels: NDArray[Any]) -> LabelLists:
    """Returns the classes of rows of 0 and 1."""
    wrong = np.argwhere((labels != 0) & (labels != 1)) if labels.dtype.kind in "biuf" else [(0, 0)]
    if len(wrong):
        row, column = map(int, wrong[0])
        raise SourceError(
            f'labels[{row}, {column}]: label_kind="multi" takes rows of 0 and 1, one for each '
            f"class, got {labels[row, column]}."
        )
    rows, classes = np.nonzero(labels)
    counts = np.bincount(rows, minlength=len(labels))
    return LabelLists(classes.astype(np.int32), np.cumsum([0, *counts]).astype(np.uint64))


def _classes(labels: NDArray[Any]) -> tuple[NDArray[np.int32], tuple[str, ...], bool]:
    """Returns (labels as positions, class names, whether the classes are numbers)."""
    if labels.dtype.kind in "iu":
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < _MAX_CLASSES:
            bad = labels.min() if labels.min() < 0 else labels.max()
            row = int(np.flatnonzero(labels == bad)[0])
            raise SourceError(
                f"labels[{row}]: expected a class number from 0 to {_MAX_CLASSES - 1:,}, got {bad}."
            )
        highest = int(labels.max()) if len(labels) else -1
        return labels.astype(np.int32), tuple(str(number) for number in range(highest + 1)), True
    if labels.dtype.kind == "O":
        wrong = next((row for row, label in enumerate(labels) if not isinstance(label, str)), None)
        if wrong is not None:
            raise SourceError(
                f"labels[{wrong}]: expected a string as in the other rows, got {labels[wrong]!r}."
            )
    if labels.dtype.kind in "UO":
        names, positions = np.unique(labels, return_inverse=True)
        clean = [clean_class_name(name, "labels") for name in names]
        check_distinct(clean, "labels")
        return positions.reshape(-1).astype(np.int32), tuple(clean), False
    raise SourceError(
        f"labels: expected integers from 0 or strings, got {labels.dtype}. Class numbers as floats "
        "or one-hot rows must be turned into integers first; for regression pass "
        'label_kind="value".'
    )
