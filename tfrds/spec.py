"""The options of builds, checked where they are made: frozen objects, no TensorFlow.

`BuildOptions` says what is written (every field decides bytes on disk), `ImageSpec` is its resolved
part for one image. What a dataset yields is said by `read_options.py`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tfrds.checks import (
    MAX_SIDE,
    check_background,
    check_choice,
    check_fractions,
    check_int,
    is_list_of_names,
    parse_image_size,
)
from tfrds.errors import ConfigError

ENCODINGS = ("auto", "raw", "jpeg", "original")
RESIZES = ("stretch", "crop", "pad")

# Above this side a fixed shape is cheaper to store as its source's JPEG or PNG: 64 * 64 * 3 is 12
# kB.
MAX_AUTO_RAW_SIDE = 64


def background_values(background: Sequence[int], channels: int) -> tuple[int, ...]:
    """Returns the background colour, (red, green, blue), as one value for each of `channels`.

    Source: Pillow's conversion to mode L, ITU-R 601-2 luma in integers, for anything but three
    channels.
    """
    if channels == 3:
        return tuple(background)
    red, green, blue = background
    return ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16,) * channels


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """What a build writes. Every field decides bytes on disk and is recorded in `tfrds.json`.

    Attributes:
      image_size: (height, width) in pixels that every example has when read; one integer means a
        square. None keeps each image's own size. Raw pixels are resized at build; JPEG and PNG are
        resized while reading.
      resize: how `image_size` is reached: "stretch" (aspect ratio not kept), "crop" (the largest
        centred crop of the target's aspect ratio), "pad" (aspect ratio kept, filled with
        `background`).
      channels: 1 or 3 for files; any number for arrays stored raw. None: arrays keep theirs, files
        give 3.
      background: the colour (red, green, blue), 0..255, under transparent pixels and around padded
        images.
      encoding: "raw" (uint8 pixels of one fixed shape), "jpeg" (re-encoded), "original" (the
        source's own JPEG or PNG bytes, PNG where the source is neither), "auto": raw for fixed
        shapes up to 64 x 64, else original.
      store_size: pixels of the shorter side that a re-encoded JPEG is shrunk to; never enlarged.
        None: not shrunk.
      jpeg_quality: 1..100, used when an image is re-encoded as JPEG. 95: differences are hard to
        see.
      splits: fractions by split name, which sum to 1, such as {"train": 0.8, "test": 0.2}; None:
        the source's own splits, or one split "train".
      class_names: the names in the order of their numbers. None: by the source, sorted.
      num_shards: shards of each split. None: by size, about 256 MiB each.
    """

    image_size: Any = None
    resize: Literal["stretch", "crop", "pad"] = "stretch"
    channels: int | None = None
    background: tuple[int, int, int] = (255, 255, 255)
    encoding: Literal["auto", "raw", "jpeg", "original"] = "auto"
    store_size: int | None = None
    jpeg_quality: int = 95
    splits: Mapping[str, float] | None = None
    class_names: Sequence[str] | None = None
    num_shards: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "image_size", parse_image_size(self.image_size))
        check_choice("resize", self.resize, RESIZES)
        check_choice("encoding", self.encoding, ENCODINGS)
        if self.channels is not None:
            check_int("channels", self.channels, 1, 255)
        check_background(self.background)
        object.__setattr__(self, "background", tuple(int(value) for value in self.background))
        check_int("jpeg_quality", self.jpeg_quality, 1, 100)
        if self.store_size is not None:
            check_int("store_size", self.store_size, 1, MAX_SIDE)
            if self.encoding != "jpeg":
                raise ConfigError(
                    "store_size: only re-encoded images can be shrunk, got "
                    f"store_size={self.store_size} with "
                    f'encoding={self.encoding!r}. Pass encoding="jpeg".'
                )
        if self.num_shards is not None:
            check_int("num_shards", self.num_shards, 1, 99_999)
        if self.splits is not None:
            object.__setattr__(self, "splits", check_fractions(self.splits))
        if self.class_names is not None:
            if not is_list_of_names(self.class_names):
                raise ConfigError(
                    f"class_names: expected a list of names, got {self.class_names!r}."
                )
            object.__setattr__(self, "class_names", tuple(self.class_names))
        for field in ("channels", "store_size", "jpeg_quality", "num_shards"):
            if (value := getattr(self, field)) is not None:
                object.__setattr__(self, field, int(value))  # JSON has no integers of numpy

    def to_dict(self) -> dict[str, Any]:
        """Returns the options as JSON values, as `tfrds.json` records them."""
        fields = dataclasses.asdict(self)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in fields.items()
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSpec:
    """How each image of one dataset is stored: `BuildOptions` once the source is known.

    Attributes:
      encoding: "raw", "jpeg" or "original".
      channels: of the stored image.
      image_size: (height, width) that raw images are resized to, None: not resized.
      shape_from: for raw without `image_size`: the (height, width) that every image must have, else
        None.
      resize, background, store_size, jpeg_quality: as in `BuildOptions`.
    """

    encoding: Literal["raw", "jpeg", "original"]
    channels: int
    image_size: tuple[int, int] | None = None
    shape_from: tuple[int, int] | None = None
    resize: Literal["stretch", "crop", "pad"] = "stretch"
    background: tuple[int, int, int] = (255, 255, 255)
    store_size: int | None = None
    jpeg_quality: int = 95
