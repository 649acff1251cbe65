"""The stages of a single example in numpy, with the very values of their twins in `stages/`.

They serve random access: no TensorFlow, so a worker process starts in a moment and may be forked.
"""
