"""One thing that is wrong with a dataset, as all parts of `verify` say it."""

import dataclasses

# A shard that was replaced has as many faults as records: the first ones tell it all.
MAX_FAULTS = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that is wrong.

    Attributes:
      file: the name of the file it was found in.
      record: which record of this shard, from 0; None: it is about the file.
      key: of the example; None: unknown, or it is about the file.
      what: is wrong, and what was expected.
    """

    file: str
    record: int | None = None
    key: str | None = None
    what: str
