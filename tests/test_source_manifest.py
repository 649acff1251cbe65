import pickle
import subprocess
import sys

import binary_labels
import images
import numpy as np
import pandas as pd
import pytest

import tfrds
from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources import ImageFolder
from tfrds.write.sources.base import LabelLists
from tfrds.write.sources.manifest import Manifest

NAMES = ["cat/1.png", "cat/2.png", "dog/3.png", "dog/4.png", "ant/5.png"]
CLASSES = [name.split("/")[0] for name in NAMES]


@pytest.fixture
def root(tmp_path):
    return images.put_images(tmp_path / "source", NAMES)


def table_of(path, header, rows):
    """Writes a CSV file of cells that need no quotes."""
    lines = [",".join(map(str, cells)) for cells in (header, *rows)]
    return images.put(path, "\n".join(lines) + "\n")


@pytest.fixture
def labels_csv(root):
    return table_of(root / "labels.csv", ("path", "label"), zip(NAMES, CLASSES, strict=True))


def class_of(references):
    """Returns the name of each image's class, by key."""
    return {
        key.decode(): references.class_names[references.labels[row]]
        for row, key in enumerate(references.keys)
    }


def split_of(references):
    return {
        key.decode(): references.split_names[references.splits[row]]
        for row, key in enumerate(references.keys)
    }


def column_of(references, name):
    """Returns the values of an extra column: a list, of text as text."""
    (column,) = (column for column in references.columns if column.spec.name == name)
    values = [column.value(row) for row in range(len(references.keys))]
    return [value.decode() if isinstance(value, bytes) else value for value in values]


# The same as what ImageFolder gives


def test_the_same_images_and_classes_as_the_folder_of_the_same_files(root, labels_csv):
    ours, theirs = Manifest(labels_csv), ImageFolder(root)
    found, expected = ours.scan(), theirs.scan()
    assert class_of(found) == class_of(expected)
    assert sorted(found.keys) == list(expected.keys)
    read = {}
    for source, references in ((ours, found), (theirs, expected)):
        rows = np.arange(len(NAMES))
        inputs = pickle.loads(pickle.dumps(source.inputs(rows)))
        sizes = [len(inputs.read(position)) for position in range(len(inputs))]
        assert references.sizes.tolist() == sizes
        keys = [key.decode() for key in references.keys]
        assert [inputs.name(position) for position in range(len(inputs))] == keys
        read[source] = {key: inputs.read(row) for row, key in enumerate(keys)}
        stamps = dict(zip(keys, references.stamps.tolist(), strict=True))
        read[source] |= {f"stamp of {key}": stamp for key, stamp in stamps.items()}
    assert read[ours] == read[theirs]
    assert read[ours]["dog/3.png"] == (root / "dog/3.png").read_bytes()
    assert not found.has_numbered_classes
    assert found.label_kind == "single"
    assert found.splits is None
    assert found.groups is None
    assert found.weights is None
    assert found.columns == ()
    assert found.notes == ("labels.csv: columns read: images 'path'; labels 'label'.",)


def test_a_build_stores_what_the_build_of_the_folder_stores(root, labels_csv, tmp_path):
    options = {"splits": {"train": 0.6, "test": 0.4}, "num_workers": 1}
    built = []
    for name, source in (("table", Manifest(labels_csv)), ("folder", ImageFolder(root))):
        tfrds.build("pets", source, data_dir=tmp_path / name, **options)
        files = images.files_below(tmp_path / name / "pets" / "1.0.0")
        built.append({name: data for name, data in files.items() if "tfrecord" in name})
    assert built[0] == built[1]
    assert len(built[0]) == 2


def test_references_are_in_the_order_of_the_rows(root, tmp_path):
    shuffled = [NAMES[position] for position in (3, 0, 4, 1, 2)]
    path = table_of(root / "t.csv", ("path", "label"), [(name, "x") for name in shuffled])
    assert [key.decode() for key in Manifest(path).scan().keys] == shuffled


