"""The part of the plan that is about classes: their names and their numbers."""

import logging

import images
import numpy as np
import pytest
from fake_source import FakeSource

from tfrds.errors import ConfigError, SourceError
from tfrds.spec import BuildOptions
from tfrds.write.classes import sort_class_names
from tfrds.write.plan import make_plan
from tfrds.write.sources import Arrays, ImageFolder, Manifest


def of_classes(labels, names):
    return FakeSource([b"%d" % row for row in range(len(labels))], labels, names)


def arrays(labels):
    return Arrays(np.zeros((len(labels), 4, 5), np.uint8), labels)


def plan_of(source, **options):
    return make_plan(source, BuildOptions(**options))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("2 0 1 10 3 4 5 6 7 8 9", "0 1 2 3 4 5 6 7 8 9 10"),
        ("1 2 10", "1 10 2"),  # not from 0
        ("0 1 3", "0 1 3"),
        ("00 01 02 10", "00 01 02 10"),
        ("0 1 a", "0 1 a"),
        ("b B a Z é z _", "B Z _ a b z é"),
        ("0", "0"),
        ("\u0660 \u0661", "\u0660 \u0661"),  # Arabic digits are no "0" and "1"
    ],
)
def test_class_names_sort_as_numbers_only_if_they_are_exactly_that(names, expected):
    assert sort_class_names(set(names.split())) == expected.split()


def mapping_of(names):
    """Returns a plan of one image for each class, and the class numbers by name."""
    plan = plan_of(of_classes(range(len(names)), names))
    return plan, dict(zip(names, plan.labels.numbers.tolist(), strict=True))


def test_numbers_and_notes_of_eleven_digits_classes(caplog):
    names = [str(number) for number in range(11)][::-1]
    with caplog.at_level(logging.INFO, "tfrds"):
        plan, numbers = mapping_of(names)
    assert numbers == {name: int(name) for name in names}
    assert plan.class_names == tuple(names[::-1])
    (note,) = plan.notes
    assert note.startswith("Classes by number: 0: '0', 1: '1', 2: '2', 3:")
    assert note in caplog.text


def test_numbers_that_do_not_begin_with_zero_sort_by_code_point_and_are_shown():
    plan, numbers = mapping_of(["1", "2", "10"])
    assert numbers == {"1": 0, "10": 1, "2": 2}
    assert plan.notes == ("Classes by number: 0: '1', 1: '10', 2: '2'",)


@pytest.mark.parametrize(
    "names", [["cat", "dog", "ant"], ["0", "1", "2"], ["01", "02", "10"], ["1", "2", "a"]]
)
def test_mapping_is_not_shown_where_nobody_would_expect_another(names):
    assert mapping_of(names)[0].notes == ()


def test_one_mapping_for_all_splits_and_a_split_that_lacks_a_class_keeps_the_numbers(tmp_path):
    images.put_images(
        tmp_path,
        [
            "train/dog/1.png",
            "train/ant/1.png",
            "train/cat/1.png",
            "test/dog/1.png",
            "test/cat/2.png",
        ],
    )
    plan = plan_of(ImageFolder(tmp_path))
    assert plan.class_names == ("ant", "cat", "dog")
    assert plan.class_counts("train") == [1, 1, 1]
    assert plan.class_counts("test") == [0, 1, 1]
    assert plan.num_examples == 5
    numbers = {
        key.decode(): int(label) for key, label in zip(plan.keys, plan.labels.numbers, strict=True)
    }
    assert numbers == {key: "ant cat dog".split().index(key.split("/")[1]) for key in numbers}


def test_given_class_names_decide_the_numbers():
    source = of_classes([0, 1], ["cat", "dog"])
    plan = plan_of(source, class_names=["dog", "cat"])
    assert plan.class_names == ("dog", "cat")
    assert plan.labels.numbers.tolist() == [1, 0]
    assert plan.labels.numbers.dtype == np.int32


def test_class_that_was_not_given_is_named_with_the_choices():
    source = of_classes([0, 1], ["cat", "emu"])
    with pytest.raises(
        SourceError,
        match=r"class_names: the source has the class 'emu', expected one\s+of \['dog', 'cat'\]",
    ):
        plan_of(source, class_names=["dog", "cat"])
    many = [f"c{number:02}" for number in range(12)]
    with pytest.raises(SourceError, match=r"'c09', \.\.\. 12 in all\]"):
        plan_of(source, class_names=many)


