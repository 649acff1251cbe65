import copyreg
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
import types

import pytest
import worker_functions

from tfrds.errors import ConfigError, DatasetError, SourceError
from tfrds.write import executors
from tfrds.write.executors import run_here, run_in_processes

TESTS = pathlib.Path(__file__).parent
BOTH = pytest.mark.parametrize(
    "run",
    [run_here, lambda function, tasks: run_in_processes(function, tasks, 2)],
    ids=["here", "processes"],
)

# The scripts have no __main__ guard, on purpose.
SQUARES_SCRIPT = """
import pathlib, sys
import worker_functions
from tfrds.write.executors import run_in_processes

with open(sys.argv[1], "a") as file:
    file.write("once")
print(sorted(run_in_processes(worker_functions.square, range(5), 2)))
"""
SLEEP_SCRIPT = """
import signal, sys
import worker_functions
from tfrds.write.executors import run_in_processes

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where pytest runs in background
list(run_in_processes(worker_functions.leave_pid_and_sleep, [sys.argv[1]] * 3, 2))
"""


def script_environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def is_running(pid):
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    state = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return state != "" and not state.startswith("Z")  # an orphan's zombie is its new parent's


def exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def sleeping_script(tmp_path):
    """A script amid two tasks of 30 seconds, leader of its own group, and its workers' pids."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-X", "dev", "-c", SLEEP_SCRIPT, str(tmp_path)],
        env=script_environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        assert wait_for(lambda: len(os.listdir(tmp_path)) == 2 or process.poll() is not None)
        yield process, [int(name) for name in os.listdir(tmp_path)]
        process.kill()


@BOTH
def test_every_result_comes_with_its_position(run):
    assert sorted(run(worker_functions.square, [5, 6, 7, 8, 9])) == [
        (0, 25),
        (1, 36),
        (2, 49),
        (3, 64),
        (4, 81),
    ]


@BOTH
def test_no_tasks_give_no_results(run):
    assert list(run(worker_functions.square, [])) == []


def test_run_here_computes_a_result_when_asked():
    drawn = iter(range(10))
    assert next(run_here(worker_functions.square, drawn)) == (0, 0)
    assert next(drawn) == 1


def test_tasks_are_drawn_as_results_are_consumed():
    drawn = []
    tasks = (drawn.append(number) or number for number in range(30))
    results = run_in_processes(worker_functions.square, tasks, 3)
    assert drawn == []
    for count, _ in enumerate(results, start=1):
        time.sleep(0.01)  # a slow caller
        assert len(drawn) <= count + 3
    assert count == 30


def test_results_come_as_they_finish():
    results = run_in_processes(worker_functions.sleep_and_give_pid, [30, 0, 0], 2)
    assert [next(results)[0], next(results)[0]] == [1, 2]
    results.close()


def test_only_as_many_workers_as_tasks_or_asked_for():
    run = worker_functions.sleep_and_give_pid
    assert len({pid for _, pid in run_in_processes(run, [0.1], 9)}) == 1
    assert len({pid for _, pid in run_in_processes(run, [0.1] * 6, 2)} - {os.getpid()}) <= 2


def test_zero_workers_are_refused():
    with pytest.raises(ConfigError, match=r"num_workers: expected at least 1, got 0\."):
        next(run_in_processes(worker_functions.square, [1], 0))


@BOTH
def test_error_of_a_task_keeps_class_and_message(run):
    with pytest.raises(SourceError, match=r"^labels.csv row 3: unknown class 'cta'\.$"):
        list(run(worker_functions.fail_at_three, range(100)))


def test_error_of_a_task_shows_the_traceback_of_the_worker():
    with pytest.raises(SourceError) as caught:
        list(run_in_processes(worker_functions.fail_at_three, [3], 1))
    shown = "".join(traceback.format_exception(caught.value))
    assert "in fail_at_three" in shown
    assert "in answer" in shown


def test_first_error_stops_drawing_but_keeps_what_was_finished():
    drawn, finished = [], []
    tasks = (drawn.append(number) or number for number in range(100))
    with pytest.raises(SourceError):  # noqa: PT012 - the results before the error count
        for position, _ in run_in_processes(worker_functions.fail_at_three, tasks, 1):
            finished.append(position)
    assert finished == [0, 1, 2]
    assert drawn == [0, 1, 2, 3]


def test_error_while_drawing_tasks_ends_the_pool():
    def draw():
        yield 1
        raise SourceError("train/cat is not readable")

    with pytest.raises(SourceError, match="train/cat"):
        list(run_in_processes(worker_functions.square, draw(), 2))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (worker_functions.fail_picky, r"PickyError: 07\.jpg: cut off$"),
        (worker_functions.fail_local, r"LocalError: 07\.jpg$"),
    ],
)
def test_error_that_cannot_be_pickled_becomes_a_runtime_error(monkeypatch, function, message):
    # Where TensorFlow is imported, a library of its lets all errors known by then be pickled.
    monkeypatch.delitem(copyreg.dispatch_table, worker_functions.PickyError, raising=False)
    with pytest.raises(RuntimeError, match=message):
        list(run_in_processes(function, ["07.jpg"], 1))
    _, error, trace = pickle.loads(executors.answer(pickle.dumps((function, "07.jpg"))))
    assert type(error) is RuntimeError
    assert function.__name__ in trace


def test_result_that_cannot_be_pickled_is_an_error():
    with pytest.raises((AttributeError, pickle.PicklingError, RuntimeError), match="lambda"):
        list(run_in_processes(worker_functions.give_lambda, [1], 1))


def test_task_of_a_killed_worker_is_tried_again(tmp_path, caplog):
    results = run_in_processes(
        worker_functions.begin_and_sleep_once,
        ["", str(tmp_path), ""],
        1,
        describe=lambda folder: f"train shard in {folder}",
    )
    position, pid = next(results)
    assert position == 0
    assert wait_for((tmp_path / "begun").exists)
    os.kill(pid, signal.SIGKILL)
    again, new = next(results)
    assert again == 1
    assert new != pid
    assert list(results) == [(2, new)]
    assert caplog.messages == [
        "A worker process was killed by signal 9 (out of memory?) at train shard in "
        f"{tmp_path}. Free memory or pass a smaller num_workers. Attempt 2 of 3 begins."
    ]


def test_each_task_has_three_attempts(tmp_path, caplog):
    tasks = [(str(tmp_path), number, 2) for number in range(4)]
    results = list(run_in_processes(worker_functions.die_some_times, tasks, 2))
    assert sorted(results) == [(number, number) for number in range(4)]
    assert len(os.listdir(tmp_path)) == 4 * 3
    attempts = sorted(message.split(". ")[-1] for message in caplog.messages)
    assert attempts == ["Attempt 2 of 3 begins."] * 4 + ["Attempt 3 of 3 begins."] * 4


@pytest.mark.parametrize("num_workers", [1, 3])
def test_task_that_kills_three_workers_is_an_error_after_all_others(tmp_path, num_workers):
    tasks = [(str(tmp_path), number, 9 if number == 1 else 0) for number in range(8)]
    finished = []
    with pytest.raises(  # noqa: PT012 - the results before the error count
        DatasetError,
        match=r"^3 worker processes died: the last was killed by signal 9 \(out of memory\?\) at "
        r"shard 1\. Free memory or pass a smaller num_workers\.$",
    ):
        for position, _ in run_in_processes(
            worker_functions.die_some_times, tasks, num_workers, lambda task: f"shard {task[1]}"
        ):
            finished.append(position)
    assert sorted(finished) == [0, 2, 3, 4, 5, 6, 7]
    assert len(list(tmp_path.glob("1.*"))) == 3


@pytest.mark.parametrize(("num_deadly", "others"), [(2, "1 other task"), (3, "2 other tasks")])
def test_several_tasks_that_kill_are_counted(tmp_path, num_deadly, others):
    tasks = [(str(tmp_path), number, 9) for number in range(num_deadly)]
    with pytest.raises(DatasetError, match=rf"at task 0\. .* So did those of {others}\.$"):
        list(run_in_processes(worker_functions.die_some_times, tasks, 1))


def test_error_of_another_task_comes_at_once_though_one_was_lost(tmp_path):
    tasks = [(str(tmp_path), 0, 9), "no such task"]
    with pytest.raises(ValueError, match="too many values to unpack"):
        list(run_in_processes(worker_functions.die_some_times, tasks, 1))


def test_dead_worker_names_its_exit_code_and_its_task_by_position():
    tasks = [0, 0, 3]
    with pytest.raises(
        DatasetError,
        match=r"the last ended with exit code 0 at task 0\. Its standard error may tell why\.",
    ):
        list(run_in_processes(worker_functions.end_with_code, tasks, 1))


def test_worker_ended_by_another_signal_names_it():
    with pytest.raises(DatasetError, match=r"killed by signal 15 \(Terminated.*\) at task 0\."):
        list(run_in_processes(worker_functions.end_by_signal, [signal.SIGTERM], 1))


def test_worker_that_cannot_start_is_an_error(monkeypatch, capfd):
    monkeypatch.setattr(sys, "path", [])  # where it would look for tfrds
    with pytest.raises(DatasetError, match="the last ended with exit code 1 at task 0"):
        list(run_in_processes(worker_functions.square, [bytes(1_000_000)], 1))
    assert capfd.readouterr().err.count("ModuleNotFoundError") >= executors.MAX_ATTEMPTS


def test_prints_in_a_worker_go_to_standard_error_and_its_input_is_empty(capfd):
    results = list(run_in_processes(worker_functions.print_astray, ["stray"], 1))
    assert results == [(0, "")]
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.split("\n") == ["stray print", "stray write", "stray child", ""]


def test_workers_do_not_import_tensorflow(monkeypatch):
    names = ["tensorflow", "tensorflow_datasets", "numpy"]
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    assert list(run_in_processes(worker_functions.loaded_modules, [names], 1)) == [(0, [])]


def test_workers_compute_with_one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "16")
    monkeypatch.setenv("TFRDS_TEST", "inherited")
    names = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TFRDS_TEST"]
    results = run_in_processes(worker_functions.environment, names, 1)
    assert [value for _, value in results] == ["1", "1", "inherited"]


@pytest.mark.parametrize("way", ["file", "stdin", "command"])
def test_script_without_main_guard_runs_once(tmp_path, way):
    script, effects = tmp_path / "script.py", tmp_path / "effects.txt"
    script.write_text(SQUARES_SCRIPT)
    code = {"file": [str(script)], "stdin": ["-"], "command": ["-c", SQUARES_SCRIPT]}[way]
    finished = subprocess.run(
        [sys.executable, "-W", "error", *code, str(effects)],
        input=SQUARES_SCRIPT if way == "stdin" else "",
        env=script_environment(),
        capture_output=True,
        text=True,
    )
    assert finished.stderr == ""
    assert finished.stdout == "[(0, 0), (1, 1), (2, 4), (3, 9), (4, 16)]\n"
    assert effects.read_text() == "once"


def test_workers_die_with_a_killed_parent(sleeping_script):
    process, pids = sleeping_script
    assert len(pids) == 2
    process.kill()
    assert wait_for(lambda: not any(map(is_running, pids)), seconds=5), "of 30 seconds of sleep"
    assert process.stderr.read() == ""


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["parent", "group"])
def test_ctrl_c_ends_parent_and_workers_at_once(sleeping_script, send):
    process, pids = sleeping_script
    send(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=5)
    assert process.returncode in (130, -signal.SIGINT)
    assert not any(map(exists, pids))
    assert error.count("Traceback") == 1, error
    assert error.endswith("\nKeyboardInterrupt\n")
    assert "ignored" not in error
    assert "Warning" not in error


@pytest.mark.parametrize("end", ["close", "del", "throw"])
def test_iterator_ended_early_leaves_no_process(end):
    results = run_in_processes(worker_functions.sleep_and_give_pid, [0, 0, 30, 30, 30], 2)
    pids = {next(results)[1], next(results)[1]}
    if end == "close":
        results.close()
    elif end == "throw":
        with pytest.raises(KeyboardInterrupt):
            results.throw(KeyboardInterrupt())
    del results
    assert not any(map(exists, pids))


def test_pools_leave_no_descriptors_and_no_threads():
    def run_one():
        list(run_in_processes(worker_functions.square, range(3), 2))
        with pytest.raises(DatasetError):
            list(run_in_processes(worker_functions.end_with_code, [3], 1))

    run_one()  # what Python itself opens at first use
    descriptors, threads = os.listdir("/dev/fd"), threading.enumerate()
    for _ in range(5):
        run_one()
    assert os.listdir("/dev/fd") == descriptors
    assert threading.enumerate() == threads
