"""The arguments of the command line: what there is, what it means, and its values out of text.

Gives a namespace whose `command` says what to do; `cli.py` does it. What `BuildOptions` checks is
not checked here.
"""

import argparse
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import tfrds
from tfrds.spec import ENCODINGS, RESIZES, BuildOptions
from tfrds.tools.demo_result import EPOCHS

Value = TypeVar("Value")

_BUILD_FIELDS = (
    "image_size",
    "resize",
    "channels",
    "background",
    "encoding",
    "store_size",
    "jpeg_quality",
    "splits",
    "class_names",
    "num_shards",
)


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
    add = _command(commands, "info", "show what a dataset holds", "tfrds info flowers:1.0.0")
    add("name", metavar="NAME[:VERSION]", help="without a version the highest one")
    add("--json", action="store_true", help="for programs, with all class names")
    add = _command(commands, "rm", "remove one version of a dataset", "tfrds rm flowers:1.0.0")
    add("name", metavar="NAME[:VERSION]", help="the version is needed where there are several")
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
        "build a dataset from a folder of labelled images",
        "tfrds build photos/ --name flowers --image-size 224 --splits train=0.8,test=0.2",
    )
    add("source", metavar="SOURCE", help="folder of class/.../file or split/class/.../file")
    add("--name", required=True, help="lower case letters, digits and underscores")
    add("--version", default="1.0.0", help="of the dataset (1.0.0)")
    add(
        "--image-size",
        type=_size,
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
        type=_colour,
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
        "--splits",
        type=_fractions,
        metavar="NAME=FRACTION,...",
        help="such as train=0.8,test=0.2; else the folder's own, or all in train",
    )
    add(
        "--class-names",
        type=_lines,
        metavar="FILE",
        help="class names in the order of their numbers, one a line; else sorted",
    )
    add(
        "--layout",
        choices=("class", "split"),
        help="what the folders at the top are named after; else found out",
    )
    add("--num-workers", type=int, metavar="N", help="processes; else one for each processor")
    add("--num-shards", type=int, metavar="N", help="files of each split; else by size")
    add(
        "--overwrite",
        action="store_true",
        help="replace this version, once the new one is complete",
    )
    add("--dry-run", action="store_true", help="show what would be built, write nothing")
    add("--limit", type=int, metavar="N", help="build a random sample of N images of each split")


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


def _size(text: str) -> int | tuple[int, ...]:
    """Returns one side, or (height, width)."""
    sides = text.lower().split("x")
    numbers = tuple(_number(int, side, text, "64 or 48x64 (height x width)") for side in sides)
    return numbers[0] if len(numbers) == 1 else numbers


def _colour(text: str) -> tuple[int, ...]:
    values = text.split(",")
    return tuple(_number(int, value, text, "R,G,B such as 255,255,255") for value in values)


def _fractions(text: str) -> dict[str, float]:
    expected = "NAME=FRACTION,... such as train=0.8,test=0.2"
    fractions: dict[str, float] = {}
    for part in text.split(","):
        name, equals, fraction = part.strip().partition("=")
        if not equals or name in fractions:
            _refuse(text, expected)
        fractions[name] = _number(float, fraction, text, expected)
    return fractions


def _lines(path: str) -> list[str]:
    try:
        # Editors of some systems begin a text with a mark that is not part of the first name.
        return pathlib.Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{path!r} cannot be read: {error}") from error


def _number(convert: Callable[[str], Value], part: str, text: str, expected: str) -> Value:
    try:
        return convert(part)
    except ValueError:
        _refuse(text, expected)


def _refuse(text: str, expected: str) -> NoReturn:
    raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
