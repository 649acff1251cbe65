"""The files of CIFAR-10 and CIFAR-100 in their binary version: found, sized, their labels read.

Gets a folder, gives the files and the class names; `cifar.py` makes a source of them.

Source: the CIFAR page, "Binary version": a record is 1 label byte (CIFAR-100: the coarse one, then
the fine one) and 3072 bytes, the planes of red, green and blue, each 32 x 32 row by row.
"""

import dataclasses
import pathlib

import numpy as np
import xxhash
from numpy.typing import NDArray

from tfrds.errors import SourceError
from tfrds.write.sources.base import check_distinct, clean_class_name

SIDE, CHANNELS = 32, 3
PIXEL_BYTES = SIDE * SIDE * CHANNELS

_MAX_NAMES_BYTES = 1 << 16
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

# The pickled version has these names without ".bin", and one of these beside them.
_PICKLED = ("batches.meta", "meta", "data_batch_1")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Version:
    """One of the two datasets.

    Attributes:
      name: of it.
      files: (file, split), in the order of the records.
      labels: names of the label bytes in front of the pixels.
      class_files: with the class names of each of them, one a line.
    """

    name: str
    files: tuple[tuple[str, str], ...]
    labels: tuple[str, ...]
    class_files: tuple[str, ...]

    @property
    def record_bytes(self) -> int:
        """Of each record."""
        return len(self.labels) + PIXEL_BYTES


CIFAR10 = Version(
    name="CIFAR-10",
    files=(
        *((f"data_batch_{number}.bin", "train") for number in range(1, 6)),
        ("test_batch.bin", "test"),
    ),
    labels=("label",),
    class_files=("batches.meta.txt",),
)

CIFAR100 = Version(
    name="CIFAR-100",
    files=(("train.bin", "train"), ("test.bin", "test")),
    labels=("coarse", "fine"),
    class_files=("coarse_label_names.txt", "fine_label_names.txt"),
)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """One file.

    Attributes:
      path: of it.
      record_bytes: of each record.
      labels: uint8 [n, number of label bytes].
      stamp: another number where the file may have changed.
    """

    path: pathlib.Path
    record_bytes: int
    labels: NDArray[np.uint8]
    stamp: int

    def check_labels(self, place: int, names: tuple[str, ...]) -> None:
        """Raises SourceError where a label is the number of no name; no names: nothing is known."""
        wrong = np.flatnonzero(self.labels[:, place] >= len(names))
        if names and len(wrong):
            record = int(wrong[0])
            raise SourceError(
                f"{self.path} record {record:,}: expected a class number from 0 to "
                f"{len(names) - 1} as byte {place}, got {self.labels[record, place]}; such records "
                f"in all: {len(wrong):,}. Copy the file again."
            )

    def stamps(self) -> NDArray[np.uint64]:
        """Returns a number for each record."""
        return np.uint64(self.stamp) ^ (np.arange(len(self.labels), dtype=np.uint64) * _GOLDEN)


def is_cifar(names: set[str]) -> bool:
    """Whether a folder of files with these names holds CIFAR, binary or pickled."""
    binary = any({file for file, _ in version.files} & names for version in (CIFAR10, CIFAR100))
    return binary or "batches.meta" in names or {"meta", "train", "test"} <= names


def find_version(folder: pathlib.Path) -> Version:
    """Returns which of the two a folder holds, all files of it.

    Raises:
      SourceError: none, or the pickled version, or a part of one.
    """
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    for version in (CIFAR10, CIFAR100):
        files = [file for file, _ in version.files]
        missing = [file for file in files if file not in names]
        if missing and len(missing) < len(files):
            raise SourceError(
                f"{folder}: expected all files of {version.name}, {missing} are missing. Unpack "
                "the download again."
            )
        if not missing:
            return version
    if names & set(_PICKLED):
        raise SourceError(
            f"{folder}: holds the Python version of CIFAR, which is not read: it is pickled, and "
            "unpickling runs code. Download the binary version, cifar-10-binary.tar.gz or "
            "cifar-100-binary.tar.gz."
        )
    raise SourceError(
        f"{folder}: expected the folder of CIFAR's binary version, with data_batch_1.bin or "
        f"train.bin in it, found {sorted(names)[:5] or 'nothing'}."
    )


def open_batch(folder: pathlib.Path, name: str, version: Version) -> Batch:
    """Returns a file with its labels.

    Raises:
      SourceError: it cannot be read, or is of a size that no records have.
    """
    path = folder / name
    try:
        status = path.stat()
        count, rest = divmod(status.st_size, version.record_bytes)
        if rest or not count:
            raise SourceError(
                f"{path}: expected records of {version.record_bytes:,} bytes as {version.name} has "
                f"them, found {status.st_size:,} bytes, which are {count:,} records and {rest:,} "
                "bytes. Copy it again."
            )
        mapped = np.memmap(path, np.uint8, "r", shape=(count, version.record_bytes))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}. Mend its access.") from error
    return Batch(
        path=path,
        record_bytes=version.record_bytes,
        labels=np.array(mapped[:, : len(version.labels)]),
        stamp=xxhash.xxh3_64_intdigest(f"{status.st_size} {status.st_mtime_ns}".encode()),
    )


def read_names(path: pathlib.Path) -> tuple[str, ...]:
    """Returns the class names of a file, one a line; none where there is no such file."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_NAMES_BYTES + 1)
        if len(data) > _MAX_NAMES_BYTES:
            raise SourceError(f"{path}: expected class names, one a line, found a large file.")
        lines = data.decode().splitlines()
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{path}: cannot be read: {error}. Copy it again.") from error
    names = [clean_class_name(line.strip(), str(path)) for line in lines if line.strip()]
    check_distinct(names, str(path))
    return tuple(names)
