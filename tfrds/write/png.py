"""What the chunks of a PNG say, found by going from one to the next, without decoding pixels.

Gets the bytes of a file; gives what is wrong with it that Pillow overlooks and libpng, with which
TensorFlow decodes, does not. `write/check.py` asks.
"""

import zlib
from collections.abc import Iterator

_START = 8  # behind the mark that every PNG begins with
_IHDR_BYTES = 13
_CRITICAL = (b"PLTE", b"IDAT", b"IEND")  # that may follow the header
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of each colour type

# Adam7: (first column, first row, columns from one to the next, rows) of each pass.
_PASSES = (
    *((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2)),
    (0, 1, 1, 2),
)

_BLOCK_BYTES = 1 << 16


def header_fault(data: bytes) -> str | None:
    """Returns what is wrong with the header of a PNG, None where nothing is.

    Source: PNG specification, section 11.2.1.
    """
    is_header = data[12:16] == b"IHDR" and int.from_bytes(data[8:12], "big") == _IHDR_BYTES
    # Methods of compression and filtering, of which there is one each, and of interlacing.
    if not is_header or data[26:28] != b"\0\0" or data[28:29] not in (b"\0", b"\1"):
        return "its header is none of a PNG"
    return None


def chunk_fault(data: bytes) -> str | None:
    """Returns which chunk of a PNG a decoder must refuse, None where it is right.

    Source: PNG specification, sections 5.3, 5.6 and 11.2; what libpng does of it.
    """
    palettes = 0
    for name, _, length in list(_chunks(data))[1:]:
        # Lower case says that it may be overlooked.
        if not name.isalpha() or (name[:1].isupper() and name not in _CRITICAL):
            return f"it holds the chunk {name!r}, which no decoder knows"
        palettes += name == b"PLTE"
        if name == b"PLTE" and (palettes > 1 or not length):
            return "it holds an empty palette, or two"
    return None


def has_all_rows(data: bytes) -> bool:
    """Whether the chunks hold pixels for the whole height; as slow as decompressing them.

    Args:
      data: a PNG whose header has no fault.
    """
    missing = _num_bytes(data)
    decompressor = zlib.decompressobj()
    for name, start, length in _chunks(data):
        rest = data[start : start + length] if name == b"IDAT" else b""
        while rest and missing > 0 and not decompressor.eof:
            missing -= len(decompressor.decompress(rest, _BLOCK_BYTES))
            rest = decompressor.unconsumed_tail
    return missing <= 0


def _chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yields (name, start, length) of the content of each chunk, up to the one that ends them."""
    place, name = _START, b""
    while place + 8 <= len(data) and name != b"IEND":
        length = int.from_bytes(data[place : place + 4], "big")
        name = data[place + 4 : place + 8]
        yield name, place + 8, length
        place += 12 + length


def _num_bytes(data: bytes) -> int:
    """Returns how many bytes the rows have with their filters, before they are compressed."""
    width, height = (int.from_bytes(data[place : place + 4], "big") for place in (16, 20))
    bits = data[24] * _CHANNELS[data[25]]
    total = 0
    for column, row, columns, rows in _PASSES if data[28] else ((0, 0, 1, 1),):
        pass_width = -(-(width - column) // columns)
        pass_height = -(-(height - row) // rows)
        if pass_width > 0 and pass_height > 0:
            total += pass_height * (1 + -(-pass_width * bits // 8))
    return total
