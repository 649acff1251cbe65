"""The datasets of every kind that `fuzzed_datasets.py` damages, and what they hold."""

import contextlib
import pathlib

import foreign_files
import numpy as np
from damaged import Copy
from datasets import CLASS_NAMES, decoded, photo
from images import encoded, files_below, noise, put
from labelled import WithColumns

import tfrds
from tfrds.disk.columns import Column
from tfrds.disk.keys import Keys
from tfrds.sources import Arrays
from tfrds.write.executors import ThisProcess, run_here

COUNTS, NUM_SHARDS = {"train": 14, "test": 5}, 3


class Stopped(Exception):
    """Ends a build, as a signal does."""


class StopsSoon:
    """Runs two shards."""

    def run(self, function, tasks, describe):
        for done, result in enumerate(run_here(function, tasks)):
            if done == 2:
                raise Stopped
            yield result


def copy_at(root, name):
    """Returns the dataset that lies there, as tests/damaged.py has it."""
    copy = Copy.__new__(Copy)
    copy.name, copy.root, copy.directory = name, root, root / name / "1.0.0"
    return copy


class Base:
    """A dataset, and what it holds.

    Attributes:
      name: of the dataset.
      root: its data directory.
      unfinished: data directory of the same build that was stopped; None: there is none.
      examples: (key, features by name) of each example, by split, in record order.
      files: bytes of the dataset's files, by name.
      is_adopted: whether it links to files of others.
      readers: what can read it besides ours by index.
    """

    unfinished, is_adopted, readers = None, False, ("stream", "tfds")

    def __init__(self, folder, kind):
        self.name, self.kind = f"{kind}_images", kind
        self.folder, self.root = folder, folder / "data"
        self.make_source()
        self.build(self.root)
        copy = copy_at(self.root, self.name)
        self.files = files_below(copy.directory)
        self.examples = {
            split: [(key.decode(), self.meant(key.decode())) for key in copy.keys(split)]
            for split in COUNTS
        }
        assert all(len(part["shards"]) == NUM_SHARDS for part in copy.record["splits"].values())

    def append(self, root):
        return tfrds.append(
            f"{self.name}:1.0.0",
            {"train": self.more},
            data_dir=root,
            key_prefix="2/",
            executor=ThisProcess(),
        )


class BuiltBase(Base):
    """A dataset of a source, and the same build unfinished."""

    options = {}  # noqa: RUF012

    def __init__(self, folder, kind):
        super().__init__(folder, kind)
        self.unfinished = folder / "unfinished"
        with contextlib.suppress(Stopped):
            self.build(self.unfinished, StopsSoon())

    def build(self, data_dir, executor=None, **options):
        return tfrds.build(
            self.name,
            self.source,
            data_dir=data_dir,
            num_shards=NUM_SHARDS,
            executor=executor or ThisProcess(),
            **self.options,
            **options,
        )


class FolderBase(BuiltBase):
    """Images of one size in folders, and one that is cut off."""

    def make_source(self):
        encoding = "raw" if self.kind == "raw" else "original"
        self.options = {"encoding": encoding, "on_error": "skip", "max_bad": 0.5}
        self.source = self.folder / "source"
        self.more = self.source / "test"
        for split, count in COUNTS.items():
            for number in range(count):
                image = photo(100 * count + number, 11, 9)
                data = encoded(image, "JPEG" if self.kind == "jpeg" else "PNG")
                name = CLASS_NAMES[number % len(CLASS_NAMES)]
                put(self.source / split / name / f"{number:02d}", data)
        put(self.source / "train" / "ant" / "cut", data[:-15])

    def meant(self, key):
        label = CLASS_NAMES.index(key.split("/")[-2])
        return {
            "image": decoded((self.source / key).read_bytes()),
            "label": np.eye(len(CLASS_NAMES), dtype=np.float32)[label],
        }


