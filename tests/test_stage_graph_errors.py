import pytest
import tensorflow as tf

from tfrds.read.stages.graph_errors import checked, first_fault, say


@pytest.mark.parametrize("is_in_graph", [False, True])
def test_graph_ends_with_the_first_fault_and_where_it_is(is_in_graph):
    def half(value):
        fault = first_fault(
            (value < 0, say("expected at least 0, got ", value, ".")),
            (value % 2 == 1, "expected an even number."),
            (value < -10, "never said, as an earlier one holds."),
        )
        return checked(value, fault, "image 3") // 2

    function = tf.function(half) if is_in_graph else half
    assert function(tf.constant(8)) == 4
    with pytest.raises(tf.errors.InvalidArgumentError, match="image 3: expected an even number"):
        function(tf.constant(7))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"image 3: expected at .*, got -11\."):
        function(tf.constant(-11))
