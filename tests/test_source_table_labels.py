import itertools
import json

import images
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tfrds.errors import SourceError
from tfrds.write.sources import table_label_lists
from tfrds.write.sources.manifest import Manifest

NAMES = ["a.png", "b.png", "c.png", "d.png"]


@pytest.fixture
def root(tmp_path):
    return images.put_images(tmp_path / "source", NAMES)


@pytest.fixture
def scan_csv(root):
    """Scans a CSV file of the images and the given columns of text."""

    def scan(columns, **arguments):
        rows = len(next(iter(columns.values())))
        table = pd.DataFrame({"path": NAMES[:rows], **columns})
        table.to_csv(root / "t.csv", index=False)
        return Manifest(root / "t.csv", columns=(), **arguments).scan()

    return scan


@pytest.fixture
def scan_table(root):
    """Scans a table of pyarrow of the images and one column of labels."""

    def scan(values, **arguments):
        values = values if isinstance(values, pa.Array) else pa.array(values)
        table = pa.table({"path": NAMES[: len(values)], "label": values})
        return Manifest(table, root=root, **arguments).scan()

    return scan


def names_of(references):
    """Returns the names of the classes of each row; a list each where there may be several."""
    names = np.array(references.class_names, object)
    if references.label_kind == "single":
        return names[references.labels].tolist()
    offsets = references.labels.offsets.astype(int)
    return [
        names[references.labels.numbers[start:end]].tolist()
        for start, end in itertools.pairwise(offsets)
    ]


# One class


def test_text_names_the_classes(scan_csv):
    found = scan_csv({"label": ["dog", "cat", "dog", "ant"]})
    assert names_of(found) == ["dog", "cat", "dog", "ant"]
    assert (found.labels.dtype, found.label_kind) == (np.int32, "single")
    assert not found.has_numbered_classes


def test_whole_numbers_of_a_text_file_are_names(scan_csv):
    found = scan_csv({"label": ["10", "0", "7", "0"]})
    assert names_of(found) == ["10", "0", "7", "0"]
    assert sorted(found.class_names) == ["0", "10", "7"]
    assert not found.has_numbered_classes


@pytest.mark.parametrize("dtype", [pa.int8(), pa.int64(), pa.uint16(), pa.uint64()])
def test_whole_numbers_of_typed_tables_number_the_classes(scan_table, dtype):
    found = scan_table(pa.array([3, 0, 3], dtype))
    assert found.labels.tolist() == [3, 0, 3]
    assert found.labels.dtype == np.int32
    assert found.class_names == ("0", "1", "2", "3")
    assert found.has_numbered_classes


def test_truth_values_name_two_classes(scan_table):
    assert names_of(scan_table([True, False, True])) == ["true", "false", "true"]


def test_categories_are_text(scan_table):
    assert names_of(scan_table(pa.array(["x", "y", "x"]).dictionary_encode())) == ["x", "y", "x"]


def test_names_are_in_normal_form(scan_csv):
    assert scan_csv({"label": ["e\u0301"]}).class_names == ("é",)


def test_names_that_are_equal_after_normalisation_are_refused(scan_csv):
    with pytest.raises(SourceError, match=r"t\.csv, column 'label': 2 class names are equal .*'é'"):
        scan_csv({"label": ["e\u0301", "é"]})


