"""Reads Fashion-MNIST's idx files, as get_data.py fetches them, into numpy arrays.

Source: the idx format of the MNIST files: two zero bytes, the type (8: uint8), the number of
dimensions, then each dimension as a big-endian uint32, then the values.
"""

import gzip
import pathlib

import numpy as np

CLASS_NAMES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle-boot",
)

_FILE_PREFIXES = {"train": "train", "test": "t10k"}


def load_fashion_mnist(
    folder: str | pathlib.Path,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns {split: (images, labels)} for "train" (60,000 examples) and "test" (10,000).

    images  uint8 [n, 28, 28], read-only
    labels  int64 [n], numbers of CLASS_NAMES
    """
    return {
        split: (
            read_idx(pathlib.Path(folder) / f"{prefix}-images-idx3-ubyte.gz"),
            read_idx(pathlib.Path(folder) / f"{prefix}-labels-idx1-ubyte.gz").astype(np.int64),
        )
        for split, prefix in _FILE_PREFIXES.items()
    }


def read_idx(path: pathlib.Path) -> np.ndarray:
    """Returns the uint8 array of a gzipped idx file, read-only."""
    with gzip.open(path) as file:
        data = file.read()
    num_dims = data[3]
    if data[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path}: not an idx file of bytes, starts with {data[:4].hex()}.")
    shape = np.frombuffer(data, ">u4", num_dims, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * num_dims).reshape(shape)
