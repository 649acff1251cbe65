"""The dataset of a training that must go on exactly: made, checked, and told from others.

Gets the user's function, gives its dataset with the pipelines whose position `resume.py` sets.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tfrds.errors import ConfigError
from tfrds.read import host_calls
from tfrds.read.host import Pipeline

# Positions whose rows tell one order of examples from another.
_FINGERPRINTED = 1_000


class TrainingData:
    """What `make_dataset` made, checked.

    Attributes:
      batches: the dataset.
      seed: that it was made with.
      pipelines: whose epoch and step are set.
      num_steps: of an epoch.
      batch_size: examples of a step, of all workers.
      fingerprint: of the examples and their order.
    """

    def __init__(self, make_dataset: Callable[..., Any], seed: int) -> None:
        self.batches = make_dataset(seed=seed)
        self.seed = seed
        self.pipelines: list[Pipeline] = host_calls.targets(self.batches)
        if not self.pipelines:
            raise ConfigError(
                "make_dataset: expected a dataset of tfrds's fast path, got "
                f"{self.batches!r}, which holds none. Load it with tfrds.load."
            )
        self.num_steps = int(self.batches.cardinality())
        for pipeline in self.pipelines:
            steps, found = pipeline.steps, pipeline.seed
            if steps.num_steps != self.num_steps or not self.num_steps:
                raise ConfigError(
                    f"make_dataset: expected the batches that tfrds.load makes, {steps.num_steps} "
                    f"an epoch, got a dataset of {self.num_steps}. Leave out what changes their "
                    "number, such as repeat, take and batch, and pass batch_size to tfrds.load."
                )
            if found != seed:
                raise ConfigError(
                    f"make_dataset: expected a dataset with seed={seed}, as it was called with, "
                    f"got one with {found}. Pass seed=seed to tfrds.load."
                )
        steps = self.pipelines[0].steps
        self.batch_size = (steps.batch_size or 1) * steps.worker[1]
        self.fingerprint = _fingerprint(self.pipelines)


def _fingerprint(pipelines: list[Pipeline]) -> str:
    """Returns a hash of the datasets as built, and of the order in which their examples come."""
    digest = hashlib.sha256()
    for pipeline in pipelines:
        order = pipeline.order
        positions = np.arange(min(order.num_examples, _FINGERPRINTED))
        for built in pipeline.digests:
            digest.update(built.encode())
        digest.update(order.rows(0, positions).astype("<i8").tobytes())
    return digest.hexdigest()
