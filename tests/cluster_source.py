"""A source that misbehaves in workers as told, for the tests of clusters: found by its name."""

import os
import pathlib
import signal

import images
import numpy as np

from tfrds.disk.keys import Keys
from tfrds.write.sources.base import References


class RiskySource:
    """PNGs of noise; before an image "kill" is read, the file of that name may end the worker.

    Args:
      folder: one file for each image, "good" or "kill"; "once" ends the worker one time.
    """

    kind, is_in_memory = "risky", False

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.names = sorted(path.name for path in self.folder.iterdir())

    def scan(self):
        count = len(self.names)
        return References(
            keys=Keys.from_iterable(name.encode() for name in self.names),
            labels=np.arange(count, dtype=np.int32) % 2,
            class_names=("a", "b"),
            sizes=np.full(count, 100),
            stamps=np.zeros(count, np.uint64),
            shape=(4, 5, 3),
        )

    def inputs(self, rows):
        return RiskyInputs(self.folder, [self.names[row] for row in rows])


class RiskyInputs:
    """Images of one shard."""

    def __init__(self, folder, names):
        self.folder = folder
        self.names = names

    def __len__(self):
        return len(self.names)

    def name(self, position):
        return self.names[position]

    def read(self, position):
        path = self.folder / self.names[position]
        what = path.read_text()
        if what == "once":
            path.write_text("good")
        if what in ("once", "kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        with open(self.folder.parent / "reads", "a") as file:
            file.write(f"{path.name}\n")
        if what == "bad":
            return b"no image"
        return images.encoded(images.noise(int(path.name), 4, 5))


def put_risky(folder, count=12, **changes):
    """Makes the folder of a `RiskySource`: `kill=[3]` lets image 3 kill its worker."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"{number:03}").write_text("good")
    for what, numbers in changes.items():
        for number in numbers:
            (folder / f"{number:03}").write_text(what)
    return RiskySource(folder)
