"""In processes of their own: TensorFlow is imported once, and what it writes goes past Python."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(script, level=None, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL")
    environment.pop("CUDA_VISIBLE_DEVICES")
    if level:
        environment["TF_CPP_MIN_LOG_LEVEL"] = level
    script = "import os, sys\nfrom tfrds.tools.quiet import quiet_tensorflow\n" + script
    return subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_tensorflow_says_nothing_at_import_and_in_use():
    ran = run(
        "with quiet_tensorflow():\n"
        "    import tensorflow as tf\n"
        "tf.function(lambda x: 2 * x, jit_compile=True)(tf.ones(3))\n"
        "list(tf.data.Dataset.range(3).map(lambda x: x))\n"
        "assert 'CUDA_VISIBLE_DEVICES' not in os.environ"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_user_who_set_a_level_gets_every_line():
    ran = run("with quiet_tensorflow():\n    os.write(2, b'from below\\n')", level="0")
    assert ran.stderr == "from below\n"


def test_lines_are_held_back_during_the_import_only():
    ran = run(
        "sys.stderr.write('before\\n')\n"
        "with quiet_tensorflow():\n"
        "    os.write(2, b'from below\\n'); sys.stderr.write('from Python\\n')\n"
        "sys.stderr.write('after\\n'); sys.stderr.flush(); os.write(2, b'below\\n')"
    )
    assert ran.stderr == "before\nafter\nbelow\n"


def test_a_failed_import_shows_what_was_held_back():
    ran = run("with quiet_tensorflow():\n    os.write(2, b'why\\n')\n    import no_such_module")
    assert ran.returncode == 1
    assert ran.stderr.startswith("why\nTraceback ")
    assert ran.stderr.endswith("ModuleNotFoundError: No module named 'no_such_module'\n")


def test_an_import_that_aborts_shows_where():
    ran = run("with quiet_tensorflow():\n    os.abort()")
    assert ran.returncode < 0
    assert ran.stderr.startswith("Fatal Python error: Aborted\n")


@pytest.mark.parametrize("closed", [True, False])
def test_works_with_standard_error_closed(closed):
    ran = run(
        "with quiet_tensorflow():\n    pass\nprint('done')",
        preexec_fn=(lambda: os.close(2)) if closed else None,
    )
    assert (ran.returncode, ran.stdout) == (0, "done\n")


def test_no_file_stays_open():
    ran = run(
        "count = lambda: len(os.listdir('/proc/self/fd'))\nbefore = count()\n"
        "with quiet_tensorflow():\n    pass\n"
        "try:\n    with quiet_tensorflow(): 1 / 0\nexcept ZeroDivisionError: pass\n"
        "print(count() - before)"
    )
    assert ran.stdout == "0\n"
