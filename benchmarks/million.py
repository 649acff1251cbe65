"""A build of 1,000,000 files: memory of the parent and the workers, time of plan and index."""

import json
import os
import pathlib
import subprocess
import sys

import prepared
from rows import Bound

NUM_IMAGES = 1_000_000
LIMIT_MB = 500
LIMIT_SECONDS = 60
PROBE = pathlib.Path(__file__).with_name("probe_build.py")

# A file cannot have more links than this on common file systems.
MAX_LINKS = 20_000
NUM_CLASSES = 100


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Bound]:
    """Returns the values; `folder` takes a million links, and 2.5 GB of shards."""
    if sys.platform != "linux":
        return []
    source = links(prepared.find_photos(data), folder / "links")
    answer = subprocess.run(
        [sys.executable, str(PROBE), str(source), str(folder / "million_files")],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(answer.stdout.splitlines()[-1])
    return [
        bound("anonymous memory of the parent", found["parent_mb"], "MB", LIMIT_MB),
        bound("anonymous memory of a worker", found["worker_mb"], "MB", LIMIT_MB),
        bound("plan", found["plan_seconds"], "s", LIMIT_SECONDS),
        bound("index and metadata", found["index_seconds"], "s", LIMIT_SECONDS),
    ]


def links(photos: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Makes a folder of 100 classes whose images are hard links to a few small JPEG files."""
    from PIL import Image

    folder.mkdir()
    originals = []
    for number, path in enumerate(sorted(photos.rglob("*.jpg"))[: NUM_IMAGES // MAX_LINKS]):
        small = folder.parent / f"small_{number}.jpg"
        Image.open(path).resize((48, 48)).save(small)
        originals.append(small)
    for label in range(NUM_CLASSES):
        (folder / f"class_{label:03}").mkdir()
    for number in range(NUM_IMAGES):
        name = f"class_{number % NUM_CLASSES:03}/an_image_of_a_larger_collection_{number:07}.jpg"
        os.link(originals[number // MAX_LINKS], folder / name)
    return folder


def bound(work: str, value: float, unit: str, limit: float) -> Bound:
    work = f"build of {NUM_IMAGES:,} files, {work}"
    return Bound(work=work, engine="", value=value, unit=unit, limit=limit)
