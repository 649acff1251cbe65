"""Class trees in archives: the same as the folders that they were packed from."""

import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tarfile
import unicodedata
import zipfile

import archives
import images
import numpy as np
import pytest

import tfrds
from tfrds.errors import ConfigError, DatasetError, SourceError
from tfrds.write.sources import ImageFolder
from tfrds.write.sources.archive import Archive

PNG = images.encoded(images.noise(0, 2, 3))
NFC = unicodedata.normalize("NFC", "größe é")
NFD = unicodedata.normalize("NFD", NFC)

TREE = [
    "cat/1.png",
    "cat/far/below/2.png",
    "dog/10.png",
    "dog-2/1.png",
    "dog/9.png",
    f"{NFC}/e.png",
]


@pytest.fixture
def folder(tmp_path):
    return images.put_images(tmp_path / "source", TREE)


# The same as folders.


@pytest.mark.parametrize("packing", archives.PACKINGS)
def test_any_packing_gives_what_the_folder_gives(tmp_path, folder, packing):
    images.put(folder / "README.md", "text")
    images.put(folder / "cat" / "notes.txt", "text")
    images.put(folder / "cat" / "empty", "")
    images.put(folder / "cat" / ".hidden.png", PNG)
    images.put(folder / "dog" / "Thumbs.db", "text")
    images.put(folder / "dog" / "really_gif.jpg", images.encoded(images.noise(1, 3, 3), "GIF"))
    images.put(folder / "dog" / "large.png", images.encoded(images.noise(1, 200, 300)))
    archive = archives.pack(folder, tmp_path / packing)
    archives.assert_same_as_folder(archive, folder)
    assert Archive(archive).scan().notes == (f"{archive}: read as class/.../file.",)


@pytest.mark.parametrize("packing", ["deflated.zip", "gnu.tar"])
def test_splits_are_those_of_the_folder(tmp_path, packing):
    names = [f"{split}/{name}/1.png" for split in ("train", "test") for name in ("cat", "dog")]
    folder = images.put_images(tmp_path / "source", names)
    archive = archives.pack(folder, tmp_path / packing)
    archives.assert_same_as_folder(archive, folder)
    assert Archive(archive).scan().notes == (f"{archive}: read as split/class/.../file.",)
    archives.assert_same_as_folder(archive, folder, layout="split")
    archives.assert_same_as_folder(archive, folder, layout="class")


# The folder around everything.


@pytest.mark.parametrize("packing", ["deflated.zip", "gnu.tar"])
def test_folder_around_everything_is_stepped_over(tmp_path, folder, packing):
    archive = archives.pack(folder, tmp_path / packing, below="flowers")
    archives.assert_same_as_folder(archive, folder)
    assert Archive(archive).scan().notes[1] == (
        f"{archive}: stepped over the folder 'flowers' around all images."
    )
    source = Archive(archive)
    source.scan()
    assert source.inputs(np.array([0])).name(0) == f"{packing}/flowers/cat/1.png"


def test_folder_around_splits_is_stepped_over_and_an_empty_split_found(tmp_path):
    members = [(f"set/train/{name}/1.png", PNG) for name in ("cat", "dog")]
    archive = archives.zip_of(tmp_path / "a.zip", members)
    assert archives.keys_of(archive) == ["train/cat/1.png", "train/dog/1.png"]
    assert Archive(archive).scan().split_names == ("train",)
    more = archives.zip_of(tmp_path / "b.zip", [*members, ("set/test/", b"")])
    with pytest.raises(SourceError, match=r"b\.zip: split 'test': expected at least one image"):
        Archive(more).scan()
    more = archives.zip_of(tmp_path / "c.zip", [*members, ("set/val/cat/x.txt", b"text")])
    with pytest.raises(SourceError, match=r"c\.zip: split 'val': expected at least one image"):
        Archive(more).scan()


