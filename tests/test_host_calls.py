import gc
import threading
import time

import pytest
import tensorflow as tf

from tfrds.read import host_calls


class Target:
    pass


def test_a_target_is_found_by_its_handle():
    target = Target()
    handle = host_calls.register(target)
    assert host_calls.find(handle) is target
    del host_calls._live[handle]


def test_an_unknown_handle_says_where_to_make_the_dataset():
    with pytest.raises(
        LookupError, match=r"made in another process.*Make the dataset in the process"
    ):
        host_calls.find(12345)


def test_a_target_goes_with_the_last_dataset_made_of_its_root():
    def made():
        root = tf.data.Dataset.range(3)
        host_calls.bind(root, handle)
        # AutoGraph would keep what it cannot convert (Python 3.13, where warnings are errors).
        increment = tf.autograph.experimental.do_not_convert(lambda number: number + 1)
        return root.map(increment).repeat(2).prefetch(1)

    handle = host_calls.register(Target())
    dataset = made()
    gc.collect()
    assert handle in host_calls._live
    del dataset
    gc.collect()
    assert handle not in host_calls._live


def test_targets_are_found_below_any_dataset():
    roots, expected = [], []
    for _ in range(2):
        root, target = tf.data.Dataset.range(3), Target()
        host_calls.bind(root, host_calls.register(target))
        roots.append(root)
        expected.append(target)
    dataset = tf.data.Dataset.zip(
        roots[0].map(lambda number: number).take(2), roots[1].shuffle(3)
    ).batch(1)
    assert set(host_calls.targets(dataset)) == set(expected)
    assert host_calls.targets(tf.data.Dataset.range(2)) == []


def test_closing_waits_for_running_calls_and_refuses_new_ones():
    calls = host_calls._Calls()
    has_started = threading.Event()

    def call():
        with calls:
            has_started.set()
            time.sleep(0.3)
            ended.append(True)

    ended = []
    thread = threading.Thread(target=call)
    thread.start()
    has_started.wait()
    calls.close()
    assert ended == [True]
    thread.join()
    with pytest.raises(LookupError, match="shutting down"), calls:
        pass


def test_closing_gives_up_on_a_call_that_never_ends(monkeypatch):
    monkeypatch.setattr(host_calls, "_EXIT_TIMEOUT_SECONDS", 0.3)
    calls = host_calls._Calls()
    with calls:
        calls.close()
