"""The options of reading, checked where they are made: frozen objects, no TensorFlow.

`ReadOptions` says what a dataset yields beyond TFDS's own arguments of `as_dataset`. They are
described, typed and checked here alone: `as_dataset` and `load` take them as keywords and show them
in their signatures by `accepts_read_options`.
"""

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict, TypeVar

from tfrds.checks import (
    check_bool,
    check_choice,
    check_int,
    is_int,
    parse_dtype,
    parse_image_size,
    parse_normalize,
    parse_numbers,
    parse_value_range,
)
from tfrds.errors import ConfigError
from tfrds.spec import RESIZES

INTERPOLATIONS = ("bilinear", "area", "antialias")
ENGINES = ("mmap", "pread", "stream")
LABEL_MODES = ("one_hot", "int", "binary", "multi_hot", "value", "none")

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ReadKeywords(TypedDict, total=False):
    """The fields of `ReadOptions` as keyword arguments, for type checkers and editors."""

    image_size: Any
    resize: Literal["stretch", "crop", "pad"] | None
    interpolation: Literal["bilinear", "area", "antialias"]
    dtype: Any
    value_range: tuple[float, float]
    normalize: Any
    label_mode: Literal["one_hot", "int", "binary", "multi_hot", "value", "none"] | None
    label_smoothing: float
    augment: Any
    shuffle: bool | Literal["blocks"] | None
    seed: int | None
    select: Any
    balance: Literal["classes"] | None
    sample_weight: Any
    start: tuple[int, int]
    worker: tuple[int, int] | None
    drop_remainder: bool
    with_key: bool
    verify_records: bool
    engine: Literal["mmap", "pread", "stream"] | None
    cache: Literal["memory"] | None
    device: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a dataset yields, beyond TFDS's own arguments of `as_dataset`.

    Attributes:
      image_size: (height, width) in pixels of every image; one integer means a square. None: as the
        dataset declares.
      resize: how `image_size` is reached, as in `BuildOptions`. None: as the dataset declares.
      interpolation: "bilinear" (TensorFlow's and Keras's own, without antialiasing), "area" (the
        mean of the covered area) or "antialias" (Pillow's bilinear; at half the speed). The last
        two first decode JPEGs of twice the size and more at 1/2, 1/4 or 1/8.
      dtype: of the images: "float32", "bfloat16", "float16" or "uint8", by name or as an object of
        numpy or TensorFlow. uint8 is a quarter of float32's bytes to the device.
      value_range: (low, high), what pixels of 0 and of 255 become.
      normalize: (mean, std) in units of `value_range`, each one number or one for each channel: the
        images are (pixels - mean) / std. "dataset": as measured from the dataset.
      label_mode: "one_hot" (float32 [num_classes]), "int" (int32 []), "binary" (float32 [1], for
        two classes), "multi_hot" (float32 [num_classes], of any number of classes), "value"
        (float32 [] or [k]) or "none" (images alone, also where there are labels: `as_supervised`
        yields no pairs then). None: as the labels were built: "single" gives "one_hot", "multi"
        "multi_hot", the others what they are called.
      label_smoothing: 0..1, the share of a one-hot label that is spread over all classes.
      augment: stages of `tfrds.augment`, Keras preprocessing layers, or functions of (images,
        labels), in the order they are applied. They see batches of pixels of 0..255 and labels by
        `label_mode`; `value_range`, `normalize` and `dtype` come after them. At most one of them
        crops, and comes first.
      shuffle: a new permutation of the whole split each epoch. "blocks": of blocks of neighbours,
        whose examples are mixed within a window of some 256 MiB: for data larger than memory on
        slow disks, which are then read in long stretches. None: as `shuffle_files`.
      seed: of the permutation and of augmentation, 0..2^63 - 1. None: `read_config.shuffle_seed`,
        else drawn anew.
      select: the examples that are read: a list of class names or numbers, or the same as
        {"classes": [...]}; {"keys": [...]}; or a boolean array with one value for each example of
        the split, in its order without shuffling. None: all.
      balance: "classes": an epoch has equally many examples of each class that occurs, as many in
        all as there are examples, those of small classes more than once; all examples of a class
        are seen equally often in the course of epochs. Needs shuffling. None: each example once.
      sample_weight: weights in the loss: a mapping from class names or numbers (others have 1), or
        an array with a number for each example of the split. A third element beside (image, label),
        or the feature "sample_weight", float32 []. None: those that the dataset was built with, if
        any.
      start: (epoch, step), counted from 0: the first iterator yields the rest of that epoch from
        this batch on, and those after it the next epochs. Needs no state but the same seed.
      worker: (index, count): read one share of the split; those of all workers are disjoint and
        complete, with the same number of steps. `batch_size` is each worker's. A step of all
        workers is a stretch of the one order, so a run goes on with another count. Where the last
        step has fewer examples than there are workers, some from the epoch's front fill it up,
        unless `drop_remainder`. None: `read_config.input_context`, else all.
      drop_remainder: leave out the last batch of an epoch where it is smaller than `batch_size`.
      with_key: add the feature "key", the string that names the source file of each example.
      verify_records: check each record's checksums, and its image by the index's hash, as it is
        read; damage stops with an error naming file, record and key.
      engine: how shards are read: "mmap" (local files), "pread" (by ranges, many at a time: network
        file systems) or "stream" (from front to end by TensorFlow's own reader, which the tf.data
        service can run). None: "pread" where the dataset lies on a network file system, else
        "mmap".
      cache: "memory" reads all shards once and keeps their bytes, not the decoded pixels: for
        storage that is slow each time. None: nothing beyond the system's own cache.
      device: batches end up on this device, such as "/gpu:0", one ahead; with `start` its
        cardinality is unknown then. None: in host memory.
    """

    image_size: Any = None
    resize: Literal["stretch", "crop", "pad"] | None = None
    interpolation: Literal["bilinear", "area", "antialias"] = "bilinear"
    dtype: Any = "float32"
    value_range: tuple[float, float] = (0.0, 255.0)
    normalize: Any = None
    label_mode: Literal["one_hot", "int", "binary", "multi_hot", "value", "none"] | None = None
    label_smoothing: float = 0.0
    augment: Any = ()
    shuffle: bool | Literal["blocks"] | None = None
    seed: int | None = None
    select: Any = None
    balance: Literal["classes"] | None = None
    sample_weight: Any = None
    start: tuple[int, int] = (0, 0)
    worker: tuple[int, int] | None = None
    drop_remainder: bool = False
    with_key: bool = False
    verify_records: bool = False
    engine: Literal["mmap", "pread", "stream"] | None = None
    cache: Literal["memory"] | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        self._check_pixels()
        self._check_labels()
        object.__setattr__(self, "augment", _parse_augment(self.augment))
        self._check_order()
        self._check_storage()
        check_bool("drop_remainder", self.drop_remainder)
        check_bool("with_key", self.with_key)

    def _check_pixels(self) -> None:
        object.__setattr__(self, "image_size", parse_image_size(self.image_size))
        if self.resize is not None:
            check_choice("resize", self.resize, RESIZES)
        check_choice("interpolation", self.interpolation, INTERPOLATIONS)
        object.__setattr__(self, "dtype", parse_dtype(self.dtype))
        object.__setattr__(self, "value_range", parse_value_range(self.value_range))
        object.__setattr__(self, "normalize", parse_normalize(self.normalize))
        if self.dtype == "uint8":
            self._check_no_arithmetic()

    def _check_order(self) -> None:
        if self.shuffle not in (None, "blocks") and not isinstance(self.shuffle, bool):
            raise ConfigError(f'shuffle: expected True, False or "blocks", got {self.shuffle!r}.')
        if self.seed is not None:
            check_int("seed", self.seed, 0, 2**63 - 1)
        if self.balance is not None:
            check_choice("balance", self.balance, ("classes",))
        object.__setattr__(self, "start", _parse_pair("start", "(epoch, step)", self.start))
        if self.worker is not None:
            worker = _parse_pair("worker", "(index, count)", self.worker)
            if worker[0] >= worker[1]:
                raise ConfigError(
                    f"worker: expected (index, count) with index from 0 to count - 1, got {worker}."
                )
            object.__setattr__(self, "worker", worker)

    def _check_storage(self) -> None:
        check_bool("verify_records", self.verify_records)
        if self.engine is not None:
            check_choice("engine", self.engine, ENGINES)
        if self.cache is not None:
            check_choice("cache", self.cache, ("memory",))
        device: object = self.device
        if device is not None and (not isinstance(device, str) or not device):
            raise ConfigError(
                f'device: expected the name of a device such as "/gpu:0", got {self.device!r}.'
            )

    def _check_no_arithmetic(self) -> None:
        for field, default in (("value_range", (0.0, 255.0)), ("normalize", None)):
            if getattr(self, field) != default:
                raise ConfigError(
                    f'{field}: dtype="uint8" keeps the pixels 0..255 as they are, got '
                    f"{field}={getattr(self, field)!r}. Leave it out, or choose a float dtype."
                )

    def _check_labels(self) -> None:
        if str(self.label_mode) == "categorical":  # what Keras calls it
            raise ConfigError(
                f"label_mode: expected one of {list(LABEL_MODES)}, got 'categorical'. "
                "Did you mean 'one_hot'?"
            )
        if self.label_mode is not None:
            check_choice("label_mode", self.label_mode, LABEL_MODES)
        (smoothing,) = parse_numbers((self.label_smoothing,)) or (-1.0,)
        if not 0 <= smoothing < 1:
            raise ConfigError(
                "label_smoothing: expected a number from 0 to below 1, got "
                f"{self.label_smoothing!r}."
            )
        if smoothing and self.label_mode not in (None, "one_hot"):
            raise ConfigError(
                f"label_smoothing: only one-hot labels can be smoothed, got {smoothing:g} with "
                f'label_mode={self.label_mode!r}. Pass label_mode="one_hot".'
            )
        object.__setattr__(self, "label_smoothing", smoothing)

    def changed(self) -> list[str]:
        """Returns the names of the options that were given another value than their default."""
        default = ReadOptions()
        return [
            field.name
            for field in dataclasses.fields(self)
            if _differ(getattr(self, field.name), getattr(default, field.name))
        ]


def parse_read_options(keywords: Mapping[str, Any]) -> ReadOptions:
    """Returns the options that were given as keyword arguments.

    Raises:
      ConfigError: a value is wrong.
      TypeError: no read option has that name.
    """
    names = [field.name for field in dataclasses.fields(ReadOptions)]
    for name in keywords:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Expected one of {names}."
            raise TypeError(f"unexpected keyword argument {name!r}. {hint}")
    return ReadOptions(**keywords)


def accepts_read_options(function: _Function) -> _Function:
    """Writes the read options into the signature of a function that takes them as `**keywords`."""
    signature = inspect.signature(function)
    own = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    options = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=field.type,
        )
        for field in dataclasses.fields(ReadOptions)
    ]
    vars(function)["__signature__"] = signature.replace(parameters=[*own, *options])
    return function


def _parse_augment(stages: Any) -> tuple[Any, ...]:
    stages = () if stages is None else stages
    if not isinstance(stages, list | tuple):
        raise ConfigError(
            "augment: expected a list of stages such as [tfrds.augment.RandomFlip()], got "
            f"{stages!r}."
        )
    return tuple(stages)


def _parse_pair(field: str, names: str, value: Any) -> tuple[int, int]:
    is_pair = isinstance(value, list | tuple) and len(value) == 2 and all(map(is_int, value))
    if not is_pair or min(value) < 0 or max(value) > 2**31 - 1:
        raise ConfigError(
            f"{field}: expected {names}, two integers from 0 to {2**31 - 1:,}, got {value!r}."
        )
    return int(value[0]), int(value[1])


def _differ(value: Any, default: Any) -> bool:
    if default is None:
        return value is not None
    return bool(value != default)
