"""Small datasets with labels of every kind and with columns, and what they must give."""

import dataclasses

import numpy as np

import tfrds
from tfrds.disk.columns import Column
from tfrds.disk.keys import Keys
from tfrds.sources import Arrays

COUNT = 23
IMAGES = np.random.default_rng(7).integers(0, 256, (COUNT, 5, 4, 3), np.uint8)
CLASSES = np.arange(COUNT) % 3
HALVES = np.arange(COUNT) % 2
# Row 4 has no class at all, row 5 has all of them.
SETS = [{number % 4, number % 3} for number in range(COUNT)]
SETS[4], SETS[5] = set(), {0, 1, 2, 3}
MULTI_HOT = np.array([[float(k in classes) for k in range(4)] for classes in SETS], np.float32)
VALUES = np.linspace(-2, 5, COUNT).astype(np.float32)
VECTORS = np.random.default_rng(8).normal(size=(COUNT, 2)).astype(np.float32)
WEIGHTS = np.linspace(0, 2, COUNT).astype(np.float32)
AGES = (np.arange(COUNT) * 7 - 30).astype(np.int16)
PLACES = [f"place {number} à" if number % 5 else "" for number in range(COUNT)]
FLAGS = np.arange(COUNT) % 3 == 0

# By name: (labels, label_kind, what each example's label is by default).
KINDS = {
    "single": (CLASSES, None, np.eye(3, dtype=np.float32)[CLASSES]),
    "binary": (HALVES, "binary", HALVES[:, np.newaxis].astype(np.float32)),
    "multi": (MULTI_HOT.astype(np.uint8), "multi", MULTI_HOT),
    "value": (VALUES, "value", VALUES),
    "vector": (VECTORS, "value", VECTORS),
    "none": (None, None, None),
}


class WithColumns:
    """Arrays with weights and three columns beside them."""

    kind, is_in_memory = "with_columns", True

    def __init__(self, labels, label_kind=None, **changes):
        self._arrays = Arrays(IMAGES, labels, label_kind=label_kind)
        self._changes = changes

    def scan(self):
        texts = Keys.from_iterable(place.encode() for place in PLACES)
        columns = {
            "weights": WEIGHTS,
            "columns": (
                Column.of("place", texts),
                Column.of("age", AGES),
                Column.of("flag", FLAGS),
                Column.of("vector", VECTORS),
            ),
        }
        return dataclasses.replace(self._arrays.scan(), **{**columns, **self._changes})

    def inputs(self, rows):
        return self._arrays.inputs(rows)


def build(kind, root, *, columns=False, **options):
    """Builds the dataset of this kind of label, named after it."""
    labels, label_kind, _ = KINDS[kind]
    make = WithColumns if columns else Arrays
    source = (
        make(IMAGES, labels, label_kind=label_kind) if make is Arrays else make(labels, label_kind)
    )
    return tfrds.build(f"the_{kind}", source, data_dir=root, num_shards=2, **options)


def rows_of(keys):
    """Returns which rows examples are, by their keys."""
    return [int(key) for key in keys]
