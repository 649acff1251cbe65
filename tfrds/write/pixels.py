"""Makes all pixels alike: upright, 8 bits, gray or RGB, no transparency, of the size asked for.

Gets what Pillow decoded (`write/check.py`) or an array; gives a Pillow image of mode "L" or "RGB"
for `write/encode.py` to store. Each rule about orientation, bit depth, transparency and resizing
stands here once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tfrds.errors import EncodeError
from tfrds.geometry import crop_box, pad_box
from tfrds.write.check import pillow_errors

# How an image of each EXIF orientation is turned upright; 1 is upright.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def normalise(
    image: Image.Image,
    channels: int,
    background: tuple[int, int, int],
    orientation: int = 1,
) -> Image.Image:
    """Returns the image in mode "L" or "RGB", upright, without transparency and metadata.

    Args:
      image: decoded; it may be changed.
      channels: 1 or 3 of the result.
      background: (red, green, blue), 0..255, what shows where the image is transparent. Gray is
        taken after that, so one channel shows its luma.
      orientation: by EXIF, of the pixels as they are.

    Raises:
      EncodeError: pixels of 32 bits, or of up to 16 bits in a form that Pillow does not scale.
    """
    problem = f"cannot be converted from Pillow's mode {image.mode!r}"
    with pillow_errors(problem, reason="unsupported mode"):
        image = _to_eight_bits(image)
        if image.has_transparency_data:
            image = _flatten(image, background)
        if image.mode not in ("L", "RGB"):
            image = image.convert("L" if image.mode == "1" else "RGB")
        if image.mode != _MODES[channels]:
            image = image.convert(_MODES[channels])
        if orientation in _TURNS:
            image = image.transpose(_TURNS[orientation])
    # Encoders store the comment, profile and EXIF they find here, and EXIF would turn it again.
    image.info = {}
    return image


def array_image(array: NDArray[Any]) -> Image.Image:
    """Returns uint8 [height, width] or [height, width, 1..4] as gray, gray + alpha, RGB or RGBA."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    mode = _MODES[1 if array.ndim == 2 else array.shape[2]]
    return Image.frombytes(mode, (array.shape[1], array.shape[0]), array.tobytes())


def resize_image(
    image: Image.Image,
    size: tuple[int, int],
    resize: str = "stretch",
    background: tuple[int, int, int] = (255, 255, 255),
) -> Image.Image:
    """Returns the image in another size, by bilinear interpolation with antialias.

    Args:
      image: mode "L" or "RGB".
      size: (height, width) of the result.
      resize: "stretch", "crop" (cut to `crop_box`, then resized) or "pad" (resized to `pad_box`, on
        `background`).
      background: (red, green, blue), 0..255; its luma in a gray image.
    """
    height, width = size
    if (image.height, image.width) == size:
        return image
    if resize == "crop":
        top, left, box_h, box_w = crop_box(image.height, image.width, height, width)
        # Cut first: resize(box=...) lets the pixels outside the box into its edges. By paste(), as
        # crop() refuses boxes above Pillow's own limit of pixels, which is not ours.
        box = Image.new(image.mode, (box_w, box_h))
        box.paste(image, (-left, -top))
        image = box
    if resize != "pad":
        return _bilinear(image, height, width)
    top, left, inner_h, inner_w = pad_box(image.height, image.width, height, width)
    canvas = Image.new("RGB", (width, height), background).convert(image.mode)
    canvas.paste(_bilinear(image, inner_h, inner_w), (left, top))
    return canvas


def _bilinear(image: Image.Image, height: int, width: int) -> Image.Image:
    """Resizes one side after the other, as Pillow 13 does it in one call.

    Each pass rounds, so their order decides bits, and it differs between versions: up to 12 Pillow
    begins with the width always.
    """
    cut = image.height - height
    is_height_first = cut > 0 and cut > 2 * (image.width - width)
    first = (image.width, height) if is_height_first else (width, image.height)
    half = image.resize(first, Image.Resampling.BILINEAR)
    return half.resize((width, height), Image.Resampling.BILINEAR)


def resize_array(
    array: NDArray[Any], size: tuple[int, int], resize: str, background: tuple[int, int, int]
) -> NDArray[Any]:
    """Resizes each channel of uint8 [height, width, channels] as `resize_image` does a gray image.

    That way no channel is taken for transparency: Pillow resizes RGBA as colour times alpha.
    """
    planes = [
        resize_image(array_image(array[:, :, channel]), size, resize, background)
        for channel in range(array.shape[2])
    ]
    return np.stack([np.asarray(plane) for plane in planes], axis=-1)


def _to_eight_bits(image: Image.Image) -> Image.Image:
    # 16-bit gray is "I;16..." in Pillow, but "I" from PPM and, in older versions, from PNG.
    is_sixteen_bits = image.mode.startswith("I;16") or (
        image.mode == "I" and image.format in ("PNG", "PPM")
    )
    if not is_sixteen_bits:
        if image.mode in ("I", "F"):
            raise EncodeError(
                f"pixels of 32 bits, Pillow's mode {image.mode!r}: expected 8 or 16 bits. Their "
                "range is not guessed: convert it to 8 bits.",
                "unsupported mode",
            )
        return image
    if image.format == "TIFF":
        _check_tiff(image)
    array = np.asarray(image)
    # The top 8 bits, as libpng and TensorFlow take; convert("L") would clip at 255.
    gray = Image.fromarray((array >> 8).astype(np.uint8))
    transparent = image.info.get("transparency")
    if transparent is None:
        return gray
    alpha = np.where(array == transparent, 0, 255).astype(np.uint8)
    return Image.merge("LA", (gray, Image.fromarray(alpha)))


def _check_tiff(image: Image.Image) -> None:
    # Pillow hands out 12-bit values unscaled and 16-bit "white is zero" uninverted, without a word.
    tags: Any = getattr(image, "tag_v2", {})
    bits, photometric = tags.get(258, (16,)), tags.get(262, 1)
    if tuple(bits) != (16,) or photometric != 1:
        raise EncodeError(
            f"gray TIFF of {bits[0]} bits and photometric interpretation {photometric}: expected 8 "
            "bits, or 16 and interpretation 1 (black is zero). Convert it to 8 bits.",
            "unsupported mode",
        )


def _flatten(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
    if image.mode == "La":
        image = image.convert("LA")  # the only conversion that Pillow has for it
    canvas = Image.new("RGBA", image.size, (*background, 255))
    return Image.alpha_composite(canvas, image.convert("RGBA")).convert("RGB")
