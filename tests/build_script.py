"""Builds a dataset in a process of its own: tests start it several times, stop it and kill it.

Gets one JSON object of settings, see `main`; says on standard output when it begins and ends.
"""

import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parent


def start(source, data_dir, **settings):
    """Starts a build; its standard output and error are pipes."""
    text = json.dumps({"source": str(source), "data_dir": str(data_dir), **settings})
    return subprocess.Popen(
        [sys.executable, str(TESTS / "build_script.py"), text],
        env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Returns the lines that a build says on standard output, and its standard error."""
    out, error = process.communicate(timeout=120)
    return out.splitlines(), error


def wait_for(condition, process=None, seconds=60):
    """Waits until a condition holds, while a process lives."""
    end = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.002)


def children(pid):
    """Returns the numbers of a process's children that live."""
    command = ["ps", "-A", "-o", "pid=,ppid=,stat="]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line.split() for line in lines]
    return [int(own) for own, parent, stat in found if parent == str(pid) and stat[0] != "Z"]


def is_running(pid):
    """Whether a process lives; one that has ended and is not waited for does not."""
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    state = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return state != "" and not state.startswith("Z")


def homes_of(data_dir):
    """Returns the directories in which somebody builds pets:1.0.0 or has built it."""
    container = pathlib.Path(data_dir, "pets", ".tfrds-build-1.0.0")
    return sorted(container.iterdir()) if container.exists() else []


def finished_shards(data_dir):
    """Returns {name: (inode, time of change)} of the shards that have an entry in a journal."""
    found = {}
    for home in homes_of(data_dir):
        for entry in home.glob("journal/*-of-*.json"):
            shard = home / "dataset" / entry.name.removesuffix(".json")
            if shard.exists():
                found[shard.name] = identity(shard)
    return found


def identity(path):
    """Returns what is another one for a file that was written again."""
    status = os.stat(path)
    return status.st_ino, status.st_mtime_ns


def kill_at_rename(moment):
    """Lets this process kill itself right before or after a dataset gets its place."""
    rename = pathlib.Path.rename

    def rename_and_die(path, target):
        is_last = path.name == "dataset"
        if not is_last or moment == "after":
            rename(path, target)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)

    pathlib.Path.rename = rename_and_die


def main(
    source,
    data_dir,
    traps=False,
    machine=None,
    without_locks=False,
    killed_at_rename=None,
    **arguments,
):
    """Builds pets:1.0.0.

    Args:
      source: a folder.
      data_dir: for the dataset.
      traps: whether the folder holds images of `trap_source.py`.
      machine: by whose name the builder goes.
      without_locks: whether locks do nothing, as on some network file systems.
      killed_at_rename: "before" or "after" the dataset gets its place.
      arguments: of `tfrds.build`.
    """
    import filelock
    import trap_source

    import tfrds
    from tfrds.disk import commit

    # Ignored in the background of a shell.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.basicConfig(format="%(message)s")
    if machine:
        commit._machine = lambda: machine
    if without_locks:
        filelock.FileLock.acquire = lambda *_, **__: None
    if killed_at_rename:
        kill_at_rename(killed_at_rename)
    print("begins", flush=True)
    try:
        tfrds.build(
            "pets",
            trap_source.FolderOfTraps(source) if traps else source,
            data_dir=data_dir,
            **{"encoding": "jpeg", "num_workers": 2, "num_shards": 20, **arguments},
        )
        print("built")
    except tfrds.TfrdsError as error:
        print(error)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
