"""Values of the command line's arguments out of text; what is none is wrong usage.

`arguments.py` says which argument is what.
"""

import argparse
import csv
import pathlib
from collections.abc import Callable
from typing import NoReturn, TypeVar

Value = TypeVar("Value")


def read_pairs(path: str) -> dict[str, str]:
    """Returns the pairs of a CSV file of keys and classes."""
    pairs: dict[str, str] = {}
    for number, row in enumerate(csv.reader(read_lines(path)), start=1):
        if len(row) != 2 or row[0] in pairs:
            expected = "key,class with each key once"
            raise argparse.ArgumentTypeError(f"{path!r} line {number}: expected {expected}: {row}")
        pairs[row[0]] = row[1]
    return pairs


def parse_folder(text: str) -> pathlib.Path:
    """Returns the path of a folder; a tilde is the home folder."""
    return pathlib.Path(text).expanduser()


def parse_size(text: str) -> int | tuple[int, ...]:
    """Returns one side, or (height, width)."""
    sides = text.lower().split("x")
    numbers = tuple(_number(int, side, text, "64 or 48x64 (height x width)") for side in sides)
    return numbers[0] if len(numbers) == 1 else numbers


def parse_colour(text: str) -> tuple[int, ...]:
    """Returns (red, green, blue)."""
    values = text.split(",")
    return tuple(_number(int, value, text, "R,G,B such as 255,255,255") for value in values)


def parse_file_splits(text: str) -> int | dict[str, float | list[str]]:
    """Returns a number of folds, or fractions or patterns by name."""
    return parse_splits(text, lambda pattern: [pattern], "train=train*,test=test*")


def parse_splits(
    text: str,
    read: "Callable[[str], list[str]] | None" = None,
    lists: str = "train=FILE,test=FILE",
) -> int | dict[str, float | list[str]]:
    """Returns a number of folds, or fractions or keys by name; what is no number is a file."""
    expected = f"train=0.8,test=0.2, or a number of folds, or {lists}"
    if "=" not in text:
        return _number(int, text, text, expected)
    splits: dict[str, float | list[str]] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or not value or name in splits:
            _refuse(text, expected)
        try:
            splits[name] = float(value)
        except ValueError:
            splits[name] = (read or _keys)(value)
    return splits


def read_lines(path: str) -> list[str]:
    """Returns the lines of a file."""
    return _text(path).splitlines()


def _keys(path: str) -> list[str]:
    # Other line breaks of Unicode may be part of a file's name.
    return [line for line in _text(path).split("\n") if line]


def _text(path: str) -> str:
    try:
        # Editors of some systems begin a text with a mark that is not part of the first name.
        return pathlib.Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{path!r} cannot be read: {error}") from error


def _number(convert: Callable[[str], Value], part: str, text: str, expected: str) -> Value:
    try:
        return convert(part)
    except ValueError:
        _refuse(text, expected)


def _refuse(text: str, expected: str) -> NoReturn:
    raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
