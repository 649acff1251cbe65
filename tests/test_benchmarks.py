"""The parts of the benchmark that measure nothing: verdicts, tables, the list of groups, boxes."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import picture, report
from benchmarks.boxes import draw_boxes
from benchmarks.rows import Bound, Row, Step, has_missed

BENCH = pathlib.Path(__file__).resolve().parents[1] / "benchmarks" / "bench.py"


def row(ratio, goal, work="read"):
    return Row(
        work=work,
        engine="mmap",
        ours=ratio * 1000,
        baseline="hand-written",
        theirs=1000.0,
        ratio=ratio,
        goal=goal,
    )


def bound(value, limit, unit="s"):
    return Bound(work="first batch", engine="mmap", value=value, unit=unit, limit=limit)


STEPS = [
    Step(work="JPEG", step="decode", microseconds=750.0),
    Step(work="JPEG", step="resize", microseconds=250.0),
]


@pytest.mark.parametrize(
    ("ratio", "goal", "verdict"), [(6.0, 6.0, "ok"), (5.99, 6.0, "MISSED"), (0.1, None, "")]
)
def test_ratio_must_reach_its_goal(ratio, goal, verdict):
    assert row(ratio, goal).verdict == verdict


@pytest.mark.parametrize(
    ("value", "limit", "verdict"), [(0.99, 1.0, "ok"), (1.0, 1.0, "MISSED"), (9.0, None, "")]
)
def test_value_must_stay_below_its_limit(value, limit, verdict):
    assert bound(value, limit).verdict == verdict


def test_gap_below_zero_counts_as_reached():
    assert bound(-0.01, 0.3).verdict == "ok"
    assert bound(-0.01, 0.3).reached > 1


def test_one_missed_goal_is_enough():
    assert has_missed([row(7, 6), bound(2.0, 1.0), *STEPS])
    assert not has_missed([row(7, 6), row(0.1, None), bound(0.5, 1.0), *STEPS])


def test_text_has_a_table_for_each_kind_of_result():
    comparisons, bounds, steps = report.to_text([row(7, 6), *STEPS, bound(2.0, 1.0)]).split("\n\n")
    assert comparisons.splitlines()[1].split() == [
        *["read", "mmap", "7,000", "hand-written", "1,000", "7.00", "6.00", "ok"]
    ]
    assert bounds.splitlines()[1].split() == [
        *["first", "batch", "mmap", "2.00", "1.00", "s", "MISSED"]
    ]
    assert steps.splitlines()[1].split() == [
        *["JPEG", "1,000.0", "=", "decode", "750.0", "(75%)", "+", "resize", "250.0", "(25%)"]
    ]


def test_text_without_a_goal_gives_no_verdict():
    assert report.to_text([row(0.25, None)]).splitlines()[1].endswith("0.25")


def test_columns_stay_aligned_with_the_longest_names():
    long = row(12.5, 6, work="JPEG stored at 256, centre crop 224, uint8")
    lines = report.to_text([row(7, 6), long]).splitlines()
    assert len({line.index("hand-written") for line in lines[1:]}) == 1


def test_json_holds_every_result_with_its_verdict():
    content = json.loads(report.to_json([row(7, 6), bound(2.0, 1.0), *STEPS], {"processors": 2}))
    assert content["machine"] == {"processors": 2}
    assert [one["verdict"] for one in content["comparisons"]] == ["ok"]
    assert content["comparisons"][0]["engine"] == "mmap"
    assert [(one["value"], one["limit"], one["verdict"]) for one in content["bounds"]] == [
        (2.0, 1.0, "MISSED")
    ]
    assert [one["step"] for one in content["steps"]] == ["decode", "resize"]


def test_picture_says_values_and_goals():
    assert picture.label(row(7, 6)) == "read vs hand-written"
    assert picture.numbers(row(7, 6)) == "7.00 x (goal 6)"
    assert picture.label(bound(0.25, 1.0)) == "first batch"
    assert picture.numbers(bound(512.3, 766.6, "MB")) == "512 MB (limit 767)"


def test_picture_is_drawn(tmp_path):
    picture.draw([row(7, 6), row(5, 6), row(1, None), bound(2.0, 1.0), *STEPS], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_boxes_lie_inside_and_have_the_mean_area_of_the_definition():
    height, width = 375, 500
    boxes = draw_boxes([(height, width)] * 20_000, np.random.default_rng(0))
    top, left, box_height, box_width = boxes.T
    assert top.min() >= 0
    assert left.min() >= 0
    assert (top + box_height).max() <= height
    assert (left + box_width).max() <= width
    # Tries of all areas would give 0.54; the large ones fit less often.
    assert (box_height * box_width).mean() / (height * width) == pytest.approx(0.43, abs=0.01)


def test_box_where_none_fits_is_the_largest_centred_one():
    # 10 x 1000: every area of at least 0.08 is too tall at these ratios.
    assert draw_boxes([(10, 1000)], np.random.default_rng(0)).tolist() == [[0, 493, 10, 13]]


def test_ratio_is_the_median_of_the_rounds_without_the_first(monkeypatch):
    monkeypatch.syspath_prepend(BENCH.parent)
    import measure

    # A first round that warms up, then rounds in which the whole machine is fast or slow.
    ours, theirs = iter([1.0, 60.0, 6.0, 12.0]), iter([50.0, 10.0, 2.0, 3.0])
    baselines = [measure.Baseline("other", lambda: next(theirs), 4.0)]
    (found,) = measure.compare("read", lambda: next(ours), baselines, rounds=3)
    assert (found.ours, found.theirs, found.ratio) == (12.0, 3.0, 4.0)
    assert (found.work, found.engine, found.baseline, found.verdict) == (
        *("read", "mmap", "other", "ok"),
    )


def test_epoch_is_timed_until_its_last_batch(monkeypatch):
    monkeypatch.syspath_prepend(BENCH.parent)
    import measure

    # Asking, three batches; whatever follows is not looked at.
    times = iter([0.0, 1.0, 2.0, 4.0])
    monkeypatch.setattr(measure.time, "perf_counter", lambda: next(times))
    batches = [(np.zeros((n, 2, 2, 1)), None) for n in (8, 8, 4)]
    assert measure.one_epoch(batches)() == 5.0


def test_gap_is_what_exceeds_a_usual_step_after_the_first_gap():
    from benchmarks.probe_gap import summary

    epochs = [[0.0, 1.0, 2.0], [9.0, 10.0, 11.0], [12.5, 13.5, 14.5], [17.5, 18.5, 19.5]]
    assert summary(epochs) == {"gaps": [0.5, 2.0], "epoch_seconds": 2.0}


def test_list_names_the_groups_without_measuring():
    ran = subprocess.run(
        [sys.executable, str(BENCH), "--list"], capture_output=True, text=True, check=True
    )
    groups = ran.stdout.split()
    assert "photographs" in groups
    assert all((BENCH.parent / f"{group}.py").is_file() for group in groups)


def test_unknown_group_is_refused_with_the_choices():
    ran = subprocess.run(
        [sys.executable, str(BENCH), "--only", "photos"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert "invalid choice: 'photos'" in ran.stderr
    assert "photographs" in ran.stderr