# What the columns are


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (("label", "file_name"), ("file_name", "label")),
        (("class", "image_path"), ("image_path", "class")),
        (("labels", "path", "target"), ("path", "target")),
        (("Label", "Filename"), ("Filename", "Label")),
        (("LABEL", "label", "image"), ("image", "label")),
        (("category", "filepath"), ("filepath", "category")),
    ],
)
def test_columns_are_found_by_their_names(root, header, found):
    row = [
        NAMES[0] if "image" in name or "ile" in name or name == "path" else "x" for name in header
    ]
    path = table_of(root / "t.csv", header, [row])
    note = Manifest(path, columns=()).scan().notes[0]
    assert note == f"t.csv: columns read: images {found[0]!r}; labels {found[1]!r}."


def test_columns_are_chosen_by_arguments(root):
    rows = [(name, "y", number, f"{number}", 1) for number, name in enumerate(NAMES)]
    header = ("label", "path", "a", "b", "c")
    path = table_of(root / "t.csv", header, rows)
    found = Manifest(path, image="label", label="path", group="b", weight="c", columns=["a"]).scan()
    assert class_of(found) == dict.fromkeys(NAMES, "y")
    assert found.groups.tolist() == [0, 1, 2, 3, 4]
    assert list(found.group_names) == [b"0", b"1", b"2", b"3", b"4"]
    assert found.weights.tolist() == [1] * 5
    assert found.weights.dtype == np.float32
    assert column_of(found, "a") == [0, 1, 2, 3, 4]
    assert len(found.columns) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image": "paht"}, r"t\.csv: image: unknown column 'paht'\. Expected one of \['path', "
         r"'label', 'Age'\]\. Did you mean 'path'\?"),
        ({"label": "labl"}, r"label: unknown column 'labl'.*Did you mean 'label'\?"),
        ({"split": "fold"}, r"split: unknown column 'fold'\. Expected one of \['path'.*\]\.$"),
        ({"group": "AGE"}, r"group: unknown column 'AGE'.*Did you mean 'Age'\?"),
        ({"weight": "w"}, r"weight: unknown column 'w'"),
        ({"columns": ["agee"]}, r"columns: unknown column 'agee'"),
        ({"columns": {"agee": "age"}}, r"columns: unknown column 'agee'"),
        ({"label": ["label", "x"]}, r"label: unknown column 'x'"),
    ],
)  # fmt: skip
def test_unknown_columns_name_those_there_are_and_the_nearest(root, arguments, message):
    path = table_of(root / "t.csv", ("path", "label", "Age"), [(NAMES[0], "x", 3)])
    with pytest.raises(SourceError, match=message):
        Manifest(path, **arguments).scan()


def test_many_columns_are_listed_in_part(root):
    header = ["path", "label", *(f"c{number}" for number in range(12))]
    path = table_of(root / "t.csv", header, [[NAMES[0], *"x" * 13]])
    with pytest.raises(SourceError, match=r"'c7', \.\.\. 14 in all\]\.$"):
        Manifest(path, split="nowhere").scan()


def test_table_without_a_column_for_images_or_labels_lists_what_it_has(root):
    path = table_of(root / "t.csv", NAMES[:2], [("cat", "x")])
    with pytest.raises(
        SourceError,
        match=r"t\.csv: expected a column of paths or images named one of \['path', .*\], found "
        r"\['cat/1\.png', 'cat/2\.png'\]\. Pass image=, or add a first line",
    ):
        Manifest(path).scan()
    path = table_of(root / "t.csv", ("path", "finding"), [(NAMES[0], "x")])
    with pytest.raises(
        SourceError,
        match=r"t\.csv: expected a column of labels named one of \['label', .*\], found \['path', "
        r"'finding'\]\. Pass label= with its name, or with a list of .*label_kind=\"none\" for im",
    ):
        Manifest(path).scan()
    assert class_of(Manifest(path, label="finding").scan()) == {NAMES[0]: "x"}


def test_images_alone_need_no_column_of_labels(root):
    path = table_of(root / "t.csv", ("path", "label", "age"), [(NAMES[0], "", 3)])
    for source in (
        Manifest(path, label_kind="none"),
        Manifest(path).with_label_kind("none"),
        Manifest(path, label="label").with_label_kind("none"),
    ):
        found = source.scan()
        assert (found.label_kind, found.labels, found.class_names) == ("none", None, ())
        assert column_of(found, "age") == [3]
        assert len(found.columns) == 1


