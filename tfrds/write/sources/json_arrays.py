"""The elements of long lists in a JSON file, one after the other, in constant memory.

Gets a file whose value is an object, gives the elements of some of its lists; `coco_file.py` reads
annotations with it. `json.load` would hold all of a file of gigabytes as objects of Python, at
several times its size.
"""

import json
import pathlib
import re
from collections.abc import Collection, Iterator
from typing import Any, TextIO

from tfrds.errors import SourceError

_BLOCK = 1 << 20

# Of one element, in characters: a polygon around a crowd takes a few hundred thousand. This bounds
# what a file can make this process hold.
_MAX_ELEMENT = 1 << 26

_SPACE = re.compile(r"[ \t\n\r]*")
_SHOWN = 40


def walk_lists(path: pathlib.Path, wanted: Collection[str]) -> Iterator[tuple[str, int, Any]]:
    """Yields (key, position in its list, element) of the lists under the keys that are wanted.

    Args:
      path: of the file.
      wanted: keys of its object; what is under others is stepped over.

    Raises:
      SourceError: no such file, no valid JSON, no object, no list under a key, or an element of
        more than 64 Mi characters.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = _Text(file, str(path))
            for key in text.keys():
                is_wanted = key in wanted
                if text.peek() == "[":
                    for position, element in enumerate(text.elements()):
                        if is_wanted:
                            yield key, position, element
                elif is_wanted:
                    raise SourceError(
                        f"{path}: expected a list under {key!r}, got {str(text.value())[:_SHOWN]}. "
                        "Correct the file."
                    )
                else:
                    text.value()
            text.end()
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: expected UTF-8: {error}. Write it again in UTF-8.") from error
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read: {error.strerror}. Correct the path, or mend its access."
        ) from error


class _Text:
    """JSON of which a part is held."""

    def __init__(self, file: TextIO, name: str) -> None:
        self._file = file
        self._name = name
        self._decoder = json.JSONDecoder()
        self._held = ""
        self._at = 0
        self._gone = 0  # characters in front of what is held
        self._is_end = False

    def keys(self) -> Iterator[str]:
        """Yields the keys of an object; the caller takes the value of each in between."""
        self._expect("{", "an object")
        while self.peek() != "}":
            key = self.value()
            if not isinstance(key, str):
                raise self._error(f"expected a key, got {key!r}")
            self._expect(":", f"':' behind the key {key!r}")
            yield key
            self._step("}")
        self._at += 1

    def elements(self) -> Iterator[Any]:
        """Yields the elements of a list."""
        self._expect("[", "a list")
        while self.peek() != "]":
            yield self.value()
            self._step("]")
        self._at += 1

    def end(self) -> None:
        """Raises SourceError unless nothing follows."""
        if self.peek():
            raise self._error("expected the end of the file, found more")

    def peek(self) -> str:
        """Returns the next character that is no space; "" at the end."""
        while True:
            match = _SPACE.match(self._held, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._held):
                return self._held[self._at]
            if self._is_end:
                return ""
            self._read(_BLOCK)

    def value(self) -> Any:
        """Returns the next value."""
        self.peek()
        size = _BLOCK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._held, self._at)
            except (ValueError, RecursionError) as error:
                if isinstance(error, RecursionError):
                    raise self._error("nested far too deep") from error
                if self._is_end or len(self._held) - self._at > _MAX_ELEMENT:
                    raise self._fault(error) from error
            else:
                # A number may go on in what is not held yet: "1" in "1e+" and "5".
                if end + 2 < len(self._held) or self._is_end:
                    self._at = end
                    return value
            self._read(size)
            size *= 2  # so that a long value is not begun anew a thousand times

    def _step(self, closing: str) -> None:
        """Steps over the comma in front of the next element, if one comes."""
        found = self.peek()
        if found == ",":
            self._at += 1
            if self.peek() == closing:
                raise self._error(f"expected another element behind ',', got {closing!r}")
        elif found != closing:
            raise self._error(f"expected ',' or {closing!r}, got {found!r}")

    def _expect(self, character: str, what: str) -> None:
        found = self.peek()
        if found != character:
            raise self._error(f"expected {what}, got {found!r}")
        self._at += 1

    def _read(self, count: int) -> None:
        more = self._file.read(count)
        self._is_end = not more
        self._gone += self._at
        self._held = self._held[self._at :] + more
        self._at = 0

    def _fault(self, error: ValueError) -> SourceError:
        text = str(error)
        if isinstance(error, json.JSONDecodeError):
            self._at = error.pos
            text = error.msg
        if not self._is_end:
            text += f"; a value of more than {_MAX_ELEMENT:,} characters is not read"
        return self._error(text)

    def _error(self, text: str) -> SourceError:
        near = self._held[self._at : self._at + _SHOWN]
        place = f"at character {self._gone + self._at:,}" + (f", {near!r}" if near else "")
        return SourceError(f"{self._name}: no valid JSON {place}: {text}. Correct the file.")
