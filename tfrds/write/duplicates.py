"""Images that are stored more than once: inside a split, across splits, under two labels.

Gets the index rows, whose content hashes say which records hold the same bytes; gives what to
report and which to drop. Nothing is read again for it.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.index import Rows

_LISTED = 5

# Of copies in several splits the one outside of the training data stays: an evaluation keeps its
# examples, and training sees none of them.
_TRAIN = "train"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Records that hold the same bytes, in groups.

    Attributes:
      records: int64 [n], numbers of records in groups, group by group; the one that stays first.
      groups: int64 [n], number of each record's group.
      firsts: int64 [n], number of the record that stays, of each record's group.
      has_labels: bool [n], whether its group has two labels or more.
      has_splits: bool [n], whether its group lies in two splits or more.
    """

    records: NDArray[np.int64]
    groups: NDArray[np.int64]
    firsts: NDArray[np.int64]
    has_labels: NDArray[np.bool_]
    has_splits: NDArray[np.bool_]

    @property
    def extra(self) -> NDArray[np.int64]:
        """int64 [m], numbers of the records that would be dropped."""
        return np.asarray(self.records[self.records != self.firsts], np.int64)

    @property
    def num_extra(self) -> int:
        """Records beyond the first of each group."""
        return int((self.records != self.firsts).sum())

    def counts(self) -> dict[str, int]:
        """Returns the totals of `tfrds.json` about duplicates."""
        return {
            "duplicate": self.num_extra,
            "label_conflicts": self.num_groups(self.has_labels),
            "leaks": self.num_groups(self.has_splits),
        }

    def num_groups(self, chosen: NDArray[np.bool_] | None = None) -> int:
        """Returns the number of groups among the chosen records; None: of all."""
        return len(np.unique(self.groups if chosen is None else self.groups[chosen]))

    def listed(self, name: Callable[[int], str], chosen: NDArray[np.bool_] | None = None) -> str:
        """Returns the first groups as text, "a = b; c = d = ... (9 in all); ..."."""
        groups = self.groups if chosen is None else self.groups[chosen]
        records = self.records if chosen is None else self.records[chosen]
        numbers, starts = np.unique(groups, return_index=True)
        members = np.split(records, starts[1:])[:_LISTED]
        # By the group's first name: the order of hashes means nothing to anybody.
        texts = sorted(_equation(group, name) for group in members)
        return "; ".join(texts) + ("; ..." if len(numbers) > _LISTED else "")


def _equation(group: NDArray[np.int64], name: Callable[[int], str]) -> str:
    names = [name(int(record)) for record in group[:_LISTED]]
    return " = ".join(names) + (f" = ... ({len(group):,} in all)" if len(group) > _LISTED else "")


def find_duplicates(
    rows: Mapping[str, Sequence[Rows]],
    is_new: NDArray[np.bool_] | None = None,
    labels: NDArray[np.int64] | None = None,
) -> Duplicates:
    """Returns the groups of records that hold the same bytes.

    Args:
      rows: parts of the index, by split. Records are numbered through them in this order.
      is_new: bool [records], those that were added last: of a group an old one stays, if there is
        one. None: all are equal in that.
      labels: int64 [records], equal for equal labels; None: class numbers, by the index.
    """
    sizes = [sum(map(len, parts)) for parts in rows.values()]
    content = np.concatenate([part["content"] for parts in rows.values() for part in parts])
    if labels is None:
        classes = [part["label"] for parts in rows.values() for part in parts]
        labels = np.concatenate(classes).astype(np.int64)
    splits = np.repeat(np.arange(len(sizes)), sizes)
    is_train = np.repeat([split == _TRAIN for split in rows], sizes)
    halves = np.ascontiguousarray(content).view("<u8").reshape(-1, 2)
    is_later = np.zeros(len(halves), np.bool_) if is_new is None else is_new
    order = np.lexsort((is_train, is_later, halves[:, 1], halves[:, 0]))
    is_other = np.ones(len(order), np.bool_)
    is_other[1:] = (halves[order[1:]] != halves[order[:-1]]).any(axis=1)
    groups = np.cumsum(is_other) - 1
    counts = np.bincount(groups, minlength=1)
    # A hash of zeros was not computed: it says nothing.
    is_shared = (counts[groups] > 1) & ((halves[:, 0] | halves[:, 1])[order] != 0)
    order, groups = order[is_shared], groups[is_shared]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(starts, append=len(order))

    def differ(values: NDArray[np.int64]) -> NDArray[np.bool_]:
        if not len(order):
            return np.zeros(0, np.bool_)
        low = np.minimum.reduceat(values[order], starts)
        return np.repeat(low != np.maximum.reduceat(values[order], starts), lengths)

    return Duplicates(
        records=order,
        groups=groups,
        firsts=np.repeat(order[starts], lengths),
        has_labels=differ(labels),
        has_splits=differ(splits),
    )
