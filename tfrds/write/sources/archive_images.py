"""The images that a walk through archives finds, as columns in an order by their keys alone.

`archive_tree.py` and `webdataset.py` walk and add what they find, `archive.py` makes references of
the columns.
"""

import array
import dataclasses
import itertools
import os
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.keys import Keys
from tfrds.errors import SourceError
from tfrds.write.sniffing import SNIFF_BYTES, sniff
from tfrds.write.sources.archive_files import ArchiveFile
from tfrds.write.sources.archive_members import Place, Places, check_image_size, read_head
from tfrds.write.sources.class_tree import Found, text_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArchiveImages:
    """Images in archives, as columns.

    Attributes:
      names: of the members, below the archives' roots.
      keys: of the images, each once, not yet in NFC.
      places: `PLACE` [n].
      positions: int64 [n], of the images in the order in which they were found.
      left_out: how many files were left out, by kind.
    """

    names: Keys
    keys: Keys
    places: NDArray[np.void]
    positions: NDArray[np.int64]
    left_out: Counter[str]


class FoundMembers(Found):
    """The images found so far, and what the walk met besides.

    Args:
      has_several_archives: messages that list members say in which each is.
    """

    def __init__(self, *, has_several_archives: bool = False) -> None:
        super().__init__()
        self._has_several_archives = has_several_archives
        self._names = bytearray()
        self._ends = array.array("Q", [0])
        self._places = Places()

    def add_image(
        self, archive: int, where: str, descriptor: int, name: bytes, place: Place
    ) -> bool:
        """Adds a file unless it holds no image; returns whether it does.

        Args:
          archive: its position in the list of them.
          where: its name.
          descriptor: of the open file.
          name: of the member.
          place: of its bytes.

        Raises:
          SourceError: it is too large, or cannot be unpacked.
        """
        try:
            head = read_head(descriptor, place, SNIFF_BYTES)
        except ValueError as error:
            raise SourceError(
                f"{where}: member {text_of(name)!r}: {error}. Copy the archive again."
            ) from error
        if not sniff(head):
            archive_name = os.fsencode(os.path.basename(where)) + b"/"
            self.no_image(archive_name * self._has_several_archives + name, head)
            return False
        check_image_size(where, name, place)
        self._names += name
        self._ends.append(len(self._names))
        self._places.add(archive, place)
        return True

    def names(self) -> Keys:
        """Returns the names of the images in the order in which they were found."""
        return Keys(np.frombuffer(bytes(self._names), np.uint8), np.array(self._ends, "<u8"))

    def images(
        self, archives: Sequence[ArchiveFile], names: Keys, keys: Keys, what: str
    ) -> ArchiveImages:
        """Returns the images in the order of their keys, folder by folder.

        Args:
          archives: all of them.
          names: of the images, as `names` gives them.
          keys: of the images in that order.
          what: a key is, for messages.

        Raises:
          SourceError: two images have the same key.
        """
        places = self._places.to_array()
        order, equal = _order(keys)
        if equal:
            first, second = (archives[places[row]["archive"]].path for row in equal)
            key = f"{what} {text_of(keys[equal[0]])!r}"
            if first == second:
                raise SourceError(f"{first}: {key} is in it twice. Pack the archive again.")
            raise SourceError(f"{second}: {key} is in {first} too. Rename it, or leave one out.")
        return ArchiveImages(
            names=names.take(order),
            keys=keys.take(order),
            places=places[order],
            positions=order,
            left_out=self.left_out,
        )


def _order(keys: Keys) -> tuple[NDArray[np.int64], tuple[int, int] | None]:
    """Returns (the rows as a walk by name through folders gives them, two rows of equal keys)."""
    # No name holds a NUL, which comes before all that one folder may have and another has not.
    paths = [key.replace(b"/", b"\0") for key in keys]
    if all(one < other for one, other in itertools.pairwise(paths)):
        return np.arange(len(paths)), None
    rows = sorted(range(len(paths)), key=paths.__getitem__)
    pairs = itertools.pairwise(rows)
    equal = next((pair for pair in pairs if paths[pair[0]] == paths[pair[1]]), None)
    return np.array(rows, np.int64), equal
