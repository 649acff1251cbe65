"""The results as text and as JSON; gets them from `bench.py`, no TensorFlow."""

import json
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # so that tests import this module as part of `benchmarks`
    from rows import Bound, Result, Row, Step

_Kind = TypeVar("_Kind", "Row", "Bound", "Step")


def to_text(results: "list[Result]") -> str:
    """Returns up to three tables: comparisons, values with limits, times by step."""
    tables = [
        _comparisons(of_kind(results, "Row")),
        _bounds(of_kind(results, "Bound")),
        _steps(of_kind(results, "Step")),
    ]
    return "\n\n".join("\n".join(lines) for lines in tables if lines)


def to_json(results: "list[Result]", machine: dict[str, Any]) -> str:
    content = {
        "machine": machine,
        "comparisons": [row.to_dict() for row in of_kind(results, "Row")],
        "bounds": [bound.to_dict() for bound in of_kind(results, "Bound")],
        "steps": [step.to_dict() for step in of_kind(results, "Step")],
    }
    return json.dumps(content, indent=2) + "\n"


def of_kind(results: "list[Result]", name: str) -> list[Any]:
    return [one for one in results if type(one).__name__ == name]


def _comparisons(rows: "list[Row]") -> list[str]:
    if not rows:
        return []
    lines = [
        f"{'work':44} {'engine':6} {'tfrds':>9} {'baseline':>22}{'':>9} {'ratio':>7} {'goal':>6}"
        "  images/s"
    ]
    for row in rows:
        goal = "" if row.goal is None else f"{row.goal:.2f}"
        lines.append(
            f"{row.work:44} {row.engine:6} {row.ours:>9,.0f} {row.baseline:>22}{row.theirs:>9,.0f} "
            f"{row.ratio:>7.2f} {goal:>6}  {row.verdict}".rstrip()
        )
    return lines


def _bounds(bounds: "list[Bound]") -> list[str]:
    if not bounds:
        return []
    lines = [f"{'work':60} {'engine':6} {'value':>9} {'limit':>9}"]
    for bound in bounds:
        limit = "" if bound.limit is None else f"{bound.limit:,.2f}"
        lines.append(
            f"{bound.work:60} {bound.engine:6} {bound.value:>9,.2f} {limit:>9} "
            f"{bound.unit:3} {bound.verdict}".rstrip()
        )
    return lines


def _steps(steps: "list[Step]") -> list[str]:
    """One line for each work: microseconds an image on one processor, and shares of the whole."""
    if not steps:
        return []
    lines = ["processor time, microseconds an image"]
    for work in dict.fromkeys(step.work for step in steps):
        own = [step for step in steps if step.work == work]
        whole = sum(step.microseconds for step in own)
        parts = [
            f"{step.step} {step.microseconds:,.1f} ({step.microseconds / whole:.0%})"
            for step in own
        ]
        lines.append(f"{work:30} {whole:>9,.1f} = {' + '.join(parts)}")
    return lines
