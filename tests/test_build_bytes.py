"""The same source and options give the same bytes in every file, however they are built."""

import filecmp
import os
import pathlib
import subprocess
import sys

import images
import numpy as np
import pytest

import tfrds

# Scripts see it as a warning; here it would be an error.
pytestmark = pytest.mark.filterwarnings("ignore:Class names differ only in:UserWarning")

ROOT = pathlib.Path(__file__).resolve().parents[1]
DUMMY_DATA = ROOT / "dummy_data"

# No __main__ guard, on purpose. Arguments: source, data_dir, num_workers.
SCRIPT = """
import sys
import numpy as np
import tfrds
source, data_dir, workers = sys.argv[1:]
both = dict(data_dir=data_dir, num_workers=int(workers), num_shards=3)
tfrds.build("original", source, splits={"train": 0.6, "test": 0.4}, **both)
tfrds.build("raw", source, image_size=(9, 12), resize="pad", class_names=["b", "B", "ü"], **both)
tfrds.build("jpeg", source, encoding="jpeg", store_size=20, channels=1, **both)
pixels = np.arange(40 * 5 * 6, dtype=np.uint32).astype(np.uint8).reshape(40, 5, 6)
tfrds.build("arrays", {"train": tfrds.sources.Arrays(pixels, np.arange(40) % 4)}, **both)
"""
DATASETS = ("original", "raw", "jpeg", "arrays")


def run_script(where, source, data_dir, num_workers=2, **environment):
    """Runs SCRIPT as a file, or from standard input."""
    arguments = [source, data_dir, str(num_workers)]
    path = images.put(data_dir.parent / "script.py", SCRIPT) if where == "file" else "-"
    ran = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", path, *arguments],
        input=SCRIPT if where == "stdin" else None,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=data_dir.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def run_here(source, data_dir, num_workers, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["script", str(source), str(data_dir), str(num_workers)])
    exec(compile(SCRIPT, "script", "exec"), {"__name__": "script"})


def assert_same_tree(one, other):
    """Compares as `diff -r` does: the names and the bytes of all files."""
    compared = filecmp.dircmp(one, other, ignore=[], hide=[])
    assert not compared.left_only + compared.right_only + compared.funny_files
    same, different, errors = filecmp.cmpfiles(one, other, compared.common_files, shallow=False)
    assert (different, errors) == ([], [])
    assert same or compared.common_dirs
    for name in compared.common_dirs:
        assert_same_tree(pathlib.Path(one, name), pathlib.Path(other, name))


