import io
import json
import os
import pickle
import subprocess
import sys

import images
import numpy as np
import pandas as pd
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

import tfrds
from tfrds.errors import DatasetError, SourceError
from tfrds.write.sources import ImageFolder, parquet_images
from tfrds.write.sources.manifest import Manifest
from tfrds.write.sources.unpacked_groups import read_unpacked, unpack_group

COUNT = 30
FILES = [images.encoded(images.noise(seed, 4, 5)) for seed in range(COUNT)]
LABELS = [("cat", "dog", "ant")[number % 3] for number in range(COUNT)]
STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def structs(files=FILES, paths=None):
    paths = paths or [f"{number:02}.png" for number in range(len(files))]
    return pa.array(
        [{"bytes": own, "path": path} for own, path in zip(files, paths, strict=True)], STRUCT
    )


def write(path, image, labels=LABELS, group=4, names=None, **columns):
    """Writes a Parquet file of small row groups; with the names of the classes as `datasets`."""
    table = pa.table({"image": image, "label": pa.array(labels), **columns})
    if names is not None:
        features = {"label": {"names": names, "_type": "ClassLabel"}, "image": {"_type": "Image"}}
        about = json.dumps({"info": {"features": features}}).encode()
        table = table.replace_schema_metadata({b"huggingface": about})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=group)
    return path


def keys_of(references):
    return [key.decode() for key in references.keys]


def read_all(source, rows):
    inputs = pickle.loads(pickle.dumps(source.inputs(np.array(rows))))
    assert len(inputs) == len(rows)
    return [inputs.read(position) for position in range(len(rows))]


ORDER = np.random.default_rng(0).permutation(COUNT).tolist()


# Images in files


def test_images_are_read_in_any_order(tmp_path):
    path = write(tmp_path / "t.parquet", structs())
    source = Manifest(path)
    found = source.scan()
    assert keys_of(found) == [f"{number:02}.png" for number in range(COUNT)]
    assert [found.class_names[label] for label in found.labels] == LABELS
    assert read_all(source, ORDER) == [FILES[row] for row in ORDER]
    inputs = source.inputs(np.array([7, 2]))
    assert [inputs.name(0), inputs.name(1)] == ["t.parquet row 8", "t.parquet row 3"]
    assert [inputs.read(0), inputs.read(0), inputs.read(1), inputs.read(0)] == [
        FILES[7], FILES[7], FILES[2], FILES[7]
    ]  # fmt: skip
    average = sum(map(len, FILES)) / COUNT
    assert average < found.sizes.mean() < 2 * average + 100  # by the footer


@pytest.mark.parametrize(
    "image",
    [
        pa.array(FILES),
        pa.array(FILES, pa.large_binary()),
        pa.array(FILES, pa.binary_view()),
        pa.StructArray.from_arrays([pa.array(FILES)], ["bytes"]),
        structs(paths=["same.png"] * COUNT),
        structs(paths=["../a.png", *(f"{number}.png" for number in range(COUNT - 1))]),
        structs(paths=["/a.png", *(f"{number}.png" for number in range(COUNT - 1))]),
        structs(paths=[None, *(f"{number}.png" for number in range(COUNT - 1))]),
    ],
)
def test_keys_are_numbers_where_images_have_no_paths_of_their_own(tmp_path, image):
    source = Manifest(write(tmp_path / "t.parquet", image))
    found = source.scan()
    assert keys_of(found) == [f"{number:02}" for number in range(COUNT)]
    assert read_all(source, ORDER) == [FILES[row] for row in ORDER]
    has_paths = pa.types.is_struct(image.type) and image.type.num_fields == 2
    note = (
        "t.parquet: the keys are the numbers of the rows, since not every image has a path of its "
        "own beside it."
    )
    assert (note in found.notes) == has_paths


