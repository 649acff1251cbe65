"""Damaged images, datasets and unfinished builds: only documented errors, no hang, little memory.

Each damage follows from its seed. It is done, and looked at, in a process of its own, which a hang
or a crash ends: see `fuzzed_images.py` and `fuzzed_datasets.py` for what must hold of each.
"""

import concurrent.futures
import json
import pathlib
import subprocess
import sys

import pytest
from datasets import environment

TESTS = pathlib.Path(__file__).resolve().parent

# Python and Pillow take 60; `max_pixels` lets one image have 700 more, if it holds so many pixels.
MAX_MEGABYTES = 400
# A process that opens hundreds of datasets grows by some tens.
MAX_MEGABYTES_MORE = 200


def found_by(script, first, last, folder):
    """Returns what a script found with some seeds; says at which one it died."""
    process = subprocess.run(
        [sys.executable, str(TESTS / script), str(first), str(last), str(folder)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )
    at = folder / "at"
    where = at.read_text() if at.exists() else "its start"
    assert process.returncode == 0, f"died at {where}: {process.stderr[-3_000:]}"
    found = json.loads(process.stdout.splitlines()[-1])
    assert found["problems"] == []
    return found


def check_images(first, last, folder):
    found = found_by("fuzzed_images.py", first, last, folder)
    assert found["megabytes"] < MAX_MEGABYTES
    outcomes = found["outcomes"]
    # All kinds of ends are reached, so that not only the first look at a file is tried.
    assert outcomes["stored as it is"] > 0.02 * (last - first)
    assert outcomes["stored in another form"] > 0.05 * (last - first)
    assert outcomes["cut off or damaged"] > 0.3 * (last - first)


def check_datasets(first, last, folder):
    found = found_by("fuzzed_datasets.py", first, last, folder)
    assert found["megabytes_more"] < MAX_MEGABYTES_MORE


def test_some_damaged_images_and_datasets_are_read_rightly_or_refused(tmp_path):
    folders = [tmp_path / name for name in ("images", "datasets")]
    for folder in folders:
        folder.mkdir()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(check, 0, count, folder)
            for check, count, folder in zip(
                (check_images, check_datasets), (100, 10), folders, strict=True
            )
        ]
    for run in runs:
        run.result()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2_000, 500))
def test_two_thousand_damaged_images_are_stored_rightly_or_refused(tmp_path, first):
    check_images(first, first + 500, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 240, 60))
def test_hundreds_of_damaged_datasets_are_read_rightly_or_refused(tmp_path, first):
    check_datasets(first, first + 60, tmp_path)
