"""The options of builds and reads, checked where they are made; no TensorFlow, no TFDS.

`BuildOptions` says what is written (every field decides bytes on disk), `ImageSpec` is its resolved
part for one image, `ReadOptions` says what a dataset yields beyond TFDS's own arguments.
"""

import dataclasses
import numbers
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tfrds.errors import ConfigError

ENCODINGS = ("auto", "raw", "jpeg", "original")
RESIZES = ("stretch", "crop", "pad")

# TFDS reads a split expression such as "train[:80%]+test", so a split's name can only be a word.
_SPLIT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_DATASET_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)

# Above this side a fixed shape is cheaper to store as its source's JPEG or PNG: 64 * 64 * 3 is 12
# kB.
MAX_AUTO_RAW_SIDE = 64

# An image side beyond this is a mistake or an attack: PNG and JPEG of that side cannot be decoded
# anyway.
MAX_SIDE = 65_535


def check_choice(field: str, value: object, choices: Sequence[str]) -> None:
    """Raises ConfigError unless `value` is one of `choices`."""
    if value not in choices:
        raise ConfigError(f"{field}: expected one of {list(choices)}, got {value!r}.")


def parse_image_size(value: object, field: str = "image_size") -> tuple[int, int] | None:
    """Returns (height, width) in pixels from None, one integer (a square) or a pair.

    Raises:
      ConfigError: not one or two integers from 1 to 65,535.
    """
    if value is None:
        return None
    pair = (value, value) if _is_int(value) else value
    if (
        not isinstance(pair, Sequence)
        or isinstance(pair, str | bytes)
        or len(pair) != 2
        or not all(_is_int(side) and 1 <= side <= MAX_SIDE for side in pair)
    ):
        raise ConfigError(
            f"{field}: expected (height, width) or one integer for a square, each from 1 to "
            f"{MAX_SIDE:,}, "
            f"got {value!r}."
        )
    return int(pair[0]), int(pair[1])


def check_int(field: str, value: object, low: int, high: int | None = None) -> None:
    """Raises ConfigError unless `value` is an integer from `low` to `high` (None.

    No upper bound).
    """
    if not _is_int(value) or value < low or (high is not None and value > high):  # type: ignore[operator]
        bounds = f"of at least {low}" if high is None else f"from {low} to {high:,}"
        raise ConfigError(f"{field}: expected an integer {bounds}, got {value!r}.")


