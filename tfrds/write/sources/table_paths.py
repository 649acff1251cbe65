"""Images that a table names by their paths: found, kept inside the root, and sized.

Gets the column of paths, gives keys, sizes and stamps; `manifest.py` puts them into references, and
workers read the files as they do those of `ImageFolder`.
"""

import array
import difflib
import functools
import os
import posixpath
import re
import stat
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.keys import Keys
from tfrds.write.sources.class_tree import key_of
from tfrds.write.sources.file_inputs import FileInputs
from tfrds.write.sources.stamps import mix_stamps
from tfrds.write.sources.tables import BadRows, Table, cells, shown

if TYPE_CHECKING:
    import pyarrow as pa

# An empty part, "." or "..": only such paths need to be looked at part by part.
_ODD_PART = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")


class PathImages:
    """The files that a column of paths names.

    Args:
      table: that the column is of.
      name: of the column.
      column: of text.
      root: folder that relative paths start from, after the prefix of each file of the table.
      has_own_root: whether the user gave it, so that the table's files have no say.

    Attributes:
      keys: paths below the root, NFC, "/" between their parts.
      sizes: int64 [n], bytes of the files.
      stamps: uint64 [n], others where a file's size or time of change is.

    Raises:
      SourceError: a path that is empty, leads out of the root, or names no file.
    """

    def __init__(
        self,
        table: Table,
        name: str,
        column: "pa.ChunkedArray",
        root: "os.PathLike[str] | str",
        *,
        has_own_root: bool,
    ) -> None:
        self._table = table
        self._root = os.path.abspath(os.path.expanduser(os.fspath(root)))
        self._real_root = os.path.realpath(self._root)
        self._has_own_root = has_own_root
        self._sizes = array.array("q")
        self._times = array.array("q")  # of the last change, in nanoseconds
        self._empty = BadRows(table, name, "expected a path", "Fill it, or remove the row.")
        self._outside = BadRows(
            table,
            name,
            f"expected a path below {self._root}",
            "Pass root= with a folder that all images lie below.",
        )
        self._missing = BadRows(
            table,
            name,
            f"expected a file below {self._root}",
            "Correct the path, or pass root= with the folder that paths start from.",
        )
        self._paths = Keys.from_iterable(self._find(column))
        self._empty.check()
        self._outside.check()
        self._missing.check()
        self.keys = (
            self._paths
            if self._paths.is_ascii
            else Keys.from_iterable(key_of(path) for path in self._paths)
        )
        self.sizes = np.array(self._sizes, np.int64)
        self.stamps = mix_stamps(self.sizes, np.array(self._times, np.int64))
        del self._sizes, self._times

    def inputs(self, rows: NDArray[np.int64]) -> FileInputs:
        """Returns the files at `rows`."""
        return FileInputs(os.fsencode(self._root), list(self._paths.take(rows)))

    def _find(self, column: "pa.ChunkedArray") -> Iterator[bytes]:
        """Yields the native path of each row's file below the root."""
        files = self._table.files
        prefixes = [] if files is None or self._has_own_root else [f.prefix for f in files.files]
        starts = self._table.starts.tolist()
        part, prefix = -1, ""
        for row, text in enumerate(cells(column)):
            while row >= starts[part + 1]:
                part += 1
                prefix = prefixes[part] if prefixes else ""
            yield os.fsencode(self._file(row, text, prefix) or "")

    def _file(self, row: int, text: str | None, prefix: str) -> str | None:
        """Returns the path of a row's file below the root, None where there is none."""
        if not text:
            self._empty.add(row, "an empty cell")
            return None
        if (path := self._below(text, prefix)) is None:
            self._outside.add(row, shown(text))
            return None
        status, path = self._status(path)
        if status is None:
            self._missing.add(row, shown(text) + self._hint(text, path))
            return None
        self._sizes.append(status.st_size)
        self._times.append(status.st_mtime_ns)
        return path

    def _below(self, text: str, prefix: str) -> str | None:
        """Returns a path relative to the root, None where it leads out of it."""
        if text.startswith("/"):
            path = "/" + posixpath.normpath(text).lstrip("/")
            for root in (self._root, self._real_root):
                above = root.rstrip("/") + "/"
                if path.startswith(above):
                    return path[len(above) :]
            return None
        path = prefix + text
        if _ODD_PART.search(path):
            path = posixpath.normpath(path)
            if path in (".", "..") or path.startswith("../"):
                return None
        return path

    def _status(self, path: str) -> tuple[os.stat_result | None, str]:
        """Returns (the status of a file, the path that it has on this disk)."""
        if (status := _file_status(f"{self._root}/{path}")) is not None:
            return status, path
        # Tables and disks spell the same name differently: Windows's separators, and letters with
        # accents in one character or two.
        slashed = path.replace("\\", "/")
        forms = [slashed, *(unicodedata.normalize(form, slashed) for form in ("NFC", "NFD"))]
        for form in dict.fromkeys(forms):
            if form != path and not _ODD_PART.search(form):
                if (status := _file_status(f"{self._root}/{form}")) is not None:
                    return status, form
        return None, path

    def _hint(self, text: str, path: str) -> str:
        """Returns what may be meant, for the first file that is missing."""
        if self._missing.count:
            return ""
        if "://" in text:
            return "; addresses must be downloaded first"
        if os.path.exists(f"{self._root}/{path}"):
            return "; this is no file"
        folder, _, last = path.rpartition("/")
        names = _listed(f"{self._root}/{folder}")
        # Tables of photographs often leave out the ending.
        close = sorted(name for name in names if name.rpartition(".")[0] == last)
        close = close or difflib.get_close_matches(last, names, n=1)
        return f"; did you mean {posixpath.join(folder, close[0])!r}?" if close else ""


def _file_status(path: str) -> os.stat_result | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return None
    return status if stat.S_ISREG(status.st_mode) else None


@functools.lru_cache(maxsize=1)
def _listed(folder: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(folder)))
    except (OSError, ValueError):
        return ()
