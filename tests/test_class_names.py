import pathlib

import pytest

from tfrds.class_names import parse_class_names
from tfrds.errors import ConfigError
from tfrds.spec import BuildOptions


def test_none_and_lists_are_taken_as_they_are():
    assert parse_class_names(None) is None
    assert parse_class_names(["b", "a"]) == ("b", "a")


@pytest.mark.parametrize(
    "text", ["b\na\n", "b\na", "b\r\na\r\n", "\ufeffb\na\n"], ids=["lines", "no end", "crlf", "bom"]
)
def test_a_file_has_one_name_a_line(text, tmp_path):
    path = tmp_path / "names.txt"
    path.write_bytes(text.encode())
    for given in (path, str(path)):
        assert parse_class_names(given) == ("b", "a")
    assert BuildOptions(class_names=path).class_names == ("b", "a")
    assert BuildOptions(class_names=path).to_dict()["class_names"] == ["b", "a"]


def test_names_of_any_script(tmp_path):
    names = ("猫", "كلب", "größe", "a b", "🦋")
    path = tmp_path / "names.txt"
    path.write_text("\n".join(names), encoding="utf-8")
    assert parse_class_names(path) == names


def test_home_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "names.txt").write_text("a\n")
    assert parse_class_names(pathlib.Path("~/names.txt")) == ("a",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"names.txt: expected a text file .*: No such file"),
        (b"\xff\xfe", r"names.txt: expected a text file in UTF-8 .*can't decode"),
        (b"", r"names.txt: expected one name a line, found none"),
    ],
)
def test_what_is_no_such_file_is_refused(content, message, tmp_path):
    path = tmp_path / "names.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"class_names: .*{message}"):
        parse_class_names(path)


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "names.txt"
    with path.open("wb") as file:
        file.truncate(2**28 + 1)
    with pytest.raises(ConfigError, match=r"at most 268,435,456 bytes, found 268,435,457"):
        parse_class_names(path)


@pytest.mark.parametrize("given", [2, (), ["a", 1], {"a"}, b"a"], ids=repr)
def test_what_is_no_list_is_refused(given):
    with pytest.raises(ConfigError, match=r"expected a list of names or the path"):
        parse_class_names(given)
