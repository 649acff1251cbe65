"""What is finished of a build that is not: one small file and the index rows of each shard.

`write/shards.py` adds a shard's entry when the shard is complete, `write/dataset.py` puts the
dataset together from the entries, and a build that goes on after a kill finds in them what need not
be done again. The journal lies beside the files of the dataset, never among them.
"""

import dataclasses
import hashlib
import json
import pathlib
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.index import ROW, Rows, map_array, write_array
from tfrds.errors import DatasetError

PLAN_FILE = "plan.json"

_CHECK = "check"

_MARK, _TEMPORARY = ".at", ".tmp"

# An entry lists what was skipped and repaired; the journal of a real shard stays far below it.
_MAX_BYTES = 256 * 2**20


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardEntry:
    """A finished shard.

    Attributes:
      task: digest of all that decides its bytes, inputs included.
      num_bytes: of the file.
      sha256: of the file, in hexadecimal digits.
      kept: int64 [n], which of the task's inputs became records.
      rows: the index rows of its records.
      repaired: (name, reason) of each image that was damaged, and re-encoded from what could be
        decoded.
      skipped: (position in the task, kind of fault, message) of each input that was left out.
      encoders: versions of the libraries that its bytes depend on, by name.
      has_reencoded: whether any image's bytes come from our encoders.
    """

    task: str
    num_bytes: int
    sha256: str
    kept: NDArray[np.int64]
    rows: Rows
    repaired: tuple[tuple[str, str], ...] = ()
    skipped: tuple[tuple[int, str, str], ...] = ()
    encoders: Mapping[str, str] = dataclasses.field(default_factory=dict)
    has_reencoded: bool = False


@dataclasses.dataclass(frozen=True)
class Journal:
    """The entries of one build.

    Attributes:
      folder: where they lie.
    """

    folder: pathlib.Path

    def add(self, shard: str, entry: ShardEntry) -> None:
        """Notes that a shard is finished; of several who do, the last one stands."""
        content = {
            "task": entry.task,
            "num_bytes": entry.num_bytes,
            "sha256": entry.sha256,
            "repaired": entry.repaired,
            "skipped": entry.skipped,
            "encoders": dict(entry.encoders),
            "has_reencoded": entry.has_reencoded,
        }
        content[_CHECK] = _check(content, entry.rows)
        rows = self._temporary(shard)
        write_array(rows, entry.rows)
        rows.rename(self._rows(shard))
        # Last, because it is what makes the shard count as finished.
        self._write_json(self._entry(shard), content)

    def get(self, shard: str, task: str | None = None) -> ShardEntry | None:
        """Returns a shard's entry, None where there is none, or none of this task.

        Args:
          shard: name of its file.
          task: digest; None: any.
        """
        content = self._read_json(self._entry(shard)) or {}
        try:
            rows = np.array(map_array(self._rows(shard), ROW, None))
        except DatasetError:
            return None
        if content.pop(_CHECK, None) != _check(content, rows):
            return None  # half-written by a machine that lost power: the shard is done again
        if task not in (None, content["task"]):
            return None
        skipped = tuple((position, kind, text) for position, kind, text in content["skipped"])
        return ShardEntry(
            task=content["task"],
            num_bytes=content["num_bytes"],
            sha256=content["sha256"],
            kept=np.setdiff1d(
                np.arange(len(rows) + len(skipped)), [position for position, *_ in skipped]
            ),
            rows=rows,
            repaired=tuple((name, reason) for name, reason in content["repaired"]),
            skipped=skipped,
            encoders=content["encoders"],
            has_reencoded=content["has_reencoded"],
        )

    def task_of(self, shard: str) -> str | None:
        """Returns the digest of the task that a finished shard was made from."""
        content = self._read_json(self._entry(shard))
        return str(content["task"]) if content and "task" in content else None

    def is_finished(self, path: pathlib.Path, task: str) -> ShardEntry | None:
        """Returns the entry of a shard whose file is there, whole, and made from this task."""
        entry = self.get(path.name, task)
        if entry is None:
            return None
        try:
            if path.stat().st_size != entry.num_bytes or file_sha256(path) != entry.sha256:
                return None
        except OSError:
            return None
        return entry

    def finished(self) -> list[str]:
        """Returns the names of the shards that have an entry."""
        if not self.folder.is_dir():
            return []
        return sorted(
            path.name.removesuffix(".json")
            for path in self.folder.glob("*.json")
            if path.name != PLAN_FILE
        )

    def remove(self, shard: str) -> None:
        """Forgets a shard."""
        for path in (self._entry(shard), self._rows(shard), self.mark(shard)):
            path.unlink(missing_ok=True)

    def keep_only(self, tasks: Iterable[tuple[str, str]], files: pathlib.Path) -> int:
        """Removes what these tasks do not need, and returns how many shards are finished.

        Args:
          tasks: (name of the shard, digest) of each.
          files: where the shards lie; all else is removed from there.
        """
        wanted = {name for name, task in tasks if self.task_of(name) == task}
        for name in self.finished():
            if name not in wanted:
                self.remove(name)
        for path in self.folder.iterdir():
            # Of workers that died: what they were at is no news of those that come. One of a
            # cluster may still be at work for the build before, and end just now.
            if path.suffix in (_MARK, _TEMPORARY):
                path.unlink(missing_ok=True)
        for path in files.iterdir():
            if path.name not in wanted:
                path.unlink(missing_ok=True)
        return len(wanted)

    def set_plan(self, num_shards: int) -> None:
        """Notes how many shards the build has, for whoever finds it unfinished."""
        self._write_json(self.folder / PLAN_FILE, {"num_shards": num_shards})

    def num_planned(self) -> int | None:
        """Returns how many shards the build has, None where that was not decided yet."""
        number = (self._read_json(self.folder / PLAN_FILE) or {}).get("num_shards")
        return number if isinstance(number, int) else None

    def mark(self, shard: str) -> pathlib.Path:
        """Returns the file in which a worker notes the input it is at."""
        return self.folder / f"{shard}{_MARK}"

    def marked(self, shard: str) -> int | None:
        """Returns the position of the input that a shard's worker was at."""
        try:
            return int(self.mark(shard).read_bytes())
        except (OSError, ValueError):
            return None

    def _entry(self, shard: str) -> pathlib.Path:
        return self.folder / f"{shard}.json"

    def _rows(self, shard: str) -> pathlib.Path:
        return self.folder / f"{shard}.npy"

    def _temporary(self, name: str) -> pathlib.Path:
        return self.folder / f"{name}.{secrets.token_hex(8)}{_TEMPORARY}"

    def _write_json(self, path: pathlib.Path, content: Any) -> None:
        temporary = self._temporary(path.name)
        temporary.write_text(json.dumps(content), encoding="ascii")
        temporary.rename(path)

    def _read_json(self, path: pathlib.Path) -> dict[str, Any] | None:
        try:
            if path.stat().st_size > _MAX_BYTES:
                return None
            content = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) else None


def _check(content: Mapping[str, Any], rows: Rows) -> str:
    """Returns a digest over an entry and its rows."""
    return hashlib.sha256(json.dumps(content).encode() + rows.tobytes()).hexdigest()


def file_sha256(path: pathlib.Path) -> str:
    """Returns the sha256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