def test_files_beside_it_do_not_matter(tmp_path):
    members = [("README", b"text"), ("__MACOSX/._x", b""), ("pets/cat/1.png", PNG)]
    archive = archives.zip_of(tmp_path / "a.zip", members)
    assert archives.keys_of(archive) == ["cat/1.png"]


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (["cat/1.png", "cat/2.png"], {}),
        (["train/cat/1.png"], {}),
        (["fold/cat/1.png", "fold/dog/1.png"], {"layout": "split"}),
    ],
)
def test_folder_that_means_something_is_none_around_everything(tmp_path, names, options):
    folder = images.put_images(tmp_path / "source", names)
    archives.assert_same_as_folder(archives.pack(folder, tmp_path / "pax.tar"), folder, **options)


# Names.


def test_current_folder_and_double_slashes_mean_nothing(tmp_path):
    members = [("./cat/1.png", PNG), (".//dog//./2.png", PNG), ("./", b"")]
    for archive in (
        archives.zip_of(tmp_path / "a.zip", members),
        archives.tar_of(tmp_path / "a.tar", members[:2]),
    ):
        assert archives.keys_of(archive) == ["cat/1.png", "dog/2.png"]


def test_hidden_and_system_files_are_left_out_and_counted(tmp_path):
    names = ["__MACOSX/cat/._1.png", "cat/._1.png", ".git/x.png", "a/THUMBS.DB", "cat/desktop.ini"]
    members = [("cat/1.png", PNG), *((name, b"text") for name in names), ("cat/a.TXT", b"text")]
    references = Archive(archives.zip_of(tmp_path / "a.zip", members)).scan()
    assert list(references.keys) == [b"cat/1.png"]
    assert references.left_out == {"system file": 3, "hidden": 2, ".txt": 1}


def test_keys_are_nfc_and_images_still_read(tmp_path):
    data = [images.encoded(images.noise(seed, 2, 3)) for seed in range(2)]
    members = [(f"{NFD}/{NFD}.png", data[0]), ("x/1.png", data[1])]
    for archive in (
        archives.zip_of(tmp_path / "a.zip", members),
        archives.tar_of(tmp_path / "a.tar", members),
    ):
        source = Archive(archive)
        references = source.scan()
        assert {key.decode() for key in references.keys} == {f"{NFC}/{NFC}.png", "x/1.png"}
        assert sorted(references.class_names) == [NFC, "x"]
        row = [key.decode() for key in references.keys].index(f"{NFC}/{NFC}.png")
        assert source.inputs(np.array([row])).read(0) == data[0]


def test_bytes_that_are_not_utf8_are_percent_escaped(tmp_path):
    zipped = archives.zip_of(tmp_path / "a.zip", [("cafX/1%.png", PNG), ("x/1.png", PNG)])
    archives.replace(zipped, b"cafX", b"caf\xe9")
    tarred = archives.tar_of(tmp_path / "a.tar", [("caf\udce9/1%.png", PNG), ("x/1.png", PNG)])
    for archive in (zipped, tarred):
        source = Archive(archive)
        references = source.scan()
        assert list(references.keys) == [b"caf%E9/1%.png", b"x/1.png"]
        assert references.class_names == ("caf%E9", "x")
        inputs = pickle.loads(pickle.dumps(source.inputs(np.array([0]))))
        assert inputs.name(0) == f"{archive.name}/caf%E9/1%.png"
        assert inputs.read(0) == PNG


def test_zip_of_dos_has_backslashes_between_folders(tmp_path):
    archive = archives.zip_of(tmp_path / "a.zip", [("cat\\1.png", PNG), ("dog\\2.png", PNG)])
    with pytest.raises(SourceError, match=r"inside class/\.\.\./file, found 'cat\\\\1\.png'"):
        Archive(archive).scan()
    for number in range(2):
        archives.set_in_directory(archive, number, "system", 0)
    assert archives.keys_of(archive) == ["cat/1.png", "dog/2.png"]


def test_long_names_are_whole(tmp_path):
    name = "cat/" + "d/" * 150 + "x" * 100 + ".png"
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        with tarfile.open(tmp_path / "a.tar", "w", format=form) as archive:
            images.put(tmp_path / "1.png", PNG)
            archive.add(tmp_path / "1.png", name)
            archive.add(tmp_path / "1.png", "dog/1.png")
        assert archives.keys_of(tmp_path / "a.tar") == [name, "dog/1.png"]


