"""The arguments of the command line: what there is, and what it means.

Gives a namespace whose `command` says what to do; `cli.py` does it. Values come out of text by
`argument_values.py`; what `BuildOptions` checks is not checked here.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import tfrds
from tfrds.spec import (
    CHECKS,
    ENCODINGS,
    LABEL_KINDS,
    MAX_PIXELS,
    ON_DUPLICATE,
    ON_ERROR,
    RESIZES,
    BuildOptions,
)
from tfrds.split_settings import SPLIT_BY
from tfrds.tools.argument_values import (
    parse_colour,
    parse_file_splits,
    parse_folder,
    parse_size,
    parse_splits,
    read_lines,
    read_pairs,
)
from tfrds.tools.demo_result import EPOCHS
from tfrds.tools.source_arguments import SOURCE_HELP, add_source_arguments

_BUILD_FIELDS = (
    "image_size",
    "resize",
    "channels",
    "background",
    "encoding",
    "store_size",
    "jpeg_quality",
    "check",
    "exif_transpose",
    "max_pixels",
    "splits",
    "split_by",
    "group",
    "class_names",
    "label_kind",
    "on_error",
    "max_bad",
    "on_duplicate",
    "num_shards",
)


_DASK_HELP = "run on the Dask cluster with that scheduler, such as tcp://host:8786"


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the values of the arguments; None: those of this process.

    Raises:
      SystemExit: 2 after wrong usage, 0 after help and version; the text is printed.
    """
    return _parser().parse_args(arguments)


