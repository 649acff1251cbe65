"""The names of a dataset's files, and of datasets: `<data_dir>/<name>[/<config>]/<version>/<file>`.

Everybody who writes or reads a dataset asks here for paths; none is ever taken from a file's
content.
"""

import dataclasses
import glob
import pathlib
import re
import secrets
from collections.abc import Iterator

RECORD_FILE = "tfrds.json"
FEATURES_FILE = "features.json"
INFO_FILE = "dataset_info.json"
STATISTICS_FILE = "tfrds-statistics.json"

# Begins the name of whatever lies beside a version while it is built.
_BUILD = ".tfrds-build-"

_VERSION_DIR = re.compile(r"(\d+)\.(\d+)\.(\d+)", re.ASCII)


@dataclasses.dataclass(frozen=True)
class SplitFiles:
    """The paths of one split's files.

    Attributes:
      directory: of the dataset's version.
      name: of the dataset.
      split: the split's name.
    """

    directory: pathlib.Path
    name: str
    split: str

    def shard(self, shard_index: int, num_shards: int) -> pathlib.Path:
        """Returns the path of one shard. Source: TFDS's `ShardedFileTemplate`."""
        return self.directory / (
            f"{self.name}-{self.split}.tfrecord-{shard_index:05d}-of-{num_shards:05d}"
        )

    @property
    def index(self) -> pathlib.Path:
        """The record index."""
        return self.directory / f"{self.name}-{self.split}.index.npy"

    @property
    def keys(self) -> pathlib.Path:
        """All keys, one after the other."""
        return self.directory / f"{self.name}-{self.split}.keys.npy"

    @property
    def key_offsets(self) -> pathlib.Path:
        """Where each key starts."""
        return self.directory / f"{self.name}-{self.split}.key_offsets.npy"

    def values(self, name: str) -> pathlib.Path:
        """Values beside the images, or where each of them starts: "labels", "label_offsets" ..."""
        return self.directory / f"{self.name}-{self.split}.{name}.npy"


def skipped_file(directory: pathlib.Path) -> pathlib.Path:
    """Returns the path of the list of inputs that a build left out; absent where there are none."""
    return directory / "skipped.jsonl"


def class_names_file(directory: pathlib.Path, label_key: str) -> pathlib.Path:
    """Returns the path of the class names, one a line.

    Source: TFDS's `FeaturesDict.save_metadata` and `ClassLabel.save_metadata`.
    """
    return directory / f"{label_key.replace('/', '.')}.labels.txt"


def staging_dir(target: pathlib.Path) -> pathlib.Path:
    """Returns where the version `target` is built: beside it, so that one rename makes it."""
    return target.parent / f"{_BUILD}{target.name}"


def staged_versions(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the versions below a dataset's folder that are being built, or were left unfinished.

    Args:
      folder: of the dataset, or of its configuration.
    """
    return sorted(
        folder / path.name.removeprefix(_BUILD)
        for path in _folders(folder)
        if path.name.startswith(_BUILD) and parse_version(path.name.removeprefix(_BUILD))
    )


def lock_file(target: pathlib.Path) -> pathlib.Path:
    """Returns the file that is locked while the version `target` is built or removed."""
    return target.parent / f"{_BUILD}{target.name}.lock"


def inputs_file(target: pathlib.Path) -> pathlib.Path:
    """Returns the file that says what the version `target` was built from: a cache of this place.

    It lies beside the version, not in it, since copies of a dataset have other inputs.
    """
    return target.parent / f".tfrds-inputs-{target.name}.npz"


def aside_dir(target: pathlib.Path) -> pathlib.Path:
    """Returns a new name for the version `target` when it is replaced or removed."""
    return target.parent / f".tfrds-old-{target.name}-{secrets.token_hex(4)}"


def leftovers(target: pathlib.Path) -> list[pathlib.Path]:
    """Returns what killed builds and removals of the version `target` left beside it."""
    staging = staging_dir(target)
    asides = target.parent.glob(f".tfrds-old-{glob.escape(target.name)}-*")
    return [*([staging] if staging.is_dir() else []), *sorted(asides)]


def is_dataset(directory: pathlib.Path) -> bool:
    """Whether a finished tfrds dataset lies in `directory`.

    An empty or foreign directory is none.
    """
    return all((directory / file).is_file() for file in (RECORD_FILE, FEATURES_FILE, INFO_FILE))


def parse_version(name: str) -> tuple[int, int, int] | None:
    """Returns (major, minor, patch) of a version directory's name, None for any other name."""
    match = _VERSION_DIR.fullmatch(name)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def find_versions(directory: pathlib.Path) -> list[str]:
    """Returns the versions of tfrds datasets directly below `directory`, the highest last."""
    versions = []
    for child in _folders(directory):
        version = parse_version(child.name)
        if version and is_dataset(child):
            versions.append((version, child.name))
    return [name for _, name in sorted(versions)]


def find_configs(directory: pathlib.Path) -> list[str]:
    """Returns the configurations below a dataset's directory that hold at least one version."""
    return sorted(
        child.name
        for child in _folders(directory)
        if not parse_version(child.name) and not child.name.startswith(".") and find_versions(child)
    )


def _folders(directory: pathlib.Path) -> Iterator[pathlib.Path]:
    try:
        children = list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    yield from (child for child in children if child.is_dir())
