"""Damage by a seed: images, JSON, `.npy` and TFRecord files with a few bytes or values changed.

Each function takes a `random.Random` and gives the same damage for the same state of it. Those that
know a format keep its checksums right, so that the damage gets past the first look at the file.
"""

import io
import itertools
import json
import struct
import zlib

import numpy as np
from image_bytes import PNG_MAGIC, chunk

# Numbers at which programs go wrong: signs, wrap-arounds, and sizes that no memory has.
NUMBERS = (
    *(0, 1, 2, 3, 7, 8, 255, 256, 4095, 32_767, 32_768, 65_500, 65_535, 65_536),
    *(100_000, 2**24, 2**29 - 1, 2**31 - 1, 2**31, 2**32 - 1),
)
INTEGERS = ("<H", ">H", "<I", ">I")


def _place(random, data, head=96):
    """A position in `data`, every other time near its start, where headers are."""
    return random.randrange(min(len(data), head) if random.random() < 0.5 else len(data))


def _run(random, data, longest=64):
    start = _place(random, data)
    return start, min(len(data), start + random.randint(1, longest))


def flip_bits(random, data):
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        changed[_place(random, data)] ^= 1 << random.randrange(8)
    return bytes(changed)


def overwrite_run(random, data):
    start, stop = _run(random, data)
    filler = random.choice((b"\x00", b"\xff", None))
    run = random.randbytes(stop - start) if filler is None else filler * (stop - start)
    return data[:start] + run + data[stop:]


def cut_end(random, data):
    return data[: _place(random, data)]


def remove_run(random, data):
    start, stop = _run(random, data)
    return data[:start] + data[stop:]


def insert_run(random, data):
    start, stop = _run(random, data)
    run = random.choice((random.randbytes(stop - start), data[start:stop], b"\xff" * 4))
    return data[:stop] + run + data[stop:]


def swap_runs(random, data):
    (start, stop), (other, end) = sorted((_run(random, data), _run(random, data)))
    stop = min(stop, other)
    return data[:start] + data[other:end] + data[stop:other] + data[start:stop] + data[end:]


def change_number(random, data):
    """Writes a number over two or four bytes, as lengths and sides are stored."""
    kind = random.choice(INTEGERS)
    size = struct.calcsize(kind)
    if len(data) < size:
        return data + b"\xff"
    start = min(_place(random, data), len(data) - size)
    number = random.choice(NUMBERS) % 2 ** (8 * size)
    return data[:start] + struct.pack(kind, number) + data[start + size :]


BYTES = (flip_bits, overwrite_run, cut_end, remove_run, insert_run, swap_runs, change_number)


def mutate_bytes(random, data):
    """Damages any file in one way."""
    return random.choice(BYTES)(random, data or b"\0")


def _rearranged(random, parts):
    """Swaps, drops or repeats one of several parts, but for the first."""
    parts = list(parts)
    if len(parts) < 3:
        return parts
    one, other = (random.randrange(1, len(parts)) for _ in range(2))
    what = random.choice(("swap", "drop", "repeat"))
    if what == "swap":
        parts[one], parts[other] = parts[other], parts[one]
    elif what == "drop":
        del parts[one]
    else:
        parts.insert(other, parts[one])
    return parts


def _png_chunks(data):
    found, place = [], len(PNG_MAGIC)
    while place + 12 <= len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        found.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    return found


# Of a PNG's header: where a number stands, and what it may be.
_PNG_HEADER = (
    *((">I", 0, NUMBERS), (">I", 4, NUMBERS)),
    *((">B", place, (0, 1, 2, 3, 4, 6, 8, 16, 255)) for place in range(8, 13)),
)
_PNG_NAMES = (b"tRNS", b"PLTE", b"gAMA", b"iCCP", b"eXIf", b"acTL", b"fcTL", b"fdAT", b"ABCD")


