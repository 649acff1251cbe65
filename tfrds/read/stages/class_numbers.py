"""Looks at class numbers that come from records, where no index was asked: a wrong one is an error.

Input:   numbers  int64 [...]
Output:  numbers  the same
Raises:  tf.errors.InvalidArgumentError, while iterating: one is no class. `tf.one_hot` would make a
         row of zeros of it.
"""

import tensorflow as tf


def check_class_numbers(numbers: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Returns the numbers."""
    is_class = tf.reduce_all((numbers >= 0) & (numbers < num_classes))
    expected = f"expected labels from 0 to {num_classes - 1:,}, the records hold"
    what = [expected, tf.reduce_min(numbers), tf.reduce_max(numbers)]
    advice = "Copy or build the dataset again."
    with tf.control_dependencies([tf.debugging.Assert(is_class, [*what, advice])]):
        return tf.identity(numbers)
