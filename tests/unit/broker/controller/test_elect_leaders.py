from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.broker.cluster.image import PartitionRegistration
from ottla.broker.cluster.metadata_records import NO_LEADER, ConfigRecord
from ottla.broker.controller.elect_leaders import (
    ELECTIONS_AT_ONCE_MAX,
    balance_leaders,
    elect_leaders,
    elect_unclean_leaders,
    has_preferred_leader,
)
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.support.controllers import LiveController, replicas

PREFERRED, UNCLEAN = 0, 1
Answers = dict[tuple[str, int], tuple[int, str | None]]


def cluster(*partitions: PartitionRegistration, fenced: Sequence[int] = ()) -> LiveController:
    """A controller with brokers 1, 2 and 3, of which `fenced` are fenced, and topic a with these partitions."""
    live = LiveController()
    for broker_id in (1, 2, 3):
        live.add_broker(broker_id, fenced=broker_id in fenced)
    live.add_topic("a", *partitions)
    return live


def ask(live: LiveController, kind: int, topic_partitions: list[TopicPartitions] | None) -> Answers:
    response = live.run(elect_leaders(live.state, ElectLeadersRequest(kind, topic_partitions)))
    return {
        (topic.topic, each.partition_id): (each.error_code, each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


def of(*indexes: int) -> list[TopicPartitions]:
    return [TopicPartitions("a", list(indexes))]


def test_an_in_sync_preferred_replica_is_elected() -> None:
    live = cluster(replicas(1, 2, leader=2))
    assert ask(live, PREFERRED, of(0)) == {("a", 0): (ErrorCode.NONE, None)}
    assert (live.partition("a").leader, live.partition("a").leader_epoch) == (1, 1)


def test_each_partition_has_its_election_error() -> None:
    live = cluster(replicas(1, 2), replicas(1, 2, isr=(2,)), fenced=[1])
    assert ask(live, PREFERRED, [*of(0, 1, 7), TopicPartitions("b", [0])]) == {
        ("a", 0): (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
        ("a", 1): (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
        ("a", 7): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as a-7"),
        ("b", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as b"),
    }


def test_an_unclean_election_needs_a_partition_without_a_leader() -> None:
    live = cluster(replicas(1, 2, isr=(1,), leader=NO_LEADER), replicas(2, 1), replicas(1, isr=(1,), leader=NO_LEADER), fenced=[1])
    assert ask(live, UNCLEAN, of(0, 1, 2)) == {
        ("a", 0): (ErrorCode.NONE, None),
        ("a", 1): (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
        ("a", 2): (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."),
    }
    assert (live.partition("a").leader, live.partition("a").isr, live.partition("a").leader_recovery_state) == (2, (2,), 1)


def test_a_leaderless_partition_may_elect_another_than_the_preferred_replica() -> None:
    live = cluster(replicas(1, 2, isr=(1, 2), leader=NO_LEADER), fenced=[1])
    assert ask(live, PREFERRED, of(0)) == {("a", 0): (ErrorCode.NONE, None)}
    assert live.partition("a").leader == 2


def test_an_election_of_all_partitions_omits_those_not_needed() -> None:
    live = cluster(replicas(1, 2), replicas(2, 1, leader=1))
    live.add_topic("b", replicas(1))
    response = live.run(elect_leaders(live.state, ElectLeadersRequest(PREFERRED, None)))
    found = {topic.topic: [each.partition_id for each in topic.partition_result] for topic in response.replica_election_results}
    assert found == {"a": [1], "b": []}


def test_an_unknown_election_type_is_refused() -> None:
    with pytest.raises(Rejected) as refused:
        elect_leaders(cluster().state, ElectLeadersRequest(2, None))
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, "Unknown election type 2")


def test_an_empty_election_request_ignores_its_type() -> None:
    assert ask(cluster(replicas(1, 2)), 2, []) == {}


def test_more_elections_than_a_batch_holds_refuse_the_request() -> None:
    live = cluster(*[replicas(1, 2, leader=2)] * 10_001)
    with pytest.raises(Rejected) as refused:
        elect_leaders(live.state, ElectLeadersRequest(PREFERRED, None))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_leaders_are_rebalanced_in_limited_numbers() -> None:
    live = cluster(*[replicas(1, 2, leader=2)] * (ELECTIONS_AT_ONCE_MAX + 1), replicas(2, 1, isr=(1,)))
    assert live.run(balance_leaders(live.state)) is True
    assert live.run(balance_leaders(live.state)) is False
    assert balance_leaders(live.state).records == []
    assert [has_preferred_leader(live.partition("a", index)) for index in (0, 1_000, 1_001)] == [True, True, False]


def test_unclean_elections_run_periodically_for_topics_that_allow_them() -> None:
    leaderless = replicas(1, 2, isr=(1,), leader=NO_LEADER)
    live = cluster(leaderless, replicas(2, 1), fenced=[1])
    live.add_topic("b", leaderless)
    live.write(ConfigRecord(2, "b", "unclean.leader.election.enable", "true"))
    assert live.run(elect_unclean_leaders(live.state)) is False
    assert (live.partition("a").leader, live.partition("b").leader) == (NO_LEADER, 2)
