"""Prints the gaps between the epochs of a tiny model's `fit` with validation.

A gap reaches from the end of an epoch's last step to the end of the next epoch's first step, less
one usual step: what the user waits there for iterators to end and to begin, validation included.
That has a few examples and adds next to nothing of its own. The first gap is left out: Keras
compiles its validation in it.

Arguments: name, data_dir, options of tfrds.load as JSON, split, epochs. `waiting.py` runs it.
"""

import itertools
import json
import statistics
import sys
import time

import keras

import tfrds

NUM_VALIDATION = 8


class Clock(keras.callbacks.Callback):
    """Notes when each step ends, by epochs."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[list[float]] = []

    def on_epoch_begin(self, epoch, logs=None):
        self.epochs.append([])

    def on_train_batch_end(self, batch, logs=None):
        self.epochs[-1].append(time.perf_counter())


def main() -> None:
    name, data_dir, options, split = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
    train = tfrds.load(
        name, data_dir=data_dir, split=split, shuffle=True, as_supervised=True, **options
    )
    validation = tfrds.load(
        name,
        data_dir=data_dir,
        split=f"train[:{NUM_VALIDATION}]",
        as_supervised=True,
        **options,
    )
    num_classes = train.element_spec[1].shape[-1]
    # Looks at every pixel, at next to no cost.
    model = keras.Sequential(
        [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(num_classes, "softmax")]
    )
    model.compile("sgd", "categorical_crossentropy")
    clock = Clock()
    model.fit(
        train,
        validation_data=validation,
        epochs=int(sys.argv[5]),
        shuffle=False,
        verbose=0,
        callbacks=[clock],
    )
    print(json.dumps(summary(clock.epochs)))


def summary(epochs: list[list[float]]) -> dict:
    """Returns the gaps and the usual time of an epoch, from the times at which steps ended."""
    steps = [after - before for epoch in epochs for before, after in itertools.pairwise(epoch)]
    usual = statistics.median(steps)
    # The first gap is between the first two epochs.
    gaps = [after[0] - before[-1] - usual for before, after in itertools.pairwise(epochs[1:])]
    return {
        "gaps": gaps,
        "epoch_seconds": statistics.median(epoch[-1] - epoch[0] for epoch in epochs),
    }


if __name__ == "__main__":
    main()