class AllColumns(WithColumns):
    """Arrays with any number of classes each, weights, and columns of every dtype."""

    def __init__(self, split, count):
        rows = np.arange(count)
        images = np.stack([photo(300 * count + row, 7, 5) for row in rows])
        classes = np.stack([rows % 2, rows % 3 == 0, rows % 5 == 4], axis=1).astype(np.uint8)
        texts = [f"{split} {row} \u00e0\0x" * (row % 4) for row in rows]
        values = {
            "flag": rows % 3 == 0,
            "ratio": (rows / 7).astype(np.float32),
            "vector": (rows[:, np.newaxis] / [2, 3, 5]).astype(np.float32),
            "pair": np.stack([rows * 2**31, -rows], axis=1),
            **{name: (rows * 3).astype(name) for name in ("int8", "int16", "int32", "int64")},
            **{name: (rows * 9).astype(name) for name in ("uint8", "uint16", "uint32")},
        }
        weights = np.linspace(0, 2, count).astype(np.float32)
        self._arrays = Arrays(images, classes, label_kind="multi")
        self._changes = {
            "weights": weights,
            "columns": (
                Column.of("text", Keys.from_iterable(text.encode() for text in texts)),
                *(Column.of(name, array) for name, array in values.items()),
            ),
        }
        multi_hot = classes.astype(np.float32)
        self.arrays = {
            **{"image": images, "label": multi_hot, "text": texts, "sample_weight": weights},
            **values,
        }


class ColumnsBase(BuiltBase):
    """Any number of classes, and columns of every kind."""

    def make_source(self):
        self.source = {split: AllColumns(split, count) for split, count in COUNTS.items()}
        self.more = self.source["test"]

    def meant(self, key):
        split, row = key.split("/")
        return {name: array[int(row)] for name, array in self.source[split].arrays.items()}


class AdoptedBase(Base):
    """Files that others wrote with plain TensorFlow, used where they lie, with their hashes."""

    is_adopted = True

    def build(self, data_dir, executor=None, *, fingerprint="stat", **options):
        return tfrds.from_tfrecords(
            self.source, self.name, data_dir=data_dir, hashes=True, **self.options, **options
        )

    def write(self, name, rows):
        """Writes a file of these rows; returns its path."""
        path = self.folder / "foreign" / name
        return foreign_files.write(path, [self.stored(row) for row in rows])

    def meant(self, key):
        name, number = key.split("/")
        return self.example(int(self.rows[name][int(number)]))

    def append(self, root):
        return tfrds.append(f"{self.name}:1.0.0", self.folder, data_dir=root)


class AdoptedTextBase(AdoptedBase):
    """Raw pixels with the names of classes, split by file."""

    readers = ("tfds",)
    options = {}  # noqa: RUF012

    def make_source(self):
        self.rows, self.source, first = {}, {}, 0
        for split, count in COUNTS.items():
            parts = np.array_split(np.arange(first, first + count), NUM_SHARDS)
            first += count
            names = {f"{split}{number}": rows for number, rows in enumerate(parts)}
            self.rows.update(names)
            self.source[split] = [self.write(name, rows) for name, rows in names.items()]

    def stored(self, row):
        name = CLASS_NAMES[row % 3]
        return {"image_raw": noise(row, 6, 6).tobytes(), "label": name, "more": [1, 2]}

    def example(self, row):
        return {"image_raw": noise(row, 6, 6), "label": np.eye(3, dtype=np.float32)[row % 3]}


class AdoptedNumbersBase(AdoptedBase):
    """PNG files with numbers that count from 1, split by the index alone."""

    readers = ()
    options = {  # noqa: RUF012
        "label_offset": -1,
        "class_names": CLASS_NAMES,
        "splits": {"train": 0.6, "test": 0.4},
    }

    def make_source(self):
        parts = np.array_split(np.arange(24), NUM_SHARDS)
        self.rows = {f"part{number}": rows for number, rows in enumerate(parts)}
        self.source = [self.write(name, rows) for name, rows in self.rows.items()]

    def stored(self, row):
        data = encoded(noise(row, 6, 5))
        return {"image/encoded": data, "image/class/label": row % len(CLASS_NAMES) + 1}

    def example(self, row):
        one_hot = np.eye(len(CLASS_NAMES), dtype=np.float32)
        return {
            "image/encoded": noise(row, 6, 5),
            "image/class/label": one_hot[row % len(CLASS_NAMES)],
        }


KINDS = {
    **dict.fromkeys(("raw", "jpeg", "png"), FolderBase),
    "columns": ColumnsBase,
    "adopted_text": AdoptedTextBase,
    "adopted_numbers": AdoptedNumbersBase,
}


def make_base(folder, kind):
    """Builds the dataset of a kind of `KINDS` below a folder."""
    return KINDS[kind](pathlib.Path(folder) / kind, kind)
