"""Small datasets for the tests of reading, built once a session, with what their sources hold.

The pixels that tests compare with come from the source files, decoded by Pillow, never from tfrds.
"""

import dataclasses
import io
import os
import pathlib
import subprocess
import sys

import numpy as np
import PIL.Image
import tensorflow as tf

import tfrds

ROOT = pathlib.Path(__file__).resolve().parent.parent
NUM_TRAIN, NUM_TEST, NUM_SHARDS = 50, 13, 3
CLASS_NAMES = ("ant", "bee", "cat", "dog")


@dataclasses.dataclass(frozen=True)
class Built:
    """A dataset on disk and its source.

    Attributes:
      name: of the dataset.
      root: its data_dir.
      pixels: uint8 [height, width, 3] of each image of the source, by key.
      labels: class number, by key.
    """

    name: str
    root: pathlib.Path
    pixels: dict[str, np.ndarray]
    labels: dict[str, int]

    @property
    def directory(self):
        return self.root / self.name / "1.0.0"

    @property
    def builder(self):
        return tfrds.builder(self.name, data_dir=self.root)

    def load(self, split="train", **arguments):
        return self.builder.as_dataset(split=split, **arguments)

    def stored(self, split):
        """Returns (pixels, label) of each record by its tfds_id, by TensorFlow and Pillow."""
        examples = {}
        for path in sorted(self.directory.glob(f"{self.name}-{split}.tfrecord-*")):
            for row, record in enumerate(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()):
                feature = tf.train.Example.FromString(record).features.feature
                data = feature["image"].bytes_list.value[0]
                (label,) = feature["label"].int64_list.value
                examples[f"{path.name}__{row}"] = (self._decoded(data), label)
        return examples

    def _decoded(self, data):
        if self.name.startswith("raw"):
            return np.frombuffer(data, np.uint8).reshape(self.pixels["test/00"].shape)
        return decoded(data)


def decoded(data):
    with PIL.Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def photo(seed, height, width, channels=3):
    """Returns uint8 [height, width, channels]: gradients and noise, as in a photograph."""
    random = np.random.RandomState(seed)
    rows, columns = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    colours = random.randint(0, 256, (4, 1, 1, channels))
    top = colours[0] * (1 - columns[..., None]) + colours[1] * columns[..., None]
    bottom = colours[2] * (1 - columns[..., None]) + colours[3] * columns[..., None]
    smooth = top * (1 - rows[..., None]) + bottom * rows[..., None]
    return np.clip(smooth + random.normal(0, 12, smooth.shape), 0, 255).astype(np.uint8)


def build_raw(root):
    """One shard more than processors, images as arrays."""
    arrays, pixels, labels = {}, {}, {}
    for split, count in (("train", NUM_TRAIN), ("test", NUM_TEST)):
        images = np.stack([photo(1000 * count + number, 9, 7) for number in range(count)])
        classes = np.arange(count) * 7 % len(CLASS_NAMES)
        arrays[split] = tfrds.sources.Arrays(images, classes)
        for number in range(count):
            pixels[f"{split}/{number:02d}"] = images[number]
            labels[f"{split}/{number:02d}"] = int(classes[number])
    build("raw_images", arrays, root, class_names=CLASS_NAMES)
    return Built("raw_images", root, pixels, labels)


def build_jpeg(root, source):
    """JPEGs with every chroma subsampling, progressive, gray and with odd sides."""
    return _build_files("jpeg_images", root, source, ".jpg", _save_jpeg, lambda number: (37, 29))


def build_png(root, source):
    """PNGs in colour and gray."""
    return _build_files("png_images", root, source, ".png", _save_png, lambda number: (11, 18))


def build_sizes(root, source):
    """JPEGs of several sizes, for which no size is declared."""
    sizes = ((40, 30), (31, 57), (8, 8), (64, 64), (17, 90))
    return _build_files(
        "several_sizes", root, source, ".jpg", _save_jpeg, lambda number: sizes[number % len(sizes)]
    )


def build(name, source, root, **options):
    return tfrds.build(
        name,
        source,
        data_dir=root,
        **{
            "encoding": "raw" if name.startswith("raw") else "original",
            "num_shards": NUM_SHARDS,
            **options,
        },
        num_workers=1,
    )


def _build_files(name, root, source, ending, save, size):
    pixels, labels = {}, {}
    for split, count in (("train", NUM_TRAIN), ("test", NUM_TEST)):
        for number in range(count):
            label = number % len(CLASS_NAMES)
            key = f"{split}/{CLASS_NAMES[label]}/{number:02d}{ending}"
            path = source / key
            path.parent.mkdir(parents=True, exist_ok=True)
            save(path, number, photo(7 * count + number, *size(number)))
            pixels[key] = decoded(path.read_bytes())
            labels[key] = label
    build(name, source, root)
    return Built(name, root, pixels, labels)


def _save_jpeg(path, number, image):
    if number % 7 == 6:
        image = image[..., 0]
    options = {} if image.ndim == 2 else {"subsampling": ("4:4:4", "4:2:2", "4:2:0")[number % 3]}
    PIL.Image.fromarray(image).save(
        path, quality=(60, 75, 90, 95)[number % 4], progressive=number % 5 == 4, **options
    )


def _save_png(path, number, image):
    PIL.Image.fromarray(image[..., 0] if number % 7 == 6 else image).save(path)


def values(examples):
    """Returns [(image bytes, label)] of pairs or dicts: lists and multisets of them compare."""
    pairs = [
        (example["image"], example["label"]) if isinstance(example, dict) else example
        for example in examples
    ]
    return [(np.asarray(image).tobytes(), int(np.argmax(label))) for image, label in pairs]


def environment(**variables):
    """Returns the variables for a process that imports tfrds and the modules beside the tests."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return {**os.environ, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1", **variables}


def run_script(script, *arguments, timeout=120, **variables):
    """Runs Python code in its own process; returns it finished, with its output as text."""
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def resized_by_stage(images, image_size, resize, background):
    """What the stage makes of images; tests/test_stage_resize.py compares it with numpy."""
    from tfrds.read.stages.resize import Resize

    return Resize(image_size=image_size, resize=resize, background=background)(images)
