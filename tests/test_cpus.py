import os

import pytest

from tfrds import cpus
from tfrds.cpus import available_cpus


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Sets how many processors the machine offers, and its quota file."""

    def set_up(offered, quota):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(offered)), raising=False)
        monkeypatch.setattr(cpus, "_CGROUP_QUOTA", tmp_path / "cpu.max")
        if quota is not None:
            (tmp_path / "cpu.max").write_text(quota, encoding="ascii")

    return set_up


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        (None, 8),
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("50000 100000\n", 1),
        ("1000 100000\n", 1),
        ("1600000 100000\n", 8),
        ("", 8),
        ("100000\n", 8),
        ("some text\n", 8),
        ("100000 0\n", 8),
    ],
)
def test_quota_limits_the_processors(machine, quota, expected):
    machine(8, quota)
    assert available_cpus() == expected


def test_affinity_limits_the_processors(machine):
    machine(3, "max 100000")
    assert available_cpus() == 3


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity on this system")
def test_real_affinity_counts():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert available_cpus() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(("count", "expected"), [(6, 6), (None, 1)])
def test_system_without_affinity_counts_its_processors(machine, monkeypatch, count, expected):
    machine(1, "max 100000")
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert available_cpus() == expected
