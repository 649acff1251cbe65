"""Archives that are damaged, or that hold what must not be in them."""

import io
import re
import stat
import struct
import subprocess
import tarfile
import zipfile
import zlib

import archives
import images
import numpy as np
import pytest

from tfrds.errors import SourceError
from tfrds.write.sources.archive import Archive

PNG = images.encoded(images.noise(0, 2, 3))
MEMBERS = [("cat/1.png", PNG), ("dog/2.png", PNG)]


def assert_refused(archive, message, **options):
    with pytest.raises(SourceError, match=message) as raised:
        Archive(archive, **options).scan()
    assert str(raised.value).startswith(str(archive))


def read_all(archive):
    source = Archive(archive)
    inputs = source.inputs(np.arange(len(source.scan().keys)))
    return [inputs.read(row) for row in range(len(inputs))]


# Names.


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/x.png", "its name is an absolute path"),
        ("\\x.png", "its name is an absolute path"),
        ("../x.png", r'its name climbs out of folders with "\.\."'),
        ("cat/../../x.png", r'its name climbs out of folders with "\.\."'),
        ("cat/..", r'its name climbs out of folders with "\.\."'),
        ("cat\\..\\..\\x.png", r'its name climbs out of folders with "\.\."'),
        ("C:\\x.png", "its name begins with a drive letter"),
        ("c:x.png", "its name begins with a drive letter"),
    ],
)
@pytest.mark.parametrize("is_hidden", [False, True])
def test_name_that_leads_out_is_refused(tmp_path, name, reason, is_hidden):
    members = [*MEMBERS, (name.replace("x.png", ".x") if is_hidden else name, PNG)]
    message = rf"member {re.escape(repr(members[-1][0]))} is refused: {reason}\. Pack"
    assert_refused(archives.zip_of(tmp_path / "a.zip", members), message)
    assert_refused(archives.tar_of(tmp_path / "a.tar", members), message)


def test_name_that_only_looks_like_it_is_none(tmp_path):
    members = [("cat/..x.png/1.png", b""), ("cat/x..png", PNG), ("a/...png", b""), *MEMBERS]
    assert len(read_all(archives.zip_of(tmp_path / "a.zip", members))) == 3


def test_name_with_a_nul_byte_is_refused(tmp_path):
    archive = archives.zip_of(tmp_path / "a.zip", [*MEMBERS, ("catX1.png", PNG)])
    archives.replace(archive, b"catX1", b"cat\0001")
    assert_refused(archive, r"member 'cat\\x001.png' is refused: its name has a NUL byte")
    info = tarfile.TarInfo("x")
    info.pax_headers = {"path": "cat\0001.png"}
    archive = archives.tar_of(tmp_path / "a.tar", [*MEMBERS, (info, PNG)])
    assert_refused(archive, r"member 'cat\\x001.png' is refused: its name has a NUL byte")


def test_member_without_a_name_is_refused(tmp_path):
    archive = archives.zip_of(tmp_path / "a.zip", [*MEMBERS, ("./.", PNG)])
    assert_refused(archive, r"member '\./\.' is refused: it has no name")
    archive = archives.tar_of(tmp_path / "a.tar", [*MEMBERS, (".", PNG)])
    assert_refused(archive, r"member '\.' is refused: it has no name")


def test_members_of_one_name_are_refused(tmp_path):
    members = [*MEMBERS, ("./cat/1.png", PNG)]
    message = r"member 'cat/1\.png' is in it twice\. Pack"
    assert_refused(archives.zip_of(tmp_path / "a.zip", members), message)
    assert_refused(archives.tar_of(tmp_path / "a.tar", members), message)


# What is no ordinary file.


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (tarfile.SYMTYPE, "it is a symbolic link to 'target'. Pack the files themselves"),
        (tarfile.LNKTYPE, "it is a hard link to 'target'. Pack the files themselves"),
        (tarfile.CHRTYPE, "it is a device"),
        (tarfile.BLKTYPE, "it is a device"),
        (tarfile.FIFOTYPE, "it is a pipe"),
        (b"V", "it is of the unknown kind b'V'"),
    ],
)
def test_tar_with_something_else_than_files_is_refused(tmp_path, kind, reason):
    info = tarfile.TarInfo("cat/x")
    info.type, info.linkname = kind, "target"
    archive = archives.tar_of(tmp_path / "a.tar", [*MEMBERS, (info, b"")])
    assert_refused(archive, rf"member 'cat/x' is refused: {reason}")


