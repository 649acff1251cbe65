"""Memory for batches that is used again once TensorFlow lets it go; no TensorFlow.

A batch of large images is tens of megabytes. From fresh memory the kernel has to hand out and clear
each page of it, which takes longer than copying the pixels: 20,000 to 40,000 images/s of 224 x 224,
from used memory 60,000 to 70,000.
"""

import numpy as np
from numpy.typing import NDArray

# TensorFlow takes a numpy array without a copy when it starts at a multiple of this
# (EIGEN_MAX_ALIGN_BYTES).
ALIGNMENT = 64

# Batches in flight at once: two fetches, one prefetched, one at the model, one that TensorFlow is
# about to let go. More are not kept: somebody held them all and is done.
_MAX_FREE = 5


class BufferPool:
    """Aligned buffers, kept when they are let go."""

    def __init__(self) -> None:
        self._free: list[NDArray[np.uint8]] = []

    def take(self, num_bytes: int) -> NDArray[np.uint8]:
        """Returns uint8 [num_bytes], not initialised, at a multiple of `ALIGNMENT`.

        Its memory comes back when the last array that shows it is gone.
        """
        # Calls come from several threads; `pop` and `append` are each one step for all of them.
        try:
            memory = self._free.pop()
        except IndexError:
            memory = np.empty(0, np.uint8)
        if len(memory) < num_bytes + ALIGNMENT:  # of another batch size, or none
            memory = np.empty(num_bytes + ALIGNMENT, np.uint8)
        buffer = np.asarray(_Lease(memory, self._free))
        start = -buffer.ctypes.data % ALIGNMENT
        return buffer[start : start + num_bytes]


class _Lease:
    """Owns a buffer for as long as arrays show it: numpy keeps it as their base."""

    def __init__(self, memory: NDArray[np.uint8], free: list[NDArray[np.uint8]]) -> None:
        self.__array_interface__ = memory.__array_interface__
        self._memory = memory
        self._free = free

    def __del__(self) -> None:
        if len(self._free) < _MAX_FREE:
            self._free.append(self._memory)
