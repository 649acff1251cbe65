"""Turns pixels and class numbers into what a model takes, in numpy.

Input:   images  uint8 or float32 [..., height, width, channels], 0..255; float32 ones are changed
         labels  int32 [n], class numbers; float32 [n, num_classes], multi-hot; float32 [n, k] or
                 [n], numbers; or None
Output:  images  dtype [..., height, width, channels], value_range, normalised
         labels  by label_mode: float32 [n, num_classes], int32 [n], float32 [n, 1] or [n, k]; or
                 None
Raises:  ConfigError: bfloat16 without the package that adds it to numpy.
Source:  `stages/values.py`, the same operations in the same order.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.errors import ConfigError
from tfrds.read.resolve import ValuesSpec


class NumpyValues:
    """The stage.

    Args:
      spec: what to yield.

    Attributes:
      dtype: of images.
    """

    def __init__(self, spec: ValuesSpec) -> None:
        self.dtype = numpy_dtype(spec.dtype)
        self._spec = spec
        self._center = np.array(spec.center, np.float32) if any(spec.center) else None
        self._scale = np.array(spec.scale, np.float32) if set(spec.scale) != {1.0} else None

    def write_pixels(self, images: NDArray[Any], out: NDArray[Any]) -> None:
        """Writes the model's images to `out`, of the same shape and of `dtype`."""
        if self.dtype == np.uint8:
            if images.dtype != np.uint8:
                np.clip(np.rint(images, out=images), 0, 255, out=images)
            np.copyto(out, images, casting="unsafe")
            return
        is_direct = self.dtype == np.float32
        values = out if is_direct else np.empty(images.shape, np.float32)
        np.copyto(values, images)
        self.change(values)
        if not is_direct:
            with np.errstate(over="ignore"):  # beyond float16 lies infinity, as in TensorFlow
                np.copyto(out, values, casting="unsafe")

    def change(self, pixels: NDArray[Any]) -> None:
        """Turns pixels of 0..255 into the model's range, in place."""
        # As flat rows: three channels at a time would take numpy ten times as long.
        width, channels = pixels.shape[-2:]
        rows = pixels.reshape(-1, width * channels)
        if self._center is not None:
            rows -= _along(self._center, width)
        if self._scale is not None:
            rows *= _along(self._scale, width)

    def labels(self, labels: NDArray[Any] | None) -> NDArray[Any] | None:
        """Returns the model's labels."""
        spec = self._spec
        if labels is None or spec.label_mode == "none":
            return None
        if spec.label_mode in ("int", "multi_hot", "value"):
            return labels
        if spec.label_mode == "binary":
            return labels.astype(np.float32)[:, np.newaxis]
        off = np.float32(spec.label_smoothing / spec.num_classes)
        rows = np.full((len(labels), spec.num_classes), off)
        rows[np.arange(len(labels)), labels] = np.float32(1 - spec.label_smoothing) + off
        return rows


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Returns numpy's dtype of a name.

    Raises:
      ConfigError: bfloat16, and the package that adds it to numpy is missing.
    """
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise ConfigError(
            "dtype: numpy has 'bfloat16' from the package ml_dtypes, which is missing. Install it, "
            'or pass dtype="float32".'
        ) from error
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def _along(channels: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Returns a value for each channel of each column, or the only one."""
    return channels if len(channels) == 1 else np.tile(channels, width)