def test_sparse_file_in_a_tar_is_refused(tmp_path):
    with (tmp_path / "holes.png").open("wb") as file:
        file.truncate(2**20)
        file.seek(2**19)
        file.write(PNG)
    for form in ("gnu", "posix"):
        archive = tmp_path / f"{form}.tar"
        command = ["tar", "--sparse", f"--format={form}", "-C", tmp_path, "-cf", archive]
        if subprocess.run([*command, "holes.png"], check=False, capture_output=True).returncode:
            pytest.skip("needs GNU tar")
        assert_refused(archive, r"member '.*holes\.png' is refused: it is a sparse file")


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        (stat.S_IFLNK, "it is a symbolic link"),
        (stat.S_IFIFO, "it is a device or a pipe"),
        (stat.S_IFCHR, "it is a device or a pipe"),
    ],
)
def test_zip_with_something_else_than_files_is_refused(tmp_path, mode, reason):
    info = zipfile.ZipInfo("cat/x")
    info.create_system, info.external_attr = 3, (mode | 0o777) << 16
    archive = archives.zip_of(tmp_path / "a.zip", [*MEMBERS, (info, b"../../target")])
    assert_refused(archive, rf"member 'cat/x' is refused: {reason}")


@pytest.mark.parametrize(("flags", "what"), [(1, "encrypted"), (0x2000, "patched or masked")])
def test_encrypted_member_is_refused(tmp_path, flags, what):
    archive = archives.zip_of(tmp_path / "a.zip", MEMBERS)
    archives.set_in_directory(archive, 1, "flags", flags)
    assert_refused(archive, rf"member 'dog/2\.png' is refused: it is {what}\. .*password")


def test_unknown_packing_is_refused(tmp_path):
    archive = archives.zip_of(tmp_path / "a.zip", MEMBERS)
    archives.set_in_directory(archive, 0, "method", 9)
    assert_refused(archive, r"member 'cat/1\.png' is refused: it is packed by method 9, expected")


# Bombs.


def test_zip_that_unpacks_to_too_much_is_refused(tmp_path):
    members = [(f"cat/{n}.png", PNG + bytes(10_000)) for n in range(10)]
    archive = archives.zip_of(tmp_path / "a.zip", members, zipfile.ZIP_DEFLATED)
    total = 10 * (len(PNG) + 10_000)
    message = (
        rf": 10 packed images would unpack to {total:,} bytes, more than the {total - 1:,} that"
    )
    assert_refused(archive, message, max_unpacked_bytes=total - 1)
    assert len(Archive(archive, max_unpacked_bytes=total).scan().keys) == 10
    # What is stored as it is cannot be a bomb.
    archives.zip_of(archive, members)
    assert len(Archive(archive, max_unpacked_bytes=0).scan().keys) == 10


def test_image_too_large_for_a_record_is_refused_before_it_is_read(tmp_path):
    archive = archives.zip_of(tmp_path / "a.zip", MEMBERS, zipfile.ZIP_DEFLATED)
    archives.set_in_directory(archive, 0, "size", 2**31 - 4095)
    message = (
        r"member 'cat/1\.png' is refused: expected at most 2,147,479,552 bytes an image, it sa"
    )
    assert_refused(archive, message)
    large = tmp_path / "a.tar"
    with tarfile.open(large, "w") as tar:
        info = tarfile.TarInfo("cat/1.png")
        info.size = 2**31
        tar.fileobj.write(info.tobuf() + PNG)
        tar.offset = tar.fileobj.seek(512 + 2**31)
    assert_refused(large, message)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize(
    ("by", "reason"), [(-1, "unpacks to more than the"), (1, r"unpacks to [\d,]+ of the")]
)
def test_member_of_another_size_than_it_says_is_named(tmp_path, method, by, reason):
    data = PNG + bytes(100_000)
    archive = archives.zip_of(tmp_path / "a.zip", [("cat/1.png", data)], method)
    archives.set_in_directory(archive, 0, "size", len(data) + by)
    with pytest.raises(
        SourceError, match=rf"^a\.zip/cat/1\.png: it {reason} {len(data) + by:,} byt"
    ):
        read_all(archive)


