"""How many processors this process may use: gives one number, for workers and readers alike."""

import os
import pathlib

_CGROUP_QUOTA = pathlib.Path("/sys/fs/cgroup/cpu.max")


def available_cpus() -> int:
    """Returns the processors this process may use, at least 1.

    The machine's count is wrong inside a container or under `taskset`: threads beyond the share
    only wait for each other. Source: CPU affinity where the system has it, and the CPU quota of
    control groups version 2.
    """
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, min(count, _quota() or count))


def _quota() -> int | None:
    try:
        quota, period = _CGROUP_QUOTA.read_text(encoding="ascii").split()
        return None if quota == "max" else -(-int(quota) // int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return None
