"""Whether a record is the one that the index tells of: its frame, checksums, label and image.

Gets the bytes around a record in a mapped shard and its row of the index, gives what is wrong;
`fetch.py` asks it for each record where the user wants records verified. No TensorFlow.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from tfrds.disk.adopted import parse_stored
from tfrds.disk.build_record import BuildRecord
from tfrds.disk.columns import Column
from tfrds.disk.records import HEADER_BYTES, frame_footer, frame_header
from tfrds.spec import CLASS_KINDS

_FOOTER_BYTES = 4

# Around a record's data.
FRAME_BYTES = HEADER_BYTES + _FOOTER_BYTES


def record_fault(
    data: NDArray[np.uint8],
    entry: Any,
    build: BuildRecord,
    class_names: Sequence[str] = (),
    beside: Iterable[tuple[Column, int]] = (),
) -> str | None:
    """Returns what is wrong with a record, None where all is right.

    Args:
      data: uint8, the record's frame, as much of it as the shard has.
      entry: the record's row of the index.
      build: the record of the dataset's build.
      class_names: of the dataset, where records hold them as text.
      beside: each column of the dataset, and the record's row in it.
    """
    length = int(entry["length"])
    frame = data.tobytes()
    if len(frame) != length + FRAME_BYTES:
        return f"cut off: {len(frame):,} of {length + FRAME_BYTES:,} bytes"
    header, record = frame[:HEADER_BYTES], frame[HEADER_BYTES:-_FOOTER_BYTES]
    if header != frame_header(length):
        return (
            f"its header says {int.from_bytes(header[:8], 'little'):,} bytes or has a wrong "
            f"checksum, the index says {length:,} bytes"
        )
    if frame[-_FOOTER_BYTES:] != frame_footer(record):
        return "its checksum is wrong: bytes were changed"
    first = int(entry["image_offset"])
    image = record[first : first + int(entry["image_length"])]
    content = entry["content"].tobytes()
    if any(content) and xxhash.xxh3_128_digest(image) != content:
        return "its image is another one than the index tells of: the shard was replaced"
    try:
        example = parse_stored(record, build.image_key, build.features, build.adopted, class_names)
    except ValueError as error:
        return f"its Example cannot be parsed: {error}"
    place = (example.image_offset, example.image_length)
    if place != (first, int(entry["image_length"])):
        return f"its image lies at {place}, not where the index tells"
    return _value_fault(example.values, int(entry["label"]), build, beside)


def _value_fault(
    values: Mapping[str, Any], said: int, build: BuildRecord, beside: Iterable[tuple[Column, int]]
) -> str | None:
    """Returns which value beside the image differs from what index and columns say."""
    if build.label_kind in CLASS_KINDS:
        (label,) = values[build.label_key]
        if label != said:
            return f"its label is {label:,}, the index says {said:,}"
    differences = (column.difference(row, values[column.spec.name]) for column, row in beside)
    return next(filter(None, differences), None)
