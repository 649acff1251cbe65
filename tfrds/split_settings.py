"""The settings that say how examples are split: `splits` and `group` of `BuildOptions`.

Gets what a user gave, gives checked values and what `tfrds.json` records of them; `write/splits.py`
carries them out.
"""

import functools
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from tfrds.checks import check_choice, check_split_name, is_int
from tfrds.errors import ConfigError

# Each fold is a split with files of its own; more are a slip such as a number of images.
MAX_FOLDS = 1000

# How many of many an error names.
_LISTED = 5


SPLIT_BY = ("class", "hash")

Splits: TypeAlias = "int | dict[str, float] | dict[str, tuple[str, ...]] | None"


def parse_split_settings(splits: object, split_by: object, group: object) -> Splits:
    """Returns `splits` as `parse_splits` does; the three are checked, also against each other.

    Raises:
      ConfigError: one of them cannot be used, or nothing is drawn by `split_by`.
    """
    parsed = parse_splits(splits)
    check_choice("split_by", split_by, SPLIT_BY)
    if split_by == "hash" and (parsed is None or lists_of_keys(parsed)):
        raise ConfigError(
            "split_by: only fractions and folds are drawn, got split_by='hash' with "
            f"splits={'lists of keys' if parsed else None}. Leave it out, or pass fractions such "
            'as splits={"train": 0.8, "test": 0.2}.'
        )
    check_group(group)
    return parsed


def parse_splits(splits: object) -> Splits:
    """Returns a number of folds, fractions by split name, keys in NFC by split name, or None.

    Raises:
      ConfigError: none of these, or what the checks below refuse.
    """
    if splits is None:
        return None
    if is_int(splits):
        folds: int = int(splits)  # type: ignore[call-overload]
        if not 2 <= folds <= MAX_FOLDS:
            raise ConfigError(
                f"splits: the number of folds must be from 2 to {MAX_FOLDS:,}, got {folds}."
            )
        return folds
    if isinstance(splits, Mapping) and any(map(_is_list, splits.values())):
        return check_key_lists(splits)
    return check_fractions(splits)


def check_fractions(splits: object) -> dict[str, float]:
    """Returns fractions by split name.

    Raises:
      ConfigError: no mapping, a name that cannot be used, or fractions that do not sum to 1.
    """
    if not isinstance(splits, Mapping) or not splits:
        raise ConfigError(
            'splits: expected fractions by name such as {"train": 0.8, "test": 0.2}, a number of '
            f"folds such as 5, or lists of keys by name, got {splits!r}."
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


def check_key_lists(splits: Mapping[object, object]) -> dict[str, tuple[str, ...]]:
    """Returns keys by split name, in Unicode's NFC form as the keys of all sources are.

    Raises:
      ConfigError: a name that cannot be used, something else than a list of keys, an empty one, or
        a key that is listed twice.
    """
    lists: dict[str, tuple[str, ...]] = {}
    list_of: dict[str, str] = {}
    repeated: list[str] = []
    for name, keys in splits.items():
        name = check_split_name(name)
        if not _is_list(keys):
            raise ConfigError(
                f"splits: other splits are lists of keys, so {name!r} must be one too, "
                f"got {keys!r}."
            )
        clean = []
        for key in keys:  # type: ignore[attr-defined]
            if not isinstance(key, str):
                raise ConfigError(
                    f"splits: the keys of {name!r} must be text such as 'cat/01.jpg', got {key!r}."
                )
            key = str(key) if key.isascii() else unicodedata.normalize("NFC", key)
            if key in list_of:
                repeated.append(f"{key!r} in {list_of[key]!r} and {name!r}")
            list_of[key] = name
            clean.append(key)
        if not clean:
            raise ConfigError(f"splits: the list of {name!r} must hold at least one key, got [].")
        lists[name] = tuple(clean)
    if repeated:
        raise ConfigError(
            f"splits: each key is listed once, got {', '.join(repeated[:_LISTED])}"
            f"{', ...' if len(repeated) > _LISTED else ''}; listed again in all: "
            f"{len(repeated):,}. Remove all but one."
        )
    return lists


def check_group(group: object) -> None:
    """Raises ConfigError unless `group` is None, a function or a regular expression as text."""
    if group is None or callable(group):
        return
    if not isinstance(group, str) or not group:
        raise ConfigError(
            r"group: expected a regular expression such as r'patient\d+', or a function that gives "
            f"the name of a key's group, got {group!r}."
        )
    try:
        re.compile(group)
    except re.error as error:
        raise ConfigError(f"group: {error} in the regular expression, got {group!r}.") from error


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def lists_of_keys(splits: Any) -> dict[str, tuple[str, ...]] | None:
    """Returns the splits of `BuildOptions` where they are lists of keys, else None."""
    is_listed = isinstance(splits, dict) and isinstance(next(iter(splits.values())), tuple)
    return splits if is_listed else None


def record_splits(splits: Any) -> Any:
    """Returns the splits of `BuildOptions` as `tfrds.json` records them."""
    if lists := lists_of_keys(splits):
        return {
            name: {"count": len(keys), "keys_sha256": _keys_sha256(keys)}
            for name, keys in lists.items()
        }
    return dict(splits) if isinstance(splits, Mapping) else splits


# Every read compares the options of its class with those on disk: a million keys are hashed once.
@functools.lru_cache(maxsize=64)
def _keys_sha256(keys: tuple[str, ...]) -> str:
    """Returns the digest of a list of keys, which their order does not change."""
    digest = hashlib.sha256()
    for key in sorted(keys):
        digest.update(key.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
