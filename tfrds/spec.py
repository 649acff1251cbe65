"""The options of builds, checked where they are made: frozen objects, no TensorFlow.

`BuildOptions` says what is written (every field decides bytes on disk), `ImageSpec` is its resolved
part for one image. What a dataset yields is said by `read_options.py`.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from tfrds.checks import (
    MAX_SIDE,
    check_background,
    check_bool,
    check_choice,
    check_int,
    is_number,
    parse_image_size,
)
from tfrds.class_names import parse_class_names
from tfrds.errors import ConfigError
from tfrds.split_settings import parse_split_settings, record_splits

ENCODINGS = ("auto", "raw", "jpeg", "original")
ON_ERROR = ("raise", "skip")
ON_DUPLICATE = ("keep", "drop", "raise")
RESIZES = ("stretch", "crop", "pad")
CHECKS = ("decode", "header", "none")
LABEL_KINDS = ("single", "binary", "multi", "value", "none")

# Labels that are one class, so that the index holds them.
CLASS_KINDS = ("single", "binary")

# Pillow's own limit for images from anywhere (twice its MAX_IMAGE_PIXELS), which is beyond cameras
# of 150 megapixels: a worker needs about 0.7 GB for such an image, four bytes a pixel.
MAX_PIXELS = 178_956_970

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
      check: what is looked at before a file is stored as it is. "decode" decodes all of it: what
        TensorFlow could not read, or libjpeg complains of, is found. "header" reads the header and
        looks for the mark that ends the file; it does not notice damage between them: changed or
        missing bytes, wrong checksums. "none" reads the header only, so files that were cut off
        pass too, and fail or come out gray in part when they are read. Images that are stored in
        another form are decoded in any case, and then cut files are found.
      exif_transpose: whether images are turned upright as their EXIF says. False: pixels stay as
        the file has them, so that photographs of turned cameras keep their JPEG bytes.
      max_pixels: height times width, in pixels, that an image may have at most; a larger one is
        refused by its header, before memory is taken for it. The default is Pillow's own limit.
      splits: fractions by split name, which sum to 1, such as {"train": 0.8, "test": 0.2}; or a
        number of folds, each a split of about equal size, "fold_0", "fold_1", ...; or lists of keys
        by split name, which name every example once. None: the source's own splits, or one split
        "train".
      split_by: how fractions and folds are drawn. "class": every split has its share of each class,
        as exact as whole examples and whole groups allow. "hash": an example's split depends only
        on its key, or its group's name, so it stays when examples are added or removed; shares
        are only about those asked for.
      group: what must stay together in one split, such as all images of one patient: a regular
        expression, whose first group (without one: whose match) in an example's key is the group's
        name, or a function from the key to that name, a string. None: the source's own groups,
        where it has some. The source's own splits and lists of keys must not tear a group apart.
      class_names: the names in the order of their numbers, or the path of a text file with one name
        a line. Classes without images stay, with a count of 0. None: by the source, sorted.
      label_kind: what labels are: "single" (one class), "binary" (one of two classes; read as
        0 or 1), "multi" (any number of classes; read as multi-hot), "value" (a number, or a vector
        of them) or "none" (images alone). None: as the source has them.
      on_error: what is done with images that cannot be stored: "raise" finds all of them and then
        stops, "skip" leaves them out, and `skipped.jsonl` says which and why.
      max_bad: share of all images, 0..1, that may be skipped; more of them stop the build.
      on_duplicate: what is done with images that hold the same bytes as another one: "keep",
        "drop" (of copies in several splits one outside of "train" stays), or "raise". Copies in two
        splits or under two labels are always reported.
      num_shards: shards of each split. None: by size, about 256 MiB each.
    """

    image_size: Any = None
    resize: Literal["stretch", "crop", "pad"] = "stretch"
    channels: int | None = None
    background: tuple[int, int, int] = (255, 255, 255)
    encoding: Literal["auto", "raw", "jpeg", "original"] = "auto"
    store_size: int | None = None
    jpeg_quality: int = 95
    check: Literal["decode", "header", "none"] = "decode"
    exif_transpose: bool = True
    max_pixels: int = MAX_PIXELS
    splits: int | Mapping[str, float] | Mapping[str, Iterable[str]] | None = None
    split_by: Literal["class", "hash"] = "class"
    group: str | Callable[[str], str] | None = None
    class_names: Any = None
    label_kind: Literal["single", "binary", "multi", "value", "none"] | None = None
    on_error: Literal["raise", "skip"] = "raise"
    max_bad: float = 0.01
    on_duplicate: Literal["keep", "drop", "raise"] = "keep"
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
        check_choice("check", self.check, CHECKS)
        check_bool("exif_transpose", self.exif_transpose)
        check_int("max_pixels", self.max_pixels, 1, MAX_SIDE**2)
        if self.store_size is not None:
            check_int("store_size", self.store_size, 1, MAX_SIDE)
            if self.encoding != "jpeg":
                raise ConfigError(
                    "store_size: only re-encoded images can be shrunk, got "
                    f"store_size={self.store_size} with "
                    f'encoding={self.encoding!r}. Pass encoding="jpeg".'
                )
        check_choice("on_error", self.on_error, ON_ERROR)
        check_choice("on_duplicate", self.on_duplicate, ON_DUPLICATE)
        if not (is_number(self.max_bad) and 0 <= self.max_bad <= 1):
            raise ConfigError(f"max_bad: expected a share from 0 to 1, got {self.max_bad!r}.")
        object.__setattr__(self, "max_bad", float(self.max_bad))
        if self.num_shards is not None:
            check_int("num_shards", self.num_shards, 1, 99_999)
        splits = parse_split_settings(self.splits, self.split_by, self.group)
        object.__setattr__(self, "splits", splits)
        object.__setattr__(self, "class_names", parse_class_names(self.class_names))
        if self.label_kind is not None:
            check_choice("label_kind", self.label_kind, LABEL_KINDS)
        for field in ("channels", "store_size", "jpeg_quality", "max_pixels", "num_shards"):
            if (value := getattr(self, field)) is not None:
                object.__setattr__(self, field, int(value))  # JSON has no integers of numpy

    def to_dict(self) -> dict[str, Any]:
        """Returns the options as JSON values, as `tfrds.json` records them.

        Lists of keys are recorded by their digests, a function for groups as "function".
        """
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["splits"] = record_splits(self.splits)
        if callable(self.group):
            fields["group"] = "function"
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
      resize, background, store_size, jpeg_quality, check, exif_transpose, max_pixels: as in
        `BuildOptions`.
    """

    encoding: Literal["raw", "jpeg", "original"]
    channels: int
    image_size: tuple[int, int] | None = None
    shape_from: tuple[int, int] | None = None
    resize: Literal["stretch", "crop", "pad"] = "stretch"
    background: tuple[int, int, int] = (255, 255, 255)
    store_size: int | None = None
    jpeg_quality: int = 95
    check: Literal["decode", "header", "none"] = "decode"
    exif_transpose: bool = True
    max_pixels: int = MAX_PIXELS
