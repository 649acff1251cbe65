"""One example: from stored bytes to pixels of one size, with the crop as early as it can be.

Gets the boxes of the crop and what the index knows of each image; gives instructions (numpy, for a
batch) and the graph function that follows them. Whole batches of raw images need neither: fetch
copies their pixels, or a crop of them, into one array.
"""

import dataclasses

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfrds.read.stages.decode import decode_box, decode_encoded, decode_raw, decode_smaller
from tfrds.read.stages.resize import Resize
from tfrds.read.stages.stage import Boxes, CropStage

# What `instructions` says of each image, in this order.
INSTRUCTIONS = ("ratio", "is_jpeg", "top", "left", "height", "width", "above", "before")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleStage:
    """How the images of one dataset are decoded, cropped and resized.

    Attributes:
      is_raw: pixels are stored, not JPEG and PNG.
      image_shape: (height, width, channels) as stored, height and width None where they vary.
      resize: to one size; None: images are taken as they are, or whole batches are resized.
      has_whole_bytes: raw images come whole, also where a box is cut out of them first.
      crop: of the images; resized boxes are cut before `resize`, boxes of one size after it.
    """

    is_raw: bool
    image_shape: tuple[int | None, int | None, int]
    resize: Resize | None = None
    crop: CropStage | None = None
    has_whole_bytes: bool = False

    @property
    def is_cut_first(self) -> bool:
        """Whether boxes are of the stored images, and not of the resized ones."""
        return self.crop is not None and (self.crop.is_resized or self.resize is None)

    @property
    def is_fetched_whole(self) -> bool:
        """Whether fetch gives one array of a batch's pixels: nothing is left to do for each."""
        if self.crop and (self.crop.is_resized or self.has_whole_bytes):
            return False
        return self.is_raw and not self.resize

    @property
    def output_shape(self) -> tuple[int | None, int | None, int]:
        """(height, width, channels) of each image before batches are made."""
        size = self.image_shape[:2]
        if self.crop is not None and not self.crop.is_resized:
            size = self.crop.image_size
        elif self.resize:
            size = self.resize.image_size
        return (*size, self.image_shape[2])

    def cut_sizes(
        self, heights: NDArray[np.int64], widths: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns (heights, widths) of the images that boxes are drawn for."""
        if self.is_cut_first or self.resize is None:
            return heights, widths
        height, width = self.resize.image_size
        return np.full_like(heights, height), np.full_like(widths, width)

    @property
    def plain_instructions(self) -> tuple[int, ...]:
        """What is said of an image that is neither cut nor decoded smaller."""
        return (1, *[0] * (len(INSTRUCTIONS) - 1))

    def instructions(
        self,
        heights: NDArray[np.int64],
        widths: NDArray[np.int64],
        is_jpeg: NDArray[np.bool_],
        boxes: Boxes | None,
    ) -> NDArray[np.int32]:
        """Returns int32 [n, len(INSTRUCTIONS)], what `__call__` takes with each image.

        How much smaller a JPEG is decoded; whether it is one; the part of the box inside the image,
        in pixels of what is decoded; how much of the box lies above and before the image.
        """
        count = len(heights)
        ratios = np.ones(count, np.int64)
        if boxes is None:
            if self.resize:
                ratios = self.resize.decode_ratios(heights, widths, is_jpeg)
            boxes = np.zeros((count, 4), np.int64)
        else:
            heights, widths = self.cut_sizes(heights, widths)
            if self.resize and self.is_cut_first and not self.is_raw:
                ratios = self.resize.decode_ratios(boxes[:, 2], boxes[:, 3], is_jpeg)
                boxes = _smaller(boxes, heights, widths, ratios)
        inside, offsets = _inside(boxes, -(-heights // ratios), -(-widths // ratios))
        columns = [ratios[:, np.newaxis], is_jpeg[:, np.newaxis], inside, offsets]
        return np.concatenate(columns, axis=1).astype(np.int32)

    def __call__(self, data: tf.Tensor, instructions: tf.Tensor) -> tf.Tensor:
        """Returns uint8 or float32 `output_shape`, 0..255.

        Args:
          data: string [], the stored bytes; of raw images, those of the box where it is cut first.
          instructions: int32 [len(INSTRUCTIONS)].
        """
        ratio, is_jpeg, top, left, height, width, above, before = tf.unstack(instructions)
        channels = self.image_shape[2]
        if self.is_cut_first:
            if self.is_raw and self.has_whole_bytes:
                image = decode_raw(data, self.image_shape)[top : top + height, left : left + width]
            elif self.is_raw:
                image = decode_raw(data, (height, width, channels))
            else:
                image = decode_box(
                    data, channels, (top, left, height, width), is_jpeg != 0, self._ratio(ratio)
                )
        elif self.is_raw:
            image = decode_raw(data, self.image_shape)
        elif self._ratio(ratio) is None:
            image = decode_encoded(data, channels)
        else:
            image = decode_smaller(data, channels, ratio)
        if self.resize:
            image = self.resize(image)
        if self.crop is None or self.crop.is_resized:
            return image
        if not self.is_cut_first:
            image = image[top : top + height, left : left + width]
        return place(image, above, before, self.crop)

    def _ratio(self, ratio: tf.Tensor) -> tf.Tensor | None:
        return ratio if self.resize and self.resize.may_decode_smaller else None


def _smaller(
    boxes: Boxes,
    heights: NDArray[np.int64],
    widths: NDArray[np.int64],
    ratios: NDArray[np.int64],
) -> Boxes:
    """Returns boxes in pixels of images that are decoded at 1 / `ratios`, to the nearest pixel."""
    parts = []
    for axis, lengths in enumerate((heights, widths)):
        # Such an image is rounded up, so its last pixel may stand for less than a whole one.
        ends = boxes[:, axis] + boxes[:, axis + 2]
        lasts = np.where(ends == lengths, -(-ends // ratios), np.rint(ends / ratios))
        firsts = np.minimum(np.rint(boxes[:, axis] / ratios), lasts - 1)
        parts.append((firsts, lasts - firsts))
    (tops, box_heights), (lefts, box_widths) = parts
    return np.stack([tops, lefts, box_heights, box_widths], axis=1).astype(np.int64)


def _inside(
    boxes: Boxes, heights: NDArray[np.int64], widths: NDArray[np.int64]
) -> tuple[Boxes, NDArray[np.int64]]:
    """Returns the parts of boxes inside their images, and how much lies [above, before] those."""
    sizes = np.stack([heights, widths], axis=1)
    firsts, lasts = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
    inner = np.clip(firsts, 0, sizes)
    inside = np.concatenate([inner, np.clip(lasts, 0, sizes) - inner], axis=1)
    return inside, inner - firsts


def place(image: tf.Tensor, above: tf.Tensor, before: tf.Tensor, crop: CropStage) -> tf.Tensor:
    """Returns the image on a ground of the crop's size and colour."""
    height, width = crop.image_size
    fill = tf.constant(crop.fill)
    if image.dtype != tf.float32:
        fill = tf.saturate_cast(tf.round(fill), image.dtype)
    shape = tf.shape(image)

    def padded() -> tf.Tensor:
        below, after = height - above - shape[0], width - before - shape[1]
        # Around the difference to the ground, which wraps around in uint8, are zeros.
        return tf.pad(image - fill, [[above, below], [before, after], [0, 0]]) + fill

    is_full = (shape[0] == height) & (shape[1] == width)
    placed = tf.cond(is_full, lambda: image, padded)
    return tf.ensure_shape(placed, (height, width, image.shape[-1]))
