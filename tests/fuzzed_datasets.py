"""Damages one file of a dataset, or of an unfinished build, and does with it whatever there is.

`python fuzzed_datasets.py <first seed> <last seed> <folder> [<kind> ...]` prints one JSON object:
`problems`, each with its seed and what was damaged how; how often what was found; by how many
megabytes the process grew. The kinds of datasets are in `fuzz_bases.py`. What it is at stands in
`<folder>/at`, should it die; what takes too long kills it.

What must hold, whatever is damaged:

- only errors of tfrds, or while iterating those of TensorFlow with the same text;
- `tfrds verify` tells of damaged shards, indexes, keys, columns and class names;
- with `verify_records=True` nothing but the right examples is read, or an error comes;
- where `tfrds verify` finds nothing, all examples are read and right, keys as well;
- a build that goes on from a damaged journal ends with the same bytes as any other.

Of adopted datasets the files of others are damaged, too, and keep their time of change where they
keep their size.
"""

import contextlib
import faulthandler
import io
import json
import os
import pathlib
import random
import shutil
import sys
import traceback
from collections import Counter

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from fuzz_bases import KINDS, copy_at, make_base
from fuzzed_images import megabytes
from images import files_below
from mutations import mutate_bytes, mutate_json, mutate_npy, mutate_shard

import tfrds
from tfrds.errors import TfrdsError
from tfrds.tools.duplicates import dataset_duplicates
from tfrds.tools.info import dataset_info

SECONDS_FOR_EACH = 60

READS = (
    ("load", {}),
    ("load", {"batch_size": 4}),
    ("load", {"verify_records": True}),
    ("data_source", {}),
    ("data_source", {"verify_records": True}),
    ("stream", {}),
    ("tfds", {}),
)
# By TensorFlow's reader, whose errors are its own.
FOREIGN_READS = ("stream", "tfds")


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
    status = path.stat()
    path.write_bytes(after)
    if path.is_symlink() and len(after) == len(before):
        # So that of a file of others only its content is another one.
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return what if after != before else None


