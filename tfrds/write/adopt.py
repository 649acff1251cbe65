"""Files that others wrote as a dataset: links, index, keys and `tfrds.json`; no image is copied.

Gets files, what is known of their records and a directory, fills it; `../adopt.py` adds TFDS's own
metadata and commits. The files are read only, and stay where they are.
"""

import dataclasses
import fnmatch
import logging
import os
import pathlib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfrds.disk.columns import ADDED_KEYS, MAX_KEY_BYTES, WEIGHT_KEY
from tfrds.disk.journal import file_sha256
from tfrds.disk.keys import Keys, join_keys
from tfrds.errors import ConfigError, SourceError
from tfrds.spec import BuildOptions
from tfrds.user_warning import warn_user
from tfrds.write.adopt_scan import ScannedFile, choose_adoption, scan_file
from tfrds.write.assemble import Adopted, FinalShard, Heading, WrittenDataset, assemble
from tfrds.write.classes import sort_class_names
from tfrds.write.key_hash import SPLIT_HASH
from tfrds.write.plan import MAX_SHARDS
from tfrds.write.sources.base import References
from tfrds.write.sources.pixel_layout import is_encoded
from tfrds.write.sources.record_arguments import RecordArguments
from tfrds.write.sources.record_class_numbers import ClassNumbers
from tfrds.write.sources.record_files import RecordFile, find_files
from tfrds.write.sources.record_guess import look_at
from tfrds.write.sources.record_layout import RecordLayout, find_image
from tfrds.write.splits import choose_splits

_log = logging.getLogger("tfrds")

# Features that reading may add.
_TAKEN = (*ADDED_KEYS, WEIGHT_KEY)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adoption:
    """Files looked through, and what they make together.

    Attributes:
      files: in the order of their names.
      scanned: what was found in each.
      layout: of the records.
      label_kind: "single", "binary" or "none".
      class_names: in the order of their numbers.
      adopted: how records are read.
      labels: int32 [n], of all records, file by file; -1 where there are none.
      split_names: of the splits.
      splits: int32 [n], positions in `split_names`.
      options: of the build that it stands for.
    """

    files: Sequence[RecordFile]
    scanned: Sequence[ScannedFile]
    layout: RecordLayout
    label_kind: str
    class_names: tuple[str, ...]
    adopted: Adopted
    labels: NDArray[np.int32]
    split_names: tuple[str, ...]
    splits: NDArray[np.int32]
    options: BuildOptions


def scan(
    files: Any,
    given: RecordArguments,
    options: BuildOptions,
    progress: Callable[[int, int], None] | None = None,
) -> Adoption:
    """Looks through all files, and decides what they make together.

    Args:
      files: a path, a pattern, a list of these, or a dict of them by split.
      given: what is known of the records.
      options: `splits` (fractions, or patterns of file names by split), `split_by` and
        `image_size` count.
      progress: called with (files done, all files).

    Raises:
      SourceError: files that are damaged, or cannot be used where they lie.
      ConfigError: an argument does not fit what was found.
    """
    found, split_names = find_files(files)
    if split_names and options.splits is not None:
        raise ConfigError(
            f"splits: the files are given by split, {list(split_names)}, got {options.splits!r}. "
            "Leave one of them out."
        )
    if len(found) > MAX_SHARDS:
        raise ConfigError(
            f"files: expected at most {MAX_SHARDS:,} files, got {len(found):,}. Build a dataset "
            "from them instead, by tfrds.sources.TFRecords."
        )
    layout = choose_adoption(files, _of_records(found, given))
    _check_keys(layout, found[0].path)
    for note in layout.notes:
        _log.info(note)
    scanned = []
    for number, file in enumerate(found, 1):
        scanned.append(scan_file(file.path, layout))
        if progress:
            progress(number, len(found))
    if turned := sum(one.num_turned for one in scanned):
        total = sum(len(one.rows) for one in scanned)
        _log.warning(
            f"{turned:,} of {total:,} images say in their EXIF that they are to be turned. Files "
            "used where they lie are read as their pixels are: build from tfrds.sources.TFRecords "
            "to turn them."
        )
    if not sum(len(one.rows) for one in scanned):
        raise SourceError(f"{found[0].path}: expected at least one record, found none.")
    labels, class_names, adopted = _labels(found, scanned, layout, given)
    kind = given.label_kind if given.label_kind == "binary" else layout.label_kind
    if kind == "binary" and len(class_names) != 2:
        raise ConfigError(
            f"label_kind: 'binary' is for two classes, {layout.label_key!r} has "
            f"{len(class_names)}. Leave it out."
        )
    lengths = [len(one.rows) for one in scanned]
    if split_names:
        splits = np.repeat(np.array([file.split for file in found], np.int32), lengths)
    else:
        split_names, splits, is_by_index = _splits(found, scanned, labels, class_names, options)
        adopted = dataclasses.replace(adopted, is_split_by_index=is_by_index)
    return Adoption(
        files=found,
        scanned=scanned,
        layout=layout,
        label_kind=kind,
        class_names=class_names,
        adopted=adopted,
        labels=labels,
        split_names=split_names,
        splits=splits,
        options=options,
    )


