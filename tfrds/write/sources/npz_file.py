"""The arrays of an `.npz` file: what they are called, and how each is opened.

Gets the file, gives arrays; `npz.py` makes a source of them. Its directory is read as that of any
zip, and nothing else of it before a look at its size.
"""

import io
import math
import os
import pathlib
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import SourceError
from tfrds.write.sources.archive_members import STORED, Place, read_head, read_member
from tfrds.write.sources.class_tree import is_split_word, text_of
from tfrds.write.sources.zip_members import zip_members

IMAGE_WORDS = frozenset(("images", "image", "imgs", "img", "x", "data", "pixels"))
LABEL_WORDS = frozenset(("labels", "label", "y", "targets", "target", "classes"))

# Photographs and digits become a tenth of their size at best; a bomb becomes a thousandth and more.
# Below a gigabyte there is no harm in either.
_MAX_RATIO = 100
_ALWAYS_ALLOWED_BYTES = 2**30

# A header of numpy is 128 bytes as a rule, and one of version 1 at most 65,546.
_MAX_HEADER_BYTES = 2**17

_LISTED = 10


class NpzFile:
    """What the directory of an `.npz` file says.

    Args:
      path: of the file.

    Attributes:
      name: for errors.

    Raises:
      SourceError: no such file, no zip, or without arrays.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.name = str(path)
        self._path = path
        self._places: dict[str, Place] = {}
        try:
            with path.open("rb") as file:
                self._size = os.fstat(file.fileno()).st_size
                for member in zip_members(file, self.name):
                    name = text_of(member.name)
                    if member.place is not None and name.endswith(".npy"):
                        self._places[name.removesuffix(".npy")] = member.place
        except OSError as error:
            raise SourceError(
                f"{path}: cannot be read: {error.strerror}. Correct the path, or mend its access."
            ) from error
        if not self._places:
            raise SourceError(
                f"{path}: expected arrays as numpy.savez writes them, found none in it."
            )

    def listed(self) -> str:
        """Returns the names of the arrays for a message."""
        names = list(self._places)
        more = f", ... {len(names):,} in all" if len(names) > _LISTED else ""
        return f"[{', '.join(map(repr, names[:_LISTED]))}{more}]"

    def find(
        self, words: frozenset[str], field: str, *, may_be_missing: bool = False
    ) -> dict[str, str]:
        """Returns the names of the arrays that are called so, by split.

        Raises:
          SourceError: there are none, or two for one split.
        """
        found: dict[str, str] = {}
        for name in self._places:
            word, split = role_of(name)
            if word not in words or split is None:
                continue
            if split in found:
                raise SourceError(
                    f"{self.name}: both {found[split]!r} and {name!r} may be the {field}. Pass "
                    f"{field}=."
                )
            found[split] = name
        if (not found and not may_be_missing) or ("" in found and len(found) > 1):
            raise SourceError(
                f"{self.name}: which arrays are the {field} cannot be told from their names "
                f'{self.listed()}. Pass {field}="name", or {field}={{"train": "name", ...}}.'
            )
        return found

    def open(self, name: str, *, is_mapped: bool = False) -> NDArray[Any]:
        """Returns an array, mapped where it is stored as it is and `is_mapped` asks for it.

        Raises:
          SourceError: there is none of this name, or it is damaged, of Python objects, or packed to
            far less than it unpacks to.
        """
        place = self._places.get(name)
        if place is None:
            raise SourceError(f"{self.name}: no array {name!r}, expected one of {self.listed()}.")
        where = f"{self.name}, array {name!r}"
        try:
            descriptor = os.open(self._path, os.O_RDONLY)
            try:
                shape, is_fortran, dtype, start = _header(descriptor, place, where)
                if is_mapped and place.method == STORED and place.size > start:
                    return np.memmap(
                        self._path,
                        dtype,
                        "r",
                        place.offset + start,
                        shape,
                        "F" if is_fortran else "C",
                    )
                self._check_unpacked_size(place, where)
                data = read_member(descriptor, place)
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            if isinstance(error, SourceError):
                raise
            raise SourceError(f"{where}: {error}. Copy the file again.") from error
        array = np.frombuffer(data, dtype, offset=start)
        return array.reshape(shape, order="F" if is_fortran else "C")

    def _check_unpacked_size(self, place: Place, where: str) -> None:
        """Raises SourceError before memory is taken for what may be a bomb."""
        allowed = max(_MAX_RATIO * self._size, _ALWAYS_ALLOWED_BYTES)
        if place.size > allowed:
            raise SourceError(
                f"{where}: unpacks from {place.packed:,} to {place.size:,} bytes, expected at most "
                f"{allowed:,}. Save it with numpy.savez if you trust it: what is not compressed is "
                "mapped, not read."
            )


def _header(
    descriptor: int, place: Place, where: str
) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Returns (shape, whether it is in Fortran's order, dtype, where its values begin).

    Raises:
      SourceError: no array that can be read, or of another size than the directory says.
    """
    file = io.BytesIO(read_head(descriptor, place, _MAX_HEADER_BYTES))
    try:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, is_fortran, dtype = read(file)
    except Exception as error:  # of a damaged header numpy raises almost anything
        raise SourceError(
            f"{where}: its header cannot be read: {error!r}. Copy the file again."
        ) from error
    if dtype.hasobject:
        raise SourceError(
            f"{where}: holds Python objects, which are not read: unpickling them runs code. Save "
            "it again as numbers, or as text of a fixed length."
        )
    expected = file.tell() + math.prod(shape) * dtype.itemsize
    if expected != place.size:
        raise SourceError(
            f"{where}: expected {expected:,} bytes for {dtype} {list(shape)}, found {place.size:,}."
            " Copy the file again."
        )
    return shape, is_fortran, dtype, file.tell()


def role_of(name: str) -> tuple[str, str | None]:
    """Returns (the word that says what an array is, its split); "" and None where unknown."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    splits = [word for word in words if is_split_word(word.encode())]
    others = [word for word in words if word not in splits]
    if len(others) != 1 or len(splits) > 1:
        return "", None
    return others[0], splits[0] if splits else ""
