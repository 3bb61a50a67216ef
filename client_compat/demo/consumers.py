"""The demo's two group members, each in its own process, which compare every received record with the record that was sent.

Rules:
- The members start consuming when each has half of the partitions, and leave together, so that no rebalance reassigns a partition.
- A record below an offset already read is a redelivery by the group, not a copy in the log, and is not counted again.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

from client_compat.demo.flights import read_rows
from client_compat.demo.ledger import CLIENTS, MEMBERS, PARTITIONS, Ledger
from client_compat.support.places import place
from client_compat.support.workers import log_to

GROUP = "flights-readback"
ROW = re.compile(rb'\{"row":(\d+),')
FETCH_MS = 500
FETCH_BYTES = 2 * 1024 * 1024
RECORDS_AT_ONCE = 5_000
ASSIGN_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Readback:
    """The parameters of the demo's two group members, which consume the topic and compare each record with what was sent. `rows` is the
    file of all sent records."""

    bootstrap: str
    topic: str
    rows: Path
    client_log: Path


class _Assigned(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka ships no types
    """A rebalance listener that sets the event `half` when this member is assigned half of the partitions, and clears this event when they
    are revoked."""

    def __init__(self) -> None:
        self.half = asyncio.Event()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.half.clear()

    def on_partitions_assigned(self, assigned: Any) -> None:
        if len(assigned) == PARTITIONS // MEMBERS:
            self.half.set()


class Comparison:
    """Compares the records that one group member received with the sent records (`rows`, by row number), and stores the results in the
    shared ledger."""

    def __init__(self, member: int, rows: list[tuple[bytes, bytes]], ledger: Ledger) -> None:
        self._member, self._rows, self._ledger = member, rows, ledger
        self._last_row: dict[tuple[bytes, int], int] = {}

    def take(self, record: Any) -> None:
        ledger, member = self._ledger, self._member
        if record.offset < ledger.next_offset[record.partition]:
            return
        ledger.next_offset[record.partition] = record.offset + 1
        ledger.consumed[member] += 1
        match = ROW.match(record.value or b"")
        row = int(match[1]) if match else -1
        if not 0 <= row < len(self._rows) or self._rows[row] != (record.key, record.value):
            ledger.altered[member] += 1
            return
        if not ledger.seen[row]:
            self._check_order(record.key, row)
        ledger.seen[row] += 1
        if ledger.acked_at[row] == place(record.partition, record.offset):
            ledger.confirmed[row] = 1

    def _check_order(self, key: bytes, row: int) -> None:
        stream = (key, row % len(CLIENTS))
        if row < self._last_row.get(stream, -1):
            self._ledger.disordered[self._member] += 1
        else:
            self._last_row[stream] = row


async def _consume(member: int, task: Readback, ledger: Ledger, leave_together: Barrier) -> None:
    comparison = Comparison(member, read_rows(task.rows), ledger)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=task.bootstrap,
        group_id=GROUP,
        client_id=f"member-{member}",
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
        fetch_max_wait_ms=FETCH_MS,
    )
    assigned = _Assigned()
    consumer.subscribe([task.topic], listener=assigned)
    async with consumer:
        await asyncio.wait_for(assigned.half.wait(), ASSIGN_TIMEOUT_S)
        ends = await consumer.end_offsets(sorted(consumer.assignment()))
        while any(ledger.next_offset[tp.partition] < end for tp, end in ends.items()):
            batches = await consumer.getmany(timeout_ms=FETCH_MS, max_records=RECORDS_AT_ONCE)
            for records in batches.values():
                for record in records:
                    comparison.take(record)
        await consumer.commit()
        await asyncio.to_thread(leave_together.wait)


def main(member: int, task: Readback, ledger: Ledger, leave_together: Barrier) -> None:
    """Run the process of group member number `member`. The process waits at the barrier `leave_together` before it leaves the group."""
    log_to(task.client_log)
    asyncio.run(_consume(member, task, ledger, leave_together))
