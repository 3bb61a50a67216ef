"""Processes a share group member's acknowledgements of records that it has acquired (Kafka's SharePartition.acknowledge; KIP-932,
KIP-1222). No I/O.

A request is atomic for each partition: if one record cannot be acknowledged, all state transitions of the request in this partition are
rolled back. As in Kafka, renewed acquisition locks are not rolled back: they keep the new timeout.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from typing import Final, NamedTuple

from ottla.broker.core.rejected import Rejected
from ottla.broker.share.in_flight import NO_MEMBER, InFlightBatch, InFlightState, RecordState, Run
from ottla.broker.share.share_partition import SharePartition, StateUpdate
from ottla.protocol.error_codes import ErrorCode


class AcknowledgeType(IntEnum):
    """How a share group member acknowledges a record that it has acquired; the values are those of the request. GAP means that the offset
    has no record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_STATES: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
}

_CHANGING: Final = "The record state is invalid. The acknowledgement of delivery could not be completed."
_UNABLE: Final = "Unable to acknowledge records for the batch"


class AcknowledgementBatch(NamedTuple):
    """One member's acknowledgements for a range of offsets. `types` has either one type for the whole range, or one type per offset."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class _Segment(NamedTuple):
    first_offset: int
    last_offset: int
    type: AcknowledgeType


def acknowledge(partition: SharePartition, member_id: str, batches: Sequence[AcknowledgementBatch], now_ms: int) -> StateUpdate:
    """Begin the state transitions for a share group member's acknowledgements in one partition. Return them as one `StateUpdate`, which the
    caller writes to the share group state.

    Raises Rejected: INVALID_RECORD_STATE if the member has not acquired one of the records, or INVALID_REQUEST for an unknown type or a
    range outside the acquired records. The transitions begun before are then rolled back.
    """
    acknowledging = _Acknowledging(partition, member_id, now_ms)
    try:
        for batch in batches:
            acknowledging.take(batch)
    except Rejected:
        partition.roll_back(acknowledging.update, now_ms)
        raise
    return acknowledging.update


class _Acknowledging:
    """Processes one share group member's acknowledgements for one share partition."""

    def __init__(self, partition: SharePartition, member_id: str, now_ms: int) -> None:
        self.partition = partition
        self.member_id = member_id
        self.now_ms = now_ms
        self.update = StateUpdate()

    def take(self, acknowledged: AcknowledgementBatch) -> None:
        segments = list(_segments(acknowledged))
        if acknowledged.last_offset < self.partition.start_offset:
            return
        for batch in self._in_flight(acknowledged):
            if batch.last_offset < self.partition.start_offset:
                continue
            if not batch.is_split:
                self._check_owner(batch.whole)
            start_moved = batch.straddles(self.partition.start_offset)
            is_part = not batch.within(acknowledged.first_offset, acknowledged.last_offset)
            if batch.is_split or is_part or len(acknowledged.types) > 1 or start_moved:
                self._take_part(batch, segments)
            elif batch.whole.state is not RecordState.ACQUIRED:
                raise _invalid_state("The batch cannot be acknowledged. The batch is not in the acquired state.")
            else:
                self._change(batch.runs[0], segments[0].type)

    def _in_flight(self, acknowledged: AcknowledgementBatch) -> list[InFlightBatch]:
        """Return the batches in flight that have acknowledged offsets. Raises Rejected(INVALID_RECORD_STATE or INVALID_REQUEST) if the
        acknowledged range begins before the first or ends after the last batch in flight."""
        first, last, start = acknowledged.first_offset, acknowledged.last_offset, self.partition.start_offset
        in_flight = self.partition.in_flight
        floor = in_flight.floor(first)
        if floor is None and first < start:
            floor = in_flight.floor(start)
        if floor is None:
            raise _invalid_state("Batch record not found. The request batch offsets are not found in the cache.")
        batches = in_flight.beginning_in(floor.first_offset, last)
        if batches[-1].last_offset < first:
            raise Rejected(ErrorCode.INVALID_REQUEST, "Batch record not found. The first offset in request is past acquired records.")
        if batches[-1].last_offset < last:
            raise Rejected(ErrorCode.INVALID_REQUEST, "Batch record not found. The last offset in request is past acquired records.")
        return batches

    def _check_owner(self, state: InFlightState) -> None:
        if state.member_id == NO_MEMBER:
            raise _invalid_state("The batch cannot be acknowledged. The batch is not in the acquired state.")
        if state.member_id != self.member_id:
            raise _invalid_state("Member is not the owner of batch record")
        if state.change is not None:
            raise _invalid_state(_CHANGING)

    def _take_part(self, batch: InFlightBatch, segments: Sequence[_Segment]) -> None:
        if not batch.is_split and batch.whole.state is not RecordState.ACQUIRED:
            raise _invalid_state("The batch cannot be acknowledged. The subset batch is not in the acquired state.")
        batch.is_split = True
        for at in range(bisect_left(segments, max(batch.first_offset, self.partition.start_offset), key=_last), len(segments)):
            first, last, kind = segments[at]
            if first > batch.last_offset:
                break
            for run in batch.part(max(first, self.partition.start_offset), last):
                self._check_record(run.state)
                self._change(run, kind)

    def _check_record(self, state: InFlightState) -> None:
        if state.state is not RecordState.ACQUIRED:
            raise _invalid_state("The offset cannot be acknowledged. The offset is not acquired.")
        if state.member_id != self.member_id:
            raise _invalid_state("Member is not the owner of offset")

    def _change(self, run: Run, kind: AcknowledgeType) -> None:
        if kind is AcknowledgeType.RENEW:
            if not self.partition.settings().renew_acknowledge_enable:
                raise _invalid_state("Renewing acquisition locks is not enabled for the group.")
            run.state.lock_deadline_ms = self.partition.lock(run.first_offset, run.last_offset, self.now_ms)
        elif not self.partition.begin(self.update, run, self._state(kind)):
            raise _invalid_state(_UNABLE)

    def _state(self, kind: AcknowledgeType) -> RecordState:
        return self.partition.settings().undeliverable_state if kind is AcknowledgeType.REJECT else _STATES[kind]


def _last(segment: _Segment) -> int:
    return segment.last_offset


def _segments(acknowledged: AcknowledgementBatch) -> Iterator[_Segment]:
    """Split an acknowledgement batch into ranges of offsets with the same acknowledgement type. Raises Rejected(INVALID_REQUEST) for an
    unknown type."""
    first, last, types = acknowledged
    try:
        kinds = [AcknowledgeType(kind) for kind in types]
    except ValueError:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {list(types)}") from None
    if len(kinds) == 1:
        yield _Segment(first, last, kinds[0])
        return
    for kind, same in groupby(kinds):
        count = len(list(same))
        yield _Segment(first, first + count - 1, kind)
        first += count


def _invalid_state(message: str) -> Rejected:
    return Rejected(ErrorCode.INVALID_RECORD_STATE, message)
