"""What every image of a plan would be stored as, by its hash; nothing is written.

`rebuild.py` compares it with a finished dataset.
"""

import os
import pathlib

import numpy as np
import xxhash
from numpy.typing import NDArray

from tfrds.disk.journal import Journal
from tfrds.errors import EncodeError, SourceError
from tfrds.spec import BuildOptions
from tfrds.write.faults import Faults
from tfrds.write.plan import Plan
from tfrds.write.run import Execution, plan_slices, run_slices
from tfrds.write.shards import ShardTask, encode

_NOTHING = bytes(16)


def content_hashes(plan: Plan, execution: Execution) -> NDArray[np.void]:
    """Encodes every image of a plan; returns the hashes that the index would have.

    Returns:
      V16 [n], by the source's rows; zeros where an image cannot be stored, or is in no split.
    """
    hashes = np.zeros(len(plan.keys), "V16")
    # Nothing is written, so the places are only names.
    nowhere = pathlib.Path(os.devnull)
    slices = list(plan_slices(plan, nowhere, "dataset"))
    faults = Faults(BuildOptions(on_error="skip", max_bad=1.0), plan.num_examples)
    done = 0
    for position, found in run_slices(
        hash_images, plan, slices, Journal(nowhere), faults, execution
    ):
        hashes[slices[position].rows] = np.frombuffer(found, "V16")
        done += len(slices[position].rows)
        if execution.progress:
            execution.progress(done, plan.num_examples)
    return hashes


def hash_images(task: ShardTask) -> bytes:
    """Returns the content hashes of a shard's images, 16 bytes each."""
    return b"".join(_hash(task, position) for position in range(len(task.inputs)))


def _hash(task: ShardTask, position: int) -> bytes:
    try:
        return xxhash.xxh3_128_digest(encode(task, position).data)
    except (EncodeError, SourceError):
        return _NOTHING
