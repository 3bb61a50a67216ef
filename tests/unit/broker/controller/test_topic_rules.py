from __future__ import annotations

from ottla.broker.cluster.image import UNASSIGNED
from ottla.broker.controller.partition_change import ElectionKind, PartitionTarget
from ottla.broker.controller.topic_rules import TopicRules
from tests.support.controllers import LiveController, directory, replicas


def test_a_partition_change_uses_its_topics_configs() -> None:
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


def test_only_the_given_active_brokers_are_elected() -> None:
    live = LiveController()
    for broker_id in (1, 2):
        live.add_broker(broker_id)
    live.add_topic("a", replicas(1, 2))
    topic = live.state.image.topics[live.state.image.topic_ids["a"]]
    elected = TopicRules(live.state, topic, lambda broker_id: broker_id == 2).change(0)
    assert elected is not None
    assert elected.leader == 2
