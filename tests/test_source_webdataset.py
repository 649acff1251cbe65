"""WebDataset shards: members that share a key, written by the webdataset package or by hand."""

import gc
import io
import itertools
import json
import pathlib
import pickle
import re
import zipfile

import archives
import binary_labels
import images
import numpy as np
import PIL.Image
import pytest

import tfrds
from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources.archive import Archive
from tfrds.write.sources.base import LabelLists

PNG = images.encoded(images.noise(0, 2, 3))


def png(seed):
    return images.encoded(images.noise(seed, 4, 5))


def write_shards(folder, examples, size=3):
    """Writes shards of `size` examples by the package; returns their pattern."""
    webdataset = pytest.importorskip("webdataset")
    folder.mkdir(exist_ok=True)
    shards = [examples[start : start + size] for start in range(0, len(examples), size)]
    for number, shard in enumerate(shards):
        with webdataset.TarWriter(str(folder / f"shard-{number:06d}.tar")) as writer:
            for example in shard:
                writer.write(example)
    return folder / f"shard-{{000000..{len(shards) - 1:06d}}}.tar"


def shard(path, examples, packed=archives.tar_of):
    """Writes an archive of (key, {ending: bytes}) pairs by hand."""
    return packed(
        path, [(f"{key}.{e}", d) for key, members in examples for e, d in members.items()]
    )


def labels_by_key(references):
    """Returns the class name or names of each image, or its value, by key."""
    labels, names = references.labels, references.class_names
    if isinstance(labels, LabelLists):
        edges = labels.offsets.astype(int)
        found = [
            [names[number] for number in labels.numbers[start:end]]
            for start, end in itertools.pairwise(edges)
        ]
    elif references.label_kind == "value":
        found = labels.tolist()
    else:
        found = [names[number] for number in labels]
    return dict(zip([key.decode() for key in references.keys], found, strict=True))


def assert_refused(archive, message, **options):
    with pytest.raises(SourceError, match=message):
        Archive(archive, layout="webdataset", **options).scan()


# Shards of the package.


def test_class_numbers_of_the_package(tmp_path):
    numbers = [3, 0, 1, 1, 0, 3, 4]
    pattern = write_shards(
        tmp_path / "shards",
        [{"__key__": f"{n:05d}", "png": png(n), "cls": label} for n, label in enumerate(numbers)],
    )
    source = Archive(pattern)
    references = source.scan()
    assert [key.decode() for key in references.keys] == [f"{n:05d}" for n in range(7)]
    assert references.labels.tolist() == numbers
    assert references.labels.dtype == np.int32
    assert references.class_names == ("0", "1", "2", "3", "4")
    assert references.has_numbered_classes
    assert (references.label_kind, references.splits, references.shape) == ("single", None, None)
    first = tmp_path / "shards" / "shard-000000.tar"
    assert references.notes == (f"{first} and 2 more: read as WebDataset, classes from .cls.",)
    inputs = pickle.loads(pickle.dumps(source.inputs(np.array([6, 0]))))
    assert [inputs.read(0), inputs.read(1)] == [png(6), png(0)]
    assert inputs.name(0) == "shard-000002.tar/00006.png"
    assert references.sizes.tolist() == [len(png(n)) for n in range(7)]


def test_class_names_of_the_package(tmp_path):
    names = ["dog", "cat", "ant", "cat"]
    pattern = write_shards(
        tmp_path / "shards",
        [
            {"__key__": f"a/b/{n}", "jpg": jpeg(n), "txt": f"{name}\n"}
            for n, name in enumerate(names)
        ],
    )
    references = Archive(pattern, layout="webdataset").scan()
    assert labels_by_key(references) == {f"a/b/{n}": name for n, name in enumerate(names)}
    assert references.class_names == ("ant", "cat", "dog")
    assert not references.has_numbered_classes


def jpeg(seed):
    return images.encoded(images.noise(seed, 16, 16), "JPEG")


