"""Damages one file of a dataset, or of an unfinished build, and does with it whatever there is.

`python fuzzed_datasets.py <first seed> <last seed> <folder>` prints one JSON object: `problems`,
each with its seed and what was damaged how; how often what was found; by how many megabytes the
process grew. What it is at stands in `<folder>/at`, should it die; what takes too long kills it.

What must hold, whatever is damaged:

- only errors of tfrds, or while iterating those of TensorFlow with the same text;
- `tfrds verify` tells of damaged shards, indexes, keys and class names;
- with `verify_records=True` nothing but the right examples is read, or an error comes;
- where `tfrds verify` finds nothing, all examples are read and right, keys as well;
- a build that goes on from a damaged journal ends with the same bytes as any other.
"""

import contextlib
import faulthandler
import io
import json
import pathlib
import random
import shutil
import sys
import traceback
from collections import Counter

import numpy as np
import tensorflow as tf
from damaged import Copy
from datasets import CLASS_NAMES, Built, photo
from fuzzed_images import megabytes
from images import encoded, files_below, put
from mutations import mutate_bytes, mutate_json, mutate_npy, mutate_shard

import tfrds
from tfrds.errors import TfrdsError
from tfrds.tools.duplicates import dataset_duplicates
from tfrds.tools.info import dataset_info
from tfrds.write.executors import ThisProcess, run_here

SECONDS_FOR_EACH = 60

READS = (
    ("load", {}),
    ("load", {"batch_size": 4}),
    ("load", {"verify_records": True}),
    ("data_source", {}),
    ("data_source", {"verify_records": True}),
)

NUM_TRAIN, NUM_TEST, NUM_SHARDS = 14, 5, 3
KINDS = ("raw", "jpeg", "png")


class Stopped(Exception):
    """Ends a build, as a signal does."""


class StopsSoon:
    """Runs two shards."""

    def run(self, function, tasks, describe):
        for done, result in enumerate(run_here(function, tasks)):
            if done == 2:
                raise Stopped
            yield result


def make_source(folder, kind):
    """Writes images of one size, and one that is cut off; returns the folder."""
    for split, count in (("train", NUM_TRAIN), ("test", NUM_TEST)):
        for number in range(count):
            image = photo(100 * count + number, 11, 9)
            data = encoded(image, "JPEG" if kind == "jpeg" else "PNG")
            name = CLASS_NAMES[number % len(CLASS_NAMES)]
            put(folder / split / name / f"{number:02d}", data)
    put(folder / "train" / "ant" / "cut", data[:-15])
    return folder


class Base:
    """A dataset, the same build unfinished, and what it holds.

    Args:
      folder: for all of it.
      kind: of `KINDS`.
    """

    def __init__(self, folder, kind):
        self.name = f"{kind}_images"
        self.source = make_source(folder / "source", kind)
        self.encoding = "raw" if kind == "raw" else "original"
        self.root, self.unfinished = folder / "data", folder / "unfinished"
        self.build(self.root)
        with contextlib.suppress(Stopped):
            self.build(self.unfinished, StopsSoon())
        built = Built(self.name, self.root, {"test/00": np.empty((11, 9, 3), np.uint8)}, {})
        stored = {split: list(built.stored(split).values()) for split in ("train", "test")}
        copy = Copy.__new__(Copy)
        copy.name, copy.directory = self.name, built.directory
        self.examples = {
            split: [
                (key.decode(), pixels, label)
                for key, (pixels, label) in zip(copy.keys(split), stored[split], strict=True)
            ]
            for split in stored
        }
        self.files = files_below(built.directory)

    def build(self, data_dir, executor=None, **options):
        return tfrds.build(
            self.name,
            self.source,
            data_dir=data_dir,
            encoding=self.encoding,
            num_shards=NUM_SHARDS,
            on_error="skip",
            max_bad=0.5,
            executor=executor or ThisProcess(),
            **options,
        )


