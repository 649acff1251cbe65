"""A source of one's own: images in a list, of any kind; an exception is raised when it is read."""

import numpy as np

from tfrds.disk.keys import Keys
from tfrds.write.sources.base import References


class ListedSource:
    """Images under the keys "0", "1", ..., or `keys`; the class of each is its number modulo 2."""

    kind = "listed"
    is_in_memory = False

    def __init__(self, values, keys=None):
        self.values = list(values)
        self.keys = keys or [str(number) for number in range(len(self.values))]

    def scan(self):
        count = len(self.values)
        return References(
            keys=Keys.from_iterable(key.encode() for key in self.keys),
            labels=(np.arange(count) % 2).astype(np.int32),
            class_names=("even", "odd"),
            sizes=np.full(count, 100),
            stamps=np.zeros(count, np.uint64),
        )

    def inputs(self, rows):
        return ListedInputs([(self.keys[row], self.values[row]) for row in rows.tolist()])


class ListedInputs:
    """The images of one shard."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def name(self, position):
        return self.values[position][0]

    def read(self, position):
        value = self.values[position][1]
        if isinstance(value, Exception):
            raise value
        return value
