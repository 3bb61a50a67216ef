from __future__ import annotations

from pathlib import Path

from broker.runtime.group_topics import GroupTopics
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create


def test_groups_see_the_topics_that_are_served_and_every_change_of_them(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, broker.client() as client:
        topics = broker.call(lambda running: GroupTopics(running.services.partitions))
        before = topics.version
        create(client, "t", partitions=3)
        assert topics.version != before
        info = topics.by_name("t")
        assert info is not None
        assert (info.name, info.partitions) == ("t", 3)
        assert topics.by_id(info.topic_id) == info
        assert list(topics.names()) == ["t"]
        assert topics.by_name("u") is None
        before = topics.version
        broker.call(lambda running: running.services.partitions.remove_topic("t"))
        assert topics.version != before
        assert topics.by_id(info.topic_id) is None


def test_every_topic_is_in_the_brokers_rack(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, broker.client() as client:
        topics = broker.call(lambda running: GroupTopics(running.services.partitions, "r"))
        create(client, "t")
        info = topics.by_name("t")
        assert info is not None
        assert info.rack == "r"
