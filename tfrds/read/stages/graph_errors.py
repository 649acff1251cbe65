"""Errors of a graph while it runs: their text, and the operation that ends it with that text.

A graph cannot raise, so what is wrong is a text that a stage makes of its tensors, and empty where
nothing is wrong. Who runs the graph gets `tf.errors.InvalidArgumentError`, whose text holds it.
"""

import tensorflow as tf


def say(*parts: tf.Tensor | str) -> tf.Tensor:
    """Returns texts and numbers as one text, string []."""
    return tf.strings.join(
        [part if isinstance(part, str) else tf.strings.as_string(part) for part in parts]
    )


def first_fault(*faults: tuple[tf.Tensor, tf.Tensor | str]) -> tf.Tensor:
    """Returns the text of the first condition that holds, "" where none does.

    Args:
      *faults: (bool [], string []).
    """
    chosen = tf.constant("")
    for is_fault, text in reversed(faults):
        chosen = tf.where(is_fault, text, chosen)
    return chosen


def checked(value: tf.Tensor, fault: tf.Tensor, where: tf.Tensor | str) -> tf.Tensor:
    """Returns `value` where `fault` is empty, else the graph ends here.

    Args:
      value: what may be used if nothing is wrong.
      fault: what is wrong.
      where: in which image.

    Raises:
      tf.errors.InvalidArgumentError: while it runs.
    """
    text = tf.strings.join([where, ": ", fault])
    with tf.control_dependencies([tf.debugging.Assert(tf.equal(fault, ""), [text])]):
        return tf.identity(value)