def test_numbers_in_two_spellings_are_named_with_both_rows(scan_csv, scan_table, root):
    with pytest.raises(
        SourceError,
        match=r"^t\.csv line 4, column 'label': expected one spelling for each number, got '1\.0' "
        r"beside '1' of line 3\. Write both alike, or pass label_kind=\"value\" if they are no cla",
    ):
        scan_csv({"label": ["2", "1", "1.0"]})
    with pytest.raises(
        SourceError, match=r"line 5, column 'label': .*got '01' beside '1' of line 2"
    ):
        scan_csv({"label": ["1", "2", "x", "01"]})
    with pytest.raises(
        SourceError, match=r"row 2, column 'label': .*got '1\.0' beside '1' of row 1"
    ):
        scan_table(["1", "1.0", "x"])
    rows = [{"path": "a.png", "label": 1}, {"path": "b.png", "label": 1.0}]
    images.put(root / "t.jsonl", "\n".join(json.dumps(row) for row in rows))
    with pytest.raises(
        SourceError, match=r"t\.jsonl line 2, column 'label': .*'1\.0' beside '1' of"
    ):
        Manifest(root / "t.jsonl").scan()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, -1, 0], r"^table row 2, column 'label': expected a class number from 0 to 9,999,999, "
         r"got -1\. Correct it"),
        ([1, 10_000_000], r"row 2, column 'label': expected a class number .*, got 10000000"),
        ([1, None, 2], r"row 2, column 'label': expected a class number, got an empty cell"),
        (pa.array([2**64 - 1], pa.uint64()), r"row 1, column 'label': .*got 18446744073709551615"),
        ([None, None], r"row 1, column 'label': expected the name of a class, got an empty cell"),
        (["x", ""], r"row 2, column 'label': expected the name of a class, got an empty cell"),
        (["x", "y\nz"], r"row 2, column 'label': a class's name must not .*got 'y\\nz'"),
        ([b"x"], r"column 'label': expected the names or numbers of classes, got binary"),
        ([{"a": 1}], r"column 'label': expected the names or numbers of classes, got struct"),
        ([1.0, 2.0], r"^table, column 'label': expected names or whole numbers of classes, got "
         r"numbers with a decimal point\. For values \(regression\) pass label_kind=\"value\""),
    ],
)  # fmt: skip
def test_labels_that_are_no_classes_are_refused(scan_table, values, message):
    with pytest.raises(SourceError, match=message):
        scan_table(values)


def test_fractions_are_no_classes(scan_table):
    with pytest.raises(
        SourceError, match=r"expected names or whole numbers of classes, got numbers"
    ):
        scan_table([0.5, 1.5], label_kind="single")


def test_whole_numbers_with_a_decimal_point_may_be_both(scan_csv):
    labels = {"label": ["2.0", "1.0"]}
    with pytest.raises(
        SourceError, match=r"t\.csv, column 'label': .*a decimal point such as '2\.0'\. For values"
    ):
        scan_csv(labels)
    assert names_of(scan_csv(labels, label_kind="single")) == ["2.0", "1.0"]
    assert scan_csv(labels, label_kind="value").labels.tolist() == [2, 1]


# Values


def test_numbers_that_are_not_whole_are_values_with_a_note(scan_csv, scan_table):
    for found in (scan_csv({"label": ["1", "0.5", "1.0"]}), scan_table([1, 0.5, 1.0])):
        assert found.label_kind == "value"
        assert found.labels.tolist() == [1, 0.5, 1]
        assert found.labels.dtype == np.float32
        assert found.class_names == ()
        assert "are read as values (regression), because they are numbers" in found.notes[1]
    named = scan_csv({"label": ["1.1", "0.5"]}, label_kind="single")
    assert names_of(named) == ["1.1", "0.5"]


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3],
        pa.array([1, 2, 3], pa.uint8()),
        ["1", " 2 ", "+3"],
        pa.array([1, 2, 3], pa.float32()),
        pa.array([1, 2, 3], pa.decimal128(5, 2)),
    ],
)
def test_values_of_all_numbers(scan_table, values):
    assert scan_table(values, label_kind="value").labels.tolist() == [1, 2, 3]


def test_truth_values_are_values_too(scan_table):
    assert scan_table([True, False], label_kind="value").labels.tolist() == [1, 0]


@pytest.mark.parametrize("cell", ["", "high", "nan", "inf", "1e39", "0,5", "1_0"])
def test_what_is_no_number_is_named_by_row_and_column(scan_csv, cell):
    got = "an empty cell" if not cell else f"'{cell}'"
    with pytest.raises(
        SourceError,
        match=rf"^t\.csv line 3, column 'label': expected a number, got {got}\. Correct",
    ):
        scan_csv({"label": ["1", cell, "2"]}, label_kind="value")


