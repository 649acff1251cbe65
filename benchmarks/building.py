"""Builds of photographs, against Pillow decoding them, plain TFDS, one worker, one of Dask."""

import pathlib
import shutil
import time
from typing import Any

import tensorflow_datasets as tfds

import prepared
import tfrds
from measure import Baseline, Measurement, compare
from rows import Row
from tfrds.cpus import available_cpus
from tfrds.write.executors import run_in_processes
from verifying import PART, decode

ROUNDS = 5

CHECKED_GOAL = 1.2
HEADER_GOAL = 1.5
SCALING_GOAL = 1.7
DASK_GOAL = 0.9


def measure(data: pathlib.Path, folder: pathlib.Path) -> list[Row]:
    """Returns the comparisons; each build is removed before the next one."""
    source = prepared.find_photos(data)
    home = folder / "building"
    files = sorted(map(str, source.rglob("*.jpg")))
    parts = [files[first : first + PART] for first in range(0, len(files), PART)]

    def build(**options: Any) -> Measurement:
        return lambda: timed(home, lambda: count(build_of(source, home, **options)))

    def pillow() -> float:
        return timed(home, lambda: sum(n for _, n in run_in_processes(decode, parts, cores)))

    cores = available_cpus()
    rows = compare(
        "build JPEG, fully checked",
        build(),
        [Baseline("Pillow decoding alone", pillow, CHECKED_GOAL)],
        ROUNDS,
        engine="",
    )
    rows += compare(
        "build JPEG, header checked",
        build(check="header"),
        [Baseline("plain TFDS", lambda: timed(home, lambda: plain(files, home)), HEADER_GOAL)],
        ROUNDS,
        engine="",
    )
    if cores > 1:
        one = Baseline("one worker", build(num_workers=1), SCALING_GOAL)
        rows += compare("build by two workers", build(num_workers=2), [one], ROUNDS, engine="")
    return rows + by_dask(build)


def by_dask(build: Any) -> list[Row]:
    """One Dask worker against one of ours; nothing where Dask is not installed."""
    try:
        import distributed
    except ImportError:
        print("building: Dask is not installed, so it is not compared.")
        return []
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        one = Baseline("one worker", build(num_workers=1), DASK_GOAL)
        return compare("build by a Dask worker", build(executor=client), [one], ROUNDS, engine="")


def timed(home: pathlib.Path, work: Any) -> float:
    """Returns images a second of work that returns how many there were."""
    shutil.rmtree(home, ignore_errors=True)
    start = time.perf_counter()
    images = work()
    return float(images / (time.perf_counter() - start))


def build_of(source: pathlib.Path, home: pathlib.Path, **options: Any) -> Any:
    return tfrds.build("photographs", source, data_dir=home, **options)


def count(builder: Any) -> int:
    return sum(split.num_examples for split in builder.info.splits.values())


def plain(files: list[str], home: pathlib.Path) -> int:
    """Builds with TFDS alone, as its documentation shows; nothing is checked."""
    builder = PlainPhotographs(files=files, data_dir=home)
    builder.download_and_prepare()
    return count(builder)


class PlainPhotographs(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """The same photographs, written by TFDS."""

    VERSION = tfds.core.Version("1.0.0")

    def __init__(self, *, files: list[str], **arguments: Any) -> None:
        self._files = files
        super().__init__(**arguments)

    def _info(self) -> tfds.core.DatasetInfo:
        names = sorted({pathlib.Path(file).parent.name for file in self._files})
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(None, None, 3), encoding_format="jpeg"),
                    "label": tfds.features.ClassLabel(names=names),
                }
            )
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Any:
        for file in self._files:
            yield file, {"image": file, "label": pathlib.Path(file).parent.name}