def assert_same_datasets(one, other):
    for name in DATASETS:
        assert_same_tree(one / name / "1.0.0", other / name / "1.0.0")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Files of many kinds, in classes whose order is easy to get wrong."""
    root = tmp_path_factory.mktemp("bytes") / "source"
    for name in (
        "plain.jpg",
        "plain.png",
        "rgba.png",
        "webp.webp",
        "cmyk.jpg",
        "exif_rotated.jpg",
        "palette.png",
    ):
        images.put(root / "b" / name, (DUMMY_DATA / name).read_bytes())
    for name in ("gray.png", "gray16.png", "tiff.tif", "animated.gif", "extraneous_bytes.jpg"):
        images.put(root / "B" / "deep folder" / name, (DUMMY_DATA / name).read_bytes())
    images.put_images(root, [f"ü/{number}" for number in range(9)], height=30, width=40)
    images.put(root / "ü" / "notes.txt", "text")
    return root


@pytest.fixture(scope="module")
def reference(source):
    """What a script with one worker builds under hash seed 0."""
    data_dir = source.parent / "reference" / "data"
    run_script("file", source, data_dir, num_workers=1, PYTHONHASHSEED="0")
    return data_dir


def test_reference_holds_every_kind_of_file(reference):
    names = {path.name for path in (reference / "original" / "1.0.0").iterdir()}
    assert {"tfrds.json", "features.json", "dataset_info.json", "label.labels.txt"} <= names
    assert len(names) == 4 + 2 * (3 + 3)


@pytest.mark.parametrize(
    ("where", "num_workers", "seed"), [("file", 2, "1"), ("stdin", 2, "0"), ("stdin", 3, "77")]
)
def test_scripts_standard_input_workers_and_hash_seeds_do_not_matter(
    tmp_path, source, reference, where, num_workers, seed
):
    run_script(where, source, tmp_path / "data", num_workers, PYTHONHASHSEED=seed)
    assert_same_datasets(reference, tmp_path / "data")


def test_place_times_and_listing_order_of_the_source_do_not_matter(
    tmp_path, source, reference, monkeypatch
):
    copy = tmp_path / "quite another" / "place"
    for number, path in enumerate(
        sorted((path for path in source.rglob("*") if path.is_file()), reverse=True)
    ):
        copied = images.put(copy / path.relative_to(source), path.read_bytes())
        os.utime(copied, (number * 1e6, number * 1e6))
    run_here(copy, tmp_path / "data", 1, monkeypatch)
    assert_same_datasets(reference, tmp_path / "data")


def test_build_in_this_process_and_a_second_one_do_not_matter(
    tmp_path, source, reference, monkeypatch
):
    monkeypatch.chdir(source.parent)
    for place in ("one", "other"):
        run_here(source.name, tmp_path / place, 2, monkeypatch)
        assert_same_datasets(reference, tmp_path / place)


def test_overwriting_gives_the_same_bytes(tmp_path):
    source = images.put_images(tmp_path / "source", ["a/1.png", "b/1.png", "a/2.png"])
    tfrds.build("pets", source, data_dir=tmp_path / "data", num_workers=1)
    before = images.files_below(tmp_path / "data")
    tfrds.build("pets", source, data_dir=tmp_path / "data", num_workers=1, overwrite=True)
    assert images.files_below(tmp_path / "data") == before


@pytest.mark.filterwarnings("ignore:No image is of the classes:UserWarning")
def test_every_option_and_input_shows_in_the_record_of_the_build(tmp_path):
    pixels = np.arange(6 * 4 * 5 * 3, dtype=np.uint32).astype(np.uint8).reshape(6, 4, 5, 3)
    changes = [
        {},
        {"labels": [0, 1, 1, 1, 0, 1]},
        {"images": pixels[::-1]},
        {"version": "1.0.1"},
        {"num_shards": 2},
        {"image_size": 4},
        {"image_size": 4, "resize": "crop"},
        {"class_names": ["x", "y"]},
        {"class_names": ["x", "y", "z"]},
        {"encoding": "original"},
        {"encoding": "jpeg"},
        {"encoding": "jpeg", "jpeg_quality": 90},
        {"background": (1, 2, 3)},
        {"channels": 1},
        {"splits": {"train": 0.5, "test": 0.5}},
    ]
    records = set()
    for number, change in enumerate(changes):
        arrays = tfrds.sources.Arrays(
            change.pop("images", pixels), change.pop("labels", [0, 1] * 3)
        )
        builder = tfrds.build("pets", arrays, data_dir=tmp_path / str(number), **change)
        records.add(pathlib.Path(builder.data_dir, "tfrds.json").read_bytes())
    assert len(records) == len(changes)


def test_stamps_are_the_same_with_one_and_two_workers(tmp_path, stamps):
    small = tmp_path / "stamps"
    for path in sorted(path for path in stamps.rglob("*") if path.is_file())[::40]:
        images.put(small / path.relative_to(stamps), path.read_bytes())
    options = {"image_size": 64, "splits": {"train": 0.8, "test": 0.2}, "num_shards": 4}
    for num_workers in (1, 2):
        tfrds.build(
            "stamps",
            small,
            data_dir=tmp_path / str(num_workers),
            num_workers=num_workers,
            **options,
        )
    assert_same_tree(tmp_path / "1" / "stamps" / "1.0.0", tmp_path / "2" / "stamps" / "1.0.0")
