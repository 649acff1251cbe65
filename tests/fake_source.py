"""A source without images, for the tests of what is decided from references alone."""

import numpy as np

from tfrds.disk.keys import Keys
from tfrds.write.sources.base import References


class FakeSource:
    """References without images: every example of class 0, unless `labels` say other."""

    kind, is_in_memory = "fake", True

    def __init__(self, keys, labels=None, names=("a", "b"), **columns):
        self.references = References(
            keys=Keys.from_iterable(keys),
            labels=np.zeros(len(keys), np.int32) if labels is None else np.array(labels, np.int32),
            class_names=tuple(names),
            **{
                "sizes": np.full(len(keys), 100),
                "stamps": np.zeros(len(keys), np.uint64),
                "shape": (4, 5, 3),
                **columns,
            },
        )

    def scan(self):
        return self.references

    def inputs(self, rows):
        raise NotImplementedError
