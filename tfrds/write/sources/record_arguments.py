"""What a user says of the records of TFRecord files, checked; the rest is found by looking.

Gets the arguments of `TFRecords`; `pixel_layout.py` and `record_layout.py` decide by them.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from tfrds.checks import (
    MAX_SIDE,
    check_choice,
    check_int,
    is_list_of_names,
    parse_image_size,
    parse_numbers,
)
from tfrds.errors import ConfigError
from tfrds.spec import LABEL_KINDS
from tfrds.write.sources.record_image import DTYPES

_MAX_KEY_BYTES = 4096
_MAX_OFFSET = 2**31 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordArguments:
    """What is given; None: to be found by looking.

    Attributes:
      image_key, label_key: of the features.
      image_size: (height, width) of raw pixels.
      channels: of raw pixels.
      pixel_dtype: of raw pixels, one of `DTYPES`.
      pixel_range: values of raw pixels that become 0 and 255.
      label_offset: is added to class numbers.
      class_names: in the order of the class numbers.
      key_key: of the feature that names an example.
      label_kind: one of `tfrds.spec.LABEL_KINDS`.

    Raises:
      ConfigError: a value that its field cannot have.
    """

    image_key: str | None = None
    label_key: str | None = None
    image_size: Any = None
    channels: int | None = None
    pixel_dtype: str | None = None
    pixel_range: Any = None
    label_offset: int | None = None
    class_names: Sequence[str] | None = None
    key_key: str | None = None
    label_kind: str | None = None

    def __post_init__(self) -> None:
        for field in ("image_key", "label_key", "key_key"):
            _check_key(field, getattr(self, field))
        object.__setattr__(self, "image_size", parse_image_size(self.image_size))
        if self.channels is not None:
            check_int("channels", self.channels, 1, MAX_SIDE)
        if self.pixel_dtype is not None:
            check_choice("pixel_dtype", self.pixel_dtype, tuple(DTYPES))
        object.__setattr__(self, "pixel_range", _parse_range(self.pixel_range))
        if self.label_offset is not None:
            check_int("label_offset", self.label_offset, -_MAX_OFFSET, _MAX_OFFSET)
        if self.class_names is not None and not is_list_of_names(self.class_names):
            raise ConfigError(
                f"class_names: expected a list of names in their order, got {self.class_names!r}."
            )
        if self.label_kind is not None:
            check_choice("label_kind", self.label_kind, LABEL_KINDS)


def _check_key(field: str, key: object) -> None:
    is_key = isinstance(key, str) and 0 < len(key.encode(errors="replace")) <= _MAX_KEY_BYTES
    if key is not None and not is_key:
        raise ConfigError(f"{field}: expected the key of a feature as text, got {key!r}.")


def _parse_range(given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    pair = parse_numbers(given)
    if pair is None or len(pair) != 2 or not pair[0] < pair[1]:
        raise ConfigError(
            "pixel_range: expected (low, high), the values that become 0 and 255, with low below "
            f"high, got {given!r}."
        )
    return pair[0], pair[1]
