import json
import os
import pathlib
import tempfile

import images
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources import table_delimited, table_json_lines
from tfrds.write.sources.manifest import Manifest

NAMES = ["a.png", "b.png", "c.png", "d.png"]
LABELS = ["x", "y", "x", "z"]


@pytest.fixture
def root(tmp_path):
    return images.put_images(tmp_path / "source", NAMES)


def scan_text(root, text, name="t.csv", **arguments):
    return Manifest(images.put(root / name, text), **arguments).scan()


def labels_of(references):
    return {
        key.decode(): references.class_names[references.labels[row]]
        for row, key in enumerate(references.keys)
    }


def texts_of(references, name):
    (column,) = (column for column in references.columns if column.spec.name == name)
    return [text.decode() for text in column.values]


EXPECTED = dict(zip(NAMES[:2], LABELS[:2], strict=True))


# CSV and TSV


@pytest.mark.parametrize(
    ("name", "text", "arguments"),
    [
        ("t.csv", "path,label\na.png,x\nb.png,y\n", {}),
        ("t.csv", "path,label\na.png,x\nb.png,y", {}),
        ("t.csv", "path;label\na.png;x\nb.png;y\n", {}),
        ("t.csv", "path\tlabel\na.png\tx\nb.png\ty\n", {}),
        ("t.txt", "path|label\na.png|x\nb.png|y\n", {}),
        ("T.TSV", "path\tlabel\na.png\tx\nb.png\ty\n", {}),
        ("t.tsv", "path,label\na.png,x\nb.png,y\n", {}),
        ("t.csv", "path#label\na.png#x\nb.png#y\n", {"delimiter": "#"}),
        ("t.csv", 'path,"lab;e;l"\na.png,x\nb.png,y\n', {"label": "lab;e;l"}),
        ("t.csv", "path, label\na.png, x\nb.png, y\n", {}),
        ("t.csv", '"path", "label"\n"a.png", "x"\nb.png, y\n', {}),
        ("t.csv", " path ,label\na.png,x\nb.png,y\n", {}),
        ("t.csv", "path,label\r\na.png,x\r\nb.png,y\r\n", {}),
        ("t.csv", "path,label\ra.png,x\rb.png,y\r", {}),
        ("t.csv", "\ufeffpath,label\na.png,x\nb.png,y\n", {}),
        ("t.csv", "\n\npath,label\n\na.png,x\n  \nb.png,y\n\n", {}),
        ("t.csv", 'path,label\n"a.png","x"\n"b.png",y\n', {}),
        ("t.csv", ",path,label\n0,a.png,x\n1,b.png,y\n", {"columns": ()}),
    ],
)
def test_delimiters_quotes_and_ends_of_lines(root, name, text, arguments):
    path = root / name
    path.write_text(text, encoding="utf-8", newline="")
    assert labels_of(Manifest(path, **arguments).scan()) == EXPECTED


def test_quoted_cells_hold_delimiters_quotes_and_line_breaks(root):
    rows = [("a.png", "a,b"), ("b.png", 'say ""x""'), ("c.png", "two\r\nlines"), ("d.png", "")]
    text = "path,text\r\n" + "".join(f'{name},"{cell}"\r\n' for name, cell in rows)
    (root / "t.csv").write_text(text, newline="")
    found = Manifest(root / "t.csv", label_kind="none").scan()
    assert texts_of(found, "text") == ["a,b", 'say "x"', "two\r\nlines", ""]


def test_lines_are_those_of_the_file_where_cells_hold_line_breaks(root):
    text = 'path,label,text\n\na.png,x,"1\n2\n3"\nb.png,,""\nc.png,y,"\n"\nd.png,,""\n'
    with pytest.raises(
        SourceError,
        match=r"^t\.csv line 6, column 'label': .*\. So are line 9 \(an empty cell\); 2",
    ):
        scan_text(root, text)


