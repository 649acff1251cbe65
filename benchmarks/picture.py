"""Draws the results against their goals, as a picture; gets them from `bench.py`."""

import pathlib
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("agg")

from matplotlib.figure import Figure

if TYPE_CHECKING:  # so that tests import this module as part of `benchmarks`
    from rows import Bound, Result, Row

COLOURS = {"ok": "#2a7f62", "MISSED": "#c0392b"}
# A bar that is longer is cut here: how far beyond its goal something lies does not matter.
LONGEST = 3.0


def draw(results: "list[Result]", path: pathlib.Path) -> None:
    """Draws one bar for each goal or limit: 1 is exactly reached, longer is better."""
    shown = [one for one in results if getattr(one, "reached", None) is not None]
    figure = Figure(figsize=(11, 1.4 + 0.34 * len(shown)), layout="constrained", facecolor="white")
    axes = figure.subplots()
    for place, one in enumerate(shown):
        length = min(one.reached, LONGEST)
        axes.barh(place, length, height=0.62, color=COLOURS[one.verdict])
        # On white, so that the line of the goal does not cross it.
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        axes.text(length + 0.03, place, numbers(one), va="center", fontsize=9, bbox=box)
    axes.axvline(1, color="black", linewidth=1, zorder=0.9)
    axes.set_yticks(range(len(shown)), [label(one) for one in shown], fontsize=9)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, LONGEST + 0.9)
    axes.set_xticks([0, 1, 2, 3], ["0", "goal", "2 x goal", "3 x and more"], fontsize=9)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title("tfrds against its goals: longer is better", loc="left", fontsize=11)
    figure.savefig(path, dpi=120)


def label(one: "Row | Bound") -> str:
    """Returns what was measured, and against what."""
    baseline = getattr(one, "baseline", None)
    return f"{one.work} vs {baseline}" if baseline else one.work


def numbers(one: "Row | Bound") -> str:
    """Returns the value and what it should be."""
    if hasattr(one, "goal"):
        return f"{one.ratio:.2f} x (goal {one.goal:g})"
    return f"{one.value:,.3g} {one.unit} (limit {one.limit:,.3g})"
