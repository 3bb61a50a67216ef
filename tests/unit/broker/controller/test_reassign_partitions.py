from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.broker.cluster.image import PartitionRegistration
from ottla.broker.cluster.metadata_records import NO_LEADER, ConfigRecord, PartitionChangeRecord
from ottla.broker.controller.reassign_partitions import alter_partition_reassignments, list_partition_reassignments
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)
from tests.support.controllers import LiveController, directory, replicas


def cluster(*partitions: PartitionRegistration) -> LiveController:
    """A controller with brokers 1 to 6, of which 6 is fenced, and topic a with these partitions."""
    live = LiveController()
    for broker_id in range(1, 7):
        live.add_broker(broker_id, fenced=broker_id == 6)
    live.add_topic("a", *partitions)
    return live


def move(live: LiveController, to: Sequence[int] | None, index: int = 0, name: str = "a", *, resize: bool = True) -> tuple[int, str | None]:
    topics = [ReassignableTopic(name, [ReassignablePartition(index, None if to is None else list(to))])]
    request = AlterPartitionReassignmentsRequest(allow_replication_factor_change=resize, topics=topics)
    response = live.run(alter_partition_reassignments(live.state, request))
    assert (response.allow_replication_factor_change, response.error_message) == (resize, None)
    (answer,) = response.responses[0].partitions
    return answer.error_code, answer.error_message


def sets(live: LiveController) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    now = live.partition("a")
    return now.replicas, now.removing_replicas, now.adding_replicas


def test_a_reassignment_adds_new_replicas_and_keeps_the_old_ones() -> None:
    live = cluster(replicas(1, 2, 3))
    assert move(live, [5, 2, 4]) == (ErrorCode.NONE, None)
    assert sets(live) == ((5, 2, 4, 1, 3), (1, 3), (4, 5))
    assert live.partition("a").isr == (1, 2, 3)
    assert live.partition("a").directories == tuple(directory(10 * replica) for replica in (5, 2, 4, 1, 3))


def test_a_reassignment_without_new_replicas_completes_at_once() -> None:
    live = cluster(replicas(1, 2, 3))
    assert move(live, [3, 2]) == (ErrorCode.NONE, None)
    now = live.partition("a")
    assert sets(live) == ((3, 2), (), ())
    assert (now.isr, now.leader, now.leader_epoch) == ((2, 3), 3, 1)


def test_another_replica_order_starts_no_leader_epoch() -> None:
    live = cluster(replicas(1, 2, 3))
    assert move(live, [3, 2, 1]) == (ErrorCode.NONE, None)
    assert (live.partition("a").replicas, live.partition("a").leader, live.partition("a").leader_epoch) == ((3, 2, 1), 1, 0)


def test_a_reassignment_to_the_same_replicas_changes_nothing() -> None:
    live = cluster(replicas(1, 2))
    before = live.next_offset
    assert move(live, [1, 2]) == (ErrorCode.NONE, None)
    assert live.next_offset == before


def test_a_fenced_broker_can_be_a_reassignment_target() -> None:
    assert move(cluster(replicas(1, 2)), [1, 6]) == (ErrorCode.NONE, None)


def test_a_second_reassignment_starts_from_the_current_replicas() -> None:
    live = cluster(replicas(1, 2, 3))
    move(live, [1, 2, 4])
    move(live, [1, 2, 5])
    assert sets(live) == ((1, 2, 5, 3, 4), (3, 4), (5,))


WRONG = "The manual partition assignment includes"


@pytest.mark.parametrize(
    ("to", "code", "text"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{WRONG} an empty replica list."),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{WRONG} the broker 1 more than once."),
        (
            [1, 9],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{WRONG} broker 9, but no such broker is registered.",
        ),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
    ],
)
def test_an_invalid_reassignment_is_refused(to: list[int] | None, code: ErrorCode, text: str | None) -> None:
    live = cluster(replicas(1, 2))
    before = live.next_offset
    assert move(live, to) == (code, text)
    assert live.next_offset == before


def test_unknown_topics_and_partitions_are_refused() -> None:
    live = cluster(replicas(1, 2))
    assert move(live, [1], name="b") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named b.")
    assert move(live, [1], index=3) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition a:3.")


def test_a_reassignment_may_forbid_a_replication_factor_change() -> None:
    live = cluster(replicas(1, 2))
    assert move(live, [1, 2, 3], resize=False) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "The replication factor is changed from 2 to 3",
    )
    assert move(live, [1, 3], resize=False)[0] == ErrorCode.NONE
    assert move(live, [4, 5], resize=False)[0] == ErrorCode.NONE, "of [1, 3, 2] one is to be removed"
    assert move(live, [1, 2, 3], resize=False)[0] == ErrorCode.INVALID_REPLICATION_FACTOR


def test_cancelling_a_reassignment_restores_the_old_replicas() -> None:
    live = cluster(replicas(1, 2, 3))
    move(live, [1, 4, 5])
    live.write(PartitionChangeRecord(0, live.state.image.topic_ids["a"], isr=[1, 2, 3, 4]))
    assert move(live, None) == (ErrorCode.NONE, None)
    now = live.partition("a")
    assert sets(live) == ((1, 2, 3), (), ())
    assert (now.isr, now.leader, now.leader_epoch) == ((1, 2, 3), 1, 1)


def test_cancelling_with_only_new_replicas_in_sync_needs_unclean_election() -> None:
    live = cluster(replicas(1, 2))
    move(live, [3, 4])
    live.write(PartitionChangeRecord(0, live.state.image.topic_ids["a"], isr=[3], leader=3))
    text = "Unable to revert partition assignment for a:0 because it would require an unclean leader election."
    assert move(live, None) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    live.write(ConfigRecord(2, "a", "unclean.leader.election.enable", "true"))
    assert move(live, None) == (ErrorCode.NONE, None)
    now = live.partition("a")
    assert (sets(live)[0], now.isr, now.leader) == ((1, 2), (1,), 1)


def test_completing_a_reassignment_elects_a_remaining_replica() -> None:
    live = cluster(replicas(1, 2, isr=(1,), leader=NO_LEADER))
    move(live, [2])
    assert sets(live) == ((2, 1), (1,), ()), "2 is not in sync"


def test_ongoing_reassignments_are_listed() -> None:
    live = cluster(replicas(1, 2), replicas(1, 2))
    live.add_topic("b", replicas(1, 2))
    move(live, [3, 2], index=1)
    ongoing = OngoingPartitionReassignment(1, [3, 2, 1], [3], [1])
    everything = list_partition_reassignments(live.state, ListPartitionReassignmentsRequest())
    assert [(topic.name, topic.partitions) for topic in everything.topics] == [("a", [ongoing])]
    topics = [
        ListPartitionReassignmentsTopics("a", [0, 1, 5]),
        ListPartitionReassignmentsTopics("b", [0]),
        ListPartitionReassignmentsTopics("c", [0]),
    ]
    assert list_partition_reassignments(live.state, ListPartitionReassignmentsRequest(topics=topics)) == everything
    assert list_partition_reassignments(live.state, ListPartitionReassignmentsRequest(topics=[])).topics == []


def test_more_reassignments_than_a_batch_holds_refuse_the_request() -> None:
    live = cluster(*[replicas(1, 2)] * 10_001)
    topics = [ReassignableTopic("a", [ReassignablePartition(index, [2, 1]) for index in range(10_001)])]
    with pytest.raises(Rejected) as refused:
        alter_partition_reassignments(live.state, AlterPartitionReassignmentsRequest(topics=topics))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
