"""Trains a small model and notes each step; test_resume.py kills it, and has it go on.

Each line on its standard input is one training, as JSON (see `Training`), in a process of its own:
importing TensorFlow once for all of them saves most of their time. Its output has for each one line
with the process's id, then one with its exit code. With such a line as its argument it trains
itself. With "interrupts" and a data directory it interrupts itself, and prints whether that made a
difference: for all of Keras's backends.
"""

import dataclasses
import json
import os
import signal
import sys
import time

# Before TensorFlow: with PyTorch the other order can crash in its libraries.
import keras
import numpy as np

import tfrds
import tfrds.checkpoint
import tfrds.keras
import tfrds.resume

EPOCHS = 3
BATCH_SIZE = 8
SAVE_EVERY_STEPS = 4


@dataclasses.dataclass
class Training:
    """One training process.

    Attributes:
      data_dir: with the dataset "numbered", see `build`.
      directory: of the checkpoint.
      log: a file, to which each step adds a line: process, step counted from the beginning, and the
        numbers of the examples in its batch.
      result: a file for all variables and the history, at the end of training.
      dies_at: what kills it by SIGKILL while it saves for the first time.
      seconds_a_step: makes steps long enough to be hit.
    """

    data_dir: str
    directory: str
    log: str
    result: str
    dies_at: str = ""
    seconds_a_step: float = 0.0


def build(data_dir, count=116):
    """Builds "numbered": the first channel of each image holds its number, flipped or not."""
    images = np.random.RandomState(3).randint(0, 256, (count, 6, 5, 3), np.uint8)
    images[..., 0] = np.arange(count)[:, None, None]
    tfrds.build(
        "numbered",
        {"train": tfrds.sources.Arrays(images, np.arange(count) * 7 % 4)},
        data_dir=data_dir,
        encoding="raw",
        num_workers=1,
    )


def load(data_dir, **options):
    return tfrds.load(
        "numbered",
        data_dir=data_dir,
        split="train",
        batch_size=BATCH_SIZE,
        as_supervised=True,
        **options,
    )


def train(training):
    import tensorflow as tf

    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(0)
    model = NotingModel(training.log, training.seconds_a_step)
    # The average of the weights is put in their place at the end, the rate falls with each step.
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, 10, 0.9)
    model.compile(
        keras.optimizers.Adam(rate, use_ema=True, ema_momentum=0.9),
        "categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,  # XLA calls no Python
    )

    def make_dataset(seed):
        flip = tfrds.augment.RandomFlip()
        return load(training.data_dir, shuffle=True, seed=seed, augment=[flip])

    if training.dies_at:
        MOMENTS[training.dies_at]()
    history = tfrds.keras.fit_resumable(
        model,
        make_dataset,
        EPOCHS,
        training.directory,
        seed=9,
        save_every_steps=SAVE_EVERY_STEPS,
        verbose=0,
    )
    save_result(training.result, model, history)


class NotingModel(keras.Sequential):
    """Notes what each training step is given."""

    def __init__(self, log, seconds_a_step):
        super().__init__(
            [
                keras.layers.Rescaling(1 / 255),
                keras.layers.Flatten(),
                keras.layers.Dense(16, activation="relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.3),
                keras.layers.Dense(4, activation="softmax"),
            ]
        )
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._seconds_a_step = seconds_a_step

    def train_step(self, data):
        import tensorflow as tf

        images, _ = data
        step = tf.identity(self.optimizer.iterations.value)
        tf.numpy_function(self._note, [step, images[:, 0, 0, 0]], [])
        return super().train_step(data)

    def _note(self, step, numbers):
        time.sleep(self._seconds_a_step)
        line = [os.getpid(), int(step), *map(int, numbers)]
        # In one call, so that a kill leaves whole lines.
        os.write(self._log, (" ".join(map(str, line)) + "\n").encode())


def save_result(path, model, history):
    variables = [*model.variables, *model.optimizer.variables]
    values = {str(number): one.value.numpy() for number, one in enumerate(variables)}
    np.savez(f"{path}.new.npz", history=json.dumps([history.epoch, history.history]), **values)
    os.rename(f"{path}.new.npz", path)


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def die_with_half_of_the_arrays():
    write_array, left = np.lib.format.write_array, [8]

    def write_some(*arguments, **options):
        write_array(*arguments, **options)
        left[0] -= 1
        if not left[0]:
            die()

    np.lib.format.write_array = write_some


def die_after_the_rename():
    replace = os.replace

    def replace_and_die(*paths):
        replace(*paths)
        die()

    os.replace = replace_and_die


# What a process replaces so that it dies in the middle of its first save, or at its end.
MOMENTS = {
    "arrays": die_with_half_of_the_arrays,
    "flush": lambda: setattr(os, "fsync", die),
    "rename": lambda: setattr(os, "replace", die),
    "renamed": die_after_the_rename,
    "end": lambda: setattr(tfrds.resume._Resume, "save_end", die),
}


def serve():
    for line in sys.stdin:
        process = os.fork()
        if not process:
            try:
                train(Training(**json.loads(line)))
            except SystemExit as error:
                os._exit(error.code)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


class Interrupt(keras.callbacks.Callback):
    def __init__(self, batches):
        super().__init__()
        self._left = batches

    def on_train_batch_begin(self, batch, logs=None):
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt


def train_here(data_dir, directory, *batches):
    """Interrupts a training after so many batches each time; returns all values at its end."""

    def make_dataset(seed):
        return load(data_dir, shuffle=True, seed=seed)

    for number in (*batches, None):
        keras.utils.set_random_seed(0)
        layers = [
            keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(),
            # With a seed: PyTorch's own generator is not the model's.
            keras.layers.Dropout(0.3, seed=1),
            keras.layers.Dense(4, activation="softmax"),
        ]
        model = keras.Sequential(layers)
        optimizer = keras.optimizers.Adam(0.01, use_ema=True, ema_momentum=0.9)
        model.compile(optimizer, "categorical_crossentropy", metrics=["accuracy"])
        interrupts = [] if number is None else [Interrupt(number)]
        try:
            history = tfrds.keras.fit_resumable(
                model,
                make_dataset,
                EPOCHS,
                directory,
                seed=9,
                save_every_steps=SAVE_EVERY_STEPS,
                validation_data=load(data_dir).take(2),
                callbacks=interrupts,
                verbose=0,
            )
        except KeyboardInterrupt:
            continue
    values = [keras.ops.convert_to_numpy(one) for one in (*model.variables, *optimizer.variables)]
    return [np.array(value).tolist() for value in values], history.epoch, history.history


def interrupts(data_dir):
    whole = train_here(data_dir, f"{data_dir}/whole")
    parts = train_here(data_dir, f"{data_dir}/parts", 6, 13, 5)
    found = {"backend": keras.backend.backend(), "epochs": parts[1] == list(range(EPOCHS))}
    print(json.dumps({**found, "values": whole[0] == parts[0], "history": whole[2] == parts[2]}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["interrupts"]:
        interrupts(sys.argv[2])
    elif sys.argv[1:]:
        train(Training(**json.loads(sys.argv[1])))
    else:
        serve()
