import pathlib

import pytest

from tfrds.tools import text
from tfrds.tools.demo_result import DemoResult
from tfrds.tools.info import DatasetSummary, SplitSummary
from tfrds.tools.verify import VerifyResult
from tfrds.tools.verify_shard import Fault


def summary(**changed):
    return DatasetSummary(
        **{
            "name": "pets",
            "version": "1.0.0",
            "config": None,
            "directory": pathlib.Path("/data/pets/1.0.0"),
            "digest": "ab12",
            "encoding": "original",
            "image_shape": (None, None, 3),
            "dtype": "float32",
            "channels": 3,
            "label_kind": "single",
            "num_classes": 2,
            "class_names": ("cat", "dog"),
            "columns": {},
            "splits": {
                "train": SplitSummary(
                    num_examples=1200, class_counts=(1000, 200), num_shards=3, num_bytes=2_345_678
                )
            },
            "total_bytes": 2_500_000,
            "skipped": {},
            "repaired": 0,
            "duplicates": 0,
            "label_conflicts": 0,
            "leaks": 0,
            "left_out": {},
            "source_kind": "folder",
            "load_line": 'tfrds.load("pets")',
            **changed,
        }
    )


def test_summary_in_lines():
    assert text.summary_lines(summary(config="small", repaired=1, left_out={".txt": 2})) == [
        "pets/small 1.0.0",
        "  directory  /data/pets/1.0.0",
        "  image      sizes vary, 3 channels, stored original, read as float32",
        "  classes    2",
        "  examples   1,200",
        "  on disk    2.5 MB",
        "  left out   .txt 2",
        "  repaired   1 image",
        "  source     folder",
        "  digest     ab12",
        "",
        "  split  examples  shards   bytes",
        "  train     1,200       3  2.3 MB",
        "",
        "  class  name  train",
        "  0      cat   1,000",
        "  1      dog     200",
        "",
        "Load it:",
        "  import tfrds",
        '  dataset = tfrds.load("pets")',
    ]


def test_what_did_not_happen_has_no_line():
    lines = "\n".join(text.summary_lines(summary()))
    assert "left out" not in lines
    assert "repaired" not in lines


def test_built_in_a_line():
    assert text.built_lines(summary(), 0.5)[0] == (
        "Built 1,200 examples in 0.5 s, 2,400 images per second."
    )


@pytest.mark.parametrize(
    ("num_bytes", "shown"),
    [
        (0, "0.0 kB"),
        (1_234, "1.2 kB"),
        (999_900, "999.9 kB"),
        (12_345_678, "12.3 MB"),
        (5_000_000_000, "5.0 GB"),
        (1_234_000_000_000_000, "1,234.0 TB"),
    ],
)
def test_bytes_have_a_unit(num_bytes, shown):
    assert f"  on disk    {shown}" in text.summary_lines(summary(total_bytes=num_bytes))


def test_a_result_of_the_demo_is_json():
    result = DemoResult(
        num_built=1200,
        built_per_second=None,
        read_per_second=5.0,
        epochs=2,
        train_seconds=1.5,
        test_accuracy=0.5,
        directory=pathlib.Path("/data"),
        load_line="x",
    )
    assert result.to_dict() == {
        "num_built": 1200,
        "built_per_second": None,
        "read_per_second": 5.0,
        "epochs": 2,
        "train_seconds": 1.5,
        "test_accuracy": 0.5,
        "directory": "/data",
        "load_line": "x",
    }


def verified(**changed):
    return VerifyResult(
        **{
            "directory": pathlib.Path("/data/pets/1.0.0"),
            "name": "pets",
            "version": "1.0.0",
            "digest": "ab12",
            "num_examples": 1200,
            "num_shards": 3,
            "num_bytes": 2_345_678,
            "faults": (),
            "num_faults": 0,
            "is_fast": False,
            **changed,
        }
    )


def test_a_whole_dataset_in_lines():
    assert text.verify_lines(verified(is_fast=True)) == [
        "pets 1.0.0: whole; checked hashes of all files",
        "  directory  /data/pets/1.0.0",
        "  examples   1,200",
        "  shards     3, 2.3 MB",
        "  digest     ab12",
    ]


def test_faults_in_lines_end_with_what_to_do():
    fault = Fault(file="a", what="missing")
    lines = text.verify_lines(verified(faults=(fault,), num_faults=1))
    assert lines[:2] == [
        "a: missing",
        "pets 1.0.0: 1 fault; checked all files, records and images",
    ]
    assert lines[-1] == "Copy or build the dataset again."
    lines = text.verify_lines(verified(faults=(fault, fault), num_faults=1234))
    assert lines[1:4] == [
        "a: missing",
        "... 1,232 more",
        "pets 1.0.0: 1,234 faults; checked all files, records and images",
    ]


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ({}, "a: broken"),
        ({"record": 1000}, "a: record 1,000: broken"),
        ({"key": "cat/1.png"}, "a: key cat/1.png: broken"),
        (
            {"record": 0, "key": "cat\x1b[31m\n/1.png"},
            "a: record 0, key cat\\x1b[31m /1.png: broken",
        ),
    ],
)
def test_a_fault_in_one_line_without_what_steers_a_terminal(where, shown):
    fault = Fault(file="a", what="broken", **where)
    assert text.verify_lines(verified(faults=(fault,), num_faults=1))[0] == shown
