"""Shards -> batches: order, fetch, stages, pipeline, in that order.

`order` and `fetch` never import TensorFlow, so that raw bytes can be read without it.
"""
