import numpy as np

from tfrds.disk.keys import Keys
from tfrds.write.sources import equal_keys
from tfrds.write.sources.equal_keys import find_equal


def equal(*keys):
    first, later = find_equal(Keys.from_iterable(key.encode() for key in keys))
    return list(zip(first.tolist(), later.tolist(), strict=True))


def test_rows_of_equal_keys_are_found_by_the_later_one():
    assert equal("b", "a", "c", "a", "b", "a") == [(1, 3), (0, 4), (1, 5)]
    assert equal("a", "b") == equal() == []


def test_keys_of_one_hash_are_not_equal_by_that(monkeypatch):
    monkeypatch.setattr(equal_keys.xxhash, "xxh3_64_intdigest", lambda key: 7)
    assert equal("a", "b") == []
    assert equal("a", "a", "b") == [(0, 1)]


def test_many_keys_are_those_of_a_dictionary():
    names = [str(number) for number in np.random.default_rng(0).integers(0, 900, 2_000)]
    seen: dict[str, int] = {}
    expected = [(seen.setdefault(name, row), row) for row, name in enumerate(names)]
    assert equal(*names) == [pair for pair in expected if pair[0] != pair[1]]
