"""Warnings that point at the user's line, not into this package."""

import os
import sys
import warnings

from tfrds.errors import TfrdsWarning

_PACKAGE = os.path.dirname(__file__) + os.sep


def warn_user(message: str) -> None:
    """Warns of something that leaves the result right, at the first frame outside of tfrds."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, TfrdsWarning, stacklevel=level)
