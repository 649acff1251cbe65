"""Which examples are read ahead, and when; test_slow_storage.py shows how."""

import gc
import itertools
import queue
import threading

import numpy as np
import pytest
from datasets import run_script

from tfrds.disk.build_record import read_build_record
from tfrds.read import ahead
from tfrds.read.ahead import ReadAhead
from tfrds.read.fetch import SplitReader
from tfrds.read.mixed import MixedReader
from tfrds.read.order import Order
from tfrds.read.steps import Steps
from tfrds.read.stretches import runs, stretches

# More than any read here takes, and less than a test may.
PATIENCE = 30
COUNT = 100


class Reader:
    """Keeps which rows it was asked for; each call has one read, which first waits for a gate."""

    is_waiting = True

    def __init__(self, *, is_open=True):
        self.asked = []
        self.read = queue.Queue()
        self.gate = threading.Event()
        if is_open:
            self.gate.set()

    def reads_ahead(self, rows):
        self.asked.append(sorted(rows.tolist()))
        number = len(self.asked)
        return [lambda: (self.gate.wait(), self.read.put(number))]

    @property
    def rows(self):
        return sorted(itertools.chain(*self.asked))


def windows(order, epoch=0):
    """Returns the rows of each window of an epoch, sorted."""
    found, position = [], 0
    while position < order.num_examples:
        start, position = order.window(epoch, position)
        found.append(sorted(order.rows(epoch, np.arange(start, position)).tolist()))
    return found


def by_blocks(**options):
    """Twenty-five blocks of four, five to a window."""
    return Order([(0, COUNT)], seed=3, blocks=(4, 5), **options)


def steps_of(order, batch_size=7, **options):
    return Steps(num_examples=order.num_examples, batch_size=batch_size, **options)


