"""Damages images and has them encoded, built, verified and read, in a process of its own.

`python fuzzed_images.py <first seed> <last seed> <folder>` prints one JSON object: `problems`, each
with the seed that shows it again, how many images had which outcome, and the most memory that
encoding took. What it is at stands in `<folder>/at`, should the process die; what takes too long
kills it.
"""

import faulthandler
import io
import json
import pathlib
import random
import sys
import warnings
from collections import Counter

import numpy as np
from mutations import mutate_image
from PIL import Image, ImageOps

from tfrds.errors import EncodeError
from tfrds.spec import ImageSpec
from tfrds.write.encode import encode_image

DUMMY_DATA = pathlib.Path(__file__).resolve().parent.parent / "dummy_data"

SECONDS_FOR_EACH = 30
SECONDS_FOR_ALL = 300

# Those of `EncodeError` that a file can have, as its docstring lists them.
REASONS = {
    *("empty", "not an image", "unreadable format", "cut off or damaged", "too large"),
    *("wrong size", "unsupported mode", "cannot be stored"),
}
ENCODINGS = ("original", "raw", "jpeg")
CHECKS = ("decode", "header", "none")


def damaged(seed):
    """Returns (name, bytes) of the image of a seed."""
    files = {path.name: path.read_bytes() for path in DUMMY_DATA.glob("*.*")}
    images = {name: data for name, data in files.items() if not name.endswith((".md", ".py"))}
    return mutate_image(random.Random(seed), images)


class Fuzz:
    """What was found.

    Args:
      folder: for files.
    """

    def __init__(self, folder):
        self.folder = folder
        self.problems = []
        self.outcomes = Counter()
        self.files = {}  # by seed
        self.stored = {}  # by seed, what `encode_image` gives under "original"

    def at(self, what, seconds):
        (self.folder / "at").write_text(str(what))
        faulthandler.dump_traceback_later(seconds, exit=True)

    def problem(self, what, seed=None):
        self.problems.append({"seed": seed, "what": what[:1_000]})

    def encode(self, seed):
        """Encodes an image in all ways."""
        self.at(seed, SECONDS_FOR_EACH)
        data = self.files[seed] = damaged(seed)[1]
        found = {
            (encoding, check): self._encoded(seed, data, encoding, check)
            for encoding in ENCODINGS
            for check in CHECKS
        }
        for encoding in ENCODINGS:
            is_accepted = [found[encoding, check] is not None for check in CHECKS]
            if is_accepted != sorted(is_accepted):
                self.problem(f"{encoding}: a stricter check accepts what others refuse", seed)
        stored, raw = found["original", "decode"], found["raw", "decode"]
        if stored and not raw:
            self.problem("accepted as it is, refused as pixels", seed)
        elif stored:
            self.stored[seed] = stored
            is_kept = stored.data == data
            self.outcomes["stored as it is" if is_kept else "stored in another form"] += 1
            if decoded_by_pillow(stored.data).tobytes() != raw.data:
                self.problem("raw pixels are others than those that are stored encoded", seed)

    def _encoded(self, seed, data, encoding, check):
        try:
            return encode_image(data, ImageSpec(encoding=encoding, channels=3, check=check))
        except EncodeError as error:
            if error.reason not in REASONS or not str(error).endswith("."):
                self.problem(f"{encoding}, {check}: {error.reason}: {error}", seed)
            if (encoding, check) == ("original", "decode"):
                self.outcomes[error.reason] += 1
        except Exception as error:
            self.problem(f"{encoding}, {check}: {error!r}", seed)
        return None

    def build(self):
        """Builds a dataset of all images, verifies and reads it."""
        for seed, data in self.files.items():
            path = self.folder / "files" / ("ant", "bee")[seed % 2] / str(seed)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.at("build", SECONDS_FOR_ALL)
        import tfrds

        builder = tfrds.build(
            "fuzzed",
            self.folder / "files",
            data_dir=self.folder / "data",
            encoding="original",
            on_error="skip",
            max_bad=1.0,
            num_shards=4,
            num_workers=2,
        )
        self.check_skipped(pathlib.Path(builder.data_dir))
        self.at("verify", SECONDS_FOR_ALL)
        for fault in tfrds.verify("fuzzed", data_dir=self.folder / "data", num_workers=2).faults:
            self.problem(f"verify: {fault.what}", seed_of(fault.key) if fault.key else None)
        self.at("decode", SECONDS_FOR_ALL)
        self.decode()
        self.at("read", SECONDS_FOR_ALL)
        self.read(builder)
        faulthandler.cancel_dump_traceback_later()

    def check_skipped(self, directory):
        """Compares what was left out with what `encode_image` refused."""
        for line in (directory / "skipped.jsonl").read_text().splitlines():
            skipped = json.loads(line)
            seed = seed_of(skipped["key"])
            if seed in self.stored or skipped["reason"] not in REASONS:
                self.problem(f"the build skipped it: {skipped}", seed)

    def decode(self):
        """Has TensorFlow decode what is stored, one by one."""
        import tensorflow as tf

        for seed, stored in self.stored.items():
            try:
                tf.io.decode_jpeg(stored.data, channels=3, dct_method="INTEGER_ACCURATE")
            except tf.errors.OpError as error:
                self.problem(f"TensorFlow does not decode it: {error.message}", seed)

    def read(self, builder):
        """Compares the pixels of each example with those that Pillow finds in its file."""
        examples = builder.as_dataset(split="train", with_key=True, dtype="uint8")
        source = builder.as_data_source("train", with_key=True, dtype="uint8")
        seeds = []
        for example, same in zip(examples.as_numpy_iterator(), source, strict=True):
            seed = seed_of(example["key"].decode())
            seeds.append(seed)
            if not np.array_equal(example["image"], same["image"]):
                self.problem("the data source gives other pixels than TensorFlow", seed)
            self.compare(seed, example["image"])
        if sorted(seeds) != sorted(self.stored):
            self.problem(f"expected the examples {sorted(self.stored)}, found {sorted(seeds)}")

    def compare(self, seed, pixels):
        """Compares pixels with those that another decoder finds, but of files that are damaged."""
        if self.stored[seed].repaired:
            return
        meant, tolerance = meant_pixels(self.files[seed])
        if meant is None:
            self.outcomes["compared with no other decoder"] += 1
        elif meant.shape != pixels.shape:
            self.problem(f"expected the shape {meant.shape}, found {pixels.shape}", seed)
        elif (difference := np.abs(meant.astype(int) - pixels).max()) > tolerance:
            self.problem(f"its pixels differ by up to {difference}", seed)