def test_images_that_the_package_has_encoded(tmp_path):
    pixels = [images.noise(n, 4, 5) for n in range(3)]
    pattern = write_shards(
        tmp_path / "shards",
        [{"__key__": f"{n}", "ppm": pixels[n], "json": {"label": n}} for n in range(3)],
    )
    source = Archive(pattern)
    assert labels_by_key(source.scan()) == {"0": "0", "1": "1", "2": "2"}
    read = PIL.Image.open(io.BytesIO(source.inputs(np.array([1])).read(0)))
    assert (np.asarray(read) == pixels[1]).all()


def test_lists_of_the_package_are_any_number_of_classes(tmp_path):
    lists = [["b", "a"], [], ["c"], ["a", "c", "a"]]
    pattern = write_shards(
        tmp_path / "shards",
        [{"__key__": f"{n}", "png": png(n), "json": {"cls": one}} for n, one in enumerate(lists)],
    )
    references = Archive(pattern).scan()
    assert references.label_kind == "multi"
    assert references.class_names == ("a", "b", "c")
    assert references.labels.numbers.tolist() == [0, 1, 2, 0, 2]
    assert references.labels.offsets.tolist() == [0, 2, 2, 3, 5]
    assert (references.labels.numbers.dtype, references.labels.offsets.dtype) == (
        np.int32,
        np.uint64,
    )
    assert "lists of classes from .json, field 'cls'" in references.notes[0]


# The package leaves its file open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_package_and_source_agree_on_keys_and_images(tmp_path):
    webdataset = pytest.importorskip("webdataset")
    names = ["a/0.x.png", "a/1.png", "b.c/2.PNG", "b.c/3.seg.png"]
    members = []
    for number, name in enumerate(names):
        stem = name.partition(".")[0] if name.startswith("a") else f"b.c/{number}"
        members += [(name, png(number)), (f"{stem}.cls", str(number).encode())]
    archive = archives.tar_of(tmp_path / "a.tar", members)
    examples = webdataset.WebDataset(str(archive), shardshuffle=False)
    expected = {
        example["__key__"]: (int(example["cls"]), next(example[e] for e in example if "png" in e))
        for example in examples
    }
    gc.collect()
    source = Archive(archive)
    references = source.scan()
    inputs = source.inputs(np.arange(4))
    assert {
        key.decode(): (int(references.labels[row]), inputs.read(row))
        for row, key in enumerate(references.keys)
    } == expected


def test_build_of_shards_has_the_bytes_of_a_build_of_the_folder(tmp_path):
    pattern = write_shards(
        tmp_path / "shards",
        [
            {"__key__": f"{name}/{n}", "png": png(n), "txt": name, "npy": np.zeros(3)}
            for n in range(20)
            for name in ("cat", "dog")
        ],
        size=7,
    )
    for number in range(20):
        for name in ("cat", "dog"):
            images.put(tmp_path / "folder" / name / str(number), png(number))
    options = {"splits": {"train": 0.8, "test": 0.2}, "num_workers": 2}
    built = [
        pathlib.Path(tfrds.build("pets", source, data_dir=tmp_path / kind, **options).data_dir)
        for kind, source in (
            ("folder", tmp_path / "folder"),
            ("archive", Archive(pattern, layout="webdataset")),
        )
    ]
    expected, found = map(images.files_below, built)
    for files in (expected, found):
        assert files.pop("tfrds.json")
    assert found == expected


def test_dict_by_split_takes_patterns(tmp_path):
    from tfrds.write.sources.by_split import BySplit

    sources = {}
    for name, numbers in (("train", [1, 0, 1]), ("test", [2])):
        examples = [
            (f"{n}", {"png": png(n), "cls": b"%d" % label}) for n, label in enumerate(numbers)
        ]
        shard(tmp_path / f"{name}-0.tar", examples)
        sources[name] = Archive(tmp_path / f"{name}-*.tar")
    references = BySplit(sources).scan()
    assert labels_by_key(references) == {
        "train/0": "1",
        "train/1": "0",
        "train/2": "1",
        "test/0": "2",
    }


# What is a label.


