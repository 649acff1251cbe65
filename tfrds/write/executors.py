"""Runs a function over tasks, in this process or on a small pool of worker processes.

Gets a module-level function of an importable module and light tasks, one per shard; gives each
result with its task's position. The writer of shards is the function, the builder the caller.
A shard whose result was not yielded may still lie on disk: to resume, look there.

A worker is a bare interpreter that reads pickles of this module from its standard input.
`multiprocessing` would re-run the caller's main module in it: this works without a `__main__`
guard, from standard input and in a notebook. There are no threads in the parent: a worker has one
task and owes one small answer, so waiting on the pipes of all is enough.
"""

import contextlib
import itertools
import logging
import os
import pickle
import queue
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, Protocol, TypeVar, cast

from tfrds.errors import ConfigError, DatasetError

Task = TypeVar("Task")
Result = TypeVar("Result")

# Descriptors 0 and 1 are moved away first: what a library reads or prints never meets the pickles.
_BOOT = """
import os, pickle, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)
sys.stdout = sys.stderr
try:
    sys.path[:] = pickle.load(requests)
except EOFError:  # the parent is gone already
    os._exit(1)
from tfrds.write.executors import _serve
_serve(requests, answers)
"""

# The workers share the cores already: numpy's own threads in each would only fight over them.
_NO_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"}

# From the end of a dying worker's pipe to its exit code; well under a millisecond as a rule.
_SECONDS_TO_DIE = 10.0

# A worker may die of what has nothing to do with its task; three times is no chance any more.
MAX_ATTEMPTS = 3

_log = logging.getLogger("tfrds")


class Executor(Protocol):
    """Runs the shards of a build somewhere; `tfrds.build(executor=...)` takes any such object.

    A function and its tasks pickle; a task names files of the data directory and of the source,
    which both must be there under the same paths wherever it runs. The order is free, and a task
    may run twice: the result is the same. Results are a few bytes for each shard.
    """

    def run(
        self,
        function: Callable[[Any], Any],
        tasks: Iterable[Any],
        describe: Callable[[Any], str],
    ) -> Iterator[tuple[int, Any]]:
        """Yields (position of the task, result) as tasks finish.

        Args:
          function: of a module of tfrds.
          tasks: drawn lazily: those of a large build do not fit in memory all at once.
          describe: names a task for messages, with the input that it was at.
        """


class LocalProcesses:
    """Runs shards in worker processes of this machine.

    Args:
      num_workers: of them.
    """

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers

    def run(
        self,
        function: Callable[[Any], Any],
        tasks: Iterable[Any],
        describe: Callable[[Any], str],
    ) -> Iterator[tuple[int, Any]]:
        """Does what `run_in_processes` says."""
        return run_in_processes(function, tasks, self._num_workers, describe)


class ThisProcess:
    """Runs shards one after the other, where they are asked for."""

    def run(
        self,
        function: Callable[[Any], Any],
        tasks: Iterable[Any],
        describe: Callable[[Any], str],
    ) -> Iterator[tuple[int, Any]]:
        """Does what `run_here` says."""
        return run_here(function, tasks)