def test_each_window_is_asked_for_once_and_before_its_turn():
    reader, order = Reader(), by_blocks()
    expected = windows(order)
    reads = ReadAhead(reader, order, steps_of(order))
    for step in range(steps_of(order).num_steps):
        reads.prepare(0, step)
        last = min(7 * step + 6, COUNT - 1)
        assert reader.asked == expected[: last // 20 + 2]
    assert len(expected) == 5


def test_a_new_iterator_asks_again():
    reader, order = Reader(), by_blocks()
    reads = ReadAhead(reader, order, steps_of(order))
    reads.prepare(2, 0)
    reads.prepare(2, 1)
    assert reader.asked == windows(order, 2)[:2]
    reads.restart(0)
    reads.prepare(3, 0)
    assert reader.asked[2:] == windows(order, 3)[:2]


def test_of_a_window_entered_in_its_middle_the_rest_is_asked_for():
    reader, order = Reader(), by_blocks()
    reads = ReadAhead(reader, order, steps_of(order))
    reads.restart(4)  # positions 28..34
    reads.prepare(0, 6)
    reads.prepare(0, 4)
    rest = order.rows(0, np.arange(28, 40))
    assert reader.asked == [*windows(order)[2:4], sorted(rest.tolist())]


def test_nothing_is_asked_for_behind_the_last_window():
    reader, order = Reader(), by_blocks()
    ReadAhead(reader, order, steps_of(order)).prepare(0, 14)
    assert reader.asked == windows(order)[4:]


def test_only_chosen_examples_are_asked_for():
    reader = Reader()
    order = Order([(50, 40), (0, 30)], seed=3, blocks=(4, 5), subset=np.arange(0, 70, 2))
    reads = ReadAhead(reader, order, steps_of(order))
    for step in range(5):
        reads.prepare(0, step)
    assert reader.rows == [*range(0, 30, 2), *range(50, 90, 2)]


@pytest.mark.parametrize("batch_size", [None, 3, 8])
@pytest.mark.parametrize("count", [2, 3])
def test_a_worker_asks_for_what_it_reads(batch_size, count):
    order, seen = by_blocks(), []
    for index in range(count):
        reader = Reader()
        steps = steps_of(order, batch_size, worker=(index, count))
        reads, own = ReadAhead(reader, order, steps), []
        for step in steps.fetches(0).tolist():
            reads.prepare(0, step)
            own += order.rows(0, steps.positions(step)).tolist()
        assert set(reader.rows) <= set(own)
        seen += reader.rows
    assert set(seen) == {*range(COUNT)}
    assert len(seen) < COUNT + count  # what fills up the last step may be read twice


@pytest.mark.parametrize("order", [Order([(0, 9)], seed=None), Order([(0, 9)], seed=1)])
def test_other_orders_are_not_read_ahead(order):
    reader = Reader()
    ReadAhead(reader, order, steps_of(order)).prepare(0, 0)
    assert reader.asked == []
    assert order.window(0, 3) == (0, 9)


def test_what_is_in_memory_is_not_asked_for():
    reader, order = Reader(), by_blocks()
    reader.is_waiting = False
    reads = ReadAhead(reader, order, steps_of(order))
    for step in range(6):
        reads.prepare(0, step)
    reader.is_waiting = True
    reads.prepare(0, 8)  # positions 56..62: only the last window was not yet looked at
    assert reader.asked == windows(order)[4:]


def test_the_first_fetches_go_on_and_others_wait_for_their_window():
    reader, order = Reader(is_open=False), by_blocks()
    reads = ReadAhead(reader, order, steps_of(order, 2))
    for step in range(4):
        reads.prepare(0, step)
    others = threading.Thread(target=reads.prepare, args=(0, 4))
    others.start()
    others.join(0.05)
    assert others.is_alive()
    reader.gate.set()
    others.join(PATIENCE)
    assert not others.is_alive()
    assert {reader.read.get(timeout=PATIENCE) for _ in range(2)} == {1, 2}


def test_a_fetch_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(ahead, "_PATIENCE_SECONDS", 0.01)
    reader, order = Reader(is_open=False), by_blocks()
    reads = ReadAhead(reader, order, steps_of(order, 2))
    for step in range(6):
        reads.prepare(0, step)
    reader.gate.set()


def test_a_new_iterator_leaves_what_waits_and_lets_waiting_fetches_go():
    blocked = [Reader(is_open=False) for _ in range(ahead._NUM_THREADS)]
    order = by_blocks()
    others = [ReadAhead(reader, order, steps_of(order)) for reader in blocked]
    for other in others:
        other.prepare(0, 0)
    reader = Reader()
    reads = ReadAhead(reader, order, steps_of(order, 2))
    for step in range(4):
        reads.prepare(0, step)
    waiting = threading.Thread(target=reads.prepare, args=(0, 4))
    waiting.start()
    waiting.join(0.05)
    reads.restart(0)
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    for one in blocked:
        one.gate.set()
    for one in blocked:
        assert {one.read.get(timeout=PATIENCE) for _ in range(2)} == {1, 2}
    assert reader.read.empty()


def test_what_waits_is_not_read_once_the_dataset_is_gone():
    order = by_blocks()
    blocked = [Reader(is_open=False) for _ in range(ahead._NUM_THREADS)]
    others = [ReadAhead(reader, order, steps_of(order)) for reader in blocked]
    for other in others:
        other.prepare(0, 0)
    reader = Reader()
    reads = ReadAhead(reader, order, steps_of(order))
    reads.prepare(0, 0)
    del reads
    gc.collect()
    for one in blocked:
        one.gate.set()
    last = Reader()
    kept = ReadAhead(last, order, steps_of(order))
    kept.prepare(0, 0)
    last.read.get(timeout=PATIENCE)  # what waited before it has had its turn
    assert reader.asked
    assert reader.read.empty()


SCRIPT = """
import os, queue, sys, time
from tfrds.read.ahead import ReadAhead
from tfrds.read.order import Order
from tfrds.read.steps import Steps

class Reader:
    is_waiting = True

    def __init__(self, reads):
        self.reads = reads

    def reads_ahead(self, rows):
        return self.reads

def read_ahead(*reads):
    order = Order([(0, 9)], seed=3, blocks=(4, 5))
    ahead = ReadAhead(Reader(reads), order, Steps(num_examples=9, batch_size=3))
    ahead.prepare(0, 0)
    return ahead
"""

FORK_SCRIPT = """
def read_one():
    done = queue.Queue()
    kept = read_ahead(lambda: done.put(7))
    return done.get(timeout=30)

read_one()
child = os.fork()
if not child:
    os._exit(read_one())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - 7)
"""

EXIT_SCRIPT = """
kept = read_ahead(*[lambda: time.sleep(1)] * 10_000)
"""


@pytest.mark.parametrize("script", [FORK_SCRIPT, EXIT_SCRIPT], ids=["fork", "exit"])
def test_processes_fork_and_end_while_reading_ahead(script):
    ran = run_script(SCRIPT + script, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr


# From rows to stretches of files


@pytest.mark.parametrize(
    ("is_parted", "firsts", "lasts"),
    [([], [0], [0]), ([0, 0], [0], [2]), ([1, 0, 1], [0, 1, 3], [0, 2, 3])],
)
def test_runs_end_where_they_are_parted(is_parted, firsts, lasts):
    found = runs(np.array(is_parted, bool))
    assert [ends.tolist() for ends in found] == [firsts, lasts]


KIB, MIB = 1024, 2**20


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(0, 5, 9)], [(0, 5, 4)]),
        ([(0, 0, 10), (0, 10, 30)], [(0, 0, 30)]),
        ([(0, 0, 10), (0, 10 + 16 * KIB, 20_000)], [(0, 0, 20_000)]),
        ([(0, 0, 10), (0, 11 + 16 * KIB, 20_000)], [(0, 0, 10), (0, 11 + 16 * KIB, 3605)]),
        ([(0, 0, 10), (1, 10, 30)], [(0, 0, 10), (1, 10, 20)]),
        (
            [(2, 7, 7 + 9 * MIB)],
            [(2, 7 + 4 * MIB * n, size * MIB) for n, size in enumerate((4, 4, 1))],
        ),
        ([(0, 50, 50)], []),
        ([(0, 90, 50)], []),  # of a damaged index
    ],
)
def test_stretches_hold_neighbours_and_are_not_large(ranges, expected):
    columns = (np.array(column, np.int64) for column in zip(*ranges, strict=True))
    assert list(stretches(*columns)) == expected


