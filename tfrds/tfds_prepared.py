"""Datasets that TFDS has prepared: where they lie, and what their metadata say.

Gets a name, gives a directory and TFDS's description of it; `tfds_source.py` reads the dataset.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tfrds.disk.layout import FEATURES_FILE, INFO_FILE, parse_version
from tfrds.errors import ConfigError, SourceError

# features.json names classes that TFDS imports, from whatever module it says.
_ALLOWED_MODULES = ("tensorflow_datasets.core.features.", "tfrds.features.")
_CLASS_NAME_FIELDS = ("pythonClassName", "python_class_name", "type", "proto_cls")
_MAX_FEATURES_BYTES = 2**20


def is_prepared(directory: pathlib.Path) -> bool:
    """Whether a directory holds a dataset, of TFDS or of tfrds."""
    return all((directory / file).is_file() for file in (FEATURES_FILE, INFO_FILE))


def find_prepared(name: str, roots: Sequence[pathlib.Path]) -> pathlib.Path | None:
    """Returns the directory of a dataset in the first root that has it; None where none has.

    Args:
      name: "mnist", "mnist:3.0.1", "name/config" or "name/config:1.0.0"; without a version the
        highest one is meant.
      roots: data directories.

    Raises:
      ConfigError: no such name can be, or it says none of several configurations.
    """
    folder, _, version = name.partition(":")
    if any(part in ("", ".", "..") for part in folder.split("/")):
        raise ConfigError(f"name: expected that of a dataset such as 'mnist:3.0.1', got {name!r}.")
    for root in roots:
        found = _versions(root / folder) or _versions_of_config(root / folder)
        matching = [number for number, path in found.items() if version in ("", path.name)]
        if matching:
            return found[max(matching)]
    return None


def _versions_of_config(folder: pathlib.Path) -> dict[tuple[int, int, int], pathlib.Path]:
    """Returns the versions of a dataset's only configuration, by their numbers."""
    configs = [child for child in _folders(folder) if _versions(child)]
    if len(configs) > 1:
        raise ConfigError(
            f"name: {folder.name!r} has the configurations "
            f"{sorted(config.name for config in configs)}. Pass one as '{folder.name}/NAME'."
        )
    return _versions(configs[0]) if configs else {}


def _versions(folder: pathlib.Path) -> dict[tuple[int, int, int], pathlib.Path]:
    numbered = ((parse_version(child.name), child) for child in _folders(folder))
    return {number: child for number, child in numbered if number and is_prepared(child)}


def _folders(folder: pathlib.Path) -> list[pathlib.Path]:
    return [child for child in folder.iterdir() if child.is_dir()] if folder.is_dir() else []


def read_tfds_info(directory: pathlib.Path) -> Any:
    """Returns TFDS's description of a dataset, after a look at which classes it would import.

    Raises:
      SourceError: damaged, of classes that are not TFDS's, or not of TFRecord files.
    """
    _check_classes(directory / FEATURES_FILE)
    import tensorflow_datasets as tfds

    try:
        info = tfds.builder_from_directory(directory).info
    except Exception as error:  # protobuf, TFDS's own, and whatever wrong values make of them
        raise SourceError(
            f"{directory}: its metadata cannot be read: {error!r}. Copy the dataset again."
        ) from error
    if info.file_format is not tfds.core.FileFormat.TFRECORD:
        raise SourceError(
            f"{directory}: is stored as {info.file_format.value}, expected tfrecord. Prepare it "
            'again with tfds.builder(name, file_format="tfrecord").'
        )
    return info


def _check_classes(path: pathlib.Path) -> None:
    """Raises SourceError unless features.json can be read and names TFDS's own classes only."""
    try:
        if path.stat().st_size > _MAX_FEATURES_BYTES:
            raise SourceError(f"{path}: larger than {_MAX_FEATURES_BYTES:,} bytes, so not read.")
        names = _class_names(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"{path}: cannot be read: {error}. Copy the dataset again.") from error
    foreign = sorted(name for name in names if not name.startswith(_ALLOWED_MODULES))
    if foreign:
        raise SourceError(
            f"{path}: names the class {foreign[0]!r}, expected only those of TFDS. It was not "
            "imported. Prepare the dataset again with TFDS's own features."
        )


def _class_names(content: Any) -> set[str]:
    """Returns all names in features.json that TFDS would import, at any depth."""
    if isinstance(content, list):
        return set().union(*map(_class_names, content))
    if not isinstance(content, Mapping):
        return set()
    names = {str(content[field]) for field in _CLASS_NAME_FIELDS if field in content}
    return names.union(*map(_class_names, content.values()))
