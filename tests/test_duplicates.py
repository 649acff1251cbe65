"""Records that hold the same bytes, compared with brute force over the records themselves."""

import collections
import json
import pathlib
import re

import images
import numpy as np
import pytest
import tensorflow_datasets as tfds
from stored import assert_is_whole, examples_in, record_of, skipped_in

import tfrds
from tfrds.disk.index import ROW
from tfrds.errors import SourceError
from tfrds.tools.duplicates import dataset_duplicates
from tfrds.write import dataset
from tfrds.write.duplicates import find_duplicates
from tfrds.write.executors import ThisProcess

CLASSES = ("ant", "bee", "cat")
SPLITS = {"train": 0.5, "test": 0.25, "validation": 0.25}


def rows_of(contents, labels=None):
    rows = np.zeros(len(contents), ROW)
    rows["content"] = np.array([b"%16d" % content for content in contents], "V16")
    rows["label"] = 0 if labels is None else labels
    return rows


def groups_of(found):
    """Returns {number of the group: records}, in their order."""
    groups = collections.defaultdict(list)
    for record, group in zip(found.records.tolist(), found.groups.tolist(), strict=True):
        groups[group].append(record)
    return groups


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("is_appended", [False, True])
def test_groups_are_those_of_brute_force(seed, is_appended):
    rng = np.random.default_rng(seed)
    sizes = {"test": 40, "train": 150, "validation": 30}
    contents = {split: rng.integers(0, (30, 400)[seed % 2], n) for split, n in sizes.items()}
    labels = {split: rng.integers(0, 3, n) for split, n in sizes.items()}
    total = sum(sizes.values())
    is_new = rng.integers(0, 2, total).astype(bool) if is_appended else None
    found = find_duplicates(
        {split: [rows_of(contents[split], labels[split])] for split in sizes}, is_new
    )

    by_content = collections.defaultdict(list)
    for split in sizes:
        for content, label in zip(contents[split], labels[split], strict=True):
            number = sum(map(len, by_content.values()))
            by_content[int(content)].append((number, split, int(label)))
    expected = [group for group in by_content.values() if len(group) > 1]

    groups = groups_of(found)
    assert sorted(map(sorted, groups.values())) == sorted(
        [number for number, *_ in group] for group in expected
    )
    assert found.num_extra == len(found.extra) == sum(len(group) - 1 for group in expected)
    conflicts = [group for group in expected if len({label for *_, label in group}) > 1]
    leaks = [group for group in expected if len({split for _, split, _ in group}) > 1]
    assert found.counts() == {
        "duplicate": found.num_extra,
        "label_conflicts": len(conflicts),
        "leaks": len(leaks),
    }
    stays = {}
    for group in expected:
        # Old before new, outside of train before train, then the first.
        first = min(
            group,
            key=lambda one: (
                bool(is_new is not None and is_new[one[0]]),
                one[1] == "train",
                one[0],
            ),
        )
        stays.update({number: first[0] for number, *_ in group})
    assert dict(zip(found.records.tolist(), found.firsts.tolist(), strict=True)) == stays


@pytest.mark.parametrize("count", [1, 5])
def test_without_duplicates_there_are_no_groups(count):
    found = find_duplicates({"train": [rows_of(range(1, count + 1))]})
    assert (len(found.records), found.num_extra, len(found.extra)) == (0, 0, 0)
    assert found.counts() == {"duplicate": 0, "label_conflicts": 0, "leaks": 0}
    assert found.listed(str) == ""


def test_hashes_that_were_not_computed_say_nothing():
    rows = rows_of([1, 1, 2, 3])
    rows["content"][2:] = np.zeros(2, "V16")
    assert find_duplicates({"train": [rows]}).records.tolist() == [0, 1]


def test_lists_are_cut():
    rows = rows_of([*[1] * 8, *[2] * 5, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7])
    text = find_duplicates({"train": [rows]}).listed(str)
    assert len(re.findall(";", text)) == 5
    assert text.endswith("; ...")
    assert "0 = 1 = 2 = 3 = 4 = ... (8 in all); " in text
    assert "8 = 9 = 10 = 11 = 12;" in text


# Builds.


@pytest.fixture
def folder(tmp_path):
    """60 PNGs of 25 different contents, in three classes."""
    rng = np.random.default_rng(3)
    pixels = [images.encoded(images.noise(seed, 4, 5)) for seed in range(25)]
    for number, content in enumerate([*range(25), *rng.integers(0, 25, 35)]):
        name = f"{CLASSES[rng.integers(0, 3)]}/{number:02d}.png"
        images.put(tmp_path / "source" / name, pixels[content])
    return tmp_path / "source"


