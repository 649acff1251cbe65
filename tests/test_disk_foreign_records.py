import gzip
import os
import random

import counting
import foreign_files
import images
import pytest
import tensorflow as tf

from tfrds.disk.foreign_records import find_compression, read_record, unpack, walk_frames
from tfrds.disk.records import MAX_RECORD_BYTES, frame_header
from tfrds.disk.window import open_file, open_window
from tfrds.errors import SourceError

RECORDS = [b"", b"a", b"some bytes" * 100, os.urandom(70_000), b"\0" * 5, os.urandom(300_000)]


@pytest.fixture
def path(tmp_path):
    return foreign_files.write(tmp_path / "a.tfrecord", RECORDS)


def walk(path):
    with open_window(str(path)) as window:
        return list(walk_frames(window, str(path)))


def compression(path):
    with open_window(str(path)) as window:
        return find_compression(window, str(path))


def unpacked(path, most=None):
    target = path.with_suffix(".unpacked")
    with target.open("wb") as file:
        count = unpack(str(path), file, most)
    return count, target.read_bytes()


def test_frames_are_those_that_tensorflow_writes(path):
    expected = [(offset, len(data)) for offset, data in images.frames(path)]
    assert walk(path) == expected
    assert [length for _, length in expected] == [len(record) for record in RECORDS]


def test_records_are_read_with_the_bytes_that_were_written(path):
    with open_file(str(path)) as descriptor:
        found = [read_record(descriptor, *frame) for frame in walk(path)]
    assert found == RECORDS


def test_large_records_are_stepped_over_and_small_ones_read_together(tmp_path, monkeypatch):
    large = foreign_files.write(tmp_path / "large", [bytes(150_000)] * 50)
    small = foreign_files.write(tmp_path / "small", [bytes(500)] * 2_000)
    counted = counting.CountingPread(monkeypatch)
    assert len(walk(large)) == 50
    assert sum(counted.sizes) < 50 * 5_000
    counted.sizes.clear()
    assert len(walk(small)) == 2_000
    assert len(counted.sizes) < 20


def test_an_empty_file_is_named(tmp_path):
    path = images.put(tmp_path / "empty.tfrecord", b"")
    with pytest.raises(SourceError, match=r"empty.tfrecord: empty file, expected at least one"):
        compression(path)
    assert walk(path) == []


@pytest.mark.parametrize(
    ("cut", "found"), [(1, "27 bytes, found 26"), (20, "27 bytes, found 7"), (27, None)]
)
def test_a_file_that_is_cut_off_names_record_and_both_lengths(tmp_path, cut, found):
    path = foreign_files.write(tmp_path / "a", [b"first", b"the second."])
    images.put(path, path.read_bytes()[:-cut])
    if found is None:
        assert len(walk(path)) == 1
        return
    expected = "12 bytes, found 7" if cut == 20 else found
    with pytest.raises(SourceError, match=rf"a record 1: cut off: expected {expected}"):
        walk(path)


def test_a_length_with_a_wrong_checksum_names_record_and_both_checksums(path):
    content = bytearray(path.read_bytes())
    second = images.frames(path)[1][0]
    right = content[second + 8 : second + 12][::-1].hex()
    content[second + 8] ^= 1
    wrong = content[second + 8 : second + 12][::-1].hex()
    images.put(path, bytes(content))
    message = rf"record 1: damaged: expected the checksum {right} of its length 1, found {wrong}"
    with pytest.raises(SourceError, match=message):
        walk(path)


def test_a_length_beyond_the_file_takes_no_memory(tmp_path):
    path = images.put(tmp_path / "a", foreign_files.lying_frame(2**31 - 1, b"few"))
    with pytest.raises(SourceError, match=r"cut off: expected 2,147,483,663 bytes, found 19"):
        walk(path)


def test_a_record_beyond_the_limit_is_refused(tmp_path):
    path = images.put(tmp_path / "a", frame_header(2**31))
    os.truncate(path, 2**32)
    with pytest.raises(
        SourceError, match=r"expected at most 2,147,483,647 bytes, got 2,147,483,648"
    ):
        walk(path)
    assert MAX_RECORD_BYTES == 2**31 - 1


def test_compression_is_told_by_content_whatever_the_name(tmp_path, path):
    assert compression(path) == "none"
    packed = foreign_files.write(tmp_path / "b.tfrecord", RECORDS, "GZIP")
    assert compression(packed) == "GZIP"
    zlibbed = foreign_files.write(tmp_path / "c.tfrecord", RECORDS, "ZLIB")
    with pytest.raises(SourceError, match=r"c.tfrecord: .*compressed as ZLIB. Unpack it"):
        compression(zlibbed)


@pytest.mark.parametrize(
    "content", [b"key,label\n1,2\n", images.encoded(images.noise(0, 4, 4)), b"x"]
)
def test_another_file_is_no_tfrecord_file(tmp_path, content):
    path = images.put(tmp_path / "other.tfrecord", content)
    with pytest.raises(
        SourceError, match=r"other.tfrecord: no TFRecord file, or damaged.*found b'"
    ):
        compression(path)


def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error(tmp_path):
    path = foreign_files.write(tmp_path / "a", [bytes(100_000)] * 10)
    with open_window(str(path)) as window:
        frames = walk_frames(window, "a")
        for _ in range(3):
            next(frames)
        os.truncate(path, 250_000)
        with pytest.raises(SourceError, match=r"a record 3: cannot be read: expected 12 bytes"):
            list(frames)