def test_numbers_and_words_keep_what_was_written(root):
    names = ["007", "true", "1e5", "NA"]
    rows = "".join(f"{name},{label}\n" for name, label in zip(NAMES, names, strict=True))
    found = scan_text(root, f"path,label\n{rows}")
    assert labels_of(found) == dict(zip(NAMES, names, strict=True))


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8", "utf-8-sig", "UTF-16-LE"])
def test_encodings(root, encoding):
    images.put_images(root, ["é.png"])
    (root / "t.csv").write_bytes("path,label\né.png,größe\n".encode(encoding))
    found = Manifest(root / "t.csv", encoding=encoding).scan()
    assert labels_of(found) == {"é.png": "größe"}


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        (b"path,label\na.png,x\nb.png,\xe9\n", {}, r"t\.csv line 3: expected text in utf-8, got "
         r"the byte 0xe9\. Pass the file's encoding, such as encoding=\"cp1252\""),
        ("path,label\na.png,x\n".encode("utf-16"), {}, r"t\.csv: it begins like UTF-16\. Pass enc"),
        (b"path,label\n\x81", {"encoding": "cp1252"}, r"t\.csv line 2: expected text in cp1252, "
         r"got the byte 0x81"),
        ("path,label\na.png,x\n".encode("utf-16") + b"x", {"encoding": "utf-16"},
         r"t\.csv: expected text in utf-16, got .*truncated data"),
    ],
)  # fmt: skip
def test_bytes_of_another_encoding_are_named(root, data, arguments, message):
    with pytest.raises(SourceError, match=message):
        scan_text(root, data, **arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,label\na.png,x\nb.png\n", r"t\.csv line 3: expected 2 cells as in the first line, "
         r"got 1: \['b\.png'\]\. Cells that hold ',' or line breaks must stand in double quotes"),
        ("path,label\na.png,x,y\n", r"line 2: expected 2 cells as in the first line, got 3: "),
        ('path,label\na.png,"x\nb.png,y\n', r"t\.csv line 2: cannot be read from here on: "
         r"unexpected end of data\. Look for a double quote that is not closed"),
        ('path,label\na.png,x\nb.png,"y"z\n', r"t\.csv line 3: cannot be read from here on: ',' e"),
        ('path,label\na.png,"' + "x\n" * 99_999, r"line 2: cannot be read from here on: field lar"),
        ("path,label,label\n", r"t\.csv: expected each column once, got 'label' 2 times in the fi"),
    ],
)  # fmt: skip
def test_damaged_table_is_named_by_line(root, text, message):
    with pytest.raises(SourceError, match=message):
        scan_text(root, text)


def test_a_file_without_line_breaks_does_not_fill_the_memory(root):
    with pytest.raises(
        SourceError, match=r"t\.csv line 1: expected at most 16,777,216 characters, got more"
    ):
        scan_text(root, b"x" * (2**24 + 1))


def test_file_that_cannot_be_opened_is_named():
    with tempfile.TemporaryDirectory() as folder:  # tmp_path lets only its owner in
        os.chmod(folder, 0o755)
        path = images.put(pathlib.Path(folder, "t.csv"), "path,label\n")
        path.chmod(0)
        with (
            images.without_root(),
            pytest.raises(SourceError, match=r"t\.csv: cannot be read: Perm"),
        ):
            Manifest(path).scan()


def test_columns_without_a_name_are_left_out_with_a_note(root):
    found = scan_text(root, ",path,label,\n0,a.png,x,\n1,b.png,y,\n")
    assert found.columns == ()
    assert "t.csv: columns without a name in the first line are left out." in found.notes


def test_delimiter_is_for_text_files(root):
    table = pd.DataFrame({"path": NAMES, "label": LABELS})
    table.to_parquet(root / "t.parquet")
    with pytest.raises(ConfigError, match=r"delimiter: expected None for t\.parquet, .*got ';'"):
        Manifest(root / "t.parquet", delimiter=";").scan()
    with pytest.raises(ConfigError, match=r"delimiter: expected None for a table in memory"):
        Manifest(table, delimiter=";").scan()


# JSON Lines


