"""The image of a record that others wrote: where it lies, its shape, its pixels as uint8.

Gets the features of a record (`disk/foreign_example.py`) and what they mean, an `ImageRule`; a scan
only asks for the shape, worker processes for the image.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tfrds.checks import MAX_SIDE
from tfrds.disk.foreign_example import (
    Feature,
    Span,
    bytes_spans,
    count_values,
    float_values,
    int64_values,
)
from tfrds.disk.window import Window
from tfrds.write.sources.base import Image

Value = TypeVar("Value")

# As they lie in bytes features.
DTYPES = {"uint8": "u1", "int8": "i1", "float32": "<f4", "float64": "<f8"}

ITEMSIZES = {name: np.dtype(dtype).itemsize for name, dtype in DTYPES.items()}

# Values that are whole: as many as there are.
OBVIOUS_RANGES = {"uint8": (0.0, 255.0), "int8": (-128.0, 127.0)}


class Located(NamedTuple):
    """Where the image of a record lies.

    Attributes:
      span: of its bytes; None for a list of floats.
      num_bytes: of the image as it is handed on: a file, or uint8 pixels.
      shape: (height, width, channels) of raw pixels; None for a file.
    """

    span: Span | None
    num_bytes: int
    shape: tuple[int, int, int] | None


class MissingFeatureError(ValueError):
    """A record has no feature of a key; the text is the key."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pixels:
    """What raw pixels are.

    Attributes:
      dtype: one of `DTYPES`.
      is_list: whether they are the values of a list of floats, and not bytes.
      low, high: values that become 0 and 255.
      height, width: in pixels; None: as the features of `size_keys` say.
      channels: None: as the third of these says, or as many as fit.
      size_keys: of the features that hold height, width and perhaps channels.
    """

    dtype: str
    is_list: bool = False
    low: float
    high: float
    height: int | None = None
    width: int | None = None
    channels: int | None = None
    size_keys: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageRule:
    """What the image of each record is.

    Attributes:
      key: of its feature.
      pixels: raw pixels; None: the bytes of an image file.
    """

    key: str
    pixels: Pixels | None

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of all features that it needs."""
        return (self.key, *(self.pixels.size_keys if self.pixels else ()))

    def locate(self, window: Window, features: Mapping[bytes, Feature]) -> Located:
        """Returns where the image lies, and its shape.

        Raises:
          ValueError: missing, of another kind, or of another size than its shape.
        """
        feature = get_feature(features, self.key)
        if self.pixels is not None and self.pixels.is_list:
            self._check_kind(feature, "float")
            span, count = None, count_values(window, feature)
        else:
            self._check_kind(feature, "bytes")
            span = one_value(bytes_spans, window, feature, self.key)
            count = span[1] - span[0]
        if self.pixels is None:
            return Located(span, count, None)
        shape = _shape(self.key, self.pixels, window, features, count)
        return Located(span, shape[0] * shape[1] * shape[2], shape)

    def read(self, window: Window, features: Mapping[bytes, Feature]) -> Image:
        """Returns the image: the bytes of a file, or uint8 [height, width, channels].

        Raises:
          ValueError: as `locate`, or a value is outside of the range of pixels.
        """
        located = self.locate(window, features)
        values: NDArray[Any] | None = None
        if located.span is None:
            values = float_values(window, get_feature(features, self.key), located.num_bytes)
        else:
            start, end = located.span
            data = window.take(start, end - start)
        if self.pixels is None or located.shape is None:
            return data
        if values is None:
            values = np.frombuffer(data, DTYPES[self.pixels.dtype])
        return _as_uint8(values, self.pixels, self.key).reshape(located.shape)

    def _check_kind(self, feature: Feature, kind: str) -> None:
        if feature.kind != kind:
            raise ValueError(
                f"feature {self.key!r}: expected the image as {_KINDS[kind]}, got "
                f"{name_kind(feature)}"
            )


_KINDS = {"bytes": "bytes", "float": "a list of floats"}


def _shape(
    key: str,
    pixels: Pixels,
    window: Window,
    features: Mapping[bytes, Feature],
    count: int,
) -> tuple[int, int, int]:
    """Returns (height, width, channels), which is what there are bytes or values for."""
    sides = [_side(window, features, side_key) for side_key in pixels.size_keys]
    height, width = sides[:2] if sides else (pixels.height or 0, pixels.width or 0)
    itemsize = 1 if pixels.is_list else ITEMSIZES[pixels.dtype]
    channels = sides[2] if len(sides) > 2 else pixels.channels
    if channels is None:
        channels = max(count // (height * width * itemsize), 1)
    expected = height * width * channels * itemsize
    if count != expected:
        raise ValueError(
            f"feature {key!r}: expected {expected:,} {'values' if pixels.is_list else 'bytes'} for "
            f"{height}x{width}x{channels} of {pixels.dtype}, got {count:,}"
        )
    return height, width, channels


def get_feature(features: Mapping[bytes, Feature], key: str) -> Feature:
    """Returns the feature of a key. Raises MissingFeatureError where there is none."""
    feature = features.get(key.encode())
    if feature is None:
        raise MissingFeatureError(key)
    return feature


def one_value(
    read: Callable[[Window, Feature, int], list[Value]], window: Window, feature: Feature, key: str
) -> Value:
    """Returns the only value of a feature.

    Raises:
      ValueError: it has none, or several, or they cannot be read.
    """
    try:
        values = read(window, feature, 1)
    except ValueError as error:
        raise ValueError(f"feature {key!r}: {error}") from error
    if not values:
        raise ValueError(f"feature {key!r}: expected one value, got none")
    return values[0]


def name_kind(feature: Feature) -> str:
    """Returns what a feature holds, for messages."""
    return "no values" if feature.kind == "empty" else feature.kind


def _side(window: Window, features: Mapping[bytes, Feature], key: str) -> int:
    feature = get_feature(features, key)
    is_number = feature.kind == "int64"
    side = one_value(int64_values, window, feature, key) if is_number else None
    if side is None or not 1 <= side <= MAX_SIDE:
        raise ValueError(
            f"feature {key!r}: expected a whole number from 1 to {MAX_SIDE:,}, got "
            f"{name_kind(feature) if side is None else side}"
        )
    return side


def _as_uint8(values: NDArray[Any], pixels: Pixels, key: str) -> NDArray[np.uint8]:
    if pixels.dtype == "uint8" and (pixels.low, pixels.high) == OBVIOUS_RANGES["uint8"]:
        return values.view(np.uint8)
    # Said in their own precision: 2.64 is a little less as float32 than as Python has it.
    precision = values.dtype if values.dtype.kind == "f" else np.float64
    low, high = np.array([pixels.low, pixels.high], precision)
    with np.errstate(invalid="ignore"):
        is_inside = (values >= low) & (values <= high)  # of NaN neither is true
    if not is_inside.all():
        place = int(is_inside.argmin())
        raise ValueError(
            f"feature {key!r}: expected pixels of pixel_range=({pixels.low:g}, {pixels.high:g}), "
            f"got {values[place]!s} at value {place:,}"
        )
    scale = 255 / (pixels.high - pixels.low)
    scaled: NDArray[np.float64] = (values.astype(np.float64) - pixels.low) * scale
    return np.rint(scaled).clip(0, 255).astype(np.uint8)
