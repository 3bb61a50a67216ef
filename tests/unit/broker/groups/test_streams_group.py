from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ottla.broker.groups.modern import CommitPartition, ModernState
from ottla.broker.groups.streams_group import StreamsGroup
from ottla.protocol import streams_group_log as records
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.streams_group import Subtopology, TopicInfo
from ottla.protocol.streams_group_log import OwnedTaskIds, StreamsKey, StreamsValue

Pair = tuple[StreamsKey, StreamsValue | None]
COUNTING = Subtopology("0", ["t"], state_changelog_topics=[TopicInfo("log")])
JOINING = Subtopology("1", repartition_source_topics=[TopicInfo("r")])
TOPOLOGY = records.StreamsGroupTopologyKey("g"), records.StreamsGroupTopologyValue(0, [COUNTING, JOINING])


def metadata(member_id: str, process_id: str = "p") -> Pair:
    return records.StreamsGroupMemberMetadataKey("g", member_id), records.StreamsGroupMemberMetadataValue(process_id=process_id)


def current(member_id: str, epoch: int, active: Iterable[int] = (), *, standby: Iterable[int] = (), **changes: Any) -> Pair:
    """Return the record of a member's current assignment in subtopology `0`; `epochs` are those of the active tasks."""
    tasks = [OwnedTaskIds("0", list(active), changes.get("epochs"))], [OwnedTaskIds("0", list(standby))]
    value = records.StreamsGroupCurrentMemberAssignmentValue(epoch, epoch - 1, changes.get("state", 1), *tasks)
    return records.StreamsGroupCurrentMemberAssignmentKey("g", member_id), value


def epoch(epoch: int, validated: int = 0) -> Pair:
    return records.StreamsGroupMetadataKey("g"), records.StreamsGroupMetadataValue(epoch, 0, validated)


def target_epoch(epoch: int) -> Pair:
    return records.StreamsGroupTargetAssignmentMetadataKey("g"), records.StreamsGroupTargetAssignmentMetadataValue(epoch)


def group_of(*pairs: Pair) -> StreamsGroup:
    group = StreamsGroup("g")
    for key, value in pairs:
        group.apply(key, value)
    return group


@pytest.mark.parametrize(
    ("pairs", "state"),
    [
        ([epoch(2), TOPOLOGY], ModernState.EMPTY),
        ([metadata("a"), epoch(2)], ModernState.NOT_READY),
        ([metadata("a"), TOPOLOGY, epoch(2, validated=-1)], ModernState.NOT_READY),
        ([metadata("a"), TOPOLOGY, epoch(2)], ModernState.ASSIGNING),
        ([metadata("a"), TOPOLOGY, epoch(2), target_epoch(2), current("a", 1)], ModernState.RECONCILING),
        ([metadata("a"), TOPOLOGY, epoch(2), target_epoch(2), current("a", 2, state=3)], ModernState.RECONCILING),
        ([metadata("a"), TOPOLOGY, epoch(2), target_epoch(2), current("a", 2)], ModernState.STABLE),
    ],
)
def test_the_state_follows_from_members_topology_and_epochs(pairs: list[Pair], state: ModernState) -> None:
    assert group_of(*pairs).state is state


def test_processes_hold_the_tasks_of_their_members() -> None:
    group = group_of(metadata("a"), current("a", 2, [0, 1], standby=[2]), metadata("b", "q"), current("b", 2, [2]))
    assert [group.active_process("0", partition) for partition in range(4)] == ["p", "p", "q", None]
    assert group.has_replica("p", "0", 2)
    assert not group.has_replica("q", "0", 2)
    group.apply(*current("a", 3, [1]))
    assert (group.active_process("0", 0), group.has_replica("p", "0", 2)) == (None, False)
    group.apply(records.StreamsGroupMemberMetadataKey("g", "b"), None)
    assert group.active_process("0", 2) is None


def test_a_member_that_changes_its_process_takes_its_tasks_along() -> None:
    group = group_of(metadata("a"), current("a", 2, [0]))
    group.apply(*metadata("a", "q"))
    assert group.active_process("0", 0) == "q"


def test_a_task_stays_with_the_process_that_got_it_last() -> None:
    """After compaction, the record of a task's new owner may precede that of its previous owner."""
    group = group_of(metadata("a"), current("a", 2, [0]), metadata("b", "q"), current("b", 3, [0]))
    group.apply(*current("a", 3))
    assert group.active_process("0", 0) == "q"


def test_a_copy_shares_no_holder_with_the_group() -> None:
    group = group_of(metadata("a"), current("a", 2, [0], standby=[1]))
    group.copy().apply(*current("a", 3))
    assert (group.active_process("0", 0), group.has_replica("p", "0", 1)) == ("p", True)


def test_a_group_is_subscribed_to_its_inputs_while_it_has_members() -> None:
    group = group_of(TOPOLOGY)
    assert not group.is_subscribed_to("t")
    group.apply(*metadata("a"))
    assert [group.is_subscribed_to(topic) for topic in ("t", "r", "log")] == [True, True, False]
    assert group.subscribed_topics() == {"t", "r", "log"}


@pytest.mark.parametrize(
    ("member_id", "member_epoch", "partition", "error"),
    [
        ("a", 5, CommitPartition("x", b"", 9), ErrorCode.NONE),
        ("a", 6, CommitPartition("t", b"", 0), ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 3, CommitPartition("t", b"", 0), ErrorCode.NONE),
        ("a", 2, CommitPartition("t", b"", 0), ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 4, CommitPartition("t", b"", 1), ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 4, CommitPartition("r", b"", 0), ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 4, CommitPartition("log", b"", 0), ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 5, CommitPartition("t", b"", 0), ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, CommitPartition("t", b"", 0), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_commit_of_an_older_epoch_counts_for_tasks_assigned_then(
    member_id: str, member_epoch: int, partition: CommitPartition, error: ErrorCode
) -> None:
    group = group_of(TOPOLOGY, metadata("a"), current("a", 5, [0, 1], epochs=[3, 5]))
    assert group.check_offset_commit(member_id, None, member_epoch, [partition], transactional=False, knows_epochs=True) is error
    if error is ErrorCode.STALE_MEMBER_EPOCH:
        transactional = group.check_offset_commit(member_id, None, member_epoch, [partition], transactional=True, knows_epochs=False)
        assert transactional is ErrorCode.ILLEGAL_GENERATION


def test_a_fetch_with_a_wrong_epoch_is_stale() -> None:
    group = group_of(metadata("a"), current("a", 5))
    assert [group.check_offset_fetch("a", given) for given in (5, 4)] == [ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH]
    assert group.check_offset_fetch(None, -1) is ErrorCode.NONE
    assert group.check_offset_fetch("b", 5) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_requested_shutdown_is_forgotten_with_the_last_member() -> None:
    group = group_of(metadata("a"), metadata("b"))
    group.shutdown_requested_by = "a"
    group.apply(records.StreamsGroupMemberMetadataKey("g", "a"), None)
    assert group.shutdown_requested_by == "a"
    group.apply(records.StreamsGroupMemberMetadataKey("g", "b"), None)
    assert group.shutdown_requested_by is None


def test_a_group_ends_by_the_tombstones_of_its_three_records() -> None:
    kinds = [type(record.key).__name__ for record in StreamsGroup("g").tombstones()]
    assert kinds == ["StreamsGroupTargetAssignmentMetadataKey", "StreamsGroupMetadataKey", "StreamsGroupTopologyKey"]