@pytest.mark.parametrize("kind", [tarfile.AREGTYPE, tarfile.CONTTYPE])
def test_other_marks_of_ordinary_files_are_known(tmp_path, kind):
    info = tarfile.TarInfo("cat/1.png")
    info.type = kind
    archive = archives.tar_of(tmp_path / "a.tar", [(info, PNG), ("dog/1.png", PNG)])
    assert archives.keys_of(archive) == ["cat/1.png", "dog/1.png"]


def test_sizes_beyond_32_bits_are_understood(tmp_path, monkeypatch):
    # As if everything were that large.
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    folder = images.put_images(tmp_path / "source", TREE)
    archive = archives.pack(folder, tmp_path / "deflated.zip")
    assert b"PK\6\6" in archive.read_bytes()
    monkeypatch.undo()
    archives.assert_same_as_folder(archive, folder)


def test_zip_that_was_written_to_a_pipe_has_sizes_behind_its_files(tmp_path):
    folder = images.put_images(tmp_path / "source", TREE)
    path = tmp_path / "a.zip"
    code = (
        "import sys, zipfile, pathlib\n"
        f"root = pathlib.Path({str(folder)!r})\n"
        "with zipfile.ZipFile(sys.stdout.buffer, 'w', zipfile.ZIP_DEFLATED) as archive:\n"
        "    for path in root.rglob('*.png'): archive.write(path, path.relative_to(root))\n"
    )
    with (
        path.open("wb") as file,
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process,
    ):
        shutil.copyfileobj(process.stdout, file)
    assert process.returncode == 0
    archives.assert_same_as_folder(path, folder)


def test_comment_of_a_zip_does_not_matter(tmp_path, folder):
    archive = archives.pack(folder, tmp_path / "stored.zip")
    with zipfile.ZipFile(archive, "a") as opened:
        opened.comment = b"PK" * 30_000
    archives.assert_same_as_folder(archive, folder)


# Several archives.


def test_archives_together_are_one_folder(tmp_path):
    folder = images.put_images(tmp_path / "source", ["cat/1.png", "cat/2.png", "dog/3.png"])
    data = {key: (folder / key).read_bytes() for key in ("cat/1.png", "cat/2.png", "dog/3.png")}
    first = archives.zip_of(tmp_path / "b.zip", [("dog/3.png", data["dog/3.png"])])
    second = archives.tar_of(tmp_path / "a.tar", list(data.items())[:2])
    for files in ([first, str(second)], (second, first)):
        assert archives.by_key(Archive(files)) == archives.by_key(ImageFolder(folder))
    note = f"{first} and 1 more: read as class/.../file."
    assert Archive([first, second]).scan().notes == (note,)


def test_same_member_in_two_archives_is_named(tmp_path):
    first = archives.zip_of(tmp_path / "a.zip", [("cat/1.png", PNG), ("cat/2.png", PNG)])
    second = archives.tar_of(tmp_path / "b.tar", [("cat/2.png", PNG)])
    expected = rf"{second}: member 'cat/2\.png' is in {first} too\. Rename it"
    with pytest.raises(SourceError, match=expected):
        Archive([first, second]).scan()