def test_paths_without_bytes_are_files(tmp_path):
    images.put_images(tmp_path, ["a.png", "b.png"])
    path = write(tmp_path / "t.parquet", structs([None, None], ["a.png", "b.png"]), ["x", "y"])
    source = Manifest(path)
    assert keys_of(source.scan()) == ["a.png", "b.png"]
    assert read_all(source, [1]) == [(tmp_path / "b.png").read_bytes()]


def test_files_of_which_some_have_paths_and_some_bytes_are_refused(tmp_path):
    images.put_images(tmp_path, ["a.png"])
    write(tmp_path / "train.parquet", pa.array(FILES[:1]), LABELS[:1])
    write(tmp_path / "test.parquet", pa.array(["a.png"]), LABELS[:1])
    with pytest.raises(
        SourceError, match=r"^test\.parquet, column 'image': expected the bytes of images as in oth"
    ):
        Manifest(tmp_path).scan()


def test_rows_without_an_image_are_named(tmp_path):
    files = [None if number in (5, 29) else own for number, own in enumerate(FILES)]
    for image in (structs(files), pa.array(files)):
        with pytest.raises(
            SourceError,
            match=r"^t\.parquet row 6, column 'image': expected the bytes of an image, got an "
            r"empty cell\. Fill it, or remove the row\. So are row 30 \(an empty cell\); 2 in all",
        ):
            Manifest(write(tmp_path / "t.parquet", image)).scan()


def test_rows_without_an_image_are_found_by_the_worker_where_the_footer_does_not_say(tmp_path):
    files = [None if number == 5 else own for number, own in enumerate(FILES)]
    table = pa.table({"image": structs(files), "label": LABELS})
    pq.write_table(table, tmp_path / "t.parquet", write_statistics=False, row_group_size=7)
    source = Manifest(tmp_path / "t.parquet")
    source.scan()
    inputs = source.inputs(np.array([9, 5, 4]))
    assert inputs.read(0) == FILES[9]
    with pytest.raises(
        SourceError, match=r"^t\.parquet row 6: expected the bytes of an image, found"
    ):
        inputs.read(1)
    assert inputs.read(2) == FILES[4]


def test_files_of_a_folder_give_splits_by_their_names(tmp_path):
    write(tmp_path / "data/train-00000-of-00002.parquet", structs(FILES[:10]), LABELS[:10])
    write(tmp_path / "data/train-00001-of-00002.parquet", structs(FILES[10:20]), LABELS[10:20])
    write(tmp_path / "data/test-00000-of-00001-0a1b2c.parquet", structs(FILES[20:]), LABELS[20:])
    write(tmp_path / ".cache/other.parquet", structs(FILES[:1]), LABELS[:1])
    source = Manifest(tmp_path)
    found = source.scan()
    assert found.split_names == ("test", "train")
    assert found.splits.tolist() == [0] * 10 + [1] * 20
    # The paths beside the images stand twice in "train", so that they are no keys.
    assert keys_of(found) == [
        *(f"test/{number}" for number in range(10)),
        *(f"train/{number:02}" for number in range(20)),
    ]
    assert read_all(source, [29, 0, 10, 19]) == [FILES[19], FILES[20], FILES[0], FILES[9]]
    assert source.inputs(np.array([15])).name(0) == "data/train-00000-of-00002.parquet row 6"
    same = Manifest(sorted(tmp_path.glob("data/*.parquet"), reverse=True))
    again = same.scan()
    assert keys_of(again) == keys_of(found)
    assert read_all(same, [29, 0]) == [FILES[19], FILES[20]]