def run_here(
    function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Iterator[tuple[int, Result]]:
    """Yields (position of the task, result) in order, each computed when it is asked for."""
    for position, task in enumerate(tasks):
        yield position, function(task)


def run_in_processes(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    num_workers: int,
    describe: Callable[[Task], str] | None = None,
) -> Iterator[tuple[int, Result]]:
    """Yields (position of the task, result) as tasks finish, in any order.

    Tasks are drawn in the caller's thread, at most `num_workers` more than results were
    yielded. Workers start with the first `next`; they are killed and reaped before the iterator
    ends, raises or is closed, and die by themselves if this process is killed.

    Args:
        function: Found by its name in the workers: of an importable module, not of `__main__`.
        tasks: Picklable, drawn lazily.
        num_workers: 1 or more; no more processes than tasks are started.
        describe: Names a task in an error, "train shard 3"; by default its position, "task 3".
            Asked when the task's worker has died.

    A task whose worker dies is given to a new one, up to three times; the others go on meanwhile.

    Raises:
        ConfigError: `num_workers` is not positive.
        DatasetError: After all other tasks: workers died of a task three times; the message names
            their signal or exit code and the task.
        Exception: What the first failing task raised, with the worker's traceback as its cause.
    """
    if num_workers < 1:
        raise ConfigError(f"num_workers: expected at least 1, got {num_workers}.")
    waiting = enumerate(tasks)
    workers: list[_Worker] = []
    lost: list[str] = []
    with selectors.DefaultSelector() as busy:
        try:
            for position, task in itertools.islice(waiting, num_workers):
                with _interrupts_blocked():
                    workers.append(_Worker())
                workers[-1].give(function, position, task)
                busy.register(workers[-1].answers, selectors.EVENT_READ, workers[-1])
            while busy.get_map():
                for key, _ in busy.select():
                    worker: _Worker = key.data
                    results = []
                    try:
                        results.append((worker.position, worker.result()))
                    except _WorkerDied as error:
                        what = describe(worker.task) if describe else f"task {worker.position}"
                        death = f"{error.cause} at {what}. {error.advice}"
                        busy.unregister(worker.answers)
                        is_given_up = not worker.try_again(function, death)
                        busy.register(worker.answers, selectors.EVENT_READ, worker)
                        if not is_given_up:
                            continue
                        lost.append(death)
                    # The next task goes out before the yield: the caller may take its time.
                    if following := next(waiting, None):
                        worker.give(function, *following)
                    else:
                        busy.unregister(worker.answers)
                    yield from results
            check_none_lost(lost)
        finally:
            with _interrupts_blocked():
                for worker in workers:
                    worker.process.kill()
                for worker in workers:
                    worker.close()


def check_none_lost(lost: Sequence[str], num_deaths: int = MAX_ATTEMPTS) -> None:
    """Raises DatasetError where worker processes died of a task too often.

    Args:
      lost: for each such task, how the last one ended and what it was at.
      num_deaths: of the first of these tasks.
    """
    if lost:
        others = f"{len(lost) - 1:,} other task{'s' if len(lost) > 2 else ''}"
        more = f" So did those of {others}." if len(lost) > 1 else ""
        raise DatasetError(f"{num_deaths} worker processes died: the last {lost[0]}{more}")


def as_executor(value: Any) -> Executor | None:
    """Returns what `executor` means: an object with `run`, a Dask client, or None.

    Raises:
      ConfigError: it is none of these.
    """
    # Nobody has a client of Dask without its module. It has a `run` too, which is another one.
    dask = sys.modules.get("distributed")
    if dask is not None and isinstance(value, dask.Client):
        from tfrds.write.dask import DaskExecutor

        return DaskExecutor(value)
    if value is None:
        return None
    if isinstance(value, type) or not callable(getattr(value, "run", None)):
        raise ConfigError(
            "executor: expected a dask.distributed.Client, an object with the method run(function, "
            f"tasks, describe), or None, got {value!r}."
        )
    return cast(Executor, value)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Holds Ctrl-C back, so that no worker is lost; a worker started here inherits the mask.

    A thread of TensorFlow can still receive it: then a worker without a parent ends by itself.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """The parent's end of one worker process, which has one task at a time."""

    def __init__(self) -> None:
        self.position, self.task, self.attempts = -1, cast(Any, None), 0
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            # -I ignores PYTHONUTF8, but both sides must encode the names of files alike.
            [sys.executable, "-I", "-X", f"utf8={sys.flags.utf8_mode}", "-c", _BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_NO_THREADS},
        )
        self.requests = cast(IO[bytes], self.process.stdin)
        self.answers = cast(IO[bytes], self.process.stdout)
        self._send(list(sys.path))

    def give(self, function: Callable[[Task], Result], position: int, task: Task) -> None:
        """Starts a task; if the worker died meanwhile, its `result` tells."""
        self.position, self.task, self.attempts = position, task, 0
        self.repeat(function)

    def repeat(self, function: Callable[[Task], Result]) -> None:
        """Starts its task once more."""
        self.attempts += 1
        self._send(pickle.dumps((function, self.task)))

    def result(self) -> Any:
        """Waits for the result of the task, or raises what the task raised.

        Raises:
          _WorkerDied: it will never come.
        """
        try:
            answer = pickle.load(self.answers)
        except (EOFError, pickle.UnpicklingError):  # no answer, or a part of one
            raise _WorkerDied(self.process.wait(_SECONDS_TO_DIE)) from None
        return result_of(answer)

    def try_again(self, function: Callable[[Task], Result], death: str) -> bool:
        """Replaces the process that died, and starts its task once more unless it killed enough.

        Args:
          function: of the task.
          death: of the process, and what it was at.
        """
        with _interrupts_blocked():
            self.close()
            self._start()
        if self.attempts == MAX_ATTEMPTS:
            return False
        again = f"Attempt {self.attempts + 1} of {MAX_ATTEMPTS} begins."
        _log.warning("A worker process %s %s", death, again)
        self.repeat(function)
        return True

    def close(self) -> None:
        """Reaps the killed process and closes its pipes."""
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):  # flushes again what the worker never read
            self.requests.close()
        self.answers.close()

    def _send(self, message: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            pickle.dump(message, self.requests)
            self.requests.flush()


class _WorkerDied(Exception):
    """A worker process ended without an answer.

    Args:
      code: its exit code, negative for a signal.
    """

    def __init__(self, code: int) -> None:
        self.cause, self.advice = f"ended with exit code {code}", "Its standard error may tell why."
        if code == -signal.SIGKILL:
            self.cause = f"was killed by signal {-code} (out of memory?)"
            self.advice = "Free memory or pass a smaller num_workers."
        elif code < 0:
            self.cause = f"was killed by signal {-code} ({signal.strsignal(-code)})"


class _WorkerTraceback(Exception):
    """Shows the worker's traceback, which can be pickled as text only, above the error."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:  # pragma: no cover - in workers
    """Answers requests until the parent closes its end of the pipe or dies."""
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests, inbox), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):  # the parent just died
        while True:
            pickle.dump(answer(inbox.get()), answers)
            answers.flush()


def _read_requests(
    requests: IO[bytes], inbox: "queue.SimpleQueue[bytes]"
) -> None:  # pragma: no cover - in workers
    """Ends the worker, even amid a long task, when no more requests can come."""
    try:
        while True:
            inbox.put(pickle.load(requests))  # bytes: imports belong to the main thread
    finally:
        os._exit(1)


def answer(request: bytes) -> bytes:
    """Runs a pickled (function, task), and returns what `result_of` takes; never raises."""
    try:
        function, task = pickle.loads(request)
        return pickle.dumps((function(task), None, ""))
    except BaseException as error:  # SystemExit too: the parent raises it, as `run_here` would
        trace = traceback.format_exc()
        try:
            failed = pickle.dumps((None, error, trace))
            pickle.loads(failed)  # an error with arguments of its own may fail only here
        except Exception:
            text = traceback.format_exception_only(error)[-1].strip()
            failed = pickle.dumps((None, RuntimeError(text), trace))
        return failed


def result_of(answered: bytes) -> Any:
    """Returns the result in what `answer` gave, or raises the error, with its traceback there."""
    result, error, trace = pickle.loads(answered)
    if error is not None:
        raise error from _WorkerTraceback(trace)
    return result
