"""Builds a small dataset again and again, killed at each of the moments when files change.

`python killed_builds.py <folder> <step> <kind>` kills a build before its first, then before its
`1 + step`-th change of a file below the data directory, and so on, each in a process forked for it.
Then it builds again, and prints one JSON object for each moment: what was there after the kill, and
after the second build. Of the kind "overwrite" another dataset is there first.

All runs in the building process alone: so the moments are the same in every run.
"""

import hashlib
import json
import os
import pathlib
import signal
import sys

import images
from build_script import finished_shards, identity

import tfrds
from tfrds.write.executors import ThisProcess

# What Python tells of before it happens; reading is among them, which does no harm.
EVENTS = (
    "open",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.utime",
    "shutil.rmtree",
)

OPTIONS = {
    "encoding": "jpeg",
    "num_shards": 3,
    "on_error": "skip",
    "max_bad": 0.5,
}
KINDS = {
    "plain": OPTIONS,
    "drop": {**OPTIONS, "on_duplicate": "drop"},
    "overwrite": {**OPTIONS, "overwrite": True},
}


def in_a_fork(function):
    """Runs a function in a process of its own; returns how that ended, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def call_at_changes(data_dir, function):
    """Calls a function with the number of each change of a file below a folder, from 0."""
    count = 0

    def hook(event, arguments):
        nonlocal count
        is_below = event in EVENTS and any(
            isinstance(argument, str | os.PathLike) and data_dir in os.fspath(argument)
            for argument in arguments[:2]
        )
        if is_below:
            count += 1
            function(count - 1)

    sys.addaudithook(hook)


def make_source(folder):
    """Nine images, of which one is damaged and two hold the same pixels."""
    names = [f"{name}/{number}.png" for name in ("ant", "bee", "cat") for number in range(3)]
    source = images.put_images(folder, names, height=30, width=30)
    images.put(source / "ant" / "cut.png", (source / "ant" / "1.png").read_bytes()[:-15])
    images.put(source / "bee" / "copy.png", (source / "bee" / "1.png").read_bytes())
    return source


def digests(folder):
    """Returns the sha256 of every file below a folder."""
    files = images.files_below(folder).items()
    return {name: hashlib.sha256(data).hexdigest() for name, data in files}


class Rehearsal:
    """Builds of one kind.

    Args:
      root: a folder for all of them.
      kind: of `KINDS`.
    """

    def __init__(self, root, kind):
        self._root, self._options = root, KINDS[kind]
        self._source = make_source(root / "source")
        self._old = None
        if kind == "overwrite":
            names = ["dog/1.png", "dog/2.png", "eel/3.png"]
            self._old = images.put_images(root / "old", names)

    def begin(self, name):
        """Returns a data directory, with the dataset that is there first."""
        data_dir = self._root / name
        if self._old:
            in_a_fork(
                lambda: tfrds.build("pets", self._old, data_dir=data_dir, executor=ThisProcess())
            )
        return data_dir

    def build(self, data_dir):
        """Builds in this process."""
        tfrds.build(
            "pets", self._source, data_dir=data_dir, executor=ThisProcess(), **self._options
        )

    def count(self):
        """Returns how many changes a whole build makes."""
        data_dir = self.begin("count")
        numbers = []

        def run():
            call_at_changes(str(data_dir), numbers.append)
            self.build(data_dir)
            (self._root / "number").write_text(str(len(numbers)))

        in_a_fork(run)
        return int((self._root / "number").read_text())

    def kill_at(self, moment):
        """Kills a build at a moment, None: does not; then builds again; returns what was seen."""
        data_dir = self.begin(f"at_{moment}")
        target = data_dir / "pets" / "1.0.0"
        before = digests(target)

        def die(number):
            if number == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        def run():
            call_at_changes(str(data_dir), die)
            self.build(data_dir)

        code = in_a_fork(run)
        killed, finished = digests(target), finished_shards(data_dir)
        code_again = in_a_fork(lambda: self.build(data_dir))
        return {
            "moment": moment,
            "code": code,
            "before": before,
            "killed": killed,
            "finished": sorted(finished),
            "code_again": code_again,
            "again": digests(target),
            "redone": [name for name, was in finished.items() if identity(target / name) != was],
            "left": sorted(path.name for path in target.parent.iterdir()),
        }


def main(folder, step, kind):
    """Prints what was seen, first of a build that was not killed."""
    rehearsal = Rehearsal(pathlib.Path(folder), kind)
    rehearsal.build(rehearsal.begin("first"))  # imports what all forks use
    for moment in (None, *range(0, rehearsal.count(), int(step))):
        print(json.dumps(rehearsal.kill_at(moment)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
