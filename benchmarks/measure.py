"""Measures several sides in turn, as ratios: the machine is shared and noisy."""

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rows import Row

ROUNDS = 7

# What tfrds reads local files with, unless it is told otherwise.
ENGINE = "mmap"

Measurement = Callable[[], float]


@dataclasses.dataclass(frozen=True)
class Baseline:
    """Another side.

    Attributes:
      name: in the table.
      measure: returns images a second.
      goal: least ratio of ours to it; None: a look.
    """

    name: str
    measure: Measurement
    goal: float | None = None


def compare(
    work: str,
    ours: Measurement,
    baselines: Sequence[Baseline],
    rounds: int = ROUNDS,
    engine: str = ENGINE,
) -> list[Row]:
    """Measures all sides in turn; a first round warms up and is not counted.

    Every second round goes backwards, so that a machine that slows down slows no side more.
    """
    sides = [ours, *(baseline.measure for baseline in baselines)]
    speeds: list[list[float]] = [[] for _ in sides]
    for number in range(rounds + 1):
        order = range(len(sides)) if number % 2 else reversed(range(len(sides)))
        for side in order:
            speeds[side].append(sides[side]())
    mine, *others = (counted[1:] for counted in speeds)
    return [
        Row(
            work=work,
            engine=engine,
            ours=statistics.median(mine),
            baseline=baseline.name,
            theirs=statistics.median(theirs),
            ratio=statistics.median(my / their for my, their in zip(mine, theirs, strict=True)),
            goal=baseline.goal,
        )
        for baseline, theirs in zip(baselines, others, strict=True)
    ]


def one_epoch(dataset: Iterable[Any]) -> Measurement:
    """Returns a measurement: images a second, from asking for an iterator to its last batch.

    What comes after the last batch is not counted: with tf.data's autotuning, which baselines have
    on, ending an iterator waits for its tuner, up to as long as the epoch took. `waiting.py`
    measures what users see of that.
    """

    def measure() -> float:
        count, end = 0, 0.0
        start = time.perf_counter()
        for images, _ in dataset:
            count += int(images.shape[0])
            end = time.perf_counter()
        return count / (end - start)

    return measure