def check_bool(field: str, value: object) -> None:
    """Raises ConfigError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{field}: expected True or False, got {value!r}.")


def check_dataset_name(name: object) -> str:
    """Returns `name` if TFDS accepts it as the name of a dataset.

    Raises:
      ConfigError: not lower case letters, digits and underscores that start with a letter.
    """
    if not isinstance(name, str) or not _DATASET_NAME.fullmatch(name):
        hint = re.sub(r"[^a-z0-9_]+", "_", str(name).lower()).strip("_").lstrip("_0123456789")
        raise ConfigError(
            "name: expected lower case letters, digits and underscores, starting with a letter, "
            f"got {name!r}." + (f" Try {hint!r}." if _DATASET_NAME.fullmatch(hint) else "")
        )
    return name


def check_version(version: object) -> str:
    """Returns `version` as "major.minor.patch".

    Raises:
      ConfigError: not three whole numbers joined by dots.
    """
    if not _VERSION.fullmatch(str(version)):
        raise ConfigError(
            f'version: expected "major.minor.patch" such as "1.0.0", got {version!r}.'
        )
    return str(version)


def check_split_name(name: object, where: str = "splits") -> str:
    """Returns `name` if TFDS can read a split of that name.

    Raises:
      ConfigError: not a word of letters, digits and underscores, or TFDS's reserved word "all".
    """
    if not isinstance(name, str) or not _SPLIT_NAME.fullmatch(name) or name.lower() == "all":
        raise ConfigError(
            f"{where}: a split's name is letters, digits and underscores, starts with a letter and "
            "is not 'all', "
            f"got {name!r}."
        )
    return name


def background_values(background: Sequence[int], channels: int) -> tuple[int, ...]:
    """Returns the background colour, (red, green, blue), as one value for each of `channels`.

    Source: Pillow's conversion to mode L, ITU-R 601-2 luma in integers, for anything but three
    channels.
    """
    if channels == 3:
        return tuple(background)
    red, green, blue = background
    return ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16,) * channels


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """What a build writes. Every field decides bytes on disk and is recorded in `tfrds.json`.

    Attributes:
      image_size: (height, width) in pixels that every example has when read; one integer means a
        square. None keeps each image's own size. Raw pixels are resized at build; JPEG and PNG are
        resized while reading.
      resize: how `image_size` is reached: "stretch" (aspect ratio not kept), "crop" (the largest
        centred crop of the target's aspect ratio), "pad" (aspect ratio kept, filled with
        `background`).
      channels: 1 or 3 for files; any number for arrays stored raw. None: arrays keep theirs, files
        give 3.
      background: the colour (red, green, blue), 0..255, under transparent pixels and around padded
        images.
      encoding: "raw" (uint8 pixels of one fixed shape), "jpeg" (re-encoded), "original" (the
        source's own JPEG or PNG bytes, PNG where the source is neither), "auto": raw for fixed
        shapes up to 64 x 64, else original.
      store_size: pixels of the shorter side that a re-encoded JPEG is shrunk to; never enlarged.
        None: not shrunk.
      jpeg_quality: 1..100, used when an image is re-encoded as JPEG. 95: differences are hard to
        see.
      splits: fractions by split name, which sum to 1, such as {"train": 0.8, "test": 0.2}; None:
        the source's own splits, or one split "train".
      class_names: the names in the order of their numbers. None: by the source, sorted.
      num_shards: shards of each split. None: by size, about 256 MiB each.
    """

    image_size: Any = None
    resize: Literal["stretch", "crop", "pad"] = "stretch"
    channels: int | None = None
    background: tuple[int, int, int] = (255, 255, 255)
    encoding: Literal["auto", "raw", "jpeg", "original"] = "auto"
    store_size: int | None = None
    jpeg_quality: int = 95
    splits: Mapping[str, float] | None = None
    class_names: Sequence[str] | None = None
    num_shards: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "image_size", parse_image_size(self.image_size))
        check_choice("resize", self.resize, RESIZES)
        check_choice("encoding", self.encoding, ENCODINGS)
        if self.channels is not None:
            check_int("channels", self.channels, 1, 255)
        _check_background(self.background)
        object.__setattr__(self, "background", tuple(int(value) for value in self.background))
        check_int("jpeg_quality", self.jpeg_quality, 1, 100)
        if self.store_size is not None:
            check_int("store_size", self.store_size, 1, MAX_SIDE)
            if self.encoding != "jpeg":
                raise ConfigError(
                    "store_size: only re-encoded images can be shrunk, got "
                    f"store_size={self.store_size} with "
                    f'encoding={self.encoding!r}. Pass encoding="jpeg".'
                )
        if self.num_shards is not None:
            check_int("num_shards", self.num_shards, 1, 99_999)
        if self.splits is not None:
            object.__setattr__(self, "splits", _check_fractions(self.splits))
        if self.class_names is not None:
            if not _is_list_of_names(self.class_names):
                raise ConfigError(
                    f"class_names: expected a list of names, got {self.class_names!r}."
                )
            object.__setattr__(self, "class_names", tuple(self.class_names))
        for field in ("channels", "store_size", "jpeg_quality", "num_shards"):
            if (value := getattr(self, field)) is not None:
                object.__setattr__(self, field, int(value))  # JSON has no integers of numpy

    def to_dict(self) -> dict[str, Any]:
        """Returns the options as JSON values, as `tfrds.json` records them."""
        fields = dataclasses.asdict(self)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in fields.items()
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSpec:
    """How each image of one dataset is stored: `BuildOptions` once the source is known.

    Attributes:
      encoding: "raw", "jpeg" or "original".
      channels: of the stored image.
      image_size: (height, width) that raw images are resized to, None: not resized.
      shape_from: for raw without `image_size`: the (height, width) that every image must have, else
        None.
      resize, background, store_size, jpeg_quality: as in `BuildOptions`.
    """

    encoding: Literal["raw", "jpeg", "original"]
    channels: int
    image_size: tuple[int, int] | None = None
    shape_from: tuple[int, int] | None = None
    resize: Literal["stretch", "crop", "pad"] = "stretch"
    background: tuple[int, int, int] = (255, 255, 255)
    store_size: int | None = None
    jpeg_quality: int = 95


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a dataset yields, beyond TFDS's own arguments of `as_dataset`.

    Attributes:
      image_size: (height, width) in pixels of every image; one integer means a square. None: as the
        dataset declares.
      resize: how `image_size` is reached, as in `BuildOptions`. None: as the dataset declares.
      shuffle: a new permutation of the whole split each epoch. None: as `shuffle_files`.
      seed: of the permutation, 0..2^63 - 1. None: `read_config.shuffle_seed`, else drawn anew.
      drop_remainder: leave out the last batch of an epoch where it is smaller than `batch_size`.
      with_key: add the feature "key", the string that names the source file of each example.
    """

    image_size: Any = None
    resize: Literal["stretch", "crop", "pad"] | None = None
    shuffle: bool | None = None
    seed: int | None = None
    drop_remainder: bool = False
    with_key: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "image_size", parse_image_size(self.image_size))
        if self.resize is not None:
            check_choice("resize", self.resize, RESIZES)
        if self.shuffle is not None:
            check_bool("shuffle", self.shuffle)
        if self.seed is not None:
            check_int("seed", self.seed, 0, 2**63 - 1)
        check_bool("drop_remainder", self.drop_remainder)
        check_bool("with_key", self.with_key)

    def changed(self) -> list[str]:
        """Returns the names of the options that were given another value than their default."""
        default = ReadOptions()
        return [
            field.name
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(default, field.name)
        ]


def _is_int(value: object) -> bool:
    # numpy's integers count, booleans do not: True as a size is a slip.
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_list_of_names(names: object) -> bool:
    return (
        isinstance(names, Sequence)
        and not isinstance(names, str | bytes)
        and len(names) > 0
        and all(isinstance(name, str) for name in names)
    )


def _check_background(background: object) -> None:
    if (
        not isinstance(background, Sequence)
        or isinstance(background, str | bytes)
        or len(background) != 3
        or not all(_is_int(value) and 0 <= value <= 255 for value in background)
    ):
        raise ConfigError(
            f"background: expected (red, green, blue), each from 0 to 255, got {background!r}."
        )


def _check_fractions(splits: object) -> dict[str, float]:
    if not isinstance(splits, Mapping) or not splits:
        raise ConfigError(
            'splits: expected fractions by name such as {"train": 0.8, "test": 0.2}, '
            f"got {splits!r}."
        )
    for name, fraction in splits.items():
        check_split_name(name)
        if (
            isinstance(fraction, bool)
            or not isinstance(fraction, int | float)
            or not 0 < fraction <= 1
        ):
            raise ConfigError(
                f"splits: the fraction of {name!r} must be above 0 and at most 1, got {fraction!r}."
            )
    total = sum(splits.values())
    if abs(total - 1) > 1e-6:
        raise ConfigError(
            f"splits: fractions must sum to 1, got {dict(splits)} with the sum {total:g}."
        )
    return {str(name): float(fraction) for name, fraction in splits.items()}
