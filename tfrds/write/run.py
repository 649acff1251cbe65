"""The shards of a plan as tasks, and what runs them: processes of this machine, or an executor.

`dataset.py` writes shards with it, `contents.py` only looks at what they would hold.
"""

import dataclasses
import hashlib
import itertools
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.cpus import available_cpus
from tfrds.disk.build_record import DECODE, FORMAT
from tfrds.disk.journal import Journal
from tfrds.disk.layout import SplitFiles
from tfrds.errors import ConfigError
from tfrds.write.executors import Executor, LocalProcesses, ThisProcess, as_executor
from tfrds.write.faults import Faults
from tfrds.write.given_columns import IMAGE_KEY
from tfrds.write.plan import Plan
from tfrds.write.shards import ShardTask

# Raw arrays are only copied: one process writes 225,000 of 28x28 a second, two processes fewer,
# since the pixels would travel through pipes. Above this many bytes the writing itself is worth
# sharing.
_MAX_BYTES_HERE = 2**30

Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """How a build runs; none of it decides a byte of the dataset.

    Attributes:
      num_workers: processes of this machine; None: as many as this process may use processors.
      executor: what runs the shards instead, or a Dask client; None: these processes.
      quarantine: folder to which inputs are copied that cannot be stored; None: nowhere.
      progress: called with (examples done, all examples) as shards are finished.
    """

    num_workers: int | None = None
    executor: Executor | None = None
    quarantine: pathlib.Path | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "executor", as_executor(self.executor))
        if self.executor is not None and self.num_workers is not None:
            raise ConfigError(
                f"num_workers: is for processes of this machine, got {self.num_workers} together "
                "with an executor, which has workers of its own. Leave one of them out."
            )


@dataclasses.dataclass(frozen=True)
class Slice:
    """One shard of a plan.

    Attributes:
      path: of its file.
      split: that it belongs to.
      rows: int64 [n], the source's rows that it is made of.
      digest: of all that decides its bytes, inputs included.
    """

    path: pathlib.Path
    split: str
    rows: NDArray[np.int64]
    digest: str


def plan_slices(plan: Plan, directory: pathlib.Path, name: str) -> Iterator[Slice]:
    """Yields the shards of a plan, split by split.

    Args:
      plan: of a build.
      directory: in which the shards will lie.
      name: of the dataset.
    """
    common = repr(
        (
            FORMAT,
            DECODE,
            plan.image,
            plan.options.on_error,
            IMAGE_KEY,
            [column.spec for column in plan.features],
        )
    ).encode()
    for split, planned in plan.splits.items():
        files = SplitFiles(directory, name, split)
        for shard_index, (start, end) in enumerate(itertools.pairwise(planned.edges())):
            rows = planned.rows[start:end]
            digest = hashlib.blake2b(common, digest_size=16)
            keys = plan.keys.take(rows)
            values = [part for column in plan.features for part in column.take(rows).arrays()]
            arrays: list[NDArray[Any]] = [keys.offsets, keys.blob, *values, plan.stamps[rows]]
            for part in arrays:
                digest.update(part.tobytes())
            path = files.shard(shard_index, planned.num_shards)
            yield Slice(path, split, rows, digest.hexdigest())


def run_slices(
    function: Callable[[ShardTask], Any],
    plan: Plan,
    slices: Sequence[Slice],
    journal: Journal,
    faults: Faults,
    execution: Execution,
) -> Iterator[tuple[int, Any]]:
    """Yields (position among the slices, result) as the function ends for each.

    Args:
      function: of a module, so that worker processes find it.
      plan: of the build.
      slices: of the plan.
      journal: of the build.
      faults: says what is skipped.
      execution: how they run.
    """
    executor = execution.executor or _local_executor(plan, execution.num_workers)
    tasks = (
        ShardTask(
            path=part.path.absolute(),
            journal=Journal(journal.folder.absolute()),
            digest=part.digest,
            inputs=plan.source.inputs(part.rows),
            labels=plan.labels.numbers[part.rows],
            features=tuple(column.take(part.rows) for column in plan.features),
            spec=plan.image,
            image_key=IMAGE_KEY,
            skips=faults.skips,
            max_faults=faults.max_faults,
            quarantine=execution.quarantine and execution.quarantine.absolute(),
            is_marked=not isinstance(executor, ThisProcess),
        )
        for part in slices
    )

    def describe(task: ShardTask) -> str:
        position = journal.marked(task.path.name)
        if position is None or not 0 <= position < len(task.inputs):
            return task.path.name
        return f"{task.path.name}, input {task.inputs.name(position)}"

    yield from executor.run(function, tasks, describe)
    # What was not there when the build began may stay unseen for a minute where another machine
    # has written it over NFS, unless the folder is listed.
    journal.finished()


def _local_executor(plan: Plan, num_workers: int | None) -> Executor:
    total = sum(split.estimated_bytes for split in plan.splits.values())
    only_copies = plan.source.is_in_memory and plan.image.encoding == "raw"
    if only_copies and total <= _MAX_BYTES_HERE:
        return ThisProcess()
    num_shards = sum(split.num_shards for split in plan.splits.values())
    return LocalProcesses(min(num_workers or available_cpus(), num_shards))
