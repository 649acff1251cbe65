"""Training that goes on at the exact step, whenever and however its process ended.

Gets a model and a function that makes its dataset, gives the history of the whole training;
`checkpoint.py` holds what is on disk.
"""

import contextlib
import dataclasses
import logging
import os
import pathlib
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
from numpy.typing import NDArray

from tfrds import model_state
from tfrds.checkpoint import Checkpoint, State
from tfrds.checks import check_bool, check_int
from tfrds.errors import ConfigError
from tfrds.training_data import TrainingData
from tfrds.user_warning import warn_user

_log = logging.getLogger("tfrds")

# Arguments of `fit` that say where training stands.
_OURS = ("x", "initial_epoch", "steps_per_epoch", "validation_split")

# True for Keras, and told apart from the True of another callback.
_END_OF_EPOCH = object()

# What a shell reports of a process that SIGTERM ended.
_TERMINATED = 128 + signal.SIGTERM


def fit_resumable(
    model: Any,
    make_dataset: Callable[..., Any],
    epochs: int,
    directory: str | os.PathLike[str],
    *,
    save_every_steps: int | None = None,
    seed: int | None = None,
    save_on_sigterm: bool = True,
    **fit: Any,
) -> Any:
    """Trains like `model.fit`, and goes on where it was when the process ended.

    Call it again with the same arguments in a new process: the examples that come next, the
    weights, the optimizer, the learning rate, the random state of dropout and the metrics of the
    epoch are those of a run that was never interrupted, to the bit where TensorFlow is told to be
    deterministic. (`keras.callbacks.BackupAndRestore` begins the epoch again, in another order, and
    dropout anew.)

    ```python
    def make_dataset(seed):
        return tfrds.load(
            "flowers", split="train", batch_size=32, shuffle=True, as_supervised=True, seed=seed
        )

    history = tfrds.keras.fit_resumable(
        model, make_dataset, epochs=90, directory="run", save_every_steps=500
    )
    ```

    Once all epochs are done, or a callback has stopped the training at an epoch's end, it loads the
    final weights and returns the history at once. After all epochs, a larger `epochs` trains on.

    What begins anew in each process: the state of other callbacks, such as the patience of
    `EarlyStopping`, and random numbers outside of the model's own seed generators (on PyTorch these
    are also those of dropout without a seed). The batch numbers that callbacks see count from where
    the process began.

    Args:
      model: compiled, made in the same way each time.
      make_dataset: called as `make_dataset(seed=...)`; returns the training dataset of `tfrds.load`
        with this seed. It may be changed by `map` and `prefetch`, and by nothing that changes which
        examples are in which batch.
      epochs: in all.
      directory: a local one, of this run alone; holds its checkpoint.
      save_every_steps: steps between checkpoints within an epoch. None: one at each epoch's end.
      seed: of the dataset, 0..2^63 - 1. None: drawn at the beginning, and kept.
      save_on_sigterm: on SIGTERM, by which clusters announce the end, save after the current step,
        or the validation, and exit with status 143. Only where nothing else handles it.
      **fit: further arguments of `model.fit`: `validation_data`, `callbacks`, `class_weight` and
        the like.

    Returns:
      The `keras.callbacks.History` of all epochs, over all processes.

    Raises:
      ConfigError: an argument is wrong, or model or dataset are not those that training began with.
      DatasetError: the checkpoint is damaged, or cannot be written.
    """
    _check(model, epochs, save_every_steps, seed, save_on_sigterm, fit)
    checkpoint = Checkpoint(_parse_directory(directory))
    with checkpoint.locked():
        state = checkpoint.read_state()
        dataset = TrainingData(make_dataset, _choose_seed(seed, state))
        metrics: dict[str, NDArray[Any]] = {}
        if state:
            _check_same(state, dataset, model)
            model_state.build(model, dataset.batches)
            metrics = model_state.restore(model, checkpoint.read_arrays(), checkpoint.path)
            _log.info("%s: epoch %d, step %d come next.", checkpoint.path, state.epoch, state.step)
        history = _History(state)
        history.set_model(model)
        first = state.epoch if state else 0
        # A process that was killed before its end was saved comes here with no epoch left to do.
        last = first if state and state.is_stopped else max(first, epochs)
        if state and state.is_final and first == last:
            return history
        resume = _Resume(checkpoint, dataset, history, save_every_steps, state, metrics)
        given = fit.pop("callbacks", None)
        callbacks = [given] if isinstance(given, keras.callbacks.Callback) else list(given or ())
        sigterm = resume.ending_on_sigterm() if save_on_sigterm else contextlib.nullcontext()
        with sigterm:
            model.fit(
                dataset.batches,
                epochs=last,
                initial_epoch=first,
                # Behind all others: what they change at an epoch's end is saved as well.
                callbacks=[*callbacks, history, resume],
                **{"shuffle": False, **fit},
            )
            resume.save_end()
        return history


