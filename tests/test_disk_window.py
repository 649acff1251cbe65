import os
import random

import counting
import images
import pytest

from tfrds.disk.window import Window, open_window
from tfrds.errors import SourceError


def test_going_to_and_fro_across_an_image_reads_each_end_once(tmp_path, monkeypatch):
    path = images.put(tmp_path / "file", os.urandom(200_000))
    content = path.read_bytes()
    counted = counting.CountingPread(monkeypatch)
    with open_window(str(path)) as window:
        for place in (0, 190_000, 20, 190_100, 0, 190_050):
            assert window.take(place, 30) == content[place : place + 30]
    assert len(counted.sizes) == 2


def test_a_window_gives_any_bytes_in_any_order(tmp_path):
    path = images.put(tmp_path / "file", os.urandom(1_000_000))
    content, chosen = path.read_bytes(), random.Random(0)
    with open_window(str(path)) as window:
        for _ in range(2_000):
            start = chosen.randrange(1_000_000)
            count = min(chosen.choice((0, 1, 20, 5_000, 300_000)), 1_000_000 - start)
            assert window.take(start, count) == content[start : start + count]
        with pytest.raises(ValueError, match=r"expected 2 bytes at byte 999,999, found 1"):
            window.take(999_999, 2)
    with pytest.raises(ValueError, match=r"expected 5 bytes at byte 3, found 1"):
        Window(b"abcd").take(3, 5)


def test_reading_on_takes_blocks_that_grow_and_jumping_takes_pages(tmp_path, monkeypatch):
    path = images.put(tmp_path / "file", bytes(3_000_000))
    counted = counting.CountingPread(monkeypatch)
    with open_window(str(path)) as window:
        for place in range(0, 1_000_000, 100):
            window.take(place, 100)
        assert len(counted.sizes) < 12
        assert max(counted.sizes) == 2**18
        counted.sizes.clear()
        for place in range(1_500_000, 3_000_000, 100_000):
            window.take(place, 100)
        assert set(counted.sizes) == {4096}


def test_what_cannot_be_opened_is_named(tmp_path):
    def opened(path):
        with open_window(str(path)) as window:
            return window

    with pytest.raises(SourceError, match=r"none: cannot be read: No such file.*Correct the path"):
        opened(tmp_path / "none")
    with pytest.raises(SourceError, match=r"cannot be read: embedded null byte"):
        opened("a\0b")
    with pytest.raises(SourceError, match=r"found no regular file"):
        opened(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match=r"pipe: expected a TFRecord file, found no regular file"):
        opened(tmp_path / "pipe")
