"""What was measured and whether it is enough: ratios, values with a limit, times of steps.

No TensorFlow. The groups of `bench.py` give these, `report.py` and `picture.py` show them.
"""

import dataclasses
from typing import Any

MISSED = "MISSED"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One comparison; speeds in images a second, each the median of its side.

    Attributes:
      work: what both sides do.
      engine: that tfrds read with; empty where it wrote.
      ours: speed of tfrds.
      baseline: the other side.
      theirs: its speed.
      ratio: of the speeds, the median of the rounds.
      goal: least ratio that is enough; None: a look.
    """

    work: str
    engine: str
    ours: float
    baseline: str
    theirs: float
    ratio: float
    goal: float | None = None

    @property
    def reached(self) -> float | None:
        """The share of the goal that was reached; None: there is none."""
        return None if self.goal is None else self.ratio / self.goal

    @property
    def verdict(self) -> str:
        return _verdict(self.reached)

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "verdict": self.verdict}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bound:
    """One value that must stay below a limit.

    Attributes:
      work: what was measured.
      engine: that tfrds read with.
      value: the median, or the peak for memory.
      unit: of value and limit.
      limit: the value must be below it; None: a look.
    """

    work: str
    engine: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def reached(self) -> float | None:
        """How many times the value fits into its limit; None: there is none."""
        return None if self.limit is None else self.limit / max(self.value, 1e-9)

    @property
    def verdict(self) -> str:
        # "under" a limit: the limit itself is too much.
        return "" if self.limit is None else "ok" if self.value < self.limit else MISSED

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "verdict": self.verdict}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """The processor time that one step of reading takes.

    Attributes:
      work: what is read.
      step: "fetch", "decode", ...
      microseconds: for an image.
    """

    work: str
    step: str
    microseconds: float

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


Result = Row | Bound | Step


def has_missed(results: list[Result]) -> bool:
    return any(not isinstance(one, Step) and one.verdict == MISSED for one in results)


def _verdict(reached: float | None) -> str:
    if reached is None:
        return ""
    return "ok" if reached >= 1 else MISSED
