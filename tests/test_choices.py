import pytest

from tfrds.write.choices import did_you_mean, list_choices


def test_the_first_names_and_their_number_are_listed():
    assert list_choices([]) == "[]"
    assert list_choices(["a", "it's"]) == """['a', "it's"]"""
    names = [str(number) for number in range(1_000)]
    assert list_choices(names[:10]) == str(names[:10])
    assert list_choices(names, 2) == "['0', '1', ... 1,000 in all]"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("labl", " Did you mean 'label'?"),
        ("AGE", " Did you mean 'Age'?"),
        ("Label", " Did you mean 'label'?"),
        ("weight", ""),
    ],
)
def test_the_nearest_name_is_asked_for(name, expected):
    assert did_you_mean(name, ["label", "labels", "Age"]) == expected
