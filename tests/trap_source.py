"""A source whose images do something to the worker process that reads them."""

import os
import signal
import time

import tfrds

# How a file ends that kills its reader, or keeps it until the file is mended.
DEADLY, ENDLESS = b"deadly", b"endless"


class FolderOfTraps(tfrds.sources.ImageFolder):
    """A folder of images, and of traps among them."""

    def inputs(self, rows):
        return _Traps(super().inputs(rows))


class _Traps:
    def __init__(self, inputs):
        self._inputs = inputs

    def __len__(self):
        return len(self._inputs)

    def name(self, position):
        return self._inputs.name(position)

    def read(self, position):
        while (data := self._inputs.read(position)).endswith(ENDLESS):
            time.sleep(0.02)
        if data.endswith(DEADLY):
            os.kill(os.getpid(), signal.SIGKILL)
        return data


def put_trap(path, kind):
    """Makes an image a trap, and returns a function that mends it; size and times stay the same."""
    data, status = path.read_bytes(), path.stat()

    def write(content):
        new = path.parents[1] / f".{path.name}"  # where nobody looks for images
        new.write_bytes(content)
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
        new.replace(path)

    write(data[: -len(kind)] + kind)
    return lambda: write(data)
