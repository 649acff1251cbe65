"""The format on disk, for the writing and the reading side: records, index, keys, names, commit.

No TensorFlow and no TFDS here: worker processes and readers of raw bytes import it in milliseconds.
"""