def mutate_npz(random, data):
    """Returns (an uncompressed `.npz` with one array changed, what was done)."""
    with np.load(io.BytesIO(data)) as arrays:
        columns = dict(arrays)
    name = random.choice(sorted(columns))
    file = io.BytesIO()
    np.save(file, columns[name])
    changed, what = mutate_npy(random, file.getvalue())
    columns[name] = np.load(io.BytesIO(changed))
    file = io.BytesIO()
    random.choice((np.savez, np.savez, np.savez_compressed))(file, **columns)
    return file.getvalue(), f"{name}: {what}"


def mutation_of(name):
    """Returns how to damage a file as one who knows its format."""
    if name.endswith(".json"):
        return mutate_json
    if name.endswith(".npz"):
        return mutate_npz
    if name.endswith(".npy"):
        return mutate_npy
    if ".tfrecord-" in name:
        return mutate_shard
    return None


def damage(random, path):
    """Damages a file; returns what was done, None where that changed nothing."""
    before = path.read_bytes()
    mutate = mutation_of(path.name)
    what = "bytes"
    if random.random() < 0.03:
        path.unlink()
        return "removed"
    try:
        if mutate is None or random.random() < 0.3:
            after = mutate_bytes(random, before)
        else:
            after, what = mutate(random, before)
    except Exception:  # what is written cannot be a file of its kind at all
        after, what = before[: len(before) // 2], "half of it"
    path.write_bytes(after)
    return what if after != before else None


class Fuzz:
    """What was found.

    Args:
      folder: for files.
    """

    def __init__(self, folder):
        self.folder = folder
        self.problems = []
        self.outcomes = Counter()
        self.bases = {kind: Base(folder / kind, kind) for kind in KINDS}
        self.seed, self.what = -1, "nothing"

    def problem(self, text):
        self.problems.append({"seed": self.seed, "damage": self.what, "what": text[:1_500]})

    def run(self, seed):
        """Damages something and looks what comes of it."""
        chance = random.Random(seed)
        self.seed, self.what = seed, ""
        base = self.bases[chance.choice(KINDS)]
        faulthandler.dump_traceback_later(SECONDS_FOR_EACH, exit=True)
        is_unfinished = chance.random() < 0.15
        (self.unfinished if is_unfinished else self.finished)(chance, base)
        faulthandler.cancel_dump_traceback_later()

    def note(self, base, path, what):
        self.what = f"{base.name} {path.name}: {what}"
        (self.folder / "at").write_text(f"seed {self.seed}: {self.what}")

    def unfinished(self, chance, base):
        root = shutil.copytree(base.unfinished, self.folder / "copy")
        paths = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)
        path = chance.choice(paths)
        self.note(base, path, damage(chance, path))
        if self.attempt("build goes on", lambda: base.build(root)):
            if files_below(root / base.name / "1.0.0") != base.files:
                self.problem("a build that went on ended with other bytes")
        shutil.rmtree(root)

    def finished(self, chance, base):
        copy = Copy.__new__(Copy)
        copy.name, copy.root = base.name, self.folder / "copy"
        copy.directory = copy.root / base.name / "1.0.0"
        shutil.copytree(base.root, copy.root)
        path = chance.choice(sorted(path for path in copy.root.rglob("*") if path.stat().st_size))
        while path.is_dir():
            path = chance.choice(sorted(path.iterdir()))
        what = damage(chance, path)
        self.note(base, path, what)
        if what:
            is_hashed = path.suffix in (".npy", ".txt") or ".tfrecord-" in path.name
            if is_hashed and path.exists() and chance.random() < 0.3:
                # So that more than a hash tells of it.
                with contextlib.suppress(Exception):
                    copy.fix_hashes()
                    self.note(base, path, f"{what}, with its hash")
                    is_hashed = False
            self.use(base, copy, path, is_hashed)
        shutil.rmtree(copy.root)

    def use(self, base, copy, path, is_hashed):
        """Does with a damaged copy whatever there is."""
        result = self.attempt("verify", lambda: self.verify(base, copy))
        is_ok = result is not None and result.ok
        if is_hashed and is_ok:
            self.problem("verify finds nothing")
        is_checked_only_when_asked = ".tfrecord-" in path.name or ".index.npy" in path.name
        for reads, options in READS:
            name = f"{reads} {options}"
            read = self.attempt(name, lambda r=reads, o=options: getattr(self, r)(base, copy, **o))
            if read is None and is_ok:
                self.problem(f"verify finds nothing, and {name} fails: {self.error}")
            if read and (is_ok or "verify_records" in options or not is_checked_only_when_asked):
                self.compare(name, base, read, is_ok or ".key" not in path.name)
        for name, function in (
            ("info", lambda: dataset_info(copy.directory)),
            ("duplicates", lambda: dataset_duplicates(copy.directory)),
            ("build again", lambda: base.build(copy.root)),
            ("compare", lambda: base.build(copy.root, fingerprint="content")),
            ("append", lambda: self.append(base, copy)),
            ("edit", lambda: self.edit(base, copy)),
        ):
            self.attempt(name, function)
        if path.exists():  # with less files it is no dataset, and is not replaced
            self.overwrite(base, copy)

    def overwrite(self, base, copy):
        if not self.attempt("overwrite", lambda: base.build(copy.root, overwrite=True)):
            self.problem(f"it cannot be overwritten: {self.error}")
        elif files_below(copy.directory) != base.files:
            self.problem("a dataset that was overwritten has other bytes")

    def verify(self, base, copy):
        return tfrds.verify(base.name, data_dir=copy.root, num_workers=1)

    def load(self, base, copy, **options):
        dataset = tfrds.load(
            base.name, split="train", data_dir=copy.root, with_key=True, dtype="uint8", **options
        )
        if "batch_size" in options:
            dataset = dataset.unbatch()
        return [
            (example["key"].decode(errors="replace"), example["image"], example["label"])
            for example in dataset.as_numpy_iterator()
        ]

    def data_source(self, base, copy, **options):
        source = tfrds.data_source(
            base.name, split="train", data_dir=copy.root, with_key=True, dtype="uint8", **options
        )
        return [(example["key"], example["image"], example["label"]) for example in source]

    def append(self, base, copy):
        return tfrds.append(
            f"{base.name}:1.0.0",
            {"train": base.source / "test"},
            data_dir=copy.root,
            key_prefix="2/",
            executor=ThisProcess(),
        )

    def edit(self, base, copy):
        key = base.examples["train"][0][0]
        return tfrds.edit(f"{base.name}:1.0.0", remove=[key], data_dir=copy.root, version="3.0.0")

    def attempt(self, name, function):
        """Returns what a function does, None after an error."""
        self.error = ""
        try:
            result = function()
        except TfrdsError as error:
            self.error = str(error)
        except tf.errors.OpError as error:
            self.error = str(error)
            # Damage that nobody was asked to look for is found by TensorFlow's decoder.
            is_decoders = "DecodeJpeg" in self.error and "verify" not in name
            if not ("opy or build" in self.error or "copy it again" in self.error or is_decoders):
                self.problem(f"{name}: {error!r} {error}")
        except Exception as error:
            self.error = str(error)
            self.problem(f"{name}: {error!r}: {traceback.format_exc(limit=-4)}")
        else:
            self.outcomes[f"{name}: fine"] += 1
            return result
        self.outcomes[f"{name}: error"] += 1
        return None

    def compare(self, name, base, read, has_keys):
        meant = base.examples["train"]
        if len(read) != len(meant):
            self.problem(f"{name}: expected {len(meant)} examples, found {len(read)}")
            return
        for number, (found, expected) in enumerate(zip(read, meant, strict=True)):
            if not np.array_equal(found[1], expected[1]):
                self.problem(f"{name}: other pixels of example {number}")
            if found[2].shape != (len(CLASS_NAMES),) or np.argmax(found[2]) != expected[2]:
                self.problem(f"{name}: another label of example {number}: {found[2]}")
            if has_keys and found[0] != expected[0]:
                self.problem(f"{name}: another key of example {number}: {found[0]!r}")


def main(first, last, folder):
    """Prints what was found."""
    fuzz = Fuzz(pathlib.Path(folder))
    before = None
    for seed in range(int(first), int(last)):
        fuzz.run(seed)
        before = before or megabytes()
    found = {
        "problems": fuzz.problems,
        "outcomes": fuzz.outcomes,
        "megabytes_more": megabytes() - before,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
