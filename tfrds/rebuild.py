"""A build whose dataset exists: the same inputs and options are reused, others are refused.

`no_code.py` asks here before a build, and after another process has built the same version.
"""

import dataclasses
import logging
from typing import Literal

import numpy as np

from tfrds.disk.build_record import BuildRecord
from tfrds.errors import DatasetError
from tfrds.prepare import note_inputs
from tfrds.write.contents import content_hashes
from tfrds.write.fingerprint import (
    Inputs,
    differences,
    noted_inputs,
    planned_inputs,
    stored_inputs,
)
from tfrds.write.plan import Plan
from tfrds.write.run import Execution

_log = logging.getLogger("tfrds")

FINGERPRINTS = ("stat", "content")


def check_unchanged(
    record: BuildRecord,
    plan: Plan,
    fingerprint: Literal["stat", "content"],
    execution: Execution,
) -> None:
    """Returns if a finished dataset is what a build would give.

    Args:
      record: of the dataset.
      plan: of the build.
      fingerprint: "stat" compares sizes and times of change, "content" encodes every image again.
      execution: how images are encoded.

    Raises:
      DatasetError: inputs or options differ, with the differences; or nobody can tell.
    """
    if fingerprint == "content":
        now, then = planned_inputs(plan, content_hashes(plan, execution)), stored_inputs(record)
        is_known = True
    else:
        noted = noted_inputs(record)
        is_known = noted is not None
        now, then = planned_inputs(plan), noted or stored_inputs(record)
        if not is_known:
            now, then = _without_marks(now), _without_marks(then)
    if found := differences(record, plan, now, then):
        raise DatasetError(
            f"{record.directory}: this version exists and was built from something else: "
            f"{'; '.join(found)}. Choose another version, or pass overwrite=True to replace it."
        )
    if not is_known:
        raise DatasetError(
            f"{record.directory}: this version exists, and whether its images have changed since "
            'is not known here. Pass fingerprint="content" to compare what they hold, choose '
            "another version, or pass overwrite=True to replace it."
        )
    if fingerprint == "content":
        note_inputs(record.directory, record.digest, plan)
    _log.info("%s: built from the same inputs with the same options, reused.", record.directory)


def _without_marks(inputs: Inputs) -> Inputs:
    return dataclasses.replace(inputs, marks=np.zeros(len(inputs.labels), np.uint8))
