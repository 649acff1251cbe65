import datetime

import images
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tfrds.errors import ConfigError, SourceError
from tfrds.write.sources.manifest import Manifest

NAMES = ["a.png", "b.png", "c.png"]


@pytest.fixture
def root(tmp_path):
    return images.put_images(tmp_path / "source", NAMES)


@pytest.fixture
def scan_csv(root):
    def scan(columns, /, **arguments):
        table = pd.DataFrame({"path": NAMES, "label": "x", **columns})
        table.to_csv(root / "t.csv", index=False)
        return Manifest(root / "t.csv", **arguments).scan()

    return scan


@pytest.fixture
def scan_table(root):
    def scan(columns, /, **arguments):
        return Manifest(
            pa.table({"path": NAMES, "label": ["x"] * 3, **columns}), root=root, **arguments
        ).scan()

    return scan


def only(references):
    """Returns (dtype, values) of the one extra column; text as text, NaN as None."""
    (column,) = references.columns
    values = [column.value(row) for row in range(3)]
    plain = [value.decode() if isinstance(value, bytes) else value for value in values]
    return column.spec.dtype, [None if value != value else value for value in plain]


BIG = 2**24 + 1


@pytest.mark.parametrize(
    ("cells", "dtype", "values"),
    [
        (["1", "-20", "0"], "int64", [1, -20, 0]),
        ([str(2**63 - 1), "0", str(-(2**63))], "int64", [2**63 - 1, 0, -(2**63)]),
        ([str(2**63), "0", "1"], "string", [str(2**63), "0", "1"]),
        (["1", "", "3"], "float32", [1, None, 3]),
        ([str(BIG), "", "3"], "string", [str(BIG), "", "3"]),
        (["1.5", "-2", "1e3"], "float32", [1.5, -2, 1000]),
        ([".5", "5.", ""], "float32", [0.5, 5, None]),
        (["1.5", "nan", "NaN"], "float32", [1.5, None, None]),
        (["nan", "nan", ""], "string", ["nan", "nan", ""]),
        (["1.5", "1e39", "2"], "string", ["1.5", "1e39", "2"]),
        (["007", "008", "009"], "string", ["007", "008", "009"]),
        (["1", "-0", "2"], "float32", [1, 0, 2]),
        (["0x10", "1", "2"], "string", ["0x10", "1", "2"]),
        (["1,5", "2,5", "3"], "string", ["1,5", "2,5", "3"]),
        (["true", "False", "TRUE"], "bool", [True, False, True]),
        (["true", "", "false"], "string", ["true", "", "false"]),
        (["true", "1", "0"], "string", ["true", "1", "0"]),
        (["yes", "no", "yes"], "string", ["yes", "no", "yes"]),
        (["é ", "two\nlines", ""], "string", ["é ", "two\nlines", ""]),
        (["2020-01-31", "", ""], "string", ["2020-01-31", "", ""]),
    ],
)
def test_types_of_text_are_those_of_all_its_cells(scan_csv, cells, dtype, values):
    assert only(scan_csv({"extra": cells})) == (dtype, values)


def test_text_of_typed_tables_stays_text(scan_table):
    assert only(scan_table({"extra": ["1", "2", "3"]})) == ("string", ["1", "2", "3"])


