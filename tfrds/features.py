"""TFDS feature connectors for a labelled image: what TFDS's own reader decodes with.

Get stored bytes and class numbers, give `float32` pixels and one-hot rows, the same values as the
fast path. `declared.py` declares them. Their names `tfrds.features.Image`, `Label`, `BinaryLabel`
and `MultiLabel` stand in datasets and never change.
"""

import contextlib
import contextvars
import functools
import html
import io
import logging
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow_datasets as tfds
import tree  # dm-tree, as TFDS itself maps over nested splits
from numpy.typing import NDArray
from tensorflow_datasets.core.features import feature as feature_lib

if TYPE_CHECKING:
    import tensorflow as tf


_log = logging.getLogger("tfrds")

# Whether the running call chose TFDS's own reader knowingly, and has said so itself.
_chosen: contextvars.ContextVar[bool] = contextvars.ContextVar("tfds_reader_chosen", default=False)


@contextlib.contextmanager
def tfds_reader_chosen() -> Iterator[None]:
    """Keeps the features from saying what the caller has said already."""
    token = _chosen.set(True)
    try:
        yield
    finally:
        _chosen.reset(token)


def images_alone(datasets: Any, info: tfds.core.DatasetInfo, splits: Any) -> Any:
    """Returns the images of datasets of dicts, or of their only batches.

    Args:
      datasets: that were read, in the structure of `splits`.
      info: of the dataset.
      splits: split expressions, in any structure.
    """
    (key,) = (key for key, feature in info.features.items() if isinstance(feature, Image))
    take = operator.itemgetter(key)
    return tree.map_structure_up_to(
        splits, lambda one: take(one) if isinstance(one, dict) else one.map(take), datasets
    )


def _say_which_reader() -> None:
    if not _chosen.get():
        _say_which_reader_once()


@functools.cache
def _say_which_reader_once() -> None:
    # Only TFDS's own reader decodes by the features. Whoever meets it by an explicit version or
    # data_dir has the right values at a fraction of the speed, and would not know why.
    _log.warning(
        "TFDS's own reader serves this dataset of tfrds: the same values, but not the fast path. "
        'The fast forms are tfrds.load(...), tfds.load("name") after `import tfrds`, and '
        'tfds.load("name:1.0.0/fast=True").'
    )


class Image(tfds.features.Image):  # type: ignore[misc]
    """An image, stored as raw pixels, JPEG or PNG.

    Output: `float32 [height, width, channels]`, 0..255.

    Args:
      shape: (height, width, channels) of the output; height and width None where they vary.
      encoding: "raw", "jpeg" or "original", as in `tfrds.BuildOptions`.
      resize: how stored images of other sizes reach `shape`: "stretch", "crop" or "pad"; None: they
        have its size.
      background: one value for each channel, 0..255, around padded images.
      doc: as for every TFDS feature.
    """

    def __init__(
        self,
        *,
        shape: Sequence[int | None] = (None, None, 3),
        encoding: str = "original",
        resize: str | None = None,
        background: Sequence[int] = (),
        doc: Any = None,
    ) -> None:
        super().__init__(doc=doc)
        self._shape: Any = tuple(shape)
        self._encoding = encoding
        self._resize = resize
        self._background = tuple(background)

    # TFDS memoizes these two, and so do its base classes: ours are cheap.
    def get_tensor_info(self) -> feature_lib.TensorInfo:
        """Returns shape and dtype of the output."""
        return feature_lib.TensorInfo(shape=self._shape, dtype=np.float32)

    def get_serialized_info(self) -> feature_lib.TensorInfo:
        """Returns that an image is stored as one string of bytes."""
        return feature_lib.TensorInfo(shape=(), dtype=np.object_)

    def encode_example(self, example_data: Any) -> bytes:
        """Returns stored bytes.

        Raw pixels from uint8 or whole float arrays, encoded images as they are.
        """
        if isinstance(example_data, np.ndarray) and self._encoding == "raw":
            return np.clip(np.rint(example_data), 0, 255).astype(np.uint8).tobytes()
        if isinstance(example_data, np.ndarray):
            example_data = np.clip(np.rint(example_data), 0, 255).astype(np.uint8)
            return self._png(example_data)
        return bytes(super().encode_example(example_data))

    def decode_example(self, tfexample_data: "tf.Tensor") -> "tf.Tensor":
        """Returns float32 `shape` from the stored bytes, in the graph."""
        # TensorFlow takes seconds to import; building a dataset needs none of it.
        import tensorflow as tf

        from tfrds.read.stages.decode import decode_encoded, decode_raw
        from tfrds.read.stages.resize import Resize

        _say_which_reader()
        if self._encoding == "raw":
            image = decode_raw(tfexample_data, self._shape)
        else:
            image = decode_encoded(tfexample_data, self._shape[2])
        if self._resize:
            resize = Resize(
                image_size=self._shape[:2], resize=self._resize, background=self._background
            )
            image = resize(image)
        return tf.ensure_shape(tf.cast(image, tf.float32), self._shape)

    def decode_example_np(self, example: bytes) -> NDArray[np.float32]:
        """Returns float32 `shape` from the stored bytes, as numpy."""
        return np.asarray(self.decode_example(example))

    def repr_html(self, ex: NDArray[Any]) -> str:
        """Returns a thumbnail."""
        return str(super().repr_html(np.clip(np.rint(ex), 0, 255).astype(np.uint8)))

    def to_json_content(self) -> Mapping[str, Any]:
        """Returns the arguments as JSON values."""
        return {
            "shape": list(self._shape),
            "encoding": self._encoding,
            "resize": self._resize,
            "background": list(self._background),
        }

    @classmethod
    def from_json_content(cls, value: Mapping[str, Any]) -> "Image":
        """Returns the feature of `to_json_content`."""
        return cls(**value)

    @staticmethod
    def _png(pixels: NDArray[np.uint8]) -> bytes:
        from PIL import Image as PillowImage

        file = io.BytesIO()
        PillowImage.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, "PNG")
        return file.getvalue()