def json_lines(*rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.mark.parametrize("name", ["t.jsonl", "T.NDJSON"])
def test_json_lines(root, name):
    text = json_lines(*({"path": n, "label": one} for n, one in zip(NAMES, LABELS, strict=True)))
    found = scan_text(root, "\ufeff" + text.replace("\n", "\r\n\r\n"), name)
    assert labels_of(found) == dict(zip(NAMES, LABELS, strict=True))


def test_types_of_json_are_those_of_its_values(root):
    rows = [
        {"path": "a.png", "label": 2, "i": 1, "f": 1.5, "t": "007", "b": True, "m": 1, "w": 1},
        {"path": "b.png", "label": 0, "i": 2**40, "f": -2e3, "t": "1", "b": False, "m": 0.5},
    ]
    found = scan_text(root, json_lines(*rows), "t.jsonl")
    assert (found.labels.tolist(), found.class_names) == ([2, 0], ("0", "1", "2"))
    assert found.has_numbered_classes
    columns = {column.spec.name: column for column in found.columns}
    dtypes = {name: column.spec.dtype for name, column in columns.items()}
    assert dtypes == {
        "i": "int64", "f": "float32", "t": "string", "b": "bool", "m": "float32", "w": "float32",
    }  # fmt: skip
    assert columns["i"].values.tolist() == [1, 2**40]
    assert columns["f"].values.tolist() == [1.5, -2000]
    assert list(columns["t"].values) == [b"007", b"1"]
    assert columns["b"].values.tolist() == [True, False]
    assert columns["m"].values.tolist() == [1, 0.5]
    assert columns["w"].values[0] == 1
    assert np.isnan(columns["w"].values[1])


def test_columns_of_json_may_begin_and_be_empty_anywhere(root, monkeypatch):
    monkeypatch.setattr(table_json_lines, "_BLOCK", 2)
    names = [f"{number}.png" for number in range(9)]
    images.put_images(root, names)
    rows = [{"path": name, "label": "x"} for name in names]
    rows[3]["late"] = "here"
    rows[5]["tags"] = ["a"]
    rows[6]["tags"] = None
    text = json_lines(*rows)
    assert texts_of(scan_text(root, text, "t.jsonl"), "late") == ["", "", "", "here", *[""] * 5]
    found = scan_text(root, text, "t.jsonl", label="tags")
    assert found.labels.offsets.tolist() == [0] * 6 + [1] * 4


def test_rows_of_text_become_columns_block_by_block(root, monkeypatch):
    monkeypatch.setattr(table_delimited, "_BLOCK", 2)
    names = [f"{number}.png" for number in range(5)]
    images.put_images(root, names)
    rows = "".join(f'{name},"{name}\n"\n' for name in names)
    found = scan_text(root, f"path,text\n{rows}", label_kind="none")
    assert [key.decode() for key in found.keys] == names
    assert texts_of(found, "text") == [f"{name}\n" for name in names]
    with pytest.raises(SourceError, match=r"t\.csv line 8, column 'path': expected a path, got an"):
        scan_text(root, f"path,text\n{rows.replace('3.png,', ',')}", label_kind="none")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"path": "a.png", "label": }', r"t\.jsonl line 3: expected a JSON object, got "
         r"'\{\"path\": .*': Expecting value at character 28\. Write one object a line"),
        ("[1, 2]", r"line 3: expected a JSON object, got '\[1, 2\]'"),
        ('{"path": "b.png"', r"line 3: expected a JSON object, got '\{\"path\": \"b\.png\"': Expe"),
        ('{"path": "b.png", "label": ["x"]}', r"t\.jsonl line 3, column 'label': expected a single "
         r"value as in line 1, got \"\['x'\]\""),
        ("[" * 200_000, r"line 3: expected a flat JSON object, got one far too deep"),
        ('{"path": "b.png", "label": "\\ud800"}', r"t\.jsonl, column 'label', line 1 or after it: "
         r"expected text, got half a character"),
        ('{"path": "b.png"}', r"t\.jsonl line 3, column 'label': expected the name of a class, got "
         r"an empty cell"),
        ('{"path": "b.png", "label": {"a": 1}}', r"column 'label': expected the names or numbers"),
    ],
)  # fmt: skip
def test_damaged_json_is_named_by_line(root, line, message):
    with pytest.raises(SourceError, match=message):
        scan_text(root, json_lines({"path": "a.png", "label": "x"}) + f"\n{line}\n", "t.jsonl")


def test_lists_and_single_values_in_one_column_of_json_are_refused(root):
    text = json_lines({"path": "a.png", "label": ["x"]}, {"path": "b.png", "label": "x"})
    with pytest.raises(SourceError, match=r"line 2, column 'label': expected a list as in line 1"):
        scan_text(root, text, "t.jsonl")


def test_json_without_objects_is_refused(root):
    with pytest.raises(
        SourceError, match=r"t\.jsonl: expected a JSON object on each line, found n"
    ):
        scan_text(root, "\n\n", "t.jsonl")


def test_objects_in_json_are_left_out_with_a_note(root):
    rows = [{"path": "a.png", "label": "x", "boxes": {"a": [1]}, "points": [[1, 2]], "no": None}]
    found = scan_text(root, json_lines(*rows), "t.jsonl")
    assert found.columns == ()
    assert [note.partition(" is left out: ")[0] for note in found.notes[1:]] == [
        "t.jsonl: column 'boxes'", "t.jsonl: column 'points'", "t.jsonl: column 'no'"
    ]  # fmt: skip


def test_whole_numbers_of_json_beyond_64_bits_are_text(root):
    text = json_lines({"path": "a.png", "label": "x", "number": 10**30})
    assert texts_of(scan_text(root, text, "t.jsonl"), "number") == [str(10**30)]


# Tables in memory


def test_pandas_paths_start_from_the_current_folder_or_the_root(root, monkeypatch):
    table = pd.DataFrame({"path": NAMES, "label": LABELS}, index=[7, 7, 8, 9])
    expected = dict(zip(NAMES, LABELS, strict=True))
    assert labels_of(Manifest(table, root=root).scan()) == expected
    monkeypatch.chdir(root)
    assert labels_of(Manifest(table).scan()) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda values: pd.Series(values, dtype=object),
        lambda values: pd.Series(values, dtype="category"),
        lambda values: pd.Series(values, dtype="string"),
        lambda values: pd.Series(values, dtype=pd.ArrowDtype(pa.string())),
        lambda values: pd.Series(map(pathlib.Path, values), dtype=object),
    ],
)
def test_text_of_pandas_in_all_its_types(root, make):
    table = pd.DataFrame({"path": make(NAMES), "label": make(LABELS)})
    assert labels_of(Manifest(table, root=root).scan()) == dict(zip(NAMES, LABELS, strict=True))


