"""Where users wait: for the first batch of a large split, and between the epochs of `fit`.

Each runs in a process of its own, as a user's script does; `probe_*.py` are these scripts.
"""

import json
import pathlib
import statistics
import subprocess
import sys
from typing import Any

import prepared
import tfrds
from measure import ENGINE
from rows import Bound

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = 5
FIRST_BATCH_SECONDS = 1.0
GAP_SECONDS = 0.3


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Bound]:
    """Returns the values; `folder` takes the datasets."""
    million = prepared.million(folder)
    photographs = prepared.photographs(data, folder)
    first = [probe("first_batch", million, {"batch_size": 256}) for _ in range(ROUNDS)]
    return [
        Bound(
            work="first batch of 1,000,000 examples, shuffled",
            engine=ENGINE,
            value=statistics.median(one["seconds"] for one in first),
            unit="s",
            limit=FIRST_BATCH_SECONDS,
        ),
        gap("50 steps of 28x28", million, "train[:12800]", 8, {"batch_size": 256}),
        gap("3,907 steps of 28x28", million, "train", 4, {"batch_size": 256}),
        gap("JPEG photographs", photographs, "train", 4, {"batch_size": 128, "image_size": 224}),
    ]


def gap(
    work: str,
    builder: tfrds.ImageDatasetBuilder,
    split: str,
    epochs: int,
    options: dict[str, Any],
) -> Bound:
    found = probe("gap", builder, options, split, str(epochs))
    return Bound(
        work=f"longest gap between epochs of {found['epoch_seconds']:.2g} s: {work}",
        engine=ENGINE,
        value=max(found["gaps"]),
        unit="s",
        limit=GAP_SECONDS,
    )


def probe(
    name: str, builder: tfrds.ImageDatasetBuilder, options: dict[str, Any], *arguments: str
) -> dict[str, Any]:
    """Runs probe_`name`.py on a dataset and returns the JSON object it prints last."""
    dataset = [builder.name, str(pathlib.Path(builder.data_dir).parents[1]), json.dumps(options)]
    ran = subprocess.run(
        [sys.executable, str(HERE / f"probe_{name}.py"), *dataset, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout.splitlines()[-1])
