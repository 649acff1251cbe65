"""Which example belongs to which split: the source's own, drawn by fractions or folds, or listed.

Gets a source's references and the options, gives a split for each example; the plan is next. What
is drawn is decided by the hashes of the keys or of the groups' names, so neither the listing's
order nor a worker has a say.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import ConfigError, SourceError
from tfrds.spec import BuildOptions
from tfrds.split_settings import lists_of_keys
from tfrds.write.groups import Groups, assign_groups, check_whole, count_by_split, find_groups
from tfrds.write.key_hash import SPLIT_HASH, hash_keys, sort_by_hash
from tfrds.write.key_lists import match_lists
from tfrds.write.sources.base import References

# A note tells of shares that are off by more than all of these: a fifth of what was asked for, two
# hundredths of all examples, and five examples, since no share of a few is exact.
_FAR_RELATIVE, _FAR_ABSOLUTE, _FAR_EXAMPLES = 0.2, 0.02, 5

_LISTED = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChosenSplits:
    """The split of each example.

    Attributes:
      names: of the splits.
      numbers: int32 [n], positions in `names`.
      notes: what is probably not meant, for the user to read.
    """

    names: tuple[str, ...]
    numbers: NDArray[np.int32]
    notes: tuple[str, ...] = ()


def choose_splits(
    references: References,
    labels: NDArray[np.int32],
    class_names: Sequence[str],
    options: BuildOptions,
) -> ChosenSplits:
    """Returns the splits that `options` ask for, or the source's own, or "train" alone.

    Args:
      references: of the source.
      labels: int32 [n], positions in `class_names`.
      class_names: in the order of their numbers.
      options: of the build.

    Raises:
      ConfigError: splits where the source has its own, lists that do not fit the examples or tear a
        group apart, keys without a group.
      SourceError: a split would be empty, or the source's splits tear a group apart.
    """
    if options.splits is None and references.splits is None:
        return ChosenSplits(names=("train",), numbers=np.zeros(len(labels), np.int32))
    groups = find_groups(references, options.group)
    if references.splits is not None:
        if options.splits is not None:
            raise ConfigError(
                f"splits: the source has its own, {list(references.split_names)}. Leave out "
                'splits=, or pass ImageFolder(path, layout="class"), Manifest(table, split=False) '
                "or one source instead of a dict."
            )
        chosen = ChosenSplits(names=references.split_names, numbers=references.splits)
        check_whole(groups, chosen.numbers, chosen.names, references.keys, SourceError)
        return chosen
    if lists := lists_of_keys(options.splits):
        chosen = ChosenSplits(names=tuple(lists), numbers=match_lists(references.keys, lists))
        check_whole(groups, chosen.numbers, chosen.names, references.keys, ConfigError)
        return chosen
    return _draw(references, groups, labels, class_names, options)


def _draw(
    references: References,
    groups: Groups | None,
    labels: NDArray[np.int32],
    class_names: Sequence[str],
    options: BuildOptions,
) -> ChosenSplits:
    splits: Any = options.splits
    fractions = _fractions(splits, options.split_by)
    if options.split_by == "hash":
        hashes = hash_keys(groups.names if groups else references.keys, SPLIT_HASH)
        numbers = split_by_hash(hashes[:, 0], list(fractions.values()))
        numbers = numbers[groups.numbers] if groups else numbers
    elif groups:
        shares = [float(fraction) for fraction in fractions.values()]
        numbers = assign_groups(groups, labels, len(class_names), shares)
    else:
        order = sort_by_hash(hash_keys(references.keys, SPLIT_HASH))
        if isinstance(splits, int):
            numbers = deal_folds(order, labels, splits)
        else:
            numbers = assign_splits(order, labels, len(class_names), fractions)
    counts = np.bincount(numbers, minlength=len(fractions))
    if not counts.all():
        name = list(fractions)[int(counts.argmin())]
        units = labels if groups is None else groups.numbers
        raise SourceError(
            f"splits: {name!r} would be empty: {float(fractions[name]):g} of {len(labels):,} "
            f"examples in {len(np.unique(units)):,} {'groups' if groups else 'classes'}. Add "
            "images, or ask for a larger fraction or fewer folds."
        )
    return ChosenSplits(
        names=tuple(fractions),
        numbers=numbers,
        notes=(
            *describe_missing_classes(labels, numbers, class_names, len(fractions)),
            *describe_shares(fractions, counts),
        ),
    )


def _fractions(splits: int | Mapping[str, float], split_by: str) -> dict[str, Fraction]:
    """Returns the exact fractions by split name; equal options give one order of the names.

    `tfrds.json` keeps no order of them. By hash in the order of the names: a split keeps its first
    examples when another one's fraction is changed; else the largest first, which gets the example
    where two splits need it equally.
    """
    if isinstance(splits, int):
        return {f"fold_{number}": Fraction(1, splits) for number in range(splits)}
    by_name = sorted(splits.items())
    ordered = by_name if split_by == "hash" else sorted(by_name, key=lambda item: -item[1])
    # As written: 0.8 is 4/5, not the binary number beside it.
    return {name: Fraction(repr(fraction)) for name, fraction in ordered}


def split_by_hash(hashes: NDArray[np.uint64], fractions: Sequence[Fraction]) -> NDArray[np.int32]:
    """Returns the split of each hash: the first whose limit is above it.

    A split's limit is the sum of the fractions up to its own, of the sum of all, times 2^64,
    rounded down: whole numbers, so the same on every machine.

    Args:
      hashes: uint64 [n], upper halves.
      fractions: of the splits.

    Returns:
      int32 [n], positions in `fractions`.
    """
    sums = list(itertools.accumulate(fractions))
    limits = [int(part / sums[-1] * 2**64) for part in sums[:-1]]
    return np.searchsorted(np.array(limits, np.uint64), hashes, side="right").astype(np.int32)


def deal_folds(
    order: NDArray[np.int64], labels: NDArray[np.int32], num_folds: int
) -> NDArray[np.int32]:
    """Returns the fold of each example: dealt out class by class like cards.

    Each class begins where the last one ended, so that folds differ by at most one example, in each
    class and in all.

    Args:
      order: int64 [n], the examples sorted by the hash of their keys.
      labels: int32 [n], in the examples' own order.
      num_folds: at least 2.

    Returns:
      int32 [n], 0 to `num_folds` - 1, in the examples' own order.
    """
    folds = np.empty(len(labels), np.int32)
    folds[order[np.argsort(labels[order], kind="stable")]] = np.arange(len(labels)) % num_folds
    return folds


def assign_splits(
    order: NDArray[np.int64],
    labels: NDArray[np.int32],
    num_classes: int,
    fractions: Mapping[str, float | Fraction],
) -> NDArray[np.int32]:
    """Returns the split of each example: stratified, exact for each class by largest remainder.

    Args:
      order: int64 [n], the examples sorted by the hash of their keys with the splits' salt.
      labels: int32 [n], in the examples' own order.
      num_classes: labels are below it.
      fractions: by split name, with the sum 1.

    Returns:
      int32 [n], positions in `fractions`, in the examples' own order.
    """
    counts = np.bincount(labels, minlength=num_classes)
    shares = largest_remainder(counts, np.array([float(part) for part in fractions.values()]))
    # Sorted by class and, inside a class, by hash: the position inside the class decides.
    by_class = order[np.argsort(labels[order], kind="stable")]
    starts = np.cumsum(counts) - counts
    ranks = np.arange(len(labels)) - np.repeat(starts, counts)
    edges = np.repeat(np.cumsum(shares, axis=1), counts, axis=0)
    splits = np.empty(len(labels), np.int32)
    splits[by_class] = (ranks[:, None] >= edges).sum(axis=1)
    return splits


def largest_remainder(
    counts: NDArray[np.int64], fractions: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Returns int64 [num_classes, num_splits].

    Whole numbers nearest to the fractions that sum to each count.

    Source: the largest remainder method (Hamilton); on equal remainders the earlier split gets the
    example.
    """
    quotas = counts[:, None] * fractions[None, :]
    # Fractions such as 0.29 have no exact binary form: a quota of 28.999999999999996 means 29.
    shares = np.floor(quotas + 1e-9).astype(np.int64)
    missing = counts - shares.sum(axis=1)
    by_remainder = np.argsort(-(quotas - shares).round(9), axis=1, kind="stable")
    ranks = np.empty_like(by_remainder)
    np.put_along_axis(ranks, by_remainder, np.arange(len(fractions))[None, :], axis=1)
    shares += ranks < missing[:, None]
    return shares