class _History(keras.callbacks.History):  # type: ignore[misc]
    """The history of all processes: Keras's own begins anew with each fit."""

    def __init__(self, state: State | None) -> None:
        super().__init__()
        self.epoch = list(state.epochs) if state else []
        if state:
            self.history = {name: list(values) for name, values in state.history.items()}

    def on_train_begin(self, logs: Any = None) -> None:
        """Keeps what is there."""

    def copy(self) -> dict[str, Any]:
        """Returns the fields of a `State`."""
        history = {name: list(values) for name, values in self.history.items()}
        return {"epochs": tuple(self.epoch), "history": history}


class _Resume(keras.callbacks.Callback):  # type: ignore[misc]
    """Begins epochs where they are to begin, and saves where they stand.

    All is done before batches and at the ends of epochs: a callback after batches would keep Keras
    on JAX and PyTorch from working ahead.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        dataset: TrainingData,
        history: _History,
        save_every_steps: int | None,
        state: State | None,
        metrics: dict[str, NDArray[Any]],
    ) -> None:
        super().__init__()
        self._checkpoint = checkpoint
        self._dataset = dataset
        self._history = history
        self._every = save_every_steps
        self._start = (state.epoch, state.step) if state else (0, 0)
        self._metrics = metrics
        self._saved: State | None = state
        self._is_terminated = False

    def on_train_begin(self, logs: Any = None) -> None:
        """Asks once for what does not change: on JAX a look at the model moves all its state."""
        self._steps_together = self.model.steps_per_execution

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Sets the position before Keras asks for a batch, and the metrics after their reset."""
        self._epoch = epoch
        self._first = self._last_saved = self._start[1] if epoch == self._start[0] else 0
        self._done = self._first
        self._history_before = self._history.copy()
        for pipeline in self._dataset.pipelines:
            pipeline.epochs.set(epoch, self._first)
        metrics, self._metrics = self._metrics, {}
        if metrics and not model_state.set_metrics(self.model, metrics):
            warn_user(
                f"The metrics of epoch {epoch + 1} cover its steps from {self._first} on: those of "
                "the checkpoint are others."
            )

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Saves what the batches before have made, and ends an epoch that began in its middle."""
        step = self._first + batch
        is_due = self._every is not None and step - self._last_saved >= self._every
        if (is_due or self._is_terminated) and step > self._last_saved:
            self._save(self._epoch, step, with_metrics=True)
        self._end_if_terminated()
        self._done = min(step + self._steps_together, self._dataset.num_steps)
        if self._first and self._done == self._dataset.num_steps:
            # Keras expects a whole epoch, and would warn of missing data. A fit of its own for the
            # rest would end with what belongs at the end of training: averaged weights, files that
            # callbacks open and close.
            self.model.stop_training = _END_OF_EPOCH

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves what the epoch has made, validation and other callbacks included."""
        if self.model.stop_training is _END_OF_EPOCH:
            self.model.stop_training = False
        if self._done < self._dataset.num_steps:
            # A callback has stopped it: the next process goes on here, and the epoch is recorded at
            # its end. Validation has reset the metrics.
            self._save(epoch, self._done, with_metrics=False, **self._history_before)
        else:
            is_stopped = bool(self.model.stop_training)
            self._save(epoch + 1, 0, with_metrics=False, is_stopped=is_stopped)
        self._end_if_terminated()

    def save_end(self) -> None:
        """Saves once more what other callbacks and the optimizer did at the end of training."""
        if self._saved and not self._saved.step:
            final = dataclasses.replace(self._saved, is_final=True)
            self._checkpoint.save(final, model_state.arrays(self.model, with_metrics=False))

    @contextlib.contextmanager
    def ending_on_sigterm(self) -> Iterator[None]:
        """Lets SIGTERM end the process only after a save."""

        def note(signum: int, frame: Any) -> None:
            self._is_terminated = True

        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
            yield
            return
        signal.signal(signal.SIGTERM, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._end_if_terminated()

    def _end_if_terminated(self) -> None:
        if self._is_terminated:
            _log.warning("SIGTERM: training is saved and ends.")
            raise SystemExit(_TERMINATED)

    def _save(self, epoch: int, step: int, *, with_metrics: bool, **changes: Any) -> None:
        model = self.model
        self._saved = State(
            **{
                "epoch": epoch,
                "step": step,
                "num_steps": self._dataset.num_steps,
                "batch_size": self._dataset.batch_size,
                "seed": self._dataset.seed,
                "fingerprint": self._dataset.fingerprint,
                "optimizer": model_state.optimizer_name(model),
                **self._history.copy(),
                **changes,
            }
        )
        self._checkpoint.save(self._saved, model_state.arrays(model, with_metrics=with_metrics))
        self._last_saved = step


def _check(
    model: Any,
    epochs: int,
    save_every_steps: int | None,
    seed: int | None,
    save_on_sigterm: bool,
    fit: dict[str, Any],
) -> None:
    if not isinstance(model, keras.Model) or not model.compiled:
        raise ConfigError(f"model: expected a compiled keras.Model, got {model!r}.")
    check_int("epochs", epochs, 1)
    check_bool("save_on_sigterm", save_on_sigterm)
    if save_every_steps is not None:
        check_int("save_every_steps", save_every_steps, 1)
    if seed is not None:
        check_int("seed", seed, 0, 2**63 - 1)
    for name in _OURS:
        if name in fit:
            raise ConfigError(
                f"{name}: make_dataset and the checkpoint decide it in fit_resumable, got "
                f"{fit[name]!r}. Leave it out."
            )
    given = fit.get("callbacks")
    if isinstance(given, keras.callbacks.CallbackList):
        raise ConfigError("callbacks: expected a list of callbacks, got a CallbackList.")
    for callback in given if isinstance(given, list | tuple) else (given,):
        if isinstance(callback, keras.callbacks.BackupAndRestore):
            raise ConfigError(
                "callbacks: BackupAndRestore would set another epoch than fit_resumable. Leave it "
                "out."
            )


def _parse_directory(directory: Any) -> pathlib.Path:
    if not isinstance(directory, str | os.PathLike) or "://" in str(directory):
        raise ConfigError(f"directory: expected a local directory, got {directory!r}.")
    # A relative one must stay the same where something changes the working directory.
    return pathlib.Path(directory).absolute()


def _choose_seed(seed: int | None, state: State | None) -> int:
    if state is None:
        return secrets.randbits(63) if seed is None else int(seed)
    if seed not in (None, state.seed):
        raise ConfigError(
            f"seed: the checkpoint was trained with {state.seed}, got {seed}. Leave it out, or "
            "choose another directory."
        )
    return state.seed


def _check_same(state: State, dataset: TrainingData, model: Any) -> None:
    """Raises ConfigError where a checkpoint is of another dataset or optimizer."""
    for name, was, now in (
        ("steps an epoch", state.num_steps, dataset.num_steps),
        ("examples a step", state.batch_size, dataset.batch_size),
        ("another order or other examples, fingerprint", state.fingerprint, dataset.fingerprint),
    ):
        if was != now:
            raise ConfigError(
                f"make_dataset: {name}: the checkpoint was trained with {was}, got {now}. Load the "
                "same dataset with the same options, or choose another directory."
            )
    optimizer = model_state.optimizer_name(model)
    if state.optimizer != optimizer:
        raise ConfigError(
            f"model: the checkpoint was trained with the optimizer {state.optimizer}, got "
            f"{optimizer}. Compile with the same one, or choose another directory."
        )