def test_two_classes_are_read_as_0_and_1(root, tmp_path):
    rows = list(zip(NAMES, ("no", "yes", "no", "no", "yes"), strict=True))
    table = table_of(root / "t.csv", ("path", "label"), rows)
    expected = {name: float(text == "yes") for name, text in rows}
    assert binary_labels.read_labels(Manifest(table, label_kind="binary"), tmp_path) == expected
    hot = [(name, int(text == "no"), int(text == "yes")) for name, text in rows]
    table = table_of(root / "hot.csv", ("path", "no", "yes"), hot)
    source = Manifest(table, label=["no", "yes"], label_kind="binary")
    assert binary_labels.read_labels(source, tmp_path, version="2.0.0") == expected


def test_kind_of_the_labels_can_be_changed_and_the_source_stays(root):
    rows = [(name, number) for number, name in enumerate(NAMES)]
    path = table_of(root / "t.csv", ("path", "label"), rows)
    source = Manifest(path)
    assert source.with_label_kind("value").scan().labels.tolist() == [0, 1, 2, 3, 4]
    assert source.with_label_kind("binary").scan().label_kind == "binary"
    assert source.with_label_kind("single").scan().class_names == ("0", "1", "2", "3", "4")
    assert isinstance(source.with_label_kind("multi").scan().labels, LabelLists)
    assert source.scan().label_kind == "single"


# Splits, groups, weights


def test_splits_groups_and_weights_are_read_from_their_columns(root):
    rows = [
        (NAMES[0], "x", "train", "a", 0.5),
        (NAMES[1], "x", "test", "b", 1),
        (NAMES[2], "y", "train", "a", 0),
    ]
    header = ("path", "label", "split", "group", "sample_weight")
    found = Manifest(table_of(root / "t.csv", header, rows)).scan()
    assert split_of(found) == dict(zip(NAMES[:3], ("train", "test", "train"), strict=True))
    assert found.groups.tolist() == [0, 1, 0]
    assert list(found.group_names) == [b"a", b"b"]
    assert found.weights.tolist() == [0.5, 1, 0]
    assert found.notes == (
        "t.csv: columns read: images 'path'; labels 'label'; split 'split'; group 'group'; weight "
        "'sample_weight'.",
    )


def test_columns_of_these_names_are_others_where_the_user_says_so(root):
    header = ("path", "label", "split", "group", "weight")
    path = table_of(root / "t.csv", header, [(NAMES[0], "x", "left", "", "70.5")])
    found = Manifest(path, split=False, group=False, weight=False).scan()
    assert (found.splits, found.groups, found.weights) == (None, None, None)
    assert column_of(found, "split") == ["left"]
    assert column_of(found, "weight") == [70.5]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("split", "", r"t\.csv line 3, column 'split': expected the name of a split, got an empty"),
        ("split", "1st", r"t\.csv line 3, column 'split': splits: a split's name is .*got '1st'"),
        ("group", "", r"t\.csv line 3, column 'group': expected the name of a group, got an empty"),
        ("weight", "", r"line 3, column 'weight': expected a number of at least 0, got an empty"),
        ("weight", "-1", r"line 3, column 'weight': expected a number of at least 0, got '-1'"),
        ("weight", "1e39", r"line 3, column 'weight': .*, got '1e39'"),
        ("weight", "nan", r"line 3, column 'weight': .*, got 'nan'"),
        ("weight", "heavy", r"line 3, column 'weight': .*, got 'heavy'"),
        ("label", "", r"line 3, column 'label': expected the name of a class, got an empty cell"),
        ("label", " cat", r"line 3, column 'label': a class's name must not .*got ' cat'"),
        ("path", "", r"t\.csv line 3, column 'path': expected a path, got an empty cell"),
    ],
)
def test_bad_cells_are_named_by_line_and_column(root, column, value, message):
    header = ["path", "label", "split", "group", "weight"]
    rows = [[NAMES[number], "x", "train", "g", "1"] for number in range(3)]
    rows[1][header.index(column)] = value
    with pytest.raises(SourceError, match=message):
        Manifest(table_of(root / "t.csv", header, rows)).scan()


def test_splits_and_groups_may_be_numbers_but_no_lists(root):
    table = pd.DataFrame(
        {"path": NAMES[:2], "label": "x", "group": [7, 3], "split": [["a"], ["b"]]}
    )
    with pytest.raises(
        SourceError,
        match=r"column 'split': expected the name of a split, got list.*Convert it to te",
    ):
        Manifest(table, root=root).scan()
    found = Manifest(table, root=root, split=False).scan()
    assert list(found.group_names) == [b"7", b"3"]


