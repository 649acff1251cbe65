"""The lines of a text file, with errors that name the line.

`table_delimited.py` and `table_json_lines.py` read their files by it.
"""

import codecs
from collections.abc import Iterator

from tfrds.errors import SourceError
from tfrds.write.sources.table_files import TableFile

# A longer line is no row of a table: a file without line breaks must not fill the memory.
_MAX_CHARACTERS = 2**24

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_lines(file: TableFile, encoding: str) -> Iterator[str]:
    """Yields the lines with their ends; a byte order mark of UTF-8 is no part of the first.

    Raises:
      SourceError: it cannot be read, or bytes that are not of this encoding, or a line that is far
        too long.
    """
    if codecs.lookup(encoding).name == "utf-8":
        encoding = "utf-8-sig"
    number = 0
    try:
        # With newline="" the ends of lines inside quotes stay what they are.
        with open(file.path, encoding=encoding, newline="") as text:
            while line := text.readline(_MAX_CHARACTERS + 1):
                number += 1
                if len(line) > _MAX_CHARACTERS:
                    raise SourceError(
                        f"{file.name} line {number}: expected at most {_MAX_CHARACTERS:,} "
                        "characters, got more. Is it a table of text?"
                    )
                yield line
    except UnicodeError as error:
        raise SourceError(_describe(file, encoding, error)) from error
    except OSError as error:
        raise SourceError(
            f"{file.path}: cannot be read: {error.strerror or error}. Mend its access."
        ) from error


def _describe(file: TableFile, encoding: str, error: UnicodeError) -> str:
    name = encoding.removesuffix("-sig")
    where, byte = file.name, ""
    with open(file.path, "rb") as binary:
        if name == "utf-8" and binary.read(2) in _UTF16:
            return f'{file.name}: it begins like UTF-16. Pass encoding="utf-16".'
        binary.seek(0)
        # Decoders work on blocks: the line is found by decoding one after the other. Of UTF-16 and
        # UTF-32 lines end in the middle of a character.
        number = 0
        while name not in ("utf-16", "utf-32") and (line := binary.readline(_MAX_CHARACTERS)):
            number += 1
            try:
                line.decode(encoding)
            except UnicodeDecodeError as first:
                where, byte = f"{file.name} line {number}", f"0x{line[first.start]:02x}"
                break
    return (
        f"{where}: expected text in {name}, got {f'the byte {byte}' if byte else error}. Pass the "
        'file\'s encoding, such as encoding="cp1252", or save it as UTF-8.'
    )