def test_file_that_ends_before_it_can_be_told_what_it_is_is_named(tmp_path):
    archive = archives.zip_of(tmp_path / "a.zip", [("a/1.png", PNG[:9])], zipfile.ZIP_DEFLATED)
    archives.set_in_directory(archive, 0, "size", 1000)
    with pytest.raises(SourceError, match=r"^a\.zip/a/1\.png: it unpacks to 9 of the 1,000 bytes"):
        read_all(archive)


def test_stored_member_of_two_sizes_is_refused(tmp_path):
    archive = archives.zip_of(tmp_path / "a.zip", MEMBERS)
    archives.set_in_directory(archive, 0, "size", 10**9)
    assert_refused(
        archive, rf"it is stored as it is, in {len(PNG)} bytes, and says it has 1,000,000,0"
    )


def test_members_that_share_bytes_are_refused(tmp_path):
    inner = archives.zip_of(tmp_path / "inner.zip", [("cat/1.png", PNG)]).read_bytes()
    start = inner.index(b"PK\1\2")
    local, entry = inner[:start], inner[start : inner.index(b"PK\5\6")]
    # The bytes of b.png are those of the other member, with its header.
    archive = archives.zip_of(tmp_path / "a.zip", [("cat/b.bin", local)])
    data = archive.read_bytes()
    start, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    first = data[start:end]
    inside = struct.pack("<I", data.index(local, 1))
    second = entry[:42] + inside + entry[46:]
    sizes = struct.pack("<HHI", 2, 2, len(first + second))
    archive.write_bytes(data[:end] + second + data[end : end + 8] + sizes + data[end + 16 :])
    with zipfile.ZipFile(archive) as opened:
        assert opened.namelist() == ["cat/b.bin", "cat/1.png"]
    assert_refused(archive, r": 1 members lie in the bytes of others, from byte \d+ on")


def test_lzma_takes_no_more_memory_than_the_member_needs(tmp_path):
    archive = archives.zip_of(tmp_path / "a.zip", MEMBERS, zipfile.ZIP_LZMA)
    data = archive.read_bytes()
    place = 30 + len("cat/1.png") + 5
    archive.write_bytes(data[:place] + b"\xff" * 4 + data[place + 4 :])
    assert read_all(archive) == [PNG, PNG]
    archive.write_bytes(data[: place - 1] + b"\xff" + data[place:])
    assert_refused(archive, r"member 'cat/1\.png': its packed bytes are damaged: ")
    archive.write_bytes(data[: place - 3] + b"\7" + data[place - 2 :])
    assert_refused(archive, r"member 'cat/1\.png': its packed bytes are damaged: its header is not")


def test_xz_that_asks_for_much_memory_is_refused(tmp_path):
    tar = archives.tar_of(tmp_path / "a.tar", MEMBERS).read_bytes()
    data = bytearray(archives.compressed(tar, "xz.tar.xz"))
    length = 4 * data[12] + 4
    block = data[12 : 12 + length]
    place = block.index(b"\x21\x01") + 2
    block[place] = 40  # 4 GiB
    block[-4:] = struct.pack("<I", zlib.crc32(block[:-4]))
    data[12 : 12 + length] = block
    archive = images.put(tmp_path / "a.tar.xz", bytes(data))
    assert_refused(archive, r": cannot be unpacked by xz, damaged or cut off: Memory usage limit")


def test_header_of_a_tar_takes_little_memory(tmp_path):
    long = tarfile.TarInfo("././@LongLink")
    long.type, long.size = tarfile.GNUTYPE_LONGNAME, 3 * 2**20
    archive = tmp_path / "a.tar"
    archives.tar_of(archive, [])
    archive.write_bytes(long.tobuf() + b"x" * long.size + archive.read_bytes())
    assert_refused(
        archive, r": damaged near byte 512: a header of 3,145,728 bytes or more\. Copy it"
    )
    # Many small ones in front of a member.
    long.size = 512
    one = long.tobuf() + b"x" * 512
    archives.tar_of(archive, MEMBERS)
    archive.write_bytes(one * 2000 + archive.read_bytes())
    assert_refused(archive, r": damaged near byte [\d,]+: (a header|maximum recursion depth)")