def test_the_first_five_bad_rows_are_listed_with_their_number(root):
    rows = [(f"{number}.png", "x" if number < 2 else "") for number in range(10)]
    with pytest.raises(
        SourceError,
        match=r"line 4, column 'label': .*\. Fill it, or remove the row\. So are line 5 \(an empty "
        r"cell\), line 6 \(an empty cell\), line 7 \(an empty cell\), line 8 \(an empty cell\), "
        r"\.\.\.; 8 in all\.$",
    ):
        Manifest(table_of(root / "t.csv", ("path", "label"), rows)).scan()


# Rows for the same image


def test_the_same_row_twice_is_named_with_both_lines(root):
    rows = [(NAMES[0], "x"), (NAMES[1], "y"), (NAMES[0], "x")]
    with pytest.raises(
        SourceError,
        match=r"t\.csv line 4, column 'path': expected each image once, got 'cat/1\.png' again, as "
        r"in line 2\. Remove one of the rows\.$",
    ):
        Manifest(table_of(root / "t.csv", ("path", "label"), rows)).scan()


def test_the_same_image_under_two_labels_is_named_with_both(root):
    rows = [(NAMES[0], "cat"), (NAMES[1], "y"), ("./cat//1.png", "dog"), (NAMES[1], "y")]
    with pytest.raises(
        SourceError,
        match=r"t\.csv line 4, column 'path': expected each image once, got 'cat/1\.png' with the "
        r"label 'dog', and in line 2 with 'cat'\. Remove the wrong row, or write all labels of an "
        r"image into one cell and pass separator= to read them\.$",
    ):
        Manifest(table_of(root / "t.csv", ("path", "label"), rows)).scan()


def test_the_same_image_in_two_splits_is_named_with_both(root):
    rows = [(NAMES[0], "x", "train"), (NAMES[0], "x", "test")]
    with pytest.raises(
        SourceError,
        match=r"got 'cat/1\.png' in split 'test', and in line 2 in split 'train'\. Remove one",
    ):
        Manifest(table_of(root / "t.csv", ("path", "label", "split"), rows)).scan()


def test_many_repeated_rows_are_counted(root):
    rows = [(NAMES[0], "x")] * 3 + [(name, "y") for name in NAMES[1:]] * 2
    with pytest.raises(
        SourceError,
        match=r"line 3, .* as in line 2\. Remove one of the rows\. So are line 4 \('cat/1\.png' of "
        r"line 2\), line 9 \('cat/2\.png' of line 5\), line 10 .*, line 11 .*, \.\.\.; 6 in all\.$",
    ):
        Manifest(table_of(root / "t.csv", ("path", "label"), rows)).scan()


@pytest.mark.parametrize(
    ("kind", "labels", "shown"),
    [
        ("value", ("0.5", "2"), r"with the label 2\.0, and in line 2 with 0\.5\. Remove"),
        ("multi", ("a", "b"), r"with the label \['b'\], and in line 2 with \['a'\]\. Remove"),
        ("none", ("a", "b"), r"again, as in line 2"),
    ],
)
def test_labels_of_any_kind_are_compared(root, kind, labels, shown):
    path = table_of(root / "t.csv", ("path", "label"), [(NAMES[0], label) for label in labels])
    with pytest.raises(SourceError, match=shown):
        Manifest(path, label_kind=kind).scan()


# Folders as Hugging Face has them


