"""Compare Ottla with Apache Kafka by administrative requests at their limits: the maximum size of a request, malformed references to
topics, other spellings of a directory, values that Kafka does not validate, and defaults that contradict each other.

Rule: only Ottla's own release is compared (`OF_NEWEST`), because older releases have other limits and errors.
"""

from __future__ import annotations

from math import inf, nan

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import UNKNOWN_ID, create
from client_compat.differential.scenarios.configs import APPEND, BROKER, DELETE, SET, SUBTRACT, TOPIC, then
from ottla.protocol.messages import k44_incremental_alter_configs as k44
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k34_alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from ottla.protocol.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData

ME = 1
LOCAL_MS, MS, LOCAL_BYTES, BYTES = (
    f"log.{name}" for name in ("local.retention.ms", "retention.ms", "local.retention.bytes", "retention.bytes")
)


def topics_at_the_limit(probe: Probe) -> None:
    """Try to create topics whose partitions and settings together are close to the limit of 10,000 for one request, also together with
    topics that are rejected."""
    create(probe, "limit-here")
    one, twice, setting = (
        CreatableTopic("limit-b", 1, 1),
        [CreatableTopic("limit-c", 1, 1)] * 2,
        [CreatableTopicConfig("retention.ms", "5")],
    )
    for label, topics in {
        "9,999": [CreatableTopic("limit-a", 9_999, 1)],
        "9,999 and a setting": [CreatableTopic("limit-a", 9_999, 1, configs=setting)],
        "9,998 and a setting": [CreatableTopic("limit-a", 9_998, 1, configs=setting)],
        "two below": [CreatableTopic("limit-a", 5_000, 1), CreatableTopic("limit-b", 4_998, 1)],
        "two above, and others": [
            CreatableTopic("limit-a", 5_000, 1),
            CreatableTopic("limit-b", 4_999, 1),
            *twice,
            CreatableTopic("a b", 1, 1),
        ],
        "an existing one counts": [CreatableTopic("limit-here", 9_999, 1), CreatableTopic("limit-b", 2, 1)],
        "repeated ones do not": [CreatableTopic("limit-a", 10_001, 1), CreatableTopic("limit-a", 1, 1), one],
        "nor does the metadata": [CreatableTopic("__cluster_metadata", 10_001, 1), one],
        "too many, and others": [CreatableTopic("limit-a", 10_001, 1), *twice, CreatableTopic("__cluster_metadata", 1, 1)],
    }.items():
        probe.ask(label, CreateTopicsRequest(topics, 5_000, True), 4)


def partitions_at_the_limit(probe: Probe) -> None:
    """Try to add 10,000 and more partitions to two topics in one request, also together with topics that are rejected."""
    create(probe, "more-a")
    create(probe, "more-b", 2)

    def grow(label: str, *counts: tuple[str, int]) -> None:
        topics = [CreatePartitionsTopic(name, count, None) for name, count in counts]
        probe.ask(label, CreatePartitionsRequest(topics, 5_000, True))

    grow("10,000", ("more-a", 5_001), ("more-b", 5_002))
    grow("10,001", ("more-a", 5_002), ("more-b", 5_002))
    grow("all in one", ("more-b", 10_002), ("more-a", 2))
    grow("far too many", ("more-a", 2), ("more-b", 2**31 - 1), ("nowhere", 2))
    grow("of an unknown topic", ("nowhere", 2**31 - 1), ("more-a", 2))
    grow("repeated ones do not count", ("more-b", 10_003), ("more-b", 10_003), ("more-a", 2))
    grow("repeated ones among too many", ("nowhere", 1), ("nowhere", 1), ("more-a", 5_002), ("more-b", 5_003))


def malformed_references(probe: Probe) -> None:
    """Send DeleteTopics with references that have neither a topic's name nor its id, or both. Some of them are repeated; some are together
    with a valid reference."""
    topic_id = create(probe, "referred")
    neither, both, unknown = DeleteTopicState(), DeleteTopicState("referred", topic_id), DeleteTopicState(None, UNKNOWN_ID)
    for label, states in {
        "neither, twice": [neither, neither],
        "both, twice": [both, both],
        "an unknown id, twice": [unknown, unknown],
        "neither and good": [neither, DeleteTopicState("referred"), neither],
    }.items():
        probe.ask(label, DeleteTopicsRequest(states, timeout_ms=5_000), 6)


def spelled_directories(probe: Probe) -> None:
    """Send AlterReplicaLogDirs that moves a replica to the directory in which it already is, with other spellings of the directory's
    path."""
    create(probe, "spelled")
    own = probe.ask_unrecorded(DescribeLogDirsRequest(None), 4).results[0].log_dir
    here = [AlterReplicaLogDirTopic("spelled", [0])]
    for label, path in {"as described": own, "slash": f"{own}/", "dot": f"{own}/.", "relative": "data"}.items():
        probe.ask(label, AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, here)]))
    probe.ask("two", AlterReplicaLogDirsRequest([AlterReplicaLogDir("/no/such", here), AlterReplicaLogDir(own, here)]))


