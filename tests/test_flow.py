"""The README as a new user follows it: every snippet, in its order, on real files."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"


@pytest.fixture
def workplace(tmp_path):
    """A folder with photos/, three classes of 20 JPEGs of several sizes, and more/ of one class."""
    rng = np.random.default_rng(0)
    for class_name in ("photos/daisy", "photos/rose", "photos/tulip", "more/rose"):
        folder = tmp_path / class_name
        folder.mkdir(parents=True)
        for number in range(20):
            height, width = rng.integers(70, 120, 2)
            small = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
            photo = Image.fromarray(small).resize((int(width), int(height)))
            photo.save(folder / (f"{number}.jpg" if "more" in class_name else f"{number:02d}.jpg"))
    return tmp_path


def snippets(language):
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def run(command, workplace, **kwargs):
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "TFDS_DATA_DIR": str(workplace / "data")}
    return subprocess.run(
        command,
        cwd=workplace,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        **kwargs,
    )


def test_every_snippet_of_the_readme_runs(workplace):
    built = run(["bash", "-euc", "\n".join(snippets("bash"))], workplace)
    assert built.returncode == 0, built.stderr
    script = "\n".join(
        (
            *snippets("python"),
            "config = tfds.download.DownloadConfig(manual_dir='.')",
            "team = tfrds.builder('team_flowers')",
            "team.download_and_prepare(download_config=config)",
            "print('team', len(tfds.load('team_flowers', split='train')))",
        )
    )
    # From standard input: no main module that a worker process could import again.
    ran = run([sys.executable, "-W", "error", "-"], workplace, input=script)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert "['daisy', 'rose', 'tulip'] 48" in lines
    assert "(16, 64, 64, 3) (16, 3)" in "\n".join(lines)
    assert lines[-1] == "team 48"


def test_readme_names_every_read_option():
    from tfrds.read_options import ReadOptions

    text = README.read_text(encoding="utf-8").split("## Reading")[1]
    text = text.split("**Augmentation**")[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"\w+", row)}
    assert named == set(ReadOptions.__dataclass_fields__)
