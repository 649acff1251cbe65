import dataclasses
import hashlib
import json
import shutil

import pytest

import tfrds
from tfrds.disk import class_names
from tfrds.disk.build_record import canonical_json
from tfrds.errors import DatasetError
from tfrds.tools.info import DatasetSummary, dataset_info


@pytest.fixture
def copied(raw, data_dir):
    """The directory of a copy of the raw dataset, where TFDS looks for it."""
    shutil.copytree(raw.root / raw.name, data_dir / raw.name)
    return data_dir / raw.name / "1.0.0"


def change_record(directory, change):
    """Writes tfrds.json anew after `change` of its content."""
    path = directory / "tfrds.json"
    content = json.loads(path.read_bytes())
    change(content)
    path.write_bytes(canonical_json(content))


def test_summary_of_raw_images_is_what_was_put_in(raw):
    summary = dataset_info(raw.directory)
    assert (summary.name, summary.version, summary.config) == ("raw_images", "1.0.0", None)
    assert summary.directory == raw.directory
    assert summary.digest == hashlib.sha256((raw.directory / "tfrds.json").read_bytes()).hexdigest()
    assert (summary.encoding, summary.image_shape, summary.channels) == ("raw", (9, 7, 3), 3)
    assert summary.dtype == "float32"
    assert summary.class_names == ("ant", "bee", "cat", "dog")
    assert summary.num_classes == 4
    assert summary.num_examples == 63
    assert (summary.repaired, summary.left_out, summary.source_kind) == (0, {}, "by_split")
    assert summary.total_bytes == sum(path.stat().st_size for path in raw.directory.iterdir())


@pytest.mark.parametrize("split", ["train", "test"])
def test_split_counts_are_those_of_the_source(built, split):
    part = dataset_info(built.directory).splits[split]
    labels = [label for key, label in built.labels.items() if key.startswith(f"{split}/")]
    shards = list(built.directory.glob(f"*-{split}.tfrecord-*"))
    assert part.num_examples == len(labels)
    assert part.class_counts == tuple(labels.count(number) for number in range(4))
    assert part.num_shards == len(shards) == 3
    assert part.num_bytes == sum(path.stat().st_size for path in shards)


def test_sizes_are_none_where_they_vary(sizes):
    summary = dataset_info(sizes.directory)
    assert (summary.image_shape, summary.encoding) == ((None, None, 3), "original")
    assert json.loads(json.dumps(summary.to_dict()))["image_shape"] == [None, None, 3]


def test_to_dict_is_json_and_complete(raw):
    content = dataset_info(raw.directory).to_dict()
    assert set(content) == {field.name for field in dataclasses.fields(DatasetSummary)}
    assert json.loads(json.dumps(content))["directory"] == str(raw.directory)


def test_left_out_files_and_the_source_are_counted(tmp_path, data_dir):
    from images import put, put_images

    folder = put_images(tmp_path / "pets", ["cat/a.png", "dog/b.png"])
    put(folder / "cat" / "a.txt", "text")
    builder = tfrds.build("pets", folder, num_workers=1)
    summary = dataset_info(builder.data_dir)
    assert (summary.left_out, summary.source_kind) == ({".txt": 1}, "folder")


@pytest.mark.parametrize("prepare", ["default", "other", "varying", "older"])
def test_the_line_loads_the_dataset_on_the_fast_path(prepare, raw, sizes, copied, data_dir):
    directory = {"other": raw.directory, "varying": sizes.directory}.get(prepare, copied)
    if prepare == "older":
        shutil.copytree(copied, copied.with_name("1.1.0"))
        change_record(copied.with_name("1.1.0"), lambda content: content.update(version="1.1.0"))
    line = dataset_info(directory).load_line
    assert (
        line
        == {
            "default": 'tfds.load("raw_images", split="train", batch_size=256, as_supervised=True)',
            "other": 'tfrds.load("raw_images", split="train", batch_size=256, as_supervised=True, '
            f'data_dir="{raw.root}")',
            "varying": 'tfrds.load("several_sizes", split="train", batch_size=256, '
            f'image_size=(224, 224), as_supervised=True, data_dir="{sizes.root}")',
            "older": 'tfrds.load("raw_images:1.0.0", split="train", batch_size=256, '
            "as_supervised=True)",
        }[prepare]
    )
    import tensorflow_datasets as tfds

    from tfrds.read import host_calls

    dataset = eval(line, {"tfds": tfds, "tfrds": tfrds})
    assert host_calls.targets(dataset)
    ((images, labels),) = list(dataset)
    assert images.shape == ((50, 224, 224, 3) if prepare == "varying" else (50, 9, 7, 3))
    assert labels.shape == (50, 4)


def test_the_line_takes_the_first_split_where_there_is_no_train(tmp_path, data_dir):
    from images import put_images

    folder = put_images(tmp_path / "pets", ["cat/a.png", "dog/b.png"])
    builder = tfrds.build("pets", {"test": folder}, num_workers=1)
    assert 'split="test"' in dataset_info(builder.data_dir).load_line


def test_a_configuration_stands_in_the_name(copied, data_dir):
    target = data_dir / "raw_images" / "small" / "1.0.0"
    target.parent.mkdir()
    copied.rename(target)
    summary = dataset_info(target)
    assert summary.config == "small"
    assert summary.load_line.startswith('tfrds.load("raw_images/small", split="train"')


def test_no_dataset_is_an_error_that_names_the_directory(tmp_path):
    with pytest.raises(DatasetError, match=rf"{tmp_path}: no dataset of tfrds"):
        dataset_info(tmp_path)


def test_changed_class_names_are_found(copied):
    (copied / "label.labels.txt").write_text("ant\nbee\ncat\ncow\n")
    found = hashlib.sha256(b"ant\nbee\ncat\ncow").hexdigest()
    with pytest.raises(
        DatasetError, match=f"label.labels.txt: expected .* sha256 .*, found {found}"
    ):
        dataset_info(copied)


def test_missing_class_names_are_an_error(copied):
    (copied / "label.labels.txt").unlink()
    with pytest.raises(DatasetError, match=r"label\.labels\.txt: cannot be read: .*No such file"):
        dataset_info(copied)


def test_a_huge_file_of_class_names_is_not_read(copied, monkeypatch):
    monkeypatch.setattr(class_names, "_MAX_BYTES", 10)
    with pytest.raises(DatasetError, match=r"label\.labels\.txt: larger than 10 bytes"):
        dataset_info(copied)


def test_a_label_key_that_leads_elsewhere_is_part_of_a_name(copied):
    (copied.parent / "other.labels.txt").write_text("x\n")
    change_record(copied, lambda content: content["label"].update(key="../other"))
    with pytest.raises(DatasetError, match=r"1\.0\.0/\.\.\.other\.labels\.txt: cannot be read"):
        dataset_info(copied)


def test_counts_that_do_not_fit_the_classes_are_an_error(copied):
    change_record(copied, lambda content: content["splits"]["test"].update(class_counts=[1, 2]))
    with pytest.raises(
        DatasetError, match=r"'test': .* of 4 classes with the sum 13, found 2 with the sum 3"
    ):
        dataset_info(copied)


@pytest.mark.parametrize("key", ["totals", "source"])
def test_an_incomplete_record_is_an_error(copied, key):
    change_record(copied, lambda content: content.pop(key))
    with pytest.raises(DatasetError, match=f"{copied}: incomplete: KeyError.*{key}"):
        dataset_info(copied)
