"""How far something is: a bar on a terminal, now and then a plain line elsewhere."""

import time
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import tqdm

# A log file with a line for each of a thousand shards is read by nobody.
_MIN_FRACTION, _MIN_SECONDS = 0.1, 2.0


class ProgressDisplay:
    """Shows calls with (done, total); leave it as a context manager, so that the bar ends its line.

    Args:
      stream: a terminal, or anything that takes text.
      unit: what is counted, in the plural.
    """

    def __init__(self, stream: TextIO, unit: str) -> None:
        self._stream = stream
        self._unit = unit
        self._bar: tqdm.tqdm[Any] | None = None
        self._shown_done, self._shown_at = 0, time.monotonic()

    def __enter__(self) -> "ProgressDisplay":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, done: int, total: int) -> None:
        """Shows that `done` of `total` are done."""
        if self._stream.isatty():
            self._move_bar(done, total)
            return
        now = time.monotonic()
        if (
            done - self._shown_done >= _MIN_FRACTION * total
            and now - self._shown_at >= _MIN_SECONDS
        ):
            self._shown_done, self._shown_at = done, now
            self._stream.write(f"{done:,} of {total:,} {self._unit}, {done / total:.0%}\n")
            self._stream.flush()

    def _move_bar(self, done: int, total: int) -> None:
        if self._bar is None:
            import tqdm

            self._bar = tqdm.tqdm(total=total, unit=f" {self._unit}", file=self._stream)
        self._bar.update(done - self._bar.n)
