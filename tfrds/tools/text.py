"""Results of tools as lines for a person to read; `cli.py` prints them.

Names pass through `shown_text`: they come from files of strangers.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tfrds.tools.messages import shown_text

if TYPE_CHECKING:
    from tfrds.tools.clean import Leftovers
    from tfrds.tools.demo_result import DemoResult
    from tfrds.tools.duplicates import DuplicatesResult
    from tfrds.tools.faults import Fault
    from tfrds.tools.info import DatasetSummary
    from tfrds.tools.remove import Removal
    from tfrds.tools.verify import VerifyResult
    from tfrds.write.plan import Plan

_LISTED = 10


def summary_lines(summary: "DatasetSummary") -> list[str]:
    """Returns what `tfrds info` shows."""
    name = f"{summary.name}/{summary.config}" if summary.config else summary.name
    return [
        f"{name} {summary.version}",
        *_table(
            [
                ("directory", shown_text(str(summary.directory))),
                (
                    "image",
                    f"{_shape(summary.image_shape)}, stored {summary.encoding}, "
                    f"read as {summary.dtype}",
                ),
                ("classes", f"{summary.num_classes:,}" if summary.num_classes else ""),
                ("labels", _LABELS[summary.label_kind]),
                ("columns", _columns(summary.columns)),
                ("examples", f"{summary.num_examples:,}"),
                ("on disk", _bytes(summary.total_bytes)),
                ("left out", _kinds(summary.left_out)),
                ("skipped", _kinds(summary.skipped)),
                ("repaired", _images(summary.repaired)),
                (
                    "duplicates",
                    _duplicates(summary.duplicates, summary.label_conflicts, summary.leaks),
                ),
                ("source", summary.source_kind),
                ("digest", summary.digest),
            ]
        ),
        *_split_lines(
            {
                split: (part.num_examples, part.num_shards, part.num_bytes)
                for split, part in summary.splits.items()
            }
        ),
        *_class_lines(
            summary.class_names,
            {split: part.class_counts for split, part in summary.splits.items()},
        ),
        *load_lines(summary.load_line),
    ]


def duplicates_lines(result: "DuplicatesResult") -> list[str]:
    """Returns what `tfrds info --duplicates` shows: all groups, one example a line."""
    counts = (result.num_extra, result.num_label_conflicts, result.num_leaks)
    lines = [
        f"{result.name} {result.version}: {_duplicates(*counts) or 'no duplicates'}",
    ]
    for group in result.groups:
        rows = [(one.split, shown_text(one.class_name), shown_text(one.key)) for one in group]
        lines += ["", *_aligned(rows, left=3)]
    return lines


# What the number of classes does not say.
_LABELS = {
    "single": "",
    "binary": "one of two classes, read as 0 or 1",
    "multi": "any number of classes, read as multi-hot",
    "value": "numbers",
    "none": "none",
}


def _columns(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({what})" for name, what in columns.items())


def plan_lines(plan: "Plan", name: str, version: str) -> list[str]:
    """Returns what `tfrds build --dry-run` shows."""
    height, width = plan.options.image_size or plan.image.shape_from or (None, None)
    total = sum(split.estimated_bytes for split in plan.splits.values())
    return [
        f"{name} {version} would be built; nothing was written.",
        *_table(
            [
                (
                    "image",
                    f"{_shape((height, width, plan.image.channels))}, stored {plan.image.encoding}",
                ),
                ("classes", f"{len(plan.class_names):,}" if plan.class_names else ""),
                ("labels", _LABELS[plan.labels.kind]),
                ("examples", f"{plan.num_examples:,}"),
                ("on disk", f"about {_bytes(total)}"),
                ("left out", _kinds(plan.left_out)),
            ]
        ),
        *_split_lines(
            {
                split: (len(part.rows), part.num_shards, part.estimated_bytes)
                for split, part in plan.splits.items()
            }
        ),
        *_class_lines(plan.class_names, {split: plan.class_counts(split) for split in plan.splits}),
    ]


def built_lines(summary: "DatasetSummary", seconds: float) -> list[str]:
    """Returns the first line after a build; what was built follows as for `tfrds info`."""
    speed = summary.num_examples / seconds
    return [
        f"Built {summary.num_examples:,} examples in {seconds:,.1f} s, "
        f"{speed:,.0f} images per second.",
        "",
    ]


def removal_lines(removal: "Removal") -> list[str]:
    """Returns what `tfrds rm` is about to remove."""
    folders = [removal.directory] if removal.directory.is_dir() else []
    return [
        *(shown_text(str(folder)) for folder in (*folders, *removal.leftovers)),
        f"{removal.num_files:,} files, {_bytes(removal.num_bytes)}",
    ]


def leftover_lines(leftovers: "Leftovers") -> list[str]:
    """Returns what `tfrds clean` is about to remove."""
    if not leftovers.paths:
        return ["Nothing is left of abandoned builds."]
    paths = [shown_text(str(path)) for path in leftovers.paths]
    return [*paths, f"{len(paths):,} leftovers, {_bytes(leftovers.num_bytes)}"]


def verify_lines(result: "VerifyResult") -> list[str]:
    """Returns what `tfrds verify` shows: each fault, and what was checked."""
    faults = list(map(_fault_line, result.faults))
    if result.num_faults > len(faults):
        faults.append(f"... {result.num_faults - len(faults):,} more")
    found = "whole" if result.ok else f"{result.num_faults:,} fault{'s' * (result.num_faults > 1)}"
    checked = "hashes of all files" if result.is_fast else "all files, records and images"
    return [
        *faults,
        f"{result.name} {result.version}: {found}; checked {checked}",
        *_table(
            [
                ("directory", shown_text(str(result.directory))),
                ("examples", f"{result.num_examples:,}"),
                ("shards", f"{result.num_shards:,}, {_bytes(result.num_bytes)}"),
                ("digest", result.digest),
            ]
        ),
        *([] if result.ok else ["Copy or build the dataset again."]),
    ]


def _fault_line(fault: "Fault") -> str:
    record = "" if fault.record is None else f"record {fault.record:,}, "
    key = "" if fault.key is None else f"key {fault.key}, "
    where = f"{record}{key}".removesuffix(", ")
    return shown_text(": ".join(filter(None, (fault.file, where, fault.what))))


def demo_lines(result: "DemoResult") -> list[str]:
    """Returns what `tfrds demo` shows at its end."""
    built = (
        "already built"
        if result.built_per_second is None
        else f"{result.num_built:,} images, {result.built_per_second:,.0f} per second"
    )
    return [
        *_table(
            [
                ("built", built),
                ("read", f"{result.read_per_second:,.0f} images per second"),
                ("trained", f"{result.epochs} epochs in {result.train_seconds:,.1f} s"),
                ("accuracy", f"{result.test_accuracy:.1%} of the test images"),
                ("directory", shown_text(str(result.directory))),
            ]
        ),
        *load_lines(result.load_line),
    ]


def load_lines(load_line: str) -> list[str]:
    """Returns the lines of Python that load a dataset.

    `import tfrds` stands there even where only TFDS is called: it makes the names known to TFDS.
    """
    return [
        "",
        "Load it:",
        *(["  import tensorflow_datasets as tfds"] if load_line.startswith("tfds.") else []),
        "  import tfrds",
        f"  dataset = {shown_text(load_line)}",
    ]


def _bytes(num_bytes: int) -> str:
    amount, unit = num_bytes / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:,.1f} {unit}"


def _shape(shape: tuple[int | None, int | None, int]) -> str:
    height, width, channels = shape
    size = "sizes vary" if height is None else f"{height} x {width}"
    return f"{size}, {channels} channel{'s' if channels > 1 else ''}"


def _images(count: int) -> str:
    return f"{count:,} image{'' if count == 1 else 's'}" if count else ""


def _duplicates(num_extra: int, num_label_conflicts: int, num_leaks: int) -> str:
    if not num_extra:
        return ""
    groups = ((num_label_conflicts, "under two labels"), (num_leaks, "in two splits"))
    return "; ".join(
        [_images(num_extra), *(f"{_images(count)} {where}" for count, where in groups if count)]
    )


def _kinds(left_out: Mapping[str, int]) -> str:
    """Returns counts by kind, the most frequent first."""
    kinds = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))
    listed = [f"{shown_text(kind)} {count:,}" for kind, count in kinds[:_LISTED]]
    if len(kinds) > _LISTED:
        listed.append(f"... {len(kinds):,} kinds in all")
    return ", ".join(listed)


def _table(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Returns the rows that have a value, aligned."""
    return [f"  {title:<10} {value}" for title, value in rows if value]


def _split_lines(splits: Mapping[str, tuple[int, int, int]]) -> list[str]:
    """Returns a line for each split from (examples, shards, bytes)."""
    rows = [
        (split, f"{examples:,}", f"{shards:,}", _bytes(num_bytes))
        for split, (examples, shards, num_bytes) in splits.items()
    ]
    return ["", *_aligned([("split", "examples", "shards", "bytes"), *rows])]


def _class_lines(names: Sequence[str], counts: Mapping[str, Sequence[int]]) -> list[str]:
    """Returns a line for each of the first classes: number, name, examples of each split."""
    rows = [
        (str(number), shown_text(name), *(f"{of_split[number]:,}" for of_split in counts.values()))
        for number, name in enumerate(names[:_LISTED])
    ]
    more = [f"  ... {len(names):,} in all"] if len(names) > _LISTED else []
    return ["", *_aligned([("class", "name", *counts), *rows], left=2), *more]


def _aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Returns rows of cells in columns: the first `left` flush left, all others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
