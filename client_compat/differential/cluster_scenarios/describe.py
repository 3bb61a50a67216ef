"""Compare Ottla's cluster with Apache Kafka's by the responses in which each broker describes the cluster: its brokers, topics and APIs."""

from __future__ import annotations

from client_compat.differential.cluster_scenarios.common import Placement, create
from client_compat.differential.nodes import Nodes
from client_compat.differential.scenarios.common import UNKNOWN_ID
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.k75_describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest

EVERYWHERE: Placement = ((1, 2, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1))
BROKERS, CONTROLLERS = 1, 2


def compare_descriptions(nodes: Nodes, name: str, topic_id: bytes) -> None:
    """Send Metadata, DescribeCluster and DescribeTopicPartitions to every running broker, at every version."""
    for version in nodes.range(ApiKey.METADATA):
        nodes.everywhere("metadata", MetadataRequest([MetadataRequestTopic(name=name)], False), version)
        nodes.everywhere("metadata of no topic", MetadataRequest([MetadataRequestTopic(name="nowhere")], False), version)
    for label, wanted in (("id", topic_id), ("unknown id", UNKNOWN_ID)):
        nodes.everywhere(f"metadata by {label}", MetadataRequest([MetadataRequestTopic(wanted, None)], False), 12)
    for version in nodes.range(ApiKey.DESCRIBE_CLUSTER):
        for kind in (BROKERS, CONTROLLERS) if version >= 1 else (BROKERS,):
            for fenced in (False, True) if version >= 2 else (False,):
                request = DescribeClusterRequest(endpoint_type=kind, include_fenced_brokers=fenced)
                nodes.everywhere(f"endpoints of kind {kind}{', fenced too' * fenced}", request, version)
    nodes.everywhere("topic partitions", DescribeTopicPartitionsRequest([TopicRequest(name), TopicRequest("nowhere")]))


def cluster(nodes: Nodes) -> None:
    """Describe the cluster through every broker, while all brokers run."""
    topic_id = create(nodes, "described", EVERYWHERE)
    compare_descriptions(nodes, "described", topic_id)
    pages = DescribeTopicPartitionsRequest([TopicRequest("described")], 2, Cursor("described", 1))
    nodes.everywhere("a page of partitions", pages)
    operations = MetadataRequest([MetadataRequestTopic(name="described")], False, True, True)
    nodes.everywhere("operations", operations, 10)
    nodes.everywhere("operations of the cluster", DescribeClusterRequest(True))


def api_versions(nodes: Nodes) -> None:
    """Ask every broker for its APIs and features, with each version of ApiVersions."""
    for version in nodes.range(ApiKey.API_VERSIONS):
        nodes.everywhere("offered", ApiVersionsRequest("ottla", "1"), version)
