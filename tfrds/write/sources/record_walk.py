"""From one record of a plain TFRecord file to the next, each parsed as a `tf.train.Example`.

Gets an open file, gives each record's place and features; `tfrecords.py`, `record_guess.py` and
`../adopt_scan.py` take from these what they need. What is wrong with a record becomes an error here
that names file and record.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from tfrds.disk.foreign_example import Feature, find_features
from tfrds.disk.foreign_records import walk_frames
from tfrds.disk.records import HEADER_BYTES
from tfrds.disk.window import Window
from tfrds.errors import SourceError
from tfrds.write.choices import find_near, list_choices
from tfrds.write.sources.record_image import MissingFeatureError

_LISTED = 20


class Record(NamedTuple):
    """One record.

    Attributes:
      number: in its file, from 0.
      offset: of its frame in the file.
      length: of its data in bytes.
      features: those that were asked for.
    """

    number: int
    offset: int
    length: int
    features: dict[bytes, Feature]


def walk_examples(
    window: Window, name: str, wanted: Collection[str] | None = None
) -> Iterator[Record]:
    """Yields the records of a plain file, in order.

    Args:
      window: of the file.
      name: of the file, for messages.
      wanted: keys of the features that are asked for; None: all.

    Raises:
      SourceError: the file is damaged, or a record is no Example.
    """
    keys = None if wanted is None else frozenset(key.encode() for key in wanted)
    for number, (offset, length) in enumerate(walk_frames(window, name)):
        start = offset + HEADER_BYTES
        try:
            features = find_features(window, start, start + length, keys)
        except (ValueError, OSError) as error:
            raise SourceError(
                f"{name} record {number}: no tf.train.Example: {error}. Leave the file out."
            ) from error
        yield Record(number, offset, length, features)


def explain(error: Exception, window: Window, name: str, record: Record) -> SourceError:
    """Returns the error of a record whose features are not what they should be."""
    start = record.offset + HEADER_BYTES
    text = describe(error, window, start, start + record.length)
    return SourceError(f"{name} record {record.number}: {text}. Correct the file or the arguments.")


def describe(error: Exception, window: Window, start: int, end: int) -> str:
    """Returns what is wrong with an Example, without a full stop."""
    if not isinstance(error, MissingFeatureError):
        return str(error)
    features = find_features(window, start, end)
    return missing_feature(str(error), sorted(map(decode_key, features)))


def missing_feature(key: str, others: Collection[str]) -> str:
    """Returns the text of an error about a key that a record has not, without a full stop."""
    names = list(others)
    near = find_near(key, names)
    hint = "" if near is None else f" (did you mean {near!r}?)"
    return f"feature {key!r}: missing, expected one of {list_choices(names, _LISTED)}{hint}"


def decode_key(key: bytes) -> str:
    """Returns a key as text; protobuf wants UTF-8, TensorFlow does not look."""
    return key.decode(errors="backslashreplace")
