"""A version without some records of another, or with other labels: only shards concerned are new.

Gets a `Base` and keys, fills a directory; `revise.py` adds TFDS's own metadata and commits.
"""

import dataclasses
import difflib
import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from tfrds.errors import ConfigError, SourceError
from tfrds.spec import CLASS_KINDS
from tfrds.write.assemble import FinalShard, Heading, WrittenDataset, assemble
from tfrds.write.base_version import Base, link_shards
from tfrds.write.duplicates import find_duplicates
from tfrds.write.rewrite import rewrite_shard
from tfrds.write.shard_labels import features_of, label_numbers

_LISTED = 5


def write_edited(
    base: Base,
    directory: pathlib.Path,
    *,
    version: str,
    removed: Iterable[str],
    relabelled: Mapping[str, str],
) -> tuple[WrittenDataset, tuple[str, ...]]:
    """Writes every file of the new version but TFDS's own metadata.

    Args:
      base: the old version.
      directory: empty, on the file system of the old one.
      version: of the new one.
      removed: keys of the examples that go.
      relabelled: class names by key; new ones get numbers behind the old ones.

    Returns:
      What was written, and the class names in the order of their numbers.

    Raises:
      SourceError: a key is not in the dataset, or a split has no example left.
    """
    if relabelled and base.record.label_kind not in CLASS_KINDS:
        raise ConfigError(
            f"relabel: {base.record.name} has labels of the kind {base.record.label_kind!r}, and "
            "only single classes can be changed. Build it again from corrected labels."
        )
    wanted_out = {key.encode() for key in removed}
    new_names = sorted(set(relabelled.values()) - set(base.class_names))
    class_names = (*base.class_names, *new_names)
    numbers = {name: number for number, name in enumerate(class_names)}
    wanted = {key.encode(): numbers[name] for key, name in relabelled.items()}
    _check_known(base, wanted_out | set(wanted))
    heading = _heading(base, version, class_names)
    splits: dict[str, list[FinalShard]] = {}
    for split, shards in base.splits.items():
        splits[split] = []
        for shard in shards:
            keys = list(shard.keys)
            kept = np.array(
                [row for row, key in enumerate(keys) if key not in wanted_out], np.int64
            )
            labels = shard.rows["label"][kept].copy()
            for place, row in enumerate(kept.tolist()):
                labels[place] = wanted.get(keys[row], labels[place])
            if len(kept) == len(keys) and (labels == shard.rows["label"]).all():
                splits[split] += link_shards([shard], directory)
                continue
            target = directory / f"base-{shard.path.name}"
            taken = shard.take(kept)
            new = rewrite_shard(
                shard.path,
                shard.rows,
                target,
                kept=kept,
                labels=labels,
                features=features_of(heading, labels, taken["columns"]),
                image_key=heading.image_key,
            )
            splits[split].append(
                dataclasses.replace(
                    shard,
                    path=target,
                    num_bytes=new.num_bytes,
                    sha256=new.sha256,
                    rows=new.rows,
                    **taken,
                )
            )
    shards = [shard for parts in splits.values() for shard in parts]
    found = find_duplicates(
        {split: [shard.rows for shard in parts] for split, parts in splits.items()},
        labels=label_numbers(shards, heading.label_key),
    )
    heading = dataclasses.replace(heading, totals={**heading.totals, **found.counts()})
    return assemble(directory, splits, heading, base.skipped), class_names


def _heading(base: Base, version: str, class_names: tuple[str, ...]) -> Heading:
    """Returns what `tfrds.json` says of the new version, with the old one's totals."""
    content = base.record.content
    size = content["options"]["image_size"]
    return Heading(
        name=base.record.name,
        version=version,
        parent=base.record.digest,
        options=content["options"],
        encoding=content["image"]["encoding"],
        image_size=(size[0], size[1]) if size else None,
        channels=content["image"]["channels"],
        image_key=content["image"]["key"],
        label_key=base.record.label_key,
        label_kind=base.record.label_kind,
        class_names=class_names,
        columns=base.record.columns,
        order=content["order"],
        split_order=content["split_order"],
        encoders=content["encoders"],
        source_kind=content["source"]["kind"],
        totals=content["totals"],
    )


def _check_known(base: Base, keys: set[bytes]) -> None:
    known = list(base.keys())
    unknown = sorted(key.decode() for key in keys - set(known))
    if unknown:
        near = difflib.get_close_matches(unknown[0], [key.decode() for key in known], n=1)
        raise SourceError(
            f"{len(unknown):,} keys are not in {base.record.name} {base.record.version}: "
            f"{', '.join(unknown[:_LISTED])}{', ...' if len(unknown) > _LISTED else ''}."
            + (f" Did you mean {near[0]!r}?" if near else "")
        )
