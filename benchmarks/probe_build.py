"""Builds a folder; prints what memory the parent and its workers took, and how long what took.

Arguments: folder of images, data_dir. `million.py` runs it.
"""

import json
import os
import pathlib
import sys
import threading
import time

from tfrds.no_code import build_dataset
from tfrds.spec import BuildOptions
from tfrds.write.run import Execution

SECONDS_BETWEEN_LOOKS = 0.05


class Watch:
    """Looks at the anonymous memory of this process and of its children all the time."""

    def __init__(self) -> None:
        self.parent = self.worker = 0.0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
        while True:
            self.parent = max(self.parent, rss_anon_mb("self"))
            for pid in children.read_text(encoding="ascii").split():
                self.worker = max(self.worker, rss_anon_mb(pid))
            time.sleep(SECONDS_BETWEEN_LOOKS)


def rss_anon_mb(pid: str) -> float:
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0  # it just ended
    return max(
        (int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("RssAnon:")),
        default=0.0,
    )


def main() -> None:
    times = [time.perf_counter()]
    done = []

    def progress(count: int, total: int) -> None:
        if not done or count == total:
            times.append(time.perf_counter())
        done.append(count)

    watch = Watch()
    build_dataset(
        "million_files",
        sys.argv[1],
        BuildOptions(check="none", encoding="original", splits={"train": 0.9, "test": 0.1}),
        data_dir=sys.argv[2],
        version="1.0.0",
        overwrite=False,
        fingerprint="stat",
        execution=Execution(progress=progress),
    )
    times.append(time.perf_counter())
    first, last, end = times[1], times[-2], times[-1]
    result = {
        "parent_mb": watch.parent,
        "worker_mb": watch.worker,
        "plan_seconds": first - times[0],  # and the first shard
        "write_seconds": last - first,
        "index_seconds": end - last,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
