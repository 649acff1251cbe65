"""What tfrds says while a command runs: its log and its warnings, as plain lines on standard error.

Names come from files of strangers: what a terminal would take as a command is shown as an escape.
"""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any, TextIO

from tfrds.errors import TfrdsWarning


@contextlib.contextmanager
def shown_messages(stream: TextIO) -> Iterator[None]:
    """Writes the lines of tfrds's log and all warnings to `stream` until the block ends."""
    logger = logging.getLogger("tfrds")
    before = logger.level, logger.propagate
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_PlainLines())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    # absl, which comes with TFDS, has a handler at the root that would show them again.
    logger.propagate = False

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        stream.write(f"Warning: {shown_text(str(message))}\n")

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            # Each once is Python's rule per line of code: two datasets may deserve the same
            # warning.
            warnings.filterwarnings("always", category=TfrdsWarning)
            yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


def shown_text(text: str) -> str:
    """Returns text in one line, without characters that steer a terminal."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in " ".join(text.splitlines())
    )


class _PlainLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Returns the message, and how serious it is where it is more than a note."""
        text = shown_text(record.getMessage())
        return (
            text if record.levelno <= logging.INFO else f"{record.levelname.capitalize()}: {text}"
        )