def test_empty_values_of_typed_tables_are_named(scan_table):
    for values in ([0.5, float("nan")], [0.5, None]):
        with pytest.raises(SourceError, match=r"row 2, column 'label': expected a number, got "):
            scan_table(values)
    with pytest.raises(
        SourceError, match=r"row 1, column 'label': expected a number, got an empty"
    ):
        scan_table([None], label_kind="value")
    with pytest.raises(SourceError, match=r"column 'label': expected numbers, got timestamp"):
        scan_table(pa.array([0], pa.timestamp("s")), label_kind="value")


def test_several_columns_of_numbers_are_vectors(scan_csv):
    columns = {"x": ["0.5", "1"], "y": ["2", "-3"]}
    found = scan_csv(columns, label=["y", "x"])
    assert found.labels.tolist() == [[2, 0.5], [-3, 1]]
    assert found.labels.dtype == np.float32
    assert "the labels are read as vectors of 2 values, because" in found.notes[1]
    found = scan_csv({"x": ["0", "1"], "y": ["1", "0"]}, label=["x", "y"], label_kind="value")
    assert found.labels.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(
        SourceError, match=r"t\.csv line 3, column 'y': expected a number, got 'up'"
    ):
        scan_csv({"x": ["0.5", "1"], "y": ["2", "up"]}, label=["x", "y"])


@pytest.mark.parametrize(
    "values",
    [
        [[0.5, 1], [2, 3]],
        pa.array([[0.5, 1], [2, 3]], pa.list_(pa.float32(), 2)),
        pa.chunked_array([[[0.5, 1.0]], [[2.0, 3.0]]]).combine_chunks(),
    ],
)
def test_lists_of_numbers_are_vectors(scan_table, values):
    found = scan_table(values)
    assert (found.label_kind, found.labels.tolist()) == ("value", [[0.5, 1], [2, 3]])
    assert found.notes[1] == "table: the labels of column 'label' are read as vectors of 2 values."
    assert scan_table([[1, 2]], label_kind="value").labels.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [[0.5, 1.0], [2.0]],
            r"row 2, column 'label': expected 2 numbers as in row 1, got 1\. Make",
        ),
        ([[0.5], None], r"row 2, column 'label': expected 1 numbers as in row 1, got 0"),
        ([[], [0.5]], r"row 1, column 'label': expected numbers, got 0"),
        ([[0.5, None]], r"row 1, column 'label': expected numbers, got None"),
        ([[0.5], [float("nan")]], r"row 2, column 'label': expected numbers, got nan"),
    ],
)
def test_vectors_must_be_whole(scan_table, values, message):
    with pytest.raises(SourceError, match=message):
        scan_table(values)


def test_vectors_of_far_too_many_numbers_are_refused(scan_table, monkeypatch):
    monkeypatch.setattr(table_label_lists, "_MAX_VALUES", 3)
    assert scan_table([[0.5, 1, 2]]).labels.shape == (1, 3)
    with pytest.raises(
        SourceError, match=r"column 'label': expected at most 3 numbers a row, got 4"
    ):
        scan_table([[0.5, 1, 2, 3]])


def test_vectors_of_text_are_refused(scan_table):
    with pytest.raises(
        SourceError, match=r"expected lists of numbers, got lists of large_string|string"
    ):
        scan_table([["a"]], label_kind="value")


# Several classes


@pytest.mark.parametrize("separator", [";", "|", " / "])
def test_separator_makes_several_classes_of_one_cell(scan_csv, separator):
    cells = [["b", "a"], [], ["a"], ["c", "a", "c"]]
    found = scan_csv({"label": [separator.join(own) for own in cells]}, separator=separator)
    assert found.label_kind == "multi"
    assert [set(names) for names in names_of(found)] == [{"a", "b"}, set(), {"a"}, {"a", "c"}]
    assert not found.has_numbered_classes


