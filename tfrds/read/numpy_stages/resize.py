"""Resizes one image to the very values of TensorFlow, in numpy.

Input:   image  uint8 [height, width, channels], 0..255
Output:  image  float32 [image_size[0], image_size[1], channels], 0..255, not rounded
Source:  `stages/resize.py`; the kernels of TensorFlow: resize_bilinear_op.cc with half pixel
         centres, resize_area_op.cc, and scale_and_translate_op.cc with a triangle for "antialias".
         Each axis is resized for itself; which one first, and the order of the operations in single
         precision, decide the last bits, so they are theirs.
"""

import functools

import numpy as np
from numpy.typing import NDArray

from tfrds.geometry import crop_box, pad_box
from tfrds.read.resolve import ResizeSpec

# Rows are [width * channels] here: numpy takes whole rows, and columns out of flat rows, at 20
# times the speed of columns of a few channels.
_Plane = NDArray[np.uint8] | NDArray[np.float32]

# Images of many sizes resized to one: weights are a few kB for each side.
_KEPT_SIDES = 256


def resize_image(image: NDArray[np.uint8], spec: ResizeSpec) -> NDArray[np.float32]:
    """Returns the image in the size of `spec`."""
    height, width, channels = image.shape
    if spec.resize == "stretch":
        return _to(image, spec.image_size, spec.interpolation)
    if spec.resize == "crop":
        top, left, height, width = crop_box(height, width, *spec.image_size)
        box = image[top : top + height, left : left + width]
        return _to(box, spec.image_size, spec.interpolation)
    top, left, height, width = pad_box(height, width, *spec.image_size)
    colour = np.array(spec.background, np.float32)
    padded = np.empty((*spec.image_size, channels), np.float32)
    padded[:] = colour
    inner = _to(image, (height, width), spec.interpolation)
    # The stage pads the difference to the background, and rounds by that.
    padded[top : top + height, left : left + width] = (inner - colour) + colour
    return padded


def _to(image: NDArray[np.uint8], size: tuple[int, int], interpolation: str) -> NDArray[np.float32]:
    plane = image.reshape(len(image), -1)
    axes = (len(image), size[0]), (image.shape[1], size[1])
    resized = _INTERPOLATIONS[interpolation](plane, *axes, image.shape[2])
    return resized.reshape(*size, image.shape[2])


def _bilinear(
    plane: _Plane, rows: tuple[int, int], columns: tuple[int, int], channels: int
) -> NDArray[np.float32]:
    lowers, uppers, shares = _neighbours(*columns)
    left = plane.take(_flat(lowers, channels), axis=1).astype(np.float32)
    right = plane.take(_flat(uppers, channels), axis=1).astype(np.float32)
    across = _between(left, right, np.repeat(shares, channels))
    lowers, uppers, shares = _neighbours(*rows)
    return _between(across.take(lowers, axis=0), across.take(uppers, axis=0), shares[:, None])


def _between(
    low: NDArray[np.float32], high: NDArray[np.float32], shares: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Returns low + (high - low) * shares, in the memory of `high`."""
    high -= low
    high *= shares
    high += low
    return high


@functools.lru_cache(_KEPT_SIDES)
def _neighbours(
    count: int, length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Returns the two pixels that each of `length` lies between, and how near to the second."""
    scale = np.float32(count) / np.float32(length)
    places = (np.arange(length, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
    floors = np.floor(places)
    lowers = np.maximum(floors, 0).astype(np.int64)
    uppers = np.minimum(np.ceil(places), count - 1).astype(np.int64)
    return lowers, uppers, places - floors


def _area(
    plane: _Plane, rows: tuple[int, int], columns: tuple[int, int], channels: int
) -> NDArray[np.float32]:
    sources, weights = _covered(*columns)
    across = _sum_columns(plane, sources, weights, channels)
    sums = _sum_rows(across, *_covered(*rows))
    scales = [np.float32(count) / np.float32(length) for count, length in (rows, columns)]
    sums *= np.float32(1.0 / float(scales[0] * scales[1]))
    return sums


@functools.lru_cache(_KEPT_SIDES)
def _covered(count: int, length: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Returns [taps, length] which pixels each of `length` covers, and how much of each."""
    scale = np.float32(count) / np.float32(length)
    begins = np.arange(length, dtype=np.float32) * scale
    ends = np.arange(1, length + 1, dtype=np.float32) * scale
    firsts, lasts = np.floor(begins).astype(np.int64), np.ceil(ends).astype(np.int64)
    sources = firsts + np.arange((lasts - firsts).max())[:, np.newaxis]
    pixels = sources.astype(np.float32)
    reaches_beyond = pixels + 1 > ends
    weights = np.where(
        pixels < begins,
        np.where(reaches_beyond, scale, pixels + 1 - begins),
        np.where(reaches_beyond, ends - pixels, np.float32(1)),
    )
    weights[sources >= lasts] = 0
    return np.minimum(sources, count - 1), weights


def _antialias(
    plane: _Plane, rows: tuple[int, int], columns: tuple[int, int], channels: int
) -> NDArray[np.float32]:
    down = _sum_rows(plane, *_triangles(*rows))
    sources, weights = _triangles(*columns)
    return _sum_columns(down, sources, weights, channels)


@functools.lru_cache(_KEPT_SIDES)
def _triangles(count: int, length: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Returns [taps, length] which pixels make each of `length`, and the weight of each."""
    scale = np.float32(length) / np.float32(count)
    step = np.float32(1.0 / float(scale))
    radius = max(step, np.float32(1))
    places = (np.arange(length, dtype=np.float32) + np.float32(0.5)) * step
    firsts = np.ceil(places - radius - np.float32(0.5)).astype(np.int64)
    lasts = np.floor(places + radius - np.float32(0.5)).astype(np.int64)
    firsts, lasts = np.clip(firsts, 0, count - 1), np.clip(lasts, 0, count - 1)
    sources = firsts + np.arange((lasts - firsts).max() + 1)[:, np.newaxis]
    distances = sources.astype(np.float32) + np.float32(0.5) - places
    weights = np.maximum(1 - np.abs(distances * (1 / radius)), np.float32(0))
    weights[sources > lasts] = 0
    total = np.zeros(length, np.float32)
    for weight in weights:  # one after the other, as the kernel adds them
        total += weight
    return np.minimum(sources, count - 1), weights * (1 / total)


def _sum_rows(
    plane: _Plane, sources: NDArray[np.int64], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Returns the weighted sums of rows, added one after the other."""
    terms = (
        plane.take(source, axis=0).astype(np.float32, copy=False) * weight[:, np.newaxis]
        for source, weight in zip(sources, weights, strict=True)
    )
    return functools.reduce(lambda total, term: np.add(total, term, out=total), terms)


def _sum_columns(
    plane: _Plane, sources: NDArray[np.int64], weights: NDArray[np.float32], channels: int
) -> NDArray[np.float32]:
    terms = (
        plane.take(_flat(source, channels), axis=1).astype(np.float32, copy=False)
        * np.repeat(weight, channels)
        for source, weight in zip(sources, weights, strict=True)
    )
    return functools.reduce(lambda total, term: np.add(total, term, out=total), terms)


def _flat(columns: NDArray[np.int64], channels: int) -> NDArray[np.int64]:
    """Returns where the channels of these columns lie in a row."""
    places: NDArray[np.int64] = columns[:, np.newaxis] * channels + np.arange(channels)
    return places.ravel()


_INTERPOLATIONS = {"bilinear": _bilinear, "area": _area, "antialias": _antialias}
