"""Runs the shards of a build on the workers of a Dask cluster.

Gets what every executor gets (`executors.py`); the workers need this package, and must see the data
directory and the source under the same paths. Nothing here is imported unless a build asks for it.
"""

import contextlib
import dataclasses
import itertools
import logging
import queue
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tfrds.errors import ConfigError, DatasetError
from tfrds.write.executors import MAX_ATTEMPTS, check_none_lost

if TYPE_CHECKING:
    from distributed import Client

# What runs, and one more for each thread: then none waits for us between two shards.
_TASKS_A_THREAD = 2

_SECONDS_TO_CONNECT = 10

# A shard takes seconds; who waits for longer wants to know why.
_SECONDS_TO_LOOK = 10.0

_RESUME = "Finished shards are kept: run the same build again to go on."

_log = logging.getLogger("tfrds")


@dataclasses.dataclass
class _Attempt:
    """A task that was given to the cluster, or will be again.

    Attributes:
      position: of the task.
      task: itself.
      deaths: of workers that had it, and maybe others.
      is_alone: whether nothing else ran meanwhile, so that a death is its own doing.
    """

    position: int
    task: Any
    deaths: int = 0
    is_alone: bool = False


class DaskExecutor:
    """Runs shards on the workers of a Dask cluster.

    Args:
      client: of the cluster, a synchronous one; it stays open.
    """

    def __init__(self, client: "Client") -> None:
        if client.asynchronous:
            raise ConfigError(
                "executor: expected a synchronous Client, got one with asynchronous=True."
            )
        self._client = client

    def run(
        self,
        function: Callable[[Any], Any],
        tasks: Iterable[Any],
        describe: Callable[[Any], str],
    ) -> Iterator[tuple[int, Any]]:
        """Yields (position of the task, result) as tasks finish.

        Dask gives a lost worker's tasks to others by itself. A task whose workers die too often for
        the scheduler's `allowed-failures` is done again when nothing else is left to do, alone,
        because Dask counts the death of a worker against all that it had been given.

        Args:
          function: of a module that the workers can import.
          tasks: drawn lazily, at most two for each thread of the cluster ahead of the results.
          describe: names a task.

        Raises:
          DatasetError: after all other tasks: workers died of a task three times; or the scheduler
            has gone.
          Exception: what the first failing task raised.
        """
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        waiting = itertools.starmap(_Attempt, enumerate(tasks))
        suspects: list[_Attempt] = []
        lost: list[str] = []
        deaths = 0
        with _Submitted(self._client, function, describe) as submitted:
            while submitted.fill(waiting) or submitted.start(suspects):
                attempt, result_of = submitted.next()
                try:
                    result = result_of()
                except KilledWorker as error:
                    attempt.deaths += error.allowed_failures + 1
                    death = (
                        f"ended without an answer ({error.last_worker.address}) at "
                        f"{describe(attempt.task)}. Its own log may tell why."
                    )
                    if attempt.is_alone and attempt.deaths >= MAX_ATTEMPTS:
                        deaths = deaths or attempt.deaths
                        lost.append(death)
                    else:
                        _log.warning("A worker process %s It is tried again, alone.", death)
                        attempt.is_alone = True
                        suspects.append(attempt)
                except FutureCancelledError as error:
                    raise DatasetError(
                        f"{describe(attempt.task)}: was cancelled by Dask ({error.reason}). "
                        f"{_RESUME}"
                    ) from error
                else:
                    yield attempt.position, result
        check_none_lost(lost, deaths)


class _Submitted:
    """What a build has given to a cluster and not got back; cancelled at the end of the block.

    Args:
      client: of the cluster.
      function: that is run.
      describe: names a task.
    """

    def __init__(
        self,
        client: "Client",
        function: Callable[[Any], Any],
        describe: Callable[[Any], str],
    ) -> None:
        self._client = client
        self._function = function
        self._describe = describe
        # Dask shows tasks by the first part of their keys; two builds may run at once.
        self._group = f"{function.__name__}-{secrets.token_hex(8)}"
        self._attempts: dict[Any, _Attempt] = {}
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._has_workers = True

    def __enter__(self) -> "_Submitted":
        self._look_for_workers()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._attempts:
            # What is queued shall not run any more; a scheduler that has gone runs nothing.
            with contextlib.suppress(Exception):
                self._client.cancel(list(self._attempts), force=True)

    def fill(self, waiting: Iterator[_Attempt]) -> bool:
        """Submits what the cluster is ready for; returns whether anything is there."""
        room = max(1, _TASKS_A_THREAD * self._num_threads()) - len(self._attempts)
        for attempt in itertools.islice(waiting, max(0, room)):
            self._submit(attempt)
        return bool(self._attempts)

    def start(self, suspects: list[_Attempt]) -> bool:
        """Submits the first of `suspects`; returns whether there was any."""
        if suspects:
            self._submit(suspects.pop(0))
        return bool(self._attempts)

    def next(self) -> tuple[_Attempt, Callable[[], Any]]:
        """Waits until one has ended; returns it and what gives its result or raises its error."""
        future = None
        while future is None:
            with contextlib.suppress(queue.Empty):
                future = self._ended.get(timeout=_SECONDS_TO_LOOK)
            if future is None:
                self._look_for_workers()

        def result() -> Any:
            from distributed.comm import CommClosedError

            try:
                return future.result()
            except CommClosedError as error:
                raise _gone(error) from error
            finally:
                future.release()  # now: an error's traceback may hold the future for long

        return self._attempts.pop(future), result

    def _submit(self, attempt: _Attempt) -> None:
        import dask

        # Arrays in memory have to travel, and Dask advises to send them ahead once from 10 MB on:
        # a worker that dies would take such data with it.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            future = self._client.submit(
                self._function,
                attempt.task,
                key=(self._group, self._describe(attempt.task), attempt.position, attempt.deaths),
                pure=False,
                retries=0,
            )
        self._attempts[future] = attempt
        future.add_done_callback(self._ended.put)

    def _num_threads(self) -> int:
        try:
            return sum(self._client.nthreads().values())
        except (OSError, AttributeError) as error:  # a closed client's scheduler is None
            raise _gone(error) from error

    def _look_for_workers(self) -> None:
        """Says it once when a cluster has no workers: Dask waits for them without a word."""
        had_workers, self._has_workers = self._has_workers, self._num_threads() > 0
        if had_workers and not self._has_workers:
            _log.warning("The Dask cluster has no workers: waiting for some.")


def _gone(error: Exception) -> DatasetError:
    return DatasetError(f"the Dask scheduler does not answer any more ({error}). {_RESUME}")


@contextlib.contextmanager
def connected(address: str) -> Iterator[DaskExecutor]:
    """Gives an executor on the cluster of a scheduler, and closes the connection in the end.

    Args:
      address: of the scheduler, "tcp://host:port".

    Raises:
      ConfigError: nothing answers there, or Dask is not installed.
    """
    try:
        from distributed import Client
        from distributed.comm import get_address_host_port
    except ImportError as error:
        raise ConfigError(
            f"dask: needs dask.distributed, which is not installed here ({error}). "
            "pip install 'tfrds[dask]'"
        ) from error
    try:
        get_address_host_port(address)  # the Client would choke on a wrong one, for a minute
        client = Client(address, timeout=_SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"dask: no scheduler answers at {address!r} within {_SECONDS_TO_CONNECT} seconds: "
            f"{str(error) or type(error).__name__}. Expected the address that `dask scheduler` "
            'prints, such as "tcp://host:8786".'
        ) from error
    with client:
        yield DaskExecutor(client)
