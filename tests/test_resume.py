import dataclasses
import importlib.util
import io
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import keras
import numpy as np
import pytest
import resumed_training
import tensorflow as tf
from datasets import ROOT, environment
from resumed_training import BATCH_SIZE, EPOCHS, SAVE_EVERY_STEPS, Interrupt, Training

import tfrds
from tfrds.errors import ConfigError, DatasetError, TfrdsWarning

SCRIPT = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "resumed_training.py")]
NUM_EXAMPLES = 116
NUM_STEPS = 15


class Server:
    """Starts trainings, each in a process of its own; see tests/resumed_training.py."""

    def __init__(self, folder):
        self.folder = folder
        self._process = subprocess.Popen(
            SCRIPT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )

    def training(self, name, **options):
        paths = {"log": self.folder / f"{name}.log", "result": self.folder / f"{name}.npz"}
        directory = self.folder / name
        return Training(
            data_dir=str(self.folder / "data"),
            directory=str(directory),
            **{key: str(path) for key, path in paths.items()},
            **options,
        )

    def start(self, training):
        """Returns the id of the process that trains."""
        print(json.dumps(dataclasses.asdict(training)), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def wait(self):
        """Returns the exit code of the process."""
        return int(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._process.stdout.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trainings")
    resumed_training.build(folder / "data", NUM_EXAMPLES)
    server = Server(folder)
    yield server
    server.close()


@pytest.fixture(scope="module")
def whole(server):
    """A training that nothing interrupted."""
    training = server.training("whole")
    server.start(training)
    assert server.wait() == 0
    return training


def steps_by_process(training):
    """Returns, for each process in its order, the numbers of the examples by step."""
    processes = {}
    log = pathlib.Path(training.log)
    for line in log.read_text().splitlines() if log.exists() else ():
        process, step, *numbers = map(int, line.split())
        processes.setdefault(process, {})[step] = numbers
    return list(processes.values())


def num_lines(training):
    return sum(map(len, steps_by_process(training)))


def wait_for_lines(training, number):
    end = time.monotonic() + 60
    while num_lines(training) < number:
        assert time.monotonic() < end
        time.sleep(0.001)


def position(training):
    """Returns the step at which the next process begins, counted from the beginning."""
    state = read_state(training.directory)
    return state["epoch"] * NUM_STEPS + state["step"] if state else 0


def read_state(directory):
    path = pathlib.Path(directory) / "checkpoint.npz"
    if not path.exists():
        return None
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("state.json"))


def random_steps(randomness, training, least):
    """Returns after how many steps to kill, and never so late that the training may have ended."""
    return min(randomness.randint(least, 12), EPOCHS * NUM_STEPS - position(training) - 4)


def assert_same_training(training, whole):
    (expected,) = steps_by_process(whole)
    found = {}
    for steps in steps_by_process(training):
        for step, numbers in steps.items():
            assert numbers == found.setdefault(step, numbers)
    assert found == expected
    with np.load(training.result) as values, np.load(whole.result) as expected_values:
        assert values.files == expected_values.files
        for name in values.files:
            assert values[name].tobytes() == expected_values[name].tobytes()


def test_an_uninterrupted_training_sees_each_example_once_an_epoch(whole):
    (steps,) = steps_by_process(whole)
    assert list(steps) == list(range(EPOCHS * NUM_STEPS))
    epochs = [
        [number for step in range(first, first + NUM_STEPS) for number in steps[step]]
        for first in range(0, EPOCHS * NUM_STEPS, NUM_STEPS)
    ]
    assert all(sorted(epoch) == list(range(NUM_EXAMPLES)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert [len(steps[step]) for step in (0, NUM_STEPS - 1)] == [BATCH_SIZE, NUM_EXAMPLES % 8]


def test_killed_at_random_steps_it_sees_and_learns_the_same(server, whole):
    randomness = random.Random(5)
    training = server.training("killed", seconds_a_step=0.01)
    for _ in range(5):
        begin, before = position(training), num_lines(training)
        process = server.start(training)
        wait_for_lines(training, before + random_steps(randomness, training, 1))
        time.sleep(randomness.uniform(0, 0.02))
        os.kill(process, signal.SIGKILL)
        assert server.wait() == -signal.SIGKILL
        *_, seen = steps_by_process(training)
        assert min(seen) == begin
        # The step that was running, and those since the last save.
        assert max(seen) - position(training) <= SAVE_EVERY_STEPS
    server.start(dataclasses.replace(training, seconds_a_step=0.0))
    assert server.wait() == 0
    assert_same_training(training, whole)


@pytest.mark.slow
def test_killed_20_times_in_fresh_processes_it_sees_and_learns_the_same(server, whole):
    randomness = random.Random(20)
    training = server.training("often_killed", seconds_a_step=0.03)
    argument = json.dumps(dataclasses.asdict(training))
    for _ in range(20):
        before = num_lines(training)
        process = subprocess.Popen([*SCRIPT, argument], env=environment())
        # Some are killed before their first step, while they load.
        wait_for_lines(training, before + random_steps(randomness, training, 0))
        time.sleep(randomness.uniform(0, 0.05))
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert subprocess.run([*SCRIPT, argument], env=environment(), check=False).returncode == 0
    assert_same_training(training, whole)


def test_killed_inside_of_saves_it_sees_and_learns_the_same(server, whole):
    training = server.training("killed_saving")
    for moment in resumed_training.MOMENTS:
        server.start(dataclasses.replace(training, dies_at=moment))
        assert server.wait() == -signal.SIGKILL, moment
    assert not os.path.exists(training.result)
    server.start(training)
    assert server.wait() == 0
    assert_same_training(training, whole)
    assert sorted(os.listdir(training.directory)) == [".lock", "checkpoint.npz"]


def test_sigterm_saves_the_step_and_ends_with_143(server, whole):
    training = server.training("terminated", seconds_a_step=0.05)
    process = server.start(training)
    wait_for_lines(training, 3)
    os.kill(process, signal.SIGTERM)
    assert server.wait() == 143
    (seen,) = steps_by_process(training)
    assert position(training) == max(seen) + 1 < NUM_STEPS
    server.start(dataclasses.replace(training, seconds_a_step=0.0))
    assert server.wait() == 0
    # Not one step twice.
    assert num_lines(training) == EPOCHS * NUM_STEPS
    assert_same_training(training, whole)


@pytest.mark.parametrize("backend", ["jax", pytest.param("torch", marks=pytest.mark.slow)])
def test_interruptions_make_no_difference_on_other_backends(server, tmp_path, backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed: it comes with the test extra")
    resumed_training.build(tmp_path, NUM_EXAMPLES)
    process = subprocess.run(
        [*SCRIPT, "interrupts", str(tmp_path)],
        env=environment(KERAS_BACKEND=backend),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout.splitlines()[-1])
    assert found == {"backend": backend, "epochs": True, "values": True, "history": True}


# The rest trains in this process, on 50 images in 7 steps.


def make_dataset(raw, **options):
    def make(seed):
        arguments = {"batch_size": 8, "shuffle": True, "as_supervised": True, **options}
        return raw.load(**arguments, seed=seed)

    return make


def make_model(optimizer="adam", metrics=("accuracy",), units=4, **options):
    keras.utils.set_random_seed(0)
    layers = [
        keras.layers.Rescaling(1 / 255),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(units, activation="softmax"),
    ]
    model = keras.Sequential(layers)
    model.compile(optimizer, "categorical_crossentropy", metrics=list(metrics), **options)
    return model


def fit(raw, directory, *, epochs=2, model=None, dataset=None, **options):
    model = model or make_model()
    arguments = {"seed": 9, "save_every_steps": 2, "verbose": 0, **options}
    history = tfrds.keras.fit_resumable(
        model, dataset or make_dataset(raw), epochs, directory, **arguments
    )
    return model, history


def interrupt(raw, directory, batches, **options):
    callbacks = [*options.pop("callbacks", []), Interrupt(batches)]
    with pytest.raises(KeyboardInterrupt):
        fit(raw, directory, callbacks=callbacks, **options)


@pytest.fixture(scope="module")
def interrupted_once(raw, tmp_path_factory):
    directory = tmp_path_factory.mktemp("interrupted") / "run"
    interrupt(raw, directory, 3)
    return directory


@pytest.fixture
def interrupted(interrupted_once, tmp_path):
    """The directory of a training that was interrupted after its third step."""
    return shutil.copytree(interrupted_once, tmp_path / "run")


def values(model, optimizer=None):
    variables = [*model.variables, *(optimizer or model.optimizer).variables]
    return [variable.value.numpy().tolist() for variable in variables]


class Recorder(keras.callbacks.Callback):
    """Notes what callbacks are told."""

    def __init__(self):
        super().__init__()
        self.events = []

    def on_train_begin(self, logs=None):
        self.events.append("begin")

    def on_epoch_begin(self, epoch, logs=None):
        self.events.append(("epoch", epoch))

    def on_train_batch_end(self, batch, logs=None):
        self.events.append(batch)

    def on_epoch_end(self, epoch, logs=None):
        self.events.append(("end", epoch, sorted(logs)))

    def on_train_end(self, logs=None):
        self.events.append("end")


class StopAt(keras.callbacks.Callback):
    def __init__(self, epoch=None, batch=None):
        super().__init__()
        self._at = epoch, batch

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self._epoch, batch) == self._at:
            self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        if (epoch, None) == self._at:
            self.model.stop_training = True


def test_one_history_and_the_same_values_over_all_processes(raw, tmp_path):
    whole, expected = fit(raw, tmp_path / "whole")
    interrupt(raw, tmp_path / "parts", 5)
    interrupt(raw, tmp_path / "parts", 5)
    model, history = fit(raw, tmp_path / "parts")
    assert isinstance(history, keras.callbacks.History)
    assert history.epoch == expected.epoch == [0, 1]
    assert history.history == expected.history
    assert values(model) == values(whole)


def test_callbacks_see_one_fit_with_the_epochs_numbers(raw, tmp_path):
    interrupt(raw, tmp_path, 5)
    recorder = Recorder()
    fit(raw, tmp_path, callbacks=recorder, validation_data=make_dataset(raw, split="test")(1))
    names = ["accuracy", "loss", "val_accuracy", "val_loss"]
    first = [("epoch", 0), 0, 1, 2, ("end", 0, names)]
    assert recorder.events == ["begin", *first, ("epoch", 1), *range(7), ("end", 1, names), "end"]


def test_a_finished_training_returns_its_history_and_final_weights(raw, tmp_path):
    trained, expected = fit(raw, tmp_path)
    recorder = Recorder()
    model, history = fit(raw, tmp_path, callbacks=[recorder])
    assert recorder.events == []
    assert (history.epoch, history.history) == (expected.epoch, expected.history)
    assert values(model) == values(trained)


def test_more_epochs_go_on_after_the_last_one(raw, tmp_path):
    whole, expected = fit(raw, tmp_path / "whole", epochs=3)
    fit(raw, tmp_path / "parts", epochs=2)
    model, history = fit(raw, tmp_path / "parts", epochs=3)
    assert history.epoch == [0, 1, 2]
    assert history.history == expected.history
    assert values(model) == values(whole)


def test_what_a_callback_stops_at_an_epochs_end_stays_stopped(raw, tmp_path):
    _, stopped = fit(raw, tmp_path, epochs=3, callbacks=[StopAt(epoch=1)])
    recorder = Recorder()
    _, history = fit(raw, tmp_path, epochs=3, callbacks=[recorder])
    assert recorder.events == []
    assert history.epoch == stopped.epoch == [0, 1]


def test_the_end_of_a_resumed_epoch_does_not_hide_that_a_callback_stops_there(raw, tmp_path):
    interrupt(raw, tmp_path, 5)  # steps 4, 5 and 6 are left
    _, history = fit(raw, tmp_path, epochs=3, callbacks=[StopAt(epoch=0, batch=2)])
    assert history.epoch == [0]
    assert read_state(tmp_path)["is_stopped"]


def test_what_a_callback_stops_within_an_epoch_goes_on_there(raw, tmp_path):
    whole, expected = fit(raw, tmp_path / "whole")
    _, history = fit(raw, tmp_path / "parts", callbacks=[StopAt(epoch=1, batch=2)])
    assert history.epoch == [0, 1]
    recorder = Recorder()
    model, history = fit(raw, tmp_path / "parts", callbacks=[recorder])
    assert recorder.events[:6] == ["begin", ("epoch", 1), 0, 1, 2, 3]
    assert history.epoch == [0, 1]
    assert history.history["loss"][0] == expected.history["loss"][0]
    assert values(model) == values(whole)


@pytest.mark.parametrize("together", [2, 3])
def test_several_steps_in_one_execution_make_no_difference(raw, tmp_path, together):
    def model():
        return make_model(steps_per_execution=together)

    whole, expected = fit(raw, tmp_path / "whole", model=model())
    interrupt(raw, tmp_path / "parts", 2, model=model())
    assert read_state(tmp_path / "parts")["step"] == together
    resumed, history = fit(raw, tmp_path / "parts", model=model())
    assert history.history == expected.history
    assert values(resumed) == values(whole)


def test_mixed_precision_and_class_weights_make_no_difference(raw, tmp_path):
    def model():
        keras.utils.set_random_seed(0)
        layers = [keras.layers.Flatten(), keras.layers.Dense(4, dtype="mixed_float16")]
        model = keras.Sequential(layers)
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1), 256.0, 3)
        model.compile(optimizer, "mse", metrics=["mae"])
        return model

    options = {"class_weight": {0: 0.5, 1: 2.0, 2: 1.0, 3: 1.0}}
    whole, expected = fit(raw, tmp_path / "whole", model=model(), **options)
    interrupt(raw, tmp_path / "parts", 5, model=model(), **options)
    resumed, history = fit(raw, tmp_path / "parts", model=model(), **options)
    assert history.history == expected.history
    assert values(resumed) == values(whole)
    state = read_state(tmp_path / "parts")
    assert state["optimizer"] == "LossScaleOptimizer(Adam)"


def test_a_drawn_seed_is_kept(raw, tmp_path):
    seeds = []

    def dataset(seed):
        seeds.append(seed)
        return make_dataset(raw)(seed)

    interrupt(raw, tmp_path, 3, dataset=dataset, seed=None)
    fit(raw, tmp_path, dataset=dataset, seed=None)
    assert seeds[0] == seeds[1]
    assert 0 <= seeds[0] < 2**63


def test_without_save_every_steps_each_epochs_end_is_saved(raw, tmp_path):
    interrupt(raw, tmp_path, 6, save_every_steps=None)
    assert read_state(tmp_path) is None
    interrupt(raw, tmp_path, 12, save_every_steps=None)
    state = read_state(tmp_path)
    assert (state["epoch"], state["step"]) == (1, 0)


def test_foreign_files_stay_and_leftovers_do_not(raw, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".checkpoint.npz.new").write_text("half of a checkpoint")
    fit(raw, tmp_path, epochs=1)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".lock", "checkpoint.npz", "notes.txt"]


