"""Logs of share groups, consumer groups and streams groups: delivery states and memberships that are impossible, and unusual ones that are
legal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ottla.protocol import share_group_log as shares
from ottla.protocol import streams_group_log as streams
from ottla.protocol.consumer_group_log import AssignedTopic
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import Message, encode_prefixed
from ottla.protocol.share_log import (
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    LoggedBatch,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from ottla.protocol.uuids import encode_uuid
from ottla.spark_jobs.corpus.case import Case, Expected
from ottla.spark_jobs.corpus.writer import T0, PartitionWriter

TOPIC_ID = bytes(range(16))
AVAILABLE, ACQUIRED, ACCEPTED, ARCHIVING, ARCHIVED = 0, 1, 2, 3, 4
State = tuple[int, int, int, int]
"""A state batch of a share partition: (first offset, last offset, delivery state, delivery count)."""


class Queue:
    """Writes the topic `queue` with ten records, and the records of `__share_group_state` about share group `g` and the topic's only
    partition."""

    def __init__(self, root: Path, *, start: int = 0) -> None:
        self.topic = PartitionWriter(root, "queue", 0)
        self.topic.data(10)
        name = encode_uuid(TOPIC_ID)
        (self.topic.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {name}")
        self.states = PartitionWriter(root, "__share_group_state", 0, start=start)

    def snapshot(self, *batches: State, epoch: int = 0, state_epoch: int = 1, leader: int = 0, start: int = 0) -> None:
        """Append a snapshot (ShareSnapshot) of the share partition's state. `epoch`: the snapshot epoch; `leader`: the leader epoch;
        `start`: the start offset. Without state batches, the snapshot initializes the share partition."""
        value = ShareSnapshotValue(epoch, state_epoch, leader, start, 0, T0, T0, [LoggedBatch(*each) for each in batches])
        self._append(ShareSnapshotKey("g", TOPIC_ID, 0), SHARE_SNAPSHOT, value)

    def update(self, *batches: State, epoch: int = 0, leader: int = 0, start: int = -1) -> None:
        """Append an update (ShareUpdate) of the share partition's state. `epoch`: the epoch of the snapshot that it updates; `leader`: the
        leader epoch; `start`: the start offset (-1: unchanged)."""
        value = ShareUpdateValue(epoch, leader, start, 0, [LoggedBatch(*each) for each in batches])
        self._append(ShareUpdateKey("g", TOPIC_ID, 0), SHARE_UPDATE, value)

    def delete(self) -> None:
        """Append a tombstone, which deletes the share partition's state."""
        self._append(ShareSnapshotKey("g", TOPIC_ID, 0), SHARE_SNAPSHOT, None)

    def torn(self) -> None:
        """Append an update record whose value is truncated."""
        key = encode_prefixed(ShareUpdateKey("g", TOPIC_ID, 0), SHARE_UPDATE)
        self.states.batch(build_batch([SimpleRecord(key, encode_prefixed(ShareUpdateValue(), 0)[:9], T0)]))

    def _append(self, key: Message, version: int, value: Message | None) -> None:
        body = None if value is None else encode_prefixed(value, 0)
        self.states.batch(build_batch([SimpleRecord(encode_prefixed(key, version), body, T0)]))


