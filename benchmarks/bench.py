#!/usr/bin/env python3
"""Compares tfrds with other ways to read images and with the machine's limits.

Prints tables; a whole run also writes benchmarks/data/results.json and results.png. The machine is
shared and noisy, so all sides run in turn, round by round, in this one process, and a ratio is the
median of the rounds. Run it by `make bench`; a goal that is not reached makes the exit code 1.
"""

import argparse
import importlib
import os
import pathlib
import platform
import sys
import tempfile
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import report
from rows import Result, has_missed

DATA = pathlib.Path(__file__).resolve().parent / "data"

# Modules, each with `measure(data, folder)`. Imported when they run: --list needs no TensorFlow.
GROUPS = (
    "small_images",
    "large_images",
    "photographs",
    "large_photographs",
    "crops",
    "data_source",
    "slow_storage",
    "waiting",
    "memory",
    "steps",
    "building",
    "million",
    "verifying",
    "adopting",
)


def main() -> int:
    args = parse_args()
    if args.list:
        print("\n".join(GROUPS))
        return 0
    import tensorflow_datasets as tfds

    tfds.disable_progress_bar()
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as name:
        for group in args.only or GROUPS:
            start = time.perf_counter()
            own = importlib.import_module(group).measure(DATA, pathlib.Path(name))
            print(f"\n{group}: {time.perf_counter() - start:.0f} s\n{report.to_text(own)}")
            sys.stdout.flush()
            results += own
    if not args.only:
        write(results)
    return 1 if has_missed(results) else 0


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only",
        action="append",
        choices=GROUPS,
        metavar="GROUP",
        help="run this group, and write no results; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="print the groups")
    return parser.parse_args()


def write(results: list[Result]) -> None:
    import picture

    print(f"\n{report.to_text(results)}")
    (DATA / "results.json").write_text(report.to_json(results, machine()), encoding="utf-8")
    picture.draw(results, DATA / "results.png")


def machine() -> dict[str, Any]:
    import tensorflow as tf
    import tensorflow_datasets as tfds

    from tfrds.cpus import available_cpus

    return {
        "processors": available_cpus(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "tensorflow_datasets": tfds.__version__,
    }


if __name__ == "__main__":
    sys.exit(main())
