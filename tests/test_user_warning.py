import numpy as np
import pytest

import tfrds


def test_a_warning_points_at_the_users_line(tmp_path):
    source = tfrds.sources.Arrays(np.zeros((2, 3, 3), np.uint8), ["cat", "cat"])
    with pytest.warns(tfrds.TfrdsWarning, match="single class 'cat'") as caught:
        tfrds.build("one", source, data_dir=tmp_path)
    assert [warning.filename for warning in caught] == [__file__]
