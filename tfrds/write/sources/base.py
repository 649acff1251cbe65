"""What every source gives.

Columns of light references, and for a shard's rows the inputs that workers resolve.

A source never passes pixels through the plan. `scan` runs once in the building process; `inputs`
makes the small picklable object that a worker process turns into images, one by one.
"""

import dataclasses
import unicodedata
from collections import Counter
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.columns import Column
from tfrds.disk.keys import Keys
from tfrds.errors import SourceError

# An encoded image (the bytes of a file) or its pixels, uint8 [height, width] or [height, width,
# channels].
Image: TypeAlias = "bytes | NDArray[np.uint8]"

# What a label is: one class, one of two, any number of classes, numbers, or nothing.
SourceLabelKind: TypeAlias = Literal["single", "binary", "multi", "value", "none"]


@dataclasses.dataclass(frozen=True)
class LabelLists:
    """The classes of examples that may have any number of them.

    Attributes:
      numbers: int32 [m], positions in the class names, those of each example rising and each once.
      offsets: uint64 [n + 1], where each example's start, and the end.
    """

    numbers: NDArray[np.int32]
    offsets: NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class References:
    """All labelled images of a source, as columns; row i is the source's i-th image.

    Attributes:
      keys: unique names, as docs/FORMAT.md says.
      label_kind: what `labels` are.
      labels: of "single" and "binary" int32 [n], positions in `class_names`; of "multi" lists of
        them; of "value" float32 [n] or [n, k]; of "none" None.
      class_names: the source's own, in its own order, NFC; of "value" and "none" none.
      has_numbered_classes: labels are numbers whose order must stay; class names are then "0", "1",
        ...
      splits: int32 [n], positions in `split_names`; None where the source has no splits.
      split_names: names of the source's splits.
      groups: int32 [n], positions in `group_names`, of what must stay together in one split; None
        where the source knows no groups.
      group_names: names of the source's groups in UTF-8, each once.
      weights: float32 [n], finite and at least 0, of the examples in the loss; None where the
        source has none.
      columns: more values beside each image, each column [n], by `Column.of`; they become features
        of their names.
      sizes: int64 [n], bytes of each image as the source holds it.
      stamps: uint64 [n], of each image: another one where the image may have changed since. Never
        stored in a dataset: it may depend on the machine.
      shape: (height, width, channels) as far as known: None for height and width where images have
        several sizes, None for all of it where files must be opened to know.
      left_out: how many files were left out, by kind.
      notes: what the source decided by itself, for the user to read.
    """

    keys: Keys
    label_kind: SourceLabelKind = "single"
    labels: "NDArray[np.int32] | LabelLists | NDArray[np.float32] | None"
    class_names: tuple[str, ...] = ()
    has_numbered_classes: bool = False
    splits: NDArray[np.int32] | None = None
    split_names: tuple[str, ...] = ()
    groups: NDArray[np.int32] | None = None
    group_names: Keys = dataclasses.field(default_factory=lambda: Keys.from_iterable(()))
    weights: NDArray[np.float32] | None = None
    columns: tuple[Column, ...] = ()
    sizes: NDArray[np.int64]
    stamps: NDArray[np.uint64]
    shape: tuple[int | None, int | None, int] | None = None
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)
    notes: tuple[str, ...] = ()


class Inputs(Protocol):
    """The images of one shard, picklable; resolved in a worker process."""

    def __len__(self) -> int:
        """Returns the number of images."""

    def name(self, position: int) -> str:
        """Returns what the user knows the image as, for errors."""

    def read(self, position: int) -> Image:
        """Returns the image. Raises SourceError or OSError where it cannot be read."""


class Source(Protocol):
    """Where labelled images come from."""

    kind: str
    # Whether the pixels lie in this process's memory or a mapped file, so that workers would only
    # copy them.
    is_in_memory: bool

    def scan(self) -> References:
        """Finds all labelled images, in an order that depends on the content alone."""

    def inputs(self, rows: NDArray[np.int64]) -> Inputs:
        """Returns the images at `rows` of what `scan` gave, in that order."""


def with_label_kind(source: Source, kind: str | None) -> Source:
    """Returns the source that gives labels of this kind, where it can give several.

    Args:
      source: of labelled images.
      kind: one of `tfrds.spec.LABEL_KINDS`; None: the source decides.
    """
    change = getattr(source, "with_label_kind", None)
    return change(kind) if kind is not None and change else source


def clean_class_name(name: Any, where: str) -> str:
    """Returns a class's name in NFC.

    Raises:
      SourceError: empty, white space at an edge, or a line break: TFDS would not read it back as it
        was written.
    """
    clean = unicodedata.normalize("NFC", str(name))
    if not clean or clean != clean.strip() or len(clean.splitlines()) != 1:
        raise SourceError(
            f"{where}: a class's name must not be empty, start or end with white space or hold a "
            "line break, "
            f"got {str(name)!r}. Rename it."
        )
    return clean


def check_distinct(names: list[str], where: str) -> None:
    """Raises SourceError where two class names are the same text in Unicode's NFC form."""
    for name, count in Counter(names).items():
        if count > 1:
            raise SourceError(
                f"{where}: {count} class names are equal after Unicode normalisation (NFC): "
                f"{name!r}. "
                "Rename all but one."
            )
