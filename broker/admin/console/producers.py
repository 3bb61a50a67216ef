"""The producers view: the deduplication window (last five batches) of each idempotent producer in each partition."""

from __future__ import annotations

import asyncio
from heapq import nlargest
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ottla.broker.admin.console.requests import DuplicateView, RequestLog
from ottla.broker.admin.console.transactions import transactions_here
from ottla.broker.app import Broker
from ottla.broker.storage.producer_state import NO_OFFSET, ProducerStateEntry

PRODUCERS_MAX: Final = 100
READ_AT_ONCE: Final = 1_000
"""The number of producers and partitions that are read before the event loop can run other callbacks."""
_Found = tuple[str, int, ProducerStateEntry]
"""A topic's name, a partition's index, and the state of one idempotent producer in this partition."""


class BatchView(BaseModel):
    """One batch of a producer's deduplication window (its last five batches); ranges of sequences and offsets include both ends."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerRow(BaseModel):
    """The state of one producer in one partition. In every number, -1 means that there is no value."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    transactional_id: str | None = Field(description="if this broker coordinates its transactions")
    last_timestamp: int
    open_from: int = Field(description="the first offset of its open transaction")
    window: list[BatchView] = Field(description="oldest first, five at most")
    older_in_log: bool = Field(description="whether older batches are searched in the log, as after a restart")
    absorbed: list[DuplicateView] = Field(description="its latest retries that were recognised as duplicates, newest first")
    absorbed_count: int = Field(description="all recognised duplicates since the console was turned on")


class ProducerRows(BaseModel):
    """Producers, the latest writer first; `left_out` is the number of producers that do not fit in the response."""

    producers: list[ProducerRow]
    left_out: int


def producers_router(broker: Broker, requests: RequestLog) -> APIRouter:
    """Return the HTTP routes of the console's producers view of one broker."""
    router = APIRouter()

    @router.get("/producers")
    async def producers(topic: Annotated[str | None, Query(description="only of this topic")] = None) -> ProducerRows:
        """Idempotent producers of partitions on this broker, and the deduplication window (last five batches) of each."""
        newest: list[_Found] = []
        count = looked_at = 0
        for partition in list(broker.services.partitions):
            if topic is None or partition.topic == topic:
                found = [(partition.topic, partition.index, entry) for entry in partition.log.producers()]
                count += len(found)
                looked_at += len(found)
                newest += nlargest(PRODUCERS_MAX, found, key=_last_write)
            looked_at += 1
            if looked_at > READ_AT_ONCE:
                looked_at = 0
                newest = nlargest(PRODUCERS_MAX, newest, key=_last_write)
                await asyncio.sleep(0)
        newest = nlargest(PRODUCERS_MAX, newest, key=_last_write)
        names = {txn.producer_id: txn.transactional_id for txn in transactions_here(broker)}
        return ProducerRows(
            producers=[_row(place, index, entry, names.get(entry.producer_id), requests) for place, index, entry in newest],
            left_out=max(0, count - PRODUCERS_MAX),
        )

    return router


def _last_write(found: _Found) -> tuple[int, int]:
    entry = found[2]
    return entry.last_timestamp, entry.producer_id


def _row(topic: str, index: int, entry: ProducerStateEntry, transactional_id: str | None, requests: RequestLog) -> ProducerRow:
    duplicates = requests.duplicates_of(topic, index, entry.producer_id)
    return ProducerRow(
        topic=topic,
        partition=index,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        transactional_id=transactional_id,
        last_timestamp=entry.last_timestamp,
        open_from=entry.current_txn_first_offset if entry.current_txn_first_offset != NO_OFFSET else -1,
        window=[
            BatchView(
                first_sequence=batch.first_sequence,
                last_sequence=batch.last_sequence,
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                timestamp=batch.timestamp,
            )
            for batch in entry.batches
        ],
        older_in_log=entry.older_in_log,
        absorbed=list(duplicates.newest),
        absorbed_count=duplicates.count,
    )