def test_number_comes_before_json_and_text(tmp_path):
    members = {"png": PNG, "txt": b"cat", "json": b'{"label": "dog"}', "cls": b"1\n"}
    archive = shard(tmp_path / "a.tar", [("0", members)])
    references = Archive(archive).scan()
    assert labels_by_key(references) == {"0": "1"}
    assert references.left_out == {".txt": 1, ".json": 1}
    assert labels_by_key(Archive(archive, label=".txt").scan()) == {"0": "cat"}
    assert labels_by_key(Archive(archive, label=".json").scan()) == {"0": "dog"}
    assert labels_by_key(Archive(archive, label="label").scan()) == {"0": "dog"}
    assert Archive(archive, label="label", label_kind="single").scan().notes == ()


def test_text_is_the_label_where_json_has_none(tmp_path):
    members = {"png": PNG, "json": b'{"width": 3}', "txt": b" cat \n"}
    archive = shard(tmp_path / "a.tar", [("0", members)])
    assert labels_by_key(Archive(archive).scan()) == {"0": "cat"}
    assert_refused(archive, r"its \.json has no field 'label', it has \['width'\]", label=".json")


def test_field_of_json_is_chosen_by_name(tmp_path):
    text = b'{"label": 3, "species": "cat", "tags": [2, 0], "age": 1.5}'
    archive = shard(tmp_path / "a.tar", [("0", {"png": PNG, "json": text})])
    assert labels_by_key(Archive(archive, label="species").scan()) == {"0": "cat"}
    assert labels_by_key(Archive(archive, label="tags").scan()) == {"0": ["0", "2"]}
    values = Archive(archive, label="age", label_kind="value").scan()
    assert (values.label_kind, values.labels.tolist(), values.class_names) == ("value", [1.5], ())
    assert values.labels.dtype == np.float32
    message = r"a\.tar, key '0': its \.json has no field 'specis', .* Did you mean 'species'\?"
    assert_refused(archive, message, label="specis")


def test_rows_of_0_and_1_are_no_lists_of_classes(tmp_path):
    rows = ([0, 1, 1], [0, 0, 0], [1, 0, 0])
    texts = [json.dumps({"label": row}).encode() for row in rows]
    examples = [(str(n), {"png": PNG, "json": text}) for n, text in enumerate(texts)]
    archive = shard(tmp_path / "a.tar", examples)
    assert_refused(
        archive,
        r"a\.tar: expected lists of class numbers in field 'label', got 3 values of 0 and 1 .*\. "
        r"Write the numbers of the classes that are 1, or pass label_kind=\"value\"",
    )
    values = Archive(archive, label_kind="value").scan()
    assert values.labels.tolist() == [list(map(float, row)) for row in rows]


def test_many_fields_are_listed_in_part(tmp_path):
    text = json.dumps({f"f{n}": 0 for n in range(30)}).encode()
    archive = shard(tmp_path / "a.tar", [("0", {"png": PNG, "json": text})])
    assert_refused(archive, r"it has \['f0', .*, 'f9', \.\.\. 30 in all\]\. Pass the label's field")


def test_numbers_are_values_by_asking(tmp_path):
    for ending, texts in (("cls", [b"3", b"-0.5\n"]), ("txt", [b" 3 ", b"-.5"])):
        examples = [(f"{n}", {"png": PNG, ending: text}) for n, text in enumerate(texts)]
        archive = shard(tmp_path / "a.tar", examples)
        source = Archive(archive, layout="webdataset", label_kind="value")
        assert labels_by_key(source.scan()) == {"0": 3.0, "1": -0.5}
    assert source.scan().notes == ()


def test_lists_of_numbers_are_vectors_by_asking(tmp_path):
    examples = [
        ("b", {"png": PNG, "json": b'{"label": [1, 2.5]}'}),
        ("a", {"png": PNG, "json": b'{"label": [3, 4]}'}),
    ]
    archive = shard(tmp_path / "a.tar", examples)
    references = Archive(archive).with_label_kind("value").scan()
    assert references.labels.tolist() == [[3.0, 4.0], [1.0, 2.5]]
    assert (references.labels.dtype, references.label_kind) == (np.float32, "value")


def test_single_classes_are_lists_by_asking(tmp_path):
    examples = [("0", {"png": PNG, "cls": b"2"}), ("1", {"png": PNG, "cls": b"0"})]
    archive = shard(tmp_path / "a.tar", examples)
    references = Archive(archive, label_kind="multi").scan()
    assert labels_by_key(references) == {"0": ["2"], "1": ["0"]}
    assert references.has_numbered_classes


