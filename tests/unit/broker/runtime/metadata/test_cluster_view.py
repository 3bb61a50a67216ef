from __future__ import annotations

from pathlib import Path

from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.controller.delete_topics import TopicRef
from ottla.broker.runtime.metadata.cluster_view import ClientListener, ClusterView
from ottla.protocol.error_codes import ErrorCode
from tests.support.topic_dirs import TopicDir

AT = ClientListener("PLAINTEXT", "me", 1)


def view(opened: TopicDir, node_id: int = 1, rack: str | None = None) -> ClusterView:
    return ClusterView(opened.catalog, opened.partitions, node_id, rack)


async def test_groups_see_all_topics_and_their_changes(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path)
    topics = view(opened)
    before = topics.version
    await opened.decisions.create_topics([NewTopic("t", 3)])
    assert topics.version != before
    info = topics.by_name("t")
    assert info is not None
    assert (info.name, info.partitions, topics.partition_count("t")) == ("t", 3, 3)
    assert topics.by_id(info.topic_id) == info
    assert list(topics.names()) == ["t"]
    assert (topics.by_name("u"), topics.partition_count("u")) == (None, 0)
    before = topics.version
    await opened.decisions.delete_topics([TopicRef(name="t")])
    assert topics.version != before
    assert topics.by_id(info.topic_id) is None
    opened.close()


async def test_every_topic_is_in_the_brokers_rack(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path)
    await opened.decisions.create_topics([NewTopic("t")])
    info = view(opened, rack="r").by_name("t")
    assert info is not None
    assert info.racks == (("r",),)
    opened.close()


async def test_a_topic_that_is_not_served_still_has_all_its_partitions(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path)
    await opened.decisions.create_topics([NewTopic("t", 2)])
    for index in range(2):
        opened.partitions.remove("t", index)
    assert view(opened).partition_count("t") == 2
    assert view(opened).by_name("t") is not None
    opened.close()


async def test_an_offline_partition_has_no_leader(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path)
    await opened.decisions.create_topics([NewTopic("t")])
    topic = opened.catalog.topic("t")
    assert topic is not None
    here = view(opened).partition(topic, 0, AT)
    assert (here.leader, here.offline, here.error) == (1, (), ErrorCode.NONE)
    opened.partitions.remove("t", 0)
    gone = view(opened).partition(topic, 0, AT)
    assert (gone.leader, gone.offline, gone.error) == (NO_LEADER, (1,), ErrorCode.LEADER_NOT_AVAILABLE)
    elsewhere = view(opened, node_id=2).partition(topic, 0, AT)
    assert (elsewhere.leader, elsewhere.offline, elsewhere.error) == (1, (), ErrorCode.NONE)
    opened.close()
