"""Checks of single values that users give: ConfigError with the field, the rule and the value.

`spec.py` and everything with arguments of its own calls them; no TensorFlow, no TFDS.
"""

import math
import numbers
import re
from collections.abc import Sequence

from tfrds.errors import ConfigError

DTYPES = ("float32", "bfloat16", "float16", "uint8")

# TFDS reads a split expression such as "train[:80%]+test", so a split's name can only be a word.
_SPLIT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_DATASET_NAME = re.compile(r"[a-z][a-z0-9_]*")
# A shard is named "<name>-<split>.tfrecord-00000-of-00004", and file systems allow 255 bytes.
_MAX_NAME_LENGTH = 128
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)

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
    pair = (value, value) if is_int(value) else value
    if (
        not isinstance(pair, Sequence)
        or isinstance(pair, str | bytes)
        or len(pair) != 2
        or not all(is_int(side) and 1 <= side <= MAX_SIDE for side in pair)
    ):
        raise ConfigError(
            f"{field}: expected (height, width) or one integer for a square, each from 1 to "
            f"{MAX_SIDE:,}, "
            f"got {value!r}."
        )
    return int(pair[0]), int(pair[1])


def check_int(field: str, value: object, low: int, high: int | None = None) -> None:
    """Raises ConfigError unless `value` is an integer from `low` to `high`, or any above `low`."""
    if not is_int(value) or value < low or (high is not None and value > high):  # type: ignore[operator]
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
    if isinstance(name, str) and len(name) > _MAX_NAME_LENGTH:
        raise ConfigError(
            f"name: expected at most {_MAX_NAME_LENGTH} characters, as it is part of the names of "
            f"files, got {len(name)}: {name[:20]!r}..."
        )
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


def parse_dtype(value: object) -> str:
    """Returns the name of a dtype, given by name or as an object of numpy or TensorFlow.

    Raises:
      ConfigError: none that images can have.
    """
    name = (
        value if isinstance(value, str) else getattr(value, "name", getattr(value, "__name__", ""))
    )
    if name not in DTYPES:
        raise ConfigError(f"dtype: expected one of {list(DTYPES)}, got {value!r}.")
    return str(name)


def parse_value_range(value: object) -> tuple[float, float]:
    """Returns (low, high), what pixels of 0 and of 255 become.

    Raises:
      ConfigError: not two finite numbers, the first below the second.
    """
    pair = parse_numbers(value)
    if pair is None or len(pair) != 2 or not pair[0] < pair[1]:
        raise ConfigError(
            f"value_range: expected (low, high) such as (0, 1), with low below high, got {value!r}."
        )
    return pair[0], pair[1]


def parse_normalize(value: object) -> tuple[tuple[float, ...], tuple[float, ...]] | str | None:
    """Returns (mean, std), each a value for each channel or one for all; "dataset" and None as is.

    Raises:
      ConfigError: anything else, or a std that is not positive.
    """
    if value is None or (isinstance(value, str) and value == "dataset"):
        return value
    pair = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    parts = [parse_numbers(part if not is_number(part) else (part,)) for part in pair]
    if len(parts) != 2 or not all(parts) or min(parts[1] or (0,)) <= 0:
        raise ConfigError(
            "normalize: expected (mean, std), each a number or one for each channel, std above 0, "
            f'or "dataset", got {value!r}.'
        )
    return parts[0] or (), parts[1] or ()


def parse_numbers(values: object) -> tuple[float, ...] | None:
    """Returns finite numbers as floats; None where `values` is no sequence of them."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        return None
    numbers_ = tuple(values)
    return tuple(map(float, numbers_)) if all(map(is_number, numbers_)) else None


def is_number(value: object) -> bool:
    """Whether `value` is a finite number; True is none."""
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_real and math.isfinite(value)  # type: ignore[arg-type]


def is_int(value: object) -> bool:
    """Whether `value` is an integer; numpy's are, True is none: as a size it is a slip."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_list_of_names(names: object) -> bool:
    """Whether `names` is a sequence of strings in an order, with at least one."""
    return (
        isinstance(names, Sequence)
        and not isinstance(names, str | bytes)
        and len(names) > 0
        and all(isinstance(name, str) for name in names)
    )


def check_background(background: object) -> None:
    """Raises ConfigError unless `background` is (red, green, blue), each from 0 to 255."""
    if (
        not isinstance(background, Sequence)
        or isinstance(background, str | bytes)
        or len(background) != 3
        or not all(is_int(value) and 0 <= value <= 255 for value in background)
    ):
        raise ConfigError(
            f"background: expected (red, green, blue), each from 0 to 255, got {background!r}."
        )
