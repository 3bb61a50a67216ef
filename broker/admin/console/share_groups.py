"""The share groups' part of the groups view: a group's position in each partition, and the delivery state of the records in flight.

The partition's leader knows every delivery. If the leader is another broker, or has not loaded the share partition, the view shows the
state that the share coordinator has persisted, if the coordinator is on this broker. That state lacks acquired records, their owners and
locks, which are never persisted (KIP-932).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, Field

from ottla.broker.admin.console.topics import partition_of
from ottla.broker.app import Broker
from ottla.broker.groups.share_group import ShareGroup
from ottla.broker.runtime.share.share_partitions import SharePartitionInUse
from ottla.broker.share.in_flight import NO_LOCK, NO_MEMBER, RecordState
from ottla.broker.share.persister import UNINITIALIZED_START_OFFSET, SharePartitionKey
from ottla.broker.share.state_coordinator import ShareState

PARTITIONS_MAX: Final = 300
DELIVERIES_MAX: Final = 300
_AT_ONCE: Final = 5_000
"""The number of runs (consecutive records in the same delivery state) that are read before the event loop can run other callbacks. The runs
of one partition are always read together."""


class DeliveryView(BaseModel):
    """A range of consecutive records in flight in the same delivery state."""

    first: int
    last: int
    state: str = Field(description="`available`, `acquired`, `acknowledged`, `archiving` or `archived`")
    delivery_count: int
    member_id: str | None
    lock_ms: int | None = Field(description="milliseconds until the acquisition lock expires")


class SharePartitionView(BaseModel):
    """A share group's position in one partition. `records` counts the records in flight by state."""

    topic: str
    partition: int
    source: Literal["leader", "coordinator"] | None = Field(description="None: the state is on other brokers, or no member has read yet")
    start: int | None = Field(description="the first record that is not finished")
    end: int | None = Field(description="the high watermark; None if the partition has no replica here")
    lag: int | None
    records: dict[str, int]
    locks_expired: int | None = Field(description="records whose acquisition lock expired since the leader loaded the share partition")
    deliveries: list[DeliveryView]
    deliveries_left_out: int


class Position(NamedTuple):
    """A share group's position in one partition: the start offset, the number of acknowledged or archived records at or above it, and
    the high watermark if this broker knows it."""

    start: int
    finished: int
    end: int | None

    @property
    def lag(self) -> int | None:
        return None if self.end is None else max(0, self.end - self.start - self.finished)


_State = SharePartitionInUse | ShareState


def share_tps(group: ShareGroup) -> Iterator[tuple[str, SharePartitionKey]]:
    """Yield (topic name, key) of each initialized share partition of the group, sorted by topic name and partition."""
    for topic_id, topic in sorted(group.partitions.initialized.items(), key=lambda each: each[1].name):
        for index in sorted(topic.partitions):
            yield topic.name, SharePartitionKey(group.group_id, topic_id, index)


def position(broker: Broker, topic: str, key: SharePartitionKey) -> Position | None:
    """Return the group's position in a partition; None if no member has read yet, or neither the partition's leader nor the share
    coordinator is this broker."""
    found = _state(broker, key)
    return None if found is None else _position(broker, topic, key, found)


async def share_partitions(broker: Broker, group: ShareGroup) -> tuple[list[SharePartitionView], int]:
    """Return the group's positions and deliveries in its first PARTITIONS_MAX partitions, and the number of its other partitions."""
    found, deliveries_left, seen = list(share_tps(group)), DELIVERIES_MAX, 0
    views: list[SharePartitionView] = []
    for topic, key in found[:PARTITIONS_MAX]:
        views.append(_view(broker, topic, key, deliveries_left))
        deliveries_left -= len(views[-1].deliveries)
        seen += len(views[-1].deliveries) + views[-1].deliveries_left_out
        if seen >= _AT_ONCE:
            seen = 0
            await asyncio.sleep(0)
    return views, max(0, len(found) - PARTITIONS_MAX)


def _state(broker: Broker, key: SharePartitionKey) -> _State | None:
    share = broker.services.share
    shared = share.partitions.find(key)
    if shared is not None and shared.loaded:
        return shared
    stored = share.state.find(key)
    return None if stored is None or stored.start_offset == UNINITIALIZED_START_OFFSET else stored


def _position(broker: Broker, topic: str, key: SharePartitionKey, found: _State) -> Position:
    here = partition_of(broker, topic, key.partition)
    state = found.state if isinstance(found, SharePartitionInUse) else found
    return Position(state.start_offset, state.delivery_complete_count, None if here is None else here.log.high_watermark)


def _view(broker: Broker, topic: str, key: SharePartitionKey, deliveries_left: int) -> SharePartitionView:
    found, here = _state(broker, key), partition_of(broker, topic, key.partition)
    at = None if found is None else _position(broker, topic, key, found)
    runs = [] if found is None else list(_runs(found))
    records, now_ms = dict.fromkeys(RecordState, 0), broker.services.share.partitions.clock.mono_ms()
    for run in runs:
        records[run.state] += run.last - run.first + 1
    return SharePartitionView(
        topic=topic,
        partition=key.partition,
        source=None if found is None else "leader" if isinstance(found, SharePartitionInUse) else "coordinator",
        start=None if at is None else at.start,
        end=None if here is None else here.log.high_watermark,
        lag=None if at is None else at.lag,
        records={_name(state): count for state, count in records.items()},
        locks_expired=found.lock_timeouts if isinstance(found, SharePartitionInUse) else None,
        deliveries=[run.shown(now_ms) for run in runs[:deliveries_left]],
        deliveries_left_out=max(0, len(runs) - deliveries_left),
    )


class _Run(NamedTuple):
    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str = NO_MEMBER
    lock_deadline_ms: int = NO_LOCK

    def shown(self, now_ms: int) -> DeliveryView:
        locked = self.state is RecordState.ACQUIRED and self.lock_deadline_ms != NO_LOCK
        return DeliveryView(
            first=self.first,
            last=self.last,
            state=_name(self.state),
            delivery_count=self.delivery_count,
            member_id=self.member_id or None,
            lock_ms=max(0, self.lock_deadline_ms - now_ms) if locked else None,
        )


def _runs(found: _State) -> Iterator[_Run]:
    if isinstance(found, ShareState):
        for stored in found.batches:
            yield _Run(stored.first_offset, stored.last_offset, RecordState(stored.delivery_state), stored.delivery_count)
        return
    start = found.state.start_offset
    for run in (run for batch in found.state.in_flight for run in batch.runs if run.last_offset >= start):
        state = run.state
        first = max(start, run.first_offset)
        yield _Run(first, run.last_offset, state.state, state.delivery_count, state.member_id, state.lock_deadline_ms)


def _name(state: RecordState) -> str:
    return state.name.lower()
