"""The formats of sources by name, and what a source of each is called in messages.

`sources/recognise.py` tells them apart, the command line offers them; it must start in a moment, so
nothing is imported here.
"""

DESCRIPTIONS = {
    "folder": "a folder of images",
    "manifest": "a table of images",
    "archive": "archives of images",
    "tfrecords": "TFRecord files",
    "npz": "numpy arrays in an .npz file",
    "idx": "idx files, as those of MNIST",
    "cifar": "CIFAR's binary files",
    "coco": "COCO-style JSON",
    "tfds": "a dataset of TFDS",
}

FORMATS = tuple(DESCRIPTIONS)
