"""Builds on a Dask cluster: two worker processes of this machine, which share only the files."""

import contextlib
import logging
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import types

import cluster_source
import images
import pytest
import worker_functions

import tfrds
from tfrds.cli import main
from tfrds.errors import ConfigError, DatasetError, EncodeError, SourceError
from tfrds.no_code import build_dataset
from tfrds.write.executors import as_executor
from tfrds.write.run import Execution

distributed = pytest.importorskip("distributed")
from tfrds.write.dask import DaskExecutor, connected  # noqa: E402

TESTS = pathlib.Path(__file__).parent

# Now and then Python 3.11 lets a CancelledError through `suppress` in a coroutine that is traced,
# and Dask waits for ever when it closes. So coverage follows none of its processes and threads.
ENVIRONMENT = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
ENVIRONMENT["PYTHONPATH"] = os.pathsep.join([str(TESTS), str(TESTS.parent)])

# Arguments: source, data_dir. With a guard: Dask's own worker processes import the script.
SCRIPT = """
import sys
import cluster_source
import tfrds
from distributed import Client, LocalCluster

if __name__ == "__main__":
    source, data_dir = sys.argv[1:]
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        with Client(cluster) as client:
            print("begins", flush=True)
            tfrds.build("pets", source, data_dir=data_dir, encoding="jpeg", num_shards=20,
                        executor=client)
            print("built")
"""


@pytest.fixture(scope="module", autouse=True)
def untraced_threads():
    trace = threading.gettrace()
    threading.settrace(None)
    yield
    threading.settrace(trace)


