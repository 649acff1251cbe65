"""The class names of a finished dataset, checked against its record.

Written by TFDS, one a line; read by the tools, and where records of others hold names as labels.
"""

import hashlib

from tfrds.disk.build_record import BuildRecord
from tfrds.disk.layout import class_names_file
from tfrds.errors import DatasetError

# Ten million classes of usual names stay below this; it keeps a foreign file from filling the
# memory.
_MAX_BYTES = 2**28


def read_class_names(record: BuildRecord) -> tuple[str, ...]:
    """Returns the class names in the order of their numbers; none where labels are no classes.

    Raises:
      DatasetError: the file is missing, or holds other names than those of the build.
    """
    if not record.num_classes:
        return ()
    path = class_names_file(record.directory, record.label_key)
    said = record.content["label"].get("class_names_sha256")
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DatasetError(
                f"{path}: larger than {_MAX_BYTES:,} bytes, so not written by tfrds."
            )
        # TFDS ends each name with a line break; the digest is over the names joined by them.
        data = path.read_bytes().removesuffix(b"\n")
        digest = hashlib.sha256(data).hexdigest()
        if digest != said:
            raise DatasetError(
                f"{path}: expected class names with the sha256 {said}, found {digest}. Copy or "
                "build the dataset again."
            )
        return tuple(data.decode().split("\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(
            f"{path}: cannot be read: {error}. Copy or build the dataset again."
        ) from error
