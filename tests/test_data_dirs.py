import os
import pathlib
import re
import subprocess
import sys

import images
import pytest

from tfrds import data_dirs
from tfrds.data_dirs import default_data_dir, find_dataset, find_home, not_found, remember_data_dir
from tfrds.errors import DatasetError


@pytest.fixture(autouse=True)
def nothing_used(monkeypatch):
    monkeypatch.setattr(data_dirs, "_used", {})


def put_dataset(root, *parts):
    directory = pathlib.Path(root, *parts)
    for name in ("tfrds.json", "features.json", "dataset_info.json"):
        images.put(directory / name, "{}")
    return directory


def test_default_is_the_environments(data_dir):
    assert default_data_dir() == data_dir
    assert data_dirs.data_dirs() == [data_dir]


def test_default_without_tfds_is_the_one_of_tfds(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow_datasets.core.constants", raising=False)
    monkeypatch.setenv("TFDS_DATA_DIR", "~/elsewhere")
    assert default_data_dir() == pathlib.Path.home() / "elsewhere"
    monkeypatch.delenv("TFDS_DATA_DIR")
    assert default_data_dir() == pathlib.Path.home() / "tensorflow_datasets"


def test_default_equals_that_of_tfds_in_a_new_process():
    code = (
        "from tfrds.data_dirs import default_data_dir\n"
        "ours = default_data_dir()\n"
        "import tensorflow_datasets as tfds\n"
        "from tensorflow_datasets.core import constants\n"
        "print(str(ours) == constants.DATA_DIR, default_data_dir() == ours)"
    )
    for variables in ({}, {"TFDS_DATA_DIR": "/some/where"}):
        environment = {name: value for name, value in os.environ.items() if name != "TFDS_DATA_DIR"}
        root = str(pathlib.Path(__file__).parents[1])
        environment = {**environment, "PYTHONPATH": root, **variables}
        ran = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.split() == ["True", "True"]


def test_used_and_added_folders_are_looked_through_once_each(data_dir, tmp_path, monkeypatch):
    import tensorflow_datasets as tfds

    monkeypatch.chdir(tmp_path)
    tfds.core.add_data_dir(str(tmp_path / "added"))
    for path in (
        tmp_path / "used",
        "relative",
        tmp_path / "added",
        data_dir,
        "~/home",
        "relative/",
    ):
        remember_data_dir(path)
    home = pathlib.Path.home() / "home"
    names = [data_dir, tmp_path / "added", tmp_path / "used", tmp_path / "relative", home]
    assert data_dirs.data_dirs() == names


def test_highest_version_is_found(tmp_path):
    for version in ("1.9.0", "1.10.0", "1.2.3"):
        put_dataset(tmp_path, "pets", version)
    (tmp_path / "pets" / "2.0.0").mkdir()
    assert find_dataset("pets", data_dir=tmp_path) == tmp_path / "pets" / "1.10.0"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("1.2.3", "1.2.3"),
        ("1.*.*", "1.10.0"),
        ("1.2.*", "1.2.4"),
        ("*.*.*", "3.0.0"),
        ("*.2.*", "1.2.4"),
        ("2.*.*", None),
        ("1.2", None),
        ("1.2.3.4", None),
        ("1.02.3", None),
        ("latest", None),
    ],
)
def test_version_may_have_wildcards(tmp_path, wanted, found):
    for version in ("1.2.3", "1.2.4", "1.10.0", "3.0.0"):
        put_dataset(tmp_path, "pets", version)
    directory = find_dataset("pets", version=wanted, data_dir=tmp_path)
    assert directory == (tmp_path / "pets" / found if found else None)


def test_dataset_in_a_used_folder_is_found_by_name_alone(data_dir, tmp_path):
    put_dataset(tmp_path / "elsewhere", "pets", "1.0.0")
    assert find_dataset("pets") is None
    remember_data_dir(tmp_path / "elsewhere")
    assert find_dataset("pets") == tmp_path / "elsewhere" / "pets" / "1.0.0"
    assert find_dataset("pets", data_dir=data_dir) is None


