"""The idx files of MNIST and its family, gzipped or plain, alone or as a folder of them.

Gets files, gives the references of their arrays; `idx_file.py` opens each. Plain images are mapped,
gzipped ones are unpacked once.
"""

import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_choice
from tfrds.errors import ConfigError, SourceError
from tfrds.spec import LABEL_KINDS
from tfrds.write.sources.array_splits import SplitArrays, join_splits
from tfrds.write.sources.base import Inputs, References, Source
from tfrds.write.sources.idx_file import open_idx

# "train-images-idx3-ubyte.gz", "emnist-letters-test-labels-idx1-ubyte", "t10k-images.idx3-ubyte".
_NAME = re.compile(
    r"(?:(?P<prefix>.+)-)?(?P<split>[A-Za-z0-9]+)-(?P<what>images|labels)[-.]idx\d-\w+(?P<gz>\.gz)?"
)

# MNIST's test images are ten thousand.
_SPLITS = {"t10k": "test"}

_LISTED = 10


class Idx:
    """Images and labels in idx files.

    Args:
      images: path of a file of images, uint8 [n, height, width] or [n, height, width, channels]; or
        of a folder with files named as MNIST's are, `train-images-idx3-ubyte` and so on, plain or
        with `.gz` behind: "t10k" is the split "test".
      labels: path of the file of labels, [n]. None: the one beside the images whose name says so.
      prefix: of the files' names in a folder that holds several datasets, such as "emnist-letters".
      label_kind: as for `Arrays`. None: "single".

    Images of EMNIST lie on their side, as its files have them.

    Raises:
      ConfigError: an argument that cannot be meant.
    """

    kind = "idx"
    is_in_memory = True

    def __init__(
        self,
        images: os.PathLike[str] | str,
        labels: os.PathLike[str] | str | None = None,
        *,
        prefix: str | None = None,
        label_kind: Literal["single", "binary", "multi", "value", "none"] | None = None,
    ) -> None:
        if label_kind is not None:
            check_choice("label_kind", label_kind, LABEL_KINDS)
        self._images = pathlib.Path(images).expanduser()
        self._labels = None if labels is None else pathlib.Path(labels).expanduser()
        self._prefix = prefix
        self._label_kind = label_kind
        self._source: Source | None = None  # by `scan`

    def with_label_kind(self, kind: Any) -> "Idx":
        """Returns the same files with labels of this kind."""
        return Idx(self._images, self._labels, prefix=self._prefix, label_kind=kind)

    def scan(self) -> References:
        """Returns references in the order of the files.

        Raises:
          SourceError: a file is missing, damaged, no idx file or of another size than it says; or
            labels that do not go with the images.
          ConfigError: a folder of several datasets, or arguments that do not go with the path.
        """
        files = self._find()
        parts = {}
        for split, (images, labels) in files.items():
            where = f"{images} and {labels.name}" if labels else str(images)
            parts[split] = SplitArrays(
                where, open_idx(images), open_idx(labels) if labels else None
            )
        self._source = join_splits(parts, self._label_kind)
        references = self._source.scan()
        listed = "; ".join(
            f"{split}: {images.name}" if split else images.name
            for split, (images, _) in files.items()
        )
        note = f"{self._images}: files of images read: {listed}."
        return dataclasses.replace(references, notes=(note, *references.notes))

    def inputs(self, rows: NDArray[np.int64]) -> Inputs:
        """Returns the images at `rows` of the last scan."""
        if self._source is None:
            raise ConfigError("Idx: expected scan() to be called before inputs().")
        return self._source.inputs(rows)

    def _find(self) -> dict[str, tuple[pathlib.Path, pathlib.Path | None]]:
        """Returns the files of images and labels, by split; "" where there are no splits."""
        is_labelled = self._label_kind != "none"
        if self._images.is_dir():
            if self._labels is not None:
                raise ConfigError(
                    f"labels: expected None for the folder {self._images}, whose files are found "
                    f"by their names, got {str(self._labels)!r}."
                )
            found = self._choose(_look_into(self._images))
            return {
                split: (
                    files["images"],
                    _labels_of(files, files["images"]) if is_labelled else None,
                )
                for split, files in found.items()
            }
        if self._prefix is not None:
            raise ConfigError(
                f"prefix: is for folders, got {self._prefix!r} for the file {self._images}."
            )
        labels = self._labels
        if labels is None and is_labelled:
            labels = _labels_of(_beside(self._images), self._images)
        return {"": (self._images, labels if is_labelled else None)}

    def _choose(
        self, found: Mapping[str, Mapping[str, Mapping[str, pathlib.Path]]]
    ) -> dict[str, Mapping[str, pathlib.Path]]:
        """Returns the files of the dataset that is meant, by split, of the splits with images."""
        prefix = self._prefix
        if prefix is None and len(found) > 1:
            raise ConfigError(
                f"{self._images}: holds several datasets, {sorted(found)}. Pass prefix= with one "
                "of these."
            )
        chosen = next(iter(found.values()), {}) if prefix is None else found.get(prefix, {})
        splits = {split: files for split, files in sorted(chosen.items()) if "images" in files}
        if not splits:
            what = "<split>-images-idx3-ubyte" if prefix is None else f"{prefix}-<split>-images-..."
            raise SourceError(
                f"{self._images}: expected files named as {what}, plain or .gz, found "
                f"{sorted(found) or 'none'}."
            )
        return splits


def _look_into(folder: pathlib.Path) -> dict[str, dict[str, dict[str, pathlib.Path]]]:
    """Returns the idx files of a folder by prefix, split, and whether they are images or labels."""
    found: dict[str, dict[str, dict[str, pathlib.Path]]] = {}
    # Of a file that is there in both forms, the plain one comes first and stays: it is mapped.
    for path in sorted(folder.iterdir()):
        match = _NAME.fullmatch(path.name)
        if match and path.is_file():
            split = _SPLITS.get(match["split"], match["split"])
            files = found.setdefault(match["prefix"] or "", {}).setdefault(split, {})
            files.setdefault(match["what"], path)
    return found


def _beside(images: pathlib.Path) -> Mapping[str, pathlib.Path]:
    """Returns the files of the same split that lie beside a file of images."""
    match = _NAME.fullmatch(images.name)
    if match is None or not images.parent.is_dir():
        return {}
    split = _SPLITS.get(match["split"], match["split"])
    return _look_into(images.parent).get(match["prefix"] or "", {}).get(split, {})


def _labels_of(files: Mapping[str, pathlib.Path], images: pathlib.Path) -> pathlib.Path:
    if "labels" not in files:
        name = images.name.replace("images", "labels").replace("idx3", "idx1")
        raise SourceError(
            f"{images}: expected its labels beside it, such as {name}, found none. Add them, pass "
            'labels=, or label_kind="none" for images alone.'
        )
    return files["labels"]