def seed_of(key):
    return int(key.partition("/")[2])


def decoded_by_pillow(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data)) as image:
            return np.asarray(image.convert("RGB"))


def meant_pixels(data):
    """Returns (uint8 [height, width, 3], tolerance) by Pillow and numpy, None where they cannot.

    What tfrds does to pixels is done here by other means: alpha in floating point, 16 bits by
    numpy, orientation by Pillow's own function.
    """
    if data.count(b"eXIf") > 1:
        return None, 0  # which of them counts, nobody says
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(data)) as image:
                return _as_rgb(ImageOps.exif_transpose(image))
        except Exception:  # libjpeg goes on where Pillow stops
            return None, 0


def _as_rgb(image):
    if image.mode in ("1", "L", "RGB") and "transparency" not in image.info:
        return np.asarray(image.convert("RGB")), 0
    if image.mode in ("LA", "RGBA", "P", "PA"):
        rgba = np.asarray(image.convert("RGBA")).astype(float)
        opacity = rgba[..., 3:] / 255
        return np.rint(rgba[..., :3] * opacity + 255 * (1 - opacity)), 1
    if image.mode.startswith("I;16") and "transparency" not in image.info:
        gray = np.asarray(image) >> 8
        return np.repeat(gray[..., np.newaxis], 3, axis=-1), 0
    return None, 0


def megabytes():
    """Returns the most memory that this process had at a time, 0 where nobody tells."""
    try:
        status = pathlib.Path("/proc/self/status").read_text()
    except OSError:
        return 0
    # Not by getrusage: that counts what the process had from which this one was made.
    return int(status.partition("VmHWM:")[2].split()[0]) // 2**10


def main(first, last, folder):
    """Prints what was found."""
    warnings.simplefilter("error")
    fuzz = Fuzz(pathlib.Path(folder))
    for seed in range(int(first), int(last)):
        fuzz.encode(seed)
    used = megabytes()  # before TensorFlow takes some hundred
    try:
        fuzz.build()
    except Exception as error:
        fuzz.problem(f"{(fuzz.folder / 'at').read_text()}: {error!r} {error}")
    found = {"problems": fuzz.problems, "outcomes": fuzz.outcomes, "megabytes": used}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