def worked(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot(start=-1)
    queue.update((0, 4, ACCEPTED, 1), (5, 5, AVAILABLE, 1), start=0)
    queue.update((5, 5, ARCHIVED, 2), leader=1)
    queue.snapshot((6, 7, AVAILABLE, 1), epoch=1, leader=1, start=6)
    queue.update((7, 7, ACCEPTED, 2), epoch=1, leader=1)
    queue.update(epoch=1, leader=1, start=8)


def begun_anew(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot()
    queue.update((4, 4, ACCEPTED, 1), leader=3, start=4)
    queue.snapshot(epoch=1, state_epoch=2)
    queue.update((0, 3, AVAILABLE, 1), epoch=1, start=0)
    queue.delete()
    queue.snapshot()
    queue.update((0, 0, AVAILABLE, 1))


def pruned(root: Path) -> None:
    queue = Queue(root, start=40)
    queue.update((2, 3, ACCEPTED, 1), epoch=6)
    queue.snapshot((2, 3, ACCEPTED, 1), (4, 4, AVAILABLE, 1), epoch=7, start=1)


def with_a_hole(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot()
    queue.states.next_offset = 5
    queue.update((0, 3, ACCEPTED, 1))


def without_a_snapshot(root: Path) -> None:
    queue = Queue(root)
    queue.update((0, 3, ACCEPTED, 1))
    queue.snapshot((0, 3, ACCEPTED, 1), epoch=1)


def after_its_deletion(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot()
    queue.delete()
    queue.update((0, 3, ACCEPTED, 1))


def without_any_snapshot(root: Path) -> None:
    Queue(root, start=40).update((0, 3, ACCEPTED, 1))


def of_another_snapshot(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot()
    queue.update((0, 3, ACCEPTED, 1), epoch=1)


def epochs_back(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot(epoch=4, state_epoch=3)
    queue.update((0, 0, AVAILABLE, 1), epoch=4, leader=2)
    queue.update((1, 1, AVAILABLE, 1), epoch=4, leader=1)
    queue.snapshot((0, 1, AVAILABLE, 1), epoch=3, state_epoch=2, leader=2)


def start_back(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot()
    queue.update((0, 3, ACCEPTED, 1))
    queue.update(start=4)
    queue.update((2, 3, AVAILABLE, 2), start=2)


def overlapping(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot()
    queue.update((0, 3, ACCEPTED, 1), (3, 5, AVAILABLE, 1))
    queue.update((6, 5, AVAILABLE, 1))
    queue.update((6, 6, AVAILABLE, 1), start=7)


def impossible(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot()
    queue.update((0, 0, ACQUIRED, 1), (1, 1, AVAILABLE, 26), (2, 2, AVAILABLE, -1), (3, 3, AVAILABLE, 25))
    queue.update((0, 2**62, AVAILABLE, 1))
    queue.torn()


def delivered_again(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot()
    queue.update((0, 3, ACCEPTED, 1), (4, 5, ARCHIVED, 5))
    queue.update((2, 3, AVAILABLE, 2))
    queue.update((3, 3, ACCEPTED, 3))
    queue.update((5, 5, ACCEPTED, 6))


def dead_lettered(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot()
    queue.update((0, 1, ARCHIVING, 1), (2, 2, ARCHIVING, 5))
    queue.update((0, 1, ARCHIVED, 1))
    queue.snapshot((0, 1, ARCHIVED, 1), (2, 2, ARCHIVING, 5), epoch=1)


def answered_late(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot()
    queue.update((0, 3, ACCEPTED, 2))
    queue.update((0, 3, AVAILABLE, 1))
    queue.snapshot((0, 3, ACCEPTED, 2), epoch=1)


def forgetful_snapshot(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot()
    queue.update((0, 1, ACCEPTED, 1), (2, 3, AVAILABLE, 3), (4, 5, ACCEPTED, 1), start=0)
    queue.snapshot((2, 3, AVAILABLE, 1), (5, 5, AVAILABLE, 1), epoch=1, start=2)


def beyond_the_log(root: Path) -> None:
    queue = Queue(root)
    queue.snapshot()
    queue.update((8, 9, ACCEPTED, 1))
    queue.update((10, 11, ACCEPTED, 1))


class Streams:
    """Writes the records of the streams group `g` to `__consumer_offsets`."""

    def __init__(self, root: Path) -> None:
        self.log = PartitionWriter(root, "__consumer_offsets", 0)

    def write(self, *pairs: tuple[Message, int, Message | None]) -> None:
        """Append one batch of records, each given as (key, type of the key, value)."""
        made = [
            SimpleRecord(encode_prefixed(key, kind), None if value is None else encode_prefixed(value, 0), T0) for key, kind, value in pairs
        ]
        self.log.batch(build_batch(made))

    def join(self, *members: str, epoch: int = 1) -> None:
        """Append the records of the group's epoch and of the members that join."""
        self.write(group(epoch), *(member(each) for each in members))


Pair = tuple[Message, int, Message | None]


def group(epoch: int | None) -> Pair:
    value = None if epoch is None else streams.StreamsGroupMetadataValue(epoch)
    return streams.StreamsGroupMetadataKey("g"), streams.STREAMS_GROUP_EPOCH, value


def member(member_id: str, *, gone: bool = False) -> Pair:
    value = None if gone else streams.StreamsGroupMemberMetadataValue(instance_id=None, rack_id=None)
    return streams.StreamsGroupMemberMetadataKey("g", member_id), streams.STREAMS_MEMBER_METADATA, value


def current(member_id: str, epoch: int = 1, tasks: Iterable[int] = (), revoked: Iterable[int] = (), standby: Iterable[int] = ()) -> Pair:
    value = streams.StreamsGroupCurrentMemberAssignmentValue(
        epoch,
        epoch - 1,
        active_tasks=_owned(tasks),
        active_tasks_pending_revocation=_owned(revoked),
        standby_tasks=_owned(standby),
    )
    return streams.StreamsGroupCurrentMemberAssignmentKey("g", member_id), streams.STREAMS_CURRENT_ASSIGNMENT, value


def _owned(partitions: Iterable[int]) -> list[Any]:
    return [streams.OwnedTaskIds("0", list(partitions))]


def unassigned(member_id: str) -> Pair:
    return streams.StreamsGroupCurrentMemberAssignmentKey("g", member_id), streams.STREAMS_CURRENT_ASSIGNMENT, None


def handed_over(root: Path) -> None:
    log = Streams(root)
    log.join("a")
    log.write(current("a", 1, [0, 1], standby=[2]))
    log.join("b", epoch=2)
    log.write(current("a", 1, [0], revoked=[1]))
    log.write(current("b", 2, standby=[0, 1]))
    log.write(current("a", 2, [0]))
    log.write(current("b", 2, [1]))
    log.write(unassigned("a"), member("a", gone=True), group(3), current("b", 3, [0, 1]))
    log.write(unassigned("b"), member("b", gone=True), group(None))
    log.join("b")
    log.write(current("b", 1, [0]))


def two_owners(root: Path) -> None:
    log = Streams(root)
    log.join("a", "b")
    log.write(current("a", 1, [0], revoked=[1]))
    log.write(current("b", 1, [1]))
    log.write(current("a", 1, [0]))


def epochs_of_a_group(root: Path) -> None:
    log = Streams(root)
    log.join("a", epoch=5)
    log.write(current("a", 6, [0]))
    log.write(group(4))


def lost_members(root: Path) -> None:
    log = Streams(root)
    log.join("a", "b")
    log.write(current("a", 1, [0]), current("b", 1, [1]))
    log.write(member("a", gone=True))
    log.write(group(None))


def torn_members(root: Path) -> None:
    log = Streams(root)
    log.join("a")
    key, kind, _ = current("a")
    log.log.batch(build_batch([SimpleRecord(encode_prefixed(key, kind), b"\0\0\0", T0)]))
    log.log.batch(build_batch([SimpleRecord(encode_prefixed(key, kind), b"\0\x09of a later version", T0)]))


def shared_by_two(root: Path) -> None:
    log = Streams(root)
    value = shares.ShareGroupMemberMetadataValue(rack_id=None, client_id="c", client_host="h", subscribed_topic_names=["queue"])
    log.write((shares.ShareGroupMetadataKey("g"), shares.SHARE_GROUP_EPOCH, shares.ShareGroupMetadataValue(1)))
    for each in "ab":
        log.write((shares.ShareGroupMemberMetadataKey("g", each), shares.SHARE_MEMBER_METADATA, value))
        owned = [AssignedTopic(TOPIC_ID, [0])]
        assignment = shares.ShareGroupCurrentMemberAssignmentValue(1, 0, 0, owned)
        log.write((shares.ShareGroupCurrentMemberAssignmentKey("g", each), shares.SHARE_CURRENT_ASSIGNMENT, assignment))


def state(kind: str, at: int) -> Expected:
    return ("share-state", "violation", kind, f"__share_group_state-0@{at}")


def members(kind: str, at: int) -> Expected:
    return ("group-members", "violation", kind, f"__consumer_offsets-0@{at}")


def delivery(severity: str, kind: str, at: int) -> Expected:
    return ("share-delivery", severity, kind, f"__share_group_state-0@{at}")


SHARES: dict[str, Case] = {
    "share_group_worked": Case(worked, []),
    "share_group_begun_anew": Case(begun_anew, []),
    "share_group_pruned": Case(pruned, []),
    "share_state_with_a_hole": Case(with_a_hole, [("offsets", "warning", "offset gap", "__share_group_state-0@5")]),
    "share_update_without_a_snapshot": Case(without_a_snapshot, [state("update without a snapshot", 0)]),
    "share_update_after_its_deletion": Case(after_its_deletion, [state("update without a snapshot", 2)]),
    "share_update_without_any_snapshot": Case(without_any_snapshot, [state("update without a snapshot", 40)]),
    "share_update_of_another_snapshot": Case(of_another_snapshot, [state("update of another snapshot", 1)]),
    "share_epochs_back": Case(
        epochs_back, [state("leader epoch went back", 2), state("snapshot epoch went back", 3), state("state epoch went back", 3)]
    ),
    "share_start_back": Case(
        start_back, [state("start offset went back", 3), delivery("warning", "delivered again after it was accepted", 3)]
    ),
    "share_batches_overlap": Case(
        overlapping,
        [state("overlapping state batches", 1), state("impossible state batch", 2), state("state below the start offset", 3)],
    ),
    "share_states_impossible": Case(
        impossible,
        [
            state("impossible delivery state", 1),
            state("impossible delivery count", 1),
            state("impossible delivery count", 1),
            state("unreadable record", 3),
        ],
    ),
    "share_records_delivered_again": Case(
        delivered_again,
        [
            delivery("warning", "delivered again after it was accepted", 2),
            delivery("warning", "delivered again after it was archived", 4),
        ],
    ),
    "share_records_dead_lettered": Case(dead_lettered, []),
    "share_update_answered_late": Case(answered_late, []),
    "share_snapshot_forgets": Case(
        forgetful_snapshot,
        [delivery("violation", "snapshot went back", 2), delivery("violation", "snapshot without the state of a record", 2)],
    ),
    "share_state_beyond_the_log": Case(
        beyond_the_log, [("share-beyond-log", "warning", "state of records that do not exist", "__share_group_state-0@2")]
    ),
    "streams_tasks_handed_over": Case(handed_over, []),
    "streams_task_of_two_members": Case(two_owners, [members("task of two members", 4)]),
    "streams_epochs_of_a_group": Case(
        epochs_of_a_group, [members("epoch above that of its group", 2), members("group epoch went back", 3)]
    ),
    "streams_members_lost": Case(lost_members, [members("assignment without a member", 3), members("member without a group", 2)]),
    "streams_records_torn": Case(torn_members, [members("unreadable record", 2)]),
    "share_partition_of_two_members": Case(shared_by_two, []),
}