class Fuzz:
    """What was found.

    Args:
      folder: for files.
      kinds: of `fuzz_bases.KINDS`.
    """

    def __init__(self, folder, kinds):
        self.folder, self.kinds = folder, kinds
        self.problems = []
        self.outcomes = Counter()
        self.bases = {}
        self.seed, self.what = -1, "nothing"

    def problem(self, text):
        self.problems.append({"seed": self.seed, "damage": self.what, "what": text[:1_500]})

    def run(self, seed):
        """Damages something and looks what comes of it."""
        chance = random.Random(seed)
        self.seed, self.what = seed, ""
        kind = chance.choice(self.kinds)
        if kind not in self.bases:
            self.bases[kind] = make_base(self.folder, kind)
        base = self.bases[kind]
        faulthandler.dump_traceback_later(SECONDS_FOR_EACH, exit=True)
        is_unfinished = chance.random() < 0.15 and base.unfinished
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
        copy = copy_at(self.folder / "copy", base.name)
        shutil.copytree(base.root, copy.root, symlinks=True)
        path = chance.choice(sorted(path for path in copy.root.rglob("*") if path.stat().st_size))
        while path.is_dir():
            path = chance.choice(sorted(path.iterdir()))
        with restored(path.resolve()) if path.is_symlink() else contextlib.nullcontext():
            what = damage(chance, path)
            self.note(base, path, what)
            if what:
                self.use(base, copy, path, self.fix(chance, copy, path))
        shutil.rmtree(copy.root)

    def fix(self, chance, copy, path):
        """Returns whether a hash tells of the damage; now and then it is made right."""
        is_hashed = path.suffix in (".npy", ".txt") or ".tfrecord-" in path.name
        if is_hashed and path.exists() and chance.random() < 0.3:
            # So that more than a hash tells of it.
            with contextlib.suppress(Exception):
                copy.fix_hashes()
                self.what += ", with its hash"
                (self.folder / "at").write_text(f"seed {self.seed}: {self.what}")
                return False
        return is_hashed

    def use(self, base, copy, path, is_hashed):
        """Does with a damaged copy whatever there is."""
        result = self.attempt("verify", lambda: self.verify(base, copy))
        is_ok = result is not None and result.ok
        if is_hashed and is_ok:
            self.problem("verify finds nothing")
        for reads, options in READS:
            if reads in FOREIGN_READS and reads not in base.readers:
                continue
            name = f"{reads} {options}"
            read = self.attempt(name, lambda r=reads, o=options: getattr(self, r)(base, copy, **o))
            if read is None and is_ok:
                self.problem(f"verify finds nothing, and {name} fails: {self.error}")
            if read and (is_ok or self.is_noticed(base, path, reads, options)):
                self.compare(name, base, read, is_ok or ".key" not in path.name)
        for name, function in (
            ("info", lambda: dataset_info(copy.directory)),
            ("duplicates", lambda: dataset_duplicates(copy.directory)),
            ("build again", lambda: base.build(copy.root)),
            ("compare", lambda: base.build(copy.root, fingerprint="content")),
            ("append", lambda: base.append(copy.root)),
            ("edit", lambda: self.edit(base, copy)),
        ):
            self.attempt(name, function)
        # With less files it is no dataset, and is not replaced; damaged files of others stay so.
        if path.exists() and not path.is_symlink():
            self.overwrite(base, copy)

    def is_noticed(self, base, path, reads, options):
        """Whether a read that gives anything must give what is right."""
        if reads in FOREIGN_READS:
            return False
        if "verify_records" in options:
            # Of records of others no hash of the image is known: one may lie in another's place.
            is_moved = "arrange" in self.what or (
                ".index." in path.name and "its hash" in self.what
            )
            return not (base.is_adopted and is_moved)
        is_column = any(f".{name}" in path.name for name in ("label", "column"))
        is_lookup = ".index.npy" in path.name or (is_column and path.suffix == ".npy")
        return not (".tfrecord-" in path.name or is_lookup)

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
        return list(dataset.as_numpy_iterator())

    def data_source(self, base, copy, **options):
        return list(
            tfrds.data_source(
                base.name,
                split="train",
                data_dir=copy.root,
                with_key=True,
                dtype="uint8",
                **options,
            )
        )

    def stream(self, base, copy):
        dataset = tfrds.load(base.name, split="train", data_dir=copy.root, engine="stream")
        return list(dataset.as_numpy_iterator())

    def tfds(self, base, copy):
        builder = tfds.builder_from_directory(str(copy.directory))
        read_config = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
        return list(builder.as_dataset("train", read_config=read_config).as_numpy_iterator())

    def edit(self, base, copy):
        key = base.examples["train"][0][0]
        return tfrds.edit(f"{base.name}:1.0.0", remove=[key], data_dir=copy.root, version="3.0.0")

    def attempt(self, name, function):
        """Returns what a function does, None after an error."""
        self.error = ""
        is_foreign = name.split()[0] in FOREIGN_READS
        try:
            result = function()
        except TfrdsError as error:
            self.error = str(error)
        except tf.errors.OpError as error:
            self.error = str(error)
            # Damage that nobody was asked to look for is found by TensorFlow's decoder.
            is_decoders = "DecodeJpeg" in self.error and "verify" not in name
            is_told = "opy or build" in self.error or "copy it again" in self.error
            if not (is_told or is_decoders or is_foreign):
                self.problem(f"{name}: {error!r} {error}")
        except Exception as error:
            self.error = str(error)
            if name.split()[0] != "tfds":  # what TFDS itself raises is its own affair
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
        for number, (found, (key, features)) in enumerate(zip(read, meant, strict=True)):
            found = {feature: as_text(value) for feature, value in found.items()}
            if found.pop("key", key) != key and has_keys:
                self.problem(f"{name}: another key of example {number}")
            if sorted(found) != sorted(features):
                self.problem(f"{name}: other features of example {number}: {sorted(found)}")
                return
            for feature, value in features.items():
                if not np.array_equal(found[feature], value):
                    self.problem(
                        f"{name}: another {feature} of example {number}: {found[feature]!r}"
                    )


def as_text(value):
    """Returns a value as examples are meant to have it: text, not bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


@contextlib.contextmanager
def restored(path):
    """Gives a damaged file its time of change back, and all of it at the end of the block."""
    data, status = path.read_bytes(), path.stat()
    try:
        yield
    finally:
        path.write_bytes(data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def main(first, last, folder, *kinds):
    """Prints what was found."""
    fuzz = Fuzz(pathlib.Path(folder), kinds or tuple(KINDS))
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
