"""The images of a class tree in archives, found as a walk through the unpacked folders finds them.

Gets archives, gives images whose keys are their paths; `class_tree.py` is next.
"""

from collections.abc import Sequence

from tfrds.disk.keys import Keys
from tfrds.write.sources.archive_files import ArchiveFile
from tfrds.write.sources.archive_images import FoundMembers
from tfrds.write.sources.class_tree import TreeOptions, is_split_word, left_out_as


class ArchiveTree:
    """All archives together, as if they were unpacked into one folder.

    Attributes:
      images: in them.
      top: the one folder that all images are in and that is stepped over, with a "/"; "": none.

    Args:
      archives: of which at least one holds an image.
      found: takes what is found.
      options: how folders are understood.

    Raises:
      SourceError: an archive is damaged, or holds what it must not.
    """

    def __init__(
        self, archives: Sequence[ArchiveFile], found: FoundMembers, options: TreeOptions
    ) -> None:
        self._split_folders: set[bytes] = set()
        self._last_folder = b""
        for number, archive in enumerate(archives):
            self._walk(number, archive, found)
        names = found.names()
        self.top = _common_top(names, options)
        start = len(self.top)
        keys = Keys.from_iterable(name[start:] for name in names) if start else names
        self.images = found.images(archives, names, keys, "member")

    def _walk(self, number: int, archive: ArchiveFile, found: FoundMembers) -> None:
        where = str(archive.path)
        with archive.data_path.open("rb") as file:
            for name, place in archive.members(file):
                self._note_splits(name if place is None else name.rpartition(b"/")[0])
                if place is None:
                    continue
                if kind := next(filter(None, map(left_out_as, name.split(b"/"))), None):
                    found.left_out[kind] += 1
                else:
                    found.add_image(number, where, file.fileno(), name, place)

    def _note_splits(self, folder: bytes) -> None:
        """Notes folders named like splits, at the top or in one that may be stepped over."""
        if folder == self._last_folder:
            return
        self._last_folder = folder
        first, *rest = folder.split(b"/")[:2]
        for path in (first, *(first + b"/" + second for second in rest)):
            if is_split_word(path.rpartition(b"/")[2]):
                self._split_folders.add(path)

    def folders_at_top(self) -> list[bytes]:
        """Returns the folders that are named like splits, with images and without."""
        start = len(self.top)
        below = [path[start:] for path in self._split_folders if path.startswith(self.top)]
        return [path for path in below if b"/" not in path]


def _common_top(names: Keys, options: TreeOptions) -> bytes:
    """Returns the folder, with a "/", that a zip of a folder has around everything; or b""."""
    if not len(names):
        return b""
    folder, slash, _ = names[0].partition(b"/")
    # A tree of one split looks the same, unless it is said to have none.
    has_splits = options.layout == "split" or (options.layout is None and options.is_labelled)
    if has_splits and is_split_word(folder):
        return b""
    top = folder + slash
    needed = 1 + options.is_labelled + (options.layout == "split")
    fits = all(name.startswith(top) and name.count(b"/") >= needed for name in names)
    return top if fits else b""
