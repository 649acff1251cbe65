"""Gets files out of Debian packages, without installing them; get_data.py and photos.py ask."""

import os
import pathlib
import shutil
import subprocess
import tempfile


class FetchError(Exception):
    """A package could not be fetched; the message names it and what apt-get said."""


def unpack_packages(packages: list[str], folder: pathlib.Path) -> None:
    """Downloads the packages and unpacks all their files below `folder`.

    Raises:
      FetchError: this is no Debian, the package is unknown, or the network failed.
    """
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise FetchError(
                f"{tool} is not on this machine: the real data comes from Debian packages, "
                "so it can be fetched on Debian or Ubuntu only."
            )
    with tempfile.TemporaryDirectory() as tmp:
        for package in packages:
            _download(package, tmp)
        for deb in sorted(pathlib.Path(tmp).glob("*.deb")):
            _run(["dpkg", "-x", str(deb), str(folder)], cwd=tmp)


def _download(package: str, cwd: str) -> None:
    # apt's own user may not write into our temporary folder: as root, stay root.
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    command = ["apt-get", "-q", *sandbox, "download", package]
    try:
        _run(command, cwd=cwd)
    except FetchError as error:
        # A fresh machine has no list of packages, an old one a list of versions that are gone.
        print(f"{package}: not found at once, updating the list of packages")
        try:
            _run(["apt-get", "-q", "update"], cwd=cwd)
        except FetchError as update_error:
            raise FetchError(f"{error}\n{update_error}") from error
        _run(command, cwd=cwd)


def _run(command: list[str], cwd: str) -> None:
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise FetchError(
            f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout.strip()}"
        )
