"""What the tests of archives share: packs folders with the standard library, compares."""

import bz2
import gzip
import io
import lzma
import pathlib
import struct
import tarfile
import zipfile

import numpy as np
import pyarrow

from tfrds.write.sources import ImageFolder
from tfrds.write.sources.archive import Archive

ZIPS = {
    "stored.zip": zipfile.ZIP_STORED,
    "deflated.zip": zipfile.ZIP_DEFLATED,
    "bzip2.zip": zipfile.ZIP_BZIP2,
    "lzma.zip": zipfile.ZIP_LZMA,
}
TARS = {
    "pax.tar": ("w", tarfile.PAX_FORMAT),
    "gnu.tar": ("w", tarfile.GNU_FORMAT),
    "gzip.tar.gz": ("w:gz", tarfile.PAX_FORMAT),
    "bzip2.tar.bz2": ("w:bz2", tarfile.PAX_FORMAT),
    "xz.tar.xz": ("w:xz", tarfile.GNU_FORMAT),
}
PACKINGS = (*ZIPS, *TARS, "zstd.tar.zst")
COMPRESSED_TARS = ("gzip.tar.gz", "bzip2.tar.bz2", "xz.tar.xz", "zstd.tar.zst")


def pack(folder, target, below=""):
    """Packs all of a folder, in an order that is not by name; `target` is named as a packing.

    Args:
      folder: whose contents are packed.
      target: the archive.
      below: folder of the archive that they are packed into.
    """
    folder, target = pathlib.Path(folder), pathlib.Path(target)
    paths = sorted(folder.rglob("*"), key=lambda path: (path.name[::-1], path))
    if target.name in ZIPS:
        with zipfile.ZipFile(target, "w", ZIPS[target.name]) as archive:
            for path in paths:
                archive.write(path, pathlib.PurePath(below, path.relative_to(folder)))
        return target
    mode, form = TARS.get(target.name, ("w", tarfile.PAX_FORMAT))
    with tarfile.open(target, mode, format=form) as archive:
        for path in paths:
            name = pathlib.PurePath(below, path.relative_to(folder))
            archive.add(path, str(name), recursive=False)
    if target.name == "zstd.tar.zst":
        target.write_bytes(pyarrow.compress(target.read_bytes(), "zstd", asbytes=True))
    return target


def compressed(data, kind):
    """Returns bytes packed as one of the compressed tars is."""
    if kind == "zstd.tar.zst":
        return pyarrow.compress(data, "zstd", asbytes=True)
    return {"gzip.tar.gz": gzip, "bzip2.tar.bz2": bz2, "xz.tar.xz": lzma}[kind].compress(data)


def zip_of(path, members, method=zipfile.ZIP_STORED):
    """Writes a zip of (name or ZipInfo, bytes) pairs."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def tar_of(path, members, mode="w"):
    """Writes a tar of (name or TarInfo, bytes) pairs."""
    with tarfile.open(path, mode) as archive:
        for name, data in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            if info.isreg():
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def replace(path, old, new, count=-1):
    """Replaces bytes in a file by others of the same length."""
    data = path.read_bytes()
    assert old in data
    assert len(old) == len(new)
    path.write_bytes(data.replace(old, new, count))
    return path


def set_in_directory(path, number, field, value):
    """Sets a field of a zip's entry in its central directory, by position."""
    offset, kind = {
        "system": (5, "B"),
        "flags": (8, "<H"),
        "method": (10, "<H"),
        "crc": (16, "<I"),
        "packed": (20, "<I"),
        "size": (24, "<I"),
        "offset": (42, "<I"),
    }[field]
    data = bytearray(path.read_bytes())
    start = -1
    for _ in range(number + 1):
        start = data.index(b"PK\1\2", start + 1)
    struct.pack_into(kind, data, start + offset, value)
    path.write_bytes(bytes(data))
    return path


def with_checksum(header):
    """Returns a tar's header of 512 bytes with the checksum that it should have."""
    blank = header[:148] + b" " * 8 + header[156:]
    return blank[:148] + b"%06o\0 " % sum(blank) + blank[156:]


def by_key(source):
    """Returns (split, class name, size, bytes) of each image, by key."""
    references = source.scan()
    inputs = source.inputs(np.arange(len(references.keys)))
    splits, names = references.splits, references.split_names
    return {
        key.decode(): (
            None if splits is None else names[splits[row]],
            references.class_names[references.labels[row]],
            int(references.sizes[row]),
            inputs.read(row),
        )
        for row, key in enumerate(references.keys)
    }


def keys_of(*arguments, **options):
    """Returns the keys of an archive's images."""
    return [key.decode() for key in Archive(*arguments, **options).scan().keys]


def assert_same_as_folder(archive, folder, **options):
    """Compares all that an archive and a folder give."""
    there, here = ImageFolder(folder, **options), Archive(archive, **options)
    found, expected = here.scan(), there.scan()
    assert list(found.keys) == list(expected.keys)
    assert found.class_names == expected.class_names
    assert found.split_names == expected.split_names
    assert found.labels.tolist() == expected.labels.tolist()
    assert found.left_out == expected.left_out
    assert (found.label_kind, found.shape, found.sizes.dtype, found.stamps.dtype) == (
        "single",
        None,
        np.int64,
        np.uint64,
    )
    assert by_key(here) == by_key(there)
