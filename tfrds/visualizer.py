"""Pictures for `tfds.show_examples`: float pixels and one-hot labels as matplotlib can show them.

TFDS's own grid hands pixels to matplotlib as they are, which takes floats for 0..1 and would show
white, and would write the whole one-hot row under each picture. Nothing of TFDS is imported at the
top: this module is loaded at the end of TFDS's own import.
"""

import importlib
from typing import Any


class ImageVisualizer:
    """TFDS's grid of examples, for datasets with our features."""

    def match(self, ds_info: Any) -> bool:
        """Whether the dataset has an image of ours."""
        from tfrds.features import Image

        return any(isinstance(feature, Image) for feature in dict(ds_info.features).values())

    def show(self, ds: Any, ds_info: Any, **options: Any) -> Any:
        """Returns the figure of TFDS's grid, with uint8 pixels and class numbers."""
        import tensorflow as tf
        from tensorflow_datasets.core.visualization.image_visualizer import ImageGridVisualizer

        from tfrds.features import Image, Label, MultiLabel

        def displayed(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            shown = dict(example)
            for key, feature in ds_info.features.items():
                if isinstance(feature, Image):
                    shown[key] = tf.saturate_cast(tf.round(example[key]), tf.uint8)
                elif isinstance(feature, Label) and key in example:
                    shown[key] = numbers(feature, example[key])
            return shown

        def numbers(feature: Any, label: tf.Tensor) -> tf.Tensor:
            if label.shape.rank == 0:
                return label  # read as a number
            if isinstance(feature, MultiLabel):
                return tf.where(label > 0)[:, 0]
            return tf.cast(label[0], tf.int64) if label.shape[0] == 1 else tf.argmax(label)

        return ImageGridVisualizer().show(ds.map(displayed), ds_info, **options)


def install() -> None:
    """Lets `tfds.show_examples` try this visualizer first.

    TFDS 4.9.10 keeps its visualizers in a private list, without a function to add to it.
    """
    module = importlib.import_module("tensorflow_datasets.core.visualization.show_examples")
    module._ALL_VISUALIZERS.insert(0, ImageVisualizer())