def test_paths_of_each_split_are_keys_below_it(tmp_path):
    write(tmp_path / "train.parquet", structs(FILES[:2]), LABELS[:2])
    write(tmp_path / "valid_1.parquet", structs(FILES[2:4]), LABELS[2:4])
    found = Manifest(tmp_path).scan()
    assert keys_of(found) == ["train/00.png", "train/01.png", "valid/00.png", "valid/01.png"]
    assert found.split_names == ("train", "valid")


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (["train/0000.parquet", "validation/0000.parquet"], ("train", "validation")),
        (["default/train/a.parquet", "default/test/a.parquet"], ("test", "train")),
        (["train-0-of-2.parquet", "train-1-of-2.parquet"], ()),
        (["a.parquet", "b.parquet"], ()),
        (["only-1-of-1.parquet"], ("only",)),
    ],
)
def test_splits_by_names_of_files_and_folders(tmp_path, names, splits):
    for name in names:
        write(tmp_path / name, structs(FILES[:1]), LABELS[:1])
    found = Manifest(tmp_path).scan()
    assert found.split_names == splits
    assert (found.splits is None) == (splits == ())
    assert Manifest(tmp_path, split=False).scan().splits is None
    assert Manifest(tmp_path / names[0]).scan().splits is None


def test_a_column_decides_the_splits_before_the_names(tmp_path):
    write(tmp_path / "train.parquet", structs(FILES[:2]), LABELS[:2], split=pa.array(["a", "b"]))
    assert Manifest(tmp_path).scan().split_names == ("a", "b")


def test_files_of_which_some_say_no_split_are_refused(tmp_path):
    write(tmp_path / "train.parquet", structs(FILES[:2]), LABELS[:2])
    write(tmp_path / "more.parquet", structs(FILES[:2]), LABELS[:2])
    with pytest.raises(
        SourceError, match=r"expected every file to say its split .*'more\.parquet'"
    ):
        Manifest(tmp_path).scan()


def test_names_of_the_classes_are_those_of_the_file(tmp_path):
    numbers = [number % 2 for number in range(COUNT)]
    path = write(tmp_path / "t.parquet", structs(), numbers, names=["dog", "cat", "e\u0301"])
    found = Manifest(path).scan()
    assert found.class_names == ("dog", "cat", "é")
    assert found.labels.tolist() == numbers
    assert not found.has_numbered_classes
    assert any("numbered by their sorted names, not as in the file" in note for note in found.notes)
    path = write(tmp_path / "t.parquet", structs(), numbers, names=["ant", "dog"])
    assert not any("sorted names" in note for note in Manifest(path).scan().notes)
    numbers[4] = -1
    path = write(tmp_path / "t.parquet", structs(), numbers, names=["ant", "dog"])
    with pytest.raises(
        SourceError,
        match=r"row 5, column 'label': expected a class number from 0 to 1, got -1\. .* By -1 Hugg",
    ):
        Manifest(path).scan()
    path = write(tmp_path / "t.parquet", structs(), numbers, names=["ant", "ant"])
    with pytest.raises(
        SourceError, match=r"column 'label', class names of its features: 2 class na"
    ):
        Manifest(path).scan()


@pytest.mark.parametrize("kind", ["List", "LargeList", "Sequence", None])
def test_names_of_the_classes_in_lists(tmp_path, kind):
    names = {"_type": "ClassLabel", "names": ["small", "large"]}
    feature = {"_type": kind, "feature": names} if kind else [names]
    about = json.dumps({"info": {"features": {"label": feature}}}).encode()
    table = pa.table({"image": structs(FILES[:2]), "label": [[1, 0], []]})
    pq.write_table(table.replace_schema_metadata({b"huggingface": about}), tmp_path / "t.parquet")
    found = Manifest(tmp_path / "t.parquet").scan()
    assert found.class_names == ("small", "large")
    assert found.labels.numbers.tolist() == [0, 1]
    assert found.labels.offsets.tolist() == [0, 2, 2]


def test_files_with_other_class_names_are_refused(tmp_path):
    write(tmp_path / "train.parquet", structs(FILES[:2]), [0, 1], names=["ant", "dog"])
    write(tmp_path / "test.parquet", structs(FILES[:2]), [0, 1], names=["dog", "ant"])
    with pytest.raises(
        SourceError,
        match=r"expected the same class names in all files, but .*test\.parquet and train",
    ):
        Manifest(tmp_path).scan()