class Label(tfds.features.ClassLabel):  # type: ignore[misc]
    """A class, stored as its number.

    Output: `float32 [num_classes]`, one-hot.

    Args:
      names: of the classes, in the order of their numbers.
      num_classes: instead of `names`.
      offset: is added to the numbers in records that others wrote.
      is_text: such records hold the classes' names.
      doc: as for every TFDS feature.
    """

    def __init__(
        self,
        *,
        names: Iterable[str] | None = None,
        num_classes: int | None = None,
        offset: int = 0,
        is_text: bool = False,
        doc: Any = None,
    ) -> None:
        super().__init__(names=names, num_classes=num_classes, doc=doc)
        self._offset = offset
        self._is_text = is_text

    def get_tensor_info(self) -> feature_lib.TensorInfo:
        """Returns shape and dtype of the output."""
        return feature_lib.TensorInfo(shape=(self.num_classes,), dtype=np.float32)

    def get_serialized_info(self) -> feature_lib.TensorInfo:
        """Returns that a label is stored as one integer, or as text."""
        return feature_lib.TensorInfo(shape=(), dtype=np.object_ if self._is_text else np.int64)

    def encode_example(self, example_data: Any) -> Any:
        """Returns a class's number, an int, from its number, its name or a one-hot row."""
        return int(super().encode_example(_number(example_data)))

    def decode_example(self, tfexample_data: "tf.Tensor") -> "tf.Tensor":
        """Returns float32 [num_classes], in the graph."""
        import tensorflow as tf

        return tf.one_hot(self._numbers(tfexample_data), self.num_classes)

    def decode_example_np(self, example_data: Any) -> NDArray[np.float32]:
        """Returns float32 [num_classes], as numpy."""
        row = np.zeros(self.num_classes, np.float32)
        row[self._number_np(example_data)] = 1
        return row

    def _numbers(self, stored: "tf.Tensor") -> "tf.Tensor":
        """Returns int64 class numbers from what records hold, in the graph."""
        import tensorflow as tf

        from tfrds.read.stages.class_numbers import check_class_numbers

        if not self._is_text:
            return check_class_numbers(stored + self._offset, self.num_classes)
        is_name = tf.equal(stored, tf.constant(self.names))
        known = tf.debugging.Assert(
            tf.reduce_any(is_name), ["expected the name of a class, found", stored]
        )
        with tf.control_dependencies([known]):
            return tf.argmax(is_name, output_type=tf.int64)

    def _number_np(self, stored: Any) -> Any:
        if self._is_text:
            return int(self.str2int(stored.decode() if isinstance(stored, bytes) else stored))
        return self._checked_np(np.asarray(stored, np.int64) + self._offset)

    def _checked_np(self, numbers: NDArray[np.int64]) -> Any:
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < self.num_classes:
            raise ValueError(
                f"expected labels from 0 to {self.num_classes - 1:,}, found {numbers.tolist()}."
            )
        return numbers

    def int2str(self, int_value: Any) -> str:
        """Returns the name of a class's number, or of a one-hot row."""
        return str(super().int2str(_number(int_value)))

    def repr_html(self, ex: Any) -> str:
        """Returns the class's number and name."""
        number = int(_number(ex))
        return html.escape(f"{number} ({self.int2str(number)})")

    def to_json_content(self) -> Mapping[str, Any]:
        """Returns the number of classes; their names lie in a file of their own."""
        foreign = {"offset": self._offset, "is_text": self._is_text}
        return {
            "num_classes": self.num_classes,
            **{name: value for name, value in foreign.items() if value},
        }

    @classmethod
    def from_json_content(cls, value: Mapping[str, Any]) -> "Label":
        """Returns the feature of `to_json_content`."""
        return cls(**value)


