import os
import pickle

import images
import numpy as np
import pytest

from tfrds.disk.index import (
    JPEG,
    PNG,
    RAW,
    ROW,
    map_array,
    open_index,
    open_labelled_index,
    write_array,
    write_parts,
)
from tfrds.errors import DatasetError

# FORMAT.md, "Index": the fields in order, each by its offset in the row.
FIELDS = {
    "offset": ("<u8", 0),
    "length": ("<u4", 8),
    "image_offset": ("<u4", 12),
    "image_length": ("<u4", 16),
    "height": ("<u4", 20),
    "width": ("<u4", 24),
    "label": ("<i4", 28),
    "encoding": ("|u1", 32),
    "channels": ("|u1", 33),
    "flags": ("<u2", 34),
    "content": ("|V16", 36),
    "reserved": ("|V12", 52),
}


class TouchOnUnpickle:
    """Leaves a file behind if it is ever unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def npy(header, body=b""):
    """Returns a `.npy` file with any header, valid or not."""
    text = header.encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def test_row_has_the_layout_of_the_format():
    assert {name: (dtype.str, offset) for name, (dtype, offset) in ROW.fields.items()} == FIELDS
    assert list(ROW.names) == list(FIELDS)
    assert ROW.itemsize == 64


def test_encodings_and_missing_label_have_the_numbers_of_the_format():
    assert (RAW, JPEG, PNG) == (1, 2, 3)


def test_written_row_has_little_endian_fields_at_their_places(tmp_path):
    rows = np.zeros(2, ROW)
    rows[1] = (1 << 40, 2, 3, 4, 5, 6, -1, 2, 3, 7, bytes(range(16)), bytes(12))
    write_array(tmp_path / "index.npy", rows)
    written = (tmp_path / "index.npy").read_bytes()
    assert written[:8] == b"\x93NUMPY\x01\x00"
    assert len(written) % 64 == 0
    assert written[-64:].hex() == (
        "0000000000010000 02000000 03000000 04000000 05000000 06000000 ffffffff 02 03 0700"
        "000102030405060708090a0b0c0d0e0f 000000000000000000000000"
    ).replace(" ", "")


def test_same_values_give_the_same_bytes_whatever_their_memory_layout(tmp_path):
    values = np.arange(20, dtype="<u8")
    for number, array in enumerate(
        [values, np.repeat(values, 2)[::2], values.astype(">u8").astype("<u8")]
    ):
        write_array(tmp_path / f"{number}.npy", array)
    assert len(set(images.files_below(tmp_path).values())) == 1


def test_mapped_array_is_read_only_and_equal(tmp_path):
    values = np.array([3, 1, 2**63], "<u8")
    write_array(tmp_path / "a.npy", values)
    mapped = map_array(tmp_path / "a.npy", np.dtype("<u8"), 3)
    assert isinstance(mapped, np.memmap)
    assert mapped.tolist() == [3, 1, 2**63]
    with pytest.raises(ValueError, match="read-only"):
        mapped[0] = 1


def test_index_of_several_shards_has_the_sum_of_their_lengths(tmp_path):
    write_array(tmp_path / "i.npy", np.zeros(7, ROW))
    assert len(open_index(tmp_path / "i.npy", [4, 0, 3])) == 7
    with pytest.raises(DatasetError, match=r"i\.npy: expected 8 elements of .* found \(7,\)"):
        open_index(tmp_path / "i.npy", [4, 4])


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.zeros(3, "<u4"), r"found \(3,\) of uint32"),
        (np.zeros(3, ">u8"), r"found \(3,\) of >u8"),
        (np.zeros((3, 1), "<u8"), r"found \(3, 1\) of uint64"),
        (np.zeros((), "<u8"), r"found \(\) of uint64"),
        (np.zeros(4, "<u8"), r"expected 3 elements of uint64, found \(4,\)"),
    ],
)
def test_array_of_other_type_or_shape_is_refused(tmp_path, array, found):
    write_array(tmp_path / "a.npy", array)
    with pytest.raises(DatasetError, match=found):
        map_array(tmp_path / "a.npy", np.dtype("<u8"), 3)


def test_any_length_is_named_in_the_message(tmp_path):
    write_array(tmp_path / "a.npy", np.zeros((2, 2), "<u8"))
    with pytest.raises(DatasetError, match="expected any number of elements of uint64"):
        map_array(tmp_path / "a.npy", np.dtype("<u8"), None)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(
        DatasetError, match=r"gone\.npy: cannot be opened as an array of .*No such file"
    ):
        map_array(tmp_path / "gone.npy", ROW, 1)


@pytest.mark.parametrize("kept", [0, 1, 5, 9, 64, 200, 300, -1])
def test_cut_off_file_is_refused(tmp_path, kept):
    write_array(tmp_path / "a.npy", np.zeros(3, ROW))
    data = (tmp_path / "a.npy").read_bytes()
    images.put(tmp_path / "a.npy", data[:kept])
    with pytest.raises(DatasetError, match=r"a\.npy: cannot be opened"):
        map_array(tmp_path / "a.npy", ROW, 3)


def test_pickled_array_is_refused_and_not_executed(tmp_path):
    trap = tmp_path / "executed"
    objects = np.array([TouchOnUnpickle(trap)], object)
    np.save(tmp_path / "objects.npy", objects, allow_pickle=True)
    images.put(tmp_path / "pickle.npy", pickle.dumps(TouchOnUnpickle(trap)))
    for name in ("objects.npy", "pickle.npy"):
        with pytest.raises(DatasetError, match=f"{name}: cannot be opened"):
            map_array(tmp_path / name, ROW, 1)
    assert not trap.exists()


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-5,), }",
        f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({2**62},), }}",
        f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({2**70},), }}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (True,), }",
        "{'descr': (('a',),), 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '|V99999999999999999', 'fortran_order': False, 'shape': (1,), }",
        "{[]: 1}",
        "(",
        "'''",
        "__import__('os')",
        "-" * 9000 + "1",
        "[" * 9000,
        " " * 60_000,
    ],
    ids=lambda header: header[:50].strip() or "spaces",
)
def test_hostile_header_is_refused(tmp_path, header):
    images.put(tmp_path / "a.npy", npy(header, bytes(10)))
    with pytest.raises(DatasetError, match=r"a\.npy"):
        map_array(tmp_path / "a.npy", np.dtype("u1"), None)


def test_parts_make_the_same_file_as_one_array(tmp_path):
    rows = np.zeros(7, ROW)
    rows["offset"] = np.arange(7)
    write_array(tmp_path / "one.npy", rows)
    write_parts(tmp_path / "parts.npy", [rows[:3], rows[3:3], rows[3:]])
    assert (tmp_path / "parts.npy").read_bytes() == (tmp_path / "one.npy").read_bytes()


@pytest.mark.parametrize(("label", "found"), [(-1, "-1 to 0"), (3, "0 to 3")])
def test_labels_that_are_no_class_numbers_are_refused(tmp_path, label, found):
    rows = np.zeros(4, ROW)
    write_array(tmp_path / "a.npy", rows)
    assert len(open_labelled_index(tmp_path / "a.npy", [1, 3], range(3))) == 4
    rows["label"][2] = label
    write_array(tmp_path / "a.npy", rows)
    with pytest.raises(DatasetError, match=f"class numbers from 0 to 2, found {found}"):
        open_labelled_index(tmp_path / "a.npy", [1, 3], range(3))