def test_damaged_data_names_both_checksums(path):
    offset, data = images.frames(path)[2]
    content = bytearray(path.read_bytes())
    content[offset + 500] ^= 4
    images.put(path, bytes(content))
    stored = content[offset + 12 + len(data) : offset + 16 + len(data)][::-1].hex()
    with open_file(str(path)) as descriptor:
        message = rf"damaged: expected the checksum \w{{8}} of its 1,000 bytes, found {stored}"
        with pytest.raises(ValueError, match=message):
            read_record(descriptor, offset, 1_000)


def test_a_file_that_was_replaced_or_cut_since_the_scan_is_noticed(path):
    frames = walk(path)
    with open_file(str(path)) as descriptor:
        with pytest.raises(ValueError, match=r"expected a record of 7 bytes at byte 0, .*changed"):
            read_record(descriptor, 0, 7)
        os.truncate(path, frames[-1][0] + 100)
        with pytest.raises(ValueError, match=r"cut off: expected 300,000 bytes, found 88"):
            read_record(descriptor, *frames[-1])
        os.truncate(path, 0)
        with pytest.raises(ValueError, match=r"expected a record of 0 bytes at byte 0"):
            read_record(descriptor, *frames[0])


def test_more_than_the_system_reads_at_once_is_read(path, monkeypatch):
    frame, pread = walk(path)[2], os.pread
    monkeypatch.setattr(os, "pread", lambda file, count, place: pread(file, min(count, 7), place))
    with open_file(str(path)) as descriptor:
        assert read_record(descriptor, *frame) == RECORDS[2]


def test_gzip_files_are_unpacked_to_the_bytes_of_plain_ones(tmp_path, path):
    packed = foreign_files.write(tmp_path / "b.gz", RECORDS, "GZIP")
    assert unpacked(packed) == (len(RECORDS), path.read_bytes())
    assert unpacked(packed, 2) == (2, path.read_bytes()[: images.frames(path)[2][0]])


def test_gzip_files_of_several_members_are_unpacked_whole(tmp_path, path):
    parts = [
        gzip.compress(path.read_bytes()[start : start + 999]) for start in range(0, 9_990, 999)
    ]
    rest = gzip.compress(path.read_bytes()[9_990:])
    packed = images.put(tmp_path / "b.gz", b"".join((*parts, rest)))
    assert unpacked(packed) == (len(RECORDS), path.read_bytes())


def test_a_gzip_file_without_a_record_gives_none(tmp_path):
    assert unpacked(images.put(tmp_path / "a.gz", gzip.compress(b""))) == (0, b"")


@pytest.mark.parametrize("cut", [1, 9, 5_000])
def test_a_gzip_file_that_is_cut_off_names_the_record(tmp_path, cut):
    packed = foreign_files.write(tmp_path / "a.gz", RECORDS, "GZIP")
    images.put(packed, packed.read_bytes()[:-cut])
    with pytest.raises(SourceError, match=r"a.gz record \d: the GZIP file is cut off or damaged"):
        unpacked(packed)


def test_a_gzip_file_whose_bytes_were_changed_is_an_error(tmp_path):
    packed = foreign_files.write(tmp_path / "a.gz", RECORDS, "GZIP")
    whole = packed.read_bytes()
    chosen = random.Random(1)
    for _ in range(30):
        damaged = bytearray(whole)
        damaged[chosen.randrange(20, len(whole))] ^= 1 << chosen.randrange(8)
        images.put(packed, bytes(damaged))
        with pytest.raises(SourceError, match=r"a.gz record \d"):
            unpacked(packed)


def test_gzip_that_holds_another_file_is_not_unpacked(tmp_path):
    packed = images.put(tmp_path / "a.gz", gzip.compress(b"no record" * 10**6))
    with pytest.raises(SourceError, match=r"a.gz record 0: damaged: expected the checksum"):
        unpacked(packed)
    packed = images.put(tmp_path / "b.gz", gzip.compress(foreign_files.framed(b"one") + b"xyz"))
    with pytest.raises(SourceError, match=r"b.gz record 1: cut off: expected 12 bytes, found 3"):
        unpacked(packed)
    packed = images.put(tmp_path / "c.gz", gzip.compress(foreign_files.lying_frame(90, b"few")))
    with pytest.raises(SourceError, match=r"c.gz record 0: cut off: expected 106 bytes, found 19"):
        unpacked(packed)


def test_mutated_files_give_source_errors_or_the_records(tmp_path):
    records = [b"one", b"the second record", bytes(40)]
    for packing in ("", "GZIP"):
        whole = foreign_files.write(tmp_path / "a", records, packing).read_bytes()
        outcomes = set()
        for seed in range(400):
            path = images.put(tmp_path / "b", mutated(random.Random(seed), whole))
            try:
                if compression(path) == "none":
                    walk(path)
                else:
                    unpacked(path)
                outcomes.add("read")
            except SourceError as error:
                outcomes.add("refused" if str(path) in str(error) else "refused without a name")
        assert outcomes == {"read", "refused"}


def mutated(chosen, content):
    """Returns bytes of which some are changed, removed, doubled or cut off."""
    data = bytearray(content)
    for _ in range(chosen.choice((1, 1, 2, 5))):
        place = chosen.randrange(len(data) + 1) if data else 0
        match chosen.randrange(5):
            case 0 if place < len(data):
                data[place] = chosen.randrange(256)
            case 1:
                del data[place : place + chosen.randrange(1, 9)]
            case 2:
                data[place:place] = data[place : place + chosen.randrange(1, 30)]
            case 3:
                del data[place:]
            case _:
                data += chosen.randbytes(chosen.randrange(1, 20))
    return bytes(data)


def test_the_checksums_are_tensorflows(path):
    read = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
    assert read == RECORDS
