"""Keys of examples that the records of foreign files hold themselves, such as file names.

Gets the feature of each record, gives `Keys`; without one, `tfrecords.py` numbers the records.
"""

import array
import unicodedata
from collections.abc import Callable, Mapping

import numpy as np

from tfrds.disk.foreign_example import Feature, bytes_spans
from tfrds.disk.keys import Keys
from tfrds.disk.window import Window
from tfrds.errors import SourceError
from tfrds.write.sources.equal_keys import find_equal
from tfrds.write.sources.record_image import get_feature

_MAX_KEY_BYTES = 4096


class RecordKeys:
    """Keys, record by record.

    Args:
      key_key: of their feature.
    """

    def __init__(self, key_key: str) -> None:
        self._key_key = key_key
        self._blob = bytearray()
        self._ends = array.array("Q", [0])

    def add(self, window: Window, features: Mapping[bytes, Feature]) -> None:
        """Adds a record's key.

        Raises:
          ValueError: it has none that can be used.
        """
        feature = get_feature(features, self._key_key)
        spans = bytes_spans(window, feature, 1) if feature.kind == "bytes" else []
        size = spans[0][1] - spans[0][0] if spans else 0
        if not 0 < size <= _MAX_KEY_BYTES:
            raise ValueError(
                f"feature {self._key_key!r}: expected one text of 1 to {_MAX_KEY_BYTES:,} bytes as "
                f"the example's key, got {f'{size:,} bytes' if spans else 'none'}"
            )
        key = _clean_key(window.take(spans[0][0], size), self._key_key)
        self._blob += key
        self._ends.append(len(self._blob))

    def finish(self, name_row: Callable[[int], str]) -> Keys:
        """Returns all keys.

        Args:
          name_row: returns the file and number of the record of a row.

        Raises:
          SourceError: two are equal.
        """
        keys = Keys(np.frombuffer(bytes(self._blob), np.uint8), np.array(self._ends, "<u8"))
        first, later = find_equal(keys)
        if len(later):
            one, other = int(first[0]), int(later[0])
            raise SourceError(
                f"{name_row(other)}: feature {self._key_key!r}: expected a key of its own, got "
                f"{keys[other].decode()!r}, which {name_row(one)} has too; such records in all: "
                f"{len(later):,}. Pass another key_key, or none."
            )
        return keys


def _clean_key(data: bytes, key_key: str) -> bytes:
    try:
        text = unicodedata.normalize("NFC", data.decode())
    except UnicodeDecodeError as error:
        raise ValueError(
            f"feature {key_key!r}: expected the example's key in UTF-8, got {data[:40]!r}"
        ) from error
    if text.startswith("/") or not text.isprintable() or ".." in text.split("/"):
        raise ValueError(
            f"feature {key_key!r}: expected the example's key as a relative path or a name, got "
            f"{text[:80]!r}"
        )
    return text.encode()
