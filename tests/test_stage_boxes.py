"""The boxes in graph operations are those of geometry.py, whose own tests know the right ones."""

import pytest
import tensorflow as tf

from tfrds import geometry
from tfrds.read.stages import boxes

SIZES = [(1, 1), (1, 90), (90, 1), (7, 5), (5, 7), (480, 640), (641, 479), (65_535, 65_535)]


@pytest.mark.parametrize("name", ["crop_box", "pad_box"])
def test_boxes_are_those_of_geometry(name):
    in_graph = tf.function(getattr(boxes, name), input_signature=[tf.TensorSpec((), tf.int64)] * 4)
    for size in SIZES:
        for target in SIZES:
            found = [int(side) for side in in_graph(*size, *target)]
            assert found == list(getattr(geometry, name)(*size, *target)), (size, target)


def test_targets_may_be_plain_integers():
    height, width = tf.constant(480, tf.int64), tf.constant(641, tf.int64)
    for name in ("crop_box", "pad_box"):
        found = [int(side) for side in getattr(boxes, name)(height, width, 224, 200)]
        assert found == list(getattr(geometry, name)(480, 641, 224, 200))


@pytest.mark.parametrize("shorter_side", [1, 6, 480, 70_000])
def test_shrunk_sizes_are_those_of_geometry(shorter_side):
    for height, width in SIZES:
        found = boxes.shrink_size(
            tf.constant(height, tf.int64), tf.constant(width, tf.int64), shorter_side
        )
        assert [int(side) for side in found] == list(
            geometry.shrink_size(height, width, shorter_side)
        )


def test_size_is_that_of_the_last_three_dimensions():
    assert [int(side) for side in boxes.size_of(tf.zeros((5, 3, 4, 1)))] == [3, 4]
    assert [int(side) for side in boxes.size_of(tf.zeros((3, 4, 1)))] == [3, 4]
