"""`tfrds.verify` of photographs, against Pillow decoding the same files in as many processes."""

import io
import os
import pathlib
import time
from collections.abc import Sequence

from PIL import Image

import prepared
import tfrds
from measure import Baseline, compare
from rows import Row
from tfrds.cpus import available_cpus
from tfrds.write.executors import run_in_processes

GOAL = 0.8
ROUNDS = 5
# Files that a process decodes at a time.
PART = 32


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Row]:
    """Returns the comparison; `folder` takes the dataset. Both sides start their processes."""
    builder = prepared.photographs(data, folder)
    files = sorted(map(os.fspath, prepared.find_photos(data).rglob("*.jpg")))
    parts = [files[first : first + PART] for first in range(0, len(files), PART)]

    def ours() -> float:
        start = time.perf_counter()
        result = tfrds.verify(builder.name, data_dir=builder.data_dir_root)
        assert result.ok
        return result.num_examples / (time.perf_counter() - start)

    def theirs() -> float:
        start = time.perf_counter()
        count = sum(number for _, number in run_in_processes(decode, parts, available_cpus()))
        return count / (time.perf_counter() - start)

    pillow = Baseline("Pillow decoding alone", theirs, GOAL)
    return compare("verify JPEG", ours, [pillow], ROUNDS, engine="")


def decode(paths: Sequence[str]) -> int:
    """Decodes files completely; returns how many."""
    for path in paths:
        Image.open(io.BytesIO(pathlib.Path(path).read_bytes())).load()
    return len(paths)
