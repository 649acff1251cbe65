"""What Hugging Face's `datasets` writes beside a schema: the names of the classes.

Gets the metadata of a schema of Arrow or Parquet, gives class names by column.

Source: `datasets.Features.arrow_schema`: JSON under the key "huggingface"; a `ClassLabel` has the
names of its numbers, alone or as what a list holds.
"""

import json
from collections.abc import Mapping
from typing import Any

from tfrds.write.sources.base import check_distinct, clean_class_name

_KEY = b"huggingface"

# Lists in lists of class labels are none that a label can be.
_LISTS = ("List", "LargeList", "Sequence")


def class_names_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, tuple[str, ...]]:
    """Returns the names of the classes that a column's whole numbers stand for, by column.

    Raises:
      SourceError: names that a class cannot have, or the same twice.
    """
    try:
        content = json.loads((metadata or {}).get(_KEY, b"{}"))
        features = content["info"]["features"]
        found = {str(column): _names(feature) for column, feature in features.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # another program's use of the key
    cleaned = {}
    for column, names in found.items():
        if names:
            where = f"column {column!r}, class names of its features"
            clean = [clean_class_name(name, where) for name in names]
            check_distinct(clean, where)
            cleaned[column] = tuple(clean)
    return cleaned


def _names(feature: Any) -> list[Any]:
    if isinstance(feature, list) and len(feature) == 1:
        feature = feature[0]
    elif isinstance(feature, dict) and feature.get("_type") in _LISTS:
        feature = feature.get("feature")
    if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
        return list(feature.get("names") or ())
    return []
