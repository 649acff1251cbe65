import os

import numpy as np

from tfrds.write.sources.stamps import mix_stamps, stamp_of


def test_a_stamp_is_another_one_where_any_number_is():
    numbers = np.array([[1, 2, 3], [2, 1, 3], [1, 3, 2], [1, 2, -3], [0, 0, 0], [2**62, 2, 3]])
    stamps = mix_stamps(*numbers.T)
    assert (stamps.dtype, len(set(stamps.tolist()))) == (np.uint64, 6)
    assert mix_stamps(*numbers[:1].T).tolist() == stamps[:1].tolist()


def test_the_stamp_of_a_file_follows_its_size_and_time(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    os.utime(path, ns=(5, 5))
    before = stamp_of(path.stat())
    assert before == stamp_of(path.stat()) != stamp_of(path.stat(), "other pixels")
    os.utime(path, ns=(5, 6))
    later = stamp_of(path.stat())
    path.write_bytes(b"three")
    os.utime(path, ns=(5, 6))
    assert len({before, later, stamp_of(path.stat())}) == 3