@pytest.mark.parametrize(
    ("ending", "labels"), [("cls", [b"1", b"0", b"1"]), ("txt", [b"yes", b"no", b"yes"])]
)
def test_two_classes_are_read_as_0_and_1(ending, labels, tmp_path):
    examples = [(str(n), {"png": png(n), ending: label}) for n, label in enumerate(labels)]
    source = Archive(shard(tmp_path / "a.tar", examples), label_kind="binary")
    assert binary_labels.read_labels(source, tmp_path) == {"0": 1, "1": 0, "2": 1}


def test_images_alone_need_no_labels(tmp_path):
    examples = [("a/0", {"png": PNG, "cls": b"3"}), ("a/1", {"jpg": PNG})]
    archive = shard(tmp_path / "a.tar", examples)
    for source in (
        Archive(archive, layout="webdataset", label_kind="none"),
        Archive(archive).with_label_kind("none"),
    ):
        references = source.scan()
        assert list(references.keys) == [b"a/0", b"a/1"]
        assert (references.label_kind, references.labels) == ("none", None)
        assert (references.class_names, references.left_out) == ((), {".cls": 1})


def test_order_of_members_and_shards_does_not_matter(tmp_path):
    examples = [
        (f"{folder}/{n}", {"png": png(n), "json": json.dumps({"label": [name, "z"]}).encode()})
        for folder, n, name in (("b", 0, "y"), ("a", 1, "x"), ("a-b", 2, "y"), ("a", 0, "w"))
    ]
    shard(tmp_path / "1.tar", examples[:2])
    shard(tmp_path / "2.tar", examples[2:])
    reversed_ = [(key, dict(reversed(members.items()))) for key, members in examples[::-1]]
    shard(tmp_path / "3.zip", reversed_, archives.zip_of)
    one = Archive([tmp_path / "1.tar", tmp_path / "2.tar"], layout="webdataset").scan()
    other = Archive(tmp_path / "3.zip", layout="webdataset").scan()
    assert list(one.keys) == list(other.keys) == [b"a/0", b"a/1", b"a-b/2", b"b/0"]
    assert one.class_names == other.class_names == ("w", "x", "y", "z")
    assert one.labels.numbers.tolist() == other.labels.numbers.tolist() == [0, 3, 1, 3, 2, 3, 2, 3]
    assert one.sizes.tolist() == other.sizes.tolist()


@pytest.mark.parametrize("packing", archives.COMPRESSED_TARS)
def test_compressed_shards_are_read(tmp_path, packing):
    tar = shard(tmp_path / "a.tar", [("0", {"png": PNG, "cls": b"1"})]).read_bytes()
    (tmp_path / packing).write_bytes(archives.compressed(tar, packing))
    source = Archive(tmp_path / packing)
    assert labels_by_key(source.scan()) == {"0": "1"}
    assert source.inputs(np.array([0])).read(0) == PNG


def test_other_members_are_left_out_and_counted(tmp_path):
    members = [
        ("__meta__/x", b""),
        ("a/__index__", b"1"),
        (".hidden.png", PNG),
        ("README", b"text"),
        ("0.png", PNG),
        ("0.cls", b"1"),
        ("0.seg.npy", b"1"),
        ("0.caption.txt", b"1"),
        ("notes.md", b"1"),
        ("folder/", b""),
    ]
    archive = archives.zip_of(tmp_path / "a.zip", members)
    references = Archive(archive).scan()
    assert labels_by_key(references) == {"0": "1"}
    assert references.left_out == {
        "no ending": 2,
        "system file": 1,
        "hidden": 1,
        ".npy": 1,
        ".txt": 1,
        ".md": 1,
    }


