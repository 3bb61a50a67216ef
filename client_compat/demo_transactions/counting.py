"""The pipeline's transformation: flight records become increments of counts by carrier and hour of scheduled departure.

An increment names the input records that it counts: one partition's records from offset `first` to `end` (exclusive). A reader of the
output can therefore tell how often each input record was counted, and whether a range was written completely.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

HOUR = re.compile(rb'"hour":(\d+)')

Counts = Counter[tuple[str, int]]
"""Numbers of flights by (carrier, hour of scheduled departure)."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records of one input partition. `first` is the offset of the first record; `records` are the (key, value) pairs."""

    partition: int
    first: int
    records: list[tuple[bytes, bytes]]

    @property
    def end(self) -> int:
        return self.first + len(self.records)


@dataclass(frozen=True, slots=True)
class Increment:
    """A record of the output: `n` flights of a carrier in one hour, which were counted in the input records of `partition` from offset
    `first` to `end` (exclusive)."""

    carrier: str
    hour: int
    n: int
    partition: int
    first: int
    end: int

    @property
    def key(self) -> bytes:
        return f"{self.carrier}-{self.hour:02}".encode()

    def value(self) -> bytes:
        fields = {"carrier": self.carrier, "hour": self.hour, "n": self.n, "partition": self.partition}
        return json.dumps({**fields, "first": self.first, "end": self.end}, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, value: bytes) -> Increment:
        """Return the increment that a record's value contains, as JSON. Raises ValueError, KeyError or TypeError if the value is no
        increment."""
        return cls(**json.loads(value))


def count(records: Iterable[tuple[bytes, bytes]]) -> Counts:
    """Return the number of flights by carrier and hour. `records`: (carrier, JSON) of each flight."""
    counts: Counts = Counter()
    for key, value in records:
        found = HOUR.search(value)
        if found is None:
            raise ValueError(f"a flight without an hour: {value[:80]!r}")
        counts[key.decode(), int(found[1])] += 1
    return counts


def increments(chunk: Chunk) -> Iterator[Increment]:
    """Yield an increment for each carrier and hour in the chunk. The sum of their `n` is the chunk's number of records."""
    for (carrier, hour), n in sorted(count(chunk.records).items()):
        yield Increment(carrier, hour, n, chunk.partition, chunk.first, chunk.end)