def test_numbers_of_a_row_rise_and_stand_once(scan_csv):
    labels = scan_csv({"label": ["a;b;c", "c;b;a;b", "", "b"]}, separator=";").labels
    assert labels.numbers.tolist() == [0, 1, 2, 0, 1, 2, 1]
    assert labels.offsets.tolist() == [0, 3, 6, 6, 7]
    assert (labels.numbers.dtype, labels.offsets.dtype) == (np.int32, np.uint64)


def test_spaces_and_empty_parts_between_separators_mean_nothing(scan_csv):
    found = scan_csv({"label": ["a; b ;", ";;", " ", "b"]}, separator=";")
    assert names_of(found) == [["a", "b"], [], [], ["b"]]


@pytest.mark.parametrize("separator", [";", "|", ", "])
def test_classes_that_look_like_several_are_noted(scan_csv, separator):
    cells = ["a", f"b{separator}a", "b", "c"]
    (note,) = (note for note in scan_csv({"label": cells}).notes if "classes such as" in note)
    assert f"classes such as 'b{separator}a'. If" in note
    assert f"pass separator={separator.strip()!r}." in note
    for arguments in ({"label_kind": "single"}, {"separator": separator.strip()}):
        assert "classes such as" not in str(scan_csv({"label": cells}, **arguments).notes)
    cells[0], cells[2] = "x", "y"  # nothing says that "a" and "b" are classes
    assert "classes such as" not in str(scan_csv({"label": cells}).notes)


def test_one_class_a_cell_without_a_separator(scan_csv, scan_table):
    found = scan_csv({"label": ["b", "a", "", "b"]}, label_kind="multi")
    assert names_of(found) == [["b"], ["a"], [], ["b"]]
    found = scan_table([2, None, 0], label_kind="multi")
    assert names_of(found) == [["2"], [], ["0"]]
    assert found.class_names == ("0", "1", "2")
    assert found.has_numbered_classes
    with pytest.raises(
        SourceError, match=r"expected names or whole numbers of classes, got double"
    ):
        scan_table([0.5], label_kind="multi")


@pytest.mark.parametrize(
    "values",
    [
        [["b", "a"], [], None, ["a", None]],
        pa.array([["b", "a"], [], None, ["a", None]], pa.large_list(pa.string())),
        pa.array([["b", "a"], [], None, ["a", ""]], pa.list_(pa.large_string())),
        pa.array([["b", "a"], [], None, ["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    ],
)
def test_lists_of_names(scan_table, values):
    found = scan_table(values)
    assert [set(names) for names in names_of(found)] == [{"a", "b"}, set(), set(), {"a"}]
    assert found.label_kind == "multi"


def test_lists_of_numbers_of_classes(scan_table):
    found = scan_table([[3, 0], [], [0]])
    assert found.class_names == ("0", "1", "2", "3")
    assert found.has_numbered_classes
    assert names_of(found) == [["0", "3"], [], ["0"]]
    with pytest.raises(SourceError, match=r"row 3, column 'label': .*from 0 to 9,999,999, got -1"):
        scan_table([[3, 0], [], [0, -1]])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0, 1, 0], [1, 1, 0]], r"column 'label': expected lists of the classes' numbers, got "
         r"lists of 3 zeros and ones\. Give each class a column of its own"),
        ([[], None], r"column 'label': expected classes in at least one row, found none"),
        ([[[1]]], r"column 'label': expected lists of the classes' names or numbers, got lists of"),
        ([[True, False]], r"column 'label': expected lists of .*, got lists of bool\. For one col"),
        ([["a"], ["b\n "], ["1\n2"]], r"row 3, column 'label': a class's name must not .*'1\\n2'"),
        ([["a"], ["1", "1.0"]], r"row 2, column 'label': expected one spelling .*'1\.0' beside '1"),
    ],
)  # fmt: skip
def test_lists_that_are_no_classes_are_refused(scan_table, values, message):
    with pytest.raises(SourceError, match=message):
        scan_table(values)