# What an archive is, by its names.


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["0.png", "0.cls"], "0"),
        (["0.png", "0.txt"], "0"),
        (["0.json", "0.png"], "0"),
        (["a/0.png", "a/0.cls"], "a/0"),
        (["a/0.png", "b/1.cls"], "a/0.png"),
        (["a/0.png", "a/0.txt", "a/1.png", "a/2.png"], "a/0.png"),
        (["a/0.json", "a/0.png", "a/1.png", "b/2.png"], "a/0.png"),
        (["a/0.png", "labels.txt"], "a/0.png"),
        (["a/0.1.png", "a/0.2.gif"], "a/0.1.png"),
    ],
)
def test_names_tell_what_an_archive_is(tmp_path, names, expected):
    data = {"png": PNG, "gif": PNG, "cls": b"3", "txt": b"x", "json": b'{"label": 1}'}
    archive = archives.tar_of(tmp_path / "a.tar", [(n, data[n.rpartition(".")[2]]) for n in names])
    references = Archive(archive).scan()
    assert references.keys[0].decode() == expected
    what = "class/.../file" if expected.endswith("png") else "WebDataset"
    assert what in references.notes[0]


@pytest.mark.parametrize("ending", ["txt", "json"])
def test_labels_in_folders_or_beside_images_are_not_guessed(tmp_path, ending):
    names = [f"{name}/{n}.{e}" for name in "ab" for n in range(3) for e in ("png", ending)]
    data = {"png": PNG, "txt": b"x", "json": b'{"label": "x"}'}
    archive = archives.tar_of(tmp_path / "a.tar", [(n, data[n.rpartition(".")[2]]) for n in names])
    message = (
        rf"{archive}: images have a member \.{ending} beside them, as 'a/0' has, and lie in fol"
    )
    with pytest.raises(SourceError, match=message):
        Archive(archive).scan()
    assert Archive(archive, layout="class").scan().class_names == ("a", "b")
    assert Archive(archive, layout="webdataset").scan().class_names == ("x",)
    assert Archive(archive, label_kind="none").scan().keys[0] == b"a/0.png"


def test_first_names_decide(tmp_path):
    members = [(f"a/{n}.png", PNG) for n in range(1001)]
    archive = archives.zip_of(tmp_path / "a.zip", [*members, ("b/0.png", PNG), ("b/0.cls", b"1")])
    assert Archive(archive).scan().class_names == ("a", "b")


def test_class_level_is_not_for_shards(tmp_path):
    archive = shard(tmp_path / "a.tar", [("0", {"png": PNG, "cls": b"3"})])
    with pytest.raises(ConfigError, match=r"class_level: is for class trees.*got 'all'"):
        Archive(archive, class_level="all").scan()


# What is wrong.


def test_key_without_image_is_named(tmp_path):
    examples = [("0", {"png": PNG, "cls": b"1"}), ("a/1", {"cls": b"0"})]
    archive = shard(tmp_path / "a.tar", examples)
    message = rf"{archive}, key 'a/1': expected an image beside its \.cls, found none\. Members"
    assert_refused(archive, message)
    assert_refused(archive, message, label_kind="none")


def test_key_without_label_is_named(tmp_path):
    examples = [
        ("0", {"png": PNG, "cls": b"1"}),
        ("1", {"png": PNG, "txt": b"x"}),
        ("2", {"png": PNG}),
    ]
    archive = shard(tmp_path / "a.tar", examples)
    message = rf"{archive}, key '1': expected its label in a member \.cls beside .*, found \.txt\. "
    assert_refused(archive, message)
    archive = shard(tmp_path / "b.tar", [examples[2]])
    assert_refused(archive, r"b\.tar, key '2': expected its label in a member \.cls .*, found none")
    assert_refused(archive, r"expected its label in a member \.json .*, found none", label="x")


def test_two_images_or_labels_of_one_key_are_named(tmp_path):
    archive = shard(tmp_path / "a.tar", [("0", {"png": PNG, "cls": b"1", "seg.jpg": PNG})])
    message = rf"{archive}, key '0': expected one image, found '0\.png' and '0\.seg\.jpg'"
    assert_refused(archive, message)
    archives.tar_of(archive, [("0.png", PNG), ("0.cls", b"1"), ("0.CLS", b"1")])
    assert_refused(archive, r"key '0': has two members \.cls\. Leave one out")