def test_negative_size_in_a_tar_is_no_endless_loop(tmp_path):
    archive = archives.tar_of(tmp_path / "a.tar", MEMBERS)
    data = archive.read_bytes()
    negative = archives.with_checksum(data[:124] + (2**96 - 1024).to_bytes(12) + data[136:512])
    archive.write_bytes(negative + data[512:])
    assert_refused(archive, r": damaged near byte 512: the member at 0 has a negative size")


# Damage.


@pytest.mark.parametrize("left", [3, 40, 200, -1, -20, -60])
def test_zip_that_is_cut_off_is_named(tmp_path, left):
    archive = archives.zip_of(tmp_path / "a.zip", MEMBERS)
    archive.write_bytes(archive.read_bytes()[:left])
    message = "expected a zip or a tar" if left == 3 else "damaged: the directory at its end is mis"
    assert_refused(archive, message)


def test_zip_in_a_cut_zip_is_not_taken_for_it(tmp_path):
    inner = archives.zip_of(tmp_path / "inner.zip", [("cat/1.png", PNG)]).read_bytes()
    archive = archives.zip_of(tmp_path / "a.zip", [("cat/2.png", PNG), ("x/y.zip", inner)])
    data = archive.read_bytes()
    archive.write_bytes(data[: data.index(inner) + len(inner)])
    assert_refused(archive, r"damaged: member 1 is not in its directory at byte \d+")


@pytest.mark.parametrize("left", [400, 512, 600, 1024, 2048, 2048 + 400])
def test_tar_that_is_cut_off_is_named(tmp_path, left):
    archive = archives.tar_of(tmp_path / "a.tar", MEMBERS)
    archive.write_bytes(archive.read_bytes()[:left])
    message = {
        400: "expected a zip or a tar",
        512: r"its \d+ bytes would end at \d+, the archive ends at 512. The archive is cut off",
        600: "damaged near byte 1,023: unexpected end of data",
        1024: "cut off at byte 1,024: the mark of a tar's end is missing",
        2048: "cut off at byte 2,048: the mark of a tar's end is missing",
        2448: "cut off at byte 2,448: the mark of a tar's end is missing",
    }[left]
    assert_refused(archive, message)


def test_damaged_header_in_a_tar_is_not_taken_for_its_end(tmp_path):
    archive = archives.tar_of(tmp_path / "a.tar", MEMBERS)
    data = bytearray(archive.read_bytes())
    data[1024 + 5] ^= 1
    archive.write_bytes(data)
    assert_refused(archive, r": damaged at byte 1,024: expected the header of a member\. Copy it")


def test_joined_tars_are_not_read_in_part(tmp_path):
    archive = archives.tar_of(tmp_path / "a.tar", MEMBERS)
    archive.write_bytes(archive.read_bytes() * 2)
    assert_refused(archive, r": more follows behind the end at byte 2,048, .*Pass them one by one")
    archives.tar_of(archive, MEMBERS)
    archive.write_bytes(archive.read_bytes() + bytes(3 * 2**20))
    assert len(read_all(archive)) == 2