def test_other_metrics_after_a_restart_are_warned_of_and_cover_the_rest(raw, tmp_path):
    interrupt(raw, tmp_path, 5)
    with pytest.warns(TfrdsWarning, match="The metrics of epoch 1 cover its steps from 4 on"):
        _, history = fit(raw, tmp_path, model=make_model(metrics=["mae"]))
    assert len(history.history["mae"]) == 2


def test_a_loss_that_is_not_a_number_is_kept(raw, tmp_path):
    model = make_model(keras.optimizers.SGD(float("nan")))
    fit(raw, tmp_path, epochs=1, model=model)
    _, history = fit(raw, tmp_path, epochs=1, model=make_model("sgd"))
    assert np.isnan(history.history["loss"]).all()


def test_metrics_of_several_values_become_lists(raw, tmp_path):
    def model():
        return make_model(metrics=[keras.metrics.F1Score(average=None, name="f1")])

    _, trained = fit(raw, tmp_path, epochs=1, model=model())
    _, history = fit(raw, tmp_path, epochs=1, model=model())
    assert history.history["f1"] == [trained.history["f1"][0].tolist()]


def test_a_handler_of_sigterm_that_is_there_stays(raw, tmp_path, monkeypatch):
    def handler(signum, frame):
        raise AssertionError

    class Look(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            seen.append(signal.getsignal(signal.SIGTERM))

    seen = []
    before = signal.signal(signal.SIGTERM, handler)
    try:
        fit(raw, tmp_path / "theirs", epochs=1, callbacks=[Look()])
        assert signal.getsignal(signal.SIGTERM) is handler
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        fit(raw, tmp_path / "off", epochs=1, callbacks=[Look()], save_on_sigterm=False)
        fit(raw, tmp_path / "ours", epochs=1, callbacks=[Look()])
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen[:2] == [handler, signal.SIG_DFL]
    assert seen[2] not in (handler, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs: expected an integer of at least 1, got 0"),
        ({"save_every_steps": 0}, "save_every_steps: expected an integer of at least 1, got 0"),
        ({"save_on_sigterm": 1}, "save_on_sigterm: expected True or False, got 1"),
        ({"seed": -1}, "seed: expected an integer from 0 to .*, got -1"),
        ({"initial_epoch": 3}, "initial_epoch: make_dataset and the checkpoint decide .*, got 3"),
        ({"steps_per_epoch": 5}, "steps_per_epoch: make_dataset .*, got 5"),
        ({"x": None}, "x: make_dataset .*, got None"),
        ({"validation_split": 0.1}, r"validation_split: make_dataset .*, got 0\.1"),
        ({"model": "resnet"}, "model: expected a compiled keras.Model, got 'resnet'"),
        ({"model": keras.Sequential()}, "model: expected a compiled keras.Model, got <Sequential"),
        ({"directory": "gs://bucket/run"}, "directory: expected a local .*'gs://bucket/run'"),
        ({"directory": 5}, "directory: expected a local directory, got 5"),
        (
            {"callbacks": [keras.callbacks.BackupAndRestore("backup")]},
            "callbacks: BackupAndRestore would set another epoch than fit_resumable. Leave it out",
        ),
        (
            {"callbacks": keras.callbacks.CallbackList()},
            "callbacks: expected a list of callbacks, got a CallbackList",
        ),
        (
            {"dataset": lambda seed: tf.data.Dataset.range(3)},
            "make_dataset: expected a dataset of tfrds's fast path, got <_RangeDataset",
        ),
    ],
)
def test_wrong_arguments_are_refused(raw, tmp_path, options, message):
    directory = options.pop("directory", tmp_path / "run")
    with pytest.raises(ConfigError, match=message):
        fit(raw, directory, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda dataset: dataset.repeat(2), "tfrds.load makes, 7 an epoch, got a dataset of 14"),
        (lambda dataset: dataset.repeat(), "tfrds.load makes, 7 an epoch, got a dataset of -1"),
        (lambda dataset: dataset.take(3), "tfrds.load makes, 7 an epoch, got a dataset of 3"),
        (lambda dataset: dataset.unbatch().batch(5), "7 an epoch, got a dataset of -2"),
    ],
)
def test_another_number_of_batches_than_tfrds_makes_is_refused(raw, tmp_path, change, message):
    with pytest.raises(ConfigError, match=message):
        fit(raw, tmp_path, dataset=lambda seed: change(make_dataset(raw)(seed)))