def mutate_png(random, data):
    """Changes chunks and makes their checksums right."""
    chunks = _png_chunks(data)
    what = random.choice(("header", "arrange", "content", "pixels", "more"))
    if what == "header":
        name, content = chunks[0]
        kind, place, values = random.choice(_PNG_HEADER)
        header = bytearray(content.ljust(13, b"\0"))
        struct.pack_into(kind, header, place, random.choice(values))
        chunks[0] = (name, bytes(header))
    elif what == "arrange":
        chunks = _rearranged(random, chunks)
    elif what == "content":
        number = random.randrange(len(chunks))
        name, content = chunks[number]
        chunks[number] = (name, mutate_bytes(random, content))
    elif what == "pixels":
        chunks = [(name, _other_pixels(random, name, content)) for name, content in chunks]
    else:
        content = random.randbytes(random.choice((0, 1, 2, 6, 26, 256, 768)))
        place = random.randrange(len(chunks) + 1)
        chunks.insert(place, (random.choice(_PNG_NAMES), content))
    return PNG_MAGIC + b"".join(chunk(*part) for part in chunks)


def _other_pixels(random, name, content):
    """Changes the rows of an IDAT that is one whole stream: filters and pixels."""
    if name != b"IDAT":
        return content
    rows = mutate_bytes(random, zlib.decompress(content))
    return zlib.compress(rows + bytes(random.choice((0, 0, 1, 100_000))))


def _jpeg_parts(data):
    """The start, each segment up to the first scan, and all the rest."""
    parts, place = [data[:2]], 2
    while place + 4 <= len(data) and data[place] == 0xFF and data[place + 1] != 0xDA:
        end = place + 2 + int.from_bytes(data[place + 2 : place + 4], "big")
        parts.append(data[place:end])
        place = end
    return [*parts, data[place:]]


def mutate_jpeg(random, data):
    """Changes segments: frame, tables, metadata, and by which decoders tell colours apart."""
    parts = _jpeg_parts(data)
    what = random.choice(
        ("frame", "colours", "arrange", "content", "scan", "more", "embed", "table")
    )
    number = random.randrange(len(parts))
    if what in ("frame", "colours"):
        number = next(n for n, part in enumerate(parts) if part[1:2] in (b"\xc0", b"\xc2", b"\xc3"))
        change = _other_frame if what == "frame" else _other_colours
        return change(random, parts, number)
    if what == "arrange":
        parts = _rearranged(random, parts)
    elif what == "scan":
        parts[-1] = mutate_bytes(random, parts[-1])
    elif what == "more":
        marker = random.choice((0xE0, 0xE1, 0xE2, 0xEE, 0xDD, 0xDB, 0xC4, 0xFE, 0xDC, 0xC8))
        content = random.choice((b"", b"Exif\0\0", b"Adobe\0d", b"ICC_PROFILE\0\1\1", b"JFIF\0"))
        content += random.randbytes(random.choice((0, 1, 2, 12, 64)))
        segment = struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content
        parts.insert(random.randrange(1, len(parts) + 1), segment)
    elif what == "embed":
        place = random.randrange(2, len(data))
        return data[:place] + data + data[place:]
    elif what == "table":
        # The length stays, so that most of them are whole files of other pixels.
        start, content = parts[number][:5], parts[number][5:]
        parts[number] = start + (flip_bits(random, content) if content else b"")
    else:
        parts[number] = parts[number][:2] + mutate_bytes(random, parts[number][2:])
    return b"".join(parts)


def _other_frame(random, parts, number):
    frame = bytearray(parts[number])
    if random.random() < 0.5:
        struct.pack_into(">H", frame, random.choice((5, 7)), random.choice(NUMBERS) % 2**16)
    else:
        place = random.randrange(1, len(frame))
        frame[place] = random.choice((0, 1, 2, 3, 4, 8, 12, 0x11, 0x12, 0x21, 0x22, 0x44, 0xC2))
    return b"".join([*parts[:number], bytes(frame), *parts[number + 1 :]])