@pytest.mark.parametrize("packing", archives.COMPRESSED_TARS)
def test_compressed_tar_that_is_cut_off_or_damaged_is_named(tmp_path, packing):
    noise = images.noise(0, 300, 300).tobytes()
    tar = archives.tar_of(tmp_path / "a.tar", [*MEMBERS, ("x/y", noise)])
    data = archives.compressed(tar.read_bytes(), packing)
    archive = tmp_path / packing
    message = "cannot be unpacked by .*, damaged or cut off: .*Copy it again"
    archive.write_bytes(data[: len(data) // 2])
    assert_refused(archive, message)
    archive.write_bytes(data[:-3])
    assert_refused(archive, message)
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 255
    archive.write_bytes(damaged)
    # zstd as a program adds a checksum, as a library it does not; the tar may have no mark of it.
    if packing != "zstd.tar.zst":
        assert_refused(archive, message)


@pytest.mark.parametrize("packing", archives.COMPRESSED_TARS)
def test_compressed_file_that_is_no_tar_is_named_at_once(tmp_path, packing):
    archive = tmp_path / packing
    for data in (b"text", bytes(100), b"text" * 10**6):
        archive.write_bytes(archives.compressed(data, packing))
        kind = packing.partition(".")[0]
        assert_refused(archive, rf"expected a tar packed by {kind}, found something else in it")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "the file is empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(600), r"it is a single image \(png\)\. Pass the folder or"),
        (b"text" * 200, "it looks like text, 'texttext.*Copy it again, or pass a source that"),
        (b"\xff" * 600, "it begins with the bytes ff ff"),
        (
            b"Rar!\x1a\x07\x01\0" + bytes(600),
            r"it is a RAR archive\. Unpack it and pass the folder",
        ),
        (b"7z\xbc\xaf\x27\x1c\0\4", "it is a 7-Zip archive"),
    ],
)
def test_file_that_is_no_archive_is_named(tmp_path, data, found):
    # Its name does not matter.
    assert_refused(images.put(tmp_path / "a.zip", data), rf"expected a zip or a tar, .*{found}")


def test_name_of_an_archive_does_not_matter(tmp_path):
    assert read_all(archives.zip_of(tmp_path / "a.tar.gz", MEMBERS)) == [PNG, PNG]
    assert read_all(archives.tar_of(tmp_path / "a.zip", MEMBERS)) == [PNG, PNG]


@pytest.mark.parametrize("make", [archives.zip_of, archives.tar_of])
def test_archive_without_images_is_named(tmp_path, make):
    archive = make(tmp_path / "a", [])
    assert_refused(archive, r": no image found in it, left out: nothing\.")
    make(archive, [("cat/a.txt", b"text"), (".x", b"")])
    assert_refused(archive, r": no image found in it, left out: \{'.*': 1, '.*': 1\}\.")


def test_unreadable_archive_is_named():
    # tmp_path lets only its owner in.
    import os
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        archive = archives.zip_of(pathlib.Path(folder, "a.zip"), MEMBERS)
        archive.chmod(0)
        with images.without_root():
            assert_refused(archive, ": cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("number", "field", "value", "message"),
    [
        (1, "offset", 5, r"member 'dog/2\.png' is refused: it is not at byte 5, where"),
        (1, "offset", 10**9, r"member 'dog/2\.png' is refused: it is not at byte 1,000,000,000"),
        (
            1,
            "offset",
            0,
            r"member 'dog/2\.png' is refused: it is called b'cat/1\.png' beside its b",
        ),
        (1, "offset", 2**32 - 1, r"member 'dog/2\.png' is refused: its sizes are missing"),
        (1, "packed", 10**6, r"it is stored as it is, in 1,000,000 bytes"),
    ],
)
def test_directory_of_a_zip_that_is_wrong_is_named(tmp_path, number, field, value, message):
    archive = archives.zip_of(tmp_path / "a.zip", MEMBERS)
    archives.set_in_directory(archive, number, field, value)
    assert_refused(archive, message)


def test_size_beyond_32_bits_that_is_missing_is_named(tmp_path):
    info = zipfile.ZipInfo("cat/1.png")
    info.extra = struct.pack("<HH4sHH", 9, 4, b"text", 1, 0)
    archive = archives.zip_of(tmp_path / "a.zip", [(info, PNG)])
    archives.set_in_directory(archive, 0, "size", 2**32 - 1)
    assert_refused(archive, r"member 'cat/1\.png' is refused: its sizes are missing")


def test_member_that_reaches_into_the_directory_is_refused(tmp_path):
    archive = archives.zip_of(tmp_path / "a.zip", MEMBERS, zipfile.ZIP_DEFLATED)
    archives.set_in_directory(archive, 1, "packed", 5_000)
    message = (
        r"member 'dog/2\.png' is refused: its 5,000 packed bytes from \d+ on reach into the dir"
    )
    assert_refused(archive, message)