def test_file_that_only_claims_to_be_an_image_is_named_with_its_archive(tmp_path):
    good = archives.zip_of(tmp_path / "a.zip", [("cat/1.png", PNG)])
    bad = archives.tar_of(
        tmp_path / "b.tar", [*((f"cat/bad{n}.jpg", b"text") for n in range(7)), ("a/e.png", b"")]
    )
    with pytest.raises(
        SourceError,
        match=r"8 files are named like an image and hold none: b\.tar/cat/bad0\.jpg \(no image in "
        r"it\), .*bad4\.jpg \(no image in it\), \.\.\.\. Replace",
    ):
        Archive([good, bad]).scan()
    with pytest.raises(SourceError, match=rf"{bad}: 8 files .* none: cat/bad0\.jpg \(no image"):
        Archive(bad).scan()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"layout": "flat"},
            r"layout: expected one of \['class', 'split', 'webdataset'\], got 'fl",
        ),
        ({"label_kind": "many"}, r"label_kind: expected one of \[.*\], got 'many'"),
        ({"class_level": "last"}, r"class_level: expected one of \['first', 'all'\], got 'last'"),
        ({"max_unpacked_bytes": -1}, r"max_unpacked_bytes: expected .*at least 0, got -1"),
        ({"label": ".xml"}, r"label: expected the name of a field .*'\.txt'\], got '\.xml'"),
        ({"label": ""}, r"label: expected the name of a field .*got ''"),
        ({"label": "x", "layout": "class"}, r"label: is for WebDataset shards, got 'x' for class"),
        ({"label": "x", "label_kind": "none"}, r"label: is not read with .*got 'x'"),
        ({"class_level": "all", "layout": "webdataset"}, r"class_level: is for class trees.*'all'"),
    ],
)
def test_argument_that_cannot_be_meant_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Archive("a.tar", **options)


# Workers.


def test_inputs_travel_light_and_read_from_anywhere(tmp_path, monkeypatch):
    data = {f"cat/{n}.png": images.encoded(images.noise(n, 3, 3)) for n in range(5)}
    archives.zip_of(tmp_path / "a.zip", list(data.items()))
    monkeypatch.chdir(tmp_path)
    source = Archive("a.zip")
    source.scan()
    inputs = source.inputs(np.array([4, 0]))
    monkeypatch.chdir("/")
    pickled = pickle.dumps(inputs)
    assert len(pickled) < 1500
    inputs = pickle.loads(pickled)
    assert len(inputs) == 2
    assert [inputs.name(0), inputs.name(1)] == ["a.zip/cat/4.png", "a.zip/cat/0.png"]
    assert [inputs.read(0), inputs.read(1)] == [data["cat/4.png"], data["cat/0.png"]]


def test_archive_that_changed_or_went_is_no_fault_of_an_image(tmp_path):
    archive = archives.tar_of(tmp_path / "a.tar", [("cat/1.png", PNG), ("dog/1.png", PNG)])
    source = Archive(archive)
    source.scan()
    inputs = source.inputs(np.array([0]))
    status = archive.stat()
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(DatasetError, match=rf"{archive}: changed since it was scanned"):
        inputs.read(0)
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert inputs.read(0) == PNG
    archives.tar_of(archive, [("cat/1.png", PNG)])
    archive.write_bytes(archive.read_bytes() + bytes(10_240))
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(DatasetError, match=r"changed since .*from 10,240 bytes to 20,480"):
        inputs.read(0)
    archive.unlink()
    with pytest.raises(
        DatasetError, match=rf"{archive}: expected this file on .*, found none\. Ev"
    ):
        inputs.read(0)


def test_stamp_is_another_one_when_the_archive_or_the_place_is(tmp_path):
    members = [("cat/1.png", PNG), ("cat/2.png", PNG + b"x")]
    archive = archives.zip_of(tmp_path / "a.zip", members)
    os.utime(archive, ns=(10**18, 10**18))
    before = Archive(archive).scan().stamps
    assert len(set(before.tolist())) == 2
    assert Archive(archive).scan().stamps.tolist() == before.tolist()
    os.utime(archive, ns=(10**18, 10**18 + 1))
    assert not set(Archive(archive).scan().stamps.tolist()) & set(before.tolist())
    # Of the same size and time, but with the two members changed for one another.
    archives.zip_of(archive, [("cat/1.png", PNG + b"x"), ("cat/2.png", PNG)])
    os.utime(archive, ns=(10**18, 10**18))
    assert not set(Archive(archive).scan().stamps.tolist()) & set(before.tolist())


def test_stamps_of_a_compressed_tar_are_the_same_in_each_scan(tmp_path, folder):
    archive = archives.pack(folder, tmp_path / "gzip.tar.gz")
    stamps = Archive(archive).scan().stamps.tolist()
    assert Archive(archive).scan().stamps.tolist() == stamps
    assert len(set(stamps)) == len(TREE)


# From end to end.


