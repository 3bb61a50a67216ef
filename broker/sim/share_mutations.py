"""Mutations for testing the simulation: rules of share groups about acknowledgements, delivery counts, locks, share state and aborted
records that are broken on purpose. The simulation must detect each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ottla.broker.runtime.coordination.share_persister import SharePersister
from ottla.broker.runtime.share import share_fetch
from ottla.broker.runtime.share.share_partitions import SharePartitionManager
from ottla.broker.share.in_flight import InFlightState, RecordState
from ottla.broker.share.persister import ReadState, SharePartitionKey, WrittenState
from ottla.broker.share.share_partition import SharePartition
from ottla.broker.sim.mutation import Mutation, always, nothing


def _answered_at_once(original: Any) -> Callable[..., asyncio.Future[None] | None]:
    def write(self: SharePersister, key: SharePartitionKey, state: WrittenState) -> asyncio.Future[None] | None:
        if not any(batch.delivery_state == RecordState.ACKNOWLEDGED for batch in state.batches):
            written: asyncio.Future[None] | None = original(self, key, state)
            return written
        return None

    return write


def _counts_anew(original: Any) -> Callable[..., None]:
    def load(self: SharePartition, read: ReadState, start_offset: int) -> None:
        original(self, replace(read, batches=[batch._replace(delivery_count=1) for batch in read.batches]), start_offset)

    return load


def _gives_up_early(original: Any) -> Callable[..., bool]:
    def move(
        self: InFlightState, state: RecordState, delivery_count_limit: int, undeliverable_state: RecordState = RecordState.ARCHIVED
    ) -> bool:
        moved: bool = original(self, state, delivery_count_limit - 1, undeliverable_state)
        return moved

    return move


OF_SHARE_GROUPS: Final = (
    Mutation("an acceptance is answered when it is persisted", SharePersister, "write", _answered_at_once),
    Mutation("a new leader of a share partition continues with the persisted delivery counts", SharePartition, "load", _counts_anew),
    Mutation("a record is given up at the limit of deliveries, not before", InFlightState, "move", _gives_up_early),
    Mutation("a record whose lock expires is delivered again", SharePartitionManager, "_expire_locks", nothing),
    Mutation("a share group with read_committed is not given aborted records", share_fetch, "aborted_batches", always(())),
)
