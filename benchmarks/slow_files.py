#!/usr/bin/env python3
"""A directory seen through a mount on which each read takes a time, as on a network disk.

Run as a script it serves the mount until that is taken away, and prints what was asked of it. It is
a process of its own: one that waits for itself, for a page of a mapped file, would wait for ever.
Reads wait side by side, up to `AT_ONCE` of them; the kernel keeps what it read, and reads ahead, as
it does for NFS. Needs Linux, /dev/fuse, the right to mount, and libfuse (Debian: fuse3).
"""

import argparse
import contextlib
import dataclasses
import errno
import gc
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

# As many as a client of NFS keeps in flight.
AT_ONCE = 64
_START_SECONDS = 30.0
# Files that are still open keep it alive.
_END_SECONDS = 2.0


class FuseUnavailableError(RuntimeError):
    """This machine cannot mount."""


@dataclasses.dataclass
class Mount:
    """A directory that is served slowly.

    Attributes:
      path: of the mount.
      asked: {"reads", "bytes", "most_at_once"}, once it is taken away; empty if files of it were
        still open.
    """

    path: pathlib.Path
    asked: dict[str, int] = dataclasses.field(default_factory=dict)


@contextlib.contextmanager
def mounted(source: pathlib.Path, point: pathlib.Path, milliseconds: float) -> Iterator[Mount]:
    """Shows `source` at `point`, with nothing of it in memory; each read takes `milliseconds`.

    Raises:
      FuseUnavailableError: this machine cannot mount.
    """
    point.mkdir(parents=True, exist_ok=True)
    arguments = [str(source), str(point), f"--milliseconds={milliseconds}"]
    server = subprocess.Popen(
        [sys.executable, __file__, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_for(server, point)
        mount = Mount(point)
        yield mount
    finally:
        gc.collect()  # datasets that are gone, but hold files open
        subprocess.run(["umount", "--lazy", str(point)], capture_output=True, check=False)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(_END_SECONDS)
        server.kill()
        output, _ = server.communicate()
    mount.asked = json.loads(output or "{}")


def _wait_for(server: "subprocess.Popen[str]", point: pathlib.Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while not point.is_mount():
        if server.poll() is not None or time.monotonic() > end:
            server.kill()
            lines = server.communicate()[1].strip().splitlines() or ["nothing happened"]
            raise FuseUnavailableError(f"no FUSE here: {lines[-1]}")
        time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("point", type=pathlib.Path)
    parser.add_argument("--milliseconds", type=float, required=True)
    args = parser.parse_args()
    # Else it takes libfuse 2 where that is there, which knows no `max_threads`.
    os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")
    try:
        import mfusepy
    except (ImportError, OSError) as error:  # no package, or no libfuse
        sys.exit(str(error))
    asked = {"reads": 0, "bytes": 0, "most_at_once": 0}
    lock = threading.Lock()
    waiting = 0

    class SlowFiles(mfusepy.Operations):  # type: ignore[misc]
        use_ns = True

        def init_with_config(self, connection: Any, config: Any) -> None:
            # Of more requests than these, by default 12, FUSE drops small ones that were advised:
            # no other file system does.
            connection.max_background = connection.congestion_threshold = 1024

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            status = os.lstat(place(path))
            names = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_ino")
            times = {f"st_{kind}time": getattr(status, f"st_{kind}time_ns") for kind in "amc"}
            return {name: getattr(status, name) for name in names} | times

        def readdir(self, path: str, fh: int) -> list[str]:
            return [".", "..", *os.listdir(place(path))]

        def open(self, path: str, flags: int) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            return os.open(place(path), os.O_RDONLY)

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            nonlocal waiting
            with lock:
                waiting += 1
                asked["reads"] += 1
                asked["bytes"] += size
                asked["most_at_once"] = max(asked["most_at_once"], waiting)
            time.sleep(args.milliseconds / 1000)
            data = os.pread(fh, size, offset)
            with lock:
                waiting -= 1
            return data

        def release(self, path: str, fh: int) -> int:
            os.close(fh)
            return 0

    def place(path: str) -> str:
        return f"{args.source}{path}"

    mfusepy.FUSE(
        SlowFiles(),
        str(args.point),
        foreground=True,
        ro=True,
        fsname="slow_files",
        auto_cache=True,  # keeps what was read of a file that did not change, as NFS does
        max_threads=AT_ONCE,
    )
    sys.stdout.write(json.dumps(asked))


if __name__ == "__main__":
    main()
