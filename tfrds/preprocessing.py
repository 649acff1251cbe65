"""New images for a trained model: `preprocess`, with the pixels that training saw.

Gets a builder and read options, gives a Keras layer that takes the bytes of image files; the write
side stores each image as the build would, the read side makes the model's pixels of it.
"""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

# Before TensorFlow: with PyTorch the other order can crash in its libraries.
import keras
import tensorflow as tf

from tfrds.disk.build_record import BuildRecord
from tfrds.disk.index import JPEG
from tfrds.errors import ConfigError, DatasetError, EncodeError, SourceError
from tfrds.image_builder import ImageDatasetBuilder
from tfrds.read.augmentation import parse_augmentation
from tfrds.read.new_image import NewImage
from tfrds.read.resolve import (
    choose_label_mode,
    choose_resize,
    choose_values,
    stored_shape,
)
from tfrds.read.stages.crop import CenterCrop
from tfrds.read.stages.resize import Resize
from tfrds.read.stages.values import Values
from tfrds.read_options import (
    ReadKeywords,
    ReadOptions,
    accepts_read_options,
    parse_read_options,
)
from tfrds.spec import BuildOptions, ImageSpec
from tfrds.write.encode import encode_image

_FILES = (bytes, str, os.PathLike)


@accepts_read_options
def preprocess(builder: ImageDatasetBuilder, **read_options: Unpack[ReadKeywords]) -> "Preprocess":
    """Returns a function from image files to the very pixels that training saw of such files.

    What it gives is equal bit for bit to what `builder.as_dataset` yields of the same files with
    the same read options and without random augmentation, at each place where it runs:

    - in Python, on the bytes of a file, its path, or a list of these: whatever a build accepts;
    - in `tf.data` and `tf.function`, on a tensor of strings, each the bytes of a JPEG or PNG;
    - as the first layer of a Keras model on the TensorFlow backend, so that `model.export` gives a
      model that takes files:

    ```python
    preprocess = tfrds.preprocess(tfrds.builder("flowers"), value_range=(0, 1))
    serving = keras.Sequential([keras.Input((), dtype="string"), preprocess, model])
    serving.export("flowers_model")
    ```

    Args:
      builder: of the prepared dataset that the model was trained on.
      **read_options: as for `as_dataset`, so that both can share them. Those about labels, order
        and batches change nothing here; of `augment` only a `CenterCrop` counts.

    Raises:
      ConfigError: an option is wrong, or the dataset holds arrays of a number of channels that no
        file has.
      DatasetError: the dataset is not prepared, damaged, or built with other OPTIONS.
    """
    if not isinstance(builder, ImageDatasetBuilder):
        raise ConfigError(
            "builder: expected a tfrds.ImageDatasetBuilder, as tfrds.builder(name) gives, got "
            f"{builder!r}."
        )
    options = parse_read_options(read_options)
    if not builder.is_prepared():
        raise DatasetError(
            f"{builder.data_dir}: no prepared dataset of {builder.name}. Call "
            "download_and_prepare()."
        )
    record = builder._record()
    builder._check_same_options(record)
    return Preprocess(
        image=_plain(_image_spec(record)),
        shape=stored_shape(record),
        resize=_plain(choose_resize(record, options)),
        crop=_plain(_crop(record, options)),
        values=_plain(choose_values(record, options)),
    )


