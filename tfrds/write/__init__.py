"""Labelled images -> shards: sources, splits, plan, encode, shards, executors, in that order.

Runs in worker processes too, so nothing here imports TensorFlow or TFDS (seconds of start-up each).
"""
