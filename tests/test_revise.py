"""New versions out of old ones: what is kept, what is new, and what is refused."""

import hashlib
import itertools
import json
import os
import pathlib
import subprocess
import sys

import images
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import tfrds
from tfrds import cli
from tfrds.errors import ConfigError, DatasetError, EncodeError, SourceError

ROOT = pathlib.Path(__file__).resolve().parents[1]
OLD = [f"{name}/{number}.png" for name in ("ant", "bee") for number in range(12)]
NEW = [f"{name}/{number}.png" for name in ("bee", "cow") for number in range(100, 106)]


def record_of(builder):
    return json.loads((pathlib.Path(builder.data_dir) / "tfrds.json").read_bytes())


def examples(builder):
    """Returns {key: (split, class name, stored bytes)}, read without tfrds."""
    found = {}
    directory = pathlib.Path(builder.data_dir)
    names = (directory / "label.labels.txt").read_text(encoding="utf-8").splitlines()
    for split in record_of(builder)["splits"]:
        blob = np.load(directory / f"{builder.name}-{split}.keys.npy").tobytes()
        offsets = np.load(directory / f"{builder.name}-{split}.key_offsets.npy").tolist()
        keys = [blob[start:end].decode() for start, end in itertools.pairwise(offsets)]
        shards = sorted(directory.glob(f"{builder.name}-{split}.tfrecord-*"))
        records = [data for shard in shards for _, data in images.frames(shard)]
        for key, data in zip(keys, records, strict=True):
            feature = tf.train.Example.FromString(data).features.feature
            name = names[feature["label"].int64_list.value[0]]
            found[key] = (split, name, feature["image"].bytes_list.value[0])
    return found


def inodes(builder):
    return {path.stat().st_ino for path in pathlib.Path(builder.data_dir).glob("*.tfrecord-*")}


@pytest.fixture
def pets(tmp_path, data_dir):
    source = images.put_images(tmp_path / "old", OLD)
    return tfrds.build("pets", source, splits={"train": 0.75, "test": 0.25}, num_shards=2)


@pytest.fixture
def more(tmp_path):
    """Images with pixels of their own, one class known and one new."""
    for seed, name in enumerate(NEW, start=500):
        images.put(tmp_path / "more" / name, images.encoded(images.noise(seed, 4, 5)))
    return tmp_path / "more"


def test_appended_version_holds_old_and_new_examples(pets, more):
    before, files = examples(pets), images.files_below(pets.data_dir)
    new = tfrds.append("pets", more)
    assert (new.name, str(new.version)) == ("pets", "1.1.0")
    after = examples(new)
    assert {key: after[key] for key in before} == before
    added = {key: value[1:] for key, value in after.items() if key not in before}
    assert added == {name: (name.split("/")[0], (more / name).read_bytes()) for name in NEW}
    assert new.info.features["label"].names == ["ant", "bee", "cow"]
    # Three quarters of six are 4.5: of equal remainders it is always one split that gets more.
    counts = {name: split.num_examples for name, split in new.info.splits.items()}
    assert counts == {"train": 18 + 2 * 5, "test": 6 + 2 * 1}
    assert images.files_below(pets.data_dir) == files
    assert tfrds.verify("pets:1.1.0").ok
    assert tfrds.verify("pets:1.0.0").ok


def test_old_shards_are_links_and_new_ones_come_behind_them(pets, more):
    new = tfrds.append("pets", more)
    assert inodes(pets) <= inodes(new)
    for split, content in record_of(new)["splits"].items():
        generations = [shard["generation"] for shard in content["shards"]]
        assert generations == [0, 0, 1], split
        sums = [shard["sha256"] for shard in content["shards"][:2]]
        assert sums == [shard["sha256"] for shard in record_of(pets)["splits"][split]["shards"]]


def test_appended_version_names_its_parent(pets, more):
    directory = pathlib.Path(pets.data_dir)
    digest = hashlib.sha256((directory / "tfrds.json").read_bytes()).hexdigest()
    assert record_of(tfrds.append("pets", more))["parent"] == digest