@pytest.mark.parametrize(
    ("offset", "kind", "value", "message"),
    [
        (4, "<H", 1, "is one part of a zip in several, expected a whole one"),
        (10, "<H", 3, r"damaged: member 3 is not in its directory"),
        (10, "<H", 1, r"damaged: its directory should end at byte \d+, ends at \d+"),
        (
            12,
            "<I",
            10**6,
            r"damaged: expected its directory of 1,000,000 bytes at byte \d+, in front",
        ),
        (12, "<I", 60, r"damaged: its directory reaches beyond byte \d+"),
        (16, "<I", 3, r"damaged: member 1 is not in its directory at byte 3"),
    ],
)
def test_end_of_a_zip_that_is_wrong_is_named(tmp_path, offset, kind, value, message):
    archive = archives.zip_of(tmp_path / "a.zip", MEMBERS)
    data = bytearray(archive.read_bytes())
    struct.pack_into(kind, data, data.index(b"PK\5\6") + offset, value)
    archive.write_bytes(data)
    assert_refused(archive, message)


@pytest.mark.parametrize("place", [10, 2**63, 2**64 - 1])
def test_large_directory_of_a_zip_that_is_not_there_is_named(tmp_path, monkeypatch, place):
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    archive = archives.zip_of(tmp_path / "a.zip", MEMBERS)
    data = bytearray(archive.read_bytes())
    struct.pack_into("<Q", data, data.index(b"PK\6\7") + 8, place)
    archive.write_bytes(data)
    assert_refused(
        archive, rf"damaged: its large directory is not where it should be, at byte {place:,}"
    )


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_image_with_another_checksum_is_named(tmp_path, method):
    archive = archives.zip_of(tmp_path / "a.zip", MEMBERS, method)
    archives.set_in_directory(archive, 0, "crc", 0x12345678)
    right = f"{zlib.crc32(PNG):08x}"
    message = rf"^a\.zip/cat/1\.png: expected the checksum 12345678, its bytes have {right}\. Copy"
    with pytest.raises(SourceError, match=message):
        read_all(archive)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packed_image_that_is_damaged_is_named(tmp_path, method):
    data = PNG + images.noise(0, 100, 100).tobytes()
    archive = archives.zip_of(tmp_path / "a.zip", [("cat/1.png", data)], method)
    whole = archive.read_bytes()
    messages = set()
    for place in range(60, len(whole) - 200, 1501):
        damaged = bytearray(whole)
        damaged[place] ^= 255
        archive.write_bytes(damaged)
        with pytest.raises(SourceError, match=r"cat/1\.png'?: |holds none: cat/1\.png") as raised:
            read_all(archive)
        messages.add(str(raised.value).partition(": it")[2][:5])
    assert messages


def test_archive_that_shrinks_while_it_is_read_is_named(tmp_path):
    archive = archives.tar_of(tmp_path / "a.tar", [("cat/1.png", PNG)])
    from tfrds.write.sources.archive_members import STORED, Place, read_member

    with (
        archive.open("rb") as file,
        pytest.raises(ValueError, match=r"the archive ends after 240 of 1,000 bytes of it"),
    ):
        read_member(file.fileno(), Place(STORED, 10_000, 1000, 1000, None))


def test_every_bit_flip_in_a_small_zip_is_noticed_or_harmless(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("cat/1.png", PNG)
    whole = buffer.getvalue()
    archive = tmp_path / "a.zip"
    for place in range(len(whole)):
        for bit in (1, 128):
            damaged = bytearray(whole)
            damaged[place] ^= bit
            archive.write_bytes(damaged)
            try:
                images_read = read_all(archive)
            except SourceError:
                continue
            assert images_read == [PNG]


def test_every_bit_flip_in_a_header_of_a_tar_is_noticed_or_harmless(tmp_path):
    archive = archives.tar_of(tmp_path / "a.tar", MEMBERS)
    whole = archive.read_bytes()
    for place in (*range(512), *range(1024, 1536)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        archive.write_bytes(damaged)
        try:
            images_read = read_all(archive)
        except SourceError:
            continue
        assert images_read == [PNG, PNG]