def test_dataset_in_two_folders_is_an_error_that_names_both(data_dir, tmp_path):
    for root in (tmp_path / "a", tmp_path / "b"):
        put_dataset(root, "pets", "1.0.0")
        remember_data_dir(root)
    named = f"{re.escape(str(tmp_path / 'a'))}.*{re.escape(str(tmp_path / 'b'))}"
    with pytest.raises(DatasetError, match=f"pets: found in several data directories: .*{named}"):
        find_dataset("pets")
    assert find_dataset("pets", data_dir=tmp_path / "b") == tmp_path / "b" / "pets" / "1.0.0"


def test_only_configuration_is_taken_and_several_are_an_error(tmp_path):
    put_dataset(tmp_path, "pets", "small", "1.0.0")
    assert find_dataset("pets", data_dir=tmp_path) == tmp_path / "pets" / "small" / "1.0.0"
    put_dataset(tmp_path, "pets", "big", "1.0.0")
    with pytest.raises(DatasetError, match=r"pets: has the configurations \['big', 'small'\]"):
        find_dataset("pets", data_dir=tmp_path)
    found = find_dataset("pets", config="big", version="1.*.*", data_dir=tmp_path)
    assert found == tmp_path / "pets" / "big" / "1.0.0"
    assert find_dataset("pets", config="medium", data_dir=tmp_path) is None


def test_missing_dataset_says_where_it_was_looked_for_and_what_is_near(tmp_path):
    put_dataset(tmp_path, "flowers", "1.0.0")
    put_dataset(tmp_path, "pets", "1.0.0")
    images.put(tmp_path / "a file", "text")
    error = not_found("flower", None, tmp_path)
    assert isinstance(error, DatasetError)
    assert str(error).startswith(
        f"flower: no such dataset in ['{tmp_path}']. Did you mean 'flowers'?"
    )
    assert str(error).endswith("Found there: ['flowers', 'pets'].")


def test_missing_version_says_which_there_are(tmp_path):
    put_dataset(tmp_path, "pets", "1.0.0")
    put_dataset(tmp_path, "pets", "1.2.0")
    message = str(not_found("pets", "2.0.0", tmp_path))
    assert message.startswith("pets:2.0.0: no such dataset")
    assert message.endswith("It has the versions ['1.0.0', '1.2.0'].")


def test_long_list_of_datasets_stops_at_ten(tmp_path):
    for number in range(12):
        put_dataset(tmp_path, f"data{number:02}", "1.0.0")
    message = str(not_found("zzz", None, tmp_path))
    assert "'data09'] and more." in message
    assert "data10" not in message


def test_no_folder_at_all_is_not_found(tmp_path):
    assert find_dataset("pets", data_dir=tmp_path / "gone") is None
    message = str(not_found("pets", None, tmp_path / "gone"))
    assert message == f"pets: no such dataset in ['{tmp_path / 'gone'}']."


def test_home_of_a_dataset_is_the_one_folder_that_holds_any_version_of_it(data_dir, tmp_path):
    assert find_home("pets") is None
    put_dataset(data_dir, "pets", "1.0.0")
    put_dataset(tmp_path / "b", "flowers", "small", "1.0.0")
    remember_data_dir(tmp_path / "b")
    assert (find_home("pets"), find_home("flowers")) == (data_dir, tmp_path / "b")
    # A directory that was merely used gives way to TFDS's own.
    put_dataset(tmp_path / "b", "pets", "2.0.0")
    assert find_home("pets") == data_dir
    put_dataset(tmp_path / "c", "flowers", "1.0.0")
    remember_data_dir(tmp_path / "c")
    with pytest.raises(DatasetError, match="flowers: found in several data directories"):
        find_home("flowers")
