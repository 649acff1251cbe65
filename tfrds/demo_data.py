"""The images of `tfrds_demo`, which come with the package: 1,200 of Fashion-MNIST.

Gives them as a source, PNG in `split/class/`, unpacked into a temporary directory that goes with
the source.
"""

import pathlib
import shutil
import tempfile
import weakref
import zipfile
import zlib

from tfrds.errors import SourceError
from tfrds.write.sources.folder import ImageFolder

ARCHIVE = pathlib.Path(__file__).with_name("data") / "fashion_mnist_sample.zip"

LICENSE = ARCHIVE.with_name("LICENSE.txt").read_text(encoding="utf-8")


def sample_folder() -> ImageFolder:
    """Returns the unpacked images; their folder goes with the returned object, or at exit.

    Raises:
      SourceError: the package's archive is missing or damaged.
    """
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tfrds-demo-"))
    source = ImageFolder(folder, layout="split")
    weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
    unpack(ARCHIVE, folder)
    return source


def unpack(archive: pathlib.Path, folder: pathlib.Path) -> None:
    """Unpacks the regular files of a ZIP archive into `folder`.

    Raises:
      SourceError: missing, damaged, or holding a file that would lie outside of `folder`.
    """
    root = folder.resolve()
    try:
        with zipfile.ZipFile(archive) as packed:
            for member in packed.infolist():
                if not _is_regular(member):
                    continue
                target = (root / member.filename).resolve()
                if not target.is_relative_to(root):
                    raise SourceError(
                        f"{archive}: {member.filename!r} would be unpacked outside of its folder."
                    )
                target.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(member) as file, target.open("xb") as unpacked:
                    shutil.copyfileobj(file, unpacked)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise SourceError(
            f"{archive}: cannot be unpacked: {error}. Install tfrds again."
        ) from error


def _is_regular(member: zipfile.ZipInfo) -> bool:
    # The upper half of these attributes is a file's mode on Unix; archives made elsewhere have
    # none.
    kind = member.external_attr >> 28
    return not member.is_dir() and kind in (0, 0o10)
