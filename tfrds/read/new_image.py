"""A new image as training would see it: what a build stores of it, then what reading makes of that.

Gets the bytes of image files in a graph, or one image as `write/encode.py` stores it; gives the
model's pixels. `preprocessing.py` puts it into a Keras layer.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfrds.cpus import available_cpus
from tfrds.read.example import place
from tfrds.read.stages.as_built import AsBuilt
from tfrds.read.stages.boxes import size_of
from tfrds.read.stages.crop import CenterCrop
from tfrds.read.stages.decode import decode_encoded, decode_raw, decode_smaller
from tfrds.read.stages.graph_errors import checked, say
from tfrds.read.stages.pillow_resize import PillowResize, shrink
from tfrds.read.stages.resize import Resize
from tfrds.read.stages.values import Values
from tfrds.spec import ImageSpec, background_values


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewImage:
    """The stage.

    Attributes:
      spec: how a build stores an image.
      image_shape: (height, width, channels) of stored images, height and width None where they
        vary.
      resize: of what was decoded; None: it has the size that is asked for.
      crop: after that; None: none.
      values: of the pixels.
    """

    spec: ImageSpec
    image_shape: tuple[int | None, int | None, int]
    resize: Resize | None
    crop: CenterCrop | None
    values: Values

    @property
    def output_shape(self) -> tuple[int | None, int | None, int]:
        """(height, width, channels) of each image that comes out, None where they vary."""
        height, width, channels = self.image_shape
        if self.crop:
            height, width = self.crop.image_size
        elif self.resize:
            height, width = self.resize.image_size
        return height, width, channels

    @property
    def expected_size(self) -> tuple[int, int] | None:
        """The (height, width) that images must have to be stored, or to come out; None: any."""
        if self.spec.encoding == "raw":
            return self.spec.shape_from
        height, width, _ = self.image_shape
        if height is None or width is None or self.resize or self.crop:
            return None
        return height, width

    @property
    def size_advice(self) -> str:
        """What to do about an image of another size than expected."""
        if self.spec.encoding == "raw":
            return "Resize it before, or build the dataset with image_size."
        return "Pass image_size=(height, width) to tfrds.preprocess."

    def from_files(self, files: tf.Tensor) -> tf.Tensor:
        """Returns the model's images, in graph operations only: values.dtype [..., *output_shape].

        Args:
          files: string [] or [batch], the bytes of JPEG and PNG files. A batch needs a whole
            `output_shape`.
        """
        # Here whatever else a machine has: other devices resize with other roundings.
        with tf.device("/cpu:0"):
            if files.shape.rank == 0:
                return self.values.pixels(self._from_file(files, tf.constant("image")))
            return self.values.pixels(self._from_batch(files))

    def from_stored(self, data: bytes, height: int, width: int, is_jpeg: bool) -> tf.Tensor:
        """Returns one image before its values, uint8 or float32 `output_shape`.

        Args:
          data: as stored: raw pixels, JPEG or PNG.
          height: of what is stored.
          width: likewise.
          is_jpeg: whether it is a JPEG.
        """
        channels = self.image_shape[2]
        with tf.device("/cpu:0"):
            if self.spec.encoding == "raw":
                return self._read(decode_raw(data, (height, width, channels)))
            if is_jpeg:
                return self._read(self._decode_jpeg(data, height, width))
            return self._read(decode_encoded(data, channels))

    def _from_batch(self, files: tf.Tensor) -> tf.Tensor:
        """Returns a batch of images before their values; string [batch] as `files`."""

        def from_numbered(pair: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            return self._from_file(pair[0], say("image ", pair[1]))

        numbers = tf.range(tf.size(files))
        if tf.executing_eagerly() and len(files):
            # After an error map_fn would also complain of what it did not come to use.
            return tf.stack([from_numbered(pair) for pair in zip(files, numbers, strict=True)])
        dtype = tf.float32 if self.resize else tf.uint8
        return tf.map_fn(
            from_numbered,
            (files, numbers),
            fn_output_signature=tf.TensorSpec(self.output_shape, dtype),
            parallel_iterations=available_cpus(),
        )

    def _from_file(self, data: tf.Tensor, where: tf.Tensor) -> tf.Tensor:
        """Returns one image before its values.

        Args:
          data: string [], the bytes of a file.
          where: what errors call it.
        """
        spec = self.spec
        as_built = AsBuilt(
            channels=spec.channels,
            background=spec.background,
            exif_transpose=spec.exif_transpose,
            max_pixels=spec.max_pixels,
            decode_ratio=self._decode_ratio if spec.encoding == "original" else None,
        )
        image = as_built(data, where)
        if spec.encoding == "raw" and spec.image_size:
            colour = background_values(spec.background, spec.channels)
            image = PillowResize(image_size=spec.image_size, resize=spec.resize, background=colour)(
                image
            )
        if spec.encoding == "jpeg":
            image = self._through_jpeg(image)
        return self._read(self._with_expected_size(image, where))

    def _through_jpeg(self, image: tf.Tensor) -> tf.Tensor:
        """Returns the image as it comes back from being stored as a JPEG.

        TensorFlow's encoder and Pillow's are the same, libjpeg-turbo: of 2,100 parts of photographs
        all pixels came back alike, at qualities from 1 to 100, in colour and gray.
        """
        if self.spec.store_size:
            image = shrink(image, self.spec.store_size)
        stored = tf.io.encode_jpeg(
            image,
            format="grayscale" if self.spec.channels == 1 else "rgb",
            quality=self.spec.jpeg_quality,
            chroma_downsampling=True,  # as Pillow, at each quality
        )
        return self._decode_jpeg(stored, *size_of(image))

    def _decode_jpeg(self, data: tf.Tensor, height: Any, width: Any) -> tf.Tensor:
        """Returns the pixels of a stored JPEG, decoded smaller where reading does."""
        channels = self.image_shape[2]
        if self._decode_ratio is None:
            return decode_encoded(data, channels)
        sides = tf.cast(height, tf.int64), tf.cast(width, tf.int64)
        return decode_smaller(data, channels, self._decode_ratio(*sides))

    @property
    def _decode_ratio(self) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None:
        """By how much stored JPEGs are decoded smaller; None: never, as before a crop."""
        if self.resize is None or self.crop or not self.resize.may_decode_smaller:
            return None
        return self.resize.decode_ratio

    def _with_expected_size(self, image: tf.Tensor, where: tf.Tensor) -> tf.Tensor:
        if self.expected_size is None:
            return image
        height, width = size_of(image)
        is_expected = tf.equal(height, self.expected_size[0]) & tf.equal(
            width, self.expected_size[1]
        )
        fault = say(
            f"size (height, width): expected {self.expected_size}, as all images of the dataset "
            "have, got (",
            height,
            ", ",
            width,
            "). ",
            self.size_advice,
        )
        image = checked(image, tf.where(is_expected, "", fault), where)
        return tf.ensure_shape(image, (*self.expected_size, self.spec.channels))

    def _read(self, image: tf.Tensor) -> tf.Tensor:
        """Returns what reading makes of a decoded image before its values."""
        if self.resize:
            image = self.resize(image)
        # Of the stages of `augment` only this one is not random.
        if self.crop:
            image = _crop_center(image, self.crop)
        return tf.ensure_shape(image, self.output_shape)


def _crop_center(image: tf.Tensor, crop: CenterCrop) -> tf.Tensor:
    """Returns the box of `CenterCrop.boxes`, filled where it reaches beyond the image."""
    first = (tf.shape(image)[:2] - tf.constant(crop.image_size)) // 2
    cut = tf.maximum(first, 0)
    box = image[cut[0] : cut[0] + crop.image_size[0], cut[1] : cut[1] + crop.image_size[1]]
    above, before = tf.unstack(cut - first)
    return place(box, above, before, crop)
