"""The command line: calls `tools/` and the builder, and prints; nothing imports it.

Each command imports what it needs by itself: help, `info`, `verify`, `rm` and `build --dry-run`
start without TFDS and without TensorFlow, which would take seconds. Results go to standard output,
all else to standard error.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tfrds.checks import check_dataset_name, check_int, check_version
from tfrds.errors import ConfigError, TfrdsError
from tfrds.spec import BuildOptions
from tfrds.tools.arguments import build_options, parse_arguments
from tfrds.tools.messages import shown_messages, shown_text

if TYPE_CHECKING:
    from tfrds.write.run import Execution
    from tfrds.write.sources.base import Source

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
        goes_on = options.command in ("append", "build")
        more = "; the same command goes on from here." if goes_on else "."
        return _fail(f"interrupted{more}", _INTERRUPTED)
    return code


def _fail(message: str, code: int) -> int:
    print(f"tfrds: error: {shown_text(message)}", file=sys.stderr)
    return code


def _show(lines: Iterable[str]) -> None:
    print("\n".join(lines))


def _build(options: argparse.Namespace) -> int:
    from tfrds.tools.source_arguments import open_source

    check_dataset_name(options.name)
    check_version(options.version)
    for field in ("limit", "num_workers"):
        if getattr(options, field) is not None:
            check_int(field, getattr(options, field), 1)
    to_build = build_options(options)
    source = open_source(options)
    run = _plan_only if options.dry_run else _build_and_show
    run(options, source, to_build)
    return 0


def _plan_only(options: argparse.Namespace, source: "Source", to_build: BuildOptions) -> None:
    from tfrds.tools.text import plan_lines
    from tfrds.write.plan import make_plan

    plan = make_plan(source, to_build, limit=options.limit)
    _show(plan_lines(plan, options.name, options.version))


def _build_and_show(options: argparse.Namespace, source: "Source", to_build: BuildOptions) -> None:
    from tfrds.no_code import build_dataset
    from tfrds.tools.info import dataset_info
    from tfrds.tools.text import built_lines, summary_lines

    started = time.perf_counter()
    with _execution(options) as execution:
        builder, is_new = build_dataset(
            options.name,
            source,
            to_build,
            data_dir=options.data_dir,
            version=options.version,
            overwrite=options.overwrite,
            fingerprint=options.fingerprint,
            execution=execution,
            limit=options.limit,
        )
    seconds = time.perf_counter() - started
    summary = dataset_info(builder.data_dir)
    _show([*(built_lines(summary, seconds) if is_new else ()), *summary_lines(summary)])


def _adopt(options: argparse.Namespace) -> int:
    from tfrds.adopt import from_tfrecords
    from tfrds.tools.info import dataset_info
    from tfrds.tools.progress import ProgressDisplay
    from tfrds.tools.text import summary_lines

    with ProgressDisplay(sys.stderr, "files") as progress:
        builder = from_tfrecords(
            options.files,
            options.name,
            data_dir=options.data_dir,
            version=options.version,
            image_key=options.image_key,
            label_key=options.label_key,
            image_size=options.image_size,
            channels=options.channels,
            label_offset=options.label_offset,
            class_names=options.class_names,
            label_kind=options.label_kind,
            splits=options.splits,
            hashes=options.hashes,
            overwrite=options.overwrite,
            progress=progress,
        )
    _show(summary_lines(dataset_info(builder.data_dir)))
    return 0


@contextlib.contextmanager
def _execution(options: argparse.Namespace) -> Iterator["Execution"]:
    """Gives where a build runs by its arguments, with a display of its progress."""
    from tfrds.tools.progress import ProgressDisplay
    from tfrds.write.dask import connected
    from tfrds.write.run import Execution

    with contextlib.ExitStack() as stack:
        yield Execution(
            num_workers=options.num_workers,
            executor=stack.enter_context(connected(options.dask)) if options.dask else None,
            quarantine=options.quarantine,
            progress=stack.enter_context(ProgressDisplay(sys.stderr, "images")),
        )


def _info(options: argparse.Namespace) -> int:
    from tfrds.tools.dataset_name import find_directory
    from tfrds.tools.duplicates import dataset_duplicates
    from tfrds.tools.info import dataset_info
    from tfrds.tools.text import duplicates_lines, summary_lines

    directory = find_directory(options.name, options.data_dir)
    if options.duplicates:
        found = dataset_duplicates(directory)
        _show([json.dumps(found.to_dict(), indent=2)] if options.json else duplicates_lines(found))
        return 0
    summary = dataset_info(directory)
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


def _verify(options: argparse.Namespace) -> int:
    from tfrds.tools.progress import ProgressDisplay
    from tfrds.tools.text import verify_lines
    from tfrds.tools.verify import verify

    with ProgressDisplay(sys.stderr, "images") as progress:
        result = verify(
            options.name,
            data_dir=options.data_dir,
            fast=options.fast,
            num_workers=options.num_workers,
            progress=progress,
        )
    _show([json.dumps(result.to_dict(), indent=2)] if options.json else verify_lines(result))
    return 0 if result.ok else _FAILED


def _append(options: argparse.Namespace) -> int:
    from tfrds.revise import append_images
    from tfrds.tools.info import dataset_info
    from tfrds.tools.source_arguments import open_source
    from tfrds.tools.text import summary_lines

    if options.num_workers is not None:
        check_int("num_workers", options.num_workers, 1)
    source = open_source(options)
    with _execution(options) as execution:
        builder = append_images(
            options.name,
            source,
            data_dir=options.data_dir,
            version=options.version,
            key_prefix=options.key_prefix,
            splits=options.splits,
            on_error=options.on_error,
            max_bad=options.max_bad,
            on_duplicate=options.on_duplicate,
            execution=execution,
        )
    _show(summary_lines(dataset_info(builder.data_dir)))
    return 0


def _edit(options: argparse.Namespace) -> int:
    from tfrds.revise import edit
    from tfrds.tools.info import dataset_info
    from tfrds.tools.text import summary_lines

    builder = edit(
        options.name,
        remove=options.remove,
        relabel=options.relabel,
        data_dir=options.data_dir,
        version=options.version,
    )
    _show(summary_lines(dataset_info(builder.data_dir)))
    return 0


def _clean(options: argparse.Namespace) -> int:
    from tfrds.tools.clean import find_leftovers, remove_leftovers
    from tfrds.tools.text import leftover_lines

    found = find_leftovers(options.data_dir)
    _show(leftover_lines(found))
    if not found.paths:
        return 0
    if not options.yes and not _is_confirmed("Remove them?"):
        _show(["Nothing was removed."])
        return 0
    remove_leftovers(found)
    _show(["Removed."])
    return 0


def _is_confirmed(question: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError("There is no terminal to ask on. Pass --yes to remove these files.")
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


_COMMANDS = {
    "adopt": _adopt,
    "append": _append,
    "build": _build,
    "clean": _clean,
    "demo": _demo,
    "edit": _edit,
    "info": _info,
    "rm": _rm,
    "verify": _verify,
}


if __name__ == "__main__":
    sys.exit(main())
