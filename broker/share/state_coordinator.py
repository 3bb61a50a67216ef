"""The share coordinator's state machine for one partition of `__share_group_state`. It has the persisted state of all share partitions that
are stored there.

Invariants:

* `apply` is the only way to change the state, live and while the log is loaded.
* A share partition begins with a snapshot, which `initialize` writes; reads and writes before it are rejected.
* After `share.coordinator.snapshot.update.records.per.snapshot` updates a write becomes a snapshot. A share partition without writes gets
  periodic snapshots, because a snapshot makes the earlier records of its share partition redundant: the log can be deleted up to the oldest
  of the share partitions' newest snapshots.
* The leader of a share partition reads and writes the state with its leader epoch. A read with a newer leader epoch records it, and
  requests with older ones are rejected from then on. `initialize` begins a state epoch; the leader reads the state again when its writes
  are rejected.

Source: Kafka's ShareCoordinatorShard, ShareGroupOffset, ShareCoordinatorOffsetsManager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.share.persister import UNINITIALIZED_START_OFFSET, ReadState, SharePartitionKey, StateBatch, StateSummary, WrittenState
from ottla.broker.share.state_batches import combine
from ottla.broker.share.state_records import ShareRecord
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.share_log import LoggedBatch, ShareSnapshotValue, ShareUpdateValue

_UNCHANGED = -1
"""In a request or record, this value of a start offset or an epoch means that it does not change."""


class ShareState(NamedTuple):
    """The persisted state of a share partition in memory, with the epochs, times and counters on which the next record depends.

    `fencing_leader_epoch` and `fencing_state_epoch` are the highest epochs seen. `updates` counts updates; a snapshot that is written
    because there were enough of them resets it to 0, other snapshots do not. `requested_snapshot_ms` (`createTimestamp` in the record) is
    the time of the last snapshot that a request wrote; `written_ms` is the time of the last snapshot of any kind, including periodic ones.
    Times are wall-clock ms, 0 before the first snapshot.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]
    requested_snapshot_ms: int
    written_ms: int
    fencing_leader_epoch: int
    fencing_state_epoch: int
    updates: int = 0


