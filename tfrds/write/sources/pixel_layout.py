"""How the image of each record is stored: as a file, or as raw pixels of which type and shape.

Gets what is given and what was found under the image's key, gives an `ImageRule`; part of
`record_layout.py`.
"""

import dataclasses

from tfrds.errors import ConfigError
from tfrds.write.sources.feature_guess import FeatureFound, square_shape
from tfrds.write.sources.record_arguments import RecordArguments
from tfrds.write.sources.record_guess import RecordsFound, undecided
from tfrds.write.sources.record_image import ITEMSIZES, OBVIOUS_RANGES, ImageRule, Pixels

# Names of the features that tell the size of raw pixels: height, width and perhaps channels.
_SIZE_KEYS = (
    ("height", "width"),
    ("image/height", "image/width"),
    ("image_height", "image_width"),
    ("rows", "cols"),
    ("h", "w"),
)
_CHANNEL_KEYS = ("channels", "depth", "image/channels", "image/depth", "image_channels", "c")

# More are hardly meant: as uint8, pixels of float32 seem to have four times their channels.
_MAX_GUESSED_CHANNELS = 4


def is_encoded(feature: FeatureFound) -> bool:
    """Whether a feature holds image files; a few that are damaged are found when they are read."""
    return feature.kind == "bytes" and 2 * feature.num_images > feature.num_records


def image_rule(
    image: FeatureFound, found: RecordsFound, given: RecordArguments
) -> tuple[ImageRule, str]:
    """Returns how images are stored, and a note of it.

    Raises:
      ConfigError: it cannot be decided, or does not fit what is given.
    """
    if is_encoded(image):
        formats = " and ".join(image.image_formats)
        for field in ("image_size", "channels", "pixel_dtype", "pixel_range"):
            if getattr(given, field) is not None:
                raise ConfigError(
                    f"{field}: is for raw pixels, but {image.key!r} holds {formats} images, which "
                    "have their own. Leave it out; the build has options that resize images."
                )
        return ImageRule(key=image.key, pixels=None), f"image: {image.key!r}, {formats} images."
    if image.kind not in ("bytes", "float"):
        raise undecided(
            f"image_key: expected an image as bytes or as a list of floats in {image.key!r}, found "
            f"{image.kind}",
            found,
        )
    dtype = _pixel_dtype(image, found, given)
    low, high = _pixel_range(image, dtype, given)
    pixels = Pixels(dtype=dtype, is_list=image.kind == "float", low=low, high=high)
    pixels, how = _with_shape(pixels, image, found, given)
    sides = (pixels.height, pixels.width, pixels.channels)
    shape = "x".join("?" if side is None else str(side) for side in sides)
    text = f"image: {image.key!r}, {dtype} pixels of {shape} (height x width x channels), {how}."
    return ImageRule(key=image.key, pixels=pixels), text


def has_shape(feature: FeatureFound, found: RecordsFound, given: RecordArguments) -> bool:
    """Whether the shape of what may be pixels follows from their number or other features."""
    keys = _size_keys(feature, found, given, feature.pixel_dtype or "uint8")
    return bool(keys) or square_shape(feature.num_pixel_values) is not None


def _pixel_dtype(image: FeatureFound, found: RecordsFound, given: RecordArguments) -> str:
    if image.kind == "float":
        if given.pixel_dtype in ("uint8", "int8"):
            raise ConfigError(
                f"pixel_dtype: {image.key!r} is a list of floats, expected 'float32' or 'float64', "
                f"got {given.pixel_dtype!r}."
            )
        return given.pixel_dtype or "float32"
    if not look_like_floats(image, found, given):
        return given.pixel_dtype or "uint8"
    low, high = image.values or (0.0, 1.0)
    raise undecided(
        f"pixel_dtype: the bytes of {image.key!r} look like {image.pixel_dtype} from {low:g} to "
        f'{high:g}. Pass pixel_dtype="{image.pixel_dtype}" and pixel_range, the values that become '
        '0 and 255, or pixel_dtype="uint8"',
        found,
    )


def look_like_floats(image: FeatureFound, found: RecordsFound, given: RecordArguments) -> bool:
    """Whether bytes that nothing is said about are hardly uint8."""
    is_open = image.kind == "bytes" and given.pixel_dtype is None
    seem = image.pixel_dtype not in ("uint8", None)
    return is_open and seem and not _fits_as_uint8(image, found, given)