@pytest.mark.parametrize(
    "about",
    [b"{", b"[]", b"{}", b'{"info": {"features": 3}}', b'{"info": {"features": {"label": 3}}}'],
)
def test_other_uses_of_the_key_mean_nothing(tmp_path, about):
    table = pa.table({"image": structs(FILES[:2]), "label": [0, 1]})
    pq.write_table(table.replace_schema_metadata({b"huggingface": about}), tmp_path / "t.parquet")
    assert Manifest(tmp_path / "t.parquet").scan().class_names == ("0", "1")


# Memory


def test_images_are_taken_in_passes_within_a_bound(tmp_path, monkeypatch):
    source = Manifest(write(tmp_path / "t.parquet", structs()))
    source.scan()
    largest = max(map(len, FILES))
    for bound in (1, 3 * largest, 10 * largest):
        monkeypatch.setattr(parquet_images, "HELD_BYTES", bound)
        inputs = source.inputs(np.array(ORDER))
        for position, row in enumerate(ORDER):
            assert inputs.read(position) == FILES[row]
            held = sum(map(len, inputs._held.values()))
            assert held <= max(bound, largest)


def test_sizes_are_estimates_and_the_bound_is_none(tmp_path, monkeypatch):
    """Of equal row groups that say little, the first images are far larger than the average."""
    large = [images.encoded(images.noise(seed, 100, 100)) for seed in range(3)]
    files = [*large, *FILES[:27]]
    source = Manifest(write(tmp_path / "t.parquet", structs(files), group=30))
    found = source.scan()
    bound = int(found.sizes[0]) * 3
    assert bound < 2 * len(large[0])
    monkeypatch.setattr(parquet_images, "HELD_BYTES", bound)
    order = [*range(29, 2, -1), 0, 1, 2]
    inputs = source.inputs(np.array(order))
    for position, row in enumerate(order):
        assert inputs.read(position) == files[row]
        assert sum(map(len, inputs._held.values())) <= bound


def test_each_row_group_is_read_once_for_a_shard(tmp_path, monkeypatch):
    source = Manifest(write(tmp_path / "t.parquet", structs()))
    source.scan()
    read = []
    batches = parquet_images._batches
    monkeypatch.setattr(
        parquet_images,
        "_batches",
        lambda opened, file, group: read.append(group) or batches(opened, file, group),
    )
    rows = [row for row in ORDER if row < 11 or row > 20]
    assert [source.inputs(np.array(rows)).read(0)] == [FILES[rows[0]]]
    assert read == [0, 1, 2, 5, 6, 7]


def test_inputs_travel_light(tmp_path):
    source = Manifest(write(tmp_path / "t.parquet", structs()))
    source.scan()
    inputs = source.inputs(np.array([3, 1]))
    inputs.read(0)
    assert len(pickle.dumps(inputs)) < 1500


# A folder to unpack into


def unpacked_in(folder):
    """Returns the files of unpacked row groups."""
    return sorted(path.name for path in folder.glob("tfrds-unpacked-*/*.images"))


def test_row_groups_are_unpacked_once_for_all_shards(tmp_path, monkeypatch):
    write(tmp_path / "t/train.parquet", structs(FILES[:20]), LABELS[:20], group=8)
    write(tmp_path / "t/test.parquet", structs(FILES[20:]), LABELS[20:], group=8)
    files = FILES[20:] + FILES[:20]
    source = Manifest(tmp_path / "t", scratch_dir=tmp_path / "scratch")
    source.scan()
    read = []
    batches = parquet_images._batches
    monkeypatch.setattr(
        parquet_images,
        "_batches",
        lambda opened, file, group: (
            read.append((file.file.name, group)) or batches(opened, file, group)
        ),
    )
    for rows in (ORDER[:15], ORDER[15:], ORDER[::2]):
        assert read_all(source, rows) == [files[row] for row in rows]
    assert sorted(read) == [
        ("test.parquet", 0), ("test.parquet", 1), ("train.parquet", 0), ("train.parquet", 1),
        ("train.parquet", 2),
    ]  # fmt: skip
    expected = ["0-0.images", "0-1.images", "1-0.images", "1-1.images", "1-2.images"]
    assert unpacked_in(tmp_path / "scratch") == expected
    del source
    assert list((tmp_path / "scratch").iterdir()) == []