class ShareStateCoordinator:
    """The share coordinator's state machine for one partition of `__share_group_state`. It implements the protocol `Machine` of
    `ottla.broker.runtime.coordination.shard`.

    `has_partition` returns whether the topic with this id has this partition. With `is_strict` (as in Kafka 4.4):
    - A request with a negative epoch, or with a batch that ends before it begins, is rejected.
    - A write that keeps the start offset cannot lower the count of completed deliveries.
    - Adjacent batches with the same state and delivery count are always joined.

    Without `reads_unfenced` (as before Kafka 4.3), a read with the leader epoch -1 is rejected if a leader epoch is already known.
    """

    def __init__(
        self,
        updates_per_snapshot: int,
        has_partition: Callable[[bytes, int], bool],
        *,
        is_strict: bool = False,
        reads_unfenced: bool = True,
    ) -> None:
        self.states: dict[SharePartitionKey, ShareState] = {}
        self._updates_per_snapshot = updates_per_snapshot
        self._has_partition = has_partition
        self._is_strict = is_strict
        self._reads_unfenced = reads_unfenced
        self._snapshots: dict[SharePartitionKey, int] = {}
        """The offset of each share partition's newest snapshot in the log, in ascending order."""
        self._redundant_before: int | None = None

    # --- decisions ------------------------------------------------------------------------------------------------------------

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, now_ms: int) -> Effects[ShareRecord, None]:
        """Return the record (a snapshot) that begins a new state epoch of the share partition, with this start offset and no delivery
        states. Raises Rejected: FENCED_STATE_EPOCH for an older state epoch, UNKNOWN_TOPIC_OR_PARTITION, or INVALID_REQUEST for a negative
        number."""
        self._check_epochs(key, state_epoch=state_epoch)
        found = self.states.get(key)
        if found is not None and state_epoch != _UNCHANGED and found.fencing_state_epoch > state_epoch:
            raise self._fenced_state()
        self._check_exists(key)
        value = ShareSnapshotValue(
            snapshot_epoch=0 if found is None else found.snapshot_epoch + 1,
            state_epoch=state_epoch,
            start_offset=start_offset,
            delivery_complete_count=-1 if start_offset == UNINITIALIZED_START_OFFSET else 0,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
        )
        return Effects([ShareRecord(key, value)], None)

    def read(self, key: SharePartitionKey, leader_epoch: int, now_ms: int) -> Effects[ShareRecord, ReadState]:
        """Return the share partition's state. If `leader_epoch` is higher than all before, also return a record that stores it.

        Raises Rejected: INVALID_REQUEST if the share partition is not initialized or a number is negative, FENCED_LEADER_EPOCH for an older
        leader epoch, or UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._check_epochs(key, leader_epoch=leader_epoch)
        found = self._initialized(key, "Read")
        _check_leader(found, leader_epoch, may_be_unknown=self._reads_unfenced)
        self._check_exists(key)
        response = ReadState(found.state_epoch, found.start_offset, found.batches)
        if leader_epoch in {_UNCHANGED, found.fencing_leader_epoch}:
            return Effects((), response)
        unchanged = WrittenState(found.state_epoch, leader_epoch, found.start_offset, found.delivery_complete_count, ())
        return Effects([self._next_record(key, found, unchanged, leader_epoch, now_ms)], response)

    def write(self, key: SharePartitionKey, state: WrittenState, now_ms: int) -> Effects[ShareRecord, None]:
        """Return the record that stores the changed state: an update or, after enough updates, a snapshot.

        Raises Rejected: INVALID_REQUEST if the share partition is not initialized or a number is invalid, FENCED_LEADER_EPOCH or
        FENCED_STATE_EPOCH for an older epoch, or UNKNOWN_TOPIC_OR_PARTITION.
        """
        self._check_epochs(key, leader_epoch=state.leader_epoch, state_epoch=state.state_epoch)
        found = self._initialized(key, "Write")
        _check_leader(found, state.leader_epoch)
        if state.state_epoch != _UNCHANGED and found.fencing_state_epoch > state.state_epoch:
            raise self._fenced_state()
        self._check_exists(key)
        if self._is_strict:
            state = _never_lower(found, state)
        elif _UNCHANGED < state.start_offset < found.start_offset:
            # This is the retry of a write that arrives after a later write. Kafka takes over its lower start offset. Because the states
            # between the two offsets are gone, the next leader would then deliver accepted records again.
            state = replace(state, start_offset=found.start_offset, delivery_complete_count=found.delivery_complete_count)
        return Effects([self._next_record(key, found, state, found.leader_epoch, now_ms)], None)

    def summary(self, key: SharePartitionKey) -> StateSummary:
        """Return the start offset and the epochs of the share partition's state, without the delivery states. Without a state, the result
        has default values. Raises Rejected: UNKNOWN_TOPIC_OR_PARTITION, or INVALID_REQUEST for a negative partition."""
        self._check_exists(key)
        found = self.states.get(key)
        if found is None:
            return StateSummary()
        return StateSummary(found.state_epoch, found.leader_epoch, found.start_offset, found.delivery_complete_count)

    def delete(self, key: SharePartitionKey) -> Effects[ShareRecord, None]:
        """Return the record that deletes the share partition's state; no record if there is no state. Raises Rejected:
        UNKNOWN_TOPIC_OR_PARTITION, or INVALID_REQUEST for a negative partition."""
        self._check_exists(key)
        return Effects([ShareRecord(key, None)] if key in self.states else (), None)

    def of_deleted_topic(self, topic_id: bytes) -> list[ShareRecord]:
        """Return the records that delete the states of all share partitions of a deleted topic."""
        return [ShareRecord(key, None) for key in self.states if key.topic_id == topic_id]

    def cold_snapshots(self, interval_ms: int, now_ms: int) -> list[ShareRecord]:
        """Return new snapshots of the share partitions whose last snapshot is at least `interval_ms` old (Kafka's snapshotColdPartitions).

        If the last snapshot of every share partition is already a periodic one, return none: no request has written a snapshot since, so
        that new snapshots would make hardly any record redundant.
        """
        if all(state.requested_snapshot_ms != state.written_ms for state in self.states.values()):
            return []
        return [
            ShareRecord(key, _snapshot(state._replace(snapshot_epoch=state.snapshot_epoch + 1, written_ms=now_ms)))
            for key, state in self.states.items()
            if now_ms - state.written_ms >= interval_ms
        ]

    def redundant_before(self) -> int | None:
        """Return the offset below which every record of the log is redundant, so that these records can be deleted. Return None if no such
        offset is known, or if it is 0."""
        return self._redundant_before or None

    # --- state ----------------------------------------------------------------------------------------------------------------

    def apply(self, record: ShareRecord, record_offset: int, producer_id: int = -1) -> None:
        """Apply a record of `__share_group_state` to the state in memory. `record_offset` is the record's offset."""
        key, value = record.key, record.value
        if isinstance(value, ShareUpdateValue):
            self.states[key] = _updated(self.states.get(key), value, joins=self._is_strict)
            return
        self._snapshots.pop(key, None)
        self._snapshots[key] = record_offset
        self._redundant_before = next(iter(self._snapshots.values()))
        if value is None:
            self.states.pop(key, None)
            del self._snapshots[key]
        else:
            self.states[key] = self._of_snapshot(self.states.get(key), value)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Do nothing: `__share_group_state` is never written inside a transaction, so a transaction marker in it has no meaning."""

    def _of_snapshot(self, before: ShareState | None, value: ShareSnapshotValue) -> ShareState:
        updates = 0 if before is None or before.updates >= self._updates_per_snapshot else before.updates
        return ShareState(
            snapshot_epoch=value.snapshot_epoch,
            state_epoch=value.state_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=_state_batches(value.state_batches),
            requested_snapshot_ms=value.create_timestamp,
            written_ms=value.write_timestamp,
            fencing_leader_epoch=value.leader_epoch if before is None else max(before.fencing_leader_epoch, value.leader_epoch),
            fencing_state_epoch=value.state_epoch if before is None else max(before.fencing_state_epoch, value.state_epoch),
            updates=updates,
        )

    # --- rules ----------------------------------------------------------------------------------------------------------------

    def _initialized(self, key: SharePartitionKey, operation: str) -> ShareState:
        _check_key(key)
        found = self.states.get(key)
        if found is None:
            raise Rejected(ErrorCode.INVALID_REQUEST, f"{operation} operation on uninitialized share partition not allowed.")
        return found

    def _check_epochs(self, key: SharePartitionKey, *, leader_epoch: int = 0, state_epoch: int = 0) -> None:
        _check_key(key)
        for name, epoch in (("leader", leader_epoch), ("state", state_epoch)):
            if epoch < 0 and self._is_strict:
                raise Rejected(ErrorCode.INVALID_REQUEST, f"The {name} epoch cannot be a negative number.")

    def _fenced_state(self) -> Rejected:
        whose, what = ("", "state epoch") if self._is_strict else ("share ", "share-group state epoch")
        return Rejected(ErrorCode.FENCED_STATE_EPOCH, f"The {whose}coordinator rejected the request because the {what} did not match.")

    def _check_exists(self, key: SharePartitionKey) -> None:
        _check_key(key)
        if not self._has_partition(key.topic_id, key.partition):
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")

    def _next_record(self, key: SharePartitionKey, found: ShareState, state: WrittenState, leader_epoch: int, now_ms: int) -> ShareRecord:
        """Return the record that a write of `state` produces. It is an update with the changes or, after enough updates since the last
        snapshot, a snapshot of `found` with the changes applied."""
        if found.updates < self._updates_per_snapshot:
            update = ShareUpdateValue(
                snapshot_epoch=found.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=state.start_offset,
                delivery_complete_count=state.delivery_complete_count,
                state_batches=_logged(combine((), state.batches, state.start_offset, joins=self._is_strict)),
            )
            return ShareRecord(key, update)
        start_offset = found.start_offset if state.start_offset == _UNCHANGED else state.start_offset
        whole = found._replace(
            snapshot_epoch=found.snapshot_epoch + 1,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=state.delivery_complete_count,
            batches=combine(found.batches, state.batches, start_offset, joins=self._is_strict),
            requested_snapshot_ms=now_ms,
            written_ms=now_ms,
        )
        return ShareRecord(key, _snapshot(whole))


def _check_key(key: SharePartitionKey) -> None:
    if key.partition < 0:
        raise Rejected(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


def _check_leader(found: ShareState, leader_epoch: int, *, may_be_unknown: bool = True) -> None:
    if leader_epoch == _UNCHANGED and may_be_unknown:
        return
    if found.fencing_leader_epoch > leader_epoch:
        raise Rejected(ErrorCode.FENCED_LEADER_EPOCH, "The leader epoch in the request is older than the epoch on the broker.")


def _never_lower(found: ShareState, state: WrittenState) -> WrittenState:
    """Return `state` without a decrease of the start offset or, at the same start offset, of the count of completed deliveries, compared
    with `found` (Kafka 4.4). Raises Rejected(INVALID_REQUEST) for a batch that ends before it begins; Kafka fails with
    UNKNOWN_SERVER_ERROR."""
    if any(batch.last_offset < batch.first_offset for batch in state.batches):
        raise Rejected(ErrorCode.INVALID_REQUEST, "The last offset of a state batch cannot be below its first offset.")
    counts = {found.delivery_complete_count} if state.start_offset <= found.start_offset else set[int]()
    if state.start_offset >= found.start_offset:
        counts.add(state.delivery_complete_count)
    return replace(state, start_offset=max(state.start_offset, found.start_offset), delivery_complete_count=max(counts))


def _updated(before: ShareState | None, value: ShareUpdateValue, *, joins: bool) -> ShareState:
    if before is None:
        return ShareState(
            snapshot_epoch=value.snapshot_epoch,
            state_epoch=0,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=_state_batches(value.state_batches),
            requested_snapshot_ms=0,
            written_ms=0,
            fencing_leader_epoch=value.leader_epoch,
            fencing_state_epoch=_UNCHANGED,
            updates=1,
        )
    start_offset = before.start_offset if value.start_offset == _UNCHANGED else value.start_offset
    return before._replace(
        start_offset=start_offset,
        delivery_complete_count=value.delivery_complete_count,
        leader_epoch=before.leader_epoch if value.leader_epoch == _UNCHANGED else value.leader_epoch,
        batches=combine(before.batches, _state_batches(value.state_batches), start_offset, joins=joins),
        fencing_leader_epoch=max(before.fencing_leader_epoch, value.leader_epoch),
        updates=before.updates + 1,
    )


def _snapshot(state: ShareState) -> ShareSnapshotValue:
    return ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.requested_snapshot_ms,
        write_timestamp=state.written_ms,
        state_batches=_logged(state.batches),
    )


def _state_batches(logged: Sequence[LoggedBatch]) -> list[StateBatch]:
    return [StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in logged]


def _logged(batches: Sequence[StateBatch]) -> list[LoggedBatch]:
    return [LoggedBatch(*batch) for batch in batches]
