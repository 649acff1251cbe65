"""Random access to one split expression of a prepared dataset: examples in numpy, by their number.

Gets the record of the build, the stretches of rows and the read options; gives a `DataSource` for
PyTorch's `DataLoader`, Grain, or a loop. No TensorFlow: worker processes may be forked or spawned.
"""

import dataclasses
import math
import operator
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np

from tfrds.disk.build_record import BuildRecord, read_build_record
from tfrds.errors import ConfigError, DatasetError
from tfrds.read.numpy_examples import Examples, ExampleSpec
from tfrds.read.resolve import choose_resize, choose_values, stored_shape
from tfrds.read.steps import FETCHED_TOGETHER
from tfrds.read_options import ReadOptions

# What a data source can honour: how shards are read, and what one example is. The loader that asks
# for examples decides about their order, batches and randomness; what to use there instead.
_STORAGE = ("verify_records", "engine", "cache")
_HONOURED = (
    *_STORAGE,
    "image_size",
    "resize",
    "interpolation",
    "dtype",
    "value_range",
    "normalize",
    "label_mode",
    "label_smoothing",
    "with_key",
)
_INSTEAD = {
    "augment": "Augment in the loader: torchvision's transforms, or Grain's random_map.",
    "shuffle": "Shuffle in the loader: DataLoader(shuffle=True), or Grain's shuffle().",
    "seed": "Pass it to the sampler: DataLoader(generator=...), or Grain's seed=.",
    "select": "Pass the numbers of the examples to torch.utils.data.Subset, or to a sampler.",
    "balance": "Use torch.utils.data.WeightedRandomSampler.",
    "sample_weight": "Look the weights up by label or key in the training loop.",
    "start": "Let the sampler begin later, or keep the iterator's state with Grain.",
    "worker": "Use torch.utils.data.DistributedSampler, or Grain's sharding.",
    "drop_remainder": "Use DataLoader(drop_last=True), or Grain's drop_remainder=.",
    "device": "Move batches in the training loop.",
}

# Values that a loop over a data source fetches together at most: whoever keeps one example keeps
# its neighbours too.
_TOGETHER_VALUES = 2**20


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceSpec:
    """Which examples a data source has and what they are: paths, names and numbers only.

    Attributes:
      directory: where the dataset lies.
      name, version: of the dataset.
      digest: of its record; another one means that the dataset was built again.
      stretches: (split, first row, count) in the order of the split expression.
      example: what each example is.
      options: the read options that were given and decide the examples, (name, value) each.
    """

    directory: str
    name: str
    version: str
    digest: str
    stretches: tuple[tuple[str, int, int], ...]
    example: ExampleSpec
    options: tuple[tuple[str, Any], ...]


