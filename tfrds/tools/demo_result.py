"""What a run of the demo measured; apart from `demo.py`, which needs TensorFlow to be imported."""

import dataclasses
import os
import pathlib
from typing import Any

# They reach 80% and take seconds; fewer leave little room above the 70% that the demo must reach.
EPOCHS = 15


@dataclasses.dataclass(frozen=True, kw_only=True)
class DemoResult:
    """One run.

    Attributes:
      num_built: examples of all splits.
      built_per_second: images, from unpacking to the finished dataset; None where it was built
        already.
      read_per_second: images, in one epoch after another to warm up.
      epochs: of training.
      train_seconds: of training.
      test_accuracy: 0..1, share of the test images that the trained model puts into their class.
      directory: where the dataset lies.
      load_line: the Python expression that loads the dataset.
    """

    num_built: int
    built_per_second: float | None
    read_per_second: float
    epochs: int
    train_seconds: float
    test_accuracy: float
    directory: pathlib.Path
    load_line: str

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as JSON values."""
        return {**dataclasses.asdict(self), "directory": os.fspath(self.directory)}
