"""Prints this process's peak of anonymous memory in each epoch, above what imports take.

Arguments: name, data_dir, options of tfrds.load as JSON, split, epochs. `memory.py` runs it.
"""

import json
import pathlib
import sys
import threading

import tensorflow as tf  # noqa: F401  its memory is not ours
import tensorflow_datasets as tfds  # noqa: F401

import tfrds

STATUS = pathlib.Path("/proc/self/status")
SECONDS_BETWEEN_LOOKS = 0.002


class Watch:
    """Looks at the memory all the time, in a thread of its own."""

    def __init__(self) -> None:
        self._peak = rss_anon_mb()
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def take_peak(self) -> float:
        """Returns the peak since the last call."""
        peak = max(self._peak, rss_anon_mb())
        self._peak = 0.0
        return peak

    def stop(self) -> None:
        self._is_done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_done.wait(SECONDS_BETWEEN_LOOKS):
            self._peak = max(self._peak, rss_anon_mb())


def rss_anon_mb() -> float:
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"{STATUS}: no line RssAnon.")


def main() -> None:
    name, data_dir, options, split = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
    load = tfrds.load
    imported = rss_anon_mb()
    watch = Watch()
    dataset = load(
        name, data_dir=data_dir, split=split, shuffle=True, as_supervised=True, **options
    )
    peaks = []
    for _ in range(int(sys.argv[5])):
        for _ in dataset:
            pass
        peaks.append(watch.take_peak() - imported)
    watch.stop()
    print(json.dumps({"imported_mb": imported, "peaks_mb": peaks}))


if __name__ == "__main__":
    main()
