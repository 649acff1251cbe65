"""Imports TensorFlow without the lines that it writes while it starts.

The commands that need TensorFlow import it inside `quiet_tensorflow()`.
"""

import contextlib
import faulthandler
import os
import sys
import tempfile
from collections.abc import Iterator

# Of TensorFlow's four levels only errors that end the process. What goes wrong otherwise is a
# Python exception too.
_LEVEL_VARIABLE, _QUIET_LEVEL = "TF_CPP_MIN_LOG_LEVEL", "3"


@contextlib.contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Keeps TensorFlow silent, from its import in this block on, unless the user set a log level.

    TensorFlow 2.21 writes some lines while its libraries are loaded, before it reads any setting:
    neither its own variable nor those of absl and gRPC stop them. So the descriptor of standard
    error points to a file during the import; the text is shown after all when the import fails, and
    Python's stack where it ends the process.
    """
    if os.environ.setdefault(_LEVEL_VARIABLE, _QUIET_LEVEL) != _QUIET_LEVEL:
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            stderr = os.dup(2)
        except OSError:  # closed: nothing to keep silent
            yield
            return
        stack.callback(os.close, stderr)
        held = stack.enter_context(tempfile.TemporaryFile())
        _flush()
        os.dup2(held.fileno(), 2)
        # For an import that aborts, as on a processor without the instructions it needs.
        watches = not faulthandler.is_enabled()
        if watches:
            faulthandler.enable(stderr)
        failed = True
        try:
            yield
            failed = False
        finally:
            if watches:
                faulthandler.disable()
            _flush()
            os.dup2(stderr, 2)
            if failed:
                held.seek(0)
                with open(os.dup(2), "wb") as file:
                    file.write(held.read())


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
