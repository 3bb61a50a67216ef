"""Which rows of a level are wanted: what a reader can use to leave out files, parts of files, batches and rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Filters:
    """All must hold. Empty sets mean any. Ranges are half-open, of records' offsets and of timestamps in ms: a batch is in a range when one
    of its offsets is, or when its largest timestamp does not lie before the range."""

    topics: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    start_offset: int = 0
    end_offset: int = INT64_MAX
    start_timestamp: int = INT64_MIN
    end_timestamp: int = INT64_MAX
