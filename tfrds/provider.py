"""What lets `tfds.load` find datasets of tfrds by name, whichever package is imported first.

Gets a name from TFDS, gives a builder class. Nothing of TFDS is imported at the top: this module is
loaded in the middle of TFDS's own import.
"""

import importlib
from typing import Any

from tfrds.data_dirs import find_home, not_found
from tfrds.errors import DatasetError

# Classes that come with tfrds, by the module that registers them when TFDS asks for their name.
_OWN_CLASSES = {"tfrds_demo": "tfrds.demo"}


class Provider:
    """Answers TFDS for datasets that have no class: those that lie in a known data directory."""

    def has_dataset(self, name: str) -> bool:
        """Whether `tfds.load(name)` should open what lies on disk.

        A registered class always comes first.
        """
        from tfrds import tfds_compat

        if name in _OWN_CLASSES:
            importlib.import_module(_OWN_CLASSES[name])
        if tfds_compat.is_registered(name):
            return False
        try:
            return find_home(name) is not None
        except DatasetError:
            return True  # in several places: `get_builder_cls` says so

    def get_builder_cls(self, name: str) -> Any:
        """Returns a class that opens the dataset, any of its versions and configurations."""
        from tfrds.no_code import class_of_name

        home = find_home(name)
        if home is None:
            raise not_found(name, None, None)
        return class_of_name(name, home)


def install(tfds: Any) -> None:
    """Puts the provider before TFDS's own, whose first miss imports all of TFDS's datasets."""
    tfds.core.add_dataset_builder_provider(Provider(), index=0)