def test_key_that_is_there_twice_is_named(tmp_path):
    first = shard(tmp_path / "1.tar", [("x/0", {"png": PNG, "cls": b"1"})])
    second = shard(tmp_path / "2.tar", [("x/1", {"png": PNG, "cls": b"1"})] * 1)
    both = [("x/0", {"png": PNG, "cls": b"1"}), ("1", {"png": PNG, "cls": b"1"})]
    third = shard(tmp_path / "3.tar", both)
    assert_refused([first, second, third], rf"{third}: key 'x/0' is in {first} too\. Rename it")
    apart = shard(tmp_path / "4.tar", [*both, both[0]])
    assert_refused(apart, rf"{apart}: key 'x/0' is in it twice")
    split = [("0", {"png": PNG}), ("1", {"png": PNG, "cls": b"1"}), ("0", {"cls": b"1"})]
    apart = shard(tmp_path / "5.tar", split)
    assert_refused(apart, r"key '0': expected its label .* Members of one key must stand together")


def test_images_that_are_none_are_named(tmp_path):
    examples = [(f"{n}", {"png": PNG if n else b"text", "cls": b"1"}) for n in range(2)]
    archive = shard(tmp_path / "a.tar", examples)
    assert_refused(
        archive, r"1 file is named like an image and holds none: 0\.png \(no image in it\)"
    )
    message = r"holds none: a\.tar/0\.png \(no image in it\)"
    assert_refused([archive, shard(tmp_path / "b.tar", [])], message)


def test_shards_without_images_are_named(tmp_path):
    archive = shard(tmp_path / "a.tar", [("0", {"npy": b"1"})])
    assert_refused(archive, r": no image found in it, left out: \{'\.npy': 1\}")


@pytest.mark.parametrize(
    ("ending", "data", "options", "message"),
    [
        ("cls", b"cat", {}, r"whole number of a class in its \.cls, got 'cat'\. Names of"),
        ("cls", b"1.5", {}, r"expected the whole number of a class in its \.cls, got '1\.5'"),
        ("cls", b"", {}, r"expected the whole number of a class in its \.cls, got ''"),
        ("cls", b"-1", {}, r"expected a class number from 0 to 9,999,999, got -1"),
        ("cls", b"10000000", {}, r"expected a class number from 0 to 9,999,999, got 10000000"),
        ("cls", b"9" * 5000, {}, r"got '9{99}\.\.\."),
        ("cls", b"\xff", {}, r"its \.cls cannot be read as text: .*0xff"),
        ("cls", b"x", {"label_kind": "value"}, r"expected a number in its \.cls, got 'x'"),
        ("cls", b"nan", {"label_kind": "value"}, r"expected a finite number, got nan"),
        ("txt", b"1e39", {"label_kind": "value"}, r"expected a finite number, got 1e\+39"),
        ("txt", b"", {}, r"a class's name must not be empty.*got ''"),
        ("txt", b"a\nb", {}, r"a class's name must not .*got 'a\\nb'"),
        ("json", b"{", {}, r"its \.json cannot be read: "),
        ("json", b"[" * 100_000, {}, r"its \.json cannot be read: "),
        ("json", b"[1]", {}, r"expected a JSON object with the label as a field .*, got \[1\]"),
        ("json", b'{"label": null}', {}, r"expected a class's name or whole number, got None"),
        ("json", b'{"label": true}', {}, r"expected a class's name or whole number, got True"),
        ("json", b'{"label": 2.0}', {}, r"expected a class, got 2\.0. Pass label_kind=\"value\""),
        ("json", b'{"label": 2.0}', {"label_kind": "single"}, r"whole number, got 2\.0\. Pass"),
        ("json", b'{"label": [2.0]}', {}, r"name or whole number, got 2\.0\. Pass label_kind"),
        (
            "json",
            b'{"label": [1]}',
            {"label_kind": "single"},
            r"expected one class, got \[1\]\. Pas",
        ),
        ("json", b'{"label": [1, "a"]}', {}, r"a class's number as in the other examples, got 'a'"),
        ("json", b'{"label": ["a", 1]}', {}, r"a class's name as in the other examples, got 1"),
        ("json", b'{"label": "\\ud800"}', {}, r"expected a class's name in Unicode, got '\\ud800'"),
        ("json", b'{"label": "a"}', {"label_kind": "value"}, r"expected a finite number, got 'a'"),
        ("json", b'{"label": [true]}', {"label_kind": "value"}, r"finite numbers, got \[True\]"),
        ("json", b'{"label": []}', {"label_kind": "value"}, r"expected one number, got \[\]"),
        ("json", b'{"label": NaN}', {"label_kind": "value"}, r"expected a finite number, got nan"),
        (
            "json",
            b'{"label": %s}' % (b"9" * 400),
            {"label_kind": "value"},
            r"expected a finite number, got 9{100}\.\.\.",
        ),
    ],
)
def test_label_that_cannot_be_used_is_named(tmp_path, ending, data, options, message):
    archive = shard(tmp_path / "a.tar", [("x", {"png": PNG, ending: data})])
    assert_refused(archive, rf"(?s){archive}, key 'x': .*{message}", **options)