def build(folder, root, name="pets", **options):
    # In this process, unless a test is about workers: starting one takes longer than the rest.
    here = {} if "num_workers" in options else {"executor": ThisProcess()}
    given = {"splits": SPLITS, "num_shards": 3, **here, **options}
    return pathlib.Path(tfrds.build(name, folder, data_dir=root, **given).data_dir)


def brute_force(directory):
    """Returns, by the bytes of the images that are stored more than once, [(split, key, label)]."""
    found = collections.defaultdict(list)
    for split, examples in examples_in(directory).items():
        for key, (image, label) in examples.items():
            found[image].append((split, key, CLASSES[label]))
    return {image: copies for image, copies in found.items() if len(copies) > 1}


def expected_totals(copies):
    return {
        "duplicate": sum(len(group) - 1 for group in copies.values()),
        "label_conflicts": sum(
            len({label for *_, label in group}) > 1 for group in copies.values()
        ),
        "leaks": sum(len({split for split, *_ in group}) > 1 for group in copies.values()),
    }


def totals_of(directory):
    totals = record_of(directory)["totals"]
    return {name: totals[name] for name in ("duplicate", "label_conflicts", "leaks")}


@pytest.mark.parametrize("encoding", ["original", "raw", "jpeg"])
def test_copies_are_counted_and_kept(tmp_path, folder, encoding):
    directory = build(folder, tmp_path, encoding=encoding)
    copies = brute_force(directory)
    assert totals_of(directory) == expected_totals(copies)
    assert expected_totals(copies)["duplicate"] == 35
    assert sum(len(part) for part in examples_in(directory).values()) == 60
    assert record_of(directory)["totals"]["skipped"] == 0
    assert skipped_in(directory) == []
    # All groups, by the tool that reads index and keys only.
    result = dataset_duplicates(directory)
    assert [[(one.split, one.key, one.class_name) for one in group] for group in result.groups] == (
        sorted(sorted(group) for group in copies.values())
    )
    assert expected_totals(copies) == {
        "duplicate": result.num_extra,
        "label_conflicts": result.num_label_conflicts,
        "leaks": result.num_leaks,
    }


@pytest.mark.parametrize("encoding", ["original", "raw", "jpeg"])
def test_drop_keeps_one_of_each_outside_of_train(tmp_path, folder, encoding):
    before = build(folder, tmp_path / "kept", "pets_kept", encoding=encoding)
    copies, kept = brute_force(before), examples_in(before)
    directory = build(folder, tmp_path / "dropped", encoding=encoding, on_duplicate="drop")
    assert_is_whole(directory)
    assert brute_force(directory) == {}
    stays = {}
    for image, group in copies.items():
        # In record order, by split: the first outside of train, else the first.
        outside = [one for one in group if one[0] != "train"]
        stays[image] = (outside or group)[0][1]
    gone = {key: stays[image] for image, group in copies.items() for _, key, _ in group}
    gone = {key: first for key, first in gone.items() if key != first}
    expected = {
        split: {key: value for key, value in part.items() if key not in gone}
        for split, part in kept.items()
    }
    found = examples_in(directory)
    assert found == expected
    assert {split: list(part) for split, part in found.items()} == {
        split: list(part) for split, part in expected.items()
    }
    assert skipped_in(directory) == [
        (key, "duplicate", f"duplicate of {first}") for key, first in sorted(gone.items())
    ]
    assert totals_of(directory) == expected_totals(copies)
    assert record_of(directory)["totals"]["skipped"] == len(gone) == 35
    assert record_of(directory)["options"]["on_duplicate"] == "drop"
    assert tfrds.verify("pets", data_dir=tmp_path / "dropped").ok
    for load in (tfds.load, tfrds.load):
        loaded = load("pets", data_dir=tmp_path / "dropped")
        assert {split: len(list(part)) for split, part in loaded.items()} == {
            split: len(part) for split, part in expected.items()
        }