class DataSource:
    """Examples by their number: `source[i]` is the i-th one of the dataset without shuffling.

    Example: dict of the image's key, dtype [height, width, channels], the label's key, by
    `label_mode`, and the columns' names, text as str; with "key", a str, where asked for. The
    values are those of `as_dataset` with the same read options, each a copy of its own. May be
    pickled to other processes, forked, and used by several threads at once.

    Args:
      spec: of the source.

    Raises:
      DatasetError: a file is missing or damaged; when opened or when its example is read.
    """

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._opened: Examples | None = None
        self._num_examples = sum(count for _, _, count in spec.stretches)
        values = math.prod(side or 1 for side in spec.example.output_shape)
        self._together = max(1, min(FETCHED_TOGETHER, _TOGETHER_VALUES // values))

    def __len__(self) -> int:
        return self._num_examples

    def __getitem__(self, number: SupportsIndex) -> dict[str, Any]:
        """Returns one example; a negative number counts from the end.

        Raises:
          IndexError: beyond the last one.
          TypeError: no integer.
        """
        return self.__getitems__((number,))[0]

    def __getitems__(self, numbers: Iterable[SupportsIndex]) -> list[dict[str, Any]]:
        """Returns several examples, fetched together: what a `DataLoader` calls for a batch.

        Their images are parts of one array where all have one shape: to keep a few of them for
        long, ask for each by itself.

        Raises:
          IndexError: one is beyond the last one.
          TypeError: one is no integer.
        """
        count = len(self)
        try:
            wanted = [operator.index(number) for number in numbers]
        except TypeError as error:
            raise TypeError(
                f"expected the number of an example: {error}. For several, pass "
                f'split="{self._spec.stretches[0][0]}[:100]", or call __getitems__(range(100)).'
            ) from error
        for number in (min(wanted, default=0), max(wanted, default=0)):
            if wanted and not -count <= number < count:
                raise IndexError(
                    f"expected the number of one of {count:,} examples, from {-count} to "
                    f"{count - 1}, got {number}."
                )
        return self._open().at(np.array(wanted, np.int64) % count)

    # Grain's name for the same.
    _getitems = __getitems__

    def __iter__(self) -> Iterator[dict[str, Any]]:
        count = len(self)
        for first in range(0, count, self._together):
            yield from self.__getitems__(range(first, min(first + self._together, count)))

    def __repr__(self) -> str:
        # Grain refuses to go on from a checkpoint of another source, and knows it by this text:
        # hence what decides the examples, and not where they lie.
        spec = self._spec
        split = "+".join(
            f"{name}[{first}:{first + count}]" for name, first, count in spec.stretches
        )
        options = "".join(f", {name}={value!r}" for name, value in spec.options)
        return (
            f"DataSource({spec.name}:{spec.version}, {split}{options}, digest={spec.digest[:16]})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # No maps and no pixels: another process opens the files when it reads the first example.
        return DataSource, (self._spec,)

    def _open(self) -> Examples:
        # Two threads may both open them at first; either is as good.
        if self._opened is None:
            spec = self._spec
            record = read_build_record(pathlib.Path(spec.directory))
            if record.digest != spec.digest:
                raise DatasetError(
                    f"{spec.directory}: built again since this data source was made: expected a "
                    f"record with the digest {spec.digest[:16]}, found {record.digest[:16]}. Make "
                    "the data source again."
                )
            self._opened = Examples(record, spec.stretches, spec.example)
        return self._opened


def open_source(
    record: BuildRecord, stretches: Sequence[tuple[str, int, int]], options: ReadOptions
) -> DataSource:
    """Returns the data source of one split expression, with its files found and opened.

    Args:
      record: of the build.
      stretches: (split, first row, count) in the order of the split expression.
      options: those of one example; see `_HONOURED`.

    Raises:
      ConfigError: an option is for the loader to honour, or does not fit the dataset.
      DatasetError: a file is missing or damaged.
    """
    changed = {name: getattr(options, name) for name in options.changed()}
    for name, value in changed.items():
        if name not in _HONOURED:
            raise ConfigError(
                f"{name}: a data source gives single examples in the order they are asked for, got "
                f"{name}={value!r}. {_INSTEAD.get(name, 'Leave it out.')}"
            )
    if options.engine == "stream":
        raise ConfigError(
            'engine: "stream" reads from front to end, and a data source any example. Pass "mmap" '
            'or "pread", or leave it out.'
        )
    source = DataSource(
        SourceSpec(
            directory=os.path.abspath(record.directory),
            name=record.name,
            version=record.version,
            digest=record.digest,
            stretches=tuple(stretches),
            example=ExampleSpec(
                image_shape=stored_shape(record),
                resize=choose_resize(record, options),
                values=choose_values(record, options),
                image_key=record.image_key,
                label_key=record.label_key,
                columns=tuple(spec for spec in record.columns if spec.name != record.label_key),
                with_key=options.with_key,
                verify_records=options.verify_records,
                engine=options.engine,
                in_memory=options.cache == "memory",
            ),
            options=tuple(one for one in changed.items() if one[0] not in _STORAGE),
        )
    )
    source._open()
    return source