def build_options(options: argparse.Namespace) -> BuildOptions:
    """Returns the build options among the arguments of `build`.

    Raises:
      ConfigError: a value is out of range, or two do not fit.
    """
    return BuildOptions(**{field: getattr(options, field) for field in _BUILD_FIELDS})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tfrds",
        description="Labelled images to TFRecord shards, and what lies there.",
        epilog="example: tfrds build photos/ --name flowers --image-size 224",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tfrds {tfrds.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    _add_build(commands)
    _add_adopt(commands)
    add = _command(commands, "info", "show what a dataset holds", "tfrds info flowers:1.0.0")
    add("name", metavar="NAME[:VERSION]", help="without a version the highest one")
    add("--duplicates", action="store_true", help="list the images that hold the same bytes")
    add("--json", action="store_true", help="for programs, with all class names")
    _add_verify(commands)
    add = _command(commands, "rm", "remove one version of a dataset", "tfrds rm flowers:1.0.0")
    add("name", metavar="NAME[:VERSION]", help="the version is needed where there are several")
    add("--yes", action="store_true", help="do not ask")
    _add_revisions(commands)
    add = _command(
        commands,
        "clean",
        "remove what abandoned builds left",
        "tfrds clean --data-dir /tmp/datasets",
    )
    add("--yes", action="store_true", help="do not ask")
    add = _command(
        commands,
        "demo",
        "build, load by name and train on images that come with tfrds",
        "tfrds demo --data-dir /tmp/datasets",
    )
    add("--epochs", type=int, default=EPOCHS, metavar="N", help=f"of training ({EPOCHS})")
    return parser


def _add_build(commands: Any) -> None:
    add = _command(
        commands,
        "build",
        "build a dataset from labelled images",
        "tfrds build photos/ --name flowers --image-size 224 --splits train=0.8,test=0.2",
    )
    add("source", metavar="SOURCE", help=SOURCE_HELP)
    add_source_arguments(add)
    add("--name", required=True, help="lower case letters, digits and underscores")
    add("--version", default="1.0.0", help="of the dataset (1.0.0)")
    add(
        "--image-size",
        type=parse_size,
        metavar="N|HxW",
        help="of every image in pixels: 64, or 48x64 (height x width); else each keeps its own",
    )
    add(
        "--resize",
        choices=RESIZES,
        default="stretch",
        help="how the image size is reached (stretch)",
    )
    add("--channels", type=int, metavar="N", help="3 for colour (default), 1 for gray")
    add(
        "--background",
        type=parse_colour,
        default=(255, 255, 255),
        metavar="R,G,B",
        help="under transparent pixels and around padded images (255,255,255)",
    )
    add(
        "--encoding",
        choices=ENCODINGS,
        default="auto",
        help="of the stored images; auto (default): raw up to 64x64, else original",
    )
    add(
        "--store-size",
        type=int,
        metavar="N",
        help="shrink the shorter side to N pixels; needs --encoding jpeg",
    )
    add(
        "--jpeg-quality",
        type=int,
        default=95,
        metavar="N",
        help="1 to 100, where an image is re-encoded (95)",
    )
    add(
        "--check",
        choices=CHECKS,
        default="decode",
        help="how far files are checked that are stored as they are (decode: completely)",
    )
    add(
        "--no-exif-transpose",
        dest="exif_transpose",
        action="store_false",
        help="keep pixels as the files have them, not upright as EXIF says",
    )
    add(
        "--max-pixels",
        type=int,
        default=MAX_PIXELS,
        metavar="N",
        help=f"height times width of the largest image that is accepted ({MAX_PIXELS})",
    )
    add(
        "--splits",
        type=parse_splits,
        metavar="NAME=FRACTION,...|K|NAME=FILE,...",
        help="such as train=0.8,test=0.2; or K folds; or files of keys, one a line; else the "
        "folder's own, or all in train",
    )
    add(
        "--split-by",
        choices=SPLIT_BY,
        default="class",
        help="class (default): its share of each class for each split; hash: an image stays in its "
        "split when others are added",
    )
    add(
        "--group",
        metavar="REGEX",
        help="what must stay in one split, as its first group, or all of it, matches in the keys: "
        "such as 'patient[0-9]+'",
    )
    add(
        "--class-names",
        type=read_lines,
        metavar="FILE",
        help="class names in the order of their numbers, one a line; else sorted",
    )
    add(
        "--label-kind",
        choices=LABEL_KINDS,
        help="what a label is; else as the source has it; none: images alone",
    )
    add(
        "--on-error",
        choices=ON_ERROR,
        default="raise",
        help="what is done with images that cannot be stored (raise)",
    )
    add(
        "--max-bad",
        type=float,
        default=0.01,
        metavar="SHARE",
        help="share of all images that may be skipped (0.01)",
    )
    add(
        "--quarantine",
        type=parse_folder,
        metavar="DIR",
        help="copy images there that cannot be stored",
    )
    add(
        "--on-duplicate",
        choices=ON_DUPLICATE,
        default="keep",
        help="what is done with images that hold the same bytes (keep)",
    )
    add(
        "--fingerprint",
        choices=("stat", "content"),
        default="stat",
        help="how the images are compared with an existing dataset's: by size and time of change "
        "(default), or by encoding each",
    )
    add("--num-workers", type=int, metavar="N", help="processes; else one for each processor")
    add("--dask", metavar="ADDRESS", help=_DASK_HELP)
    add("--num-shards", type=int, metavar="N", help="files of each split; else by size")
    add(
        "--overwrite",
        action="store_true",
        help="replace this version, once the new one is complete",
    )
    add("--dry-run", action="store_true", help="show what would be built, write nothing")
    add("--limit", type=int, metavar="N", help="build a random sample of N images of each split")


def _add_adopt(commands: Any) -> None:
    add = _command(
        commands,
        "adopt",
        "use TFRecord files that others wrote where they lie, by links and an index",
        "tfrds adopt /data/train*.tfrecord --name flowers --class-names names.txt",
    )
    add("files", nargs="+", metavar="FILE", help="of tf.train.Examples, or patterns of them")
    add("--name", required=True, help="lower case letters, digits and underscores")
    add("--version", default="1.0.0", help="of the dataset (1.0.0)")
    add("--image-key", metavar="KEY", help="feature of uint8 pixels, JPEG or PNG; else found")
    add("--label-key", metavar="KEY", help="feature of a class, by number or name; else found")
    add(
        "--image-size",
        type=parse_size,
        metavar="N|HxW",
        help="that raw pixels have, or that JPEG and PNG are resized to while reading",
    )
    add("--channels", type=int, metavar="N", help="of raw pixels; else found")
    add("--label-offset", type=int, metavar="N", help="added to labels: -1 where they start at 1")
    add(
        "--class-names",
        type=read_lines,
        metavar="FILE",
        help="class names in the order of their numbers, one a line",
    )
    add("--label-kind", choices=("single", "binary", "none"), help="what a label is; else found")
    add(
        "--splits",
        type=parse_file_splits,
        metavar="NAME=PATTERN,...|NAME=FRACTION,...|K",
        help="patterns of file names; or as for build: then only tfrds reads it; else all in train",
    )
    add("--hashes", action="store_true", help="read the files and note their sha256, for verify")
    add(
        "--overwrite",
        action="store_true",
        help="replace this version, once the new one is complete",
    )


def _add_verify(commands: Any) -> None:
    add = _command(
        commands,
        "verify",
        "check every file, record and image of a dataset; exit code 1 where one is damaged",
        "tfrds verify flowers:1.0.0",
    )
    add("name", metavar="NAME[:VERSION]", help="without a version the highest one")
    add("--fast", action="store_true", help="only hashes: nothing is decoded")
    add("--num-workers", type=int, metavar="N", help="processes; else one for each processor")
    add("--json", action="store_true", help="for programs")


def _add_revisions(commands: Any) -> None:
    add = _command(
        commands,
        "append",
        "make a new version of a dataset that holds more images",
        "tfrds append flowers photos-2024/ --key-prefix 2024/",
    )
    add("name", metavar="NAME[:VERSION]", help="without a version the highest one")
    add("source", metavar="SOURCE", help=SOURCE_HELP)
    add_source_arguments(add)
    add("--version", help="of the new one; else the next minor version")
    add("--key-prefix", default="", metavar="TEXT", help="before the keys of the new images")
    add(
        "--splits",
        type=parse_splits,
        metavar="NAME=FRACTION,...",
        help="else as the dataset was split",
    )
    add("--on-error", choices=ON_ERROR, default="raise", help="as for build (raise)")
    add("--max-bad", type=float, default=0.01, metavar="SHARE", help="as for build (0.01)")
    add(
        "--quarantine",
        type=parse_folder,
        metavar="DIR",
        help="copy images there that cannot be stored",
    )
    add(
        "--on-duplicate",
        choices=ON_DUPLICATE,
        default="keep",
        help="what is done with new images that hold the bytes of another one (keep)",
    )
    add("--num-workers", type=int, metavar="N", help="processes; else one for each processor")
    add("--dask", metavar="ADDRESS", help=_DASK_HELP)
    add = _command(
        commands,
        "edit",
        "make a new version of a dataset without some examples, or with other labels",
        "tfrds edit flowers --remove bad.txt --relabel labels.csv",
    )
    add("name", metavar="NAME[:VERSION]", help="without a version the highest one")
    add("--remove", type=read_lines, default=[], metavar="FILE", help="keys that go, one a line")
    add("--relabel", type=read_pairs, default={}, metavar="FILE", help="CSV lines of key,class")
    add("--version", help="of the new one; else the next minor version")


def _command(commands: Any, name: str, summary: str, example: str) -> Callable[..., Any]:
    """Adds a command; returns what adds arguments to it."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example: {example}",
        allow_abbrev=False,
    )
    parser.add_argument("--data-dir", metavar="DIR", help="root of all datasets; else TFDS's own")
    return parser.add_argument