def test_given_class_without_images_is_warned_of():
    source = of_classes([0, 1], ["cat", "dog"])
    with pytest.warns(UserWarning, match=r"No image is of the classes \['emu', 'gnu'\]"):
        plan = plan_of(source, class_names=["emu", "cat", "gnu", "dog"])
    assert plan.labels.numbers.tolist() == [1, 3]


def test_single_class_is_warned_of():
    with pytest.warns(UserWarning, match="single class 'cat'"):
        plan_of(of_classes([0], ["cat"]))


def test_names_that_differ_in_case_only_are_warned_of():
    source = of_classes([0, 1, 2], ["Cat", "cat", "dog"])
    with pytest.warns(UserWarning, match=r"differ only in upper and lower case: \['Cat', 'cat'\]"):
        plan_of(source)


def test_warnings_point_at_the_callers_of_make_plan_and_not_into_it():
    with pytest.warns(UserWarning, match="single class") as caught:
        plan_of(of_classes([0], ["cat"]))
    assert not caught[0].filename.endswith("write/plan.py")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b "], r"class_names: a class's name must not.*got 'b '"),
        (["a", "b\n"], r"class_names: a class's name must not.*got 'b\\n'"),
        (["a", "x\ny"], r"class_names: a class's name must not.*got 'x\\ny'"),
        (["a", ""], r"class_names: a class's name must not be empty.*got ''"),
        (["a", "b", "a"], r"class_names: 2 class names are equal.*'a'"),
        (["a", "é", "e\u0301"], r"class_names: 2 class names are equal.*NFC.*'é'"),
    ],
)
def test_given_class_names_that_cannot_be_used_are_refused(names, message):
    with pytest.raises(ConfigError, match=message):
        plan_of(of_classes([0], ["a"]), class_names=names)


def test_given_names_number_integer_labels():
    plan = plan_of(arrays([1, 0, 1]), class_names=["zero", "one"])
    assert plan.class_names == ("zero", "one")
    assert plan.labels.numbers.tolist() == [1, 0, 1]


def test_label_beyond_the_given_names_is_named_with_its_row():
    with pytest.raises(
        SourceError,
        match=r"labels\[1\]: expected a class number from 0 to 1 for the 2\s+class_names, got 5",
    ):
        plan_of(arrays([0, 5, 1]), class_names=["zero", "one"])


def test_labels_that_count_from_1_are_told_that_numbers_count_from_0():
    counts_from_0 = (
        r"Numbers count from 0 here: subtract 1 from all labels if yours count from 1\.$"
    )
    message = r"^labels\[2\]: expected a class number from 0 to 1 .*, got 2\. "
    with pytest.raises(SourceError, match=message + counts_from_0):
        plan_of(arrays([1, 1, 2]), class_names=["one", "two"])
    with pytest.raises(SourceError, match=r"got 2\.$"):
        plan_of(arrays([1, 0, 2]), class_names=["one", "two"])
    message = r"^No image is of the classes \['0'\]\. "
    with pytest.warns(UserWarning, match=message + counts_from_0):
        plan_of(arrays([1, 2, 3]))


def test_label_beyond_the_given_names_is_named_with_the_key_of_a_file(tmp_path):
    images.put_images(tmp_path, ["a.png", "b.png"])
    images.put(
        tmp_path / "metadata.jsonl", '{"path": "a.png", "label": 0}\n{"path": "b.png", "label": 1}'
    )
    with pytest.raises(SourceError, match=r"^b\.png: expected a class number from 0 to 0 .*got 1"):
        plan_of(Manifest(tmp_path), class_names=["dog"])


def test_integer_labels_keep_their_numbers_where_some_are_missing():
    with pytest.warns(UserWarning, match=r"No image is of the classes \['1', '3'\]"):
        plan = plan_of(arrays([4, 0, 2]))
    assert plan.class_names == ("0", "1", "2", "3", "4")
    assert plan.labels.numbers.tolist() == [4, 0, 2]
