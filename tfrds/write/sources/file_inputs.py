"""Images that are files below one folder, as workers read them.

`folder.py` and `table_paths.py` find the files.
"""

import os
import socket

from tfrds.errors import DatasetError
from tfrds.write.sources.class_tree import text_of


class FileInputs:
    """The files of one shard.

    Args:
      root: folder that all of them lie below, an absolute path as the disk has it.
      paths: of the files below it, likewise.
    """

    def __init__(self, root: bytes, paths: list[bytes]) -> None:
        self._root = root
        self._paths = paths

    def __len__(self) -> int:
        """Returns the number of images."""
        return len(self._paths)

    def name(self, position: int) -> str:
        """Returns the path below the root."""
        return text_of(self._paths[position])

    def read(self, position: int) -> bytes:
        """Returns the bytes of a file.

        Raises:
          OSError: it cannot be read.
          DatasetError: the whole folder is not there on this worker.
        """
        try:
            with open(os.path.join(self._root, self._paths[position]), "rb") as file:
                return file.read()
        except FileNotFoundError:
            if os.path.isdir(self._root):
                raise
            # No fault of this image: on a worker that sees none of them, all would be skipped.
            raise DatasetError(
                f"{text_of(self._root)}: expected the source's folder on {socket.gethostname()}, "
                "found none. Every worker must see it under the same path."
            ) from None
