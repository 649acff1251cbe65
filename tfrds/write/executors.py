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
import os
import pickle
import queue
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TypeVar, cast

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
sys.path[:] = pickle.load(requests)
from tfrds.write.executors import _serve
_serve(requests, answers)
"""

# The workers share the cores already: numpy's own threads in each would only fight over them.
_NO_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"}

# From the end of a dying worker's pipe to its exit code; well under a millisecond as a rule.
_SECONDS_TO_DIE = 10.0


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

    Raises:
        ConfigError: `num_workers` is not positive.
        DatasetError: A worker died; the message names its signal or exit code and the task.
        Exception: What the first failing task raised, with the worker's traceback as its cause.
    """
    if num_workers < 1:
        raise ConfigError(f"num_workers: expected at least 1, got {num_workers}.")
    waiting = enumerate(tasks)
    workers: list[_Worker] = []
    with selectors.DefaultSelector() as busy:
        try:
            for position, task in itertools.islice(waiting, num_workers):
                with _interrupts_blocked():
                    workers.append(_Worker())
                workers[-1].give(function, position, task)
                busy.register(workers[-1].answers, selectors.EVENT_READ, workers[-1])
            while busy.get_map():
                for key, _ in busy.select():
                    worker = key.data
                    finished, result = worker.position, worker.result(describe)
                    # The next task goes out before the yield: the caller may take its time.
                    if following := next(waiting, None):
                        worker.give(function, *following)
                    else:
                        busy.unregister(worker.answers)
                    yield finished, result
        finally:
            with _interrupts_blocked():
                for worker in workers:
                    worker.process.kill()
                for worker in workers:
                    worker.close()


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
        self.process = subprocess.Popen(
            # -I ignores PYTHONUTF8, but both sides must encode the names of files alike.
            [sys.executable, "-I", "-X", f"utf8={sys.flags.utf8_mode}", "-c", _BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_NO_THREADS},
        )
        self.requests = cast(IO[bytes], self.process.stdin)
        self.answers = cast(IO[bytes], self.process.stdout)
        self.position, self.task = -1, cast(Any, None)
        self._send(list(sys.path))

    def give(self, function: Callable[[Task], Result], position: int, task: Task) -> None:
        """Starts a task; if the worker died meanwhile, its `result` tells."""
        self.position, self.task = position, task
        self._send(pickle.dumps((function, task)))

    def result(self, describe: Callable[[Any], str] | None) -> Any:
        """Waits for the result of the task, or raises what the task raised."""
        try:
            answer = pickle.load(self.answers)
        except (EOFError, pickle.UnpicklingError):  # no answer, or a part of one
            raise self._death(describe) from None
        result, error, trace = pickle.loads(answer)
        if error is not None:
            raise error from _WorkerTraceback(trace)
        return result

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

    def _death(self, describe: Callable[[Any], str] | None) -> DatasetError:
        """The error for a worker that died; a policy to give its task to another belongs here."""
        what = describe(self.task) if describe else f"task {self.position}"
        code = self.process.wait(_SECONDS_TO_DIE)
        cause, advice = f"ended with exit code {code}", "Its standard error may tell why."
        if code == -signal.SIGKILL:
            cause = f"was killed by signal {-code} (out of memory?)"
            advice = "Free memory or pass a smaller num_workers."
        elif code < 0:
            cause = f"was killed by signal {-code} ({signal.strsignal(-code)})"
        return DatasetError(f"a worker process {cause} while writing {what}. {advice}")


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
            pickle.dump(_answer(inbox.get()), answers)
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


def _answer(request: bytes) -> bytes:
    """Runs a pickled (function, task) and pickles (result, error, traceback)."""
    try:
        function, task = pickle.loads(request)
        return pickle.dumps((function(task), None, ""))
    except BaseException as error:  # SystemExit too: the parent raises it, as `run_here` would
        trace = traceback.format_exc()
        try:
            answer = pickle.dumps((None, error, trace))
            pickle.loads(answer)  # an error with arguments of its own may fail only here
        except Exception:
            text = traceback.format_exception_only(error)[-1].strip()
            answer = pickle.dumps((None, RuntimeError(text), trace))
        return answer
