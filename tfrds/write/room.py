"""Whether a disk has room for a build: asked before hours of work, and explained when it has not.

`dataset.py` asks, with the plan that knows how much it will about be.
"""

import contextlib
import errno
import logging
import pathlib
import shutil
from collections.abc import Iterator

from tfrds.errors import DatasetError
from tfrds.write.plan import Plan

_log = logging.getLogger("tfrds")


def check_room(plan: Plan, directory: pathlib.Path, target: pathlib.Path) -> None:
    """Warns where a plan will probably not fit, and refuses it where that is certain.

    Args:
      plan: of a build.
      directory: in which its shards lie; some may be there.
      target: where the dataset will stand in the end, for messages.

    Raises:
      DatasetError: with the bytes that are needed and free.
    """
    needed = _needed_bytes(plan, directory)
    free = shutil.disk_usage(directory).free
    if needed <= free:
        return
    text = f"{target}: the images take about {needed:,} bytes more, {free:,} are free"
    # Of files of several kinds, and of what is re-encoded, the size is a guess: it must be far off.
    if plan.image.encoding == "raw" or (plan.image.encoding == "original" and needed > 2 * free):
        raise DatasetError(f"{text}. Free space, or choose another data_dir.")
    _log.warning("%s.", text)


@contextlib.contextmanager
def full_disk_explained(
    plan: Plan, directory: pathlib.Path, target: pathlib.Path
) -> Iterator[None]:
    """Adds to the error of a full disk how much is needed; the arguments are those above."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        free = shutil.disk_usage(directory).free
        raise DatasetError(
            f"{target}: the disk is full, {free:,} bytes are free, about "
            f"{_needed_bytes(plan, directory):,} more are needed. Finished shards are kept: free "
            "space and run the same build again to go on, or choose another data_dir."
        ) from error


def _needed_bytes(plan: Plan, directory: pathlib.Path) -> int:
    """Returns about how many bytes the plan's shards will take beyond those that are there."""
    needed = sum(split.estimated_bytes for split in plan.splits.values())
    return max(needed - sum(path.stat().st_size for path in directory.iterdir()), 0)