def test_row_group_that_another_worker_unpacks_meanwhile_is_not_unpacked_again(tmp_path):
    path = tmp_path / "0-0.images"
    assert unpack_group(path, iter([b"one", b"", b"three"]), 3)
    assert [read_unpacked(path, row) for row in range(3)] == [b"one", b"", b"three"]
    assert unpack_group(path, iter([]), 3)
    assert read_unpacked(path, 2) == b"three"
    assert not unpack_group(tmp_path / "1-0.images", iter([b"one", None]), 2)
    assert not unpack_group(tmp_path / "nowhere" / "0-0.images", iter([]), 0)
    assert sorted(own.name for own in tmp_path.glob("*.images")) == ["0-0.images"]


def test_large_row_groups_are_read_piece_by_piece(tmp_path, monkeypatch):
    source = Manifest(write(tmp_path / "t.parquet", structs(), group=COUNT))
    source.scan()
    monkeypatch.setattr(parquet_images, "_MAX_BATCH", 4)
    assert read_all(source, ORDER) == [FILES[row] for row in ORDER]
    assert read_all(source, [29, 3]) == [FILES[29], FILES[3]]


def test_a_worker_that_does_not_see_the_folder_reads_the_file(tmp_path):
    path = write(tmp_path / "t.parquet", structs())
    source = Manifest(path, scratch_dir=tmp_path / "scratch")
    source.scan()
    inputs = pickle.loads(pickle.dumps(source.inputs(np.array([3, 1]))))
    del source
    assert [inputs.read(0), inputs.read(1)] == [FILES[3], FILES[1]]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_where_the_disk_is_full_the_file_is_read(tmp_path, tiny_disk):
    files = [images.encoded(images.noise(seed, 100, 100)) for seed in range(20)]
    source = Manifest(
        write(tmp_path / "t.parquet", structs(files), LABELS[:20], group=5), scratch_dir=tiny_disk
    )
    source.scan()
    assert sum(map(len, files)) > 512 * 1024
    rows = [19, 0, 7, 12, 3, 18]
    assert read_all(source, rows) == [files[row] for row in rows]
    assert len(unpacked_in(tiny_disk)) == 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    path = write(tmp_path / "t.parquet", structs())
    source = Manifest(path, scratch_dir=path)
    source.scan()
    with pytest.raises(SourceError, match=rf"t.parquet: cannot be unpacked into {path}: File exi"):
        source.inputs(np.arange(2))


def test_what_is_damaged_is_the_same_with_a_folder_to_unpack_into(tmp_path):
    files = [None if number == 5 else own for number, own in enumerate(FILES)]
    table = pa.table({"image": structs(files), "label": LABELS})
    pq.write_table(table, tmp_path / "t.parquet", write_statistics=False, row_group_size=7)
    source = Manifest(tmp_path / "t.parquet", scratch_dir=tmp_path / "scratch")
    source.scan()
    inputs = source.inputs(np.array([9, 5, 4]))
    assert inputs.read(0) == FILES[9]
    with pytest.raises(
        SourceError, match=r"^t\.parquet row 6: expected the bytes of an image, found"
    ):
        inputs.read(1)
    assert inputs.read(2) == FILES[4]
    assert unpacked_in(tmp_path / "scratch") == ["0-1.images"]