@pytest.mark.parametrize(
    ("first", "second", "options", "message"),
    [
        (1, "a", {}, r"key '1': expected a class's number as in the other examples, got 'a'"),
        ("a", 1, {}, r"key '1': expected a class's name as in the other examples, got 1"),
        ("a", ["a"], {}, r"key '1': expected one class, got \['a'\]\. Pass label_kind=\"multi\""),
        (["a"], "a", {}, r"key '1': expected a list of classes as in the other examples, got 'a'"),
        (1.5, [1.5], {"label_kind": "value"}, r"expected one number as in the other examples, got"),
        ([1, 2], [1], {"label_kind": "value"}, r"a list of 2 numbers as in the other .*got \[1\]"),
        ([1], 1, {"label_kind": "value"}, r"a list of 1 numbers as in the other examples, got 1"),
    ],
)
def test_label_of_another_kind_than_the_others_is_named(tmp_path, first, second, options, message):
    examples = [
        (f"{n}", {"png": PNG, "json": json.dumps({"label": label}).encode()})
        for n, label in enumerate((first, second))
    ]
    assert_refused(shard(tmp_path / "a.tar", examples), message, **options)


@pytest.mark.parametrize(("first", "second"), [("\u00e9", "e\u0301")])
def test_class_names_equal_after_nfc_are_refused(tmp_path, first, second):
    examples = [(f"{n}", {"png": PNG, "txt": t.encode()}) for n, t in enumerate((first, second))]
    assert_refused(shard(tmp_path / "a.tar", examples), r"2 class names are equal after .*NFC")


def test_label_that_is_too_large_is_named_before_it_is_read(tmp_path):
    archive = shard(tmp_path / "a.tar", [("0", {"png": PNG, "json": bytes(16 * 2**20 + 1)})])
    message = r"key '0': expected a label of at most 16,777,216 bytes, its \.json has 16,777,217"
    assert_refused(archive, message)
    members = [("0.png", PNG), ("0.json", bytes(17 * 2**20))]
    archive = archives.zip_of(tmp_path / "a.zip", members, zipfile.ZIP_DEFLATED)
    assert_refused(archive, r"its \.json has 17,825,792")


def test_label_that_is_damaged_is_named(tmp_path):
    archive = archives.zip_of(tmp_path / "a.zip", [("0.png", PNG), ("0.cls", b"1")])
    archives.set_in_directory(archive, 1, "crc", 1)
    assert_refused(
        archive, r"key '0': its \.cls cannot be read as text: expected the checksum 0000000"
    )


def test_captions_are_not_taken_for_classes(tmp_path):
    examples = [(f"{n}", {"png": PNG, "txt": f"a cat {n}".encode()}) for n in range(1000)]
    archive = shard(tmp_path / "a.tar", examples)
    message = r"the \.txt beside 1,000 images hold 1,000 different texts, as captions do"
    assert_refused(archive, message)
    assert len(Archive(archive, label=".txt").scan().class_names) == 1000
    assert Archive(archive, label_kind="none", layout="webdataset").scan().labels is None


def test_shard_that_is_cut_off_is_named(tmp_path):
    archive = shard(tmp_path / "a.tar", [("0", {"png": PNG, "cls": b"1"})])
    archive.write_bytes(archive.read_bytes()[:2048])
    for layout in (None, "webdataset"):
        with pytest.raises(SourceError, match=re.escape(f"{archive}: cut off at byte 2,048")):
            Archive(archive, layout=layout).scan()
