"""The command line: calls `tools/` and the builder, and prints; nothing imports it.

Each command imports what it needs by itself: help, `info`, `rm` and `build --dry-run` start without
TFDS and without TensorFlow, which would take seconds. Results go to standard output, all else to
standard error.
"""

import argparse
import json
import os
import pathlib
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tfrds.checks import check_dataset_name, check_int, check_version
from tfrds.errors import ConfigError, DatasetError, TfrdsError
from tfrds.spec import BuildOptions
from tfrds.tools.arguments import build_options, parse_arguments
from tfrds.tools.messages import shown_messages, shown_text

if TYPE_CHECKING:
    from tfrds.write.sources.folder import ImageFolder

_MIN_ACCURACY = 0.7

# By the rules of shells: wrong usage, ended by Ctrl-C, and by a reader that went away.
_FAILED, _WRONG_USAGE, _INTERRUPTED, _BROKEN_PIPE = 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code.

    0: done. 1: the data or the place is at fault. 2: the arguments are. 130: interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        # A class named in Japanese must not end `tfrds info` where only ASCII can be written.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    options = parse_arguments(arguments)
    try:
        with shown_messages(sys.stderr):
            code = _COMMANDS[options.command](options)
        sys.stdout.flush()
    except ConfigError as error:
        return _fail(str(error), _WRONG_USAGE)
    except BrokenPipeError:
        # Python flushes once more at its end: into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (TfrdsError, OSError) as error:
        return _fail(str(error), _FAILED)
    except KeyboardInterrupt:
        return _fail("interrupted; nothing half-built is left.", _INTERRUPTED)
    return code


def _fail(message: str, code: int) -> int:
    print(f"tfrds: error: {shown_text(message)}", file=sys.stderr)
    return code


def _show(lines: Iterable[str]) -> None:
    print("\n".join(lines))


def _build(options: argparse.Namespace) -> int:
    from tfrds.data_dirs import default_data_dir
    from tfrds.disk.layout import is_dataset
    from tfrds.write.sources.folder import ImageFolder

    check_dataset_name(options.name)
    check_version(options.version)
    for field in ("limit", "num_workers"):
        if getattr(options, field) is not None:
            check_int(field, getattr(options, field), 1)
    to_build = build_options(options)
    root = pathlib.Path(os.path.abspath(os.path.expanduser(options.data_dir or default_data_dir())))
    target = root / options.name / options.version
    if is_dataset(target) and not options.overwrite:
        raise DatasetError(
            f"{target}: this version exists. Choose another --version, or pass --overwrite to "
            "replace it."
        )
    source = ImageFolder(options.source, layout=options.layout)
    run = _plan_only if options.dry_run else _build_and_show
    run(options, source, to_build)
    return 0


def _plan_only(options: argparse.Namespace, source: "ImageFolder", to_build: BuildOptions) -> None:
    from tfrds.tools.text import plan_lines
    from tfrds.write.plan import make_plan

    plan = make_plan(source, to_build, limit=options.limit)
    _show(plan_lines(plan, options.name, options.version))


def _build_and_show(
    options: argparse.Namespace, source: "ImageFolder", to_build: BuildOptions
) -> None:
    from tfrds.no_code import build_dataset
    from tfrds.tools.info import dataset_info
    from tfrds.tools.progress import ProgressDisplay
    from tfrds.tools.text import built_lines, summary_lines

    started = time.perf_counter()
    with ProgressDisplay(sys.stderr, "images") as progress:
        builder = build_dataset(
            options.name,
            source,
            to_build,
            data_dir=options.data_dir,
            version=options.version,
            overwrite=options.overwrite,
            num_workers=options.num_workers,
            limit=options.limit,
            progress=progress,
        )
    seconds = time.perf_counter() - started
    summary = dataset_info(builder.data_dir)
    _show([*built_lines(summary, seconds), *summary_lines(summary)])


def _info(options: argparse.Namespace) -> int:
    from tfrds.tools.dataset_name import find_directory
    from tfrds.tools.info import dataset_info
    from tfrds.tools.text import summary_lines

    summary = dataset_info(find_directory(options.name, options.data_dir))
    _show([json.dumps(summary.to_dict(), indent=2)] if options.json else summary_lines(summary))
    return 0


def _rm(options: argparse.Namespace) -> int:
    from tfrds.tools.remove import find_removal, remove
    from tfrds.tools.text import removal_lines

    removal = find_removal(options.name, options.data_dir)
    _show(removal_lines(removal))
    if not options.yes and not _is_confirmed("Remove them?"):
        _show(["Nothing was removed."])
        return 0
    remove(removal)
    _show(["Removed."])
    return 0


def _is_confirmed(question: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError("rm: there is no terminal to ask on. Pass --yes to remove these files.")
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _demo(options: argparse.Namespace) -> int:
    from tfrds.tools.quiet import quiet_tensorflow
    from tfrds.tools.text import demo_lines

    check_int("epochs", options.epochs, 1)
    with quiet_tensorflow():
        from tfrds.tools.demo import run_demo

    result = run_demo(
        options.data_dir, epochs=options.epochs, report=lambda line: print(line, file=sys.stderr)
    )
    _show(demo_lines(result))
    if result.test_accuracy < _MIN_ACCURACY:
        return _fail(
            f"demo: expected an accuracy of at least {_MIN_ACCURACY:.0%}, got "
            f"{result.test_accuracy:.1%} after {result.epochs} epochs.",
            _FAILED,
        )
    return 0


_COMMANDS = {"build": _build, "info": _info, "rm": _rm, "demo": _demo}


if __name__ == "__main__":
    sys.exit(main())
