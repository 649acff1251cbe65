"""A build killed right before any change of any file: nothing half loads, the next one goes on."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import killed_builds
import pytest

import tfrds

JOURNALS = ".tfrds-build-1.0.0"
TESTS = pathlib.Path(__file__).resolve().parent


def check_kills(tmp_path, step, kind):
    """Kills builds and checks what is there then; returns how many were killed."""
    ran = subprocess.run(
        [sys.executable, str(TESTS / "killed_builds.py"), str(tmp_path), str(step), kind],
        env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
        capture_output=True,
        text=True,
    )
    whole, *ends = map(json.loads, ran.stdout.splitlines())
    assert ran.returncode == whole["code"] == whole["code_again"] == 0, ran.stderr
    fresh = tfrds.build(
        "pets", tmp_path / "source", data_dir=tmp_path / "fresh", **killed_builds.KINDS[kind]
    )
    assert whole["killed"] == whole["again"] == killed_builds.digests(fresh.data_path)
    absent = []
    for end in ends:
        assert end["code"] == -signal.SIGKILL, end
        if kind == "overwrite" and not end["killed"]:
            absent.append(end["moment"])
        else:
            # The old dataset (without overwrite: none) or the new one, never a part.
            assert end["killed"] in (end["before"], whole["killed"]), end
        assert end["code_again"] == 0, (end, ran.stderr)
        assert end["again"] == whole["killed"], end
        is_reused = kind != "overwrite" and bool(end["killed"])
        # The second build of a finished dataset does not look for what the first one left.
        assert set(end["left"]) - set(whole["left"]) <= {JOURNALS if is_reused else ""}, end
        if kind != "drop":  # which writes shards again when all are finished
            assert end["redone"] == [], end
    assert len({len(end["finished"]) for end in ends}) == 4  # none to all three shards
    assert len(absent) <= 1  # between the two renames
    return len(ends)


# Four moments of real builds are killed in the quick tests, see test_build_interrupted.py.
@pytest.mark.slow
def test_kill_before_some_changes(tmp_path):
    assert check_kills(tmp_path, 5, "plain") >= 12


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "drop", "overwrite"])
def test_kill_before_any_change(tmp_path, kind):
    assert check_kills(tmp_path, 1, kind) >= 60
