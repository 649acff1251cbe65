"""CIFAR-10 and CIFAR-100 in their binary version: records of label bytes and planes of pixels.

Gets a folder, gives references; workers read each image from its place, so that nothing is read
whole but the label bytes. `cifar_files.py` says what the files are.
"""

import copy
import os
import pathlib
import socket
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import check_choice
from tfrds.disk.columns import Column
from tfrds.disk.keys import Keys
from tfrds.errors import ConfigError, DatasetError, SourceError
from tfrds.write.sources.base import References
from tfrds.write.sources.cifar_files import (
    CHANNELS,
    CIFAR10,
    PIXEL_BYTES,
    SIDE,
    Batch,
    Version,
    find_version,
    open_batch,
    read_names,
)


class Cifar:
    """CIFAR-10 or CIFAR-100 in a folder, as their binary downloads unpack to.

    Of CIFAR-100 the other label is kept as a column of numbers, `coarse_label` or `fine_label`, in
    the order of the names' file: it is one byte an image, and a model may be trained on both.

    Args:
      path: folder with `data_batch_1.bin` and so on, or with `train.bin` and `test.bin`.
      label: of CIFAR-100, "fine" (100 classes) or "coarse" (20). None: "fine".
      label_kind: "single", "binary" or "none". None: "single".

    Raises:
      ConfigError: an argument is none of these.
    """

    kind = "cifar"
    is_in_memory = True

    def __init__(
        self,
        path: os.PathLike[str] | str,
        *,
        label: Literal["fine", "coarse"] | None = None,
        label_kind: Literal["single", "binary", "none"] | None = None,
    ) -> None:
        if label is not None:
            check_choice("label", label, ("fine", "coarse"))
        self._path = pathlib.Path(path).expanduser()
        self._label = label
        self._label_kind = _checked_kind(label_kind)
        self._batches: list[Batch] = []  # by `scan`

    def with_label_kind(self, kind: Any) -> "Cifar":
        """Returns the same folder with labels of this kind.

        Raises:
          ConfigError: no label of CIFAR is of this kind.
        """
        other = copy.copy(self)
        other._label_kind = _checked_kind(kind)
        return other

    def scan(self) -> References:
        """Returns references in the order of the files and of the records in them.

        Raises:
          SourceError: a file is missing or of a size that no records have, a label is no class, or
            the folder holds the pickled version.
          ConfigError: `label` is given for CIFAR-10.
        """
        version = find_version(self._path)
        if self._label is not None and version is CIFAR10:
            raise ConfigError(
                f"label: is for CIFAR-100, got {self._label!r} for {self._path}, which holds "
                "CIFAR-10. Leave it out."
            )
        own = version.labels.index(self._label or version.labels[-1])
        batches = [open_batch(self._path, name, version) for name, _ in version.files]
        names = [read_names(self._path / file) for file in version.class_files]
        for place, known in enumerate(names):
            for batch in batches:
                batch.check_labels(place, known)
        counts = [len(batch.labels) for batch in batches]
        self._batches = batches
        labels = np.concatenate([batch.labels for batch in batches])
        split_names = tuple(dict.fromkeys(split for _, split in version.files))
        splits = [split_names.index(split) for _, split in version.files]
        is_labelled = self._label_kind != "none"
        return References(
            keys=_keys(batches),
            label_kind="single" if is_labelled else "none",
            labels=labels[:, own].astype(np.int32) if is_labelled else None,
            class_names=_class_names(names[own], labels[:, own]) if is_labelled else (),
            has_numbered_classes=is_labelled,
            splits=np.repeat(np.array(splits, np.int32), counts),
            split_names=split_names,
            columns=tuple(
                Column.of(f"{name}_label", np.ascontiguousarray(labels[:, place]))
                for place, name in enumerate(version.labels)
                if place != own and is_labelled
            ),
            sizes=np.full(sum(counts), PIXEL_BYTES, np.int64),
            stamps=np.concatenate([batch.stamps() for batch in batches]),
            shape=(SIDE, SIDE, CHANNELS),
            notes=(f"{self._path}: read as {_described(version, own, names[own])}.",),
        )

    def inputs(self, rows: NDArray[np.int64]) -> "_CifarInputs":
        """Returns the images at `rows` of the last scan."""
        starts = np.cumsum([0, *(len(batch.labels) for batch in self._batches)])
        which = np.searchsorted(starts, rows, side="right") - 1
        return _CifarInputs(
            [str(batch.path.absolute()) for batch in self._batches],
            self._batches[0].record_bytes,
            which.astype(np.int32),
            rows - starts[which],
        )


class _CifarInputs:
    """The records of one shard."""

    def __init__(
        self,
        paths: list[str],
        record_bytes: int,
        which: NDArray[np.int32],
        records: NDArray[np.int64],
    ) -> None:
        self._paths = paths
        self._record_bytes = record_bytes
        self._which = which
        self._records = records

    def __len__(self) -> int:
        return len(self._which)

    def name(self, position: int) -> str:
        """Returns the file and number of a record."""
        return f"{os.path.basename(self._paths[self._which[position]])} record " + str(
            self._records[position]
        )

    def read(self, position: int) -> NDArray[np.uint8]:
        """Returns uint8 [32, 32, 3].

        Raises:
          SourceError: the file ends before the record does.
          OSError: it cannot be read.
          DatasetError: it is not there.
        """
        path = self._paths[self._which[position]]
        end = (int(self._records[position]) + 1) * self._record_bytes
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            # No fault of this image: on a worker that does not see the file, all would be skipped.
            raise DatasetError(
                f"{path}: expected this file on {socket.gethostname()}, found none. Every worker "
                "must see it under the same path."
            ) from None
        try:
            data = os.pread(descriptor, PIXEL_BYTES, end - PIXEL_BYTES)
        finally:
            os.close(descriptor)
        if len(data) < PIXEL_BYTES:
            raise SourceError(
                f"{self.name(position)}: expected {PIXEL_BYTES:,} bytes of pixels, found "
                f"{len(data):,}: the file has become shorter. Copy it again."
            )
        planes = np.frombuffer(data, np.uint8).reshape(CHANNELS, SIDE, SIDE)
        return np.ascontiguousarray(planes.transpose(1, 2, 0))


def _class_names(names: tuple[str, ...], labels: NDArray[np.uint8]) -> tuple[str, ...]:
    return names or tuple(str(number) for number in range(int(labels.max()) + 1))


def _keys(batches: list[Batch]) -> Keys:
    return Keys.from_iterable(
        b"%s/%0*d" % (batch.path.stem.encode(), len(str(len(batch.labels) - 1)), number)
        for batch in batches
        for number in range(len(batch.labels))
    )


def _described(version: Version, own: int, names: tuple[str, ...]) -> str:
    which = f", {version.labels[own]} labels" if len(version.labels) > 1 else ""
    named = "" if names else f", without class names: there is no {version.class_files[own]}"
    return f"{version.name}{which}{named}"


def _checked_kind(kind: Any) -> str | None:
    if kind not in (None, "single", "binary", "none"):
        raise ConfigError(
            "label_kind: an image of CIFAR has one class, expected one of "
            f"{['single', 'binary', 'none']}, got {kind!r}."
        )
    return kind  # type: ignore[no-any-return]