def test_a_dataset_that_does_not_take_the_seed_is_refused_at_once(raw, tmp_path):
    with pytest.raises(ConfigError, match="seed=9, as it was called with, got one with 8"):
        fit(raw, tmp_path, dataset=lambda seed: make_dataset(raw)(8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 10}, "steps an epoch: the checkpoint was trained with 7, got 5"),
        ({"batch_size": 9, "drop_remainder": False}, "steps an epoch: .* with 7, got 6"),
        (
            {"split": "train[:28]+test", "batch_size": 6},
            "examples a step: the checkpoint was trained with 8, got 6",
        ),
        ({"split": "train[1:]+test[:1]"}, "another order or other examples, fingerprint: .*, got"),
        ({"shuffle": False}, "another order or other examples, fingerprint: .*, got"),
    ],
)
def test_another_dataset_than_the_checkpoints_is_refused(raw, interrupted, options, message):
    with pytest.raises(ConfigError, match=f"make_dataset: {message}"):
        fit(raw, interrupted, dataset=make_dataset(raw, **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "sgd"}, "with the optimizer Adam, got SGD. Compile with the same one"),
        ({"optimizer": keras.optimizers.Adam(amsgrad=True)}, "it has no optimizer 6, adam/"),
        ({"units": 5}, r"variable 1, .*kernel: expected \(189, 4\), got \(189, 5\)"),
    ],
)
def test_another_model_than_the_checkpoints_is_refused(raw, interrupted, options, message):
    with pytest.raises(ConfigError, match=f"model: .*{message}"):
        fit(raw, interrupted, model=make_model(**options))


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ([], r"variable 0, .*kernel: expected \(2,\), got \(189, 4\)"),
        ([0.3, 0.3], r"variable 1, .*state: expected \(189, 4\), got \(2,\)"),
    ],
)
def test_a_model_with_other_layers_is_refused(raw, interrupted, rates, message):
    dropouts = [keras.layers.Dropout(rate) for rate in rates]
    model = keras.Sequential([keras.layers.Flatten(), *dropouts, keras.layers.Dense(4)])
    model.compile("adam", "mse")
    with pytest.raises(ConfigError, match=f"of another model or optimizer: {message}"):
        fit(raw, interrupted, model=model)


