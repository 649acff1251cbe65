"""What the tests of known formats share: all examples of a source, the same as class folders."""

import io
import pathlib
import pickle

import images
import numpy as np
import PIL.Image

from tfrds.write.sources import ImageFolder


def examples(source):
    """Returns (split, class, pixels' shape, pixels) of all images, sorted; classes by name.

    The class of multi-label is a tuple of names, of values the numbers, of no labels None.
    """
    references = source.scan()
    splits = references.splits
    found = []
    names = ["" if splits is None else references.split_names[split] for split in range_of(splits)]
    for row in range(len(references.keys)):
        # As a worker gets it, and only rows of one split, as every shard's are.
        inputs = pickle.loads(pickle.dumps(source.inputs(np.array([row]))))
        pixels = decoded(inputs.read(0))
        split = names[0] if splits is None else names[splits[row]]
        found.append((split, label_of(references, row), pixels.shape, pixels.tobytes()))
    return sorted(found)


def range_of(splits):
    return [0] if splits is None else range(int(splits.max()) + 1)


def label_of(references, row):
    if references.label_kind == "none":
        return None
    if references.label_kind == "value":
        return references.labels[row].tolist()
    if references.label_kind == "multi":
        start, end = references.labels.offsets[row : row + 2].tolist()
        return tuple(references.class_names[k] for k in references.labels.numbers[start:end])
    return references.class_names[references.labels[row]]


def decoded(image):
    if isinstance(image, np.ndarray):
        return image
    with PIL.Image.open(io.BytesIO(image)) as opened:
        return np.asarray(opened)


def class_folder(root, arrays, names=None):
    """Returns the same images as PNGs in class folders, below a folder for each split.

    Args:
      root: folder to write to.
      arrays: (images, labels) by split; of the only one "" where it is none.
      names: of the classes; None: their numbers.
    """
    for split, (pixels, labels) in arrays.items():
        for number, (image, label) in enumerate(zip(pixels, labels, strict=True)):
            name = str(label) if names is None else names[label]
            path = pathlib.Path(root, split, name, f"{number:05d}.png")
            images.put(path, images.encoded(image[..., 0] if image.shape[-1] == 1 else image))
    return ImageFolder(root, layout="class" if list(arrays) == [""] else "split")


def random_images(count, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), np.uint8)