def test_missing_values_of_pandas_are_empty_cells(root):
    table = pd.DataFrame({"path": NAMES, "label": ["x", None, np.nan, pd.NA]})
    with pytest.raises(
        SourceError,
        match=r"^DataFrame row 2, column 'label': expected the name of a class, got an empty "
        r"cell\. .* So are row 3 \(an empty cell\), row 4 \(an empty cell\); 3 in all\.$",
    ):
        Manifest(table, root=root).scan()


def test_columns_of_pandas_with_several_kinds_of_values_are_named(root):
    table = pd.DataFrame({"path": NAMES, "label": ["x", "y", 3, "z"]})
    with pytest.raises(
        SourceError,
        match=r"^DataFrame row 3, column 'label': expected values of one kind that pyarrow can "
        r"hold, the first being str 'x', got int '3'\. Convert the column",
    ):
        Manifest(table, root=root).scan()
    table = pd.DataFrame({"path": NAMES, "label": LABELS, "other": [object()] * 4})
    with pytest.raises(SourceError, match=r"row 1, column 'other': .*got object '<object object"):
        Manifest(table, root=root).scan()
    assert labels_of(Manifest(table, root=root, columns=()).scan())


def test_paths_of_pandas_may_be_missing(root):
    table = pd.DataFrame({"path": [pathlib.Path("a.png"), None], "label": "x"})
    with pytest.raises(SourceError, match=r"row 2, column 'path': expected a path, got an empty"):
        Manifest(table, root=root).scan()


def test_column_names_of_pandas_that_are_numbers(root):
    table = pd.DataFrame({0: NAMES, 1: LABELS})
    found = Manifest(table, image="0", label="1", root=root).scan()
    assert labels_of(found) == dict(zip(NAMES, LABELS, strict=True))


def test_columns_that_stand_twice_are_refused(root):
    table = pd.DataFrame([["a.png", "x", "y"]], columns=["path", "label", "label"])
    with pytest.raises(
        SourceError, match=r"DataFrame: expected each column once, got 'label' 2 ti"
    ):
        Manifest(table, root=root).scan()
    arrow = pa.Table.from_arrays([pa.array(["a.png"])] * 2, names=["path", "path"])
    with pytest.raises(SourceError, match=r"table: expected each column once, got 'path' 2 times"):
        Manifest(arrow, root=root).scan()


def test_pyarrow_tables_and_what_streams_like_them(root):
    table = pa.table({"path": NAMES, "label": pa.array(LABELS).dictionary_encode()})

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    for own in (table, pa.concat_tables([table.slice(0, 1), table.slice(1)]), Stream()):
        found = Manifest(own, root=root).scan()
        assert labels_of(found) == dict(zip(NAMES, LABELS, strict=True))
    with pytest.raises(SourceError, match=r"^table row 1, column 'path': expected a file below"):
        Manifest(pa.table({"path": ["no.png"], "label": ["x"]}), root=root).scan()


def test_empty_tables_in_memory_are_refused(root):
    for table in (
        pd.DataFrame({"path": [], "label": []}),
        pa.table({"path": pa.array([], pa.string()), "label": pa.array([], pa.string())}),
    ):
        with pytest.raises(SourceError, match=r"expected at least one row, found none"):
            Manifest(table, root=root).scan()


@pytest.mark.parametrize("values", [[1, 2], [[1], [2]], [1.5, 2], [None, None]])
def test_images_that_are_neither_paths_nor_bytes_are_refused(values):
    with pytest.raises(SourceError, match=r"column 'image': expected (paths|a path)"):
        Manifest(pd.DataFrame({"image": values, "label": ["x", "y"]})).scan()


def test_a_pattern_stands_for_the_files_of_one_table(root):
    for number, name in enumerate(NAMES):
        images.put(root / f"part-{number}.csv", f"path,label\n{name},{number}\n")
    for pattern in ("part-*.csv", f"part-{{0..{len(NAMES) - 1}}}.csv"):
        references = Manifest(root / pattern).scan()
        assert [key.decode() for key in references.keys] == NAMES
        assert references.labels.tolist() == list(range(len(NAMES)))
    # One file by a pattern is the same as the file.
    one, same = (Manifest(root / name).scan() for name in ("part-[0].csv", "part-0.csv"))
    assert (list(one.keys), one.stamps.tolist()) == (list(same.keys), same.stamps.tolist())