class TwoOptimizers(keras.Sequential):
    """Has an optimizer that Keras knows nothing of."""

    def __init__(self):
        layers = [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(4)]
        super().__init__(layers)
        self.second = keras.optimizers.SGD(0.1, momentum=0.9)

    def train_step(self, data):
        images, labels = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(images, training=True) - labels) ** 2)
        self.second.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def two_optimizers(is_built=True):
    keras.utils.set_random_seed(0)
    model = TwoOptimizers()
    if is_built:
        model.build((None, 9, 7, 3))
        model.second.build(model.trainable_variables)
    model.compile("adam")
    return model


def test_all_optimizers_of_a_model_are_restored(raw, tmp_path):
    whole, _ = fit(raw, tmp_path / "whole", model=two_optimizers())
    interrupt(raw, tmp_path / "parts", 5, model=two_optimizers())
    with pytest.raises(ConfigError, match=r"the model has no second 0\. .*all optimizers built"):
        fit(raw, tmp_path / "parts", model=two_optimizers(is_built=False))
    model, history = fit(raw, tmp_path / "parts", model=two_optimizers())
    assert values(model, model.second) == values(whole, whole.second)
    assert history.epoch == [0, 1]


def test_another_seed_than_the_checkpoints_is_refused(raw, interrupted):
    with pytest.raises(ConfigError, match="seed: the checkpoint was trained with 9, got 8"):
        fit(raw, interrupted, seed=8)