def test_appended_versions_are_read_by_tfds_and_tfrds(pets, more):
    tfrds.append("pets", more)
    dataset = tfrds.load("pets", split="train+test", batch_size=100)
    (batch,) = list(dataset)
    assert batch["label"].shape == (36, 3)
    by_tfds = tfds.load("pets:1.1.0", split="train+test")
    assert sorted(x["image"].numpy().tobytes() for x in by_tfds) == sorted(
        image.tobytes() for image in batch["image"].numpy()
    )
    assert len(list(tfds.load("pets:1.0.0", split="train+test"))) == 24


def test_bytes_of_an_addition_do_not_depend_on_workers_or_a_kill(pets, more, tmp_path):
    one = tfrds.append("pets", more, num_workers=1)
    files = images.files_below(one.data_dir)
    subprocess.run(["rm", "-r", str(one.data_dir)], check=True)
    two = tfrds.append("pets", more, num_workers=2)
    assert images.files_below(two.data_dir) == files


def test_addition_runs_as_a_build_is_told_to(pets, more, tmp_path):
    with pytest.raises(ConfigError, match=r"^num_workers: .*got 0"):
        tfrds.append("pets", more, num_workers=0)
    with pytest.raises(
        ConfigError, match=r"^executor: expected a dask\.distributed\.Client.*got 3"
    ):
        tfrds.append("pets", more, executor=3)
    images.put(more / "cow" / "cut.png", (more / NEW[0]).read_bytes()[:-15])
    with pytest.raises(EncodeError, match=r"cow/cut\.png"):
        tfrds.append("pets", more, quarantine=tmp_path / "bad")
    copied = (tmp_path / "bad" / "cow" / "cut.png").read_bytes()
    assert copied == (more / "cow" / "cut.png").read_bytes()