def describe_missing_classes(
    labels: NDArray[np.int32],
    splits: NDArray[np.int32],
    class_names: Sequence[str],
    num_splits: int,
) -> tuple[str, ...]:
    """Returns a note where a class is not in every split; else nothing."""
    counts = count_by_split(labels, splits, len(class_names), num_splits)
    present = (counts > 0).sum(axis=1)
    missing = np.flatnonzero((present > 0) & (present < num_splits))
    if not len(missing):
        return ()
    listed = ", ".join(
        f"{class_names[label]!r} ({_examples(int(counts[label].sum()))}, in {present[label]} of "
        f"{num_splits} splits)"
        for label in missing[:_LISTED]
    )
    more = ", ..." if len(missing) > _LISTED else ""
    return (
        f"splits: classes too small to be in each split: {listed}{more}; in all: "
        f"{len(missing):,}. What is learned of them cannot be tested: add images of them.",
    )


def describe_shares(
    fractions: Mapping[str, Fraction], counts: NDArray[np.int64]
) -> tuple[str, ...]:
    """Returns a note where a split's share is far from what was asked for; else nothing."""
    total = int(counts.sum())
    shares = (counts / total).tolist()
    far = [
        f"{name!r} {share:.1%} instead of {float(fraction):.1%}"
        for (name, fraction), share in zip(fractions.items(), shares, strict=True)
        if abs(share - fraction)
        > max(_FAR_RELATIVE * fraction, _FAR_ABSOLUTE, _FAR_EXAMPLES / total)
    ]
    if not far:
        return ()
    more = f", ... ({len(far):,} in all)" if len(far) > _LISTED else ""
    return (
        f"splits: shares of the examples far from those asked for: {', '.join(far[:_LISTED])}"
        f"{more}. Whole groups, hashes and small classes divide few examples only roughly.",
    )


def _examples(count: int) -> str:
    return f"{count:,} example{'' if count == 1 else 's'}"
