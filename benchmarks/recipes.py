#!/usr/bin/env python3
"""Measures what docs/recipes.md promises, as ratios within one run.

    python benchmarks/recipes.py               # all of them, in about two minutes
    python benchmarks/recipes.py store_size    # one of them

Needs `python benchmarks/get_data.py --photos 1000`; where there are large photographs, `store_size`
takes them too. KERAS_BACKEND=jax or torch measures `fit` there.
"""

import argparse
import dataclasses
import functools
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf

import tfrds
from measure import Baseline, Measurement, compare, one_epoch
from tfrds import augment

DATA = pathlib.Path(__file__).resolve().parent / "data"
BATCH = 128
SIZE = 224
ROUNDS = 5
# Where a round takes seconds.
FEW_ROUNDS = 3
# Raw images are read in a blink: several epochs a round.
RAW_EPOCHS = 4
# What many applications were trained with; here for its arithmetic.
NORMALIZE = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
# A step of 128 would take seconds on two processors.
FINE_TUNING_BATCH = 32
FINE_TUNING_STEPS = 10


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the table.

    Attributes:
      work: what is measured.
      ours: the recipe.
      other: what it is compared with.
      value: how many times better the recipe is, unless `work` says something else.
    """

    work: str
    ours: str
    other: str
    value: float


class Store:
    """Photographs as datasets, each built when it is asked for.

    Args:
      folder: takes the datasets.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder

    def full_size(self, photos: str = "photos") -> tfrds.ImageDatasetBuilder:
        return self._built(photos)

    def at_256(self, photos: str = "photos", **options: Any) -> tfrds.ImageDatasetBuilder:
        return self._built(photos, encoding="jpeg", store_size=256, **options)

    @functools.cached_property
    def raw(self) -> tfrds.ImageDatasetBuilder:
        return self._built("photos", encoding="raw", image_size=SIZE)

    def _built(self, photos: str, **options: Any) -> tfrds.ImageDatasetBuilder:
        name = "_".join([photos.replace("-", "_"), *map(str, options.values())])
        source = find_photos(photos)
        assert source is not None
        # What lies there already was built a moment ago, with the same options.
        if (self._folder / name).is_dir():
            return tfrds.builder(name, data_dir=self._folder)
        return tfrds.build(name, source, data_dir=self._folder, **options)


