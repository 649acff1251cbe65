"""What each column of a table is: the image, its labels, its split, or something to keep beside it.

Gets the names of the columns and what the user says of them, gives `Roles`; `manifest.py` reads the
columns by them.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from tfrds.disk.columns import ADDED_KEYS, NAME, WEIGHT_KEY
from tfrds.errors import ConfigError, SourceError
from tfrds.write.choices import did_you_mean, list_choices
from tfrds.write.sources.tables import Table

# None: by its name; False: none, whatever the names.
Choice: TypeAlias = "str | Literal[False] | None"

IMAGE_NAMES = ("path", "file", "file_name", "filename", "filepath", "image", "image_path")
LABEL_NAMES = ("label", "class", "category", "target", "labels")
_WEIGHT_NAMES = ("weight", "sample_weight")

# Names of features that examples may have anyway.
_TAKEN = frozenset(("image", "label", WEIGHT_KEY, *ADDED_KEYS))

_LISTED = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the user says of the columns, as `Manifest` describes it."""

    image: str | None = None
    label: tuple[str, ...] | None = None
    split: Choice = None
    group: Choice = None
    weight: Choice = None
    columns: Sequence[str] | Mapping[str, str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Roles:
    """The columns by what they are.

    Attributes:
      image: of paths or bytes.
      labels: none, one, or several that make one label.
      split, group, weight: None: the table has none.
      kept: names of the features by column.
      are_asked: whether the user named the columns that are kept, so that none may be left out.
      notes: what was decided by the names.
    """

    image: str
    labels: tuple[str, ...]
    split: str | None
    group: str | None
    weight: str | None
    kept: Mapping[str, str]
    are_asked: bool
    notes: tuple[str, ...]


def find_roles(table: Table, wanted: Wanted, *, has_labels: bool) -> Roles:
    """Returns what the columns are.

    Args:
      table: whose columns it is about.
      wanted: by the user.
      has_labels: whether the table shall have labels.

    Raises:
      SourceError: a column that the table does not have, or none for the images or the labels.
      ConfigError: a name that no feature can have, or one column twice.
    """
    found = _Names(table)
    image = wanted.image or found.first(IMAGE_NAMES)
    if image is None:
        raise SourceError(
            f"{table.name}: expected a column of paths or images named one of "
            f"{list(IMAGE_NAMES)}, found {list_choices(found.names)}. Pass image=, or add a first "
            "line with the columns' names where the table has none."
        )
    found.check("image", image)
    labels = (wanted.label or _found_label(found)) if has_labels else ()
    for name in labels:
        found.check("label", name)
    others = {
        "split": found.choose("split", wanted.split, ("split",)),
        "group": found.choose("group", wanted.group, ("group",)),
        "weight": found.choose("weight", wanted.weight, _WEIGHT_NAMES),
    }
    used = {image, *labels, *others.values()}
    if not has_labels:
        used |= set(wanted.label or ())
    kept, left_out = _kept(found, wanted.columns, used)
    blobs = [name for name in kept if table.holds_bytes(name)]
    if blobs and wanted.columns is not None:
        raise SourceError(
            f"{table.name}, column {blobs[0]!r}: features hold numbers, truth values and text, got "
            "bytes. Leave it out of columns=."
        )
    kept = {name: feature for name, feature in kept.items() if name not in blobs}
    listed = [f"images {image!r}"]
    listed += [f"labels {', '.join(map(repr, labels[:_LISTED]))}"] if labels else []
    listed += [f"{field} {name!r}" for field, name in others.items() if name]
    notes = [f"{table.name}: columns read: {'; '.join(listed)}."]
    if left_out:
        notes.append(
            f"{table.name}: columns left out, since no feature can have their names: "
            f"{', '.join(map(repr, left_out))}. Keep one by columns={{{left_out[0]!r}: ...}}."
        )
    if blobs:
        notes.append(f"{table.name}: columns of bytes left out: {', '.join(map(repr, blobs))}.")
    renamed = [f"{name!r} as {feature!r}" for name, feature in kept.items() if name != feature]
    if renamed and not isinstance(wanted.columns, Mapping):
        notes.append(f"{table.name}: columns kept under other names: {', '.join(renamed)}.")
    return Roles(
        image=image,
        labels=labels,
        kept=kept,
        are_asked=wanted.columns is not None,
        notes=tuple(notes),
        **others,
    )


class _Names:
    """The names of a table's columns."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.names = table.names

    def first(self, names: Sequence[str]) -> str | None:
        """Returns the first column of these names, as written or else in other letter case."""
        for name in names:
            if name in self.names:
                return name
        folded = {name.casefold(): name for name in reversed(self.names)}
        return next((folded[name] for name in names if name in folded), None)

    def choose(self, field: str, wanted: Choice, names: Sequence[str]) -> str | None:
        """Returns the column that the user named, or found by its name."""
        if wanted is False:
            return None
        if wanted is None:
            return self.first(names)
        self.check(field, wanted)
        return wanted

    def check(self, field: str, name: str) -> None:
        """Raises SourceError where the table does not have the column."""
        if name in self.names:
            return
        raise SourceError(
            f"{self._table.name}: {field}: unknown column {name!r}. Expected one of "
            f"{list_choices(self.names)}.{did_you_mean(name, self.names)}"
        )

    def error(self) -> SourceError:
        """Returns the error of a table without labels."""
        return SourceError(
            f"{self._table.name}: expected a column of labels named one of {list(LABEL_NAMES)}, "
            f"found {list_choices(self.names)}. Pass label= with its name, or with a list of names "
            'where each class has a column, or label_kind="none" for images alone.'
        )


def _found_label(found: _Names) -> tuple[str, ...]:
    name = found.first(LABEL_NAMES)
    if name is None:
        raise found.error()
    return (name,)


def _kept(
    found: _Names, columns: Sequence[str] | Mapping[str, str] | None, used: set[str | None]
) -> tuple[dict[str, str], list[str]]:
    """Returns (features by column, columns that are left out by their names)."""
    left_out: list[str] = []
    kept: dict[str, Any] = {}
    if columns is None:
        for name in found.names:
            if name not in used:
                feature = _feature_name(name)
                if feature and feature not in _TAKEN and feature not in kept.values():
                    kept[name] = feature
                else:
                    left_out.append(name)
    else:
        for name in columns:
            found.check("columns", name)
        kept = (
            dict(columns)
            if isinstance(columns, Mapping)
            else {name: _feature_name(name) for name in columns}
        )
    column_of: dict[str, str] = {}
    for name, feature in kept.items():
        if not isinstance(feature, str) or not NAME.fullmatch(feature):
            raise ConfigError(
                "columns: a feature's name is 1 to 64 letters, digits and underscores of ASCII, "
                f"got {feature!r} for the column {name!r}. Pass columns={{{name!r}: 'name'}}."
            )
        other = column_of.setdefault(feature, name)
        if other != name:
            raise ConfigError(
                f"columns: {other!r} and {name!r} would both be the feature {feature!r}. Pass "
                f"columns={{{other!r}: ..., {name!r}: ...}} with names of your own."
            )
    return kept, left_out


def _feature_name(name: str) -> str:
    """Returns a column's name as a feature may have it; "" where nothing is left of it."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_" if not NAME.fullmatch(name) else "")[:64]
