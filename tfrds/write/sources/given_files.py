"""Which files a user means: paths, and patterns as shells have them.

Gets a path, a pattern or a list of these, gives paths as the user wrote them; each source looks at
the files itself. Patterns are those of `glob`, "shards/*.tar" and "**/*.tar", and braces,
"shard-{000..009}.tar" and "{train,test}.csv". A file of that very name goes before them.
"""

import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfrds.errors import ConfigError, SourceError
from tfrds.write.choices import find_near

# More than a pattern can mean.
_MAX_FILES = 1_000_000

_LISTED = 5

# Of what is no path so many characters are shown.
_SHOWN = 80

# Of a folder so many names are compared with one that is missing.
_COMPARED = 10_000

_BRACES = re.compile(r"\{(\d+)\.\.(\d+)\}|\{([^{}]*,[^{}]*)\}")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|pipe:")


def parse_given(field: str, given: Any, also: str = "") -> list[str]:
    """Returns paths and patterns as a list of text, not yet looked for.

    Args:
      field: the argument's name, for messages.
      given: one, or several.
      also: what else the argument may be, for messages.

    Raises:
      ConfigError: there are none, or they are something else, or lie elsewhere.
    """
    if isinstance(given, str | os.PathLike):
        entries = [given]
    elif isinstance(given, Iterable) and not isinstance(given, bytes | Mapping):
        entries = list(given)
    else:
        raise _no_path(field, repr(given), also)
    if not entries:
        raise _no_path(field, "an empty list", also)
    names = [_path(field, entry, also) for entry in entries]
    for name in names:
        if _ADDRESS.match(name) and not os.path.lexists(name):
            raise ConfigError(
                f"{field}: expected files of this machine, or mounted on it, got {name!r}. "
                "Download them, or mount where they lie."
            )
    return [os.path.expanduser(name) for name in names]


def _path(field: str, entry: Any, also: str) -> str:
    path = os.fspath(entry) if isinstance(entry, os.PathLike) else entry
    if not isinstance(path, str) or not path or "\0" in path:
        raise _no_path(field, repr(entry), also)
    return path


def _no_path(field: str, got: str, also: str) -> ConfigError:
    shown = got if len(got) <= _SHOWN else f"{got[:_SHOWN]}..."
    return ConfigError(
        f"{field}: expected a path, a pattern such as 'data/*' or 'data-{{000..009}}', a list of "
        f"them{also and ', or '}{also}, got {shown}."
    )


def find_given(field: str, given: Iterable[str]) -> list[str]:
    """Returns the files that paths and patterns mean, in their order, those of one `*` by name.

    Args:
      field: the argument's name, for messages.
      given: by `parse_given`.

    Raises:
      SourceError: a file is missing, or a pattern fits none.
      ConfigError: a file is meant twice.
    """
    paths = [path for pattern in given for path in _paths_of(field, pattern)]
    seen: set[str] = set()
    for path in paths:
        absolute = os.path.abspath(path)
        if absolute in seen:
            raise ConfigError(
                f"{field}: expected each file once, got {path} twice. Leave it out once."
            )
        seen.add(absolute)
    return paths


def _paths_of(field: str, pattern: str) -> list[str]:
    if os.path.lexists(pattern):
        return [pattern]
    missing, paths, num_names = [], [], 0
    for name in _expand_braces(field, pattern):
        num_names += 1
        found = [name] if os.path.lexists(name) else _matches(name)
        paths += found
        if not found:
            missing.append(name)
    if not missing:
        return paths
    if num_names == 1:
        what = "no file fits this pattern" if glob.has_magic(pattern) else "no such file"
        raise SourceError(f"{pattern}: {what}.{near_file(pattern)} Correct it.")
    listed = ", ".join(missing[:_LISTED]) + (", ..." if len(missing) > _LISTED else "")
    raise SourceError(
        f"{pattern}: expected {num_names:,} files, {len(missing):,} are missing: {listed}."
        f"{near_file(missing[0])}"
    )


def _matches(pattern: str) -> list[str]:
    if not glob.has_magic(pattern):
        return []
    found = glob.iglob(pattern, recursive=True)
    return sorted(path for path in found if not os.path.isdir(path))


def near_file(path: str) -> str:
    """Returns a sentence with what lies beside a missing file under a similar name, or nothing."""
    folder, name = os.path.split(path)
    try:
        beside = sorted(os.listdir(folder or "."))[:_COMPARED]
    except OSError:
        return f" There is no folder {folder!r}."
    near = find_near(name, beside)
    return "" if near is None else f" Did you mean {os.path.join(folder, near)!r}?"


def _expand_braces(field: str, pattern: str) -> Iterator[str]:
    """Yields what a shell makes of `{000..009}` and `{a,b}`."""
    count = 1
    choices: list[list[str]] = []
    end = 0
    for match in _BRACES.finditer(pattern):
        choices.append([pattern[end : match.start()]])
        end = match.end()
        if match[3] is not None:
            choices.append(match[3].split(","))
        else:
            first, last = int(match[1]), int(match[2])
            step = 1 if first <= last else -1
            if count * (abs(last - first) + 1) > _MAX_FILES:
                raise ConfigError(
                    f"{field}: {pattern!r} means more than {_MAX_FILES:,} files. Correct the range."
                )
            has_zeros = any(len(n) > 1 and n.startswith("0") for n in match.group(1, 2))
            width = max(map(len, match.group(1, 2))) if has_zeros else 0
            choices.append([f"{n:0{width}d}" for n in range(first, last + step, step)])
        count *= len(choices[-1])
    choices.append([pattern[end:]])
    for parts in itertools.product(*choices):
        yield "".join(parts)