def test_folder_with_metadata_has_paths_relative_to_it(root):
    table_of(root / "metadata.csv", ("file_name", "label"), zip(NAMES, CLASSES, strict=True))
    found = Manifest(root).scan()
    assert class_of(found) == dict(zip(NAMES, CLASSES, strict=True))
    assert found.splits is None


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_metadata_in_the_folder_of_each_split_gives_the_splits(tmp_path, ending):
    names = ["train/a.png", "train/b.png", "test/a.png"]
    images.put_images(tmp_path, names)
    for split in ("train", "test"):
        own = [name.partition("/")[2] for name in names if name.startswith(split)]
        table = pd.DataFrame({"file_name": own, "label": "x", "text": "about " + pd.Series(own)})
        path = tmp_path / split / f"metadata.{ending}"
        if ending == "csv":
            table.to_csv(path, index=False)
        elif ending == "jsonl":
            table.to_json(path, orient="records", lines=True)
        else:
            table.to_parquet(path)
    source = Manifest(tmp_path)
    found = source.scan()
    assert split_of(found) == {name: name.partition("/")[0] for name in names}
    assert dict(
        zip([key.decode() for key in found.keys], column_of(found, "text"), strict=True)
    ) == {name: f"about {name.partition('/')[2]}" for name in names}
    for row, key in enumerate(found.keys):
        assert source.inputs(np.array([row])).read(0) == (tmp_path / key.decode()).read_bytes()
    assert f"{tmp_path.name}: splits by the names of files and folders: test, train." in found.notes
    images.put(tmp_path / "train" / "b.png", b"")
    (tmp_path / "train" / "b.png").unlink()
    where = "row 2" if ending == "parquet" else f"line {3 if ending == 'csv' else 2}"
    with pytest.raises(
        SourceError,
        match=rf"^train/metadata\.{ending} {where}, column 'file_name': expected a file",
    ):
        Manifest(tmp_path).scan()


def test_folders_of_splits_below_one_metadata_file_give_the_splits(tmp_path):
    names = ["train/a.png", "validation/b.png"]
    images.put_images(tmp_path, names)
    path = table_of(tmp_path / "metadata.csv", ("file_name", "label"), [(n, "x") for n in names])
    found = Manifest(tmp_path).scan()
    assert split_of(found) == dict(zip(names, ("train", "validation"), strict=True))
    assert found.notes[-1] == (
        "metadata.csv: splits by the folders of the images: train, validation."
    )
    assert Manifest(path).scan().splits is None
    assert Manifest(tmp_path, split=False).scan().splits is None
    table_of(tmp_path / "metadata.csv", ("file_name", "label"), [(names[0], "x")])
    assert Manifest(tmp_path).scan().splits is None


def test_unclear_metadata_is_refused(root):
    table_of(root / "metadata.csv", ("file_name", "label"), [])
    table_of(root / "cat" / "metadata.csv", ("file_name", "label"), [])
    with pytest.raises(
        SourceError,
        match=r"expected one metadata file, or one of the same name in each split's folder, found "
        r"\['metadata\.csv', 'cat/metadata\.csv'\]",
    ):
        Manifest(root).scan()
    (root / "metadata.csv").rename(root / "metadata.jsonl")
    (root / "cat" / "metadata.csv").unlink()
    table_of(root / "metadata.csv", ("file_name", "label"), [])
    with pytest.raises(SourceError, match=r"found \['metadata\.csv', 'metadata\.jsonl'\]"):
        Manifest(root).scan()


def test_files_with_other_columns_are_refused(tmp_path):
    table_of(tmp_path / "train" / "metadata.csv", ("file_name", "label"), [])
    table_of(tmp_path / "test" / "metadata.csv", ("file_name", "label", "age"), [])
    with pytest.raises(
        SourceError,
        match=r"expected the same columns in all files, but test/metadata\.csv has 'age' and "
        r"train/metadata\.csv has not",
    ):
        Manifest(tmp_path).scan()


# What is no table


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"t\.csv: expected a line with the names of the columns, found an empty file"),
        ("\n\n", r"t\.csv: expected a line with the names of the columns, found an empty file"),
        ("path,label\n", r"t\.csv: expected at least one row, found none"),
    ],
)
def test_empty_table_is_refused(root, text, message):
    with pytest.raises(SourceError, match=message):
        Manifest(images.put(root / "t.csv", text)).scan()