def _other_colours(random, parts, number):
    """Changes what decoders go by to tell RGB, YCbCr, CMYK and YCCK apart."""
    frame = bytearray(parts[number])
    for place in range(10, len(frame), 3):
        if random.random() < 0.3:
            frame[place] = random.choice((0, 1, 2, 3, 4, *b"RGBYCK"))
    parts[number] = bytes(frame)
    if random.random() < 0.5:
        parts = [part for part in parts if not part.startswith((b"\xff\xe0", b"\xff\xee"))]
    if random.random() < 0.5:
        parts.insert(1, b"\xff\xee\0\x0eAdobe\0d\0\0\0\0" + bytes((random.randrange(4),)))
    return b"".join(parts)


def mutate_tiff(random, data):
    """Changes one entry of the first directory: its tag, type, count or value."""
    order = "<" if data[:2] == b"II" else ">"
    (first,) = struct.unpack_from(f"{order}I", data, 4)
    (count,) = struct.unpack_from(f"{order}H", data, first)
    start = first + 2 + 12 * random.randrange(count)
    changed = bytearray(data)
    kind, place = random.choice((("H", 0), ("H", 2), ("I", 4), ("I", 8), ("H", 8)))
    number = random.choice((*NUMBERS, *range(254, 340)))
    size = struct.calcsize(kind)
    struct.pack_into(f"{order}{kind}", changed, start + place, number % 2 ** (8 * size))
    return bytes(changed)


FORMATS = {
    b"\x89PNG": mutate_png,
    b"\xff\xd8\xff": mutate_jpeg,
    b"II*\0": mutate_tiff,
    b"MM\0*": mutate_tiff,
}


