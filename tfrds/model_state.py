"""All that a Keras model has learnt and counted, as arrays by name.

Gets a model, gives its arrays, and sets those of another process; `checkpoint.py` keeps them.
Keras's own `save_weights` leaves out the states of seed generators (of dropout, say) and the
metrics.
"""

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from tfrds.errors import ConfigError

_METRIC = "metric "


def arrays(model: Any, *, with_metrics: bool) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yields the variables of a model and of its optimizers by name, and of its metrics."""
    for name, variable in [*_learnt(model), *(_metrics(model) if with_metrics else ())]:
        with _keras_and_numpy():
            value = np.asarray(keras.ops.convert_to_numpy(variable))
        # numpy's files know no bfloat16; float32 holds each of its values.
        yield name, value if value.dtype.kind in "biuf" else value.astype(np.float32)


def build(model: Any, batches: Any) -> None:
    """Makes all variables that there may be values for.

    Args:
      model: compiled.
      batches: the training dataset, one batch of which makes a model that is not built.
    """
    strategy = getattr(model, "distribute_strategy", None)
    with strategy.scope() if strategy else contextlib.nullcontext():
        # Keras makes the metrics of other backends, and under a strategy, before its first epoch.
        makes_metrics = strategy is not None and strategy.num_replicas_in_sync == 1
        if makes_metrics or not model.built:
            for batch in batches.take(1).as_numpy_iterator():
                x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
                predicted = model(x)
                if makes_metrics:
                    model.compute_metrics(x, y, predicted, sample_weight=weight)
        if model.optimizer is not None and not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)


def restore(
    model: Any, saved: Iterable[tuple[str, NDArray[Any]]], where: Any
) -> dict[str, NDArray[Any]]:
    """Sets the variables of a model that is built, and of its optimizers.

    Args:
      model: as it was saved.
      saved: what `arrays` gave.
      where: they come from, for errors.

    Returns:
      The values of the metrics for `set_metrics`; none where they were not saved.

    Raises:
      ConfigError: the model or an optimizer is another one.
    """
    variables, metrics = dict(_learnt(model)), {}
    owners = set()
    for name, value in saved:
        if name.startswith(_METRIC):
            metrics[name] = value
            continue
        owners.add(_owner(name))
        variable = variables.pop(name, None)
        if variable is None:
            raise _another_model(where, f"the model has no {name}")
        if tuple(variable.shape) != value.shape:
            shapes = f"{value.shape}, got {tuple(variable.shape)}"
            raise _another_model(where, f"{name}, {variable.path}: expected {shapes}")
        variable.assign(value)
    for name, variable in variables.items():
        # An optimizer that was never used was not saved.
        if _owner(name) in {"variable", *owners}:
            raise _another_model(where, f"it has no {name}, {variable.path}")
    return metrics


def set_metrics(model: Any, values: dict[str, NDArray[Any]]) -> bool:
    """Sets the metrics to what `restore` returned; returns False where they are others."""
    metrics = dict(_metrics(model))
    shapes = {name: tuple(variable.shape) for name, variable in metrics.items()}
    if shapes != {name: value.shape for name, value in values.items()}:
        return False
    for name, value in values.items():
        metrics[name].assign(value)
    return True


def optimizer_name(model: Any) -> str:
    """Returns the name of the optimizer's class, with that of the one which it wraps."""
    name = type(model.optimizer).__name__
    inner = getattr(model.optimizer, "inner_optimizer", None)
    return f"{name}({type(inner).__name__})" if inner else name


def _learnt(model: Any) -> Iterator[tuple[str, Any]]:
    # By number: paths hold counters of all layers that the process has made.
    for number, variable in enumerate(model.variables):
        yield f"variable {number}", variable
    # Models with a train_step of their own may have several.
    for name, optimizer in {**vars(model), "optimizer": model.optimizer}.items():
        if isinstance(optimizer, keras.optimizers.Optimizer) and optimizer.built:
            for number, variable in enumerate(optimizer.variables):
                yield f"{name} {number}", variable


def _owner(name: str) -> str:
    return name.rpartition(" ")[0]


def _metrics(model: Any) -> Iterator[tuple[str, Any]]:
    for number, variable in enumerate(model.metrics_variables):
        yield f"{_METRIC}{number} {variable.path}", variable


def _another_model(where: Any, reason: str) -> ConfigError:
    return ConfigError(
        f"model: {where} is of another model or optimizer: {reason}. Make and compile the one that "
        "the training began with, with all optimizers built, or choose another directory."
    )


@contextlib.contextmanager
def _keras_and_numpy() -> Iterator[None]:
    """Silences what numpy 2 says of Keras's variables on TensorFlow, up to Keras 3.15 at least."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)
        yield
