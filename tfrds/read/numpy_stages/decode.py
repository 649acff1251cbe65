"""Decodes one stored image without TensorFlow, to the same pixels.

Input:   data   bytes, JPEG or 8-bit PNG
Output:  image  uint8 [height, width, channels], 0..255, each divided by `ratio` and rounded up
Raises:  ValueError: damaged, or not of that kind; the caller knows which record it is.
Source:  `stages/decode.py`. simplejpeg's exact DCT and fancy upsampling are those of TensorFlow's
         INTEGER_ACCURATE, at all ratios.
"""

import io

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import PngImagePlugin

_MODES = {1: "L", 3: "RGB"}
_COLORSPACES = {1: "GRAY", 3: "RGB"}


def decode_encoded(data: bytes, channels: int, is_jpeg: bool, ratio: int = 1) -> NDArray[np.uint8]:
    """Returns the pixels; a gray image is repeated in each channel.

    Args:
      data: of the file.
      channels: 1 or 3.
      is_jpeg: else a PNG.
      ratio: 1, 2, 4 or 8, by how much a JPEG is decoded smaller by its own transform.
    """
    if not is_jpeg:
        return _decode_png(data, channels)
    smallest = {}
    if ratio > 1:
        height, width, *_ = simplejpeg.decode_jpeg_header(data)
        # libjpeg's smallest size that is no smaller than this, which is this one.
        smallest = {"min_height": -(-height // ratio), "min_width": -(-width // ratio)}
    pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(
        data, colorspace=_COLORSPACES[channels], **smallest
    )
    return pixels


def _decode_png(data: bytes, channels: int) -> NDArray[np.uint8]:
    # Not by Image.open: it looks at the other formats too, and warns of large images, which a build
    # has accepted.
    try:
        with PngImagePlugin.PngImageFile(io.BytesIO(data)) as image:
            pixels = np.array(image.convert(_MODES[channels]))
    except Exception as error:  # Pillow raises almost anything: SyntaxError, struct.error
        raise ValueError(str(error) or type(error).__name__) from error
    return pixels.reshape(*pixels.shape[:2], channels)
