import pickle

import images
import numpy as np
import pytest

from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources import Arrays, ImageFolder, Npz
from tfrds.write.sources.by_split import BySplit, as_source


def arrays(labels, shape=(4, 5, 3), seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), *shape), np.uint8)
    return Arrays(pixels, labels)


@pytest.fixture
def folders(tmp_path):
    images.put_images(tmp_path / "a", ["dog/1.png", "cat/1.png", "cat/2.png"])
    images.put_images(tmp_path / "b", ["cat/1.png", "ant/1.png"])
    return tmp_path / "a", tmp_path / "b"


def test_path_becomes_what_lies_there_and_sources_stay(folders, tmp_path):
    for path in (folders[0], str(folders[0])):
        assert isinstance(as_source(path), ImageFolder)
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 3, 3), np.uint8), labels=[0, 1])
    assert isinstance(as_source(tmp_path / "a.npz"), Npz)
    source = arrays([0])
    assert as_source(source) is source
    assert isinstance(as_source({"train": source}), BySplit)


@pytest.mark.parametrize(
    ("value", "name"), [(None, "NoneType"), (5, "int"), ([], "list"), (b"path", "bytes")]
)
def test_anything_else_is_no_source(value, name):
    with pytest.raises(ConfigError, match=f"source: expected the path .*got {name}"):
        as_source(value)
    with pytest.raises(ConfigError, match=f"got {name}"):
        as_source({"train": value})


def test_keys_begin_with_the_split_and_classes_are_the_same_everywhere(folders):
    references = BySplit({"train": folders[0], "test": folders[1]}).scan()
    found = {
        key.decode(): (references.split_names[split], references.class_names[label])
        for key, split, label in zip(
            references.keys, references.splits, references.labels, strict=True
        )
    }
    assert found == {
        "train/cat/1.png": ("train", "cat"),
        "train/cat/2.png": ("train", "cat"),
        "train/dog/1.png": ("train", "dog"),
        "test/ant/1.png": ("test", "ant"),
        "test/cat/1.png": ("test", "cat"),
    }
    assert sorted(references.class_names) == ["ant", "cat", "dog"]
    assert references.sizes.tolist() == [
        (folders[0 if key.startswith(b"train") else 1] / key.decode().split("/", 1)[1])
        .stat()
        .st_size
        for key in references.keys
    ]


def test_numbered_classes_keep_their_numbers():
    references = BySplit({"a": arrays([1, 0]), "b": arrays([4]), "c": arrays([2, 2])}).scan()
    assert references.class_names == ("0", "1", "2", "3", "4")
    assert references.has_numbered_classes
    assert references.labels.tolist() == [1, 0, 4, 2, 2]
    assert references.splits.tolist() == [0, 0, 1, 2, 2]
    assert list(references.keys) == [b"a/0", b"a/1", b"b/0", b"c/0", b"c/1"]
    assert references.shape == (4, 5, 3)


def test_shape_is_known_only_where_all_agree():
    source = BySplit({"a": arrays([0]), "b": arrays([0], (6, 5, 3))})
    assert source.scan().shape == (None, None, 3)
    source = BySplit({"a": arrays([0]), "b": arrays([0], (4, 5, 1))})
    assert source.scan().shape is None


def test_left_out_files_and_notes_are_those_of_all(folders):
    images.put(folders[0] / "x.txt", "text")
    images.put(folders[1] / "y.txt", "text")
    images.put(folders[1] / ".z", "text")
    references = BySplit({"train": folders[0], "test": folders[1]}).scan()
    assert references.left_out == {".txt": 2, "hidden": 1}
    assert len(references.notes) == 2


def test_inputs_are_those_of_the_splits_source(folders):
    source = BySplit({"train": folders[0], "test": folders[1], "more": arrays(["x", "y"], seed=5)})
    source.scan()
    inputs = pickle.loads(pickle.dumps(source.inputs(np.array([4, 3]))))
    assert [inputs.name(0), inputs.name(1)] == ["test/cat/1.png", "test/ant/1.png"]
    assert inputs.read(0) == (folders[1] / "cat/1.png").read_bytes()
    expected = np.random.default_rng(5).integers(0, 256, (2, 4, 5, 3), np.uint8)
    assert (source.inputs(np.array([6])).read(0) == expected[1]).all()


def test_no_worker_is_needed_only_if_all_sources_lie_in_memory(folders):
    assert BySplit({"a": arrays([0]), "b": arrays([0])}).is_in_memory
    assert not BySplit({"a": arrays(["x"]), "b": folders[0]}).is_in_memory


def test_empty_dict_and_bad_split_names_are_refused():
    with pytest.raises(ConfigError, match="source: expected at least one split, got an empty dict"):
        BySplit({})
    for name in ("all", "a-b", 3):
        with pytest.raises(ConfigError, match=f"source: a split's name .*got {name!r}"):
            BySplit({name: arrays([0])})


def test_empty_split_is_named():
    with pytest.raises(
        SourceError, match="split 'test': expected at least one labelled image, found none"
    ):
        BySplit({"train": arrays([0]), "test": arrays(np.zeros(0, int))}).scan()


def test_source_with_splits_of_its_own_is_refused(tmp_path, folders):
    images.put_images(tmp_path / "c", ["train/cat/1.png", "test/cat/1.png"])
    with pytest.raises(
        SourceError, match=r"split 'a': its source has splits of its own, \['test', 'train'\]"
    ):
        BySplit({"a": tmp_path / "c"}).scan()
    with pytest.raises(SourceError, match="splits of its own"):
        BySplit({"outer": {"inner": arrays([0])}}).scan()
    classes = BySplit({"a": ImageFolder(tmp_path / "c", layout="class")}).scan().class_names
    assert sorted(classes) == ["test", "train"]


def test_numbers_and_names_do_not_mix():
    with pytest.raises(
        SourceError, match="labels: one split has class numbers and another class names"
    ):
        BySplit({"train": arrays([0, 1]), "test": arrays(["cat"])}).scan()


def test_stamps_are_those_of_the_sources(folders):
    parts = {"train": ImageFolder(folders[0]), "test": arrays(["cat", "dog"])}
    stamps = BySplit(parts).scan().stamps
    expected = [*parts["train"].scan().stamps.tolist(), *parts["test"].scan().stamps.tolist()]
    assert (stamps.dtype, stamps.tolist()) == (np.uint64, expected)
