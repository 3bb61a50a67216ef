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
    """Brokers 1, 2 and 3, and topic a."""
    live = LiveController()
    for broker_id in (1, 2, 3):
        live.add_broker(broker_id, fenced=broker_id in fenced)
    live.add_topic("a", *partitions)
    return live


def ask(live: LiveController, kind: int, asked: list[TopicPartitions] | None) -> Answers:
    response = live.run(elect_leaders(live.state, ElectLeadersRequest(kind, asked)))
    return {
        (topic.topic, each.partition_id): (each.error_code, each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


def of(*indexes: int) -> list[TopicPartitions]:
    return [TopicPartitions("a", list(indexes))]


def test_a_preferred_replica_that_is_in_sync_leads_again() -> None:
    live = cluster(replicas(1, 2, leader=2))
    assert ask(live, PREFERRED, of(0)) == {("a", 0): (ErrorCode.NONE, None)}
    assert (live.partition("a").leader, live.partition("a").leader_epoch) == (1, 1)


def test_why_there_was_no_election_is_told_of_each_partition() -> None:
    live = cluster(replicas(1, 2), replicas(1, 2, isr=(2,)), fenced=[1])
    assert ask(live, PREFERRED, [*of(0, 1, 7), TopicPartitions("b", [0])]) == {
        ("a", 0): (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
        ("a", 1): (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
        ("a", 7): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as a-7"),
        ("b", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as b"),
    }


def test_an_unclean_election_is_for_partitions_without_a_leader() -> None:
    live = cluster(replicas(1, 2, isr=(1,), leader=NO_LEADER), replicas(2, 1), replicas(1, isr=(1,), leader=NO_LEADER), fenced=[1])
    assert ask(live, UNCLEAN, of(0, 1, 2)) == {
        ("a", 0): (ErrorCode.NONE, None),
        ("a", 1): (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."),
        ("a", 2): (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."),
    }
    assert (live.partition("a").leader, live.partition("a").isr, live.partition("a").leader_recovery_state) == (2, (2,), 1)


def test_another_than_the_preferred_replica_may_lead_what_nobody_leads() -> None:
    live = cluster(replicas(1, 2, isr=(1, 2), leader=NO_LEADER), fenced=[1])
    assert ask(live, PREFERRED, of(0)) == {("a", 0): (ErrorCode.NONE, None)}
    assert live.partition("a").leader == 2


def test_an_election_of_all_answers_only_for_those_that_needed_one() -> None:
    live = cluster(replicas(1, 2), replicas(2, 1, leader=1))
    live.add_topic("b", replicas(1))
    response = live.run(elect_leaders(live.state, ElectLeadersRequest(PREFERRED, None)))
    found = {topic.topic: [each.partition_id for each in topic.partition_result] for topic in response.replica_election_results}
    assert found == {"a": [1], "b": []}


def test_there_are_two_kinds_of_election() -> None:
    with pytest.raises(Rejected) as refused:
        elect_leaders(cluster().state, ElectLeadersRequest(2, None))
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, "Unknown election type 2")


def test_nothing_is_asked_of_no_kind_of_election() -> None:
    assert ask(cluster(replicas(1, 2)), 2, []) == {}


def test_more_elections_than_a_batch_holds_are_refused_whole() -> None:
    live = cluster(*[replicas(1, 2, leader=2)] * 10_001)
    with pytest.raises(Rejected) as refused:
        elect_leaders(live.state, ElectLeadersRequest(PREFERRED, None))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_leaders_are_balanced_some_at_a_time() -> None:
    live = cluster(*[replicas(1, 2, leader=2)] * (ELECTIONS_AT_ONCE_MAX + 1), replicas(2, 1, isr=(1,)))
    assert live.run(balance_leaders(live.state)) is True
    assert live.run(balance_leaders(live.state)) is False
    assert balance_leaders(live.state).records == []
    assert [has_preferred_leader(live.partition("a", index)) for index in (0, 1_000, 1_001)] == [True, True, False]


def test_topics_that_allow_it_are_led_uncleanly_after_a_while() -> None:
    leaderless = replicas(1, 2, isr=(1,), leader=NO_LEADER)
    live = cluster(leaderless, replicas(2, 1), fenced=[1])
    live.add_topic("b", leaderless)
    live.write(ConfigRecord(2, "b", "unclean.leader.election.enable", "true"))
    assert live.run(elect_unclean_leaders(live.state)) is False
    assert (live.partition("a").leader, live.partition("b").leader) == (NO_LEADER, 2)