@contextlib.contextmanager
def local_cluster(n_workers, threads=1):
    """A cluster that ends with the block; gives its process and its scheduler's address."""
    command = [sys.executable, TESTS / "dask_cluster.py", str(n_workers), str(threads)]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()  # its workers notice, and end


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(2) as (_, address):
        yield address


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    names = [f"{name}/{number}.png" for name in ("ant", "bee") for number in range(20)]
    return images.put_images(tmp_path_factory.mktemp("dask") / "source", names, 40, 50)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Images that take a second or more to encode."""
    names = [f"{name}/{number}.png" for name in ("ant", "bee") for number in range(40)]
    return images.put_images(tmp_path_factory.mktemp("dask") / "large", names, 400, 400)


def num_finished(data_dir):
    return len(list((data_dir / "pets").rglob("*-of-00020.json")))


def build(source, data_dir, **options):
    builder = tfrds.build("pets", source, data_dir=data_dir, **options)
    return images.files_below(builder.data_dir)


def set_allowed_failures(number, dask_scheduler):
    dask_scheduler.allowed_failures = number


def num_tasks(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(
    "options",
    [
        {"splits": {"train": 0.6, "test": 0.4}, "num_shards": 3},
        {"image_size": (9, 12), "resize": "pad", "num_shards": 5},
        {"encoding": "jpeg", "store_size": 20, "num_shards": 4},
    ],
    ids=["original", "raw", "jpeg"],
)
def test_dask_gives_the_bytes_of_a_local_build(client, source, tmp_path, options):
    here = build(source, tmp_path / "here", num_workers=1, **options)
    assert build(source, tmp_path / "dask", executor=client, **options) == here
    assert len([name for name in here if "tfrecord" in name]) >= options["num_shards"]


def test_arrays_travel_without_a_warning(client, tmp_path):
    arrays = tfrds.sources.Arrays(
        images.noise(0, 4, 1_100 * 1_000).reshape(4, 1_100, 1_000, 3), [0, 1, 0, 1]
    )
    options = {"encoding": "raw", "num_shards": 1}
    here = build(arrays, tmp_path / "here", **options)
    assert build(arrays, tmp_path / "dask", executor=client, **options) == here


def test_threads_of_one_worker_give_the_same_bytes(source, tmp_path):
    options = {"encoding": "jpeg", "store_size": 20, "num_shards": 8}
    with local_cluster(1, threads=4) as (_, address), distributed.Client(address) as client:
        found = build(source, tmp_path / "dask", executor=client, **options)
    assert found == build(source, tmp_path / "here", num_workers=1, **options)


def test_workers_import_no_tensorflow(client, source, tmp_path):
    build(source, tmp_path, executor=client)
    loaded = client.run(
        worker_functions.loaded_modules,
        ["tensorflow", "tensorflow_datasets", "keras", "tfrds.write.shards"],
    )
    assert len(loaded) == 2
    assert {name for names in loaded.values() for name in names} == {"tfrds.write.shards"}


def test_paths_travel_as_absolute(client, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("photos").symlink_to(source)
    images.put(source / "bee" / "bad.png", images.encoded(images.noise(0, 4, 5))[:-20])
    try:
        build(
            "photos",
            "data",
            executor=client,
            on_error="skip",
            max_bad=0.5,
            quarantine="aside",
        )
    finally:
        (source / "bee" / "bad.png").unlink()
    assert pathlib.Path("aside", "bee", "bad.png").exists()
    assert tfrds.builder("pets", data_dir="data").info.splits["train"].num_examples == 40


def test_content_is_compared_on_the_cluster_too(client, source, tmp_path):
    build(source, tmp_path, num_workers=1)
    before = tfrds.builder("pets", data_dir=tmp_path)
    build(source, tmp_path, executor=client, fingerprint="content")
    assert images.files_below(before.data_dir) != {}


def test_tasks_are_drawn_two_for_each_thread_ahead(client):
    drawn = []
    tasks = (drawn.append(number) or number for number in range(30))
    results = DaskExecutor(client).run(worker_functions.square, tasks, str)
    assert drawn == []
    for count, (position, result) in enumerate(results, start=1):
        assert result == position * position
        assert len(drawn) <= count + 3
    assert count == 30


def test_no_tasks_give_no_results(client):
    assert list(DaskExecutor(client).run(worker_functions.square, [], str)) == []


def test_tasks_carry_the_names_of_their_shards(client):
    results = DaskExecutor(client).run(
        worker_functions.dask_key, range(2), lambda number: f"pets-train.tfrecord-0000{number}"
    )
    keys = [key for _, key in sorted(results)]
    assert [key[1:] for key in keys] == [
        ("pets-train.tfrecord-00000", 0, 0),
        ("pets-train.tfrecord-00001", 1, 0),
    ]
    assert keys[0][0] == keys[1][0]
    assert keys[0][0].startswith("dask_key-")


def test_error_of_a_task_keeps_class_and_message(client):
    with pytest.raises(SourceError, match=r"^labels.csv row 3: unknown class 'cta'\.$"):
        list(DaskExecutor(client).run(worker_functions.fail_at_three, range(100), str))
    wait_until(lambda: num_tasks(client) == 0)


def test_all_damaged_images_are_found_and_none_is_read_twice(client, tmp_path):
    source = cluster_source.put_risky(tmp_path / "images", bad=[2, 5, 9])
    with pytest.raises(
        EncodeError,
        match=r"3 of 12 images cannot be stored: 002: not an image.*; 005: .*; 009: ",
    ):
        build(source, tmp_path / "data", num_shards=4, executor=client)
    reads = (tmp_path / "reads").read_text().split()
    assert sorted(reads) == source.names


def test_progress_counts_the_images_of_finished_shards(client, source, tmp_path):
    seen = []
    execution = Execution(executor=client, progress=lambda *done: seen.append(done))
    build_dataset(
        "pets",
        source,
        tfrds.BuildOptions(num_shards=4),
        data_dir=tmp_path,
        version="1.0.0",
        overwrite=False,
        fingerprint="stat",
        execution=execution,
    )
    assert seen == [(10, 40), (20, 40), (30, 40), (40, 40)]


def test_shards_of_a_killed_worker_are_done_again(client, source, tmp_path, monkeypatch):
    options = {"encoding": "jpeg", "num_shards": 20}
    here = build(source, tmp_path / "here", num_workers=1, **options)
    pids = iter(client.run(os.getpid).values())
    killer = threading.Timer(0.1, lambda: os.kill(next(pids), signal.SIGKILL))
    killer.start()
    assert build(source, tmp_path / "dask", executor=client, **options) == here
    killer.join()


@pytest.mark.parametrize("where", ["here", "cluster"])
def test_an_input_that_kills_one_worker_is_stored_by_the_next(client, tmp_path, where):
    source = cluster_source.put_risky(tmp_path / "images")
    whole = build(source, tmp_path / "whole", num_shards=4, num_workers=1)
    cluster_source.put_risky(tmp_path / "images", once=[4])
    execution = {"executor": client} if where == "cluster" else {"num_workers": 2}
    assert build(source, tmp_path / "again", num_shards=4, **execution) == whole
    assert (tmp_path / "images" / "004").read_text() == "good"


@pytest.mark.parametrize(("allowed_failures", "num_deaths"), [(0, 3), (3, 8)])
def test_an_input_that_kills_every_worker_is_named_after_the_others_are_done(
    client, tmp_path, caplog, allowed_failures, num_deaths
):
    client.run_on_scheduler(set_allowed_failures, number=allowed_failures)
    source = cluster_source.put_risky(tmp_path / "images", kill=[4])
    here = build(
        cluster_source.put_risky(tmp_path / "whole"), tmp_path / "here", num_shards=4, num_workers=1
    )
    with pytest.raises(
        DatasetError,
        match=rf"^{num_deaths} worker processes died: the last ended without an answer "
        r"\(tcp://127\.0\.0\.1:\d+\) at pets-train\.tfrecord-0000\d-of-00004, input 004\. ",
    ):
        build(source, tmp_path / "dask", num_shards=4, executor=client)
    assert "It is tried again, alone." in caplog.text
    cluster_source.put_risky(tmp_path / "images")
    caplog.set_level(logging.INFO, "tfrds")
    assert build(source, tmp_path / "dask", num_shards=4, executor=client) == here
    assert "Going on with a build that has finished 3 shards of 4." in caplog.text


class AfterTheFirst:
    """Does something when the first shard is finished."""

    def __init__(self, executor, action):
        self.executor = executor
        self.action = action

    def run(self, function, tasks, describe):
        for result in self.executor.run(function, tasks, describe):
            yield result
            self.action()


def test_interrupted_build_cancels_what_is_queued_and_goes_on_later(client, source, tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    options = {"encoding": "jpeg", "num_shards": 20}
    with pytest.raises(KeyboardInterrupt):
        build(
            source,
            tmp_path / "dask",
            executor=AfterTheFirst(DaskExecutor(client), interrupt),
            **options,
        )
    wait_until(lambda: num_tasks(client) == 0)
    here = build(source, tmp_path / "here", num_workers=1, **options)
    assert build(source, tmp_path / "dask", executor=client, **options) == here


def test_cluster_that_restarts_is_an_error_and_the_next_build_goes_on(client, source, tmp_path):
    restarting = AfterTheFirst(DaskExecutor(client), client.restart)
    with pytest.raises(DatasetError, match=r"pets-train\.tfrecord-.*: was cancelled by Dask \("):
        build(source, tmp_path, encoding="jpeg", num_shards=20, executor=restarting)
    build(source, tmp_path, encoding="jpeg", num_shards=20, executor=client)


def test_scheduler_that_is_killed_ends_the_build_and_another_goes_on(large, tmp_path, caplog):
    options = ["--encoding", "jpeg", "--num-shards", "20", "--data-dir", tmp_path]
    command = [sys.executable, "-m", "tfrds.cli", "build", large, "--name", "pets", *options]
    with local_cluster(1) as (scheduler, address):
        command += ["--dask", address]
        with subprocess.Popen(
            command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
        ) as process:
            wait_until(lambda: process.poll() is not None or num_finished(tmp_path) > 1)
            scheduler.kill()
            _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    said = r"(does not answer any more|was cancelled by Dask) \(.*\)\. Finished shards are kept"
    assert re.search(rf"^tfrds: error: .*{said}", error, re.MULTILINE), error
    caplog.set_level(logging.INFO, "tfrds")
    build(large, tmp_path, num_workers=1, encoding="jpeg", num_shards=20)
    assert "Going on with a build that has finished" in caplog.text


@pytest.mark.parametrize("call", ["Client.nthreads", "Future.result"])
def test_scheduler_that_does_not_answer_is_said(client, monkeypatch, call):
    def fail(self):
        raise distributed.comm.CommClosedError("connection lost")

    results = DaskExecutor(client).run(worker_functions.square, range(9), str)
    next(results)
    monkeypatch.setattr(f"distributed.client.{call}", fail)
    with pytest.raises(
        DatasetError,
        match=r"^the Dask scheduler does not answer any more \(connection lost\)\. Finished shards",
    ):
        list(results)


class Hiding:
    """Runs shards here, where a folder is not there: as on a worker that does not see it."""

    def __init__(self, find):
        self.find = find

    def run(self, function, tasks, describe):
        for position, task in enumerate(tasks):
            self.find(task).rename(self.find(task).with_name("hidden"))
            yield position, function(task)


def test_worker_that_does_not_see_the_data_directory_says_so(source, tmp_path):
    with pytest.raises(
        DatasetError,
        match=rf"/journal: expected this folder of the build on {re.escape(socket.gethostname())}, "
        "found none. Every worker must see the data directory under the same path",
    ):
        build(source, tmp_path, executor=Hiding(lambda task: task.journal.folder))


def test_worker_that_does_not_see_the_source_skips_nothing_and_says_so(tmp_path):
    source = images.put_images(tmp_path / "source", ["a/1.png", "b/2.png", "b/3.png"])
    with pytest.raises(
        DatasetError,
        match=rf"^{source}: expected the source's folder on {re.escape(socket.gethostname())}, "
        "found none. Every worker must see it under the same path",
    ):
        build(
            source,
            tmp_path / "data",
            on_error="skip",
            max_bad=1.0,
            executor=Hiding(lambda task: source),
        )


def test_killed_parent_with_its_scheduler_is_resumed_elsewhere(large, tmp_path, caplog):
    script = images.put(tmp_path / "script.py", SCRIPT)
    process = subprocess.Popen(
        [sys.executable, script, large, tmp_path / "dask"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with process:
        wait_until(lambda: process.poll() is not None or num_finished(tmp_path / "dask") > 1)
        assert process.poll() is None
        process.kill()
    caplog.set_level(logging.INFO, "tfrds")
    found = build(large, tmp_path / "dask", encoding="jpeg", num_shards=20, num_workers=1)
    assert "Going on with a build that has finished" in caplog.text
    assert found == build(large, tmp_path / "h", encoding="jpeg", num_shards=20, num_workers=1)


def test_cluster_without_workers_is_waited_for_with_a_word(source, tmp_path, caplog):
    with local_cluster(0) as (_, address), distributed.Client(address) as client:
        worker = [sys.executable, "-m", "dask", "worker", address, "--no-dashboard", "--no-nanny"]
        caplog.set_level(logging.WARNING, "tfrds")
        with subprocess.Popen(worker, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as process:
            build(source, tmp_path, executor=client)
            process.kill()
    assert [record.message for record in caplog.records if record.name == "tfrds"] == [
        "The Dask cluster has no workers: waiting for some."
    ]


def test_command_line_builds_on_the_cluster(cluster, source, tmp_path, capsys):
    here = build(source, tmp_path / "here", num_workers=1, num_shards=4)
    arguments = ["--name", "pets", "--num-shards", "4", "--data-dir", str(tmp_path / "dask")]
    code = main(["build", str(source), *arguments, "--dask", cluster])
    assert code == 0
    captured = capsys.readouterr()
    assert captured.err == f"{source}: read as class/.../file.\n"
    assert "train" in captured.out
    assert images.files_below(tmp_path / "dask" / "pets" / "1.0.0") == here


def test_command_line_takes_no_number_of_workers_beside_a_cluster(cluster, source, capsys):
    arguments = ["--num-workers", "2", "--dask", cluster]
    assert main(["build", str(source), "--name", "pets", *arguments]) == 2
    assert "num_workers: is for processes of this machine, got 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://127.0.0.1:1", "Timed out"),
        ("127.0.0.1", "missing port number"),
        ("bla://host:1", "unknown address scheme 'bla'"),
    ],
)
def test_address_where_nothing_answers_is_named(address, reason, source, monkeypatch, capsys):
    monkeypatch.setattr("tfrds.write.dask._SECONDS_TO_CONNECT", 1)
    assert main(["build", str(source), "--name", "pets", "--dask", address]) == 2
    error = capsys.readouterr().err
    assert f"tfrds: error: dask: no scheduler answers at '{address}' within 1 seconds: " in error
    assert reason in error


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        ConfigError,
        match=r"dask: needs dask\.distributed, which is not installed here .*'tfrds\[dask\]'",
    ):
        connected("tcp://host:1").__enter__()


def test_client_becomes_an_executor_and_none_stays_none(client):
    assert isinstance(as_executor(client), DaskExecutor)
    assert as_executor(None) is None
    executor = DaskExecutor(client)
    assert as_executor(executor) is executor


@pytest.mark.parametrize("value", ["tcp://host:8786", 4, DaskExecutor, object()])
def test_what_is_no_executor_is_refused_with_what_is_one(value, source):
    with pytest.raises(
        ConfigError,
        match=r"^executor: expected a dask\.distributed\.Client, an object with .*, got ",
    ) as caught:
        tfrds.build("pets", source, executor=value)
    assert str(caught.value).endswith(f"got {value!r}.")


def test_number_of_workers_beside_an_executor_is_refused(client, source):
    with pytest.raises(ConfigError, match=r"^num_workers: .* got 3 together with an executor"):
        tfrds.build("pets", source, executor=client, num_workers=3)


def test_asynchronous_client_is_refused():
    with pytest.raises(ConfigError, match="expected a synchronous Client, got one with asynch"):
        DaskExecutor(types.SimpleNamespace(asynchronous=True))