def _fits_as_uint8(image: FeatureFound, found: RecordsFound, given: RecordArguments) -> bool:
    """Whether what is known of the size leaves no doubt that each byte is a value."""
    if given.image_size is None:
        return bool(_size_keys(image, found, given, "uint8"))
    height, width = given.image_size
    channels = (given.channels,) if given.channels else (1, 3)
    return any(image.num_bytes == (height * width * count,) * 2 for count in channels)


def _pixel_range(image: FeatureFound, dtype: str, given: RecordArguments) -> tuple[float, float]:
    if given.pixel_range is not None:
        low, high = given.pixel_range
        return low, high
    if dtype == "uint8":
        return OBVIOUS_RANGES[dtype]
    hint, (low, high) = "", OBVIOUS_RANGES.get(dtype, (0.0, 1.0))
    if dtype not in OBVIOUS_RANGES and image.values:
        hint = f"; those looked at run from {image.values[0]:g} to {image.values[1]:g}"
    raise ConfigError(
        f"pixel_range: expected (low, high), the values that become 0 and 255, for the {dtype} "
        f"pixels of {image.key!r}{hint}. Pass pixel_range=({low:g}, {high:g}) if that is meant."
    )


def _with_shape(
    pixels: Pixels, image: FeatureFound, found: RecordsFound, given: RecordArguments
) -> tuple[Pixels, str]:
    """Returns the pixels with their shape, and how it was found."""
    itemsize = 1 if pixels.is_list else ITEMSIZES[pixels.dtype]
    low, high = image.num_values if pixels.is_list else image.num_bytes
    count = low // itemsize if low == high and low % itemsize == 0 else None
    sizes = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    counted = f"{sizes} {'values' if pixels.is_list else 'bytes'}"
    if given.image_size is not None:
        channels = given.channels or _fitting_channels(pixels, count, given.image_size, counted)
        how = "as given" if given.channels else f"the channels by its {counted}"
        height, width = given.image_size
    elif keys := _size_keys(image, found, given, pixels.dtype):
        how = f"by {', '.join(map(repr, keys))} of each record"
        return dataclasses.replace(pixels, size_keys=keys, channels=given.channels), how
    else:
        shape = square_shape(count, (given.channels,) if given.channels else (3, 1))
        if shape is None:
            raise undecided(
                f"image_size: the shape of {image.key!r} cannot be told, {counted} of "
                f"{pixels.dtype} are no square. Pass image_size=(height, width) and channels",
                found,
            )
        height, width, channels = shape
        how = f"a square guessed from its {counted}"
    return dataclasses.replace(pixels, height=height, width=width, channels=channels), how


def _fitting_channels(
    pixels: Pixels, count: int | None, size: tuple[int, int], counted: str
) -> int | None:
    """Returns the channels that so many values make; None: their number differs."""
    if count is None:
        return None
    area = size[0] * size[1]
    channels = count // area
    if count != area * channels or not 1 <= channels <= _MAX_GUESSED_CHANNELS:
        raise ConfigError(
            f"image_size: {counted} of {pixels.dtype} are not {size[0]}x{size[1]} times 1 to "
            f"{_MAX_GUESSED_CHANNELS} channels, which are {area:,} values each. Correct "
            "image_size, or pass channels or pixel_dtype."
        )
    return channels


def _size_keys(
    image: FeatureFound, found: RecordsFound, given: RecordArguments, dtype: str
) -> tuple[str, ...]:
    """Returns the keys of the features that tell the size of the image in all records; or none."""
    itemsize = 1 if image.kind == "float" else ITEMSIZES[dtype]
    for pair in _SIZE_KEYS:
        for more in () if given.channels else _CHANNEL_KEYS:
            if all(_fits(image.key, (*pair, more), None, itemsize, size) for size in found.sizes):
                return (*pair, more)
        if all(_fits(image.key, pair, given.channels, itemsize, size) for size in found.sizes):
            return pair
    return ()


def _fits(
    image_key: str, keys: tuple[str, ...], channels: int | None, itemsize: int, size: dict[str, int]
) -> bool:
    if any(key not in size or key == image_key for key in keys) or image_key not in size:
        return False
    area = size[keys[0]] * size[keys[1]] * itemsize
    channels = size[keys[2]] if len(keys) > 2 else channels
    if area <= 0:
        return False
    if channels is not None:
        return size[image_key] == area * channels
    return size[image_key] % area == 0 and size[image_key] // area <= _MAX_GUESSED_CHANNELS
