"""A broker's log directory with one failed transaction of each kind, for demonstrations of the audit and for trials of other tools.

The directory has two partitions, `payments-0` and `payments-1`, and the coordinator's `__transaction_state-0`. `PLANTED` lists the
violations; everything else is legal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from ottla.protocol.records.batch import read_header, stamp
from ottla.protocol.records.control import end_txn_marker
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import encode_prefixed
from ottla.protocol.transaction_log import (
    TRANSACTION_KEY,
    TRANSACTION_STATES,
    PartitionsOfTopic,
    TransactionLogKey,
    TransactionLogValue,
)

TOPIC: Final = "payments"
BEGAN_MS: Final = 1_700_000_000_000
MINUTE_MS: Final = 60_000
SOUND, TORN, ZOMBIE, HANGING, MIXED, DEPOSED = range(1000, 1006)
PLANTED: Final = (
    ("torn-transaction", "committed elsewhere, aborted here", "payments-1@3"),
    ("zombie-batch", "behind a marker", "payments-0@12"),
    ("hanging-transaction", "orphan: a newer epoch wrote", "payments-0@12"),
    ("hanging-transaction", "over its timeout", "payments-1@8"),
    ("mixed-transaction", "plain batch in an open transaction", "payments-0@17"),
    ("markers", "coordinator epoch regress", "payments-1@14"),
)
"""The violations in the example log: rule, kind, topic-partition@offset. The batch of the zombie producer at payments-0@12 is reported
twice: it is also a hanging transaction, because no marker ends it."""


class Partition:
    """Writes the log of one partition. Like a broker, it appends each batch at the next offset."""

    def __init__(self, root: Path, topic: str, partition: int) -> None:
        directory = root / f"{topic}-{partition}"
        directory.mkdir(parents=True)
        self._file = directory / f"{0:020d}.log"
        self._file.touch()
        self._next_offset = 0

    def append(self, batch: bytes) -> None:
        head, tail = stamp(batch, self._next_offset, 0)
        with self._file.open("ab") as out:
            out.write(head + bytes(tail))
        self._next_offset += read_header(batch).last_offset_delta + 1

    def data(self, producer_id: int, epoch: int, sequence: int, minute: int, *, transactional: bool = True) -> None:
        """Append a batch of two payment records. `minute`: the records' timestamp, in minutes after BEGAN_MS."""
        at = BEGAN_MS + minute * MINUTE_MS
        values = [json.dumps({"payment": f"{producer_id}-{epoch}-{sequence + i}", "cents": 100}).encode() for i in range(2)]
        records = [SimpleRecord(b"k", value, at) for value in values]
        self.append(
            build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)
        )

    def marker(self, producer_id: int, epoch: int, minute: int, *, committed: bool = True, coordinator_epoch: int = 1) -> None:
        at = BEGAN_MS + minute * MINUTE_MS
        self.append(
            end_txn_marker(
                committed=committed, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp=at
            )
        )

    def state(
        self, transactional_id: str, producer_id: int, epoch: int, state: str, minute: int, *partitions: int, version: int = 2
    ) -> None:
        """Append a record of `__transaction_state` with the state of a transactional id. `minute`: the time of the record and of the
        transaction's start, in minutes after BEGAN_MS. `partitions`: the transaction's partitions of the example topic."""
        at = BEGAN_MS + minute * MINUTE_MS
        value = TransactionLogValue(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_timeout_ms=MINUTE_MS,
            transaction_status=TRANSACTION_STATES.index(state),
            transaction_partitions=[PartitionsOfTopic(TOPIC, list(partitions))] if partitions else [],
            transaction_last_update_timestamp_ms=at,
            transaction_start_timestamp_ms=at,
            client_transaction_version=version,
        )
        key = encode_prefixed(TransactionLogKey(transactional_id), 0, TRANSACTION_KEY)
        self.append(build_batch([SimpleRecord(key, encode_prefixed(value, 1), at)]))


def plant(root: Path) -> None:
    """Write the example log directory, with its planted anomalies, to `root`, which must not exist."""
    root.mkdir(parents=True)
    first, second = (Partition(root, TOPIC, index) for index in range(2))
    states = Partition(root, "__transaction_state", 0)
    # In transactions of version 2 (KIP-890) the coordinator increases the epoch at each end, and the marker carries the new epoch.
    first.data(SOUND, 0, 0, 0)
    first.marker(SOUND, 1, 0)
    first.data(TORN, 0, 0, 1)
    second.data(SOUND, 1, 0, 1)
    second.marker(SOUND, 2, 1)
    second.data(TORN, 0, 0, 1)
    first.marker(TORN, 1, 1)
    second.marker(TORN, 1, 1, committed=False)
    first.data(ZOMBIE, 0, 0, 2)
    first.marker(ZOMBIE, 1, 2, committed=False)
    first.data(SOUND, 2, 0, 2)
    first.marker(SOUND, 3, 2, committed=False)
    first.data(ZOMBIE, 0, 2, 3)
    states.state("hanging", HANGING, 0, "Ongoing", 3, 1)
    second.marker(SOUND, 4, 3, committed=False)  # nothing to abort in this partition: legal
    second.marker(SOUND, 5, 3, committed=False)
    second.data(HANGING, 0, 0, 3)
    first.data(MIXED, 0, 0, 4)
    first.marker(SOUND, 6, 4, committed=False)
    first.data(MIXED, 0, 2, 4, transactional=False)
    first.marker(MIXED, 1, 4)
    second.data(DEPOSED, 0, 0, 5)
    second.marker(DEPOSED, 1, 5, coordinator_epoch=7)
    second.marker(SOUND, 7, 5, committed=False)
    second.marker(DEPOSED, 2, 6, committed=False, coordinator_epoch=6)
