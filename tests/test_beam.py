"""Builds on Apache Beam, by TFDS's own options; `make test-beam` runs them, as Beam is an extra."""

import os
import pathlib
import pickle
import re
import socket
import sys
import types

import cluster_source
import images
import pytest
import tensorflow_datasets as tfds
import worker_functions

import tfrds
from tfrds.disk.journal import Journal
from tfrds.errors import ConfigError, DatasetError, EncodeError, SourceError
from tfrds.write import beam as tfrds_beam
from tfrds.write.beam import BeamExecutor, beam_execution

try:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
except ImportError:
    beam = None

needs_beam = pytest.mark.skipif(beam is None, reason="no apache_beam: `make test-beam` has it")

# How Beam's own runner works on one machine. Processes are what a cluster is like.
MODES = ("in_memory", "multi_threading", "multi_processing")
OPTIONS = tfrds.BuildOptions(encoding="jpeg", store_size=20, num_shards=6)


def options_of(mode, num_workers=2):
    return PipelineOptions(
        flags=[], runner="FnApiRunner", direct_running_mode=mode, direct_num_workers=num_workers
    )


class Pets(tfrds.ImageDatasetBuilder, skip_registration=True):
    """Noise."""

    VERSION = "1.0.0"
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Images of ants and bees."
    OPTIONS = OPTIONS

    def _source(self, dl_manager):
        return dl_manager.manual_dir


def prepare(source, data_dir, **config):
    """Builds the class as TFDS does it; returns the bytes of its files."""
    builder = Pets(data_dir=data_dir)
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(manual_dir=source, **config)
    )
    return images.files_below(builder.data_dir)


@pytest.fixture(autouse=True)
def tests_are_found_by_processes(monkeypatch):
    tests = pathlib.Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tests), str(tests.parent)]))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    names = [f"{name}/{number}.png" for name in ("ant", "bee") for number in range(20)]
    return images.put_images(tmp_path_factory.mktemp("beam") / "source", names, 40, 50)


@needs_beam
@pytest.mark.parametrize("mode", MODES)
def test_beam_gives_the_bytes_of_a_local_build(source, tmp_path, mode):
    here = prepare(source, tmp_path / "here")
    there = prepare(source, tmp_path / "beam", beam_options=options_of(mode))
    assert there == here
    assert len([name for name in here if "tfrecord" in name]) == 6


@needs_beam
@pytest.mark.parametrize("given", ["object", "name"])
def test_a_runner_alone_is_enough(source, tmp_path, given):
    runner = beam.runners.direct.DirectRunner() if given == "object" else "DirectRunner"
    here = prepare(source, tmp_path / "here")
    assert prepare(source, tmp_path / "beam", beam_runner=runner) == here


@needs_beam
def test_processes_of_beam_import_no_tensorflow(tmp_path):
    names = ["tensorflow", "tensorflow_datasets", "keras", "tfrds.write.beam"]
    executor = BeamExecutor(options=options_of("multi_processing"))
    results = list(executor.run(worker_functions.loaded_of, tasks(tmp_path, names, 3), str))
    assert results == [(number, ["tfrds.write.beam"]) for number in range(3)]


@needs_beam
def test_all_damaged_images_are_found_and_none_is_read_twice(tmp_path):
    source = cluster_source.put_risky(tmp_path / "images", bad=[2, 5, 9])
    executor = BeamExecutor(options=options_of("multi_processing"))
    with pytest.raises(
        EncodeError,
        match=r"3 of 12 images cannot be stored: 002: not an image.*; 005: .*; 009: ",
    ):
        tfrds.build("pets", source, data_dir=tmp_path / "data", num_shards=4, executor=executor)
    assert sorted((tmp_path / "reads").read_text().split()) == source.names
    assert not list((tmp_path / "data").rglob("*beam-*"))


@needs_beam
def test_pipeline_that_cannot_start_is_an_error_with_its_reason(tmp_path):
    executor = BeamExecutor(runner="NoSuchRunner")
    with pytest.raises(DatasetError, match=r"the Beam pipeline failed \(.*NoSuchRunner.*3 of 3"):
        list(executor.run(worker_functions.loaded_of, tasks(tmp_path, [], 3), repr))


def tasks(folder, names, count):
    """Tasks as the executor needs them: with a journal, whose folder all workers see."""
    return [types.SimpleNamespace(journal=Journal(folder), names=names) for _ in range(count)]


@pytest.fixture
def without_beam(monkeypatch):
    """A runner of a few lines instead of Beam: what it does with `positions` of the tasks."""

    def use(run):
        monkeypatch.setattr(tfrds_beam, "_beam", lambda: None)
        monkeypatch.setattr(
            BeamExecutor, "_run_pipeline", lambda self, _, *run_with: run(*run_with)
        )
        return BeamExecutor()

    return use