def test_two_trainings_in_one_directory_are_refused(raw, tmp_path):
    class TrainToo(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            fit(raw, tmp_path)

    with pytest.raises(ConfigError, match=f"directory: another process trains in {tmp_path}"):
        fit(raw, tmp_path, callbacks=[TrainToo()])


def test_a_full_disk_is_an_error_and_leaves_the_checkpoint_before(raw, tiny_disk):
    interrupt(raw, tiny_disk, 3)
    (tiny_disk / "filler").write_bytes(bytes(shutil.disk_usage(tiny_disk).free - 8_192))
    with pytest.raises(
        DatasetError,
        match=f"{tiny_disk}/checkpoint.npz: cannot be written: No space left on device",
    ):
        fit(raw, tiny_disk)
    (tiny_disk / "filler").unlink()
    fit(raw, tiny_disk)


def test_a_directory_that_cannot_be_made_is_an_error(raw, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match=r"run/checkpoint.npz: cannot be written: Not a"):
        fit(raw, tmp_path / "file" / "run")


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def change_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


def change_state(change):
    """Returns a function that writes a checkpoint again with another state.json."""

    def rewrite(path):
        with zipfile.ZipFile(path) as file:
            members = {name: file.read(name) for name in file.namelist()}
        members["state.json"] = change(members["state.json"])
        with zipfile.ZipFile(path, "w") as file:
            for name, content in members.items():
                if content is not None:
                    file.writestr(name, content)

    return rewrite


def set_to(name, value):
    return change_state(lambda text: json.dumps({**json.loads(text), name: value}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "BadZipFile: File is not a zip file"),
        (change_a_byte, "BadZipFile: Bad CRC-32 for file 'optimizer 2.npy'"),
        (empty, "BadZipFile: File is not a zip file"),
        (change_state(lambda _: None), "KeyError: .*no item named 'state.json'"),
        (change_state(lambda text: text[:-9]), "JSONDecodeError"),
        (change_state(lambda _: b"\0\xff"), "UnicodeDecodeError|JSONDecodeError"),
        (change_state(lambda _: "[" * 100_000), "RecursionError"),
        (change_state(lambda _: "[]"), "TypeError"),
        (change_state(lambda _: "{}"), "KeyError: 'format'"),
        (set_to("epoch", "1"), "epoch is '1', expected a number"),
        (set_to("seed", -1), "seed is -1, expected a number"),
        (set_to("step", 7), "step is 7 of 7"),
        (set_to("is_stopped", 1), "is_stopped is 1, expected a bool"),
        (set_to("epochs", [0.5]), "epochs is no list of numbers"),
        (set_to("history", {"loss": 1}), "history holds no lists"),
    ],
)
def test_a_damaged_checkpoint_is_an_error_that_names_the_file(raw, interrupted, damage, message):
    path = interrupted / "checkpoint.npz"
    damage(path)
    with pytest.raises(DatasetError, match=f"{path}: the checkpoint is damaged: .*({message})"):
        fit(raw, interrupted)


def test_a_huge_state_is_not_read(raw, interrupted):
    path = interrupted / "checkpoint.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("state.json", bytes(2**28 + 1))
    assert path.stat().st_size < 2**20
    with pytest.raises(DatasetError, match=r"state\.json has 268,435,457 bytes, more"):
        fit(raw, interrupted)


def test_a_checkpoint_of_a_newer_tfrds_is_an_error(raw, interrupted):
    set_to("format", 2)(interrupted / "checkpoint.npz")
    with pytest.raises(DatasetError, match=r"npz: expected format 1, found 2: another"):
        fit(raw, interrupted)


def test_no_pickle_is_read(raw, interrupted):
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"any": "object"}], object))
    with zipfile.ZipFile(interrupted / "checkpoint.npz", "a") as file:
        file.writestr("variable 9.npy", buffer.getvalue())
    with pytest.raises(DatasetError, match=r"damaged: ValueError: .*allow_pickle=False"):
        fit(raw, interrupted)
