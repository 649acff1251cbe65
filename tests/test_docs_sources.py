"""docs/sources.md as a reader follows it: its snippets on real files, its tables and the code."""

import inspect
import io
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import zipfile

import foreign_files
import numpy as np
import pandas as pd
import pytest
from PIL import Image

import tfrds

TEXT = (pathlib.Path(__file__).resolve().parents[1] / "docs" / "sources.md").read_text("utf-8")
CLASSES = ("daisy", "rose", "tulip")
NUMBERS = range(6)


@pytest.fixture
def workplace(tmp_path):
    """A folder with photos/, and the same in every other form that the document reads."""
    rng = np.random.default_rng(0)
    for species in CLASSES:
        (tmp_path / "photos" / species).mkdir(parents=True)
        for number in NUMBERS:
            pixels = rng.integers(0, 256, (30, 40, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / species / f"{number}.jpg")
    files = sorted((tmp_path / "photos").rglob("*.jpg"))
    names = [str(path.relative_to(tmp_path / "photos")) for path in files]
    labels = [path.parent.name for path in files]
    tags = [label if n % 2 else f"{label};wild" for n, label in enumerate(labels)]
    quality, place = np.linspace(0, 1, len(files)), ["meadow", "wood"] * (len(files) // 2)
    columns = {"path": names, "label": labels, "tags": tags, "quality": quality, "place": place}
    pd.DataFrame(columns).to_csv(tmp_path / "labels.csv", index=False)
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for path, name in zip(files, names, strict=True):
            archive.write(path, f"photos/{name}")
    (tmp_path / "shards").mkdir()
    for shard in range(2):
        with tarfile.open(tmp_path / "shards" / f"train-{shard:03d}.tar", "w") as archive:
            for n in range(shard, len(files), 2):
                said = f'{{"species": "{labels[n]}"}}'.encode()
                for ending, data in (("jpg", files[n].read_bytes()), ("json", said)):
                    info = tarfile.TarInfo(f"{n:04d}.{ending}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
    records = [
        {"image/encoded": path.read_bytes(), "image/class/label": 1 + CLASSES.index(label)}
        for path, label in zip(files, labels, strict=True)
    ]
    for name, own in (
        ("train-0", records[::3]),
        ("train-1", records[1::3]),
        ("test", records[2::3]),
    ):
        foreign_files.write(tmp_path / "records" / f"{name}.tfrecord", own)
    pixels = rng.integers(0, 256, (12, 28, 28), np.uint8)
    (tmp_path / "mnist").mkdir()
    for name, kind, values in (
        ("images-idx3", (3, 12, 28, 28), pixels),
        ("labels-idx1", (1, 12), np.arange(12) % 3),
    ):
        head = struct.pack(f">BBBB{len(kind) - 1}I", 0, 0, 8, *kind)
        for part in ("train", "t10k"):
            path = tmp_path / "mnist" / f"{part}-{name}-ubyte"
            path.write_bytes(head + values.astype(np.uint8).tobytes())
    np.savez(tmp_path / "pneumonia.npz", scans=pixels, findings=np.arange(12) % 2)
    content = {
        "images": [{"id": n, "file_name": name} for n, name in enumerate(names)],
        "categories": [{"id": n, "name": name} for n, name in enumerate(CLASSES)],
        "annotations": [
            {"id": n, "image_id": n, "category_id": CLASSES.index(label)}
            for n, label in enumerate(labels)
        ],
    }
    (tmp_path / "instances.json").write_text(json.dumps(content))
    return tmp_path


def sections():
    """Returns the text of each section by its heading."""
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))


def test_every_snippet_runs_and_gives_what_it_says(workplace):
    shown = """
for name in ("flowers", "nested", "species", "zipped", "sharded", "good_ones", "tagged", "digits",
             "ages", "halves", "recorded", "mnist", "pneumonia", "animals", "as_they_are"):
    info = tfrds.builder(name).info
    label = info.features[(info.supervised_keys or ("", "label"))[1]]
    sizes = {split: one.num_examples for split, one in info.splits.items()}
    print(name, sizes, getattr(label, "names", None), sorted(info.features))
"""
    code = "\n".join([*re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL), shown])
    ran = subprocess.run(
        # From standard input: no main module that a worker process could import again.
        [sys.executable, "-W", "error", "-"],
        cwd=workplace,
        env={**os.environ, "TFDS_DATA_DIR": str(workplace / "data")},
        input=code,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = {line.split()[0]: line.partition(" ")[2] for line in ran.stdout.splitlines()}
    plain = f"{{'train': 18}} {list(CLASSES)} ['image', 'label']"
    for name in ("flowers", "nested", "zipped", "sharded"):
        assert found[name] == plain
    kept = ["image", "label", "place", "quality", "tags"]
    assert found["species"] == f"{{'train': 18}} {list(CLASSES)} {kept}"
    kept = ["image", "label", "place", "sample_weight"]
    assert found["good_ones"] == f"{{'train': 14}} {list(CLASSES)} {kept}"
    assert found["tagged"].startswith(f"{{'train': 18}} {[*CLASSES, 'wild']} ")
    digits = [str(number) for number in range(10)]
    assert found["digits"] == f"{{'train': 40}} {digits} ['image', 'label']"
    assert found["ages"] == "{'train': 40} None ['image', 'label']"
    assert found["halves"] == f"{{'test': 10, 'train': 30}} {digits} ['image', 'label']"
    digits = ["0", "1", "2"]
    assert found["mnist"] == f"{{'test': 12, 'train': 12}} {digits} ['image', 'label']"
    assert found["pneumonia"] == f"{{'train': 12}} {digits[:2]} ['image', 'label']"
    assert found["animals"] == plain
    keys = ["image/class/label", "image/encoded"]
    assert found["as_they_are"] == f"{{'test': 6, 'train': 12}} {list(CLASSES)} {keys}"
    assert found["recorded"] == f"{{'test': 6, 'train': 12}} {list(CLASSES)} ['image', 'label']"


@pytest.mark.parametrize("name", ["ImageFolder", "Arrays", "Manifest", "Archive", "TFRecords"])
def test_every_argument_of_a_source_is_told(name):
    section = sections()[name]
    arguments = inspect.signature(getattr(tfrds.sources, name)).parameters
    told = set(re.findall(r"`(\w+)=?`", section)) | {"path"}
    assert set(arguments) <= told
    keywords = set(re.findall(r"`(\w+)=`", section))
    assert keywords <= set(arguments)


def test_every_source_is_told():
    assert {*re.findall(r"`(\w+)` \|$", TEXT, re.MULTILINE)} <= set(tfrds.sources.__all__)
    assert {"Known formats", "TFRecord files used where they lie"} < set(sections())