@pytest.mark.parametrize(
    ("array", "dtype", "values"),
    [
        *((pa.array([1, 2, 3], own), str(own), [1, 2, 3])
          for own in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
                      pa.uint32())),
        (pa.array([1, 2, 3], pa.uint64()), "int64", [1, 2, 3]),
        (pa.array([1, None, 3], pa.int64()), "float32", [1, None, 3]),
        (pa.array([1.5, None, 3], pa.float64()), "float32", [1.5, None, 3]),
        (pa.array([1.5, 2, 3], pa.float32()), "float32", [1.5, 2, 3]),
        (pa.array([1.5, 2, 3], pa.float16()), "float32", [1.5, 2, 3]),
        (pa.array([True, False, True]), "bool", [True, False, True]),
        (pa.array(["a", None, "é"]), "string", ["a", "", "é"]),
        (pa.array(["", "", ""]), "string", ["", "", ""]),
        (pa.chunked_array([["a"], [], ["bc", None]]), "string", ["a", "bc", ""]),
        (pa.chunked_array([["abc", "d", "e", "f"]]).slice(1), "string", ["d", "e", "f"]),
        (pa.array(["a", "b", "a"], pa.string_view()), "string", ["a", "b", "a"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "string", ["a", "b", "a"]),
        (pa.array([1, 2, 1]).dictionary_encode(), "int64", [1, 2, 1]),
    ],
)  # fmt: skip
def test_types_of_tables_are_kept(scan_table, array, dtype, values):
    assert only(scan_table({"extra": array})) == (dtype, values)


def test_what_became_of_values_is_noted(scan_table, scan_csv):
    notes = scan_table(
        {"a": pa.array([1.5, None, 2]), "b": ["x", None, None], "c": pa.array([1, None, 3])}
    ).notes
    assert notes[1:] == (
        "table: column 'a': 1 empty cells are NaN.",
        "table: column 'b': 2 empty cells are empty text.",
        "table: column 'c': 1 empty cells are NaN.",
        "table: columns of float64 are kept as float32: 'a'.",
    )
    assert scan_csv({"a": ["x", "", ""]}).notes[1:] == ()


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (pa.array([BIG, None, 3]), r"whole numbers that float32 does not hold exactly, and none in "
         r"row 2"),
        (pa.array([True, False, None]), r"truth values, and none in row 3"),
        (pa.array([2**63, 1, 2], pa.uint64()), r"whole numbers up to 9,223,372,036,854,775,808, "
         r"more than int64 holds"),
        (pa.array([1.0, 1e39, 2.0]), r"more than float32 holds, 1e\+39 in row 2"),
        (pa.array([None, None, None]), r"it holds nothing"),
        (pa.array([None, None, None], pa.string()), r"it holds nothing"),
        (pa.array([datetime.datetime(2020, 1, 1)] * 3), r"features hold numbers, truth values and t"
         r"ext, got timestamp\[us\]"),
        (pa.array([[1], [2, 3], []]), r"features hold .*, got list<.*: int64>"),
        (pa.array([{"a": 1}] * 3), r"features hold .*, got struct<a: int64>"),
        (pa.array([1, 2, 3]).cast(pa.decimal128(25, 2)),
         r"features hold .*, got decimal128\(25, 2\)"),
    ],
)  # fmt: skip
def test_what_no_feature_holds_is_left_out_unless_it_was_asked_for(scan_table, array, reason):
    found = scan_table({"extra": array})
    assert found.columns == ()
    (note,) = found.notes[1:]
    with pytest.raises(AssertionError, match=rf"table: column 'extra' is left out: {reason}\."):
        raise AssertionError(note)
    for columns in (["extra"], {"extra": "other"}):
        with pytest.raises(
            SourceError,
            match=rf"table, column 'extra': {reason}\. Convert it, or leave it out of c",
        ):
            scan_table({"extra": array}, columns=columns)


def test_empty_columns_of_text_are_left_out(scan_csv):
    found = scan_csv({"extra": ["", "", ""]})
    assert found.notes[1:] == ("t.csv: column 'extra' is left out: every cell is empty.",)


def test_bytes_are_left_out_unless_they_were_asked_for(scan_table):
    found = scan_table({"mask": [b"1", b"2", b"3"]})
    assert found.columns == ()
    assert found.notes[1:] == ("table: columns of bytes left out: 'mask'.",)
    with pytest.raises(SourceError, match=r"column 'mask': features hold numbers, .*, got bytes"):
        scan_table({"mask": [b"1", b"2", b"3"]}, columns=["mask"])