def run_all(files, count):
    for position in reversed(range(count)):
        files.run(position)
        files.run(position)  # a runner may do it again


def test_results_come_with_their_positions_and_no_file_stays(tmp_path, without_beam):
    executor = without_beam(run_all)
    names = [["pytest"], ["no_such_module"], ["pytest"]]
    given = [types.SimpleNamespace(journal=Journal(tmp_path), names=each) for each in names]
    results = executor.run(worker_functions.loaded_of, iter(given), str)
    assert list(results) == [(0, ["pytest"]), (1, []), (2, ["pytest"])]
    assert list(tmp_path.iterdir()) == []
    assert list(executor.run(worker_functions.loaded_of, [], str)) == []


def test_error_of_a_task_keeps_class_and_message(tmp_path, without_beam):
    with pytest.raises(SourceError, match=r"^labels.csv row 3: unknown class 'cta'\.$"):
        list(without_beam(run_all).run(worker_functions.fail_of, tasks(tmp_path, [], 2), str))
    assert list(tmp_path.iterdir()) == []


def test_shards_without_an_answer_are_named_after_the_others(tmp_path, without_beam):
    def run_some(files, count):
        for position in range(3):
            files.run(position)
        return RuntimeError("Workflow failed.\nCauses: ...")

    results = without_beam(run_some).run(
        worker_functions.loaded_of, tasks(tmp_path, ["pytest"], 9), lambda task: "shard x, input y"
    )
    assert [next(results) for _ in range(3)] == [(number, ["pytest"]) for number in range(3)]
    with pytest.raises(
        DatasetError,
        match=r"^the Beam pipeline failed \(RuntimeError: Workflow failed\.\): 6 of 9 shards have "
        r"no answer: (shard x, input y; ){4}shard x, input y and others\. Finished shards are kept",
    ):
        next(results)


def test_failed_pipeline_whose_shards_are_all_done_is_an_error_too(tmp_path, without_beam):
    def run_and_fail(files, count):
        run_all(files, count)
        return RuntimeError("")

    results = without_beam(run_and_fail).run(
        worker_functions.loaded_of, tasks(tmp_path, [], 2), str
    )
    assert [next(results), next(results)] == [(0, []), (1, [])]
    with pytest.raises(DatasetError, match=r"\(RuntimeError: \): 0 of 2 shards have no answer\."):
        next(results)


def test_answer_that_another_wrote_is_not_read(tmp_path, without_beam):
    def forge(files, count):
        run_all(files, count)
        (files.folder / "0.answer").write_bytes(bytes(32) + pickle.dumps((["evil"], None, "")))

    executor = without_beam(forge)
    with pytest.raises(DatasetError, match=r"beam-.*/0\.answer: was not written by this build"):
        list(executor.run(worker_functions.loaded_of, tasks(tmp_path, [], 2), str))


def test_answer_of_another_shard_is_not_read(tmp_path, without_beam):
    def swap(files, count):
        run_all(files, count)
        (files.folder / "0.answer").replace(files.folder / "1.answer")

    with pytest.raises(DatasetError, match=r"1\.answer: was not written by this build"):
        list(without_beam(swap).run(worker_functions.loaded_of, tasks(tmp_path, [], 2), str))


def test_worker_that_does_not_see_the_data_directory_says_so(tmp_path, without_beam):
    def lose(files, count):
        (files.folder / "0.task").unlink()
        files.run(0)

    with pytest.raises(
        DatasetError,
        match=rf"beam-.*: expected task 0 on {re.escape(socket.gethostname())}, found none\. Every "
        "worker must see the data directory under the same path",
    ):
        list(without_beam(lose).run(worker_functions.loaded_of, tasks(tmp_path, [], 1), str))


def test_comparison_of_content_is_refused(source, tmp_path, without_beam):
    tfrds.build("pets", source, data_dir=tmp_path)
    with pytest.raises(ConfigError, match="executor: Beam writes shards, and a comparison of what"):
        tfrds.build(
            "pets",
            source,
            data_dir=tmp_path,
            fingerprint="content",
            executor=without_beam(run_all),
        )


def test_class_builds_on_beam_where_its_options_are_given(source, tmp_path, without_beam):
    config = tfds.download.DownloadConfig()
    assert beam_execution(config).executor is None
    config.beam_runner = "DirectRunner"
    assert isinstance(beam_execution(config).executor, BeamExecutor)
    without_beam(run_all)
    here = prepare(source, tmp_path / "here")
    assert prepare(source, tmp_path / "there", beam_options=object()) == here


@pytest.mark.parametrize("field", ["beam_runner", "beam_options"])
def test_without_beam_the_extra_is_named(source, tmp_path, monkeypatch, field):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(
        ConfigError,
        match=r"^beam_runner, beam_options: need Apache Beam, which is not .*'tfrds\[beam\]'$",
    ):
        prepare(source, tmp_path, **{field: "DirectRunner"})
