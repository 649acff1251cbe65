"""Which files are archives."""

import os

import archives
import images
import numpy as np
import pytest

from tfrds.errors import SourceError
from tfrds.write.sources.archive import Archive

PNG = images.encoded(images.noise(0, 2, 3))


def test_patterns_mean_archives_in_their_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        archives.tar_of(tmp_path / f"s-{number}.tar", [(f"cat/{number}.png", PNG)])
    for pattern in ("s-{0..2}.tar", "s-*.tar", [tmp_path / "s-0.tar", "s-[12].tar"]):
        source = Archive(pattern)
        references = source.scan()
        assert list(references.keys) == [b"cat/0.png", b"cat/1.png", b"cat/2.png"]
        inputs = source.inputs(np.arange(3))
        assert [inputs.name(row).split("/")[0] for row in range(3)] == [
            *("s-0.tar", "s-1.tar", "s-2.tar")
        ]


def test_folder_and_pipe_are_no_archives(tmp_path):
    with pytest.raises(
        SourceError, match=rf"{tmp_path}: is a folder, expected an archive.*\*\.tar"
    ):
        Archive(tmp_path).scan()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="pipe: expected an archive, found no ordinary file"):
        Archive(tmp_path / "pipe").scan()