def test_vectors_asked_to_be_classes_are_refused(scan_table):
    with pytest.raises(SourceError, match=r"got lists of double\. For one column for each class"):
        scan_table([[0.5]], label_kind="multi")


def test_lists_are_no_single_classes_and_numbers_hold_no_separator(scan_table):
    with pytest.raises(
        SourceError, match=r"expected one class a row for label_kind='single', got li"
    ):
        scan_table([["a"]], label_kind="single")
    with pytest.raises(
        SourceError, match=r"expected text that ';' separates, got int64\. Leave out"
    ):
        scan_table([1], separator=";")


@pytest.mark.parametrize(
    ("on", "off"), [("1", "0"), ("1.0", "0.0"), ("true", "false"), ("True", ""), ("1", " ")]
)
def test_a_column_for_each_class_in_text(scan_csv, on, off):
    columns = {"b": [on, off, off, on], "a": [off, off, on, on]}
    found = scan_csv(columns, label=["b", "a"])
    assert found.class_names == ("b", "a")
    assert names_of(found) == [["b"], [], ["a"], ["b", "a"]]
    assert "the labels are read as any number of 2 classes, a column for each." in found.notes[1]


@pytest.mark.parametrize(
    ("on", "off"), [(1, 0), (1.0, 0.0), (True, False), (1.0, float("nan")), (1, None)]
)
def test_a_column_for_each_class_in_numbers(root, on, off):
    table = pd.DataFrame({"path": NAMES, "a": [on, off, off, on], "b": [off, off, on, on]})
    found = Manifest(table, root=root, label=["a", "b"], label_kind="multi").scan()
    assert names_of(found) == [["a"], [], ["b"], ["a", "b"]]


def test_columns_for_classes_hold_only_ones_and_zeros(scan_csv):
    columns = {"a": ["1", "0"], "b": ["0", "-1"]}
    with pytest.raises(
        SourceError,
        match=r"t\.csv line 3, column 'b': expected 1 or 0, got '-1'\. Correct it, or pa",
    ):
        scan_csv(columns, label=["a", "b"], label_kind="multi")


def test_columns_of_which_one_is_1_are_a_single_class_where_the_user_says_so(scan_csv):
    columns = {"b": ["1.0", "0.0", "0.0"], "a": ["0.0", "1.0", "1.0"]}
    found = scan_csv(columns, label=["b", "a"], label_kind="single")
    assert names_of(found) == ["b", "a", "a"]
    assert found.labels.dtype == np.int32
    columns["b"][2], columns["a"][1] = "1", "0"
    with pytest.raises(
        SourceError,
        match=r"t\.csv line 3, column 'b': expected 1 in exactly one of the 2 columns of the "
        r"classes, got it in 0\. .* So are line 4 \(it in 2\); 2 in all",
    ):
        scan_csv(columns, label=["b", "a"], label_kind="single")


def test_columns_of_lists_are_no_columns_for_classes(root):
    table = pa.table({"path": NAMES[:1], "a": [[1]], "b": [0]})
    with pytest.raises(SourceError, match=r"table row 1, column 'a': expected 1 or 0, got \[1\]"):
        Manifest(table, root=root, label=["a", "b"], label_kind="multi").scan()
    with pytest.raises(SourceError, match=r"table, column 'a': expected numbers, got list"):
        Manifest(table, root=root, label=["a", "b"]).scan()


def test_names_of_columns_must_be_names_of_classes(root):
    table = pd.DataFrame({"path": NAMES[:1], " a": [1], "b": [0]})
    with pytest.raises(SourceError, match=r"DataFrame, column ' a': a class's name must not"):
        Manifest(table, root=root, label=[" a", "b"]).scan()
