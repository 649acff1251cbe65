"""The executor of docs/clusters.md, as a reader copies it."""

import concurrent.futures
import multiprocessing
import pathlib
import re

import cluster_source
import images
import pytest
import worker_functions

import tfrds
from tfrds.errors import EncodeError

TEXT = (pathlib.Path(__file__).resolve().parents[1] / "docs" / "clusters.md").read_text("utf-8")


@pytest.fixture(scope="module")
def pool_executor():
    """The class in the last snippet."""
    names = {}
    exec(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[-1], names)
    return names["PoolExecutor"]


@pytest.fixture(scope="module")
def pool():
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        yield pool


def build(source, data_dir, **options):
    return images.files_below(tfrds.build("pets", source, data_dir=data_dir, **options).data_dir)


def test_executor_of_the_document_gives_the_bytes_of_a_local_build(pool_executor, pool, tmp_path):
    names = [f"{name}/{number}.png" for name in ("ant", "bee") for number in range(20)]
    source = images.put_images(tmp_path / "source", names, 40, 50)
    options = {"encoding": "jpeg", "store_size": 20, "num_shards": 6}
    here = build(source, tmp_path / "here", num_workers=1, **options)
    assert build(source, tmp_path / "pool", executor=pool_executor(pool, 3), **options) == here


def test_executor_of_the_document_draws_tasks_as_they_are_needed(pool_executor, pool):
    drawn = []
    tasks = (drawn.append(number) or number for number in range(20))
    for count, (position, result) in enumerate(
        pool_executor(pool, 3).run(worker_functions.square, tasks, str), start=1
    ):
        assert result == position * position
        assert len(drawn) <= count + 2
    assert count == 20


def test_executor_of_the_document_finds_all_damaged_images(pool_executor, pool, tmp_path):
    source = cluster_source.put_risky(tmp_path / "images", bad=[2, 5, 9])
    with pytest.raises(EncodeError, match=r"3 of 12 images cannot be stored: 002: "):
        build(source, tmp_path / "data", num_shards=4, executor=pool_executor(pool, 3))
