import os
import threading

import pytest

from tfrds.read import file_status as module
from tfrds.read.file_status import file_status


@pytest.fixture(params=["the way used here", "os.stat"])
def status(request):
    """Both ways to ask give the same."""
    return file_status if request.param == "the way used here" else module._with_stat


def test_size_is_the_files_and_identity_tells_files_apart(tmp_path, status):
    one, two = tmp_path / "one", tmp_path / "zwei \xfc"
    one.write_bytes(b"12345")
    two.write_bytes(b"")
    assert (status(one).size, status(two).size) == (5, 0)
    assert status(one).identity == status(one).identity != status(two).identity
    link = tmp_path / "link"
    os.link(one, link)
    assert status(link) == status(one)
    two.replace(one)
    assert status(one).identity != status(link).identity


def test_missing_file_has_none(tmp_path, status):
    assert status(tmp_path / "gone") is None


def test_threads_do_not_mix_their_answers(tmp_path):
    paths = [tmp_path / str(size) for size in range(20)]
    for size, path in enumerate(paths):
        path.write_bytes(bytes(size))
    wrong = []

    def ask(size):
        for _ in range(500):
            if file_status(paths[size]).size != size:
                wrong.append(size)

    threads = [threading.Thread(target=ask, args=(size,)) for size in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
