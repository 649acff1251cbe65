"""Functions that tests of executors run in worker processes, which find them by their names."""

import os
import pathlib
import signal
import subprocess
import sys
import time

from tfrds.errors import SourceError


class PickyError(Exception):
    """Can be pickled but not read back: its arguments are not those of `__init__`."""

    def __init__(self, file, reason):
        super().__init__(f"{file}: {reason}")


def square(number):
    return number * number


def sleep_and_give_pid(seconds):
    time.sleep(seconds)
    return os.getpid()


def leave_pid_and_sleep(folder):
    pathlib.Path(folder, str(os.getpid())).touch()
    time.sleep(30)


def fail_at_three(number):
    if number == 3:
        raise SourceError("labels.csv row 3: unknown class 'cta'.")
    return number


def fail_picky(file):
    raise PickyError(file, "cut off")


def fail_local(file):
    class LocalError(Exception):
        pass

    raise LocalError(file)


def give_lambda(number):
    return lambda: number


def end_with_code(code):
    os._exit(code)


def end_by_signal(number):
    os.kill(os.getpid(), number)
    time.sleep(30)


def begin_and_sleep_once(folder):
    """Gives the process's number; the first time for a folder only after 30 seconds."""
    begun = pathlib.Path(folder or ".", "begun")
    if folder and not begun.exists():
        begun.touch()
        time.sleep(30)
    return os.getpid()


def die_some_times(task):
    """Kills its process the first times that it is called with a task; then gives its number."""
    folder, number, times = task
    attempts = len(list(pathlib.Path(folder).glob(f"{number}.*")))
    pathlib.Path(folder, f"{number}.{attempts}").touch()
    if attempts < times:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def print_astray(text):
    print(text, "print")
    os.write(1, f"{text} write\n".encode())
    subprocess.run([sys.executable, "-c", f"print('{text} child')"], check=True)
    return sys.stdin.read()


def loaded_modules(names):
    return [name for name in names if name in sys.modules]


def environment(name):
    return os.environ.get(name)


def dask_key(task):
    from distributed.worker import thread_state

    return thread_state.key


def loaded_of(task):
    return loaded_modules(task.names)


def fail_of(task):
    return fail_at_three(3)
