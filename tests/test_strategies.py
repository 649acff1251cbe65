"""What every replica sees under tf.distribute, and on JAX: each example once, and no warning."""

import json
import socket
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from datasets import ROOT, environment

import tfrds

COUNT, BATCH, EPOCHS = 44, 12, 2
SCRIPT = ROOT / "tests" / "strategy_runs.py"


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """A dataset whose pixels hold each example's number."""
    root = tmp_path_factory.mktemp("numbered")
    images = np.zeros((COUNT, 2, 4, 1), np.uint8)
    images[:, 0, 0, 0], images[:, 0, 1, 0] = np.divmod(np.arange(COUNT), 256)
    labels = np.arange(COUNT) % 3
    images[np.arange(COUNT), 1, labels] = 255  # so that there is something to learn
    source = tfrds.sources.Arrays(images, labels)
    tfrds.build("numbered", source, data_dir=root, num_shards=2)
    return root


@pytest.fixture(scope="module")
def epochs(numbered):
    """Returns the numbers of each epoch in their order, of one plain process."""
    dataset = tfrds.load(
        "numbered", data_dir=numbered, split="train", batch_size=BATCH, shuffle=True, seed=1
    )
    orders = []
    for _ in range(EPOCHS):
        images = np.concatenate([batch["image"] for batch in dataset.as_numpy_iterator()])
        flat = images.reshape(len(images), -1)
        orders.append((flat[:, 0] * 256 + flat[:, 1]).astype(int).tolist())
    return orders


def run(kind, numbered, count=1):
    """Returns what all processes said, and what they wrote beside it."""
    port = free_port()
    return run_all(
        [
            [SCRIPT, kind, numbered, *([index, count, port] if count > 1 else [])]
            for index in range(count)
        ]
    )


def free_port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def run_all(commands):
    processes = [
        subprocess.Popen(
            [sys.executable, *map(str, command)],
            env=environment(TF_CPP_MIN_LOG_LEVEL="0", CUDA_VISIBLE_DEVICES="-1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    lines, errors = [], ""
    for process in processes:
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err[-3000:]
        lines += [json.loads(line) for line in out.splitlines()]
        errors += err
    return lines, errors


def seen_by_step(lines):
    """Returns the numbers of each (epoch, step), those of the replicas behind one another."""
    steps = {}
    for line in sorted(
        (line for line in lines if "step" in line), key=lambda line: line["replica"]
    ):
        steps.setdefault((line["epoch"], line["step"]), []).extend(line["numbers"])
    return steps


def losses(lines):
    return [line["loss"] for line in lines if "loss" in line]


def check_quiet(errors):
    assert "auto" not in errors.lower() or "shard" not in errors.lower(), errors[-3000:]


def test_mirrored_replicas_share_each_batch(numbered, epochs):
    lines, errors = run("mirrored", numbered)
    check_quiet(errors)
    assert {line["replica"] for line in lines if "replica" in line} == {0, 1}
    for (epoch, step), numbers in seen_by_step(lines).items():
        assert numbers == epochs[epoch][step * BATCH : (step + 1) * BATCH]
    in_loop, in_fit = losses(lines)
    assert in_loop[-1] < in_loop[0]
    assert in_fit[-1] < in_fit[0]


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_workers_of_a_function_share_each_epoch(numbered, epochs, count):
    lines, errors = run("multi_worker", numbered, count)
    check_quiet(errors)
    together = BATCH // count * count
    steps = seen_by_step(lines)
    assert len(steps) == EPOCHS * -(-COUNT // together)
    for (epoch, step), numbers in steps.items():
        assert numbers[:together] == epochs[epoch][step * together :][: len(numbers)]
    for epoch in range(EPOCHS):
        seen = Counter(number for place in steps if place[0] == epoch for number in steps[place])
        assert seen == Counter(range(COUNT))
    # All workers have the same loss, since they trained one model.
    assert len({tuple(np.round(found, 4)) for found in losses(lines)}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["multi_worker_whole", "multi_worker_share"])
def test_tf_distribute_shares_a_whole_dataset_out_and_no_share(numbered, kind):
    lines, errors = run(kind, numbered, 2)
    check_quiet(errors)
    steps = seen_by_step(lines)
    for epoch in range(EPOCHS):
        seen = Counter(number for place in steps if place[0] == epoch for number in steps[place])
        assert seen == Counter(range(COUNT))


def test_jax_devices_share_each_batch(numbered, epochs):
    pytest.importorskip("jax")
    lines, _ = run("jax", numbered)
    assert {line["replica"] for line in lines if "replica" in line} == {0, 1}
    for (_, step), numbers in seen_by_step(lines).items():
        assert numbers == epochs[0][step * BATCH : (step + 1) * BATCH]
    (found,) = losses(lines)
    assert found[-1] < found[0]


def test_ranks_of_distributed_data_parallel_share_a_data_source(numbered):
    pytest.importorskip("torch")
    port = free_port()
    script = ROOT / "tests" / "ddp_run.py"
    lines, _ = run_all([[script, numbered, rank, 2, port] for rank in range(2)])
    for epoch in range(EPOCHS):
        seen = Counter(
            number for line in lines if line.get("epoch") == epoch for number in line["numbers"]
        )
        assert seen == Counter(range(COUNT))
    first, second = (line for line in lines if "weights" in line)
    assert first["weights"] == second["weights"]
    assert first["loss"][-1] < first["loss"][0]
