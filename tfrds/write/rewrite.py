"""A shard written again without some of its records, or with other labels; no image is decoded.

`dataset.py` drops duplicates with it, and edits of a finished dataset use it.
"""

import dataclasses
import pathlib
import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.columns import Column
from tfrds.disk.index import Rows
from tfrds.disk.records import HEADER_BYTES, frame_footer, frame_header
from tfrds.errors import DatasetError
from tfrds.write.beside import Beside
from tfrds.write.hashed_file import HashedFile


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rewritten:
    """A shard that was written again.

    Attributes:
      num_bytes: of the file.
      sha256: of the file, in hexadecimal digits.
      rows: the index rows of its records.
    """

    num_bytes: int
    sha256: str
    rows: Rows


def rewrite_shard(
    path: pathlib.Path,
    rows: Rows,
    target: pathlib.Path,
    *,
    kept: NDArray[np.int64],
    labels: NDArray[np.int32],
    features: Sequence[Column],
    image_key: str,
) -> Rewritten:
    """Writes the records that stay; `target` may be `path`, which is then replaced at the end.

    Args:
      path: of the shard.
      rows: its index rows.
      target: of the new one.
      kept: int64 [n], positions of the records that stay, in order.
      labels: int32 [n], their class numbers, -1 where they have no single class.
      features: of the records that stay, what they hold beside their images.
      image_key: name of the image's feature.

    Raises:
      DatasetError: the shard is cut off.
    """
    written = rows[kept].copy()
    written["label"] = labels
    beside = Beside(features, image_key)
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with path.open("rb") as old, HashedFile(temporary) as new:
            for position, row in enumerate(written):
                length = int(row["image_length"])
                old.seek(int(row["offset"]) + HEADER_BYTES + int(row["image_offset"]))
                image = old.read(length)
                if len(image) != length:
                    raise DatasetError(
                        f"{path}: expected {length:,} bytes of an image at byte "
                        f"{int(row['offset']):,}, found {len(image):,}. Copy or build the dataset "
                        "again."
                    )
                head, tail = beside.around(position, length)
                data = b"".join((head, image, tail))
                row["offset"], row["length"] = new.num_bytes, len(data)
                row["image_offset"] = len(head)
                new.write(frame_header(len(data)), data, frame_footer(data))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return Rewritten(num_bytes=new.num_bytes, sha256=new.sha256, rows=written)
