"""Measures two sides in turn, as ratios: the machine is shared and noisy."""

import dataclasses
import statistics
import time
from collections.abc import Callable

import tensorflow as tf

PAIRS = 7


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison; speeds in images a second, each the median of its side; no goal: a look."""

    work: str
    ours: float
    baseline: str
    theirs: float
    ratio: float
    goal: float | None = None

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return "ok" if self.ratio >= self.goal else "MISSED"


def compare(
    work: str,
    ours: Callable[[], float],
    baseline: str,
    theirs: Callable[[], float],
    goal: float | None = None,
    pairs: int = PAIRS,
) -> Row:
    """Measures both sides in turn; a first pair warms up and is not counted."""
    speeds = [(ours(), theirs()) for _ in range(pairs + 1)][1:]
    return Row(
        work,
        statistics.median(speed for speed, _ in speeds),
        baseline,
        statistics.median(speed for _, speed in speeds),
        statistics.median(mine / other for mine, other in speeds),
        goal,
    )


def one_epoch(dataset: tf.data.Dataset) -> Callable[[], float]:
    """Returns a measurement: images a second over one epoch."""

    def measure() -> float:
        start = time.perf_counter()
        count = sum(int(images.shape[0]) for images, _ in dataset)
        return count / (time.perf_counter() - start)

    return measure
