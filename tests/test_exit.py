"""Scripts that end while an iterator lives: they must exit by themselves, with the right code."""

import concurrent.futures
import itertools
import subprocess
import sys

import pytest
from datasets import environment

_START = """
import sys
import tfrds

def load(**arguments):
    options = dict(data_dir=sys.argv[1], split="train", shuffle=True, **arguments)
    return tfrds.load(sys.argv[2], **options)
"""

_FIT = """
import keras

class Fail(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        {event}

model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(4)])
model.compile("sgd", "mse")
train = load(batch_size=4, as_supervised=True){change}
model.fit(train.repeat(), steps_per_epoch=100, epochs=2, verbose=0, callbacks=[Fail()])
"""

# How a script ends with a live iterator: its text, and its exit code.
_SHAPES = {
    "next": ("it = iter(load(batch_size=4){change})\nnext(it)", 0),
    "several": (
        "its = [iter(load(batch_size=4){change}) for _ in range(3)]\nfor it in its: next(it)",
        0,
    ),
    "unbatched": ("it = iter(load(){change})\nnext(it)", 0),
    "numpy": ("it = load(batch_size=4){change}.as_numpy_iterator()\nnext(it)", 0),
    "zip": ("pairs = zip(load(batch_size=4){change}, load(batch_size=8))\nnext(pairs)", 0),
    "exit": ("it = iter(load(batch_size=4){change})\nnext(it)\nsys.exit(3)", 3),
    "raise": ("it = iter(load(batch_size=4){change})\nnext(it)\n1 / 0", 1),
    "function": (
        "def use():\n  it = iter(load(batch_size=4){change})\n  next(it)\n  1 / 0\nuse()",
        1,
    ),
    "fit": (_FIT.replace("{event}", "1 / 0"), 1),
    "fit exit": (_FIT.replace("{event}", "sys.exit(5)"), 5),
}
_CHANGES = {
    "plain": "",
    "shuffle": ".repeat().shuffle(10)",
    "prefetch": ".repeat().prefetch(8)",
    "cache": ".cache().repeat()",
    "map": ".repeat().map(lambda *x: x, num_parallel_calls=4).prefetch(2)",
}
_QUICK = [
    ("next", "plain", "jpeg"),
    ("several", "prefetch", "raw"),
    ("unbatched", "plain", "raw"),
    ("numpy", "shuffle", "jpeg"),
    ("exit", "map", "raw"),
    ("raise", "cache", "raw"),
    ("function", "prefetch", "jpeg"),
    ("fit", "plain", "raw"),
]


def run(root, name, shape, change):
    """Returns (how the script ended, what was expected)."""
    text, code = _SHAPES[shape]
    script = _START + text.replace("{change}", _CHANGES[change])
    try:
        process = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script, root, name],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "hangs", code
    is_expected = process.returncode == code and ("ZeroDivisionError" in process.stderr) == (
        code == 1
    )
    return (code if is_expected else (process.returncode, process.stderr[-2000:])), code


def run_all(cases, request):
    built = {name: request.getfixturevalue(name) for name in ("raw", "jpeg")}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ends = [
            pool.submit(run, built[name].root, built[name].name, shape, change)
            for shape, change, name in cases
        ]
        wrong = {
            case: found
            for case, (found, expected) in zip(cases, (end.result() for end in ends), strict=True)
            if found != expected
        }
    assert wrong == {}


def test_scripts_with_a_live_iterator_exit_by_themselves(request):
    run_all(_QUICK, request)


@pytest.mark.slow
def test_fifty_scripts_with_a_live_iterator_exit_by_themselves(request):
    cases = [
        (shape, change, ("raw", "jpeg")[number % 2])
        for number, (shape, change) in enumerate(itertools.product(_SHAPES, _CHANGES))
    ]
    assert len(cases) == 50
    run_all(cases, request)