@pytest.mark.parametrize("packing", ["deflated.zip", "stored.zip", "gnu.tar", "xz.tar.xz"])
def test_build_has_the_bytes_of_a_build_from_the_folder(tmp_path, packing):
    names = [f"{name}/{number}" for name in ("cat", "dog", NFC) for number in range(20)]
    folder = images.put_images(tmp_path / "source", names, height=9, width=12)
    archive = archives.pack(folder, tmp_path / packing, below="pets")
    options = {"splits": {"train": 0.8, "test": 0.2}, "num_workers": 2, "num_shards": 3}
    built = [
        pathlib.Path(tfrds.build("pets", source, data_dir=tmp_path / kind, **options).data_dir)
        for kind, source in (("folder", folder), ("archive", Archive(archive)))
    ]
    expected, found = map(images.files_below, built)
    # It alone says what the images came from.
    for files in (expected, found):
        assert files.pop("tfrds.json")
    assert len([name for name in found if ".tfrecord-" in name]) == 6
    assert found == expected


def test_damaged_image_is_skipped_and_named_with_its_archive(tmp_path):
    members = [
        (f"{name}/{n}.png", images.encoded(images.noise(n, 9, 9)))
        for name in ("cat", "dog")
        for n in range(20)
    ]
    archive = archives.zip_of(tmp_path / "a.zip", members, zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(archive) as opened:
        place = opened.getinfo("cat/7.png").header_offset + 200
    data = bytearray(archive.read_bytes())
    data[place] ^= 255
    archive.write_bytes(data)
    builder = tfrds.build(
        "pets", Archive(archive), data_dir=tmp_path / "data", on_error="skip", max_bad=0.1
    )
    (skipped,) = (pathlib.Path(builder.data_dir) / "skipped.jsonl").read_text().splitlines()
    assert '"cat/7.png"' in skipped
    assert "a.zip/cat/7.png: " in skipped
    assert str(tmp_path) not in skipped


# Large archives.


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
@pytest.mark.parametrize("kind", ["tar", "zip", "deflated zip"])
def test_million_images_need_little_memory(tmp_path, kind):
    names = [f"class{n % 1000:03d}/image{n:07d}.png" for n in range(1_000_000)]
    path = tmp_path / "million"
    if kind == "tar":
        info = tarfile.TarInfo()
        info.size = len(PNG)
        padded = PNG + bytes(-len(PNG) % 512)
        with path.open("wb") as file:
            for name in names:
                info.name = name
                file.write(info.tobuf(tarfile.USTAR_FORMAT) + padded)
            file.write(bytes(1024))
    else:
        method = zipfile.ZIP_DEFLATED if "deflated" in kind else zipfile.ZIP_STORED
        archives.zip_of(path, ((name, PNG) for name in names), method)
    code = (
        "import re, sys, time\n"
        "import numpy as np\n"
        "from tfrds.write.sources.archive import Archive\n"
        # Not of getrusage: that begins with the size of the process that started this one.
        "def peak(): return int(re.search(r'VmHWM:\\s+(\\d+)', open(S).read())[1])\n"
        "S, before = '/proc/self/status', 0\n"
        "before = peak()\n"
        "start = time.process_time()\n"
        "source = Archive(sys.argv[1])\n"
        "references = source.scan()\n"
        "seconds = time.process_time() - start\n"
        "after = peak()\n"
        "rows = np.random.default_rng(0).permutation(10**6)[:1000]\n"
        "inputs = source.inputs(rows)\n"
        "assert len({inputs.read(row) for row in range(1000)}) == 1\n"
        "num_classes = len(references.class_names)\n"
        "print(len(references.keys), num_classes, (after - before) // 1024, seconds)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=pathlib.Path(tfrds.__file__).parents[1],
    )
    path.unlink()
    num_keys, num_classes, megabytes, seconds = map(float, ran.stdout.split())
    print(f"{kind}: {seconds:.1f} s of a processor, {megabytes:.0f} MB")
    assert (num_keys, num_classes) == (1_000_000, 1000)
    # zipfile alone would take more than that.
    assert megabytes < 500