def test_killed_addition_goes_on_and_gives_the_same(pets, more):
    whole = images.files_below(tfrds.append("pets", more).data_dir)
    subprocess.run(["rm", "-r", str(pathlib.Path(pets.data_dir).parent / "1.1.0")], check=True)
    code = (
        "import os, sys, tfrds\nfrom tfrds.write import dataset\n"
        "dataset.assemble = lambda *_: os._exit(9)\n"
        "tfrds.append('pets', sys.argv[1])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = subprocess.run([sys.executable, "-c", code, more], env=environment, check=False)
    assert killed.returncode == 9
    folder = pathlib.Path(pets.data_dir).parent
    assert not (folder / "1.1.0").exists()
    assert images.files_below(tfrds.append("pets", more).data_dir) == whole
    assert not (folder / ".tfrds-build-1.1.0").exists()


def test_second_addition_gets_the_next_generation(pets, more, tmp_path):
    tfrds.append("pets", more)
    images.put(tmp_path / "last" / "dog" / "1.png", images.encoded(images.noise(900, 4, 5)))
    images.put(tmp_path / "last" / "ant" / "99.png", images.encoded(images.noise(901, 4, 5)))
    last = tfrds.append("pets", tmp_path / "last", splits={"train": 1.0})
    assert str(last.version) == "1.2.0"
    shards = record_of(last)["splits"]["train"]["shards"]
    assert [shard["generation"] for shard in shards] == [0, 0, 1, 2]
    assert last.info.features["label"].names == ["ant", "bee", "cow", "dog"]
    assert examples(last)["dog/1.png"][:2] == ("train", "dog")


def test_equal_keys_are_refused_and_a_prefix_helps(pets, tmp_path):
    source = images.put_images(tmp_path / "again", ["ant/3.png", "ant/77.png", "bee/4.png"])
    with pytest.raises(
        SourceError,
        match=r"^2 images have keys that the dataset has already: ant/3\.png, bee/4\.png\. Pass a "
        r'key_prefix such as "2/", or leave them out\.$',
    ):
        tfrds.append("pets", source, splits={"train": 1.0})
    new = tfrds.append("pets", source, splits={"train": 1.0}, key_prefix="2024/")
    assert examples(new)["2024/ant/3.png"][:2] == ("train", "ant")


def test_duplicates_of_old_examples_are_reported(pets, tmp_path, caplog):
    old = tmp_path / "old"
    test_key = next(key for key, value in examples(pets).items() if value[0] == "test")
    images.put(tmp_path / "copy" / "bee" / "copy.png", (old / test_key).read_bytes())
    new = tfrds.append("pets", tmp_path / "copy", splits={"train": 1.0})
    assert record_of(new)["totals"]["leaks"] == 1
    assert f"in two splits (1): {test_key} (test, " in caplog.text
    assert "= bee/copy.png (train, 'bee')" in caplog.text


def test_dropped_duplicates_are_the_new_ones(pets, more, tmp_path):
    old = tmp_path / "old"
    # Of a build the copy in train would go: here the old example stays, wherever it is.
    train_key = next(key for key, value in examples(pets).items() if value[0] == "train")
    images.put(more / "bee" / "copy.png", (old / train_key).read_bytes())
    new = tfrds.append("pets", more, splits={"test": 1.0}, on_duplicate="drop")
    after = examples(new)
    assert train_key in after
    assert "bee/copy.png" not in after
    assert len(after) == 24 + len(NEW)
    skipped = (pathlib.Path(new.data_dir) / "skipped.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in skipped] == [
        {
            "key": "bee/copy.png",
            "message": f"duplicate of {train_key}",
            "reason": "duplicate",
        }
    ]
    with pytest.raises(SourceError, match=r"^1 images hold the same bytes as another one: .*copy"):
        tfrds.append(
            "pets:1.0.0", more, version="3.0.0", splits={"test": 1.0}, on_duplicate="raise"
        )


def test_hash_splits_of_an_addition_are_those_of_a_whole_build(more, tmp_path):
    options = {"splits": {"train": 0.6, "test": 0.4}, "split_by": "hash"}
    tfrds.build("pets", images.put_images(tmp_path / "old", OLD), **options)
    appended = examples(tfrds.append("pets", more))
    for name in NEW:
        images.put(tmp_path / "old" / name, (more / name).read_bytes())
    whole = examples(tfrds.build("all", tmp_path / "old", **options))
    assert {key: value[0] for key, value in appended.items()} == {
        key: value[0] for key, value in whole.items()
    }


def test_splits_of_the_old_source_must_be_named(tmp_path, more):
    for split in ("train", "test"):
        images.put_images(tmp_path / "s" / split, ["ant/1.png", "bee/2.png"])
    tfrds.build("pets", tmp_path / "s")
    with pytest.raises(
        ConfigError,
        match=r"^splits: the dataset has \['test', 'train'\], and which of them the new",
    ):
        tfrds.append("pets", more)
    new = tfrds.append("pets", {"train": more})
    assert {name: split.num_examples for name, split in new.info.splits.items()} == {
        "test": 2,
        "train": 2 + len(NEW),
    }


def test_only_split_gets_the_new_images(tmp_path, more):
    tfrds.build("pets", images.put_images(tmp_path / "old", OLD))
    assert tfrds.append("pets", more).info.splits["train"].num_examples == len(OLD) + len(NEW)


def test_arrays_keep_their_shape_and_numbers():
    pixels = np.arange(6 * 2 * 3 * 1, dtype=np.uint8).reshape(6, 2, 3, 1)
    tfrds.build("digits", tfrds.sources.Arrays(pixels, [0, 1, 2, 0, 1, 2]))
    more = tfrds.sources.Arrays(pixels[:2] + 100, [1, 3])
    new = tfrds.append("digits", more, key_prefix="more-")
    assert new.info.features["label"].names == ["0", "1", "2", "3"]
    assert examples(new)["more-1"] == ("train", "3", (pixels[1] + 100).tobytes())
    other = tfrds.sources.Arrays(np.zeros((1, 4, 4, 1), np.uint8), [0])
    with pytest.raises(EncodeError, match=r"expected \(2, 3\), got \(4, 4\)"):
        tfrds.append("digits", other, key_prefix="other-")


def test_images_are_stored_as_the_old_ones(tmp_path, more):
    source = images.put_images(tmp_path / "old", OLD)
    tfrds.build("pets", source, image_size=(3, 2), resize="crop", channels=1)
    new = tfrds.append("pets", more)
    assert new.info.features["image"].shape == (3, 2, 1)
    assert len(examples(new)["cow/100.png"][2]) == 6


def test_bad_images_are_skipped_as_in_a_build(pets, more):
    images.put(more / "cow" / "cut.png", (more / NEW[0]).read_bytes()[:-15])
    with pytest.raises(EncodeError, match=r"cow/cut\.png: cut off or damaged"):
        tfrds.append("pets", more)
    new = tfrds.append("pets", more, on_error="skip", max_bad=0.5)
    assert len(examples(new)) == len(OLD) + len(NEW)
    assert record_of(new)["totals"]["skipped"] == 1


def test_function_for_groups_must_be_given_again(tmp_path, more):
    source = images.put_images(tmp_path / "old", OLD)
    options = {"splits": {"train": 0.5, "test": 0.5}, "split_by": "hash"}
    tfrds.build("pets", source, group=lambda key: key[-5], **options)
    with pytest.raises(ConfigError, match=r"^group: the dataset was built with a function"):
        tfrds.append("pets", more)
    tfrds.append("pets", more, group=lambda key: key[-5])


def test_group_of_a_class_split_is_not_torn_apart(tmp_path):
    source = images.put_images(
        tmp_path / "old", [f"{c}/p{i}_1.png" for c in "ab" for i in range(8)]
    )
    pattern = r"p\d+"
    tfrds.build("pets", source, splits={"train": 0.5, "test": 0.5}, group=pattern)
    # Groups of other sizes are dealt out in another order.
    names = [f"{c}/p{i}_{copy + 2}.png" for c in "ab" for i in range(8) for copy in range(i)]
    for number, name in enumerate(names):
        images.put(tmp_path / "new" / name, images.encoded(images.noise(700 + number, 4, 5)))
    with pytest.raises(SourceError, match=r"^splits: the group 'p\d' lies in 't"):
        tfrds.append("pets", tmp_path / "new")


def test_edited_version_is_without_what_was_removed(pets):
    before = examples(pets)
    new = tfrds.edit("pets", remove=["ant/3.png", "bee/5.png"])
    after = examples(new)
    assert str(new.version) == "1.1.0"
    assert after == {k: v for k, v in before.items() if k not in ("ant/3.png", "bee/5.png")}
    assert tfrds.verify("pets:1.1.0").ok
    assert examples(pets) == before


def test_relabelled_examples_keep_their_bytes_and_place(pets):
    before = examples(pets)
    new = tfrds.edit("pets", relabel={"ant/3.png": "bee", "bee/4.png": "wasp"})
    expected = dict(before)
    for key, name in (("ant/3.png", "bee"), ("bee/4.png", "wasp")):
        expected[key] = (before[key][0], name, before[key][2])
    assert examples(new) == expected
    assert list(examples(new)) == list(before)
    assert new.info.features["label"].names == ["ant", "bee", "wasp"]
    assert tfrds.verify("pets:1.1.0").ok


def test_only_shards_concerned_are_written_again(pets):
    key, (split, *_) = next(iter(examples(pets).items()))
    new = tfrds.edit("pets", remove=[key])
    assert len(inodes(pets) - inodes(new)) == 1
    others = [name for name in record_of(pets)["splits"] if name != split]
    for name in others:
        assert record_of(new)["splits"][name] == record_of(pets)["splits"][name]


def test_shard_that_loses_all_records_is_left_out(pets):
    before = examples(pets)
    in_test = [key for key, value in before.items() if value[0] == "test"]
    first = in_test[: record_of(pets)["splits"]["test"]["shards"][0]["records"]]
    new = tfrds.edit("pets", remove=first)
    assert len(record_of(new)["splits"]["test"]["shards"]) == 1
    assert set(examples(new)) == set(before) - set(first)
    assert sum(1 for _ in tfds.load("pets:1.1.0", split="test")) == len(in_test) - len(first)
    with pytest.raises(SourceError, match=r"^split 'test': expected at least one image"):
        tfrds.edit("pets:1.0.0", remove=in_test, version="5.0.0")


def test_edits_that_cannot_be_done_are_refused(pets):
    with pytest.raises(
        SourceError,
        match=r"^2 keys are not in pets 1\.0\.0: ant/33\.png, nobody\. "
        r"Did you mean 'ant/3\.png'\?$",
    ):
        tfrds.edit("pets", remove=["ant/33.png", "nobody"])
    with pytest.raises(
        ConfigError, match=r"^edit: expected keys to remove or to relabel, got none"
    ):
        tfrds.edit("pets")
    with pytest.raises(ConfigError, match=r"^edit: 'ant/3\.png' is to be removed and relabelled\."):
        tfrds.edit("pets", remove=["ant/3.png"], relabel={"ant/3.png": "bee"})
    with pytest.raises(SourceError, match=r"^relabel: a class's name must not be empty"):
        tfrds.edit("pets", relabel={"ant/3.png": " "})
    with pytest.raises(
        DatasetError, match=r"1\.0\.0: this version exists\. Choose another version"
    ):
        tfrds.edit("pets", remove=["ant/3.png"], version="1.0.0")
    with pytest.raises(DatasetError, match=r"^pets:9\.0\.0: no such dataset"):
        tfrds.edit("pets:9.0.0", remove=["ant/3.png"])


def test_damaged_base_is_refused(pets, more):
    shard = next(pathlib.Path(pets.data_dir).glob("*-test.tfrecord-00000*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    size = shard.stat().st_size
    with pytest.raises(
        DatasetError, match=rf"tfrecord-00000-of-00002: expected {size + 1:,} bytes, found {size:,}"
    ):
        tfrds.append("pets", more)
    shard.unlink()
    with pytest.raises(DatasetError, match=r"found no such file"):
        tfrds.edit("pets", remove=["ant/3.png"])


def test_record_with_a_wrong_option_is_refused(pets, more):
    path = pathlib.Path(pets.data_dir) / "tfrds.json"
    path.write_text(path.read_text().replace('"jpeg_quality":95', '"jpeg_quality":950'))
    with pytest.raises(DatasetError, match=r"an option that cannot be used: jpeg_quality: .*950"):
        tfrds.append("pets", more)


def test_command_line_appends_and_edits(pets, more, tmp_path, capsys):
    assert cli.main(["append", "pets", str(more), "--num-workers", "1"]) == 0
    assert "pets 1.1.0" in capsys.readouterr().out
    removed = images.put(tmp_path / "removed.txt", "ant/3.png\ncow/101.png\n")
    labels = images.put(tmp_path / "labels.csv", 'ant/4.png,bee\n"cow/102.png",ant\n')
    arguments = ["edit", "pets", "--remove", str(removed), "--relabel", str(labels)]
    assert cli.main(arguments) == 0
    assert "pets 1.2.0" in capsys.readouterr().out
    after = examples(tfrds.builder("pets:1.2.0"))
    assert len(after) == len(OLD) + len(NEW) - 2
    assert (after["ant/4.png"][1], after["cow/102.png"][1]) == ("bee", "ant")
    bad = images.put(tmp_path / "bad.csv", "ant/4.png,bee\nant/4.png,ant\n")
    with pytest.raises(SystemExit) as caught:
        cli.main(["edit", "pets", "--relabel", str(bad)])
    assert caught.value.code == 2
    assert "line 2: expected key,class with each key once" in capsys.readouterr().err