def test_much_repeated_reading_is_told_with_the_remedy(tmp_path, monkeypatch):
    path = write(tmp_path / "t.parquet", structs(), group=10)
    size = int(Manifest(path).scan().sizes.sum())
    monkeypatch.setattr(parquet_images, "_SHARD_BYTES", size // 6)
    monkeypatch.setattr(parquet_images, "_MUCH_BYTES", 6 * size)
    note = Manifest(path).scan().notes[-1]
    times = -(-size // (size // 6))
    assert f"each is read about {times} times. Pass scratch_dir= with a folder" in note
    monkeypatch.setattr(parquet_images, "_SHARD_BYTES", 1)
    assert "each is read about 10 times" in Manifest(path).scan().notes[-1]
    assert len(Manifest(path, scratch_dir=tmp_path).scan().notes) == 1


# Damage


def test_damaged_files_are_named(tmp_path):
    path = images.put(tmp_path / "t.parquet", b"PAR1 something else PAR1")
    with pytest.raises(
        SourceError, match=rf"^{path}: cannot be read as Parquet: .*Write or copy it"
    ):
        Manifest(path).scan()
    write(path, structs(), group=COUNT)
    data = bytearray(path.read_bytes())
    position = data.rindex(b"cat")  # in the dictionary of the labels
    data[position - 40 : position] = bytes(40)
    path.write_bytes(data)
    with pytest.raises(SourceError, match=rf"^{path}: cannot be read as Parquet: "):
        Manifest(path).scan()


def test_text_that_is_no_utf8_is_refused(tmp_path):
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    table = pa.table({"image": pa.array(FILES[:1]), "label": ["x"], "text": broken})
    pq.write_table(table, tmp_path / "t.parquet")
    for own in (tmp_path / "t.parquet", table):
        with pytest.raises(SourceError, match=r"expected valid values, found others: .*UTF8"):
            Manifest(own).scan()


def test_damage_of_one_row_group_is_an_error_of_its_images(tmp_path):
    path = write(tmp_path / "t.parquet", pa.array(FILES), group=10)
    source = Manifest(path)
    source.scan()
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + 30] = bytes(30)
    path.write_bytes(data)
    inputs = source.inputs(np.array([5, 15, 25]))
    assert inputs.read(0) == FILES[5]
    with pytest.raises(SourceError, match=r"^t\.parquet row 16: its row group 1 cannot be read: "):
        inputs.read(1)
    assert inputs.read(2) == FILES[25]


def test_file_that_is_another_one_on_the_worker_is_no_fault_of_an_image(tmp_path):
    path = write(tmp_path / "t.parquet", structs())
    source = Manifest(path)
    source.scan()
    inputs = source.inputs(np.array([0]))
    size = path.stat().st_size
    write(path, structs(FILES[:4]), LABELS[:4])
    with pytest.raises(
        DatasetError,
        match=rf"^{path}: expected this file of {size:,} bytes on .*, found one of "
        rf"{path.stat().st_size:,} bytes",
    ):
        inputs.read(0)
    path.unlink()
    with pytest.raises(DatasetError, match=r"found none\. Every worker must see the same files"):
        inputs.read(0)


def test_columns_that_stand_twice_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array(FILES), pa.array(LABELS), pa.array(LABELS)],
                                 names=["image", "label", "label"])  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(
        SourceError, match=r"t\.parquet: expected each column once, got 'label' 2 ti"
    ):
        Manifest(tmp_path / "t.parquet").scan()


def test_stamps_are_those_of_the_file(tmp_path):
    path = write(tmp_path / "t.parquet", structs())
    before = Manifest(path).scan().stamps
    assert before.dtype == np.uint64
    assert len(set(before.tolist())) == 1
    assert (Manifest(path).scan().stamps == before).all()
    write(path, structs(), labels=[*LABELS[:-1], "a longer name"])
    assert (Manifest(path).scan().stamps != before).all()


