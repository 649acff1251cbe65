"""Images and labels in an `.npz` file, under the names that Keras, MedMNIST and people give them.

Gets the file, gives the references of its arrays. Images that are stored as they are get mapped;
packed ones are read once, after a look at their sizes. Python objects in it are never unpickled.
"""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_choice
from tfrds.errors import ConfigError, SourceError
from tfrds.spec import LABEL_KINDS
from tfrds.write.sources.array_splits import SplitArrays, join_splits
from tfrds.write.sources.base import Inputs, References, Source
from tfrds.write.sources.npz_file import IMAGE_WORDS, LABEL_WORDS, NpzFile, role_of

# The name of an array, or the names by split.
Names: TypeAlias = "str | Mapping[str, str] | None"


class Npz:
    """Arrays in an `.npz` file.

    Names such as `x_train`, `train_images` and `images`, with `y_train`, `train_labels` and
    `labels` beside them, are found by themselves; words such as train, val and test in them are
    splits. Images are uint8 [n, height, width] or [n, height, width, channels], 0..255. Labels of
    shape [n, 1] are taken for [n].

    Args:
      path: of the file.
      images: name of the array of images, or a dict of them by split. None: by their names.
      labels: likewise of the labels.
      label_kind: as for `Arrays`. None: "single".

    Raises:
      ConfigError: an argument that cannot be meant.
    """

    kind = "npz"
    is_in_memory = True

    def __init__(
        self,
        path: os.PathLike[str] | str,
        *,
        images: Names = None,
        labels: Names = None,
        label_kind: Literal["single", "binary", "multi", "value", "none"] | None = None,
    ) -> None:
        if label_kind is not None:
            check_choice("label_kind", label_kind, LABEL_KINDS)
        self._path = pathlib.Path(path).expanduser()
        self._images = _by_split("images", images)
        self._labels = _by_split("labels", labels)
        if self._images and self._labels and set(self._images) != set(self._labels):
            raise ConfigError(
                f"labels: expected those of the same splits as images, {sorted(self._images)}, got "
                f"{sorted(self._labels)}."
            )
        self._label_kind = label_kind
        self._source: Source | None = None  # by `scan`

    def with_label_kind(self, kind: Any) -> "Npz":
        """Returns the same arrays with labels of this kind."""
        return Npz(
            self._path,
            images=self._images or None,
            labels=self._labels or None,
            label_kind=kind,
        )

    def scan(self) -> References:
        """Returns references in the order of the arrays.

        Raises:
          SourceError: no such file, or a damaged one, or arrays that are missing or cannot be used.
        """
        file = NpzFile(self._path)
        chosen = self._choose(file)
        parts, listed = {}, []
        for split, (images, labels) in chosen.items():
            names = f"images {images!r}" + (f", labels {labels!r}" if labels else "")
            listed.append(f"{split}: {names}" if split else names)
            parts[split] = SplitArrays(
                f"{self._path}, {names}",
                file.open(images, is_mapped=True),
                _flat(file.open(labels), self._label_kind) if labels else None,
            )
        self._source = join_splits(parts, self._label_kind)
        references = self._source.scan()
        note = f"{self._path}: arrays read: {'; '.join(listed)}."
        return dataclasses.replace(references, notes=(note, *references.notes))

    def inputs(self, rows: NDArray[np.int64]) -> Inputs:
        """Returns the images at `rows` of the last scan."""
        if self._source is None:
            raise ConfigError("Npz: expected scan() to be called before inputs().")
        return self._source.inputs(rows)

    def _choose(self, file: NpzFile) -> dict[str, tuple[str, str | None]]:
        """Returns the names of the images and the labels of each split."""
        images = self._images or file.find(IMAGE_WORDS, "images")
        if self._label_kind == "none":
            return {split: (name, None) for split, name in images.items()}
        labels = self._labels or self._labels_beside(file, images)
        for split in images:
            if split not in labels:
                raise SourceError(
                    f"{file.name}: expected labels beside {images[split]!r}, found the arrays "
                    f'{file.listed()}. Pass labels=, or label_kind="none" for images alone.'
                )
        return {split: (name, labels[split]) for split, name in sorted(images.items())}

    def _labels_beside(self, file: NpzFile, images: Mapping[str, str]) -> dict[str, str]:
        found = file.find(LABEL_WORDS, "labels", may_be_missing=True)
        if not self._images:
            return found
        own = {split: role_of(name)[1] for split, name in images.items()}
        return {split: found[word] for split, word in own.items() if word in found}


def _by_split(field: str, names: Names) -> dict[str, str]:
    found = {"": names} if isinstance(names, str) else dict(names or {})
    if names is not None and not (found and all(isinstance(n, str) for n in found.values())):
        raise ConfigError(
            f"{field}: expected the name of an array, or a dict of them by split, got {names!r}."
        )
    return found


def _flat(labels: NDArray[Any], label_kind: str | None) -> NDArray[Any]:
    """Returns labels of shape [n, 1], as MedMNIST has them, as [n]."""
    is_column = labels.ndim == 2 and labels.shape[1] == 1 and label_kind != "multi"
    return labels[:, 0] if is_column else labels