def test_dropping_does_not_depend_on_the_number_of_workers(tmp_path, folder):
    found = [
        images.files_below(
            build(folder, tmp_path / str(count), num_workers=count, on_duplicate="drop")
        )
        for count in (1, 2, 5)
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("step", ["rewrite", "assemble", "metadata"])
def test_dropping_goes_on_after_a_kill(tmp_path, folder, monkeypatch, step):
    from tfrds import prepare
    from tfrds.write import drop

    whole = images.files_below(build(folder, tmp_path / "whole", on_duplicate="drop"))
    module, name = {
        "rewrite": (drop, "rewrite_shard"),
        "assemble": (dataset, "assemble"),
        "metadata": (prepare, "_write_metadata"),
    }[step]
    function, calls = getattr(module, name), []

    def interrupted(*arguments, **named):
        calls.append(name)
        if len(calls) == (3 if step == "rewrite" else 1):
            raise KeyboardInterrupt
        return function(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            build(folder, tmp_path / "again", on_duplicate="drop")
    assert not (tmp_path / "again" / "pets" / "1.0.0").exists()
    assert images.files_below(build(folder, tmp_path / "again", on_duplicate="drop")) == whole


def test_dropping_after_a_build_that_refused_duplicates_is_the_same(tmp_path, folder):
    with pytest.raises(SourceError):
        build(folder, tmp_path / "a", on_duplicate="raise")
    assert images.files_below(build(folder, tmp_path / "a", on_duplicate="drop")) == (
        images.files_below(build(folder, tmp_path / "b", on_duplicate="drop"))
    )


def copies_in(tmp_path, *names):
    """Returns a folder with pictures of their own, and one picture under each of the names."""
    folder = images.put_images(
        tmp_path / "source",
        [
            f"{split}/{name}/{n}.png"
            for split in ("train", "test")
            for name in "ab"
            for n in range(5)
        ],
    )
    for name in names:
        images.put(folder / name, images.encoded(images.noise(99, 4, 5)))
    return folder


@pytest.mark.parametrize("policy", ["keep", "drop", "raise"])
@pytest.mark.parametrize(
    ("names", "reports"),
    [
        (("train/a/x.png", "train/a/y.png"), []),
        (("train/a/x.png", "train/b/y.png"), ["under two labels"]),
        (("test/a/x.png", "train/a/y.png"), ["in two splits"]),
        (("test/b/x.png", "train/a/y.png"), ["under two labels", "in two splits"]),
    ],
    ids=str,
)
def test_conflicts_of_labels_and_leaks_are_always_reported(
    tmp_path, caplog, names, reports, policy
):
    folder = copies_in(tmp_path, *names)
    error = ""
    try:
        build(folder, tmp_path / "data", splits=None, on_duplicate=policy)
    except SourceError as raised:
        error = str(raised)
    shown = [f"{name} ({name.split('/')[0]}, {name.split('/')[1]!r})" for name in names]
    # Of one split the order is that of the records; of two the one that would stay is first.
    texts = [" = ".join(shown), " = ".join(reversed(shown))]
    texts = texts[:1] if "in two splits" in reports else texts
    assert [message for message in caplog.messages if "more than once" in message] in [
        [f"Images that are there more than once, {report} (1): {text}" for report in reports]
        for text in texts
    ]
    refusals = [
        f"1 images hold the same bytes as another one: {text}. Remove them, or pass "
        'on_duplicate="drop" or "keep".'
        for text in texts
    ]
    assert error in (refusals if policy == "raise" else [""])
    assert (tmp_path / "data" / "pets" / "1.0.0").exists() is (policy != "raise")


def test_split_of_nothing_but_copies_is_not_dropped_silently(tmp_path):
    folder = images.put_images(tmp_path / "source", ["test/a/1.png", "test/b/2.png"])
    for name in ("a/1.png", "b/2.png"):
        images.put(folder / "train" / name, (folder / "test" / name).read_bytes())
    with pytest.raises(
        SourceError, match=r"^split 'train': .* all of them are duplicates .*on_duplicate=\"keep\""
    ):
        build(folder, tmp_path / "data", splits=None, on_duplicate="drop")
    assert not (tmp_path / "data" / "pets" / "1.0.0").exists()


def test_same_bytes_count_after_encoding_only(tmp_path):
    pixels = images.noise(1, 8, 8)
    folder = images.put_images(tmp_path / "source", ["a/1.png", "b/2.png"])
    images.put(folder / "a" / "fast.png", images.encoded(pixels, compress_level=1))
    images.put(folder / "a" / "small.png", images.encoded(pixels, compress_level=9))
    options = {"splits": None, "num_shards": 1}
    assert totals_of(build(folder, tmp_path / "original", **options))["duplicate"] == 0
    raw = build(folder, tmp_path / "raw", encoding="raw", image_size=8, **options)
    assert totals_of(raw)["duplicate"] == 1


def test_dropped_and_skipped_inputs_share_one_list(tmp_path):
    folder = copies_in(tmp_path, "train/a/x.png", "test/a/y.png")
    images.put(folder / "train" / "a" / "bad.png", images.encoded(images.noise(0, 9, 9))[:-20])
    directory = build(
        folder, tmp_path, splits=None, on_duplicate="drop", on_error="skip", max_bad=0.5
    )
    assert_is_whole(directory)
    assert [line[:2] for line in skipped_in(directory)] == [
        ("train/a/bad.png", "cut off or damaged"),
        ("train/a/x.png", "duplicate"),
    ]
    assert record_of(directory)["totals"]["skipped"] == 2
    lines = (directory / "skipped.jsonl").read_text().splitlines()
    assert json.loads(lines[1])["message"] == "duplicate of test/a/y.png"
