"""Compare Ottla's cluster with Apache Kafka's by requests to any broker that create, grow and delete topics. Every broker forwards them to
the controller."""

from __future__ import annotations

from client_compat.differential.cluster_scenarios.common import creatable, create, partitions_at, wait_until_in_sync
from client_compat.differential.nodes import Nodes
from client_compat.differential.scenarios.common import UNKNOWN_ID, until
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic


def creating(nodes: Nodes) -> None:
    """Create topics through each broker, at each version: by replication factor, with an explicit assignment, and with invalid values."""
    for version in nodes.range(ApiKey.CREATE_TOPICS):
        through = 1 + version % 3
        for label, topic in {
            "three replicas": CreatableTopic(f"made-{version}", 2, 3),
            "again": CreatableTopic(f"made-{version}", 2, 3),
            "by default": CreatableTopic(f"made-by-default-{version}", -1, -1),
            "by hand": creatable(f"made-by-hand-{version}", [(3, 1), (2, 3)]),
            "four replicas": CreatableTopic("refused", 1, 4),
            "no replicas": CreatableTopic("refused", 1, 0),
            "an unknown broker": creatable("refused", [(1, 2, 9)]),
            "a broker twice": creatable("refused", [(1, 1)]),
            "no broker": creatable("refused", [()]),
            "different numbers of replicas": creatable("refused", [(1, 2), (3,)]),
            "a negative broker": creatable("refused", [(-1,)]),
            "an unknown configuration": creatable("refused", [(1,)], {"no.such": "1"}),
            "a bad value": creatable("refused", [(1,)], {"min.insync.replicas": "0"}),
            "a bad name": CreatableTopic("a b", 1, 1),
            "a null value": CreatableTopic("refused", 1, 1, configs=[CreatableTopicConfig("retention.ms", None)]),
        }.items():
            nodes.ask(through, label, CreateTopicsRequest([topic]), version)
        nodes.ask(through, "only tried", CreateTopicsRequest([CreatableTopic("only-tried", 2, 3)], validate_only=True), version)
        twice = [CreatableTopic("twice", 1, 1), CreatableTopic("twice", 2, 1), CreatableTopic("", 1, 1)]
        nodes.ask(through, "a name twice, and none", CreateTopicsRequest(twice), version)
        nodes.ask(through, "nothing", CreateTopicsRequest([]), version)
        nodes.ask(through, "no time", CreateTopicsRequest([CreatableTopic(f"no-time-{version}", 1, 1)], 0), version)


def growing(nodes: Nodes) -> None:
    """Send valid and invalid CreatePartitions requests through each broker."""
    create(nodes, "grown", [(1, 2, 3)])
    for version in nodes.range(ApiKey.CREATE_PARTITIONS):
        through, count = 1 + version % 3, 2 + version

        def grow(label: str, topic: CreatePartitionsTopic, through: int = through, version: int = version, **fields: bool) -> None:
            nodes.ask(through, label, CreatePartitionsRequest([topic], 5_000, **fields), version)

        by_hand = [CreatePartitionsAssignment([3, 1, 2])]
        grow("only tried", CreatePartitionsTopic("grown", count, by_hand), validate_only=True)
        grow("one more", CreatePartitionsTopic("grown", count, by_hand))
        grow("as many", CreatePartitionsTopic("grown", count, None))
        grow("fewer", CreatePartitionsTopic("grown", 1, None))
        grow("too few assigned", CreatePartitionsTopic("grown", count + 2, by_hand))
        grow("an unknown broker", CreatePartitionsTopic("grown", count + 1, [CreatePartitionsAssignment([1, 2, 9])]))
        grow("another number of replicas", CreatePartitionsTopic("grown", count + 1, [CreatePartitionsAssignment([1, 2])]))
        grow("an unknown topic", CreatePartitionsTopic("nowhere", 2, None))
        twice = CreatePartitionsTopic("grown", count + 1, None)
        nodes.ask(through, "twice", CreatePartitionsRequest([twice, twice], 5_000), version)
        wait_until_in_sync(nodes, "grown", count)
        nodes.everywhere("grown", MetadataRequest([MetadataRequestTopic(name="grown")], False), 12)


def deleting(nodes: Nodes) -> None:
    """Delete topics by name and by id. The requests go to a broker that has no replica of the topic."""
    for version in nodes.range(ApiKey.DELETE_TOPICS):
        topic_id = create(nodes, "deleted", [(1, 2)])
        if version >= 6:
            states = [DeleteTopicState(None, topic_id), DeleteTopicState("nowhere"), DeleteTopicState(None, UNKNOWN_ID)]
            nodes.ask(3, "by id", DeleteTopicsRequest(topics=states, timeout_ms=5_000), version)
            both = [DeleteTopicState("deleted", topic_id), DeleteTopicState(None, bytes(16))]
            nodes.ask(3, "by both, and by nothing", DeleteTopicsRequest(topics=both, timeout_ms=5_000), version)
        else:
            nodes.ask(3, "by name", DeleteTopicsRequest(topic_names=["deleted", "nowhere"], timeout_ms=5_000), version)
        for node_id in nodes.living:
            for _ in until("the topic is gone"):
                if not partitions_at(nodes, node_id, "deleted"):
                    break
        nodes.everywhere("gone", MetadataRequest([MetadataRequestTopic(name="deleted")], False), 12)
        nodes.everywhere("gone by id", MetadataRequest([MetadataRequestTopic(topic_id, None)], False), 12)