def find_photos(kind: str) -> pathlib.Path | None:
    """Returns the smallest folder of photographs that get_data.py made."""
    folders = sorted(DATA.glob(f"{kind}-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    return folders[0] if folders else None


def read(builder: tfrds.ImageDatasetBuilder, **options: Any) -> tf.data.Dataset:
    options = {"split": "train", "batch_size": BATCH, "shuffle": True, "seed": 1, **options}
    return builder.as_dataset(as_supervised=True, drop_remainder=True, **options)


def uint8(store: Store) -> Iterator[Line]:
    """Bytes to the device, speed of reading, and of `fit` with the cast in the model."""
    raw = store.raw
    cast = {"uint8": {"dtype": "uint8"}, "float32": {}}
    normalized = {"uint8": cast["uint8"], "float32, normalized": {"normalize": NORMALIZE}}
    yield batch_bytes(raw, cast)
    for sides in (cast, normalized):
        yield from speeds("read raw 224", raw, sides, epochs=RAW_EPOCHS)
    yield from speeds("read JPEG to 224", store.full_size(), cast, image_size=SIZE)
    yield from fits(raw, {dtype: ("float32", dtype) for dtype in ("uint8", "float32")})


def mixed_precision(store: Store) -> Iterator[Line]:
    """Bytes to the device, speed of reading, and of `fit` with the policy."""
    raw = store.raw
    normalized = {
        f"{dtype}, normalized": {"dtype": dtype, "normalize": NORMALIZE}
        for dtype in ("bfloat16", "float32")
    }
    yield batch_bytes(raw, normalized)
    yield from speeds("read raw 224", raw, normalized, epochs=RAW_EPOCHS)
    plain = {"float32 policy, uint8": ("float32", "uint8")}
    for policy, dtype in (
        ("mixed_bfloat16", "uint8"),
        ("mixed_bfloat16", "bfloat16"),
        ("mixed_float16", "uint8"),
    ):
        yield from fits(raw, {f"{policy}, {dtype}": (policy, dtype), **plain})


def store_size(store: Store) -> Iterator[Line]:
    """Bytes on disk, speed of reading, and what the pixels differ from an exact resize."""
    for kind in ("photos", "large-photos"):
        if find_photos(kind) is None:
            continue
        # Sixteen times the pixels, an eighth of the photographs.
        split = "train" if kind == "photos" else "train[:128]"
        full_size = store.full_size(kind)
        stored = {
            "at 256": store.at_256(kind),
            "at 256, quality 85": store.at_256(kind, jpeg_quality=85),
        }
        for name, builder in stored.items():
            ratio = disk_bytes(full_size) / disk_bytes(builder)
            yield Line(f"{kind}: bytes on disk", name, "full size", ratio)
        for name, options in {
            "resize": {"image_size": SIZE},
            "RandomResizedCrop": {"augment": [augment.RandomResizedCrop(SIZE)]},
        }.items():
            measurements = {
                name: one_epoch(read(builder, split=split, dtype="uint8", **options))
                for name, builder in (("at 256", stored["at 256"]), ("full size", full_size))
            }
            rounds = ROUNDS if kind == "photos" else FEW_ROUNDS
            yield from lines(f"{kind}: read by {name}", measurements, rounds)
        for name, builder in {"full size": full_size, **stored}.items():
            levels = difference(builder, full_size)
            yield Line(f"{kind}: mean difference, of 255", name, "Pillow's resize", levels)


def fine_tuning(store: Store) -> Iterator[Line]:
    """What a small model waits for its batches, on the processors that read them."""
    options = {
        "batch_size": FINE_TUNING_BATCH,
        "dtype": "uint8",
        "augment": [augment.RandomResizedCrop(SIZE), augment.RandomFlip()],
    }
    for name, builder in (("at 256", store.at_256()), ("full size", store.full_size())):
        train = read(builder, **options)
        waited, worked = step_seconds(train, mobile_net(num_classes(builder)))
        share = waited / (waited + worked)
        yield Line("share of a step", f"waiting, {name}", "all", share)


def speeds(
    work: str,
    builder: tfrds.ImageDatasetBuilder,
    sides: dict[str, dict[str, Any]],
    epochs: int = 1,
    **options: Any,
) -> Iterator[Line]:
    """Compares reading with the first options with reading with the others."""
    measurements = {
        name: one_epoch(read(builder, **options, **side).repeat(epochs))
        for name, side in sides.items()
    }
    return lines(work, measurements)


def fits(builder: tfrds.ImageDatasetBuilder, sides: dict[str, tuple[str, str]]) -> Iterator[Line]:
    """Compares `fit` with the first (policy, dtype of the batches) with `fit` with the others."""
    measurements = {
        name: fit(read(builder, dtype=dtype), num_classes(builder), policy)
        for name, (policy, dtype) in sides.items()
    }
    return lines(f"fit on {keras.backend.backend()}, raw 224", measurements, FEW_ROUNDS)


def lines(work: str, measurements: dict[str, Measurement], rounds: int = ROUNDS) -> Iterator[Line]:
    """Compares the first with each other."""
    (ours, measure), *others = measurements.items()
    for row in compare(work, measure, [Baseline(*other) for other in others], rounds):
        yield Line(work, ours, row.baseline, row.ratio)


def fit(train: tf.data.Dataset, num_classes: int, policy: str) -> Measurement:
    """Returns a measurement: images a second of an epoch of `fit`."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Rescaling(1 / 255, dtype=policy),
            layers.Conv2D(16, 7, 4, activation="relu", dtype=policy),
            layers.Conv2D(32, 3, 2, activation="relu", dtype=policy),
            layers.GlobalAveragePooling2D(dtype=policy),
            layers.Dense(num_classes, "softmax", dtype="float32"),
        ]
    )
    model.compile("adam", "categorical_crossentropy")

    def measure() -> float:
        start = time.perf_counter()
        model.fit(train, verbose=0, shuffle=False)
        return int(train.cardinality()) * BATCH / (time.perf_counter() - start)

    return measure


def mobile_net(num_classes: int) -> keras.Model:
    base = keras.applications.MobileNetV3Small(
        input_shape=(SIZE, SIZE, 3), include_top=False, pooling="avg", weights=None
    )
    base.trainable = False
    model = keras.Sequential([base, keras.layers.Dense(num_classes, "softmax")])
    model.compile("adam", "categorical_crossentropy")
    return model


def step_seconds(train: tf.data.Dataset, model: keras.Model) -> tuple[float, float]:
    """Returns seconds that a step waits for its batch, and that it works on it; medians."""
    waited, worked = [], []
    end = time.perf_counter()
    for images, labels in train.take(FINE_TUNING_STEPS):
        start = time.perf_counter()
        model.train_on_batch(images, labels)
        waited.append(start - end)
        end = time.perf_counter()
        worked.append(end - start)
    # The first two start the pipeline and trace the model.
    return statistics.median(waited[2:]), statistics.median(worked[2:])


def num_classes(builder: tfrds.ImageDatasetBuilder) -> int:
    return builder.info.features["label"].num_classes


def batch_bytes(builder: tfrds.ImageDatasetBuilder, sides: dict[str, dict[str, Any]]) -> Line:
    (ours, our_options), (other, other_options) = sides.items()

    def count(options: dict[str, Any]) -> int:
        images, _ = read(builder, **options).element_spec
        return images.dtype.size * images.shape.num_elements()

    return Line("bytes of a batch", ours, other, count(other_options) / count(our_options))


def disk_bytes(builder: tfrds.ImageDatasetBuilder) -> int:
    return sum(path.stat().st_size for path in pathlib.Path(builder.data_dir).iterdir())


def difference(builder: tfrds.ImageDatasetBuilder, full_size: tfrds.ImageDatasetBuilder) -> float:
    """Returns the mean difference from the full size as Pillow resizes it, in 0..255."""
    options = {"split": f"train[:{BATCH}]", "image_size": SIZE, "shuffle": False}
    ((ours, _),) = read(builder, **options)
    ((exact, _),) = read(full_size, interpolation="antialias", **options)
    return float(tf.reduce_mean(tf.abs(ours - exact)))


RECIPES = {
    "uint8": uint8,
    "mixed_precision": mixed_precision,
    "store_size": store_size,
    "fine_tuning": fine_tuning,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help=f"of {', '.join(RECIPES)}")
    chosen = parser.parse_args().recipes or list(RECIPES)
    if unknown := sorted(set(chosen) - set(RECIPES)):
        parser.error(f"{unknown[0]}: expected one of {list(RECIPES)}.")
    if find_photos("photos") is None:
        print("recipes.py: no data/photos-N. Run get_data.py --photos 1000.", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        store = Store(pathlib.Path(folder))
        for recipe in chosen:
            print(f"\n{recipe}")
            for line in RECIPES[recipe](store):
                sides = f"{line.ours} : {line.other}"
                print(f"  {line.work:42}{sides:48}{line.value:7.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
