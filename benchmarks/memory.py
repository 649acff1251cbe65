"""Anonymous memory (RssAnon) while reading: how much, and whether it grows; on Linux alone.

Mapped files are no part of it: the system takes their pages back when it needs them. Each reading
runs in a process of its own, `probe_memory.py`.
"""

import pathlib
import sys

import prepared
import tfrds
from measure import ENGINE
from rows import Bound
from waiting import probe

BATCH = 128
FLOAT_BATCH_MB = BATCH * 224 * 224 * 3 * 4 / 1e6
# Above the imports.
LIMIT_MB = 150 + 8 * FLOAT_BATCH_MB
GROWTH = 1.1
EPOCHS = 2000


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Bound]:
    """Returns the values; `folder` takes the datasets, 2.3 GB."""
    if sys.platform != "linux":
        return []
    count = prepared.NUM_RAW
    raw, raw_4x = prepared.raw_224(folder), prepared.raw_224(folder, 4 * count)
    photographs = prepared.photographs(data, folder)
    once = peak(raw)
    return [
        megabytes("224 raw, float32", once),
        megabytes("JPEG to 224, float32", peak(photographs, image_size=224)),
        times("4x the data to 1x", peak(raw_4x) / once),
        growth(raw),
    ]


def peak(builder: tfrds.ImageDatasetBuilder, **options: object) -> float:
    """Returns the peak in MB above the imports over three epochs."""
    found = probe("memory", builder, {"batch_size": BATCH, **options}, "train", "3")
    return max(found["peaks_mb"])


def growth(raw: tfrds.ImageDatasetBuilder) -> Bound:
    """The peak of the last tenth of the epochs, to that of the first; each has 2 batches of 32."""
    found = probe("memory", raw, {"batch_size": 32}, "train[:64]", str(EPOCHS))
    peaks = found["peaks_mb"]
    tenth = len(peaks) // 10
    return times(f"last of {EPOCHS:,} epochs to first", max(peaks[-tenth:]) / max(peaks[:tenth]))


def megabytes(work: str, value: float) -> Bound:
    work = f"anonymous memory while reading {work}"
    return Bound(work=work, engine=ENGINE, value=value, unit="MB", limit=LIMIT_MB)


def times(work: str, value: float) -> Bound:
    work = f"anonymous memory, {work}"
    return Bound(work=work, engine=ENGINE, value=value, unit="x", limit=GROWTH)