class BinaryLabel(Label):
    """One of two classes, stored as its number.

    Output: `float32 [1]`, 0 or 1.

    Args:
      names: of the two classes, in the order of their numbers.
      num_classes: instead of `names`: 2.
      doc: as for every TFDS feature.
    """

    def get_tensor_info(self) -> feature_lib.TensorInfo:
        """Returns shape and dtype of the output."""
        return feature_lib.TensorInfo(shape=(1,), dtype=np.float32)

    def encode_example(self, example_data: Any) -> Any:
        """Returns a class's number, an int, from its number, its name or the output's form."""
        array = np.asarray(example_data)
        return super().encode_example(int(array[0]) if array.shape == (1,) else example_data)

    def decode_example(self, tfexample_data: "tf.Tensor") -> "tf.Tensor":
        """Returns float32 [1], in the graph."""
        import tensorflow as tf

        return tf.cast(self._numbers(tfexample_data), tf.float32)[tf.newaxis]

    def decode_example_np(self, example_data: Any) -> NDArray[np.float32]:
        """Returns float32 [1], as numpy."""
        return np.array([self._number_np(example_data)], np.float32)

    def int2str(self, int_value: Any) -> str:
        """Returns the name of a class's number, or of the output's form."""
        array = np.asarray(int_value)
        return str(super().int2str(int(array[0]) if array.shape == (1,) else int_value))

    def repr_html(self, ex: Any) -> str:
        """Returns the class's number and name."""
        return html.escape(f"{int(np.asarray(ex).reshape(-1)[0])} ({self.int2str(ex)})")


class MultiLabel(Label):
    """Any number of classes, stored as the list of their numbers.

    Output: `float32 [num_classes]`, 1 for each class of the example, else 0.

    Args:
      names: of the classes, in the order of their numbers.
      num_classes: instead of `names`.
      doc: as for every TFDS feature.
    """

    def get_serialized_info(self) -> feature_lib.TensorInfo:
        """Returns that a label is stored as a list of integers."""
        return feature_lib.TensorInfo(shape=(None,), dtype=np.int64)

    def encode_example(self, example_data: Any) -> Any:
        """Returns int64 class numbers from numbers, names or a multi-hot row."""
        array = np.asarray(example_data)
        if array.shape == (self.num_classes,) and array.dtype.kind == "f":
            return np.flatnonzero(array)
        number = super(Label, self).encode_example
        return np.array(sorted({int(number(label)) for label in example_data}), np.int64)

    def decode_example(self, tfexample_data: "tf.Tensor") -> "tf.Tensor":
        """Returns float32 [num_classes], in the graph."""
        import tensorflow as tf

        from tfrds.read.stages.class_numbers import check_class_numbers

        numbers = check_class_numbers(tfexample_data, self.num_classes)
        rows = tf.one_hot(numbers, self.num_classes)
        return tf.ensure_shape(tf.reduce_sum(rows, axis=0), (self.num_classes,))

    def decode_example_np(self, example_data: Any) -> NDArray[np.float32]:
        """Returns float32 [num_classes], as numpy."""
        row = np.zeros(self.num_classes, np.float32)
        row[self._checked_np(np.asarray(example_data, np.int64))] = 1
        return row

    def int2str(self, int_value: Any) -> str:
        """Returns the names of class numbers, or of a multi-hot row, joined by commas."""
        array = np.asarray(int_value)
        numbers = np.flatnonzero(array) if array.dtype.kind == "f" else array.reshape(-1)
        return ", ".join(self.names[number] for number in numbers.tolist())

    def repr_html(self, ex: Any) -> str:
        """Returns the numbers and names of the classes."""
        numbers = np.flatnonzero(np.asarray(ex)).tolist()
        return html.escape(", ".join(f"{number} ({self.names[number]})" for number in numbers))


def _number(label: Any) -> Any:
    """Returns the class's number of a one-hot row; anything else as it is."""
    array = np.asarray(label)
    return int(array.argmax()) if array.ndim == 1 and array.dtype.kind == "f" else label
