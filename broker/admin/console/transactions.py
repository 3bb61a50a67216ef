"""The transactions view: the state changes of each transactional id, and the open transactions that hold last stable offsets back.

Rules inside:
- Current states are the coordinator's, of ids that this broker coordinates. Their history is read from the end of `__transaction_state`.
- Open transactions are read from the partitions on this broker, whichever broker coordinates them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

from fastapi import APIRouter
from pydantic import BaseModel, Field

from ottla.broker.admin.console.log_ranges import read_tail
from ottla.broker.app import Broker
from ottla.broker.cluster.topic_names import TRANSACTION_STATE
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.storage.producer_state import NO_OFFSET
from ottla.broker.txns.states import SETTLED
from ottla.broker.txns.transaction import Transaction
from ottla.broker.txns.txn_records import decode_record
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.records.record import iter_records

TRANSACTIONS_MAX: Final = 200
MOVES_MAX: Final = 60
HOLDING_MAX: Final = 100
PARTITIONS_SHOWN: Final = 20
_TAIL_RECORDS: Final = 400
TAIL_BYTES: Final = 1 << 20
"""The maximum number of bytes of `__transaction_state` that one response reads: the newest bytes of each partition, in equal parts."""
_AT_ONCE: Final = 500


class Move(BaseModel):
    """A change of a transactional id's state: the new state, and the time of the change."""

    state: str
    at_ms: int


class TransactionRow(BaseModel):
    """One transactional id; times are milliseconds since 1970-01-01 UTC, -1 for none."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    started_at: int
    updated_at: int
    timeout_ms: int
    partitions: list[str] = Field(description=f"the first {PARTITIONS_SHOWN} partitions of the open transaction")
    partition_count: int
    moves: list[Move] = Field(description="its latest states in order of time, as far as they are still in the log")


class HeldBackPartition(BaseModel):
    """A partition that read_committed consumers cannot read to the high watermark, and the open transaction that causes this."""

    topic: str
    partition: int
    last_stable: int
    high_watermark: int
    producer_id: int = Field(description="-1: no transaction is open; the last marker is not replicated to the whole ISR yet")
    producer_epoch: int
    first_offset: int
    last_write_at: int
    transactional_id: str | None = Field(description="if this broker coordinates it")


class TransactionRows(BaseModel):
    """Transactional ids, the latest change first, and the partitions whose last stable offset is held back by an open transaction.
    `left_out` is the number of transactional ids that do not fit in the response."""

    now_ms: int
    transactions: list[TransactionRow]
    left_out: int
    holding: list[HeldBackPartition]


def transactions_here(broker: Broker) -> Iterator[Transaction]:
    """Yield the transactions of the partitions of `__transaction_state` that this broker coordinates and has loaded."""
    for shard in broker.services.txns.shards.serving():
        yield from shard.machine.transactions.values()


def transactions_router(broker: Broker) -> APIRouter:
    """Return the HTTP routes of the console's transactions view of one broker."""
    router = APIRouter()

    @router.get("/transactions")
    async def transactions() -> TransactionRows:
        """The transactional ids that this broker coordinates, and the transactions that hold its partitions' last stable offsets back."""
        known = sorted(transactions_here(broker), key=lambda txn: (txn.state not in SETTLED, txn.last_update_ms), reverse=True)
        data = _ends(broker)
        holding = [each async for each in _holding(broker, {txn.producer_id: txn.transactional_id for txn in known})]
        shown = known[:TRANSACTIONS_MAX]
        moves = await asyncio.to_thread(_moves, data, {txn.transactional_id for txn in shown})
        return TransactionRows(
            now_ms=broker.clock.now_ms(),
            transactions=[_row(txn, moves.get(txn.transactional_id, [])) for txn in shown],
            left_out=max(0, len(known) - TRANSACTIONS_MAX),
            holding=holding,
        )

    return router


def _ends(broker: Broker) -> list[bytes]:
    """Return the last batches of each partition of `__transaction_state` that has a replica on this broker, at most TAIL_BYTES in total."""
    found = broker.services.partitions.by_name(TRANSACTION_STATE)
    logs = [] if found is None else [each.log for each in found.partitions.values() if each.log.log_end_offset > each.log.log_start_offset]
    pieces = []
    for log in logs:
        try:
            pieces.append(read_tail(log, _TAIL_RECORDS, TAIL_BYTES // len(logs))[0])
        except (Rejected, RecordsError):  # the topics view reports a failed disk
            continue
    return pieces


def _moves(data: list[bytes], wanted: set[str]) -> dict[str, list[Move]]:
    found: dict[str, list[Move]] = {}
    for txn in (each for piece in data for each in _read(piece)):
        if txn.transactional_id in wanted:
            moves = found.setdefault(txn.transactional_id, [])
            if not moves or moves[-1].state != txn.state.wire_name:
                moves.append(Move(state=txn.state.wire_name, at_ms=txn.last_update_ms))
    return {name: moves[-MOVES_MAX:] for name, moves in found.items()}


def _read(data: bytes) -> Iterator[Transaction]:
    try:
        for position, header in split_batches(data):
            if header.is_control:
                continue
            for record in iter_records(data[position : position + header.size_bytes]):
                read = decode_record(record.key, record.value)
                if read is not None and read.value is not None:
                    yield read.value
    except (RecordsError, ProtocolError):
        return


def _row(txn: Transaction, moves: list[Move]) -> TransactionRow:
    if not moves or moves[-1].state != txn.state.wire_name:
        moves = [*moves, Move(state=txn.state.wire_name, at_ms=txn.last_update_ms)]
    return TransactionRow(
        transactional_id=txn.transactional_id,
        state=txn.state.wire_name,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        started_at=txn.start_ms,
        updated_at=txn.last_update_ms,
        timeout_ms=txn.timeout_ms,
        partitions=[f"{topic}-{index}" for topic, index in sorted(txn.partitions)[:PARTITIONS_SHOWN]],
        partition_count=len(txn.partitions),
        moves=moves,
    )


async def _holding(broker: Broker, names: dict[int, str]) -> AsyncIterator[HeldBackPartition]:
    yielded = 0
    for number, partition in enumerate(list(broker.services.partitions), 1):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        if partition.log.last_stable_offset < partition.log.high_watermark and yielded < HOLDING_MAX:
            for each in _held_back(partition, names):
                yielded += 1
                yield each


def _held_back(partition: Partition, names: dict[int, str]) -> Iterator[HeldBackPartition]:
    """Yield a row for each open transaction of the partition, in offset order; the last stable offset stays where the first of them begins.
    If no transaction is open, yield one row without a producer: the marker of an ended transaction is not replicated to the whole ISR yet.
    """
    log = partition.log
    open_ = sorted(
        (each for each in log.producers() if each.current_txn_first_offset != NO_OFFSET), key=lambda e: e.current_txn_first_offset
    )
    for producer_id, epoch, first, at in [
        (each.producer_id, each.producer_epoch, each.current_txn_first_offset, each.last_timestamp) for each in open_[:HOLDING_MAX]
    ] or [(-1, -1, log.last_stable_offset, -1)]:
        yield HeldBackPartition(
            topic=partition.topic,
            partition=partition.index,
            last_stable=log.last_stable_offset,
            high_watermark=log.high_watermark,
            producer_id=producer_id,
            producer_epoch=epoch,
            first_offset=first,
            last_write_at=at,
            transactional_id=names.get(producer_id),
        )
