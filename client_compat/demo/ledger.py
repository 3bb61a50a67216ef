"""Results that the demo's processes share in memory: acknowledgements by row (a flight that is sent as one record), and consumed records.

Rule: every cell has one writer. One producer sends a row, and all copies of it are in one partition, which one consumer reads.
"""

from __future__ import annotations

from ctypes import c_int64, c_uint8
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import RawArray
from typing import Any

from client_compat.support.places import NOT_ACKED

PARTITIONS = 6
CLIENTS = ("aiokafka", "confluent-kafka", "kafka-python")
MEMBERS = 2


@dataclass(slots=True)
class Ledger:
    """The shared arrays of one run, for `rows` sent records. A comment at each array says by what it is indexed. A ledger can be passed to
    a spawned process as an argument of `multiprocessing.Process`."""

    rows: int
    acked_at: Any = field(init=False)  # by row: `place` of its acknowledgement, or NOT_ACKED
    acked: Any = field(init=False)  # by client: rows acknowledged
    failed: Any = field(init=False)  # by client: rows that failed finally
    seen: Any = field(init=False)  # by row: how many copies were consumed
    confirmed: Any = field(init=False)  # by row: 1 if a copy is at the acknowledged offset
    next_offset: Any = field(init=False)  # by partition: next offset to consume
    consumed: Any = field(init=False)  # by member: records
    altered: Any = field(init=False)  # by member: records whose key or value differs from what was sent
    disordered: Any = field(init=False)  # by member: first copies that follow a later row of the same producer and key

    def __post_init__(self) -> None:
        self.acked_at = RawArray(c_int64, [NOT_ACKED] * self.rows)
        self.acked, self.failed = RawArray(c_int64, len(CLIENTS)), RawArray(c_int64, len(CLIENTS))
        self.seen, self.confirmed = RawArray(c_uint8, self.rows), RawArray(c_uint8, self.rows)
        self.next_offset = RawArray(c_int64, PARTITIONS)
        self.consumed, self.altered, self.disordered = (RawArray(c_int64, MEMBERS) for _ in range(3))
