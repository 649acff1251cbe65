"""The exceptions of tfrds.

Each message says what, where - rule, got. What to do. Errors of TensorFlow's runtime cannot carry
these classes through a graph: while iterating a dataset they surface as `tf.errors.OpError` with
the same text.
"""


class TfrdsError(Exception):
    """Base of all errors that tfrds raises on purpose."""


class TfrdsWarning(UserWarning):
    """Something that is probably not meant, where the result is still right."""


class ConfigError(TfrdsError, ValueError):
    """A setting is wrong; the message names the setting, the rule and the value."""


class SourceError(TfrdsError, ValueError):
    """Input images or labels are unusable; the message names the file or row and the reason."""


class EncodeError(TfrdsError, ValueError):
    """One image cannot be stored as asked.

    The message names the file, what was found and what is allowed.

    Attributes:
      reason: the kind of fault in a few words that stay the same, so that faults can be counted:
        "empty", "not an image", "unreadable format", "cut off or damaged", "too large",
        "wrong size", "unsupported mode", "wrong array", "not checked" or "cannot be stored".
    """

    def __init__(self, message: str = "", reason: str = "cannot be stored") -> None:
        super().__init__(message)
        # Not among `args`, which are the text; pickling and copying keep attributes beside them.
        self.reason = reason


class DatasetError(TfrdsError, RuntimeError):
    """Built data is missing, damaged or inconsistent.

    The message names the directory, expected and found.
    """
