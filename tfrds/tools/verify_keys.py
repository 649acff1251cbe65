"""Verifies what lies beside a split's shards: its index and its keys.

Gets the build record and a split, gives a `SplitCheck`: faults, and what is whole enough to be
used for more. `verify.py` hands the index on to the shards, and names examples by their keys.
"""

import dataclasses
import hashlib
import itertools
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np
import xxhash

from tfrds.disk.build_record import BuildRecord
from tfrds.disk.columns import ColumnSpec
from tfrds.disk.index import ROW, map_array, open_index
from tfrds.disk.keys import Keys, open_keys
from tfrds.disk.layout import RECORD_FILE, SplitFiles
from tfrds.errors import DatasetError
from tfrds.tools.faults import MAX_FAULTS, Fault
from tfrds.tools.verify_columns import check_columns
from tfrds.tools.verify_files import SplitRecord, hash_fault

# Keys are taken out of their blob by so many at once.
_BLOCK = 16_384


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitCheck:
    """One split's index and keys.

    Attributes:
      files: their paths.
      faults: of them.
      index: the path, None where it cannot be used.
      columns: those that can be used.
      keys: None where they cannot be used, or were not looked into.
      is_unchanged: whether the hashes of index and keys are right.
    """

    files: SplitFiles
    faults: tuple[Fault, ...]
    index: pathlib.Path | None
    columns: tuple[ColumnSpec, ...]
    keys: Keys | None
    is_unchanged: bool

    def key(self, row: int) -> str | None:
        """Returns the key of an example, None where it is not known."""
        return None if self.keys is None else self.keys[row].decode(errors="backslashreplace")


def check_split(record: BuildRecord, split: str, said: SplitRecord, *, fast: bool) -> SplitCheck:
    """Checks the index, the keys and the columns of a split as far as one split tells.

    Args:
      record: of the build.
      split: its name.
      said: what the record says of it.
      fast: only hashes.
    """
    files = record.split_files(split)
    paths = {"index": files.index, "keys": files.keys, "key_offsets": files.key_offsets}
    found = {name: hash_fault(path, said.sha256[name]) for name, path in paths.items()}
    faults = [fault for fault, _ in found.values() if fault]
    # Never mapped where it could not be read: a page that cannot be had kills the process.
    is_read = {name: is_read and not fast for name, (_, is_read) in found.items()}
    index, keys = None, None
    shard_lengths = [count for _, _, count in record.shards(split)]
    if is_read["index"]:
        try:
            open_index(files.index, shard_lengths)
            index = files.index
        except DatasetError as error:
            faults.append(_fault(files, error))
    if is_read["keys"] and is_read["key_offsets"]:
        try:
            keys = open_keys(files.keys, files.key_offsets, sum(shard_lengths))
            if wrong := list(itertools.islice(_offset_faults(files, keys), MAX_FAULTS)):
                faults += wrong
                keys = None
        except DatasetError as error:
            faults.append(_fault(files, error))
    column_faults, columns = check_columns(record, split, said)
    faults += column_faults
    return SplitCheck(
        files=files,
        faults=tuple(faults),
        index=index,
        columns=() if fast else columns,
        keys=keys,
        is_unchanged=not any(fault for fault, _ in found.values()),
    )


def _fault(files: SplitFiles, error: DatasetError) -> Fault:
    """Returns the error of a file that cannot be opened, without the folder and the advice."""
    text = str(error)
    path = next(
        path
        for path in (files.index, files.keys, files.key_offsets)
        if text.startswith(f"{path}: ")
    )
    what = text.removeprefix(f"{path}: ").partition(" Build the dataset")[0]
    return Fault(file=path.name, what=what)


def _offset_faults(files: SplitFiles, keys: Keys) -> Iterator[Fault]:
    """Yields where the offsets do not start at 0 or go back."""
    offsets = keys.offsets
    if offsets[0] != 0:
        yield Fault(
            file=files.key_offsets.name, what=f"offset 0: expected 0, found {int(offsets[0]):,}"
        )
    for row in np.flatnonzero(offsets[1:] < offsets[:-1]).tolist():
        yield Fault(
            file=files.key_offsets.name,
            what=f"offset {row + 1:,}: expected at least {int(offsets[row]):,}, found "
            f"{int(offsets[row + 1]):,}",
        )


def key_faults(record: BuildRecord, checks: Mapping[str, SplitCheck]) -> Iterator[Fault]:
    """Yields what is wrong with the keys themselves: encoding, equal ones, whose they are."""
    digests: dict[str, bytearray] = {split: bytearray() for split in checks}
    source = hashlib.sha256()
    for split, check in checks.items():
        for row, key, length, content in _keys(check):
            digests[split] += xxhash.xxh3_128_digest(key)
            source.update(b"%d %s %d %s" % (len(key), key, length, content))
            try:
                key.decode()
            except UnicodeDecodeError as error:
                yield Fault(
                    file=check.files.keys.name,
                    key=key.decode(errors="backslashreplace"),
                    what=f"example {row:,} of split {split!r}: expected UTF-8, found {error}",
                )
    yield from _equal_keys(checks, digests)
    said = record.content["source"]["digest"]
    # Where files were changed, which their hashes tell, it is another one of course.
    is_whole = all(check.is_unchanged and check.keys and check.index for check in checks.values())
    if is_whole and source.hexdigest() != said:
        yield Fault(
            file=RECORD_FILE,
            what=f"source: expected the digest {source.hexdigest()}, as of keys and index, found "
            f"{said}",
        )


def _keys(check: SplitCheck) -> Iterator[tuple[int, bytes, int, bytes]]:
    """Yields (row, key, bytes of the image, hash of the image), the last two by the index."""
    if check.keys is None:
        return
    count = len(check.keys)
    index = map_array(check.index, ROW, count) if check.index else np.zeros(count, ROW)
    for first in range(0, count, _BLOCK):
        ends = check.keys.offsets[first : first + _BLOCK + 1].tolist()
        blob = check.keys.blob[ends[0] : ends[-1]].tobytes()
        rows = index[first : first + _BLOCK]
        contents = rows["content"].tobytes()
        for row, length in enumerate(rows["image_length"].tolist()):
            key = blob[ends[row] - ends[0] : ends[row + 1] - ends[0]]
            yield first + row, key, length, contents[16 * row : 16 * row + 16]


def _equal_keys(
    checks: Mapping[str, SplitCheck], digests: Mapping[str, bytearray]
) -> Iterator[Fault]:
    """Yields the examples whose key another one has before them, in any split."""
    halves = np.frombuffer(b"".join(digests.values()), "<u8").reshape(-1, 2)
    order = np.lexsort(halves.T)
    ordered = halves[order]
    is_equal = (ordered[1:] == ordered[:-1]).all(axis=1)
    sizes = [len(digest) // 16 for digest in digests.values()]
    starts = dict(zip(digests, np.cumsum([0, *sizes]).tolist(), strict=False))
    for place in np.flatnonzero(is_equal).tolist():
        (split, row), (other, other_row) = (
            _place(int(order[number]), starts) for number in (place + 1, place)
        )
        yield Fault(
            file=checks[split].files.keys.name,
            key=checks[split].key(row),
            what=f"example {row:,} of split {split!r} has the key of example {other_row:,} of "
            f"split {other!r}",
        )


def _place(number: int, starts: Mapping[str, int]) -> tuple[str, int]:
    """Returns the split, and the row in it, of an example counted over all splits."""
    split = max((split for split in starts if starts[split] <= number), key=starts.__getitem__)
    return split, number - starts[split]
