"""The room of producers: of each idempotent producer, in each partition, the last five batches, by which a retry is recognised."""

from __future__ import annotations

import asyncio
from heapq import nlargest
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ottla.broker.admin.console.requests import AbsorbedShown, RequestLog
from ottla.broker.admin.console.transactions import transactions_here
from ottla.broker.app import Broker
from ottla.broker.storage.producer_state import NO_OFFSET, ProducerStateEntry

PRODUCERS_MAX: Final = 100
_AT_ONCE: Final = 5_000
"""So many producers are looked at before others have their turn."""


class BatchShown(BaseModel):
    """One batch that is remembered; sequences and offsets include both ends."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerRow(BaseModel):
    """One producer in one partition; -1 is "none" in every number."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    transactional_id: str | None = Field(description="where this broker coordinates it")
    last_timestamp: int
    open_from: int = Field(description="the first offset of its open transaction")
    window: list[BatchShown] = Field(description="the oldest first, five at most")
    older_in_log: bool = Field(description="whether batches before these are looked for in the log: after a restart")
    absorbed: list[AbsorbedShown] = Field(description="its last retries that wrote nothing, the newest first")
    absorbed_count: int = Field(description="all of them since the console was turned on")


class ProducerRows(BaseModel):
    """Producers, who wrote last first; `left_out` are not in this answer."""

    producers: list[ProducerRow]
    left_out: int


def producers_router(broker: Broker, requests: RequestLog) -> APIRouter:
    """Of one broker."""
    router = APIRouter()

    @router.get("/producers")
    async def producers(topic: Annotated[str | None, Query(description="only of this topic")] = None) -> ProducerRows:
        """Who has written idempotently to partitions here, and what is remembered of each."""
        found: list[tuple[str, int, ProducerStateEntry]] = []
        looked_at = 0
        for partition in list(broker.services.partitions):
            if topic is not None and partition.topic != topic:
                continue
            found += [(partition.topic, partition.index, entry) for entry in partition.log.producers()]
            looked_at += len(partition.log.producer_state)
            if looked_at > _AT_ONCE:
                looked_at = 0
                await asyncio.sleep(0)
        newest = nlargest(PRODUCERS_MAX, found, key=lambda each: (each[2].last_timestamp, each[2].producer_id))
        names = {txn.producer_id: txn.transactional_id for txn in transactions_here(broker)}
        return ProducerRows(
            producers=[_row(place, index, entry, names.get(entry.producer_id), requests) for place, index, entry in newest],
            left_out=max(0, len(found) - PRODUCERS_MAX),
        )

    return router


def _row(topic: str, index: int, entry: ProducerStateEntry, transactional_id: str | None, requests: RequestLog) -> ProducerRow:
    absorbed = requests.absorbed_of(topic, index, entry.producer_id)
    return ProducerRow(
        topic=topic,
        partition=index,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        transactional_id=transactional_id,
        last_timestamp=entry.last_timestamp,
        open_from=entry.current_txn_first_offset if entry.current_txn_first_offset != NO_OFFSET else -1,
        window=[
            BatchShown(
                first_sequence=batch.first_sequence,
                last_sequence=batch.last_sequence,
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                timestamp=batch.timestamp,
            )
            for batch in entry.batches
        ],
        older_in_log=entry.older_in_log,
        absorbed=list(absorbed.newest),
        absorbed_count=absorbed.count,
    )