def mutate_image(random, files):
    """Returns (name, damaged bytes) of one of the files.

    Args:
      random: a `random.Random`.
      files: their bytes, by name.
    """
    name = random.choice(sorted(files))
    data = files[name]
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        way = random.random()
        if way < 0.95:
            data = (_by_format if way < 0.6 else mutate_bytes)(random, data)
        else:
            other = files[random.choice(sorted(files))]
            data += random.choice((other, other[2:], other[len(other) // 2 :]))
    return name, data


def _by_format(random, data):
    change = next((change for magic, change in FORMATS.items() if data.startswith(magic)), None)
    try:
        return change(random, data)
    except Exception:  # of no format known here, or damaged beyond it before
        return mutate_bytes(random, data)


VALUES = (
    *(None, True, False, 0, -1, 1, 2, 255, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, 10**30),
    *(-(10**30), 0.5, 1e308, "", "0", "-1", "x", "1.0.1", "../../x", "a/b", "\0", "\ud800"),
    *(
        "é",
        "9" * 5_000,
        [],
        [None],
        {},
        {"": 0},
        [[]],
        ["x"],
        [0, 0, 0],
        [1, 1, 3],
        {"key": "image"},
    ),
)


def mutate_json(random, data):
    """Returns (JSON with one value replaced, removed, doubled or moved; what was done).

    Args:
      random: a `random.Random`.
      data: JSON.
    """
    content = json.loads(data)
    *above, last = random.choice(list(_places(content, ())))
    holder = content
    for step in above:
        holder = holder[step]
    value = holder[last]
    what = random.choice(
        ("replace", "replace", "replace", "nudge", "nudge", "remove", "add", "nest")
    )
    if what == "replace":
        holder[last] = random.choice(VALUES)
    elif what == "nudge":
        holder[last] = _nudged(random, value)
    elif what == "remove":
        del holder[last]
    elif what == "nest":
        holder[last] = random.choice(([value], {"x": value}))
    elif isinstance(holder, dict):
        holder[random.choice(("x", "", "image", "../x", "train2"))] = value
    else:
        holder.append(value)
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"{text}\n".encode(), f"{what} {'/'.join(map(str, (*above, last)))}"


def _places(content, path):
    """Yields the path of every value, at any depth."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*path, key))


def _nudged(random, value):
    """Something close to a value, of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + random.choice((-1, 1, 10))
    if isinstance(value, str) and value:
        place = random.randrange(len(value))
        return value[:place] + random.choice("0a1b.-_ ") + value[place + 1 :]
    if isinstance(value, list) and len(value) > 1:
        return value[::-1]
    return value


# (What a header of `.npy` says, what it says instead); None: the shape.
_NPY_HEADERS = (
    *((None, b"(0,)"), (None, b"(1,)"), (None, b"(-1,)"), (None, b"(10000000000000,)")),
    *((None, b"()"), (None, b"(2, 3)"), (None, b"(" * 2000), (None, b"(1e3,)")),
    *((b"'<u8'", b"'<u4'"), (b"'<u8'", b"'|O'"), (b"'|u1'", b"'|O'"), (b"'|u1'", b"'|S0'")),
    *((b"'<f4'", b"'<f8'"), (b"'<f4'", b"'<i4'"), (b"'|b1'", b"'|u1'"), (b"'|b1'", b"'|O'")),
    *((b"'offset'", b"'length'"), (b"'<i4'", b"'<f4'"), (b"'|V16'", b"'|O'")),
    *((b"'descr'", b"'x'"), (b"False", b"True"), (b"{'", b"exit() or {'"), (b"}", b"}}")),
)


def mutate_npy(random, data):
    """Returns (an `.npy` file with its header or one of its values changed, what was done)."""
    array = np.load(io.BytesIO(data)).copy()
    if random.random() < 0.4:
        start = 10 + int.from_bytes(data[8:10], "little")
        old, new = random.choice(_NPY_HEADERS)
        header = data[10:start].replace(old or b"(%d,)" % len(array), new)
        return data[:8] + struct.pack("<H", len(header)) + header + data[start:], f"header {new!r}"
    row = random.randrange(array.size if array.ndim > 1 else len(array))
    field = random.choice(array.dtype.names) if array.dtype.names else ""
    column = array[field] if field else array.reshape(-1)
    if column.dtype.kind == "V":
        size = column.dtype.itemsize
        column[row] = np.void(random.choice((bytes(size), random.randbytes(size))))
    elif column.dtype.kind == "b":
        column.view(np.uint8)[row] = random.choice((0, 1, 2, 255))
    elif column.dtype.kind == "f":
        near = float(column[row])
        column[row] = random.choice((near + 1, -near, -0.0, np.nan, np.inf, 3e38, column[0]))
    else:
        column[row] = _other_number(random, column, row)
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue(), f"row {row} {field}"


def _other_number(random, column, row):
    limits, value = np.iinfo(column.dtype), int(column[row])
    near = (value - 1, value + 1, value + 8, int(column[0]), int(column[-1]))
    number = random.choice((*near, 0, 1, limits.max, limits.max // 2 + 1, limits.min))
    return min(max(number, limits.min), limits.max)


def mutate_shard(random, data):
    """Returns (a TFRecord file with a length, a checksum or the order changed, what was done)."""
    starts = [0]
    while starts[-1] < len(data):
        length = int.from_bytes(data[starts[-1] : starts[-1] + 8], "little")
        starts.append(starts[-1] + 16 + length)
    records = [data[start:stop] for start, stop in itertools.pairwise(starts)]
    number = random.randrange(len(records))
    what = random.choice(("length", "arrange", "checksum", "drop last", "repeat"))
    if what == "length":
        length = random.choice((*NUMBERS, 2**63, 2**64 - 1))
        records[number] = struct.pack("<Q", length) + records[number][8:]
    elif what == "arrange":
        records = _rearranged(random, records)
    elif what == "checksum":
        records[number] = records[number][:-4] + random.randbytes(4)
    elif what == "drop last":
        records.pop()
    else:
        records.append(records[number])
    return b"".join(records), what
