#!/usr/bin/env python3
"""Fetches the real data of tests and benchmarks into benchmarks/data/.

fashion-mnist/  the four idx files of Fashion-MNIST (70,000 gray 28x28 images, MIT licence)
stamps/         Tux Paint's stamps: 796 PNGs in a deep class tree, sounds, texts and SVGs between
photos-N/       with --photos N: N photographs of about 500x375 (JPEG, near 90 kB) in 20 classes
large-photos-N/ with --large-photos N: N photographs of 2000x1500 (near 1 MB)

Needs apt-get and dpkg, root only where the list of packages is missing or old; photographs also
Pillow. What is there already is left as it is, and what is there is complete: each folder appears
by one rename.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Callable

from debian import FetchError, unpack_packages

DATA = pathlib.Path(__file__).resolve().parent / "data"

# Our folder, the package, the folder inside it.
FOLDERS = (
    ("fashion-mnist", "dataset-fashion-mnist", "usr/share/datasets/fashion-mnist"),
    ("stamps", "tuxpaint-stamps-default", "usr/share/tuxpaint/stamps"),
)


def get_package_folder(name: str, package: str, inside: str) -> None:
    def make(work: pathlib.Path) -> pathlib.Path:
        unpack_packages([package], work)
        return work / inside

    make_once(DATA / name, make)


def get_photos(name: str, count: int) -> None:
    def make(work: pathlib.Path) -> pathlib.Path:
        # Imported here: the other data must be there for the taking before Pillow is installed.
        from photos import LARGE, USUAL, make_photos

        make_photos(work / "photos", count, {"photos": USUAL, "large-photos": LARGE}[name])
        return work / "photos"

    make_once(DATA / f"{name}-{count}", make)


def make_once(target: pathlib.Path, make: Callable[[pathlib.Path], pathlib.Path]) -> None:
    """Lets `make` fill a folder inside a temporary one and renames it to `target`."""
    if target.is_dir():
        print(f"{target}: already there, {describe(target)}")
        return
    DATA.mkdir(exist_ok=True)
    # Beside the target, so that the rename stays on one file system.
    work = pathlib.Path(tempfile.mkdtemp(prefix=".making-", dir=DATA))
    try:
        made = make(work)
        made.chmod(0o755)
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():  # else another run was faster, with the same files
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{target}: {describe(target)}")


def describe(folder: pathlib.Path) -> str:
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return f"{len(sizes):,} files, {sum(sizes) / 1e6:,.1f} MB"


def positive(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError
    return count


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", type=positive, metavar="N", help="also make N photographs")
    parser.add_argument(
        "--large-photos", type=positive, metavar="N", help="also make N of 2000x1500"
    )
    args = parser.parse_args()
    try:
        for name, package, inside in FOLDERS:
            get_package_folder(name, package, inside)
        if args.photos:
            get_photos("photos", args.photos)
        if args.large_photos:
            get_photos("large-photos", args.large_photos)
    except FetchError as error:
        print(f"get_data.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