# Images in memory


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.table({"image": pa.array(FILES), "label": LABELS}),
        lambda: pa.table({"image": pa.array(FILES, pa.large_binary()), "label": LABELS}),
        lambda: pa.table({"image": structs(paths=["same.png"] * COUNT), "label": LABELS}),
        lambda: pd.DataFrame({"image": FILES, "label": LABELS}),
        lambda: pd.DataFrame({"image": map(bytearray, FILES), "label": LABELS}),
        lambda: pd.DataFrame({"image": [{"bytes": own} for own in FILES], "label": LABELS}),
        lambda: pd.DataFrame(
            {"image": pd.Series(FILES, dtype=pd.ArrowDtype(pa.binary())), "label": LABELS}
        ),
    ],
)
def test_images_of_tables_in_memory_travel(make):
    source = Manifest(make())
    found = source.scan()
    assert keys_of(found) == [f"{number:02}" for number in range(COUNT)]
    assert found.sizes.tolist() == list(map(len, FILES))
    assert found.stamps.tolist() == [xxhash.xxh3_64_intdigest(own) for own in FILES]
    assert read_all(source, ORDER) == [FILES[row] for row in ORDER]
    inputs = source.inputs(np.array([3, 1]))
    assert inputs.read(1) == FILES[1]
    travelled = pickle.dumps(inputs)
    assert len(travelled) < len(FILES[3]) + len(FILES[1]) + 500
    assert pickle.loads(travelled).name(1) == inputs.name(1)
    assert inputs.name(1).endswith(" row 2, column 'image'")


def test_paths_beside_images_in_memory_that_are_no_text_are_no_keys():
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    image = pa.StructArray.from_arrays([pa.array(FILES[:1]), broken], ["bytes", "path"])
    source = Manifest(pa.table({"image": image, "label": ["x"]}))
    assert keys_of(source.scan()) == ["0"]
    assert read_all(source, [0]) == FILES[:1]


def test_paths_beside_images_in_memory_are_keys():
    for table in (
        pa.table({"image": structs(), "label": LABELS}),
        pd.DataFrame({"image": structs().to_pylist(), "label": LABELS}),
    ):
        assert keys_of(Manifest(table).scan()) == [f"{number:02}.png" for number in range(COUNT)]


def test_rows_of_tables_in_memory_without_an_image_are_named():
    table = pd.DataFrame({"image": [FILES[0], None, "text"], "label": "x"})
    with pytest.raises(
        SourceError,
        match=r"^DataFrame row 2, column 'image': expected the bytes of an image file, got "
        r"NoneType\..* So are row 3 \(str\); 2 in all\.$",
    ):
        Manifest(table).scan()


# Files of `datasets` itself


@pytest.fixture
def folder(tmp_path):
    names = [f"{label}/{number}.png" for number, label in enumerate(LABELS)]
    return images.put_images(tmp_path / "folder", names)


# In a process of its own, as tests/datasets.py has the same name here. Its argument is a folder of
# images in folders of their classes; beside it Parquet files are written as for the hub.
_WRITE_PARQUET = """
import pathlib, sys
import datasets
paths = sorted(pathlib.Path(sys.argv[1]).rglob("*.png"))
features = datasets.Features({
    "image": datasets.Image(),
    "label": datasets.ClassLabel(names=["ant", "cat", "dog"]),
    "tags": datasets.Sequence(datasets.ClassLabel(names=["small", "large"])),
    "size": datasets.Value("float64"),
})
whole = datasets.Dataset.from_dict({
    "image": [str(path) for path in paths],
    "label": [path.parent.name for path in paths],
    "tags": [["small", "large"][: number % 3] for number in range(len(paths))],
    "size": [number / 4 for number in range(len(paths))],
}, features=features)
for name, part in (("train", range(20)), ("test", range(20, 30))):
    path = pathlib.Path(sys.argv[1]).parent / "hub" / "data" / f"{name}-00000-of-00001.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    table = datasets.table.embed_table_storage(whole.select(part).with_format("arrow")[:])
    datasets.Dataset(datasets.table.InMemoryTable(table)).to_parquet(path, batch_size=7)
"""

