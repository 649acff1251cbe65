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
from tfrds.write.base_version import link_or_copy
from tfrds.write.executors import run_in_processes
from verifying import PART, decode

ROUNDS = 5
TIMES = 4
MANY_ROUNDS = 3

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

    def build(source: pathlib.Path = source, **options: Any) -> Measurement:
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
    # Workers take a quarter of a second to start, which is a third of those 4,000.
    more = multiplied(source, folder / "more", TIMES)
    many = sorted(map(str, more.rglob("*.jpg")))
    rows += compare(
        f"the same, {TIMES} times as many",
        build(more, check="header"),
        [Baseline("plain TFDS", lambda: timed(home, lambda: plain(many, home)), HEADER_GOAL)],
        MANY_ROUNDS,
        engine="",
    )
    if cores > 1:
        one = Baseline("one worker", build(num_workers=1), SCALING_GOAL)
        rows += compare("build by two workers", build(num_workers=2), [one], ROUNDS, engine="")
    return rows + by_dask(build)


def multiplied(source: pathlib.Path, folder: pathlib.Path, times: int) -> pathlib.Path:
    """Returns a folder that has each photograph several times, by hard links."""
    for path in source.rglob("*.jpg"):
        place = folder / path.relative_to(source).parent
        place.mkdir(parents=True, exist_ok=True)
        for number in range(times):
            link_or_copy(path, place / f"{number}-{path.name}")
    return folder


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
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(None, None, 3), encoding_format="jpeg"),
                    "label": tfds.features.ClassLabel(names=names),
                }
            ),
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Any:
        for file in self._files:
            yield file, {"image": file, "label": pathlib.Path(file).parent.name}