def reader_of(built, *splits):
    return SplitReader(read_build_record(built.directory), splits or ("train",))


def asked_of(reader, rows, monkeypatch):
    """Returns the ranges that are read ahead for some rows: (path, offset, length)."""
    found = []

    def read_ahead(number, *piece):
        found.append((reader._files.paths[number], *piece))

    monkeypatch.setattr(reader._files, "read_ahead", read_ahead, raising=False)
    for read in reader.reads_ahead(np.array(rows, np.int64)):
        read()
    return found


def test_whole_splits_are_read_ahead_as_whole_files(built, monkeypatch):
    found = asked_of(reader_of(built, "train", "test"), np.arange(63)[::-1], monkeypatch)
    files = [
        *sorted(built.directory.glob("*-train.tf*")),
        *sorted(built.directory.glob("*-test.tf*")),
    ]
    assert found == [(path, 0, path.stat().st_size) for path in files]


def test_records_far_from_each_other_are_read_alone(raw, monkeypatch):
    monkeypatch.setattr("tfrds.read.stretches._MAX_GAP", 0)
    rows = [0, 2, 3, 16, 17, 49, 2]
    found = asked_of(reader_of(raw), rows, monkeypatch)
    files = sorted(raw.directory.glob("*-train.tfrecord-*"))
    sizes = [path.stat().st_size for path in files]
    counts = read_build_record(raw.directory).shards("train")
    firsts = [0, *itertools.accumulate(records for _, _, records in counts)]
    size = sizes[0] // (firsts[1] - firsts[0])  # all records are of one length
    expected = []
    for first, length in ((0, 1), (2, 2), (16, 1), (17, 1), (49, 1)):
        shard = sum(first >= start for start in firsts[1:])
        expected.append((files[shard], (first - firsts[shard]) * size, length * size))
    if firsts[1] != 17:
        expected[2:4] = [(expected[2][0], expected[2][1], 2 * size)]
    assert found == expected


def test_nothing_is_read_ahead_for_no_rows_or_a_damaged_index(raw, monkeypatch):
    reader = reader_of(raw)
    assert reader.reads_ahead(np.zeros(0, np.int64)) == []
    index = reader._indexes[0][:].copy()
    monkeypatch.setattr(reader, "_indexes", [index])
    for offset in (2**64 - 1, 2**63 - 1, 2**40):
        index["offset"] = offset
        for path, first, length in asked_of(reader, [1, 2], monkeypatch):
            assert 0 <= first <= first + length <= path.stat().st_size


def test_mixtures_ask_each_dataset_for_its_own(raw, jpeg, monkeypatch):
    readers = [reader_of(raw), reader_of(jpeg)]
    mixed = MixedReader(readers, [50, 50])
    found = []
    for name, reader in zip(("raw", "jpeg"), readers, strict=True):
        monkeypatch.setattr(
            reader, "reads_ahead", lambda rows, name=name: found.append((name, rows.tolist())) or []
        )
    assert not mixed.is_waiting
    readers[1].is_slow = True
    assert mixed.is_waiting
    assert mixed.reads_ahead(np.array([70, 3, 50])) == []
    assert found == [("raw", [3]), ("jpeg", [20, 0])]
