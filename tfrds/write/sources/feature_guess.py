"""What the records that were looked at hold under one key, and what it may mean.

Gets the feature of each record, gives `FeatureFound`; `record_guess.py` asks for every key.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.foreign_example import (
    Feature,
    bytes_spans,
    count_values,
    float_values,
    int64_values,
)
from tfrds.disk.window import Window
from tfrds.write.sniffing import SNIFF_BYTES, sniff

# How much of a feature is looked at.
_MAX_BYTES, _MAX_FLOATS, _MAX_VALUES = 1 << 22, 1 << 24, 1 << 16
_MAX_TEXT_BYTES, _MAX_TEXTS = 256, 1_000
_LISTED = 3

# A list of as many floats, or so many bytes, may be pixels: 4 x 4 gray.
_MIN_PIXELS = 16

# Values of pixels stored as floats: whatever their range is, they are no tiny or huge numbers.
# Bytes that are no floats, taken for some, have such among them.
_SMALLEST, _LARGEST = 1e-8, 1e6


_OTHER = {"empty": "no values", "mixed": "several kinds", "bytes": "bytes"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureFound:
    """What the records that were looked at hold under one key.

    Attributes:
      key: of the feature.
      kind: "bytes", "float", "int64"; "empty": there are no values; "mixed": of several kinds.
      num_records: that have it.
      num_values: fewest and most values in one record.
      num_bytes: fewest and most bytes of one value; (0, 0) of numbers.
      values: lowest and highest number, or those of `pixel_dtype`; None where there are none.
      is_whole: whether all numbers are whole.
      image_formats: of values that are image files, "jpeg" or "png" as a rule.
      num_images: records that hold such a file.
      texts: the first different texts, where all values are short texts.
      num_texts: different texts.
      pixel_dtype: of bytes what they look like as raw pixels, "uint8", "float32" or "float64"; of
        many floats "float32"; None where they are something else.
    """

    key: str
    kind: str
    num_records: int
    num_values: tuple[int, int]
    num_bytes: tuple[int, int]
    values: tuple[float, float] | None
    is_whole: bool
    image_formats: tuple[str, ...]
    num_images: int
    texts: tuple[str, ...]
    num_texts: int
    pixel_dtype: str | None

    @property
    def num_pixel_values(self) -> int | None:
        """Values of an image where these are pixels, and as many in each record; else None."""
        if self.pixel_dtype is None or self.num_bytes[0] != self.num_bytes[1]:
            return None
        if self.kind == "float":
            return self.num_values[0] if self.num_values[0] == self.num_values[1] else None
        return self.num_bytes[0] // np.dtype(self.pixel_dtype).itemsize

    @property
    def guess(self) -> str:
        """What it may be, in a few words."""
        if self.image_formats:
            return f"{' or '.join(self.image_formats)} images"
        if self.texts:
            return f"text such as {', '.join(map(repr, self.texts))}"
        span = "" if self.values is None else f" from {self.values[0]:g} to {self.values[1]:g}"
        if self.pixel_dtype:
            shape = square_shape(self.num_pixel_values)
            found = f", perhaps {'x'.join(map(str, shape))}" if shape else ""
            return f"{self.pixel_dtype} pixels{'' if self.pixel_dtype == 'uint8' else span}{found}"
        if self.kind in ("float", "int64") and span:
            return f"{'whole ' if self.is_whole else ''}numbers{span}"
        return _OTHER.get(self.kind, "numbers")

    def to_dict(self) -> dict[str, Any]:
        """Returns what was found as JSON values."""
        values = dataclasses.asdict(self)
        return {**_as_lists(values), "guess": self.guess}

    def to_text(self, num_records: int) -> str:
        """Returns what was found as one line."""
        low, high = self.num_values
        counted = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        size = ""
        if self.kind == "bytes":
            low, high = self.num_bytes
            size = f" of {f'{low:,}' if low == high else f'{low:,} to {high:,}'} bytes"
        some = (
            "" if self.num_records == num_records else f", in {self.num_records} of {num_records}"
        )
        plural = "" if counted == "1" else "s"
        return f"{self.key}: {self.kind}, {counted} value{plural}{size}{some}; {self.guess}"


def square_shape(
    count: int | None, channels: tuple[int, ...] = (3, 1)
) -> tuple[int, int, int] | None:
    """Returns the shape of a square image of so many values, by the first channels that fit."""
    if count is None or count < _MIN_PIXELS:
        return None
    for number in channels:
        side = math.isqrt(count // number)
        if side * side * number == count:
            return side, side, number
    return None


class FeatureLook:
    """What records hold under one key, as far as they were looked at."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._kinds: set[str] = set()
        self._num_records = 0
        self._counts = _Range()
        self._bytes = _Range()
        self._values = _Range()
        self._is_whole = True
        self._formats: set[str] = set()
        self._num_images = 0
        self._texts: dict[str, None] | None = {}
        # Of both, the first: pairs of float32 often look like float64.
        self._dtypes = {"float32": _Range(), "float64": _Range()}

    def add(self, window: Window, feature: Feature) -> int | None:
        """Adds a record's; returns its one whole number, or how many bytes or floats there are."""
        self._num_records += 1
        count = count_values(window, feature)
        self._counts.add(count)
        if count:  # lists without a value are of any kind
            self._kinds.add(feature.kind)
        if feature.kind == "bytes":
            return self._add_bytes(window, feature, count)
        if feature.kind == "float":
            self._add_numbers(float_values(window, feature, _MAX_FLOATS))
            return count
        if feature.kind == "int64" and 0 < count <= _MAX_VALUES:
            values = int64_values(window, feature, count)
            self._add_numbers(np.array(values, np.int64))
            return values[0] if count == 1 else None
        return None

    def _add_numbers(self, values: NDArray[Any]) -> None:
        self._values.add_all(values)
        self._is_whole &= bool((values == np.rint(values)).all())

    def _add_bytes(self, window: Window, feature: Feature, count: int) -> int | None:
        if count > _MAX_VALUES:
            self._texts = None
            self._dtypes.clear()
            return None
        spans = bytes_spans(window, feature, count)
        for start, end in spans:
            self._bytes.add(end - start)
            self._add_text(window, start, end)
        if len(spans) != 1:
            self._dtypes.clear()
            return None
        start, end = spans[0]
        kind = sniff(window.take(start, min(SNIFF_BYTES, end - start)))
        if kind:
            self._formats.add(kind)
            self._num_images += 1
            self._dtypes.clear()
        else:
            self._add_floats(window, start, end)
        return end - start

    def _add_text(self, window: Window, start: int, end: int) -> None:
        if self._texts is None:
            return
        text = None
        if end - start <= _MAX_TEXT_BYTES:
            text = _as_text(window.take(start, end - start))
        if text is None:
            self._texts = None
        elif len(self._texts) < _MAX_TEXTS:
            self._texts.setdefault(text)

    def _add_floats(self, window: Window, start: int, end: int) -> None:
        """Looks whether bytes are those of floats: any others hold tiny or huge ones, or none."""
        if not self._dtypes:
            return
        data = window.take(start, min(end - start, _MAX_BYTES))
        for name in list(self._dtypes):
            size = np.dtype(name).itemsize
            values = np.frombuffer(data[: len(data) // size * size], name)
            if (end - start) % size or not _are_pixels(values):
                del self._dtypes[name]
            else:
                self._dtypes[name].add_all(values)

    def found(self) -> FeatureFound:
        """Returns what was found."""
        kind = "mixed" if len(self._kinds) > 1 else next(iter(self._kinds), "empty")
        texts = tuple(self._texts or ()) if kind == "bytes" and not self._formats else ()
        dtype = None if texts or self._formats else self._pixel_dtype(kind)
        values = self._values if kind != "bytes" else self._dtypes.get(dtype or "", _Range())
        return FeatureFound(
            key=self._key,
            kind=kind,
            num_records=self._num_records,
            num_values=self._counts.whole(),
            num_bytes=self._bytes.whole(),
            values=values.pair(),
            is_whole=self._is_whole,
            image_formats=tuple(sorted(self._formats)),
            num_images=self._num_images,
            texts=texts[:_LISTED],
            num_texts=len(texts),
            pixel_dtype=dtype,
        )

    def _pixel_dtype(self, kind: str) -> str | None:
        if kind == "float":
            return "float32" if self._counts.whole()[0] >= _MIN_PIXELS else None
        if kind != "bytes" or self._counts.whole() != (1, 1):
            return None
        if self._bytes.whole()[0] < _MIN_PIXELS:
            return None
        # Only zeros fit all of them.
        found = [
            name for name, values in self._dtypes.items() if values.pair() not in (None, _ZERO)
        ]
        return found[0] if found else "uint8"


_ZERO = (0.0, 0.0)


class _Range:
    """The lowest and highest of some numbers."""

    def __init__(self) -> None:
        self._low, self._high = math.inf, -math.inf

    def add(self, value: float) -> None:
        self._low, self._high = min(self._low, value), max(self._high, value)

    def add_all(self, values: NDArray[Any]) -> None:
        if values.size:
            with np.errstate(invalid="ignore"):  # NaN; it is neither
                self.add(float(values.min()))
                self.add(float(values.max()))

    def pair(self) -> tuple[float, float] | None:
        """Returns (lowest, highest); None where there was none, or NaN."""
        return (self._low, self._high) if self._low <= self._high else None

    def whole(self) -> tuple[int, int]:
        """Returns them as whole numbers; (0, 0) where there was none."""
        return (int(self._low), int(self._high)) if self._low <= self._high else (0, 0)


def _are_pixels(values: NDArray[Any]) -> bool:
    with np.errstate(all="ignore"):
        # Whole numbers as float64, taken for float32, are 0 at every second place.
        if values.dtype == np.float32 and values.any() and not values[::2].any():
            return False
        sizes = np.abs(values)
        return bool(((sizes == 0) | ((sizes >= _SMALLEST) & (sizes <= _LARGEST))).all())


def _as_text(data: bytes) -> str | None:
    """Returns bytes as text, None where they are none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() or not text.strip() else None


def _as_lists(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: _as_lists(value) for key, value in values.items()}
    return [_as_lists(value) for value in values] if isinstance(values, tuple) else values
