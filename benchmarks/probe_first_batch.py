"""Prints the seconds from `tfrds.load` to its first batch, in a process that has just imported.

Arguments: name, data_dir, options of tfrds.load as JSON. `waiting.py` runs it.
"""

import json
import sys
import time

import tensorflow as tf
import tensorflow_datasets as tfds  # noqa: F401  imported before the clock starts

import tfrds


def main() -> None:
    name, data_dir, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    # Its names are imported when they are first used, and imports are not counted.
    load = tfrds.load
    start = time.perf_counter()
    dataset = load(
        name, data_dir=data_dir, split="train", shuffle=True, as_supervised=True, **options
    )
    images, _ = next(iter(dataset))
    seconds = time.perf_counter() - start
    assert images.dtype == tf.float32
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
