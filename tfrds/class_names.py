"""Class names as users give them: a list, or a text file with one name a line.

`spec.py` calls it for the option `class_names`; `write/classes.py` checks each name.
"""

import os
import pathlib
from collections.abc import Sequence

from tfrds.checks import is_list_of_names
from tfrds.errors import ConfigError

# Ten million names of usual length stay below it.
_MAX_BYTES = 2**28


def parse_class_names(
    given: Sequence[str] | os.PathLike[str] | str | None,
) -> tuple[str, ...] | None:
    """Returns the names in the order of their numbers; None where none are given.

    Raises:
      ConfigError: neither a list of names nor a file that holds them.
    """
    if given is None:
        return None
    if isinstance(given, str | os.PathLike):
        return _read(pathlib.Path(given).expanduser())
    if not is_list_of_names(given):
        raise ConfigError(
            f"class_names: expected a list of names or the path of a text file, got {given!r}."
        )
    return tuple(given)


def _read(path: pathlib.Path) -> tuple[str, ...]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(
                f"class_names: {path}: expected a text file of at most {_MAX_BYTES:,} bytes, found "
                f"{path.stat().st_size:,}."
            )
        # utf-8-sig: editors of Windows put a mark before the first name.
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"class_names: {path}: expected a text file in UTF-8 with one name a line: {reason}."
        ) from error
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise ConfigError(f"class_names: {path}: expected one name a line, found none.")
    return tuple(line.removesuffix("\r") for line in lines)