def _check_keys(layout: RecordLayout, path: str) -> None:
    for key in (layout.image.key, layout.label_key or "label"):
        if not key.isprintable() or len(key.encode()) > MAX_KEY_BYTES or key in _TAKEN:
            raise ConfigError(
                f"{path}: the feature {key!r} cannot be named so in a dataset: expected printable "
                f"text of up to {MAX_KEY_BYTES} bytes and none of {sorted(_TAKEN)}. Build a "
                "dataset from it instead, by tfrds.sources.TFRecords."
            )


def _of_records(files: Sequence[RecordFile], given: RecordArguments) -> RecordArguments:
    """Returns what is said of the records: of image files `image_size` is what reading makes."""
    if given.image_size is None:
        return given
    without = dataclasses.replace(given, image_size=None)
    image = find_image(look_at(files), without)
    return without if image is not None and is_encoded(image) else given


def _labels(
    files: Sequence[RecordFile],
    scanned: Sequence[ScannedFile],
    layout: RecordLayout,
    given: RecordArguments,
) -> tuple[NDArray[np.int32], tuple[str, ...], Adopted]:
    """Returns (class numbers of all records, class names, how records hold them)."""
    lengths = [len(one.rows) for one in scanned]
    ends = np.cumsum(lengths)
    if layout.label_key is None:
        for name in ("class_names", "label_offset"):
            if (value := getattr(given, name)) is not None:
                raise ConfigError(f"{name}: images without labels have none, got {value!r}.")
        return np.full(int(ends[-1]), -1, np.int32), (), Adopted()

    def name_row(row: int) -> str:
        file = int(np.searchsorted(ends, row, side="right"))
        return f"{files[file].path} record {row - int(ends[file]) + lengths[file]}"

    names = ClassNumbers(layout.label_key, lambda position: position, name_row)
    if layout.label_feature == "bytes":
        texts = join_keys([one.labels for one in scanned if isinstance(one.labels, Keys)])
        positions: dict[bytes, tuple[int, int]] = {}
        numbers = np.fromiter(
            (positions.setdefault(t, (len(positions), row))[0] for row, t in enumerate(texts)),
            np.int64,
            len(texts),
        )
        for text, (_, row) in positions.items():
            _check_as_it_is(text, f"{name_row(row)}: feature {layout.label_key!r}")
        classes, numbers = names.of_text(numbers, positions, given.class_names)
        if given.class_names is None:
            ordered = tuple(sort_class_names(classes))
            places = {name: number for number, name in enumerate(ordered)}
            number_of = np.array([places[name] for name in classes], np.int64)
            classes, numbers = ordered, number_of[numbers]
        return numbers.astype(np.int32), classes, Adopted(has_text_labels=True)
    numbers = np.concatenate([np.asarray(one.labels) for one in scanned])
    classes, numbers = names.of_numbers(numbers, given)
    if given.class_names is None:
        warn_user(
            f"{layout.label_key!r} has class numbers up to {len(classes) - 1}, so there are "
            f"{len(classes)} classes without names. Pass class_names."
        )
    return numbers.astype(np.int32), classes, Adopted(label_offset=given.label_offset or 0)


def _check_as_it_is(text: bytes, where: str) -> None:
    """Raises SourceError for the name of a class that is written in another form in a dataset.

    Whoever reads the records compares bytes.
    """
    name = text.decode(errors="replace")
    if unicodedata.normalize("NFC", name) != name:
        raise SourceError(
            f"{where}: the class {name!r} cannot be used as it is written: its text is not in "
            "Unicode's NFC form. Build a dataset from it instead, by tfrds.sources.TFRecords."
        )


def _splits(
    files: Sequence[RecordFile],
    scanned: Sequence[ScannedFile],
    labels: NDArray[np.int32],
    class_names: tuple[str, ...],
    options: BuildOptions,
) -> tuple[tuple[str, ...], NDArray[np.int32], bool]:
    """Returns (names, the split of each record, whether records of one file are divided)."""
    lengths = [len(one.rows) for one in scanned]
    patterns = _patterns(options.splits)
    if patterns:
        of_files = np.array([_split_of(file, patterns) for file in files], np.int32)
        for number, name in enumerate(patterns):
            if number not in of_files:
                raise ConfigError(
                    f"splits: no file matches {list(patterns[name])} of {name!r}, the files are "
                    f"named like {files[0].name!r}."
                )
        return tuple(patterns), np.repeat(of_files, lengths), False
    references = References(
        keys=_keys(files, scanned),
        labels=labels,
        class_names=class_names,
        sizes=np.zeros(len(labels), np.int64),
        stamps=np.zeros(len(labels), np.uint64),
    )
    has_classes = bool(class_names)
    strata = labels if has_classes else np.zeros(len(labels), np.int32)
    chosen = choose_splits(references, strata, class_names if has_classes else ("",), options)
    for note in chosen.notes:
        _log.warning(note)
    return chosen.names, chosen.numbers, len(chosen.names) > 1


