import pathlib

import images
import numpy as np
import pytest
from listed_source import ListedSource

import tfrds
from tfrds.disk.build_record import read_build_record
from tfrds.disk.index import open_index
from tfrds.spec import BuildOptions
from tfrds.write.contents import content_hashes
from tfrds.write.executors import ThisProcess
from tfrds.write.plan import make_plan
from tfrds.write.run import Execution
from tfrds.write.sources.by_split import as_source

SPLITS = {"train": 0.7, "test": 0.3}


def indexed(directory):
    """Returns {key: content hash} of a dataset, from its files."""
    record = read_build_record(pathlib.Path(directory))
    found = {}
    for split in record.splits:
        files = record.split_files(split)
        rows = open_index(files.index, [records for *_, records in record.shards(split)])
        blob, offsets = np.load(files.keys).tobytes(), np.load(files.key_offsets).tolist()
        for row, start, end in zip(rows, offsets, offsets[1:], strict=False):
            found[blob[start:end]] = bytes(row["content"])
    return found


def hashed(source, num_workers=None, **options):
    """Returns {key: hash} of what a build would store, zeros left out."""
    plan = make_plan(as_source(source), BuildOptions(**options))
    executor = ThisProcess() if num_workers is None else None
    hashes = content_hashes(plan, Execution(num_workers=num_workers, executor=executor))
    pairs = zip(plan.keys, hashes, strict=True)
    return {key: bytes(value) for key, value in pairs if any(bytes(value))}


@pytest.mark.parametrize(
    "options", [{}, {"encoding": "jpeg"}, {"image_size": 3}, {"channels": 1}], ids=str
)
@pytest.mark.parametrize("num_workers", [None, 2])
def test_hashes_are_those_of_the_index(tmp_path, monkeypatch, options, num_workers):
    folder = images.put_images(tmp_path / "s", [f"{n % 3}/{n}.png" for n in range(20)])
    options = {"splits": SPLITS, "num_shards": 2, **options}
    builder = tfrds.build("pets", folder, data_dir=tmp_path / "data", **options)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert hashed(folder, num_workers, **options) == indexed(builder.data_path)
    assert list((tmp_path / "here").iterdir()) == []


def test_hashes_of_arrays_are_those_of_the_index(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (50, 4, 5), np.uint8)
    source = tfrds.sources.Arrays(pixels, np.arange(50) % 3)
    builder = tfrds.build("pets", source, data_dir=tmp_path, splits=SPLITS)
    assert hashed(source, splits=SPLITS) == indexed(builder.data_path)


def test_image_that_cannot_be_stored_has_none(tmp_path):
    values = [images.encoded(images.noise(seed, 4, 5)) for seed in range(6)]
    values[2], values[4] = b"text", PermissionError(13, "Permission denied")
    assert sorted(hashed(ListedSource(values))) == [b"0", b"1", b"3", b"5"]


def test_image_beyond_the_limit_has_none():
    pixels = np.zeros((9, 2, 2), np.uint8) + np.arange(9, dtype=np.uint8)[:, None, None]
    plan = make_plan(tfrds.sources.Arrays(pixels, np.arange(9) % 2), BuildOptions(), limit=4)
    hashes = content_hashes(plan, Execution())
    assert sum(any(bytes(value)) for value in hashes) == 4


def test_progress_counts_up_to_all():
    pixels = np.zeros((9, 2, 2), np.uint8)
    plan = make_plan(tfrds.sources.Arrays(pixels, np.arange(9) % 2), BuildOptions(num_shards=3))
    calls = []
    content_hashes(plan, Execution(progress=lambda *counts: calls.append(counts)))
    assert calls == [(3, 9), (6, 9), (9, 9)]
