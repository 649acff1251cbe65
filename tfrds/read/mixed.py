"""Several datasets read as one, in fixed proportions.

Gets a reader for each dataset, gives one whose rows are those of all, behind one another;
`pipeline.py` reads it as it does a single one. No TensorFlow.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import ConfigError
from tfrds.read.cut import Cut
from tfrds.read.fetch import UINT8, Batch, SplitReader


class MixedReader:
    """Random access to the records of several datasets; rows count through them in their order.

    Args:
      readers: of datasets whose images are all raw and of one shape, or all JPEG and PNG.
      counts: rows of each.
    """

    def __init__(self, readers: Sequence[SplitReader], counts: Sequence[int]) -> None:
        self._readers = tuple(readers)
        self.firsts = np.cumsum([0, *counts[:-1]])
        self.digests = [digest for reader in readers for digest in reader.digests]
        self.is_raw = readers[0].is_raw
        self.has_large_images = readers[0].has_large_images
        self.is_slow = any(reader.is_slow for reader in readers)

    def open_keys(self) -> None:
        """Maps the keys as well; they are needed only by who asks for them."""
        for reader in self._readers:
            reader.open_keys()

    def fetch(
        self,
        rows: NDArray[np.int64],
        cut: Cut | None = None,
        dtype: "np.dtype[Any]" = UINT8,
    ) -> Batch:
        """Returns images and labels of `rows`, in that order; see `SplitReader.fetch`."""
        parts = []
        for chosen, reader, own in self._shares(rows):
            part = cut and Cut(cut.boxes[chosen], cut.size, cut.fill)
            parts.append((chosen, reader.fetch(own, part, dtype)))
        return Batch(
            images=_merge_images([(chosen, batch.images) for chosen, batch in parts], len(rows)),
            labels=_merge_labels([(chosen, batch.labels) for chosen, batch in parts]),
            heights=_merge([(chosen, batch.heights) for chosen, batch in parts]),
            widths=_merge([(chosen, batch.widths) for chosen, batch in parts]),
            is_jpeg=_merge([(chosen, batch.is_jpeg) for chosen, batch in parts]),
        )

    def column(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Returns the values of a column; see `SplitReader.column`."""
        shares = self._shares(rows)
        return _merge([(chosen, reader.column(name, own)) for chosen, reader, own in shares])

    @property
    def is_waiting(self) -> bool:
        """Whether reads of any of them wait for the storage."""
        return any(reader.is_waiting for reader in self._readers)

    def reads_ahead(self, rows: NDArray[np.int64]) -> list[Callable[[], None]]:
        """Returns calls that bring `rows` into memory; see `SplitReader.reads_ahead`."""
        return [read for _, reader, own in self._shares(rows) for read in reader.reads_ahead(own)]

    def describe(self, rows: NDArray[np.int64]) -> Batch:
        """Raises TypeError: mixtures are never streamed."""
        raise TypeError("a mixture is read by index")

    def keys(self, rows: NDArray[np.int64]) -> list[bytes]:
        """Returns the UTF-8 keys of `rows`; call `open_keys` before."""
        parts = [(chosen, reader.keys(own)) for chosen, reader, own in self._shares(rows)]
        return _merge_lists(parts, len(rows))

    def tfds_ids(self, rows: NDArray[np.int64]) -> list[bytes]:
        """Returns what TFDS calls each of `rows`."""
        parts = [(chosen, reader.tfds_ids(own)) for chosen, reader, own in self._shares(rows)]
        return _merge_lists(parts, len(rows))

    def _shares(
        self, rows: NDArray[np.int64]
    ) -> list[tuple[NDArray[np.int64], SplitReader, NDArray[np.int64]]]:
        """Returns (places in `rows`, reader, its own rows) for each dataset that has some."""
        numbers = np.searchsorted(self.firsts, rows, side="right") - 1
        shares = []
        for number in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            shares.append((chosen, self._readers[number], rows[chosen] - self.firsts[number]))
        return shares


def quotas_of(weights: Sequence[float], num_examples: int) -> list[int]:
    """Returns how many of `num_examples` each dataset gives: by weight, largest remainders first.

    Raises:
      ConfigError: a dataset would give none.
    """
    exact = np.array(weights) / sum(weights) * num_examples
    quotas = np.floor(exact).astype(int)
    left = num_examples - int(quotas.sum())
    quotas[np.argsort(quotas - exact, kind="stable")[:left]] += 1
    if quotas.min() < 1:
        raise ConfigError(
            f"mix: an epoch of {num_examples:,} examples has none of the dataset with weight "
            f"{weights[int(quotas.argmin())]:g}. Raise num_examples."
        )
    return list(map(int, quotas))


def _merge(parts: Sequence[tuple[NDArray[np.int64], NDArray[Any]]]) -> NDArray[Any]:
    if len(parts) == 1:
        return parts[0][1]
    merged = np.empty(
        (sum(len(chosen) for chosen, _ in parts), *parts[0][1].shape[1:]), parts[0][1].dtype
    )
    for chosen, values in parts:
        merged[chosen] = values
    return merged


def _merge_labels(
    parts: Sequence[tuple[NDArray[np.int64], NDArray[Any] | None]],
) -> NDArray[Any] | None:
    """Returns the labels of all; None where there are none, which then none has."""
    labels = [(chosen, values) for chosen, values in parts if values is not None]
    return _merge(labels) if labels else None


def _merge_images(parts: Sequence[tuple[NDArray[np.int64], Any]], count: int) -> Any:
    is_list = isinstance(parts[0][1], list)
    return _merge_lists(parts, count) if is_list else _merge(parts)


def _merge_lists(parts: Sequence[tuple[NDArray[np.int64], list[bytes]]], count: int) -> list[bytes]:
    merged = [b""] * count
    for chosen, values in parts:
        for place, value in zip(chosen.tolist(), values, strict=True):
            merged[place] = value
    return merged