@keras.saving.register_keras_serializable("tfrds")
class Preprocess(keras.layers.Layer):  # type: ignore[misc]
    """What `tfrds.preprocess` returns; it says what can be called where.

    Input:   bytes, a path, or a list of them; string [] or [batch], the bytes of JPEG and PNG files
    Output:  dtype [height, width, channels], or with a batch dimension in front

    Python gets a tensor of TensorFlow, on each backend of Keras. `model.save` keeps it, and
    `keras.saving.load_model` knows it once `tfrds.preprocess` was named in that process.

    Raises:
      ConfigError: images of several sizes cannot make a batch, or a model of another backend than
        TensorFlow is to take strings.
      EncodeError: a file that a build would refuse.
      SourceError: a path that cannot be read.
      tf.errors.InvalidArgumentError: in a graph, a file that is damaged, or that graph operations
        cannot decode exactly.
    """

    def __init__(
        self,
        *,
        image: Mapping[str, Any],
        shape: Sequence[int | None],
        resize: Mapping[str, Any] | None,
        crop: Mapping[str, Any] | None,
        values: Mapping[str, Any],
        name: str | None = None,
    ) -> None:
        """Makes the layer from what `get_config` gives.

        Args:
          image: fields of `ImageSpec`, how a build stores an image.
          shape: (height, width, channels) of stored images.
          resize: fields of `Resize`; None: not resized while reading.
          crop: fields of `CenterCrop`; None: not cropped.
          values: fields of `Values`, of the pixels.
          name: of the layer.
        """
        super().__init__(name=name, trainable=False)
        height, width, channels = shape
        self._stage = NewImage(
            spec=ImageSpec(**_frozen(image)),
            image_shape=(height, width, int(channels or 0)),
            resize=None if resize is None else Resize(**_frozen(resize)),
            crop=None if crop is None else CenterCrop(**_frozen(crop)),
            values=Values(**_frozen(values)),
        )
        self.supports_jit = False  # XLA knows no strings
        self.built = True

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def __call__(self, images: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the model's images; see the class."""
        if isinstance(images, keras.KerasTensor):
            # Here, as Keras would put words of its own around the error.
            self._check_symbol(images)
            return super().__call__(images, *args, **kwargs)
        if isinstance(images, _FILES):
            return self._stage.values.pixels(self._from_python(images, "image"))
        if isinstance(images, list | tuple):
            return self._batch_from_python(images)
        return self.call(images)

    def call(self, images: Any) -> Any:
        """Returns the model's images of a tensor of strings."""
        if not tf.is_tensor(images) or images.dtype != tf.string or images.shape.rank not in (0, 1):
            raise ConfigError(
                "images: expected the bytes or the path of a file, a list of these, or a tensor of "
                f"strings [] or [batch], got {images!r}."
            )
        if images.shape.rank:
            self._check_one_size()
        return self._stage.from_files(images)

    def compute_output_spec(self, images: Any) -> Any:
        """Returns the shape and dtype that Keras is told while it builds a model."""
        shape = (*images.shape, *self._stage.output_shape)
        return keras.KerasTensor(shape, dtype=self._stage.values.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as values of JSON."""
        stage = self._stage
        return {
            "name": self.name,
            "image": _plain(stage.spec),
            "shape": list(stage.image_shape),
            "resize": _plain(stage.resize),
            "crop": _plain(stage.crop),
            "values": _plain(stage.values),
        }

    def _check_symbol(self, images: Any) -> None:
        """Raises ConfigError unless a model can be built that takes what `images` stands for."""
        if keras.backend.backend() != "tensorflow":
            raise ConfigError(
                "images: a model that takes strings needs Keras's TensorFlow backend, this is "
                f"{keras.backend.backend()!r}. Preprocess before the model: "
                "dataset.map(preprocess), or preprocess([path, ...])."
            )
        if images.dtype != "string" or len(images.shape) > 1:
            raise ConfigError(
                'images: expected keras.Input((), dtype="string"), got '
                f"{images.dtype} {list(images.shape)}."
            )
        if images.shape:
            self._check_one_size()

    def _batch_from_python(self, files: Sequence[Any]) -> tf.Tensor:
        self._check_one_size()
        if not files:
            raise ConfigError("images: expected at least one file, got an empty list.")
        images = [self._from_python(file, f"image {number}") for number, file in enumerate(files)]
        return self._stage.values.pixels(tf.stack(images))

    def _from_python(self, file: Any, where: str) -> tf.Tensor:
        """Returns one image before its values."""
        if not isinstance(file, _FILES):
            raise ConfigError(f"images: {where}: expected bytes or a path, got {file!r}.")
        if not isinstance(file, bytes):
            where = os.fspath(file)
        try:
            data = file if isinstance(file, bytes) else pathlib.Path(file).read_bytes()
            # Of any size: what is wrong with it is said below, for who has a dataset.
            stored = encode_image(data, dataclasses.replace(self._stage.spec, shape_from=None))
        except OSError as error:
            raise SourceError(f"{where}: cannot be read: {error.strerror}.") from error
        except EncodeError as error:
            raise EncodeError(f"{where}: {error}", error.reason) from error
        size, expected = (stored.height, stored.width), self._stage.expected_size
        if expected not in (None, size):
            raise EncodeError(
                f"{where}: size (height, width): expected {expected}, as all images of the dataset "
                f"have, got {size}. {self._stage.size_advice}",
                "wrong size",
            )
        return self._stage.from_stored(stored.data, *size, is_jpeg=stored.encoding == JPEG)

    def _check_one_size(self) -> None:
        if None in self._stage.output_shape:
            raise ConfigError(
                "image_size: the images of the dataset have several sizes, so they make no batch. "
                "Pass image_size=(height, width) to tfrds.preprocess, or one image at a time."
            )


def _image_spec(record: BuildRecord) -> ImageSpec:
    """Returns how the build of a dataset stores an image."""
    built, height_width = record.content["options"], record.image_shape[:2]
    encoding, channels = record.content["image"]["encoding"], record.image_shape[2]
    if channels not in (1, 3):
        raise ConfigError(
            f"builder: {record.name} holds arrays of {channels} channels, which no image file has."
        )
    names = ("image_size", "resize", "background", "store_size", "jpeg_quality")
    # Records of the first builds have none of these, which were then as by default now.
    later = ("exif_transpose", "max_pixels")
    try:
        options = BuildOptions(
            encoding=encoding,
            **{name: built[name] for name in names},
            **{name: built[name] for name in later if name in built},
        )
    except (KeyError, ConfigError) as error:
        raise DatasetError(
            f"{record.directory}: tfrds.json does not say how images are stored: {error!r}. Copy "
            "or build the dataset again."
        ) from error
    is_raw = encoding == "raw"
    shape_from: Any = height_width if is_raw and not options.image_size else None
    return ImageSpec(
        encoding=encoding,
        channels=channels,
        image_size=options.image_size if is_raw else None,
        shape_from=shape_from,
        resize=options.resize,
        background=options.background,
        store_size=options.store_size,
        jpeg_quality=options.jpeg_quality,
        check="decode",  # whatever the build left out: a new image is one, and its fault is named
        exif_transpose=options.exif_transpose,
        max_pixels=options.max_pixels,
    )


def _crop(record: BuildRecord, options: ReadOptions) -> CenterCrop | None:
    """Returns the one stage of `augment` that is not random."""
    crop = parse_augmentation(
        [stage for stage in options.augment if isinstance(stage, CenterCrop)],
        seed=0,
        channels=record.image_shape[2],
        label_mode=choose_label_mode(record, options),
        batch_size=None,
    ).crop
    return crop if isinstance(crop, CenterCrop) else None


def _plain(stage: Any) -> Any:
    """Returns the fields of a frozen dataclass as values of JSON; None as it is."""
    if stage is None:
        return None
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(stage).items()
    }


def _frozen(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what `_plain` was given the fields of."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
