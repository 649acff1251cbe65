"""What the tests of writing share: makes folders of images, reads shards without tfrds."""

import contextlib
import io
import os
import pathlib
import struct

import numpy as np
import PIL.Image


def noise(seed, height, width, channels=3):
    """Returns uint8 [height, width, channels], [height, width] for one; other for each seed."""
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def encoded(pixels, kind="PNG", **arguments):
    """Returns `pixels` as the bytes of a file."""
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, kind, **arguments)
    return file.getvalue()


def put(path, data):
    """Writes `data`, bytes or text, to `path`; makes the folders above."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def put_images(root, names, height=4, width=5):
    """Writes a PNG of its own pixels for each name below `root`; the seed is the position."""
    for seed, name in enumerate(names):
        put(pathlib.Path(root, name), encoded(noise(seed, height, width)))
    return pathlib.Path(root)


def frames(path):
    """Returns (offset of the frame, data) of each record, from the lengths in the file alone."""
    content, offset, found = pathlib.Path(path).read_bytes(), 0, []
    while offset < len(content):
        (length,) = struct.unpack_from("<Q", content, offset)
        found.append((offset, content[offset + 12 : offset + 12 + length]))
        offset += 12 + length + 4
    return found


def files_below(root):
    """Returns the bytes of every file below `root`, by its path relative to it."""
    root = pathlib.Path(root)
    paths = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@contextlib.contextmanager
def without_root():
    """Takes root's rights away inside the block; other users have none to lose."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
