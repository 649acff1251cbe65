"""A dataset as it is named on the command line: `name`, `name:1.0.0`, `name/config:1.0.0`.

Gets that text, gives the directory it means; TFDS, which reads the same form, is not imported for
it.
"""

import dataclasses
import os
import pathlib
import re

from tfrds.checks import check_dataset_name
from tfrds.data_dirs import find_dataset, not_found
from tfrds.errors import ConfigError

_FORM = re.compile(r"(?P<name>[^/:]*)(/(?P<config>[^/:]+))?(:(?P<version>[^/:]+))?")
_VERSION = re.compile(r"(\d+|\*)\.(\d+|\*)\.(\d+|\*)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetName:
    """The parts of a dataset's name.

    Attributes:
      name: of the dataset.
      config: its configuration, None where none was given.
      version: "1.2.3", or with wildcards "1.*.*"; None where none was given.
    """

    name: str
    config: str | None
    version: str | None


def parse_dataset_name(text: str) -> DatasetName:
    """Returns the parts of `name[/config][:version]`.

    Raises:
      ConfigError: another form, or a part that names no dataset: above all none that leads out of
        the data directory.
    """
    match = _FORM.fullmatch(text)
    if not match:
        raise ConfigError(
            f'name: expected "name", "name:1.0.0" or "name/config:1.0.0", got {text!r}.'
        )
    parts = DatasetName(**match.groupdict())
    check_dataset_name(parts.name)
    if parts.config is not None and parts.config.startswith("."):
        raise ConfigError(f"name: a configuration does not start with a dot, got {text!r}.")
    if parts.version is not None and not _VERSION.fullmatch(parts.version):
        raise ConfigError(
            f'name: expected a version such as "1.0.0" or "1.*.*" after the colon, got {text!r}.'
        )
    return parts


def find_directory(text: str, data_dir: os.PathLike[str] | str | None) -> pathlib.Path:
    """Returns the directory of the highest version that `text` names.

    Args:
      text: `name[/config][:version]`.
      data_dir: where to look; None: TFDS's own.

    Raises:
      ConfigError: `text` has another form.
      DatasetError: no such dataset; the message says where it was looked for and what is near.
    """
    wanted = parse_dataset_name(text)
    directory = find_dataset(
        wanted.name, config=wanted.config, version=wanted.version, data_dir=data_dir
    )
    if directory is None:
        raise not_found(wanted.name, wanted.version, data_dir)
    return directory
