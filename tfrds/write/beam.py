"""Runs the shards of a build on Apache Beam, by TFDS's own options.

Gets what every executor gets (`executors.py`). Tasks and answers go through files beside the
shards, so that the graph of the pipeline stays small for any number of images; both carry a code
that only this build can make, because what is unpickled decides what runs. Nothing of Beam is
imported unless a build asks for it.
"""

import dataclasses
import hmac
import itertools
import pathlib
import pickle
import secrets
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tfrds.errors import ConfigError, DatasetError
from tfrds.write.executors import answer, result_of
from tfrds.write.run import Execution

_DIGEST = "sha256"
_MAC_BYTES = 32

_LISTED = 5


def beam_execution(download_config: Any) -> Execution:
    """Returns how a build runs by a `tfds.download.DownloadConfig`.

    On Beam, where it names a runner or options of Beam; else on this machine.
    """
    runner, options = download_config.beam_runner, download_config.beam_options
    if runner is None and options is None:
        return Execution()
    return Execution(executor=BeamExecutor(runner, options))


class BeamExecutor:
    """Runs shards as a pipeline of Apache Beam: Create, Reshuffle, Map.

    Args:
      runner: a `beam.runners.PipelineRunner` or its name; None: as `options` say.
      options: `beam.options.pipeline_options.PipelineOptions`; None: Beam's defaults.
    """

    def __init__(self, runner: Any = None, options: Any = None) -> None:
        self._runner = runner
        self._options = options

    def run(
        self,
        function: Callable[[Any], Any],
        tasks: Iterable[Any],
        describe: Callable[[Any], str],
    ) -> Iterator[tuple[int, Any]]:
        """Yields (position of the task, result), all when the pipeline has ended.

        Args:
          function: of a module that the workers can import.
          tasks: of shards that are written.
          describe: names a task.

        Raises:
          ConfigError: Beam is not installed, or nothing is written.
          DatasetError: the pipeline failed; shards that it has finished are kept.
          Exception: what the first failing task raised.
        """
        beam = _beam()
        tasks = iter(tasks)
        first = next(tasks, None)
        if first is None:
            return
        if not first.journal.folder.is_dir():
            raise ConfigError(
                "executor: Beam writes shards, and a comparison of what images hold writes none. "
                "Leave the executor out."
            )
        files = _Files(first.journal.folder / f"beam-{secrets.token_hex(8)}", secrets.token_bytes())
        files.folder.mkdir()
        try:
            count = 0
            for count, task in enumerate(itertools.chain([first], tasks), start=1):
                files.put("task", count - 1, pickle.dumps((function, task)))
            failure = self._run_pipeline(beam, files, count)
            missing = []
            for position in range(count):
                answered = files.get("answer", position)
                if answered is None:
                    missing.append(position)
                else:
                    yield position, result_of(answered)
            if missing or failure:
                names = [describe(files.task(position)) for position in missing[:_LISTED]]
                raise DatasetError(_failure_text(failure, names, len(missing), count)) from failure
        finally:
            shutil.rmtree(files.folder, ignore_errors=True)

    def _run_pipeline(
        self, beam: Any, files: "_Files", count: int
    ) -> Exception | None:  # pragma: no cover - run by `make test-beam`
        """Runs all tasks; returns why the pipeline failed."""
        # As TFDS makes its own pipeline, which has the type check off.
        options = self._options or beam.options.pipeline_options.PipelineOptions()
        options.view_as(beam.options.pipeline_options.TypeOptions).pipeline_type_check = False
        try:
            pipeline = beam.Pipeline(runner=self._runner, options=options)
            # Without Reshuffle a runner fuses the other two, and one worker has it all.
            shards = pipeline | "Shards" >> beam.Create(range(count)) | beam.Reshuffle()
            _ = shards | "Write" >> beam.Map(files.run)
            pipeline.run().wait_until_finish()
        except Exception as error:  # each runner has errors of its own
            return error
        return None


@dataclasses.dataclass(frozen=True)
class _Files:
    """What a build and its workers tell each other.

    Attributes:
      folder: that all of them see.
      secret: which nobody else knows who may write there.
    """

    folder: pathlib.Path
    secret: bytes

    def put(self, kind: str, position: int, content: bytes) -> None:
        """Writes a file, whole or not at all."""
        temporary = self.folder / f"{secrets.token_hex(8)}.tmp"
        temporary.write_bytes(self._mac(kind, position, content) + content)
        temporary.rename(self._path(kind, position))

    def get(self, kind: str, position: int) -> bytes | None:
        """Returns what `put` was given; None where there is nothing.

        Raises:
          DatasetError: it is not from this build.
        """
        path = self._path(kind, position)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        mac, content = content[:_MAC_BYTES], content[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(kind, position, content)):
            raise DatasetError(f"{path}: was not written by this build. Build it again.")
        return content

    def task(self, position: int) -> Any:
        """Returns a task that was put."""
        _, task = pickle.loads(self.get("task", position) or b"")
        return task

    def run(self, position: int) -> None:
        """Does one task, in a worker; a runner may call it again where it was lost."""
        request = self.get("task", position)
        if request is None:
            raise DatasetError(
                f"{self.folder}: expected task {position} on {socket.gethostname()}, found none. "
                "Every worker must see the data directory under the same path."
            )
        self.put("answer", position, answer(request))

    def _path(self, kind: str, position: int) -> pathlib.Path:
        return self.folder / f"{position}.{kind}"

    def _mac(self, kind: str, position: int, content: bytes) -> bytes:
        return hmac.digest(self.secret, f"{kind} {position} ".encode() + content, _DIGEST)


def _failure_text(
    failure: Exception | None, names: Sequence[str], num_missing: int, count: int
) -> str:
    reason = ""
    if failure is not None:
        first_line = str(failure).strip().partition("\n")[0]
        reason = f" ({type(failure).__name__}: {first_line})"
    more = " and others" if num_missing > len(names) else ""
    return (
        f"the Beam pipeline failed{reason}: {num_missing:,} of {count:,} shards have no answer"
        f"{': ' if names else ''}{'; '.join(names)}{more}. Finished shards are kept: run the same "
        "build again to go on."
    )


def _beam() -> Any:
    try:
        import apache_beam
    except ImportError as error:
        raise ConfigError(
            f"beam_runner, beam_options: need Apache Beam, which is not installed here ({error}). "
            "pip install 'tfrds[beam]'"
        ) from error
    return apache_beam  # pragma: no cover - run by `make test-beam`
