"""What the read options mean for one dataset: sizes and numbers, before any stage is made.

Gets the record of the build and the options, gives `ResizeSpec` and `ValuesSpec`; the stages of a
graph and those of numpy both follow them. No TensorFlow.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.build_record import BuildRecord
from tfrds.errors import ConfigError
from tfrds.read.statistics import dataset_statistics
from tfrds.read_options import ReadOptions
from tfrds.spec import background_values

Shape = tuple[int | None, int | None, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResizeSpec:
    """How images reach one size.

    Attributes:
      image_size: (height, width) in pixels.
      resize: "stretch", "crop" or "pad", as `geometry.py` defines them.
      background: one value for each channel, 0..255, around a padded image.
      interpolation: "bilinear", "area" or "antialias".
    """

    image_size: tuple[int, int]
    resize: str = "stretch"
    background: tuple[int, ...] = ()
    interpolation: str = "bilinear"

    @property
    def may_decode_smaller(self) -> bool:
        """Whether large JPEGs are decoded smaller first; "bilinear" keeps TensorFlow's values."""
        return self.interpolation != "bilinear"

    def decode_ratios(
        self, heights: NDArray[Any], widths: NDArray[Any], is_jpeg: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Returns 1, 2, 4 or 8 for each image: by how much it may be decoded smaller.

        The largest that keeps both sides at or above the target: faster than decoding whole, and
        closer to a resize of the whole image than a larger step of the small resize would be.
        """
        if not self.may_decode_smaller:
            return np.ones(len(heights), np.int64)
        larger = np.maximum if self.resize == "pad" else np.minimum
        factors = larger(heights / self.image_size[0], widths / self.image_size[1])
        powers = np.clip(np.floor(np.log2(np.maximum(factors, 1))), 0, 3).astype(np.int64)
        return np.where(is_jpeg, 1 << powers, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValuesSpec:
    """What pixels and class numbers become; see `tfrds.ReadOptions` for the options.

    Attributes:
      num_classes: depth of one-hot labels.
      dtype: "float32", "bfloat16", "float16" or "uint8" of the images.
      center: subtracted from pixels of 0..255, a value for each channel or one for all.
      scale: multiplied with after that, likewise.
      label_mode: one of `tfrds.read_options.LABEL_MODES`.
      label_shape: of values, () or (k,).
      label_smoothing: 0..1, the share of a one-hot label that is spread over all classes.
    """

    num_classes: int
    dtype: str = "float32"
    center: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    label_mode: str = "one_hot"
    label_shape: tuple[int, ...] = ()
    label_smoothing: float = 0.0


# How labels of each kind can be read; the first is the default.
_MODES = {
    "single": ("one_hot", "int", "binary", "none"),
    "binary": ("binary", "int", "one_hot", "none"),
    "multi": ("multi_hot", "none"),
    "value": ("value", "none"),
    "none": ("none",),
}


def choose_label_mode(record: BuildRecord, options: ReadOptions) -> str:
    """Returns how the labels of a dataset are read.

    Raises:
      ConfigError: they cannot be read as asked for.
    """
    modes = _MODES[record.label_kind]
    mode = options.label_mode or modes[0]
    if mode not in modes:
        raise ConfigError(
            f"label_mode: labels of {record.name} are of the kind {record.label_kind!r} and can be "
            f"read as {list(modes)}, got {mode!r}."
        )
    if mode == "binary" and record.num_classes != 2:
        raise ConfigError(
            f"label_mode: 'binary' is for two classes, {record.name} has {record.num_classes}. "
            'Pass label_mode="int" or "one_hot".'
        )
    if options.label_smoothing and mode != "one_hot":
        raise ConfigError(
            f"label_smoothing: only one-hot labels can be smoothed, got "
            f"{options.label_smoothing:g}, and those of {record.name} are read as {mode!r}. Leave "
            "it out."
        )
    return mode


def is_raw(record: BuildRecord) -> bool:
    """Whether pixels are stored, not JPEG and PNG."""
    return bool(record.content["image"]["encoding"] == "raw")


def is_resized_while_reading(record: BuildRecord) -> bool:
    """Whether images are stored in sizes of their own, and declared in one."""
    return not is_raw(record) and record.content["options"]["image_size"] is not None


def stored_shape(record: BuildRecord) -> Shape:
    """Returns (height, width, channels) of stored images, None where they vary."""
    declared = record.image_shape
    return (None, None, declared[2]) if is_resized_while_reading(record) else declared


def choose_resize(record: BuildRecord, options: ReadOptions) -> ResizeSpec | None:
    """Returns how stored images reach the size that is asked for; None: they have it."""
    declared = record.image_shape[:2] if is_resized_while_reading(record) else None
    image_size: Any = options.image_size or declared
    stored = stored_shape(record)
    if image_size is None or image_size == stored[:2]:
        return None
    built = record.content["options"]
    return ResizeSpec(
        image_size=image_size,
        resize=options.resize or built["resize"],
        background=background_values(built["background"], stored[2]),
        interpolation=options.interpolation,
    )


def choose_values(record: BuildRecord, options: ReadOptions) -> ValuesSpec:
    """Returns what the model takes: pixels and labels.

    Raises:
      ConfigError: an option does not fit the dataset.
      DatasetError: pixels are to be measured, and a file is missing or damaged.
    """
    mode = choose_label_mode(record, options)
    shapes = [spec.shape for spec in record.columns if spec.name == record.label_key]
    center, scale = _affine(record, options)
    return ValuesSpec(
        num_classes=record.num_classes,
        dtype=options.dtype,
        center=center,
        scale=scale,
        label_mode=mode,
        label_shape=shapes[0] or () if mode == "value" else (),
        label_smoothing=options.label_smoothing,
    )


def _affine(
    record: BuildRecord, options: ReadOptions
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns (center, scale): a pixel of 0..255 becomes (pixel - center) * scale."""
    low, high = options.value_range
    step = (high - low) / 255
    if options.normalize is None:
        return (-low / step + 0.0,), (step,)
    if options.normalize == "dataset":
        measured = dataset_statistics(record)
        return measured.mean, tuple(1 / (std or 1.0) for std in measured.std)
    mean, std = options.normalize
    channels = record.image_shape[2]
    for name, numbers in (("mean", mean), ("std", std)):
        if len(numbers) not in (1, channels):
            raise ConfigError(
                f"normalize: expected one {name} or {channels}, one for each channel of "
                f"{record.name}, got {len(numbers)}: {list(numbers)}."
            )
    return tuple((value - low) / step for value in mean), tuple(step / value for value in std)
