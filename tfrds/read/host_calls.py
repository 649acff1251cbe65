"""Python functions that a TensorFlow graph calls, without the two traps of `tf.numpy_function`.

Its closure is never freed, so the graph holds only a number: a handle into a table that a finaliser
of the dataset empties. And a call that is made while the interpreter shuts down waits for ever for
the GIL, so at exit new calls are refused and running ones waited for.
"""

import atexit
import secrets
import threading
import time
import weakref
from typing import Any

_EXIT_TIMEOUT_SECONDS = 10.0
# A pipeline asks for its next batch within microseconds: none for this long means that none will
# come.
_IDLE_SECONDS = 0.1

_live: dict[int, Any] = {}

# The attribute of a root dataset that holds its handle; found again from any dataset made of it.
_ATTRIBUTE = "_tfrds_handle"


def register(target: Any) -> int:
    """Keeps `target` alive for the graph's calls; returns its handle.

    The handle is random, so that one of another process (a tf.data service, say) is refused and not
    mixed up.
    """
    handle = secrets.randbits(62)
    _live[handle] = target
    return handle


def bind(root: Any, handle: int) -> None:
    """Lets the target go when the dataset `root` does; every dataset made of `root` keeps it."""
    setattr(root, _ATTRIBUTE, handle)
    weakref.finalize(root, _live.pop, handle, None).atexit = False


def find(handle: int) -> Any:
    """Returns the target of `handle`.

    Raises:
      LookupError: it was let go, or lives in another process.
    """
    try:
        return _live[handle]
    except KeyError:
        raise LookupError(
            "This dataset was made in another process, or inside a function that has ended: its "
            "Python part is gone. "
            "Make the dataset in the process that iterates over it, outside of tf.function and "
            "interleave."
        ) from None


def targets(dataset: Any) -> list[Any]:
    """Returns the targets of all root datasets that `dataset` is made of."""
    found, waiting = [], [dataset]
    while waiting:
        current = waiting.pop()
        handle = getattr(current, _ATTRIBUTE, None)
        if handle is not None:
            found.append(find(handle))
        # tf.data keeps no public way from a dataset to those it was made of.
        inputs = getattr(current, "_inputs", None)
        waiting += inputs() if inputs else []
    return found


class _Calls:
    """Counts running calls, and closes the door at exit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._last_end = 0.0
        self._is_closed = False

    def __enter__(self) -> None:
        with self._lock:
            if self._is_closed:
                self._last_end = time.monotonic()  # a refused call needs the interpreter as well
                raise LookupError("The interpreter is shutting down.")
            self._running += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            self._last_end = time.monotonic()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._last_end = time.monotonic()
        deadline = time.monotonic() + _EXIT_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            with self._lock:
                if not self._running and time.monotonic() - self._last_end > _IDLE_SECONDS:
                    return
            time.sleep(_IDLE_SECONDS / 10)


running = _Calls()
atexit.register(running.close)