def quotas_of_no_number(probe: Probe) -> None:
    """Set quotas to values that are not finite, and, twice in one request, a quota of an unknown entity type."""
    for key in ("consumer_byte_rate", "request_percentage", "controller_mutation_rate", "no.such"):
        for value in (nan, inf, -inf, -0.0):
            entry = EntryData([EntityData("user", "numberless")], [OpData(key, value, False)])
            probe.ask(f"{key} {value}", AlterClientQuotasRequest([entry]))
    of_group = EntryData([EntityData("group", "x")], [OpData("consumer_byte_rate", 1.0, False)])
    probe.ask("an unknown type twice", AlterClientQuotasRequest([of_group, of_group]))


def contradicting_defaults(probe: Probe) -> None:
    """Set, and delete, broker-wide defaults of retention and local retention that contradict each other, for one broker and for all
    brokers."""

    def alter(label: str, *, name: str, **changes: str | None) -> None:
        named = {"local_ms": LOCAL_MS, "ms": MS, "local_bytes": LOCAL_BYTES, "bytes": BYTES}
        configs = [k44.AlterableConfig(named[key], DELETE if value is None else SET, value) for key, value in changes.items()]
        probe.ask(f"{label}, of {name!r}", k44.IncrementalAlterConfigsRequest([k44.AlterConfigsResource(BROKER, name, configs)]))
        resource = DescribeConfigsResource(BROKER, name, [LOCAL_MS, MS, LOCAL_BYTES, BYTES])
        then(probe, f"{label}, of {name!r}: then", DescribeConfigsRequest([resource], True))

    for of in (str(ME), ""):
        alter("more local", name=of, local_ms="5", ms="3")
        alter("above the default", name=of, local_ms="604800001")
        alter("the default", name=of, local_ms="604800000")
        alter("less in all", name=of, ms="604799999")
        alter("without limit", name=of, local_ms="-1", ms="-1")
        alter("the limit is back", name=of, ms=None)
        alter("both removed", name=of, local_ms=None, ms=None)
        alter("local bytes", name=of, local_bytes="5")
        alter("more local bytes", name=of, bytes="4")
        alter("local bytes without limit", name=of, local_bytes="-1", bytes="5")
        alter("less than nothing", name=of, local_bytes="-2", bytes="-5")
        alter("bytes removed", name=of, local_bytes=None, bytes=None)


def unusual_values(probe: Probe) -> None:
    """Set topic settings to values that Kafka does not validate, and append null, empty and repeated items to list settings."""
    create(probe, "unusual")
    policy, throttled = "cleanup.policy", "leader.replication.throttled.replicas"
    changes_of: dict[str, list[tuple[str, int, str | None]]] = {
        "negative retention": [("retention.bytes", SET, "-9223372036854775808")],
        "append null": [(policy, APPEND, None)],
        "subtract null": [(policy, SUBTRACT, None)],
        "append nothing": [(policy, APPEND, "")],
        "append two": [(policy, APPEND, " compact , delete ")],
        "subtract both": [(policy, SUBTRACT, "delete,compact")],
        "append an empty item": [(policy, APPEND, "delete,")],
        "repeated replicas": [(throttled, SET, "1:1,1:1")],
        "append repeated": [(throttled, APPEND, "2:1,1:1")],
        "subtract repeated": [(throttled, SUBTRACT, "1:1")],
        "two operations": [(policy, APPEND, "compact"), (policy, SUBTRACT, "delete")],
        "an empty name": [("", SET, "5")],
    }
    for label, changes in changes_of.items():
        configs = [k44.AlterableConfig(*change) for change in changes]
        probe.ask(label, k44.IncrementalAlterConfigsRequest([k44.AlterConfigsResource(TOPIC, "unusual", configs)]))
        resource = DescribeConfigsResource(TOPIC, "unusual", ["retention.bytes", policy, throttled])
        then(probe, f"{label}: then", DescribeConfigsRequest([resource], True))


def repeated_partitions(probe: Probe) -> None:
    """Send ElectLeaders and AlterPartitionReassignments requests that name the same partition twice."""
    create(probe, "repeated", 2)
    for label, topics in {
        "a partition": [TopicPartitions("repeated", [0, 0])],
        "a topic": [TopicPartitions("repeated", [0]), TopicPartitions("repeated", [1, 0])],
        "an unknown topic": [TopicPartitions("nowhere", [0, 0]), TopicPartitions("", [-1])],
        "no partitions": [TopicPartitions("repeated", [])],
    }.items():
        for kind in (0, 1):
            probe.ask(f"{label}, of kind {kind}", ElectLeadersRequest(kind, topics, 5_000))
    move, stay = ReassignablePartition(0, [ME]), ReassignablePartition(0, None)
    for label, moves in {
        "a partition moved": [ReassignableTopic("repeated", [move, stay])],
        "a topic moved": [ReassignableTopic("repeated", [move]), ReassignableTopic("repeated", [move])],
        "none moved": [ReassignableTopic("repeated", []), ReassignableTopic("nowhere", [stay])],
    }.items():
        probe.ask(label, AlterPartitionReassignmentsRequest(5_000, True, moves))
