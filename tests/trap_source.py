"""A source whose images do something to the worker process that reads them."""

import os
import signal
import time

import tfrds

# How a file ends, behind its image, that kills its reader, or keeps it for a minute.
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
        data = self._inputs.read(position)
        if data.endswith(DEADLY):
            os.kill(os.getpid(), signal.SIGKILL)
        if data.endswith(ENDLESS):
            time.sleep(60)
        return data
