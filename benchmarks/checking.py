"""How far `check` looks into photographs that are stored as they are, against decoding by Pillow.

One process, images in memory: the reading of files and the writing of shards are no part of it.
Run by itself: `python benchmarks/get_data.py --photos 400 && python benchmarks/checking.py`.
"""

import functools
import io
import pathlib
import time
from collections.abc import Callable, Sequence

from PIL import Image

import prepared
from measure import Baseline, compare
from rows import Row
from tfrds.spec import CHECKS, ImageSpec
from tfrds.write.encode import encode_image

MAX_PHOTOS = 400
ROUNDS = 7
# "decode" is twice as fast, as it decodes at 1/8 scale; the others are to cost little.
GOALS = {"decode": 1.3, "header": 5, "none": 6}


def measure(data: pathlib.Path) -> list[Row]:
    """Returns a comparison for each check."""
    paths = sorted(prepared.find_photos(data).rglob("*.jpg"))[:MAX_PHOTOS]
    files = [path.read_bytes() for path in paths]
    rows = []
    for check in CHECKS:
        spec = ImageSpec(encoding="original", channels=3, check=check)
        ours = functools.partial(rate, files, functools.partial(encode_image, spec=spec))
        pillow = Baseline("Pillow decoding", functools.partial(rate, files, decode), GOALS[check])
        rows += compare(f'check="{check}" of JPEG', ours, [pillow], ROUNDS, engine="")
    return rows


def rate(files: Sequence[bytes], function: Callable[[bytes], object]) -> float:
    """Returns images a second of processor time: other work on the machine does not count."""
    start = time.process_time()
    for data in files:
        function(data)
    return len(files) / (time.process_time() - start)


def decode(data: bytes) -> None:
    """Decodes a file completely."""
    Image.open(io.BytesIO(data)).load()


if __name__ == "__main__":
    for row in measure(pathlib.Path(__file__).parent / "data"):
        print(f"{row.work} | {row.baseline} | {row.ratio:.2f}")
