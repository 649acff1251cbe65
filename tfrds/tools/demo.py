"""The main job on the images that come with the package: build, load by name, train, evaluate.

Gets a data directory, gives a `DemoResult`. It is written as a user would write it, with TFDS's and
Keras's own calls.
"""

import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import keras
import tensorflow_datasets as tfds

import tfrds
from tfrds.checks import check_int
from tfrds.disk.layout import is_dataset
from tfrds.tools.demo_result import EPOCHS, DemoResult
from tfrds.tools.info import dataset_info

_NAME = "tfrds_demo"
_BATCH_SIZE = 64
_SEED = 0

Report = Callable[[str], None]


def run_demo(
    data_dir: os.PathLike[str] | str | None = None,
    *,
    epochs: int = EPOCHS,
    report: Report = lambda _: None,
) -> DemoResult:
    """Builds `tfrds_demo` unless it is there, reads it, trains a small network, evaluates it.

    Args:
      data_dir: root of all datasets; None: TFDS's own.
      epochs: of training.
      report: called with a line about each step.

    Raises:
      ConfigError: `epochs` is not positive.
      DatasetError: the place cannot be written, or another dataset of this name lies there.
    """
    check_int("epochs", epochs, 1)
    built_per_second, directory = _build(data_dir, report)
    load: dict[str, Any] = {
        "batch_size": _BATCH_SIZE,
        "as_supervised": True,
        "data_dir": data_dir,
        "read_config": tfds.ReadConfig(shuffle_seed=_SEED),
    }
    train, info = tfds.load(_NAME, split="train", shuffle_files=True, with_info=True, **load)
    test = tfds.load(_NAME, split="test", **load)
    read_per_second = info.splits["train"].num_examples / _epoch_seconds(train)

    keras.utils.set_random_seed(_SEED)
    model = _network(info.features["image"].shape, info.features["label"].num_classes)
    started = time.perf_counter()
    model.fit(
        train,
        epochs=epochs,
        shuffle=False,  # the dataset shuffles itself; Keras warns of its own default
        verbose=0,
        callbacks=[tfrds.keras.SyncEpoch(train), _Report(report)],
    )
    train_seconds = time.perf_counter() - started
    return DemoResult(
        num_built=info.splits.total_num_examples,
        built_per_second=built_per_second,
        read_per_second=read_per_second,
        epochs=epochs,
        train_seconds=train_seconds,
        test_accuracy=float(model.evaluate(test, verbose=0, return_dict=True)["accuracy"]),
        directory=directory,
        # The name has a class, so tfds.load is the fast form with a data_dir too.
        load_line=dataset_info(directory).load_line.replace("tfrds.load(", "tfds.load(", 1),
    )


def _build(data_dir: Any, report: Report) -> tuple[float | None, pathlib.Path]:
    """Returns (images built per second, None where it was there, its directory)."""
    builder = tfds.builder(_NAME, data_dir=data_dir)
    directory = pathlib.Path(builder.data_dir)
    was_there = is_dataset(directory)
    if not was_there:
        report(f"Building {directory}")
    started = time.perf_counter()
    builder.download_and_prepare()
    seconds = time.perf_counter() - started
    return None if was_there else builder.info.splits.total_num_examples / seconds, directory


def _epoch_seconds(dataset: Any) -> float:
    for _ in dataset:  # traces the graph, maps the files
        pass
    started = time.perf_counter()
    for _ in dataset:
        pass
    return time.perf_counter() - started


def _network(image_shape: tuple[int, ...], num_classes: int) -> Any:
    model = keras.Sequential(
        [
            keras.layers.Input(image_shape),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(num_classes, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])
    return model


class _Report(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports each epoch in a line."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Reports what Keras measured on the training images."""
        measured = ", ".join(f"{name} {value:.3f}" for name, value in sorted((logs or {}).items()))
        self._report(f"epoch {epoch + 1} of {self.params['epochs']}: {measured}")
