import copy
import pickle

import pytest

from tfrds.errors import EncodeError, TfrdsError


@pytest.mark.parametrize("travel", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize("reason", ["cut off or damaged", "too large"])
def test_reason_of_an_encode_error_travels_with_it(travel, reason):
    error = EncodeError("a/1.jpg: too bad.", reason)
    error.add_note("and more")
    arrived = travel(error)
    assert type(arrived) is EncodeError
    assert (str(arrived), arrived.args) == ("a/1.jpg: too bad.", ("a/1.jpg: too bad.",))
    assert arrived.reason == reason
    assert arrived.__notes__ == ["and more"]


def test_encode_error_without_a_reason_has_a_general_one():
    assert EncodeError("a/1.jpg: too bad.").reason == "cannot be stored"
    assert EncodeError().reason == "cannot be stored"
    assert issubclass(EncodeError, TfrdsError | ValueError)
