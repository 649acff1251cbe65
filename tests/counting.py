"""Counts what is read, for tests that promise to read little."""

import os


class CountingPread:
    """Counts what is read by place."""

    def __init__(self, monkeypatch):
        self.sizes = []
        self._pread = os.pread
        monkeypatch.setattr(os, "pread", self)

    def __call__(self, descriptor, count, offset):
        data = self._pread(descriptor, count, offset)
        self.sizes.append(len(data))
        return data