def test_missing_file_and_folder_without_tables_are_named(tmp_path):
    with pytest.raises(SourceError, match=rf"{tmp_path}/t\.csv: no such file\. Correct it"):
        Manifest(tmp_path / "t.csv").scan()
    with pytest.raises(SourceError, match=rf"{tmp_path}: expected the file of a table, found none"):
        Manifest([tmp_path]).scan()
    with pytest.raises(
        SourceError, match=rf"{tmp_path}: expected Parquet files below it, or one of"
    ):
        Manifest(tmp_path).scan()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (3, r"table: expected a path, .*, or a folder, or a table of pandas or pyarrow, got 3"),
        ([], r"table: expected .*, got an empty list"),
        ([1, 2], r"table: expected .*, got 1"),
        ("x.xlsx", r"table: expected a file that ends in one of \['\.csv', .*\], got 'x\.xlsx'"),
        (
            "x.json",
            r"got 'x\.json'\. .*An object a line, without a list around .*\.jsonl\.$",
        ),
        (["a.csv", "b.jsonl"], r"table: expected files of one kind, got \['\.csv', '\.jsonl'\]"),
        (["a.csv", "./a.csv"], r"table: expected each file once, got .*/a\.csv twice"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, monkeypatch, table, message):
    for name in ("x.xlsx", "x.json", "a.csv", "b.jsonl"):
        images.put(tmp_path / name, "path,label\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        Manifest(table).scan()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label_kind": "many"}, r"label_kind: expected one of \['single', .*\], got 'many'"),
        ({"image": 3}, r"image: expected the name of a column, or None, got 3"),
        ({"image": False}, r"image: expected the name of a column, or None, got False"),
        ({"split": ""}, r"split: expected the name of a column, None or False, got ''"),
        ({"group": True}, r"group: expected the name of a column, None or False, got True"),
        ({"label": []}, r"label: expected the name of a column, or a list of them, .* got \[\]"),
        ({"label": ["a", "a"]}, r"label: .*each once, got \['a', 'a'\]"),
        ({"label": 3}, r"label: .*got 3"),
        ({"columns": "age"}, r"columns: expected a list of names, a mapping .*got 'age'"),
        ({"columns": {1: "a"}}, r"columns: expected a list of names, a mapping .*got \{1: 'a'\}"),
        ({"separator": ""}, r"separator: expected text such as ';', or None, got ''"),
        ({"separator": ";", "label_kind": "single"}, r"separator: expected None for label_kind='s"),
        ({"delimiter": ",,"}, r"delimiter: expected one character such as ';', or None, got ',,'"),
        ({"delimiter": '"'}, r"delimiter: expected one character"),
        ({"root": 3}, r"root: expected the path of a folder, or None, got 3"),
        ({"scratch_dir": b"x"}, r"scratch_dir: expected the path of a folder, or None, got b'x'"),
        ({"encoding": "utf-9"}, r"encoding: expected one that Python knows .*, got 'utf-9'"),
        ({"encoding": None}, r"encoding: expected one that Python knows .*, got None"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        Manifest("t.csv", **arguments)


def test_inputs_before_a_scan_are_refused(labels_csv):
    with pytest.raises(ConfigError, match=r"Manifest: expected scan\(\) to be called before"):
        Manifest(labels_csv).inputs(np.array([0]))


# Many rows

# Prints how much the scan took, of what is no file's: seconds, and megabytes at its highest.
_MILLION = """
import pathlib, sys, threading, time
from tfrds.write.sources.manifest import Manifest

def anonymous():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024

def watch():
    while True:
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.01)

peak = [0]
threading.Thread(target=watch, daemon=True).start()
started = time.perf_counter()
found = Manifest(sys.argv[1]).scan()
print(len(found.keys), len(found.class_names), time.perf_counter() - started, peak[0])
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_million_rows_need_little_memory(tmp_path, ending):
    count, side = 1_000_000, 1_000
    first = images.put_images(tmp_path, [f"0/{number:03}.png" for number in range(side)])
    for folder in range(1, side):
        (tmp_path / str(folder)).symlink_to(first / "0")
    numbers = np.arange(count)
    table = pd.DataFrame(
        {
            "path": [f"{number // side}/{number % side:03}.png" for number in range(count)],
            "label": np.char.add("class ", (numbers % 1_000).astype(str)),
            "split": np.where(numbers % 5, "train", "test"),
            "age": numbers % 90,
            "score": numbers / 7,
            "text": np.char.add("a few words about number ", numbers.astype(str)),
        }
    )
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        table.to_csv(path, index=False)
    elif ending == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_parquet(path, index=False)
    del table
    ran = subprocess.run(
        [sys.executable, "-c", _MILLION, path], capture_output=True, text=True, check=True
    )
    num_rows, num_classes, seconds, peak = map(float, ran.stdout.split())
    print(f"{ending}: {seconds:.1f} s, {peak:.0f} MB")
    assert (num_rows, num_classes) == (count, 1_000)
    assert peak < 600
