import io

import pytest

from tfrds.tools import progress
from tfrds.tools.progress import ProgressDisplay


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands until it is set."""

    class Clock:
        now = 0.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


def test_lines_come_each_tenth_and_not_within_two_seconds(clock):
    stream = io.StringIO()
    with ProgressDisplay(stream, "images") as display:
        for second in range(41):
            clock.now = second / 2
            display(second * 100, 4000)
    # A tenth is 400 images, which take two seconds here.
    assert stream.getvalue().splitlines() == [
        f"{done:,} of 4,000 images, {done // 40}%" for done in range(400, 4001, 400)
    ]


def test_fast_work_says_nothing(clock):
    stream = io.StringIO()
    with ProgressDisplay(stream, "images") as display:
        for done in range(1, 101):
            display(done, 100)
    assert stream.getvalue() == ""


def test_slow_work_says_each_tenth_only(clock):
    stream = io.StringIO()
    with ProgressDisplay(stream, "images") as display:
        for done in range(1, 1001):
            clock.now = done * 60
            display(done, 1000)
    assert len(stream.getvalue().splitlines()) == 10


def test_a_terminal_gets_a_bar_that_ends_its_line():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with ProgressDisplay(stream, "images") as display:
        display(5, 10)
        display(10, 10)
    assert "5/10" in stream.getvalue() or "10/10" in stream.getvalue()
    assert "100%" in stream.getvalue()
    assert stream.getvalue().endswith("\n")
