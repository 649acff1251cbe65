"""Whether XLA can compile stages here; where it cannot, they run operation by operation.

The values are the same either way.
"""

import functools
import logging

import tensorflow as tf

_log = logging.getLogger("tfrds")


@functools.cache
def has_compiler() -> bool:
    """Tries XLA once a process, on the processor that runs input pipelines."""
    try:
        with tf.init_scope(), tf.device("/cpu:0"):
            increment = tf.function(lambda value: value + 1, jit_compile=True, autograph=False)
            increment(tf.constant(1))
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        _log.warning("XLA cannot compile here, so reading is slower: %s", error)
        return False
    return True
