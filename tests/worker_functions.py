"""Functions that test_executors.py runs in worker processes, which find them by their names."""

import os
import pathlib
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


def print_astray(text):
    print(text, "print")
    os.write(1, f"{text} write\n".encode())
    subprocess.run([sys.executable, "-c", f"print('{text} child')"], check=True)
    return sys.stdin.read()


def loaded_modules(names):
    return [name for name in names if name in sys.modules]


def environment(name):
    return os.environ.get(name)
