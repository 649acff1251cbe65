"""What the chunks of a PNG say, found by going from one to the next.

Gets the bytes of a file; gives what is wrong with it that Pillow overlooks and libpng, with which
TensorFlow decodes, does not. `write/check.py` asks.
"""

import zlib
from collections.abc import Iterator

IEND = bytes.fromhex("00000000 49454e44 ae426082")  # the chunk that ends it

_START = 8  # behind the mark that every PNG begins with
_IHDR_BYTES = 13
_CRITICAL = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
_ONCE = (b"IHDR", b"PLTE", b"tRNS")
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
    """Returns for what a decoder must refuse the chunks of a PNG, None where they are right.

    Bytes may follow the last one.

    Source: PNG specification, sections 5.3, 5.6, 11.2 and 11.3.6; what libpng does of it.
    """
    names: list[bytes] = []
    for name, start, length in _chunks(data):
        # Lower case says that a decoder may overlook it.
        if not name.isalpha() or (name[:1].isupper() and name not in _CRITICAL):
            return f"it holds the chunk {name!r}, which no decoder knows"
        if name in _ONCE and (name in names or not length):
            return f"it holds a second or an empty chunk {name!r}"
        if name == b"tRNS" and b"IDAT" in names:
            return f"it holds the chunk {name!r} behind its pixels, where decoders disagree"
        if name in (b"acTL", b"fcTL") and _is_wrong_animation(name, start, data, names):
            return "its animation has no first frame of the whole image"
        if name == b"IEND" and data[start - 8 : start + 4] == IEND:
            return None
        names.append(name)
    return "no IEND chunk at its end"


def _is_wrong_animation(name: bytes, start: int, data: bytes, names: list[bytes]) -> bool:
    """Whether Pillow would decode something else than the whole image, or warn of no frames."""
    if name == b"acTL":
        return name in names or not 0 < int.from_bytes(data[start : start + 4], "big") < 2**31
    is_first = not {b"fcTL", b"IDAT"} & {*names}
    return is_first and data[start + 4 : start + 20] != data[16:24] + bytes(8)


def has_all_rows(data: bytes) -> bool:
    """Whether a PNG holds pixels for its whole height, and their checksum behind them.

    Takes as long as decompressing them.

    Args:
      data: of a PNG whose header has no fault.
    """
    missing = _num_bytes(data)
    decompressor = zlib.decompressobj()
    for name, start, length in _chunks(data):
        rest = data[start : start + length] if name == b"IDAT" else b""
        while rest and not decompressor.eof:
            try:
                missing -= len(decompressor.decompress(rest, _BLOCK_BYTES))
            except zlib.error:
                return False
            rest = decompressor.unconsumed_tail
    return missing <= 0 and decompressor.eof


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
