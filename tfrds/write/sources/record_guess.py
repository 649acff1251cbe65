"""Looks at some records of TFRecord files, and says of each key what it holds and may mean.

Gets files, gives `RecordsFound`: `record_layout.py` chooses the image and the label by it, and
people read it where that cannot be decided.
"""

import dataclasses
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from tfrds.disk.foreign_records import Compression, find_compression, unpack
from tfrds.disk.window import FileWindow, Window, open_window
from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources.feature_guess import FeatureFound, FeatureLook
from tfrds.write.sources.record_files import RecordFile, find_files
from tfrds.write.sources.record_walk import Record, decode_key, explain, walk_examples

LOOKED_AT = 100  # records
_FILES = 10  # from which they are taken, where these have as many


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordsFound:
    """What some records hold.

    Attributes:
      num_files: that were looked at.
      num_records: that were looked at.
      features: by key.
      sizes: of each record, its single whole numbers by key, and the bytes or values of what may
        be pixels: which of them tell an image's height and width.
    """

    num_files: int
    num_records: int
    features: tuple[FeatureFound, ...]
    sizes: tuple[dict[str, int], ...] = dataclasses.field(repr=False, default=())

    def to_dict(self) -> dict[str, Any]:
        """Returns what was found as JSON values."""
        return {
            "num_files": self.num_files,
            "num_records": self.num_records,
            "features": [feature.to_dict() for feature in self.features],
        }

    def to_text(self) -> str:
        """Returns what was found, one key a line."""
        return "\n".join(feature.to_text(self.num_records) for feature in self.features)

    def get(self, key: str) -> FeatureFound | None:
        """Returns what a key holds; None where no record has it."""
        return next((feature for feature in self.features if feature.key == key), None)


def inspect_records(files: Any, *, compression: str | None = None) -> RecordsFound:
    """Looks at the first records of TFRecord files, about a hundred in all.

    Args:
      files: a path, a pattern, a list of these, or a dict of them by split.
      compression: "none" or "GZIP"; None: by what each file begins with.

    Raises:
      ConfigError: `files` is none of these.
      SourceError: no such file, or none of TFRecord, or a record is no `tf.train.Example`.
    """
    return look_at(find_files(files)[0], compression)


def look_at(files: Sequence[RecordFile], compression: str | None = None) -> RecordsFound:
    """Does what `inspect_records` does, of files that were found."""
    looks: dict[str, FeatureLook] = {}
    sizes: list[dict[str, int]] = []
    num_files = 0
    for file in files:
        most = min(-(-LOOKED_AT // min(len(files), _FILES)), LOOKED_AT - len(sizes))
        if not most:
            break
        num_files += 1
        before = len(sizes)
        for window, record in _first_records(file.path, most, compression):
            sizes.append(_add(looks, window, record, file.path))
        check_has_records(len(sizes) - before, file.path)
    features = tuple(looks[key].found() for key in sorted(looks))
    return RecordsFound(
        num_files=num_files, num_records=len(sizes), features=features, sizes=tuple(sizes)
    )


def undecided(text: str, found: RecordsFound) -> ConfigError:
    """Returns the error of what cannot be told from what was found, which it lists."""
    return ConfigError(
        f"{text}. Found in the first {found.num_records} records:\n{found.to_text()}"
    )


def check_compression(found: Compression, expected: str | None, name: str) -> None:
    """Raises SourceError where a file is compressed in another way than is said."""
    if expected not in (None, found):
        raise SourceError(
            f"{name}: expected compression={expected!r}, found {found!r}. Leave the argument out: "
            "each file is read as it is."
        )


def check_has_records(num_records: int, name: str) -> None:
    """Raises SourceError where a file has no record."""
    if not num_records:
        raise SourceError(f"{name}: expected at least one record, found none. Leave it out.")


def _first_records(
    path: str, most: int, compression: str | None
) -> Iterator[tuple[Window, Record]]:
    with open_window(path) as window:
        found = find_compression(window, path)
        check_compression(found, compression, path)
        if found == "none":
            for record in itertools.islice(walk_examples(window, path), most):
                yield window, record
            return
    with tempfile.TemporaryFile() as unpacked:
        unpack(path, unpacked, most)
        yield from _unpacked_records(unpacked, path)


def _unpacked_records(unpacked: BinaryIO, path: str) -> Iterator[tuple[Window, Record]]:
    unpacked.flush()
    window = FileWindow(unpacked.fileno(), unpacked.tell())
    for record in walk_examples(window, path):
        yield window, record


def _add(
    looks: dict[str, FeatureLook], window: Window, record: Record, name: str
) -> dict[str, int]:
    """Adds a record to what was found, and returns what it says of sizes."""
    sizes: dict[str, int] = {}
    try:
        for key, feature in record.features.items():
            text = decode_key(key)
            look = looks.setdefault(text, FeatureLook(text))
            size = look.add(window, feature)
            if size is not None:
                sizes[text] = size
    except (ValueError, OSError) as error:
        raise explain(error, window, name, record) from error
    return sizes
