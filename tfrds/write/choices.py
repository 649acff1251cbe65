"""Names to choose from, as messages show them beside one that is none of them."""

import difflib
from collections.abc import Sequence

_LISTED = 10


def list_choices(names: Sequence[str], most: int = _LISTED) -> str:
    """Returns the first names, and of more than `most` how many there are: "['a', 'b']"."""
    more = f", ... {len(names):,} in all" if len(names) > most else ""
    return f"[{', '.join(map(repr, names[:most]))}{more}]"


def find_near(name: str, names: Sequence[str]) -> str | None:
    """Returns the nearest of the names, the same in other letter case first; None: none is near."""
    same = [other for other in names if other.casefold() == name.casefold()]
    return next(iter(same or difflib.get_close_matches(name, names, n=1)), None)


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Returns a question for the nearest of the names, with a space before it; or nothing."""
    near = find_near(name, names)
    return "" if near is None else f" Did you mean {near!r}?"
