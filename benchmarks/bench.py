#!/usr/bin/env python3
"""Compares tfrds with a hand-written pipeline, with plain TFDS and with the machine's limits.

Prints a table of ratios, and writes benchmarks/data/results.json. The machine is shared and noisy,
so both sides run in turn, pair by pair, in this one process; the ratio is the median of the pairs.
Run it by `make bench`; a goal that is not reached makes the exit code 1.
"""

import dataclasses
import json
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow_datasets as tfds

import large_images
import photographs
import small_images

DATA = pathlib.Path(__file__).resolve().parent / "data"


def main() -> int:
    tfds.disable_progress_bar()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rows = small_images.rows(DATA, folder)
        rows += large_images.rows(folder / "large")
        # Made by `get_data.py --photos`; the largest collection there.
        photos = sorted(DATA.glob("photos-*"), key=lambda path: int(path.name[7:]))
        if photos:
            rows += photographs.rows(photos[-1], folder / "photos")
    print(
        f"\n{'work':28}{'tfrds':>10} {'baseline':>14}{'':>10} {'ratio':>7} {'goal':>7}   images/s"
    )
    for row in rows:
        print(
            f"{row.work:28}{row.ours:>10,.0f} {row.baseline:>14}{row.theirs:>10,.0f} "
            f"{row.ratio:>6.2f}x {f'{row.goal:.2f}x' if row.goal else '':>7}   {row.verdict}"
        )
    results = [dataclasses.asdict(row) for row in rows]
    (DATA / "results.json").write_text(json.dumps(results, indent=2))
    return 1 if any(row.verdict == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