def test_columns_are_chosen_and_renamed(scan_csv):
    columns = {"age": ["1", "2", "3"], "sex": ["m", "f", "f"], "city": ["x", "y", "z"]}

    def names(**arguments):
        return [column.spec.name for column in scan_csv(columns, **arguments).columns]

    assert names() == ["age", "sex", "city"]
    assert names(columns=()) == []
    assert names(columns=["city", "age"]) == ["city", "age"]
    assert names(columns={"city": "town"}) == ["town"]
    # A column may be a label and a feature.
    assert names(columns=["city"], label="city") == ["city"]


def test_names_that_would_be_one_feature_are_left_out_but_for_the_first(scan_csv):
    found = scan_csv({"a b": ["1", "2", "3"], "a-b": ["4", "5", "6"]})
    assert only(found) == ("int64", [1, 2, 3])
    assert "no feature can have their names: 'a-b'. Keep one by" in found.notes[1]


def test_names_that_no_feature_can_have_are_changed_with_a_note(scan_csv):
    found = scan_csv({"Patient ID": ["1", "2", "3"], "x (mm)": ["1", "2", "3"]})
    assert [column.spec.name for column in found.columns] == ["Patient_ID", "x_mm"]
    assert found.notes[1:] == (
        "t.csv: columns kept under other names: 'Patient ID' as 'Patient_ID', 'x (mm)' as 'x_mm'.",
    )
    found = scan_csv({"名前": ["1", "2", "3"], "image": ["1", "2", "3"], "key": ["1", "2", "3"]})
    assert found.columns == ()
    assert found.notes[1:] == (
        "t.csv: columns left out, since no feature can have their names: '名前', 'image', 'key'. "
        "Keep one by columns={'名前': ...}.",
    )


@pytest.mark.parametrize(
    ("columns", "arguments", "message"),
    [
        (
            ["名前"],
            ["名前"],
            r"columns: a feature's name is .*got '' for the column '名前'\. Pass col",
        ),
        (["a"], {"a": "b c"}, r"columns: a feature's name is .*got 'b c' for the column 'a'"),
        (["a"], {"a": 3}, r"columns: a feature's name is .*got 3 for the column 'a'"),
        (
            ["a b", "a-b"],
            ["a b", "a-b"],
            r"columns: 'a b' and 'a-b' would both be the feature 'a_b'\. Pass co",
        ),
        (["a", "b"], {"a": "c", "b": "c"}, r"'a' and 'b' would both be the feature 'c'"),
    ],
)
def test_names_of_features_are_checked(scan_csv, columns, arguments, message):
    cells = {name: ["1", "2", "3"] for name in columns}
    with pytest.raises(ConfigError, match=message):
        scan_csv(cells, columns=arguments)


def test_columns_of_several_files_are_joined(tmp_path):
    for number, ages in enumerate(([1, 2], [3.5, 4.0])):
        folder = images.put_images(tmp_path / f"part{number}", ["a.png", "b.png"])
        table = pd.DataFrame({"path": ["a.png", "b.png"], "label": "x", "age": ages})
        table.to_parquet(folder / "t.parquet")
    found = Manifest([tmp_path / "part1/t.parquet", tmp_path / "part0/t.parquet"]).scan()
    assert [key.decode() for key in found.keys] == [
        "part0/a.png", "part0/b.png", "part1/a.png", "part1/b.png"
    ]  # fmt: skip
    assert found.columns[0].values.tolist() == [1, 2, 3.5, 4]
    pd.DataFrame({"path": ["a.png"], "label": "x", "age": ["old"]}).to_parquet(
        tmp_path / "part1/t.parquet"
    )
    with pytest.raises(SourceError, match=r"expected the same types in all files: .*age"):
        Manifest([tmp_path / "part1/t.parquet", tmp_path / "part0/t.parquet"]).scan()


def test_values_stand_beside_their_images(scan_csv):
    found = scan_csv({"number": ["10", "20", "30"]})
    (column,) = found.columns
    assert column.take(np.array([2, 0])).values.tolist() == [30, 10]
