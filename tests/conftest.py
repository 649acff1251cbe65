"""What every test gets: a quiet TensorFlow without GPU, no network, and its own data directory."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys

import pytest
from PIL import ImageFile

from tfrds import data_dirs

# Before anything imports TensorFlow. Tests that start processes hand these on.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
# TensorFlow's file system for Google Cloud asks a metadata server unless told not to.
os.environ["NO_GCE_CHECK"] = "true"
os.environ["MPLBACKEND"] = "agg"

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def data_dir(tmp_path, monkeypatch):
    """An empty folder that TFDS and tfrds use when no data_dir is given."""
    folder = tmp_path / "tensorflow_datasets"
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder))
    # What one test built is found by no other.
    monkeypatch.setattr(data_dirs, "_used", {})
    # TFDS reads the variable once, when it is imported.
    if constants := sys.modules.get("tensorflow_datasets.core.constants"):
        monkeypatch.setattr(constants, "DATA_DIR", str(folder))
    yield folder
    if file_utils := sys.modules.get("tensorflow_datasets.core.utils.file_utils"):
        file_utils.clear_registered_data_dirs()


@pytest.fixture(autouse=True)
def own_pillow_settings(monkeypatch):
    """Undoes what TFDS's image_utils does to Pillow for the whole process (as_dataframe calls it).

    Builds check images in processes of their own, which it never reaches; tests check them here.
    """
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", False)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    connect = socket.socket.connect

    def connect_here_only(self, address):
        is_local = isinstance(address, str | bytes) or address[0] in ("127.0.0.1", "::1")
        if not is_local:
            raise OSError(f"tests must not use the network: connection to {address!r}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here_only)


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of its own with room for 256 kB."""
    folder = tmp_path / "tiny_disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if (
        not shutil.which("mount")
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("cannot mount a tmpfs: needs Linux and root")
    yield folder
    # Lazily: a shard that was read stays mapped until its dataset is collected.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="session")
def dummy_data():
    """The folder of smallest files that show a case, named after it."""
    return ROOT / "dummy_data"


@pytest.fixture(scope="session")
def stamps():
    """Tux Paint's stamps: PNGs with alpha in a deep class tree, other files in between."""
    return _real_data("stamps")


@pytest.fixture(scope="session")
def fashion_mnist():
    """The folder of Fashion-MNIST's four idx files; benchmarks.fashion_mnist reads them."""
    return _real_data("fashion-mnist")


@pytest.fixture(scope="session")
def raw(tmp_path_factory):
    """Raw images of one size, see tests/datasets.py."""
    import datasets

    return datasets.build_raw(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def jpeg(tmp_path_factory):
    """JPEGs of one size."""
    import datasets

    return datasets.build_jpeg(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="session")
def png(tmp_path_factory):
    """PNGs of one size."""
    import datasets

    return datasets.build_png(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="session")
def sizes(tmp_path_factory):
    """JPEGs of several sizes."""
    import datasets

    return datasets.build_sizes(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("source"))


@pytest.fixture(params=["raw", "jpeg", "png"])
def built(request):
    """Each of the three datasets of one size."""
    return request.getfixturevalue(request.param)


def _real_data(name):
    folder = ROOT / "benchmarks" / "data" / name
    if not folder.is_dir():
        pytest.skip(f"no {folder.relative_to(ROOT)}: run benchmarks/get_data.py")
    return folder
