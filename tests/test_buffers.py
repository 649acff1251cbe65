import gc
import threading

import numpy as np
import pytest

from tfrds.read.buffers import BufferPool


def address(array):
    return array.ctypes.data


@pytest.mark.parametrize("num_bytes", [1, 63, 64, 1000, 10**6 + 1])
def test_buffers_are_aligned_and_writable(num_bytes):
    buffer = BufferPool().take(num_bytes)
    assert (buffer.dtype, buffer.shape) == (np.uint8, (num_bytes,))
    assert address(buffer) % 64 == 0
    buffer[:] = 7


def test_memory_comes_back_when_the_last_view_is_gone():
    pool = BufferPool()
    buffer = pool.take(1000)
    view, place = buffer.reshape(10, 100)[3:], address(buffer)
    del buffer
    gc.collect()
    assert address(pool.take(1000)) != place
    view[:] = 1
    del view
    assert address(pool.take(900)) == place  # a smaller batch, the last of an epoch


def test_buffers_at_the_same_time_never_share_memory():
    pool = BufferPool()
    for _ in range(3):
        held = [pool.take(256) for _ in range(20)]
        for number, buffer in enumerate(held):
            buffer[:] = number
        assert all((buffer == number).all() for number, buffer in enumerate(held))
        del held, buffer


def test_only_few_free_buffers_are_kept():
    pool = BufferPool()
    held = [pool.take(10) for _ in range(50)]
    del held
    assert len(pool._free) == 5


def test_larger_batches_get_larger_buffers():
    pool = BufferPool()
    del (buffer := [pool.take(10)])[:]
    assert len(pool.take(10**6)) == 10**6
    assert buffer == []


def test_threads_never_share_memory():
    pool, faults = BufferPool(), []

    def work(number):
        for _ in range(2000):
            buffer = pool.take(64)
            buffer[:] = number
            if (buffer != number).any():
                faults.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