def _patterns(splits: Any) -> dict[str, Sequence[str]]:
    """Returns patterns of file names by split; nothing where splits are none, or drawn."""
    if not isinstance(splits, Mapping):
        return {}
    return {name: given for name, given in splits.items() if not isinstance(given, float | int)}


def _split_of(file: RecordFile, patterns: Mapping[str, Sequence[str]]) -> int:
    base = os.path.basename(file.path)
    matching = [
        number
        for number, given in enumerate(patterns.values())
        if any(fnmatch.fnmatchcase(name, one) for one in given for name in (base, file.name))
    ]
    if len(matching) != 1:
        names = [list(patterns)[number] for number in matching]
        raise ConfigError(
            f"splits: expected each file to match the patterns of one split, {file.name!r} matches "
            f"those of {names or 'none'}."
        )
    return matching[0]


def _keys(files: Sequence[RecordFile], scanned: Sequence[ScannedFile]) -> Keys:
    """Returns the keys of all records: the file's name and the record's number in it."""
    return Keys.from_iterable(
        key for file, one in zip(files, scanned, strict=True) for key in _file_keys(file, one)
    )


def _file_keys(file: RecordFile, one: ScannedFile) -> list[bytes]:
    digits = len(str(max(len(one.rows) - 1, 0)))
    name = file.name.encode()
    return [b"%s/%0*d" % (name, digits, number) for number in range(len(one.rows))]


def write_adopted(
    adoption: Adoption,
    directory: pathlib.Path,
    *,
    name: str,
    version: str,
    hashes: bool,
) -> WrittenDataset:
    """Writes every file of the dataset but TFDS's own metadata; the shards become links.

    Args:
      adoption: by `scan`.
      directory: empty, on the file system of the dataset.
      name: of the dataset.
      version: of the dataset.
      hashes: whether each file's sha256 is computed and noted, by reading all of it.

    Raises:
      SourceError: a file has changed since it was looked through.
    """
    shards: dict[str, list[FinalShard]] = {split: [] for split in sorted(adoption.split_names)}
    first = 0
    for number, (file, one) in enumerate(zip(adoption.files, adoption.scanned, strict=True)):
        last = first + len(one.rows)
        sha256 = file_sha256(one.path) if hashes else None
        _check_unchanged(one)
        rows = one.rows.copy()
        rows["label"] = adoption.labels[first:last]
        keys = Keys.from_iterable(_file_keys(file, one))
        of_split = adoption.splits[first:last]
        for split_number, split in enumerate(adoption.split_names):
            chosen = np.flatnonzero(of_split == split_number)
            if not len(chosen):
                continue
            link = directory / f"adopted-{split}-{number}"
            link.symlink_to(one.path)
            shards[split].append(
                FinalShard(
                    path=link,
                    num_bytes=one.num_bytes,
                    sha256=sha256,
                    rows=rows[chosen],
                    keys=keys.take(chosen),
                    mtime_ns=one.mtime_ns,
                )
            )
        first = last
    return assemble(directory, shards, _heading(adoption, name, version), [])


def _check_unchanged(one: ScannedFile) -> None:
    status = one.path.stat()
    if (status.st_size, status.st_mtime_ns) != (one.num_bytes, one.mtime_ns):
        raise SourceError(
            f"{one.path}: has changed while it was looked through: expected {one.num_bytes:,} "
            f"bytes, found {status.st_size:,}. Adopt it when it is finished."
        )


def _heading(adoption: Adoption, name: str, version: str) -> Heading:
    is_raw = adoption.layout.image.pixels is not None
    channels = max(int(one.rows["channels"].max()) for one in adoption.scanned if len(one.rows))
    options = dataclasses.replace(
        adoption.options, encoding="raw" if is_raw else "original", channels=channels
    ).to_dict()
    return Heading(
        name=name,
        version=version,
        parent=None,
        options=options,
        encoding="raw" if is_raw else "original",
        image_size=None if is_raw else adoption.options.image_size,
        channels=channels,
        image_key=adoption.layout.image.key,
        label_key=adoption.layout.label_key or "label",
        label_kind=adoption.label_kind,
        class_names=adoption.class_names,
        columns=(),
        order="as the files have them",
        split_order=SPLIT_HASH,
        encoders={},
        source_kind="adopted",
        totals={
            **{"left_out": {}, "skipped": 0, "repaired": 0, "duplicate": 0},
            **{"label_conflicts": 0, "leaks": 0},
        },
        adopted=adoption.adopted,
    )
