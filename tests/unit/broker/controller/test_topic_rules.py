from __future__ import annotations

import pytest

from ottla.broker.cluster.image import MIGRATING, UNASSIGNED
from ottla.broker.controller.partition_change import ElectionKind, PartitionTarget
from ottla.broker.controller.topic_rules import TopicRules, default_directory
from tests.support.controllers import LiveController, directory, replicas


@pytest.mark.parametrize(
    ("directories", "where"),
    [(0, MIGRATING), (1, directory(10)), (2, UNASSIGNED)],
)
def test_a_new_replica_lies_in_its_brokers_only_directory(directories: int, where: bytes) -> None:
    live = LiveController()
    live.add_broker(1, directories=directories)
    assert default_directory(live.state, 1) == where


def test_a_new_replica_of_an_unknown_broker_is_unassigned() -> None:
    assert default_directory(LiveController().state, 9) == UNASSIGNED


def test_below_metadata_version_17_no_replica_has_a_directory() -> None:
    live = LiveController(level=16)
    live.add_broker(1, directories=0)
    assert default_directory(live.state, 1) == MIGRATING


def test_a_change_of_one_partition_goes_by_its_topics_rules() -> None:
    live = LiveController()
    for broker_id in (1, 2):
        live.add_broker(broker_id)
    live.add_topic("a", replicas(1, 2, leader=2))
    rules = TopicRules(live.state, live.state.image.topics[live.state.image.topic_ids["a"]])
    assert rules.change(0) is None
    elected = rules.change(0, election=ElectionKind.PREFERRED)
    assert elected is not None
    assert elected.leader == 1
    grown = rules.change(0, PartitionTarget(replicas=[1, 2, 3], adding=[3]))
    assert grown is not None
    assert grown.directories == [directory(10), directory(20), UNASSIGNED]


def test_only_the_brokers_that_are_said_to_be_active_lead() -> None:
    live = LiveController()
    for broker_id in (1, 2):
        live.add_broker(broker_id)
    live.add_topic("a", replicas(1, 2))
    topic = live.state.image.topics[live.state.image.topic_ids["a"]]
    elected = TopicRules(live.state, topic, lambda broker_id: broker_id == 2).change(0)
    assert elected is not None
    assert elected.leader == 2
