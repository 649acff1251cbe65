"""For training with Keras: epochs that are Keras's own, and training that survives its process."""

from typing import Any

import keras

from tfrds.errors import ConfigError
from tfrds.read import host_calls
from tfrds.read.host import Pipeline
from tfrds.resume import fit_resumable

__all__ = ["SyncEpoch", "fit_resumable"]


class SyncEpoch(keras.callbacks.Callback):  # type: ignore[misc]
    """Lets every epoch of `fit` see the permutation of that epoch's number.

    Keras makes iterators as it likes: one more to build the model on JAX and PyTorch, several under
    a strategy, one for each `evaluate`. Without this callback each of them counts as an epoch of
    its dataset; with it, epoch e of `fit` has the order of epoch e of a plain loop with the same
    seed, also after `initial_epoch`.

    ```python
    train = tfrds.load("flowers", split="train", batch_size=256, shuffle=True, as_supervised=True)
    model.fit(train, epochs=10, callbacks=[tfrds.keras.SyncEpoch(train)])
    ```

    Args:
      *datasets: as passed to `fit`, also after map, take, zip and the like.

    Raises:
      ConfigError: a dataset that was not made by tfrds's fast path.
    """

    def __init__(self, *datasets: Any) -> None:
        super().__init__()
        self._pipelines: list[Pipeline] = []
        for dataset in datasets:
            found = host_calls.targets(dataset)
            if not found:
                raise ConfigError(
                    f"SyncEpoch: expected datasets of tfrds's fast path, got {dataset!r}, which "
                    "holds none. "
                    "Load it with tfrds.load."
                )
            self._pipelines += found

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Sets the epoch before Keras asks for its first batch."""
        for pipeline in self._pipelines:
            pipeline.epochs.set(epoch)
