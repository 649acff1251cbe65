"""Where datasets lie: the data directories that are looked through, and finding one by name.

Gets a name, configuration and version, gives a directory. `by_name.py`, `image_builder.py`, the
provider and the command line ask here; no TFDS and no TensorFlow are imported for it.
"""

import difflib
import os
import pathlib
import sys
from collections.abc import Iterator

from tfrds.disk.commit import unfinished_builds
from tfrds.disk.layout import find_configs, find_versions, parse_version, staged_versions
from tfrds.errors import DatasetError

# Directories that this process built in or loaded from, in the order of their first use.
_used: dict[pathlib.Path, None] = {}

_LISTED = 10


def remember_data_dir(data_dir: os.PathLike[str] | str) -> None:
    """Lets later loads by name alone look into `data_dir` too."""
    _used[pathlib.Path(os.path.abspath(os.path.expanduser(data_dir)))] = None


def default_data_dir() -> pathlib.Path:
    """Returns where TFDS keeps datasets.

    Source: tensorflow_datasets/core/constants.py, which reads this at import.
    """
    constants = sys.modules.get("tensorflow_datasets.core.constants")
    path = (
        constants.DATA_DIR
        if constants
        else os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    )
    return pathlib.Path(os.path.expanduser(path))


def data_dirs() -> list[pathlib.Path]:
    """Returns where to look: TFDS's directory, those added to it, those this process used."""
    return list(dict.fromkeys([*_known_dirs(), *_used]))


def _known_dirs() -> list[pathlib.Path]:
    """Returns TFDS's directory and those that `tfds.core.add_data_dir` added to it."""
    added = getattr(
        sys.modules.get("tensorflow_datasets.core.utils.file_utils"), "_REGISTERED_DATA_DIRS", ()
    )
    paths = sorted(pathlib.Path(os.path.expanduser(path)) for path in added)
    return [path.absolute() for path in (default_data_dir(), *paths)]


def find_dataset(
    name: str,
    *,
    config: str | None = None,
    version: str | None = None,
    data_dir: os.PathLike[str] | str | None = None,
) -> pathlib.Path | None:
    """Returns the directory of a dataset's highest matching version, None where there is none.

    Args:
      name: of the dataset.
      config: of the dataset; None: the dataset has none, or only one.
      version: "1.2.3", or with wildcards "1.*.*"; None: any.
      data_dir: where to look; None: in `data_dirs()`.

    Raises:
      DatasetError: several data directories hold it, or several configurations.
    """
    found = {
        root: path
        for root in roots_of(data_dir)
        if (path := _find_in(root / name, config, version))
    }
    home = _only(name, list(found))
    return found[home] if home else None


def find_home(name: str) -> pathlib.Path | None:
    """Returns the data directory that holds a dataset, in any version and configuration.

    Raises:
      DatasetError: several do.
    """
    return _only(
        name,
        [root for root in data_dirs() if find_versions(root / name) or find_configs(root / name)],
    )


def roots_of(data_dir: os.PathLike[str] | str | None) -> list[pathlib.Path]:
    """Returns where to look: in `data_dir`, or where it is None in `data_dirs()`."""
    return [pathlib.Path(os.path.expanduser(data_dir)).absolute()] if data_dir else data_dirs()


def _only(name: str, roots: list[pathlib.Path]) -> pathlib.Path | None:
    """Returns the one of `roots` that a name means.

    A directory that this process merely used once gives way to those that TFDS knows, so that
    reading a copy changes nothing for later lines; a link to a directory is no second one.
    """
    distinct = list({root.resolve(): root for root in reversed(roots)}.values())[::-1]
    known = _known_dirs()
    roots = [root for root in distinct if root in known] or distinct
    if len(roots) > 1:
        raise DatasetError(
            f"{name}: found in several data directories: {[str(root) for root in roots]}. Pass "
            "data_dir=."
        )
    return roots[0] if roots else None


def not_found(
    name: str, version: str | None, data_dir: os.PathLike[str] | str | None
) -> DatasetError:
    """Returns the error for a dataset that `find_dataset` did not find.

    Where it looked, and what is near.
    """
    roots = roots_of(data_dir)
    wanted = f"{name}:{version}" if version else name
    names = sorted({found for root in roots for found in _names(root)})
    if name in names:
        versions = sorted({found for root in roots for found in find_versions(root / name)})
        hint = f" It has the versions {versions}."
    else:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        if names:
            hint += f" Found there: {names[:_LISTED]}{' and more' if len(names) > _LISTED else ''}."
    hint += "".join(_unfinished(root / name) for root in roots)
    return DatasetError(f"{wanted}: no such dataset in {[str(root) for root in roots]}.{hint}")


def _unfinished(folder: pathlib.Path) -> str:
    """Returns what to say of builds that were interrupted, empty where there are none."""
    return "".join(
        f" A build of version {target.name} in {folder} was interrupted"
        f"{'' if planned is None else f' with {finished:,} of {planned:,} shards finished'}: the "
        "same build goes on from there, `tfrds clean` removes it."
        for target in staged_versions(folder)
        for finished, planned in unfinished_builds(target)
    )


def _names(root: pathlib.Path) -> Iterator[str]:
    try:
        children = list(root.iterdir())
    except OSError:
        return
    yield from (child.name for child in children if find_versions(child) or find_configs(child))


def _find_in(
    directory: pathlib.Path, config: str | None, version: str | None
) -> pathlib.Path | None:
    if config is None and not find_versions(directory):
        configs = find_configs(directory)
        if len(configs) > 1:
            raise DatasetError(f"{directory}: has the configurations {configs}. Choose one.")
        config = configs[0] if configs else None
    if config is not None:
        directory = directory / config
    matching = [
        found for found in find_versions(directory) if version is None or _matches(found, version)
    ]
    return directory / matching[-1] if matching else None


def _matches(found: str, wanted: str) -> bool:
    parts = wanted.split(".")
    return len(parts) == 3 and all(
        part in ("*", str(number))
        for part, number in zip(parts, parse_version(found) or (), strict=False)
    )
