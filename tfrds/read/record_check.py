"""Whether a record is the one that the index tells of: its frame, checksums, label and image.

Gets the bytes around a record in a mapped shard and its row of the index, gives what is wrong;
`fetch.py` asks it for each record where the user wants records verified. No TensorFlow.
"""

from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from tfrds.disk.example_bytes import parse_example
from tfrds.disk.records import HEADER_BYTES, frame_footer, frame_header

_FOOTER_BYTES = 4

# Around a record's data.
FRAME_BYTES = HEADER_BYTES + _FOOTER_BYTES


def record_fault(data: NDArray[np.uint8], entry: Any, image_key: str, label_key: str) -> str | None:
    """Returns what is wrong with a record, None where all is right.

    Args:
      data: uint8, the record's frame, as much of it as the shard has.
      entry: the record's row of the index.
      image_key: name of the feature.
      label_key: name of the feature.
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
        example = parse_example(record, image_key, label_key)
    except ValueError as error:
        return f"its Example cannot be parsed: {error}"
    place = (example.image_offset, example.image_length)
    if place != (first, int(entry["image_length"])):
        return f"its image lies at {place}, not where the index tells"
    if example.label != int(entry["label"]):
        return f"its label is {example.label:,}, the index says {int(entry['label']):,}"
    return None