# Prints what the loader makes of a folder with metadata.csv: label, size and pixels of each image.
_LOAD_FOLDER = """
import json, sys
import datasets
loaded = datasets.load_dataset("imagefolder", data_dir=sys.argv[1], split="train")
for row in loaded:
    print(json.dumps([row["label"], row["size"], row["image"].convert("RGB").tobytes().hex()]))
"""


@pytest.fixture
def with_datasets(tmp_path):
    """Runs a script that imports Hugging Face's `datasets`."""

    def run(script, folder):
        environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
        environment.pop("PYTHONPATH", None)
        ran = subprocess.run(
            [sys.executable, "-c", script, folder],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        if "No module named 'datasets'" in ran.stderr:
            pytest.skip("datasets is not installed")
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return run


def test_parquet_files_of_datasets_hold_the_images_of_the_folder(folder, tmp_path, with_datasets):
    with_datasets(_WRITE_PARQUET, folder)
    assert pq.ParquetFile(tmp_path / "hub/data/train-00000-of-00001.parquet").num_row_groups > 1
    ours, theirs = Manifest(tmp_path / "hub"), ImageFolder(folder)
    found, expected = ours.scan(), theirs.scan()
    assert found.class_names == ("ant", "cat", "dog")
    assert found.split_names == ("test", "train")
    assert keys_of(found) == [
        f"{'train' if number < 20 else 'test'}/{path.name}"
        for number, path in sorted(
            enumerate(sorted(folder.rglob("*.png"))), key=lambda item: item[0] < 20
        )
    ]
    assert found.columns[0].spec.name == "size"
    assert found.columns[0].values.tolist() == [
        number / 4 for number in (*range(20, 30), *range(20))
    ]

    def classes_by_bytes(source, references):
        data = read_all(source, range(COUNT))
        return {own: references.class_names[references.labels[row]] for row, own in enumerate(data)}

    assert classes_by_bytes(ours, found) == classes_by_bytes(theirs, expected)
    tags = Manifest(tmp_path / "hub", label="tags").scan()
    assert tags.class_names == ("small", "large")
    assert tags.labels.offsets[1:4].tolist() == [2, 2, 3]
    in_memory = Manifest(pq.read_table(tmp_path / "hub/data/test-00000-of-00001.parquet"))
    assert in_memory.scan().class_names == ("ant", "cat", "dog")


def test_imagefolder_of_datasets_reads_the_same_rows(folder, with_datasets):
    names = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.png"))]
    table = pd.DataFrame({"file_name": names, "label": [name.split("/")[0] for name in names]})
    table.assign(size=np.arange(COUNT) / 4).to_csv(folder / "metadata.csv", index=False)
    expected = sorted(map(json.loads, with_datasets(_LOAD_FOLDER, folder).splitlines()))
    source = Manifest(folder)
    found = source.scan()
    sizes = found.columns[0].values.tolist()
    ours = [
        [found.class_names[found.labels[row]], sizes[row], pixels_of(data).tobytes().hex()]
        for row, data in enumerate(read_all(source, range(COUNT)))
    ]
    assert sorted(ours) == expected
    assert len(ours) == COUNT


def pixels_of(data):
    return np.asarray(PIL.Image.open(io.BytesIO(data)).convert("RGB"))


# The whole way


def test_a_build_from_parquet_holds_the_pixels_of_the_build_from_the_folder(folder, tmp_path):
    names = [f"{label}/{number}.png" for number, label in enumerate(LABELS)]
    files = [(folder / name).read_bytes() for name in names]
    path = write(tmp_path / "t.parquet", structs(files, names))
    built = []
    for place, source in (("table", Manifest(path)), ("folder", ImageFolder(folder))):
        tfrds.build("pets", source, data_dir=tmp_path / place, num_workers=2, num_shards=3)
        found = images.files_below(tmp_path / place / "pets" / "1.0.0")
        built.append({name: data for name, data in found.items() if "tfrecord" in name})
    assert built[0] == built[1]
    assert len(built[0]) == 3
