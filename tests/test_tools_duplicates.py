import json
import shutil

import images
import numpy as np
import pytest

import tfrds
from tfrds import cli
from tfrds.errors import DatasetError
from tfrds.tools.duplicates import Duplicate, DuplicatesResult, dataset_duplicates
from tfrds.tools.text import duplicates_lines


@pytest.fixture
def pets(tmp_path, data_dir):
    """The directory of a dataset in which one picture is there three times."""
    folder = images.put_images(
        tmp_path / "source",
        ["train/a/1.png", "train/b/2.png", "test/a/1.png", "test/b/2.png"],
    )
    for name in ("train/b/3.png", "test/b/4.png"):
        images.put(folder / name, (folder / "train" / "a" / "1.png").read_bytes())
    return data_dir / tfrds.build("pets", folder, num_workers=1).data_path.relative_to(data_dir)


def test_all_groups_are_found_from_index_and_keys_alone(pets):
    for path in pets.glob("*.tfrecord-*"):
        path.unlink()
    assert dataset_duplicates(pets) == DuplicatesResult(
        name="pets",
        version="1.0.0",
        directory=pets,
        num_extra=2,
        num_label_conflicts=1,
        num_leaks=1,
        groups=(
            (
                Duplicate(split="test", key="test/b/4.png", class_name="b"),
                Duplicate(split="train", key="train/a/1.png", class_name="a"),
                Duplicate(split="train", key="train/b/3.png", class_name="b"),
            ),
        ),
    )


def test_command_shows_and_dumps_them(pets, capsys):
    assert cli.main(["info", "pets", "--duplicates"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "pets 1.0.0: 2 images; 1 image under two labels; 1 image in two splits",
        "",
        "  test   b  test/b/4.png",
        "  train  a  train/a/1.png",
        "  train  b  train/b/3.png",
    ]
    assert cli.main(["info", "pets:1.0.0", "--duplicates", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(
        json.dumps(dataset_duplicates(pets).to_dict())
    )
    assert cli.main(["info", "pets"]) == 0
    assert (
        "  duplicates 2 images; 1 image under two labels; 1 image in two splits\n"
        in capsys.readouterr().out
    )


def test_no_duplicates_is_one_line(raw):
    assert duplicates_lines(dataset_duplicates(raw.directory)) == [
        "raw_images 1.0.0: no duplicates"
    ]


def test_names_that_would_steer_the_terminal_are_shown_as_escapes():
    group = (
        Duplicate(split="train", key="a\x1b[31m/1.png", class_name="a\x1b[31m"),
        Duplicate(split="train", key="b/1.png", class_name="b"),
    )
    result = DuplicatesResult(
        name="pets",
        version="1.0.0",
        directory=None,
        num_extra=1,
        num_label_conflicts=1,
        num_leaks=0,
        groups=(group,),
    )
    assert "\x1b" not in "\n".join(duplicates_lines(result))


def test_label_outside_of_the_classes_is_an_error(pets):
    path = pets / "pets-train.index.npy"
    rows = np.load(path)
    rows["label"][0] = 2
    np.save(path, rows)
    with pytest.raises(DatasetError, match=rf"^{path}: expected class numbers from 0 to 1, found"):
        dataset_duplicates(pets)


@pytest.mark.parametrize("name", ["pets-train.index.npy", "pets-test.keys.npy", "tfrds.json"])
def test_missing_file_is_named(pets, name):
    (pets / name).unlink()
    with pytest.raises(DatasetError, match=name):
        dataset_duplicates(pets)


def test_keys_that_are_no_text_are_shown_anyway(pets, tmp_path):
    shutil.copytree(pets, tmp_path / "copy" / "pets" / "1.0.0")
    path = tmp_path / "copy" / "pets" / "1.0.0" / "pets-train.keys.npy"
    np.save(path, np.full_like(np.load(path), 0xFF))
    groups = dataset_duplicates(path.parent).groups
    assert {one.key[:4] for one in groups[0] if one.split == "train"} == {"\\xff"}
