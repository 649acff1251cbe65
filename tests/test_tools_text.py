import pathlib

import pytest

from tfrds.tools import text
from tfrds.tools.demo_result import DemoResult
from tfrds.tools.info import DatasetSummary, SplitSummary


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
            "num_classes": 2,
            "class_names": ("cat", "dog"),
            "splits": {
                "train": SplitSummary(
                    num_examples=1200, class_counts=(1000, 200), num_shards=3, num_bytes=2_345_678
                )
            },
            "total_bytes": 2_500_000,
            "repaired": 0,
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
